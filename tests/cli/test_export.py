"""Models for other programs, read by small parsers of our own (exported.py). `make test-export` reads them with the
programs themselves."""

import importlib.util
import json
import math
import os
import resource
import shutil
import subprocess
import sys

from exported import Graph, Index, arrays
from files import data_set, npy, read_safetensors, safetensors, f32, i32, world
from harness import BAD_DATA, IO, USAGE, Skipped, check, equal, test

NAMES = ["plain", 'a "b", c??=', "ä\t*"]
DIM = 8


def make(box, *words):
    box.write("x.safetensors", data_set(names=NAMES))
    rows, _ = world(seed=1)
    queries = [[v * 10.0 ** (i % 5 - 2) for v in row] for i, row in enumerate(rows[:12])]
    box.write("q.npy", npy(queries))
    box.works("fit", "x.safetensors", "-o", "m.safetensors", *words)
    return [list(row) for row in queries]


def fused(box):
    queries = make(box)
    rows, labels = world(n=3, seed=9)
    box.write("t.safetensors", safetensors({"embeddings": ("F32", [3, DIM], f32(rows)), "labels": ("I32", [3], i32(labels))},
                                           metadata={"classes": json.dumps(NAMES)}))
    box.works("fit", "x.safetensors", "--text", "t.safetensors", "-o", "m.safetensors")
    return queries


def mapped(box, *words):
    box.works("transform", "m.safetensors", "q.npy", "-o", "z.safetensors", *words)
    return read_safetensors(box.read("z.safetensors"))[0]["embeddings"]


def answers(box, *words):
    """[{class: (score, probability or None)}] of the queries."""
    found = json.loads(box.works("classify", "m.safetensors", "q.npy", "--json", "--top", 3, *words).out)["answers"]
    return [{k: (s, p) for k, s, p in zip(f["classes"], f["scores"], f.get("probabilities", [None] * 3))} for f in found]


def near(got, want, what, most=1e-6):
    for row, other in zip(got, want, strict=True):
        for a, b in zip(row, other, strict=True):
            check(abs(a - b) <= most * max(1, abs(b)), f"{what}: {row} and not {other}")


def graph_agrees(box, queries, *words, tempered=True):
    box.works("export", "m.safetensors", *words, "-o", "m.onnx")
    graph = Graph(box.read("m.onnx"))
    equal(graph.outputs, ["mapped", "scores"] + ["probabilities"] * tempered, "outputs")
    equal(json.loads(graph.meta["classes"]), NAMES, "class names")
    got = graph.run(queries + [[0.0] * DIM])
    want = answers(box, *words, *(["--probabilities"] if tempered else []))
    near(got["mapped"][:-1], mapped(box), f"mapped rows {words}")
    near(got["scores"][:-1], [[w[k][0] for k in NAMES] for w in want], f"scores {words}")
    if tempered:
        near(got["probabilities"][:-1], [[w[k][1] for k in NAMES] for w in want], f"probabilities {words}")
    equal(got["mapped"][-1], [0.0] * len(got["mapped"][0]), "a row of zeros")
    return graph


@test
def graphs(box):
    queries = make(box, "--reject", "0.9")
    graph = graph_agrees(box, queries)
    info = json.loads(box.works("info", "--json", "m.safetensors").out)
    equal((float(graph.meta["reject"]), float(graph.meta["temperature"])), (info["reject"], info["temperature"]), "metadata")
    graph_agrees(box, queries, "--metric", "euclidean", tempered=False)
    graph_agrees(box, queries, "--raw", tempered=False)
    graph_agrees(box, queries, "--raw", "--metric", "euclidean", tempered=False)
    graph_agrees(box, queries, "--temperature", 3)
    check("no probabilities" in box.works("export", "m.safetensors", "--raw", "-o", "m.onnx").err, "a note")
    make(box, "--method", "paper", "--lambda", "0.3x")
    graph_agrees(box, queries, tempered=False)


@test
def graphs_of_lengths(box):
    queries = make(box, "--no-normalize", "--dim", 2)
    graph_agrees(box, queries)
    graph_agrees(box, queries, "--metric", "cosine", tempered=False)
    graph_agrees(box, queries, "--raw", tempered=False)


@test
def graphs_with_text(box):
    queries = fused(box)
    graph_agrees(box, queries)
    for part in ("text", "images"):
        graph_agrees(box, queries, "--part", part, tempered=False)


