"""Outputs appear whole or not at all."""

import os
import signal
import subprocess
import time

from harness import IO, USAGE, Skipped, check, equal, test
from files import data_set, npy, world


def prepare(box):
    box.write("x.safetensors", data_set())
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.works("fit", "s.safetensors", "-o", "m.safetensors")


def writers(output):
    """Every command that writes a file."""
    yield ["convert", "x.safetensors", "-o", output]
    yield ["stats", "x.safetensors", "-o", output]
    yield ["merge", "s.safetensors", "-o", output]
    yield ["fit", "s.safetensors", "-o", output]
    yield ["transform", "m.safetensors", "x.safetensors", "-o", output]
    yield ["classify", "m.safetensors", "x.safetensors", "-o", output]
    yield ["add-class", "m.safetensors", "new", "x.safetensors", "-o", output]
    yield ["synth", "--classes", 3, "--dim", 8, "-o", output]


@test
def onto_an_input(box):
    prepare(box)
    os.link(box.path("x.safetensors"), box.path("hard.safetensors"))
    os.symlink("m.safetensors", box.path("soft.safetensors"))
    box.write("y.txt", "".join(f"{k}\n" for k in world()[1]))
    box.write("x.npy", npy(world()[0]))
    os.mkdir(box.path("shards"))
    box.write("shards/a.safetensors", data_set())
    for words in (["convert", "x.safetensors", "-o", "x.safetensors"], ["convert", "x.safetensors", "-o", "./x.safetensors"],
                  ["convert", "x.safetensors", "-o", "hard.safetensors"], ["stats", "x.safetensors", "-o", "hard.safetensors"],
                  ["merge", "s.safetensors", "-o", "s.safetensors"], ["fit", "s.safetensors", "-o", "s.safetensors"],
                  ["fit", "x.safetensors", "--between", "s.safetensors", "-o", "s.safetensors"],
                  ["transform", "m.safetensors", "x.safetensors", "-o", "x.safetensors"],
                  ["transform", "m.safetensors", "x.safetensors", "-o", "m.safetensors"],
                  ["classify", "m.safetensors", "x.safetensors", "-o", "soft.safetensors"],
                  ["add-class", "m.safetensors", "new", "x.safetensors", "-o", "m.safetensors"],
                  ["add-class", "m.safetensors", "new", "x.safetensors", "-o", "soft.safetensors"],
                  ["stats", "x.npy", "--labels", "y.txt", "-o", "y.txt"],
                  ["convert", "shards", "-o", "shards/a.safetensors"],
                  ["convert", "shards/*.safetensors", "-o", "shards/a.safetensors"]):
        box.refuses(USAGE, *words, naming=[str(words[-1]), "input"])


@test
def replaces_an_older_output(box):
    prepare(box)
    before = box.read("m.safetensors")
    box.works("fit", "s.safetensors", "--dim", 2, "-o", "m.safetensors")
    check(box.read("m.safetensors") != before, "the file is new")


@test
def places_that_cannot_be(box):
    prepare(box)
    os.mkdir(box.path("folder.safetensors"))
    os.mkfifo(box.path("pipe.safetensors"))
    for output in ("folder.safetensors", "pipe.safetensors", "absent/o.safetensors", "x.safetensors/o.safetensors",
                   "/proc/o.safetensors", "/dev/null", "/dev/stdout"):
        for words in writers(output):
            box.refuses(IO, *words, naming=output)
    for words in writers("-"):
        if words[0] != "classify":
            box.refuses(USAGE, *words, naming="file name")


@test
def folder_without_permission(box):
    prepare(box)
    os.mkdir(box.path("closed"))
    os.chmod(box.path("closed"), 0o500)
    box.become_nobody()
    try:
        for words in writers("closed/o.safetensors"):
            box.refuses(IO, *words, naming="closed/o.safetensors")
    finally:
        os.chmod(box.path("closed"), 0o700)


@test
def unreadable_input(box):
    prepare(box)
    os.chmod(box.path("x.safetensors"), 0)
    box.become_nobody()
    box.refuses(IO, "stats", "x.safetensors", "-o", "o.safetensors", naming="x.safetensors")


