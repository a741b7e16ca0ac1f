"""Out of memory at any step, a command ends with one sentence and leaves nothing behind."""

import os
import resource
import subprocess

from harness import BAD_DATA, Skipped, check, equal, set_limits, test
from files import data_set, f32, i32, npy, safetensors, world
from photos import CLIP


def least(box):
    """The address space that the program needs to start: for itself and its libraries."""
    for limit in range(4 << 20, 512 << 20, 1 << 20):
        result = box.run("version", limits={resource.RLIMIT_AS: limit})
        if result.status == 0:
            return limit
    raise Skipped("the program does not run in half a GiB of addresses: under a sanitizer?")


def goes_through(box, words, output):
    """Gives a command more and more memory until it works. Until then it reports that it has too little."""
    limit, failed, step = least(box), 0, 96 << 10
    before = box.files()
    while True:
        result = box.run(*words, "--threads", 1, limits={resource.RLIMIT_AS: limit})
        if result.status == 0:
            break
        failed += 1
        equal((result.status, result.err), (1, f"koofu {words[0]}: out of memory\n"), f"with {limit} bytes of addresses: {result}")
        equal(box.files(), before, f"the folder after {result}")
        limit += step
        step += step // 16
        check(failed < 300, f"{words} never works")
    check(failed > 3, f"{words} met {failed} limits only")
    check(not output or output in box.files(), "there is an output in the end")


@test
def a_fit(box):
    box.write("x.safetensors", data_set(n=400, dim=160, classes=20))
    goes_through(box, ["fit", "x.safetensors", "-o", "m.safetensors"], "m.safetensors")


@test
def little_stack(box):
    """A limit that can be raised is, for all threads; one that cannot be is named."""
    least(box)  # sanitizers want more of a stack
    box.write("x.safetensors", data_set(n=400, dim=160, classes=20))
    words = ["fit", "x.safetensors", "-o", "m.safetensors", "--threads", 2]
    box.works(*words)
    right, hard = box.read("m.safetensors"), resource.getrlimit(resource.RLIMIT_STACK)[1]
    for kib in (64, 256, 512):
        result = box.run(*words, limits={resource.RLIMIT_STACK: (kib << 10, hard)})
        equal((result.status, box.read("m.safetensors") == right), (0, True), f"with {kib} KiB of stack: {result}")
        # Root may raise hard limits, unless it has lost that right.
        line = ["setpriv", "--bounding-set=-sys_resource"] if os.geteuid() == 0 else []
        done = subprocess.run([*line, *box.command(*words)], cwd=box.folder, env=box.environment(), capture_output=True, text=True,
                              preexec_fn=lambda kib=kib: set_limits({resource.RLIMIT_STACK: (kib << 10, kib << 10)}), check=False)
        equal((done.returncode, done.stderr),
              (1, f"koofu: the stack is limited to {kib} KiB, but 1024 are needed (see 'ulimit -s')\n"), f"{kib} KiB at most")


@test
def texts(box):
    box.write("names.txt", "".join(f"class {i} {'x' * 200}\n" for i in range(20000)))
    box.write("few.txt", "fox\ndog\n")
    goes_through(box, ["prompts", "--classes", "names.txt", "--templates", "builtin7", "-o", "p.txt"], "p.txt")
    goes_through(box, ["embed-text", CLIP, "--classes", "few.txt", "-o", "t.safetensors"], "t.safetensors")


@test
def names_of_classes(box):
    names = [f"class {i} {'x' * 100}" for i in range(20000)]
    box.write("names.txt", "".join(f"{name}\n" for name in names))
    box.write("x.npy", npy(world()[0]))
    box.write("y.npy", npy(world()[1], dtype="<i4"))
    goes_through(box, ["convert", "x.npy", "--labels", "y.npy", "--classes", "names.txt", "-o", "d.safetensors"], "d.safetensors")


@test
def fits_that_fail(box):
    """Ordinary data errors, at different steps of a fit."""
    rows, labels = world()
    box.write("one.safetensors", data_set(classes=1))
    box.write("nan.npy", npy([[float("nan")] * 8] + rows[1:]))
    box.write("y.txt", "".join(f"{k}\n" for k in labels))
    box.write("same.safetensors", safetensors({"embeddings": ("F32", [60, 8], f32([[1.0] * 8] * 60)),
                                               "labels": ("I32", [60], i32(labels))}))
    box.write("x.npy", npy(rows))
    box.write("text.safetensors", data_set(n=3, dim=7))
    for words in (["one.safetensors"], ["one.safetensors", "--method", "paper"], ["nan.npy", "--labels", "y.txt"],
                  ["same.safetensors"], ["same.safetensors", "--lambda", "0"],
                  ["x.npy", "--labels", "y.txt", "--text", "text.safetensors"], ["x.npy", "--labels", "y.txt", "--groups", "y.txt",
                                                                                "--dim", "auto", "--reject", "0.95", "--text",
                                                                                "text.safetensors"]):
        result = box.run("fit", *words, "-o", "m.safetensors")
        check(result.status in (2, BAD_DATA), f"{result}")
        check(result.err.endswith("\n") and result.err.startswith("koofu fit: "), f"{result}")
        check("m.safetensors" not in box.files(), f"{result}")
