"""C source: it compiles without a warning and gives what transform and classify give. Arrays: numpy computes the same
from them. The folder: its YAML is what the hub reads, and the model in it is the model.

usage: check_rest.py KOOFU
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import yaml

from worlds import CASES, World

STRICT = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2"]
TOLERANCE, IN_FLOAT = 1e-6, 2e-5  # sums in double, and in float
PROBABILITIES = 5e-6              # of T in f32: scores times a temperature


def check(condition, message):
    if not condition:
        raise SystemExit(f"FAIL: {message}")


def near(got, want, most, what):
    off = float(np.max(np.abs(got - want) / np.maximum(1, np.abs(want))))
    check(got.shape == want.shape and off <= most, f"{what} is off by {off}")
    return off


def build(world, name, *flags):
    """A library of the source: of a .h, through a file that makes its functions visible."""
    source = f"{name}.c"
    if not os.path.exists(world.path(source)):
        source = "visible.c"
        with open(world.path(source), "w", encoding="utf-8") as file:
            file.write(f'''#include "{name}.h"
int dims[] = {{{name.upper()}_DIM_IN, {name.upper()}_DIM, {name.upper()}_CLASSES}};
void all_map(const float *x, float *z) {{ {name}_transform(x, z); }}
void all_scores(const float *x, float *s) {{ {name}_scores(x, s); }}
int all_best(const float *x, float *s) {{ return {name}_classify(x, s); }}
''')
        names = ("all_map", "all_scores", "all_best")
    else:
        names = (f"{name}_transform", f"{name}_scores", f"{name}_classify")
    library = world.path(f"{name}{len(os.listdir(world.folder))}.so")
    subprocess.run([*STRICT, *flags, "-shared", "-fPIC", "-nostdlib", source, "-o", library], cwd=world.folder, check=True)
    loaded = ctypes.CDLL(library)
    return loaded, [getattr(loaded, n) for n in names]


def apply(function, rows, columns):
    out = np.empty((len(rows), columns), "f4")
    for x, y in zip(rows, out):
        function(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
    return out


def source(world, number, model, rows, options, tempered):
    name = f"birds_{number}"
    case = f"{model} {' '.join(options)}"
    world.run("export", model, *options, "-o", name + (".c" if number % 2 else ".h"))
    x = np.load(world.path(rows))
    scores, probabilities = world.classify(model, rows, *options, *(["--probabilities"] if tempered else []))
    mapped = world.transform(model, rows)
    for flags, most in (((), TOLERANCE), ((f"-D{name.upper()}_REAL=float",), IN_FLOAT)):
        if flags and rows == "rows.npy":
            x = np.load(world.path("unit.npy"))  # squares of the others leave the range of float
        loaded, (to_map, to_scores, best) = build(world, name, *flags)
        near(apply(to_map, x, mapped.shape[1]), mapped, most, f"{case}: the map")
        near(apply(to_scores, x, scores.shape[1]), scores, most, f"{case}: scores")
        score = np.empty(1, "f4")
        order = np.argsort(scores if "distances:" in text_of(world, name) else -scores, axis=1, kind="stable")
        for row, nearest in zip(x[:20], order[:20, 0]):
            check(best(row.ctypes.data_as(ctypes.c_void_p), score.ctypes.data_as(ctypes.c_void_p)) == nearest, f"{case}: the nearest class")
        zero = apply(to_map, np.zeros_like(x[:1]), mapped.shape[1])
        check(not zero.any(), f"{case}: a row of zeros is mapped to {zero}")
        if number % 2 and tempered:
            likely = apply(getattr(loaded, f"{name}_probabilities"), x, scores.shape[1])
            near(likely, probabilities, PROBABILITIES if not flags else 1e-3, f"{case}: probabilities")
        if number % 2:
            called = getattr(loaded, f"{name}_class_name")
            called.restype = ctypes.c_char_p
            names = [called(k).decode() for k in range(scores.shape[1])]
            check(names == world.columns(model) and called(-1) is None and called(len(names)) is None, f"{case}: names {names}")


def text_of(world, name):
    with open(world.path(name + ".h"), encoding="utf-8") as file:
        return file.read(500)


def arrays(world):
    for model, rows in (("shrunk.safetensors", "unit.npy"), ("fused.safetensors", "unit.npy"), ("lengths.safetensors", "uneven.npy")):
        world.run("export", model, "-o", "m.npz")
        a = np.load(world.path("m.npz"))
        x = np.load(world.path(rows)).astype("f8")
        if a["normalized"]:
            x /= np.linalg.norm(x, axis=1, keepdims=True)
        z = (x - a["mean"] * a["centred"]) @ a["transform"].T
        if a["normalized"]:
            z /= np.linalg.norm(z, axis=1, keepdims=True)
        near(z, world.transform(model, rows), 1e-7, f"{model}: numpy's map")
        info = json.loads(world.run("info", "--json", model))
        check(a["classes"].tolist() == json.loads(info["metadata"]["classes"]), f"{model}: class names of the arrays")
        check(("text" in a) == (model == "fused.safetensors") and float(a["temperature"]) == info["temperature"], f"{model}: arrays {a.files}")


def folder(world):
    odd = 'a: "b" # ä\n- c'
    world.run("export", "fused.safetensors", "--license", "mit", "--base-model", odd, "-o", "page/")
    with open(world.path("page/README.md"), encoding="utf-8") as file:
        start, head, body = file.read().split("---\n", 2)
    meta = yaml.safe_load(head)
    check(start == "" and meta["library_name"] == "koofu" and meta["pipeline_tag"] == "image-classification" and "# " in body, f"README {meta}")
    check((meta["license"], meta["base_model"]) == ("mit", odd), f"README {meta}")
    with open(world.path("page/model.safetensors"), "rb") as a, open(world.path("fused.safetensors"), "rb") as b:
        check(a.read() == b.read(), "the model in the folder is the model")
    with open(world.path("page/config.json"), encoding="utf-8") as file:
        config = json.load(file)
    check(list(config["id2label"].values()) == world.columns("fused.safetensors"), f"config {config}")
    check(world.run("classify", "page/model.safetensors", "unit.npy") == world.run("classify", "fused.safetensors", "unit.npy"), "it classifies")


def main():
    with tempfile.TemporaryDirectory() as place:
        world = World(sys.argv[1], place)
        for number, case in enumerate(CASES * 2):  # an odd number of cases: each as .h and as .c
            source(world, number, *case)
        arrays(world)
        folder(world)
    print(f"C source: {2 * len(CASES)} files; arrays and folder")


main()
