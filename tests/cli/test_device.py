"""Sessions on a device: the plain twin of the plug-in for GPUs, with the limits and faults that KOOFU_TWIN sets."""

import os
import shutil
import subprocess

from harness import IO, Skipped, USAGE, check, equal, test
from files import data_set


def twin(box, limits=""):
    """The environment in which the program finds the twin."""
    path = os.path.join(os.path.dirname(box.program), "tests", "libkoofu-twin.so")
    if not os.path.exists(path):
        raise Skipped("there is no libkoofu-twin.so")
    return {"KOOFU_DEVICE_PLUGIN": path, "KOOFU_TWIN": limits}


def gallery(box):
    box.write("rows.safetensors", data_set(400, 24, 5))
    box.write("queries.safetensors", data_set(90, 24, 5, seed=2))
    box.works("fit", "rows.safetensors", "--device", "cpu", "-o", "model.safetensors")
    box.works("index", "rows.safetensors", "--model", "model.safetensors", "-o", "gallery.safetensors")
    box.works("index", "rows.safetensors", "--model", "model.safetensors", "--dtype", "bf16", "-o", "brain.safetensors")


SESSIONS = (
    ["search", "gallery.safetensors", "queries.safetensors", "-k", "7"],
    ["search", "gallery.safetensors", "queries.safetensors", "-k", "300", "--json"],
    ["search", "gallery.safetensors", "--itself", "-k", "3"],
    ["search", "brain.safetensors", "queries.safetensors", "-k", "7"],
    ["search", "brain.safetensors", "--itself", "-k", "3"],
    ["search", "gallery.safetensors", "queries.safetensors", "-k", "5", "--rerank-from-disk"],
    ["eval", "model.safetensors", "queries.safetensors", "--gallery", "gallery.safetensors", "-k", "1,5,20"],
    ["classify", "model.safetensors", "queries.safetensors", "--top", "3"],
    ["classify", "model.safetensors", "queries.safetensors", "--probabilities", "--json"],
    ["eval", "model.safetensors", "queries.safetensors"],
    ["eval", "model.safetensors", "queries.safetensors", "--json"],
)
TRANSFORMS = (
    ["transform", "model.safetensors", "queries.safetensors"],
    ["transform", "model.safetensors", "queries.safetensors", "--no-normalize", "--dtype", "f16"],
)


@test
def the_answers_of_the_cpu(box):
    gallery(box)
    for limits in ("", "devices=3 tile_rows=16", "hits=50", "memory=100000", "memory=200000", "guess=1"):
        device = "cuda:0,cuda:2" if "devices" in limits else "cuda"
        env = twin(box, limits)
        for words in SESSIONS:
            wanted = box.works(*words, "--device", "cpu")
            found = box.works(*words, "--device", device, env=env)
            equal(without_candidates(found.out), without_candidates(wanted.out), f"{words} with {limits!r}")
        if "memory" in limits:
            continue  # too little for statistics
        for words in TRANSFORMS:
            box.works(*words, "--device", "cpu", "-o", "cpu.npy")
            box.works(*words, "--device", device, "-o", "device.npy", env=env)
            equal(box.read("device.npy"), box.read("cpu.npy"), f"{words} with {limits!r}")
        box.works("fit", "rows.safetensors", "--device", device, "-o", "other.safetensors", env=env)
        equal(box.read("other.safetensors"), box.read("model.safetensors"), f"the model with {limits!r}")


def without_candidates(text):
    """How many rows were scored, and which processor did it, is not part of the answer."""
    return [line for line in text.splitlines() if "candidates" not in line and "seconds" not in line and "isa" not in line]