@test
def priors(box):
    """Classes of different sizes, one without rows: those that take part, with what priors add to distances."""
    rows, labels = world(n=90, classes=4, seed=3)
    kept = [i for i, k in enumerate(labels) if k != 1 and (k != 2 or i < 30)]
    names = ["a", "b", "c", "d"]
    box.write("x.safetensors", safetensors({"embeddings": ("F32", [len(kept), DIM], f32([rows[i] for i in kept])),
                                            "labels": ("I32", [len(kept)], i32([labels[i] for i in kept]))},
                                           metadata={"classes": json.dumps(names)}))
    box.write("q.npy", npy(rows[:9]))
    for words in ([], ["--no-normalize"]):
        box.works("fit", "x.safetensors", "-o", "m.safetensors", *words)
        box.works("export", "m.safetensors", "-o", "m.onnx")
        graph = Graph(box.read("m.onnx"))
        equal((json.loads(graph.meta["classes"]), json.loads(graph.meta["class_numbers"])), (["a", "c", "d"], [0, 2, 3]), "classes")
        want = answers(box, "--probabilities")
        got = graph.run(rows[:9])
        near(got["scores"], [[w[k][0] for k in "acd"] for w in want], "scores")
        near(got["probabilities"], [[w[k][1] for k in "acd"] for w in want], "probabilities")


@test
def matrices_beside_the_graph(box):
    box.works("synth", "--classes", 4, "--dim", 32, "--per-class", 12, "-o", "w.safetensors")
    box.works("fit", "w.safetensors", "-o", "w-model.safetensors")
    box.works("export", "w-model.safetensors", "-o", "in.onnx")
    box.works("export", "w-model.safetensors", "--inline-bytes", 1000, "-o", "out.onnx")
    check(not os.path.exists(box.path("in.onnx.data")), "a small graph is one file")
    rows = [[math.sin(i * 32 + k) for k in range(32)] for i in range(3)]
    inside, outside = Graph(box.read("in.onnx")), Graph(box.read("out.onnx"), {"out.onnx.data": box.read("out.onnx.data")})
    equal(outside.outside, {"transform"}, "what is outside")
    equal(outside.run(rows), inside.run(rows), "answers")
    box.works("export", "w-model.safetensors", "--single", "-o", "s.onnx")
    single = Graph(box.read("s.onnx"))
    check(not any(n[4] == [b"Cast"] for n in single.nodes), "f32 has no casts")
    near(single.run(rows)["scores"], inside.run(rows)["scores"], "scores in f32", 1e-5)


@test
def indexes(box):
    queries = make(box)
    box.write("ids.txt", "".join(f"{7 * i}\n" for i in range(60)))
    box.write("words.txt", "".join(f"row {i}\n" for i in range(60)))
    for metric in ("cosine", "euclidean", "inner"):
        for model in (["--model", "m.safetensors"], []):
            raw = [] if model else ["--raw"]
            box.works("index", "x.safetensors", "--ids", "ids.txt", "--metric", metric, *model, "-o", "g.safetensors")
            box.works("export", "m.safetensors", "--gallery", "g.safetensors", *raw, "-o", "g.faiss")
            index = Index(box.read("g.faiss"))
            found = json.loads(box.works("search", "g.safetensors", "q.npy", "-k", 3, "--json").out)
            for x, answer in zip(queries, found["answers"], strict=True):
                ids, scores = index.search(x, 3)
                equal([str(i) for i in ids], [n["id"] for n in answer["neighbours"]], f"neighbours {metric} {model}")
                near([scores], [[n["score"] for n in answer["neighbours"]]], f"scores {metric} {model}", 1e-5)
            box.works("export", "m.safetensors", "--metric", metric, *raw, "-o", "e.faiss")
            equal(Index(box.read("e.faiss")).rows, [], "an empty index")
    box.works("index", "x.safetensors", "--ids", "words.txt", "--model", "m.safetensors", "-o", "g.safetensors")
    check("row numbers" in box.works("export", "m.safetensors", "--gallery", "g.safetensors", "-o", "g.faiss").err, "words are no ids")
    equal(Index(box.read("g.faiss")).ids, None, "no ids")


