"""Statistics and fits with the twin in place of a GPU: the bytes and the errors of the CPU."""

import os

import files
from harness import BAD_DATA, IO, Skipped, check, equal, test


def twin(box, **faults):
    """The environment in which devices are the twin's."""
    plugin = os.path.join(os.path.dirname(box.program), "tests", "libkoofu-twin.so")
    if not os.path.exists(plugin):
        raise Skipped("there is no twin")
    said = " ".join(f"{name}={value}" for name, value in {"devices": 2, **faults}.items())
    return {"KOOFU_DEVICE_PLUGIN": plugin, "KOOFU_TWIN": said}


def rows(box, dtype="f16"):
    box.works("synth", "-q", "-o", "rows.safetensors", "--classes", 20, "--dim", 40, "--per-class", 60, "--dtype", dtype)


@test
def a_device_gives_the_bytes_of_the_cpu(box):
    env = twin(box)
    for dtype in "f32", "f16", "bf16":
        rows(box, dtype)
        for command in ("stats",), ("stats", "--no-normalize"), ("fit",), ("fit", "--dim", "auto", "--lambda", "0.1x"):
            box.works(*command, "rows.safetensors", "-o", "cpu.safetensors", "--device", "cpu", env=env)
            for device in "cuda", "cuda:1", "cuda:0,cuda:1":
                box.works(*command, "rows.safetensors", "-o", "device.safetensors", "--device", device, env=env)
                equal(box.read("device.safetensors"), box.read("cpu.safetensors"), f"{dtype}, {command}, {device}")


@test
def a_bad_row_is_the_same_error_on_a_device(box):
    env = twin(box)
    values = [[1.0, 2.0, 3.0], [4.0, float("nan"), 6.0], [7.0, 8.0, 9.0]]
    box.write("x.npy", files.npy(values))
    box.write("y.txt", "a\nb\na\n")
    said = [box.run("stats", "x.npy", "--labels", "y.txt", "-o", "s.safetensors", "--device", device, env=env)
            for device in ("cpu", "cuda")]
    equal(said[1].status, BAD_DATA, "the status")
    equal(said[1].err, said[0].err, "the message")
    check("x.npy, row 1: column 1 is NaN" in said[1].err, said[1].err)
    for device in "cpu", "cuda":
        skipped = box.works("stats", "x.npy", "--labels", "y.txt", "--skip-bad", "-o", f"{device}.safetensors", "--device", device,
                            env=env)
        check("left out 1 of 3 rows: 1 bad" in skipped.err, str(skipped))
    equal(box.read("cuda.safetensors"), box.read("cpu.safetensors"), "statistics without the bad row")


@test
def a_device_that_is_lost_is_an_error_if_it_was_asked_for(box):
    rows(box)
    for call in range(1, 5):
        result = box.run("stats", "rows.safetensors", "-o", "s.safetensors", "--device", "cuda", env=twin(box, lose_call=call))
        equal(result.status, IO, f"call {call}: {result}")
        check("cuda:0" in result.err, str(result))
        check("s.safetensors" not in box.files(), "no file is left")