@test
def what_is_missing(box):
    gallery(box)
    words = SESSIONS[0]
    env = twin(box)
    if not os.path.exists(os.path.join(os.path.dirname(box.program), "libkoofu-cuda.so")):
        box.refuses(IO, *words, "--device", "cuda", naming=["no device", "make cuda"])
    box.refuses(IO, *words, "--device", "cuda", env={"KOOFU_DEVICE_PLUGIN": "/nowhere.so"}, naming=["no device", "/nowhere.so"])
    box.refuses(IO, *words, "--device", "cuda:1", env=env, naming="there is no device cuda:1: there is 1, from cuda:0 on")
    box.refuses(IO, *words, "--device", "cuda", env=twin(box, "no_driver=1"), naming="there is no driver")
    box.refuses(IO, *words, "--device", "cuda", env=twin(box, "no_open=1"), naming="it does not open")
    box.refuses(USAGE, *words, "--device", "gpu", env=env, naming="invalid device 'gpu'")
    box.refuses(USAGE, *words, env={**env, "KOOFU_DEVICE": "cuda:x"}, naming="invalid device 'cuda:x'")
    box.refuses(IO, *words, "--device", "cuda", env=twin(box, "lose_call=9"), naming="the device was lost")
    for others in (SESSIONS[7], SESSIONS[8], SESSIONS[9], [*TRANSFORMS[0], "-o", "lost.npy"]):
        box.refuses(IO, *others, "--device", "cuda", env=twin(box, "no_driver=1"), naming="there is no driver")
        box.refuses(IO, *others, "--device", "cuda", env=twin(box, "lose_call=3"), naming="the device was lost")
        box.refuses(1, *others, "--device", "cuda", env=twin(box, "memory=1000"), naming="memory left")
    check("lost.npy" not in os.listdir(box.folder), "nothing is written")
    for limits in ("no_driver=1", "no_open=1", ""):
        said = box.works(*words, "--device", "auto", env=twin(box, limits)).err
        if limits == "no_open=1":  # which would be logged
            check("cannot be used" not in said, "so little work opens no device")


@test
def version_says_what_was_found(box):
    env = twin(box, "devices=2")
    found = box.works("version", "-v", env=env).out
    for text in ("libkoofu-twin.so, plain C", "cuda:0   plain twin 0, 4.0 GiB, compute capability 1.0"):
        check(text in found, f"{text!r} in {found!r}")
    check("cuda:1" not in found, "auto takes the first device")
    found = box.works("version", "-v", "--device", "cuda:1,cuda:0", env=env).out
    check("cuda:1   plain twin 1" in found and "cuda:0" in found, found)
    check("there is no driver" in box.works("version", "-v", env=twin(box, "no_driver=1")).out, "no driver")
    check("the CPU was requested" in box.works("version", "-v", env={**env, "KOOFU_DEVICE": "cpu"}).out, "the CPU")


@test
def the_caller_does_not_choose_the_plug_in_of_others(box):
    """The caller's code in a program with the rights of another user: through the environment, or the program's name."""
    env, program = twin(box), box.program
    if os.path.exists(os.path.join(os.path.dirname(program), "libkoofu-cuda.so")):
        raise Skipped("there is a plug-in beside the program")
    box.write("bin/koofu", b"")
    shutil.copy(env["KOOFU_DEVICE_PLUGIN"], box.path("bin/libkoofu-cuda.so"))
    said = subprocess.run([box.path("bin/koofu"), "version", "-v"], executable=program, env=box.environment(), capture_output=True,
                          text=True, check=True).stdout
    check("plain twin" not in said, f"called by another name: {said}")
    if os.geteuid() != 0 or os.statvfs(box.folder).f_flag & os.ST_NOSUID:
        raise Skipped("a program cannot be given to another user here")
    shutil.copy(program, box.path("own"))
    box.program = box.path("own")
    box.become_nobody()
    os.chown(box.program, 0, 0)
    for mode, loads in ((0o755, True), (0o4755, False)):
        os.chmod(box.program, mode)
        said = box.works("version", "-v", env=env).out
        equal("plain twin" in said, loads, f"with mode {mode:o}: {said}")