@test
def arrays_of_numpy(box):
    make(box)
    box.works("export", "m.safetensors", "-o", "m.npz")
    found = arrays(box.read("m.npz"))
    tensors, metadata = read_safetensors(box.read("m.safetensors"))
    for name, values in tensors.items():
        equal(found[name], values, name)
    equal(found["classes"], NAMES, "class names")
    equal(float(metadata["temperature"]), found["temperature"], "temperature")
    check("transform" in box.works("info", "m.npz").out, "info reads it")


@test
def folder_for_the_hub(box):
    make(box)
    box.works("export", "m.safetensors", "--license", "mit", "-o", "birds")
    equal(box.read("birds/model.safetensors"), box.read("m.safetensors"), "the model")
    config = json.loads(box.read("birds/config.json"))
    equal((config["model_type"], list(config["id2label"].values())), ("koofu", NAMES), "config.json")
    start, head, body = box.read("birds/README.md").decode().split("---\n", 2)
    check(start == "" and "library_name: koofu\n" in head and 'license: "mit"\n' in head and "# " in body, "README.md")
    box.works("classify", "birds/model.safetensors", "q.npy")
    # Again, with a page that somebody has written on.
    box.write("birds/README.md", "mine\n")
    result = box.works("export", "m.safetensors", "-o", "birds/")
    equal((box.read("birds/README.md"), "left as it is" in result.err), (b"mine\n", True), "README.md")
    # Beside other files, and not over those of others.
    box.write("v1.0/.gitattributes", "x")
    box.works("export", "m.safetensors", "-o", "v1.0/")
    box.write("theirs/config.json", '{"model_type": "clip"}')
    box.refuses(USAGE, "export", "m.safetensors", "-o", "theirs", naming=["theirs", "config.json", "another folder"])
    box.write("weights/model.safetensors", "x")
    box.refuses(USAGE, "export", "m.safetensors", "-o", "weights/", naming="model.safetensors")


PROGRAM = r"""
#include <stdio.h>
#include "NAME.h"
int main(void) {
  float x[UPPER_DIM_IN], z[UPPER_DIM], s[UPPER_CLASSES], p[UPPER_CLASSES], best;
  int i;
  for (;;) {
    for (i = 0; i < UPPER_DIM_IN; i++) if (scanf("%f", &x[i]) != 1) return 0;
    NAME_transform(x, z);
    NAME_scores(x, s);
    NAME_probabilities(x, p);
    for (i = 0; i < UPPER_DIM; i++) printf("%.9g ", (double)z[i]);
    for (i = 0; i < UPPER_CLASSES; i++) printf("%.9g ", (double)s[i]);
    for (i = 0; i < UPPER_CLASSES; i++) printf("%.9g ", (double)p[i]);
    i = NAME_classify(x, &best);
    printf("%.9g|%s\n", (double)best, NAME_class_name(i));
  }
}
"""