@test
def disk_full_on_stdout(box):
    prepare(box)
    for words in (["classify", "m.safetensors", "x.safetensors"], ["eval", "m.safetensors", "x.safetensors"],
                  ["info", "x.safetensors"], ["help"], ["version"], ["fit", "--help"]):
        with open("/dev/full", "wb") as full:
            result = box.run(*words, stdout=full)
        equal(result.status, IO, f"{result}")
        check("standard output" in result.err and result.err.count("\n") == 1, f"{result}")


@test
def disk_full(box):
    os.mkdir(box.path("disk"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", box.path("disk")], capture_output=True, check=False)
    if mounted.returncode != 0:
        raise Skipped("a small file system cannot be mounted here")
    try:
        box.write("x.safetensors", data_set(n=600, dim=32))
        box.works("stats", "x.safetensors", "-o", "s.safetensors")
        box.works("fit", "s.safetensors", "-o", "m.safetensors")
        for words in writers("disk/o.safetensors"):
            if words[0] == "synth":
                words += ["--per-class", 1000]
            box.refuses(IO, *words, naming="disk/o.safetensors")
            equal(os.listdir(box.path("disk")), [], f"the disk after {words[0]}")
    finally:
        subprocess.run(["umount", box.path("disk")], check=False)


@test
def keeps_the_old_file_when_it_fails(box):
    prepare(box)
    rows, labels = world()
    rows[50] = [float("nan")] * 8
    box.write("bad.npy", npy(rows))
    box.write("y.txt", "".join(f"{k}\n" for k in labels))
    box.write("o.safetensors", "old")
    for words in (["convert", "bad.npy", "--labels", "y.txt"], ["stats", "bad.npy", "--labels", "y.txt"],
                  ["fit", "bad.npy", "--labels", "y.txt"], ["transform", "m.safetensors", "bad.npy"],
                  ["classify", "m.safetensors", "bad.npy"], ["add-class", "m.safetensors", "new", "bad.npy"]):
        box.refuses(3, *words, "-o", "o.safetensors", naming="bad.npy")
    equal(box.read("o.safetensors"), b"old", "the old file")


def stopped(box, number, words, leaves):
    """Runs a long command and stops it half-way."""
    process = box.start(*words)
    time.sleep(0.5)
    check(process.poll() is None, f"{words[0]} is over before it can be stopped")
    process.send_signal(number)
    begun = time.monotonic()
    out, err = process.communicate(timeout=60)
    equal(process.returncode, 1, f"status of a stopped {words[0]}, with stderr {err!r}")
    equal(err.decode(), f"koofu {words[0]}: stopped by a signal\n", "message")
    equal(box.files(), leaves, "files")
    check(time.monotonic() - begun < 10, "it took too long to stop")


@test
def stopped_by_a_signal(box):
    long = ["--dim", 1024, "--classes", 1000, "--per-class", 100000]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        stopped(box, number, ["synth", *long, "-o", "o.safetensors"], set())
    size = 3_000_000
    with open(box.path("big.fbin"), "wb") as file:  # sparse zeros are bad rows, which are skipped
        file.write(size.to_bytes(4, "little") + (512).to_bytes(4, "little"))
        file.truncate(8 + size * 512 * 4)
    box.write("y.npy", npy([0, 1] * (size // 2), "<i4"))
    words = ["big.fbin", "--labels", "y.npy", "--skip-bad", "--threads", "1", "--isa", "plain", "-o", "o.safetensors"]
    for command in ("stats", "fit", "convert"):
        stopped(box, signal.SIGTERM, [command, *words], {"big.fbin", "y.npy"})


@test
def killed_at_once_leaves_nothing(box):
    process = box.start("synth", "--dim", 1024, "--per-class", 100000, "-o", "o.safetensors")
    time.sleep(0.5)
    process.kill()
    process.communicate()
    if box.files():
        raise Skipped("this file system has no unnamed files (O_TMPFILE)")
