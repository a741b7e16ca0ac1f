"""Graphs: onnx's checker accepts them, and onnxruntime gives what transform and classify give.

usage: check_onnx.py KOOFU
"""

import json
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

from worlds import CASES, World

TOLERANCE = 1e-6  # of unit rows, cosines and probabilities; of distances, times their size
IN_F32 = 2e-5     # with --single
worst = {}


def check(condition, message):
    if not condition:
        raise SystemExit(f"FAIL: {message}")


def near(got, want, what, case, most=TOLERANCE):
    check(got.shape == want.shape, f"{case}: {what} has the shape {got.shape}, not {want.shape}")
    difference = float(np.max(np.abs(got - want) / np.maximum(1, np.abs(want))))
    check(difference <= most, f"{case}: {what} is off by {difference}")
    worst[what] = max(worst.get(what, 0), difference)


def load(world, path):
    onnx.checker.check_model(world.path(path), full_check=True)
    model = onnx.load(world.path(path))
    check([(o.domain, o.version) for o in model.opset_import] == [("", 17)], "opset 17")
    session = onnxruntime.InferenceSession(world.path(path), providers=["CPUExecutionProvider"])
    return model, session


def compare(world, model, rows, options, tempered):
    case = f"{model} {' '.join(options)}"
    world.run("export", model, *options, "-o", "m.onnx")
    graph, session = load(world, "m.onnx")
    names = [o.name for o in session.get_outputs()]
    check(names == ["mapped", "scores"] + ["probabilities"] * tempered, f"{case}: outputs {names}")
    x = np.load(world.path(rows))
    got = dict(zip(names, session.run(None, {"rows": x})))
    meta = {p.key: p.value for p in graph.metadata_props}
    check(json.loads(meta["classes"]) == world.columns(model), f"{case}: class names")
    more = ["--probabilities"] if tempered else []
    scores, probabilities = world.classify(model, rows, *options, *more)
    near(got["mapped"], world.transform(model, rows), "mapped", case)
    near(got["scores"], scores, "scores", case)
    if tempered:
        near(got["probabilities"], probabilities, "probabilities", case)
    # Zero rows among others; one row, and none.
    zero = np.vstack([x[:2], np.zeros_like(x[:1]), x[2:3]])
    again = dict(zip(names, session.run(None, {"rows": zero})))
    check(not again["mapped"][2].any(), f"{case}: a zero row is not mapped to zeros")
    check(all(np.isfinite(v).all() for v in again.values()), f"{case}: a zero row gives {again}")
    near(again["mapped"][[0, 1, 3]], got["mapped"][:3], "mapped", case)
    check(session.run(None, {"rows": x[:1]})[0].shape[0] == 1 and session.run(None, {"rows": x[:0]})[0].shape[0] == 0, f"{case}: N")
    return graph, got


def singles(world, model, rows, options, tempered):
    """The same in f32, which no cast may leave."""
    case = f"{model} {' '.join(options)} --single"
    world.run("export", model, *options, "--single", "-o", "s.onnx")
    graph, session = load(world, "s.onnx")
    check(all(t.data_type == onnx.TensorProto.FLOAT for t in graph.graph.initializer) and
          all(n.op_type != "Cast" for n in graph.graph.node), f"{case}: there is more than f32")
    got = session.run(None, {"rows": np.load(world.path(rows))})
    near(got[0], world.transform(model, rows), "mapped in f32", case, IN_F32)
    more = ["--probabilities"] if tempered else []
    near(got[1], world.classify(model, rows, *options, *more)[0], "scores in f32", case, IN_F32)
    check(len(got) == 2 + tempered, f"{case}: outputs")


def zero_rows(world):
    """Beside transform --skip-bad, which is the only way to take them through the program."""
    x = np.load(world.path("rows.npy"))[:4]
    x[1] = 0
    np.save(world.path("zero.npy"), x)
    for model in ("shrunk.safetensors", "paper.safetensors", "lengths.safetensors"):
        world.run("export", model, "--no-normalize", "-o", "z.onnx")
        got = load(world, "z.onnx")[1].run(["mapped"], {"rows": x})[0]
        want = world.transform(model, "zero.npy", "--skip-bad", "--no-normalize")
        scale = np.abs(want).max(axis=1, keepdims=True) + (want == 0).all(axis=1, keepdims=True)
        near(got / scale, want / scale, "zero rows", model)
        check(not want[1].any(), "transform gives zeros for a zero row")


def outside(world):
    """Matrices in a file beside the graph."""
    x = np.load(world.path("rows.npy"))
    world.run("export", "fused.safetensors", "-o", "in.onnx")
    world.run("export", "fused.safetensors", "--inline-bytes", 3000, "-o", "out.onnx")
    inside, beside = load(world, "in.onnx")[1], load(world, "out.onnx")[1]
    for a, b in zip(inside.run(None, {"rows": x}), beside.run(None, {"rows": x})):
        check(np.array_equal(a, b), "external data change the answers")
    graph = onnx.load(world.path("out.onnx"), load_external_data=False).graph
    places = [t.name for t in graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    check(sorted(places) == ["prototypes_f32", "transform"], f"outside: {places}")


def thresholds(world):
    graph = compare(world, *CASES[0])[0]
    meta = {p.key: p.value for p in graph.metadata_props}
    info = json.loads(world.run("info", "--json", "shrunk.safetensors"))
    check(float(meta["reject"]) == info["reject"] and float(meta["temperature"]) == info["temperature"], f"metadata {meta}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(sys.argv[1], folder)
        for case in CASES:
            compare(world, *case)
            singles(world, *case)
        zero_rows(world)
        outside(world)
        thresholds(world)
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: {len(CASES)} graphs; the most they are off: "
          + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))


main()