@test
def source(box):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise Skipped("there is no C compiler")
    strict = [compiler, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    for words in ([], ["--no-normalize"], ["text"]):
        queries = fused(box) if words == ["text"] else make(box, *words)
        want, rows = answers(box, "--probabilities"), mapped(box)
        for ending, name in ((".h", "my birds-2"), (".c", "birds")):
            c = name.replace(" ", "_").replace("-", "_")
            box.works("export", "m.safetensors", "-o", name + ending)
            box.write("main.c", PROGRAM.replace("NAME.h", name + ".h").replace("NAME", c).replace("UPPER", c.upper()))
            files = ["main.c"] + (["birds.c"] if ending == ".c" else [])
            subprocess.run([*strict, *files, "-o", "program"], cwd=box.folder, check=True)
            text = "\n".join(" ".join(f"{v:.9g}" for v in x) for x in [*queries, [0.0] * DIM])
            lines = subprocess.run([box.path("program")], input=text.encode(), capture_output=True, check=True).stdout.decode().splitlines()
            for line, z, w in zip(lines, rows, want):
                numbers, _, best = line.partition("|")
                got = [float(v) for v in numbers.split()]
                n = len(z)
                near([got[:n]], [z], "mapped rows in C")
                near([got[n:n + 3]], [[w[k][0] for k in NAMES]], "scores in C")
                near([got[n + 3:n + 6]], [[w[k][1] for k in NAMES]], "probabilities in C", 5e-6)
                equal(best, next(iter(w)), "the nearest class in C")
            equal([float(v) for v in lines[len(rows)].split()[:len(rows[0])]], [0.0] * len(rows[0]), "a row of zeros in C")
            os.remove(box.path(name + ending))


@test
def what_cannot_be(box):
    make(box)
    box.works("index", "x.safetensors", "-o", "plain.safetensors")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    box.works("fit", "x.safetensors", "--lambda", "7x", "-o", "other.safetensors")
    box.write("folder.onnx/x", "x")
    for out, status, naming in [("m.pb", USAGE, [".onnx", ".faiss", "m.pb"]), ("a.b/c.bin", USAGE, ".npz"), (".onnx", USAGE, "extension"),
                                ("no/m.onnx", IO, "no/m.onnx"), ("no/birds", IO, "no/birds"), ("folder.onnx", IO, "folder.onnx"),
                                ("m.safetensors", USAGE, "input"), ("-", USAGE, "file name"), ("q.npy/birds", IO, "q.npy/birds")]:
        box.refuses(status, "export", "m.safetensors", "-o", out, naming=naming)
    for status, naming, *words in [
            (USAGE, "gallery", "--gallery", "g.safetensors", "-o", "m.onnx"), (USAGE, "metric", "--metric", "cosine", "-o", "m.npz"),
            (USAGE, "part", "--part", "images", "-o", "m.faiss"), (USAGE, "temperature", "--temperature", 2, "-o", "birds"), (USAGE, "licence", "--license", "mit", "-o", "m.c"),
            (USAGE, "no text", "--part", "text", "-o", "m.onnx"), (USAGE, "metric", "--metric", "inner", "-o", "m.onnx"),
            (BAD_DATA, "original space", "--gallery", "plain.safetensors", "-o", "m.faiss"),
            (BAD_DATA, "mapped", "--gallery", "g.safetensors", "--raw", "-o", "m.faiss"),
            (USAGE, "cosine", "--gallery", "g.safetensors", "--metric", "euclidean", "-o", "m.faiss"),
            (BAD_DATA, "gallery", "--gallery", "m.safetensors", "-o", "m.faiss"),
            (IO, "nothing.safetensors", "--gallery", "nothing.safetensors", "-o", "m.faiss")]:
        box.refuses(status, "export", "m.safetensors", *words, naming=naming)
    box.refuses(BAD_DATA, "export", "other.safetensors", "--gallery", "g.safetensors", "-o", "m.faiss", naming="another model")
    box.refuses(BAD_DATA, "export", "x.safetensors", "-o", "m.onnx", naming="x.safetensors")


@test
def a_full_disk(box):
    """No file, or part of a set of files, is left, and older ones are unchanged."""
    make(box)
    for name in ("m.onnx", "m.faiss", "m.npz", "m.c", "m.h"):
        box.write(name, "older")
    for out in ("m.onnx", "m.faiss", "m.npz", "m.c", "m.h", "birds", "new.onnx", "new.c"):
        box.refuses(IO, "export", "m.safetensors", "-o", out, limits={resource.RLIMIT_FSIZE: 300}, naming="cannot be written")
    box.refuses(IO, "export", "m.safetensors", "-o", "new.onnx", "--inline-bytes", 1, limits={resource.RLIMIT_FSIZE: 100}, naming="new.onnx")


@test
def no_permission(box):
    make(box)
    os.mkdir(box.path("locked"))
    box.become_nobody()
    os.chmod(box.path("locked"), 0o555)
    for out in ("locked/m.onnx", "locked/m.c", "locked/birds", "locked/"):
        box.refuses(IO, "export", "m.safetensors", "-o", out, naming=["locked", "denied"])


@test
def the_programs_themselves(box):
    """tests/export, as far as the programs are installed; `make test-export` has them all."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "export")
    needs = {"onnx": ["numpy", "onnx", "onnxruntime"], "faiss": ["numpy", "faiss"]}
    missing = {p for packages in needs.values() for p in packages if not importlib.util.find_spec(p)}
    for name, packages in needs.items():
        if not missing.intersection(packages):
            subprocess.run([sys.executable, "-B", os.path.join(folder, f"check_{name}.py"), box.program], check=True)
    if missing:
        raise Skipped(f"no {', '.join(sorted(missing))} here; 'make test-export' has them")
