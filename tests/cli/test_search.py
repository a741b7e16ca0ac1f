"""Galleries: what koofu index makes, what koofu search finds, and how neighbours vote, compared with numpy in double
precision."""

import collections
import json
import math
import os
import random
import shutil
import subprocess

from harness import BAD_DATA, IO, USAGE, Skipped, check, equal, test
from files import data_set, differences, f32, i32, npy, read_safetensors, safetensors, world

try:
    import numpy as np
except ImportError:
    np = None

NAN = float("nan")
METRICS = ("cosine", "euclidean", "inner")


def oracle():
    if np is None:
        raise Skipped("numpy is not installed")


def uneven(n, dim, seed):
    """Rows of all lengths, so that the three metrics disagree."""
    rng = random.Random(seed)
    return [[rng.gauss(0, 1) * (1 + i % 5) for _ in range(dim)] for i in range(n)]


def load(box, name):
    return np.load(box.path(name))


def tensors(box, name):
    data = box.read(name)
    size = int.from_bytes(data[:8], "little")
    types = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4"}
    return {key: np.frombuffer(data[8 + size:][about["data_offsets"][0]:about["data_offsets"][1]],
                               types[about["dtype"]]).reshape(about["shape"])
            for key, about in json.loads(data[8:8 + size]).items() if key != "__metadata__"}


def unit(rows):
    return rows / np.sqrt((rows * rows).sum(axis=1, keepdims=True))


def mapped(model, rows, centred=True):
    return (unit(np.asarray(rows, "f4").astype("f8")) - (model["mean"] if centred else 0)) @ model["transform"].T


def all_scores(gallery, queries, metric):
    """[queries, rows], in double precision, of rows as a gallery holds them."""
    g, q = (np.asarray(a, "f8") for a in (gallery, queries))
    if metric == "cosine":
        g, q = unit(g), unit(q)
    if metric == "euclidean":
        return np.sqrt(((q[:, None, :] - g[None, :, :]) ** 2).sum(axis=2))
    return q @ g.T


def best(scores, metric, k):
    """Row numbers, best first; equal scores go to the lower one."""
    return np.argsort(scores if metric == "euclidean" else -scores, axis=1, kind="stable")[:, :k]


def check_answers(rows, scores, wanted, metric, what, tolerance=1e-12):
    """The scores are those of the best rows, and each is the score of the row beside it."""
    k = rows.shape[1]
    scale = np.abs(wanted).max() * tolerance
    ideal = np.take_along_axis(wanted, best(wanted, metric, k), axis=1)
    check(np.abs(scores - ideal).max() <= scale, f"{what}: scores differ from the best by {np.abs(scores - ideal).max()}")
    own = np.take_along_axis(wanted, rows, axis=1)
    check(np.abs(scores - own).max() <= scale, f"{what}: scores are not those of their rows")
    check(all(len(set(row)) == k for row in rows.tolist()), f"{what}: a row comes twice")


def write_rows(box, n=300, queries=40, dim=24):
    """g.npy and q.npy, as f32 in double precision."""
    g, q = uneven(n, dim, 1), uneven(queries, dim, 2)
    box.write("g.npy", npy(g))
    box.write("q.npy", npy(q))
    return np.asarray(g, "f4").astype("f8"), np.asarray(q, "f4").astype("f8")


def with_gallery(box, **more):
    """x.safetensors, its model m and mapped gallery g, a raw gallery r."""
    box.write("x.safetensors", data_set(**more))
    box.works("fit", "x.safetensors", "--dim", 4, "-o", "m.safetensors", "-q")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors", "-q")
    box.works("index", "x.safetensors", "-o", "r.safetensors", "-q")


# --- making galleries


@test
def index_says_what_it_wrote(box):
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "--dim", 4, "-o", "m.safetensors")
    result = box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    check(result.err.startswith("wrote g.safetensors: 60 rows of 4 f32, 3 classes ("), f"{result}")
    box.write("x.npy", npy(world()[0]))
    result = box.works("index", "x.npy", "-o", "r.safetensors")
    check(result.err.startswith("wrote r.safetensors: 60 rows of 8 f32, no labels ("), f"{result}")


@test
def info_of_a_gallery(box):
    with_gallery(box)
    about = json.loads(box.works("info", "--json", "g.safetensors").out)
    equal([about[k] for k in ("kind", "rows", "dim", "dim_out", "classes", "metric")], ["gallery", 60, 8, 4, 3, "cosine"], "info")
    text = box.works("info", "g.safetensors").out
    check("g.safetensors: gallery" in text and "8 -> 4" in text, text)
    box.works("index", "x.safetensors", "--metric", "inner", "-o", "i.safetensors")
    text = box.works("info", "i.safetensors").out
    check("dimensions   8\n" in text and "metric       inner\n" in text, text)


@test
def append_is_the_same_as_in_one_go(box):
    rows, labels = world(n=90)
    names = ["ant", "bee", "cat"]
    for name, part in (("all", slice(0, 90)), ("a", slice(0, 40)), ("b", slice(40, 90))):
        box.write(f"{name}.npy", npy(rows[part]))
        box.write(f"{name}.txt", "".join(f"{names[k]}\n" for k in labels[part]))
        box.write(f"{name}.ids", "".join(f"photo {i}\n" for i in range(90)[part]))
    box.works("fit", "all.npy", "--labels", "all.txt", "--dim", 5, "-o", "m.safetensors")

    def words(name):
        return [f"{name}.npy", "--labels", f"{name}.txt", "--ids", f"{name}.ids"]

    for how in ([], ["--model", "m.safetensors"], ["--metric", "euclidean"], ["--metric", "inner"]):
        box.works("index", *words("all"), *how, "-o", "one.safetensors")
        box.works("index", *words("a"), *how, "-o", "grown.safetensors")
        before = box.files()
        box.works("index", *words("b"), "--append", "grown.safetensors", "-o", "other.safetensors")
        equal(box.read("other.safetensors") == box.read("one.safetensors"), True, f"appended to another file, {how}")
        result = box.works("index", *words("b"), "--append", "grown.safetensors")
        check(result.err.startswith("wrote grown.safetensors: 50 rows added, 90 in all; "), f"{result}")
        for words_of in (["all.npy"], ["--itself"]):
            if how[:1] != ["--model"] or words_of == ["--itself"]:
                same = [box.works("search", name, *words_of, "-k", 7).out for name in ("grown.safetensors", "one.safetensors")]
                equal(same[0], same[1], f"answers of a gallery that has grown, {how}")
        result = box.works("index", "grown.safetensors", "--compact")
        check(result.err.startswith("wrote grown.safetensors: 90 rows, "), f"{result}")
        equal(differences(box.read("grown.safetensors"), box.read("one.safetensors")), {"batches", "checksum"}, f"grown in place, {how}")
        equal(box.files() - before, {"other.safetensors"}, "files")
        os.unlink(box.path("other.safetensors"))


@test
def append_brings_new_classes(box):
    box.write("a.safetensors", data_set(names=["ant", "bee", "cat"]))
    box.write("b.safetensors", data_set(names=["bee", "dog", "ant"], seed=2))
    box.works("index", "a.safetensors", "-o", "g.safetensors")
    result = box.works("index", "b.safetensors", "--append", "g.safetensors")
    check("60 rows added, 120 in all" in result.err, f"{result}")
    check("4" in box.works("info", "g.safetensors").out, "classes")
    out = box.works("search", "g.safetensors", "b.safetensors", "-k", 1).out
    labels = [line.split("\t")[2] for line in out.splitlines()[1:]]
    equal(labels, [["bee", "dog", "ant"][i % 3] for i in range(60)], "labels of the rows themselves")


@test
def append_that_fails_leaves_the_gallery(box):
    with_gallery(box)
    rows, labels = world()
    rows[50] = [NAN] * 8
    box.write("bad.npy", npy(rows))
    box.write("nine.safetensors", data_set(dim=9))
    box.write("bare.npy", npy(world()[0]))
    box.write("few.ids", "one\n")
    for status, words, naming in (
            (BAD_DATA, ["bad.npy", "--append", "r.safetensors"], ""),
            (BAD_DATA, ["nine.safetensors", "--append", "g.safetensors"], ["9", "8"]),
            (BAD_DATA, ["bare.npy", "--append", "g.safetensors"], "label"),
            (BAD_DATA, ["x.safetensors", "--ids", "few.ids", "-o", "o.safetensors"], "few.ids"),
            (BAD_DATA, ["x.safetensors", "--append", "m.safetensors", "-o", "o.safetensors"], ["m.safetensors: is a model", "koofu index"]),
            (BAD_DATA, ["x.safetensors", "--append", "x.safetensors", "-o", "o.safetensors"], ["x.safetensors: is a data set"]),
            (IO, ["x.safetensors", "--append", "absent.safetensors"], "absent.safetensors"),
            (USAGE, ["x.safetensors", "--append", "g.safetensors", "--model", "m.safetensors"], "--model"),
            (USAGE, ["x.safetensors", "--append", "g.safetensors", "--metric", "euclidean"], "metric")):
        box.refuses(status, "index", *words, naming=naming)


@test
def index_leaves_out_bad_rows(box):
    rows, labels = world()
    rows[3], rows[59] = [0.0] * 8, [NAN] * 8
    box.write("x.npy", npy(rows))
    box.write("y.txt", "".join(f"{k}\n" for k in labels))
    box.write("ids.txt", "".join(f"r{i}\n" for i in range(60)))
    words = ["index", "x.npy", "--labels", "y.txt", "--ids", "ids.txt", "-o", "g.safetensors"]
    box.refuses(BAD_DATA, *words, naming=["x.npy", "row 3"])
    result = box.works(*words, "--skip-bad")
    check("58 rows" in result.err and "numbered" not in result.err, f"{result}")
    for ids in ([], ["--append", "n.safetensors"]):
        result = box.works(*words[:4], *ids, "-o", "n.safetensors", "--skip-bad")
        check("rows are numbered without the bad ones; --ids keeps track of them" in result.err, f"{result}")
    check("numbered without" in " ".join(box.works("index", "-H").out.split()), "help")
    out = box.works("search", "g.safetensors", "--itself", "-k", 1).out
    equal([line.split("\t")[0] for line in out.splitlines()[1:]], [f"r{i}" for i in range(60) if i not in (3, 59)], "ids")
    box.write("zeros.npy", npy([[0.0] * 8] * 4))
    box.refuses(BAD_DATA, "index", "zeros.npy", "--skip-bad", "-o", "o.safetensors")


# --- searching


@test
def finds_what_numpy_finds(box):
    oracle()
    g, q = write_rows(box)
    for metric in METRICS:
        box.works("index", "g.npy", "--metric", metric, "-o", "g.safetensors")
        wanted = all_scores(g, q, metric)
        for k in (1, 2, 15, 100, 300):
            box.works("search", "g.safetensors", "q.npy", "-k", k, "-o", "near.npy")
            rows, scores = load(box, "near.npy"), load(box, "near_scores.npy")
            equal((rows.dtype.str, rows.shape, scores.dtype.str, scores.shape), ("<i8", (40, k), "<f8", (40, k)), "arrays")
            check_answers(rows, scores, wanted, metric, f"{metric}, k = {k}")


@test
def finds_what_numpy_finds_in_the_space_of_a_model(box):
    oracle()
    box.write("x.safetensors", data_set(n=200, dim=16, classes=5))
    box.write("q.npy", npy(world(n=50, dim=16, classes=5, seed=9)[0]))
    for how in ([], ["--method", "paper"], ["--method", "paper", "--centre", "mean"], ["--no-normalize"]):
        box.works("fit", "x.safetensors", "--dim", 7, *how, "-o", "m.safetensors")
        box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
        box.works("transform", "m.safetensors", "x.safetensors", "-o", "zx.npy")
        box.works("transform", "m.safetensors", "q.npy", "-o", "zq.npy")
        box.works("search", "g.safetensors", "q.npy", "-o", "near.npy")
        metric = "euclidean" if "--no-normalize" in how else "cosine"
        wanted = all_scores(load(box, "zx.npy"), load(box, "zq.npy"), metric)
        check_answers(load(box, "near.npy"), load(box, "near_scores.npy"), wanted, metric, f"with {how}")
    for method, centred in (("shrunk", True), ("paper", False)):
        box.works("fit", "x.safetensors", "--dim", 7, "--method", method, "-o", "m.safetensors")
        box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
        box.works("search", "g.safetensors", "q.npy", "-o", "near.npy")
        model = tensors(box, "m.safetensors")
        x, q = (mapped(model, world(n=n, dim=16, classes=5, seed=s)[0], centred) for n, s in ((200, 1), (50, 9)))
        wanted = all_scores(x, q, "cosine")
        check_answers(load(box, "near.npy"), load(box, "near_scores.npy"), wanted, "cosine", f"numpy's map, {method}", 1e-6)


@test
def equal_scores_go_to_the_lower_row(box):
    oracle()
    rows = [[float(1 + i % 3), 1.0, 2.0, 0.0] for i in range(30)]  # three different rows, ten times each
    box.write("x.npy", npy(rows))
    for metric in METRICS:
        box.works("index", "x.npy", "--metric", metric, "-o", "g.safetensors")
        box.works("search", "g.safetensors", "x.npy", "-k", 12, "-o", "near.npy")
        near = load(box, "near.npy")
        wanted = best(all_scores(np.asarray(rows), np.asarray(rows), metric), metric, 12)
        equal(near.tolist(), wanted.tolist(), metric)


@test
def the_same_answers_in_all_formats(box):
    oracle()
    write_rows(box)
    box.works("index", "g.npy", "-o", "g.safetensors")
    words = ["search", "g.safetensors", "q.npy", "-k", 3]
    result = box.works(*words, "-o", "near.npy")
    check("wrote near.npy: the 3 nearest rows of 40 queries" in result.err and result.out == "", f"{result}")
    box.works(*words, "-o", "near.safetensors")
    box.works(*words, "-o", "near.tsv")
    box.works(*words, "--rerank-from-disk", "-o", "disk.npy")
    rows, scores, both = load(box, "near.npy"), load(box, "near_scores.npy"), tensors(box, "near.safetensors")
    equal((both["rows"].tolist(), both["scores"].tolist()), (rows.tolist(), scores.tolist()), ".safetensors")
    equal(set(both), {"rows", "scores"}, "tensors")
    about = json.loads(box.works("info", "--json", "near.safetensors").out)
    equal((about["kind"], about["rows"]), ("answers", 40), "info of answers")
    equal(json.loads(box.works("info", "--json", "near.npy").out)["kind"], "tensors", "info of row numbers")
    box.refuses(BAD_DATA, "search", "g.safetensors", "near.safetensors", naming=["near.safetensors", "answers"])
    equal(about["metadata"], {"format": "koofu.answers", "version": "1", "k": "3", "metric": "cosine"}, "metadata")
    text = box.works(*words).out
    equal(box.read("near.tsv").decode(), text, ".tsv")
    equal(box.works(*words, "-o", "-").out, text, "-o -")
    lines = text.splitlines()
    equal(lines[0], "query\trow1\tcosine1\trow2\tcosine2\trow3\tcosine3", "header")
    for i, line in enumerate(lines[1:]):
        wanted = "\t".join(f"{r}\t{s:.6f}" for r, s in zip(rows[i].tolist(), scores[i].tolist()))
        equal(line, f"{i}\t{wanted}", "line")
    for name in ("near.npy", "near_scores.npy"):
        equal(box.read(name.replace("near", "disk")) == box.read(name), True, f"--rerank-from-disk, {name}")


@test
def text_has_ids_and_labels(box):
    rows, labels = world(n=6)
    names = ["plain", "tab\there", "back\\slash"]
    box.write("x.safetensors", safetensors({"embeddings": ("F32", [6, 8], f32(rows)), "labels": ("I32", [6], i32(labels[:5] + [-1]))},
                                           metadata={"classes": json.dumps(names)}))
    box.write("ids.txt", "".join(f"photo\t{i}\n" for i in range(6)))
    box.works("index", "x.safetensors", "--ids", "ids.txt", "--metric", "euclidean", "-o", "g.safetensors")
    lines = box.works("search", "g.safetensors", "x.safetensors", "-k", 1).out.splitlines()
    equal(lines[0], "query\tid1\tlabel1\tdistance1", "header")
    shown = ["plain", "tab\\there", "back\\\\slash", "plain", "tab\\there", ""]
    equal(lines[1:], [f"{i}\tphoto\\t{i}\t{shown[i]}\t0.000000" for i in range(6)], "lines")
    lines = box.works("search", "g.safetensors", "--itself", "-k", 1).out.splitlines()
    equal([line.split("\t")[0] for line in lines[1:]], [f"photo\\t{i}" for i in range(6)], "queries of --itself")
    box.works("index", "x.safetensors", "--metric", "inner", "-o", "i.safetensors")
    equal(box.works("search", "i.safetensors", "x.safetensors", "-k", 1).out.splitlines()[0], "query\trow1\tlabel1\tproduct1", "inner")


@test
def every_row_among_the_others(box):
    oracle()
    g, _ = write_rows(box)
    for metric in METRICS:
        box.works("index", "g.npy", "--metric", metric, "-o", "g.safetensors")
        for k in (1, 15, 299):
            box.works("search", "g.safetensors", "--itself", "-k", k, "-o", "near.safetensors")
            near = tensors(box, "near.safetensors")
            wanted = all_scores(g, g, metric)
            np.fill_diagonal(wanted, np.inf if metric == "euclidean" else -np.inf)
            finite = np.where(np.isfinite(wanted), wanted, -1e3 if metric != "euclidean" else 1e3)
            check_answers(near["rows"], near["scores"], finite, metric, f"--itself, {metric}, k = {k}")
            check((near["rows"] != np.arange(300)[:, None]).all(), "a row is its own neighbour")


@test
def bad_queries_keep_their_place(box):
    oracle()
    g, _ = write_rows(box, dim=8)
    box.works("index", "g.npy", "-o", "g.safetensors")
    queries = uneven(9000, 8, 5)  # three blocks
    bad = [0, 1, 17, 4095, 4096, 5000, 8998, 8999]
    good = [i for i in range(9000) if i not in bad]
    for n, i in enumerate(bad):
        queries[i] = [0.0] * 8 if n % 2 else [1.0] * 7 + [NAN]
    box.write("q.npy", npy(queries))
    box.refuses(BAD_DATA, "search", "g.safetensors", "q.npy", "-o", "near.npy", naming=["q.npy", "row 0"])
    result = box.works("search", "g.safetensors", "q.npy", "-k", 2, "--skip-bad", "-o", "near.npy")
    check("left out 8 bad queries" in result.err and "8,992 queries" in result.err, f"{result}")
    rows, scores = load(box, "near.npy"), load(box, "near_scores.npy")
    check((rows[bad] == -1).all() and np.isnan(scores[bad]).all(), "bad queries have answers")
    wanted = all_scores(g, np.asarray(queries, "f4")[good], "cosine")
    check_answers(rows[good], scores[good], wanted, "cosine", "good queries")
    out = box.works("search", "g.safetensors", "q.npy", "-k", 2, "--skip-bad").out
    equal([int(line.split("\t")[0]) for line in out.splitlines()[1:]], good, "lines")


@test
def fewer_rows_than_15(box):
    box.write("x.safetensors", data_set(n=7))
    box.works("index", "x.safetensors", "-o", "g.safetensors")
    for more, k in (([], 7), (["--itself"], 6)):
        queries = [] if more else ["x.safetensors"]
        equal(json.loads(box.works("search", "g.safetensors", *queries, *more, "--json").out)["k"], k, "k")
        box.refuses(USAGE, "search", "g.safetensors", *queries, *more, "-k", k + 1, naming=["-k", f"1 to {k}", "rows"])
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    for data in (["x.safetensors"], []):
        about = json.loads(box.works("eval", "m.safetensors", *data, "--gallery", "g.safetensors", "--json").out)
        equal([entry["k"] for entry in about["knn"]], [1, 5], "the usual k that there are rows for")
    lines = box.works("classify", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors").out.splitlines()
    equal(sum(int(v) for v in lines[1].split("\t")[2::2]), 7, "votes")
    box.write("one.npy", npy([[1.0, 2.0]]))
    box.works("index", "one.npy", "-o", "one.safetensors")
    equal(box.works("search", "one.safetensors", "one.npy").out.splitlines()[1].split("\t")[:2], ["0", "0"], "one row")
    box.refuses(BAD_DATA, "search", "one.safetensors", "--itself", naming="one.safetensors: has one row")


@test
def json_of_a_search(box):
    with_gallery(box)
    words = ["search", "g.safetensors", "x.safetensors", "-k", 5, "--json", "--threads", 2, "--isa", "plain"]
    before = box.files()
    result = box.works(*words)
    equal(result.out.count("\n"), 1, "one object")
    about = json.loads(result.out)
    equal({k: about[k] for k in ("queries", "n_bad", "rows", "dim_in", "dim", "k", "metric", "isa", "threads")},
          {"queries": 60, "n_bad": 0, "rows": 60, "dim_in": 8, "dim": 4, "k": 5, "metric": "cosine", "isa": "plain", "threads": 2},
          "what was searched")
    check(about["load_seconds"] > 0 and about["search_seconds"] > 0, f"times: {about}")
    check(math.isclose(about["queries_per_second"], 60 / about["search_seconds"], rel_tol=1e-9), f"rate: {about}")
    equal(box.files(), before, "without -o there is no file")
    box.works(*words, "-o", "near.tsv")
    equal(len(box.read("near.tsv").splitlines()), 61, "the answers")
    check("answers" not in json.loads(box.works(*words, "-o", "near.tsv").out), "answers are in one place")
    equal(json.loads(box.works(*words, "-o", "-").out)["answers"], about["answers"], "standard output by name")


@test
def json_has_the_answers(box):
    with_gallery(box)
    for queries in (["x.safetensors"], ["--itself"]):
        words = ["search", "g.safetensors", *queries, "-k", 3]
        lines = [line.split("\t") for line in box.works(*words).out.splitlines()[1:]]
        answers = json.loads(box.works(*words, "--json").out)["answers"]
        equal([[str(a["query"])] + [str(v) for n in a["neighbours"] for v in (n["row"], n["label"], f"{n['score']:.6f}")] for a in answers],
              lines, "the same as in text")
        check(all(a["text"] is False for a in answers), "rows are not text")
    box.write("q.npy", npy([[0.0] * 8, [1.0] + [0.0] * 7, [0.0, 1.0] + [0.0] * 6]))
    about = json.loads(box.works("search", "g.safetensors", "q.npy", "-k", 1, "--json", "--skip-bad").out)
    equal(([a["query"] for a in about["answers"]], about["n_bad"]), ([1, 2], 1), "bad queries have no entry")


@test
def text_queries(box):
    """Text is offset; its own mean, or that of a file, is subtracted in a mapped gallery, and that is logged."""
    box.works("synth", "--classes", 100, "--per-class", 8, "-o", "x.safetensors", "--text", "t.safetensors")
    box.works("fit", "x.safetensors", "--lambda", "0.1x", "-o", "m.safetensors")
    box.works("index", "x.safetensors", "-o", "raw.safetensors")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    rows = read_safetensors(box.read("t.safetensors"))[0]["embeddings"]
    box.write("few.npy", npy([list(map(float, row)) for row in rows[:3]]))

    def hits(*words):
        result = box.works("search", *words, "-k", 1, "--json")
        about = json.loads(result.out)
        return sum(a["neighbours"][0]["label"] == f"c{a['query']:04d}" for a in about["answers"]), about["text_mean"], result.err
    raw, mean, err = hits("raw.safetensors", "t.safetensors", "--text-queries")
    equal((mean, err), (None, ""), "nothing is done in the original space")
    plain, mean, err = hits("g.safetensors", "t.safetensors")
    check(mean is None and "hardly look like the rows" in err and "--text-queries" in err, f"nothing is done: {err}")
    own, mean, err = hits("g.safetensors", "t.safetensors", "--text-queries")
    check(mean == "the queries" and "the mean of the queries is subtracted" in err, f"own mean: {mean}, {err}")
    check(own > plain and own >= raw, f"raw {raw}, mapped {plain}, without the mean {own}")
    equal(hits("g.safetensors", "t.safetensors", "--text-queries", "--text-mean", "t.safetensors")[:2], (own, "t.safetensors"), "the same mean")
    box.refuses(USAGE, "search", "g.safetensors", "few.npy", "--text-queries", naming=["--text-mean", "fewer than 10"])
    equal(hits("g.safetensors", "few.npy", "--text-queries", "--text-mean", "t.safetensors")[1], "t.safetensors", "few, with a mean")
    equal(hits("g.safetensors", "x.safetensors")[2], "", "rows of the kind that the model knows")
    box.refuses(USAGE, "search", "g.safetensors", "few.npy", "--text-mean", "t.safetensors", naming=["--text-mean", "--text-queries"])
    box.refuses(USAGE, "search", "g.safetensors", "--itself", "--text-queries", naming="--itself")
    box.write("nine.npy", npy([[1.0] * 9] * 12))
    box.refuses(BAD_DATA, "search", "g.safetensors", "few.npy", "--text-queries", "--text-mean", "nine.npy", naming=["nine.npy", "9", "512"])
    box.works("index", "x.safetensors", "--metric", "euclidean", "-o", "e.safetensors")
    box.refuses(USAGE, "search", "e.safetensors", "t.safetensors", "--text-queries", "--text-mean", "t.safetensors", naming="lengths")


@test
def both_files_or_none(box):
    with_gallery(box)
    rows, _ = world(n=5000)
    rows[4999] = [NAN] * 8  # in the second block, when the first is written
    box.write("bad.npy", npy(rows))
    box.write("near.npy", "old")
    box.write("near_scores.npy", "old")
    box.refuses(BAD_DATA, "search", "g.safetensors", "bad.npy", "-o", "near.npy", naming=["bad.npy", "row 4999"])
    os.mkdir(box.path("dir_scores.npy"))
    for queries in ("x.safetensors", "--itself"):
        box.refuses(IO, "search", "g.safetensors", queries, "-o", "dir.npy", naming="dir_scores.npy: cannot be created: is not a regular file")


# --- votes


def votes(near, scores, labels, k, metric="cosine", temperature=None):
    """[(class, votes)] of one query, best first."""
    found, order = collections.defaultdict(float), []
    for row, score in list(zip(near, scores))[:k]:
        if labels[row] < 0:
            continue
        if labels[row] not in order:
            order.append(labels[row])
        far = score - scores[0] if metric == "euclidean" else scores[0] - score
        found[labels[row]] += 1 if temperature is None else math.exp(-far / temperature)
    return sorted(((c, found[c]) for c in order), key=lambda pair: -pair[1])  # sorted() is stable: nearest first


def noisy(box, classes=7, dim=6):
    """Classes that overlap, some rows without a label; returns labels of the gallery and those of the queries."""
    rows, labels = world(n=200, dim=dim, classes=classes, seed=1)
    rng = random.Random(3)
    rows = [[v + rng.gauss(0, 1) for v in row] for row in rows]
    labels = [k if i % 11 else -1 for i, k in enumerate(labels)]
    names = [f"name {k}" for k in range(classes)]
    box.write("x.safetensors", safetensors({"embeddings": ("F32", [200, dim], f32(rows)), "labels": ("I32", [200], i32(labels))},
                                           metadata={"classes": json.dumps(names)}))
    queries, truth = world(n=120, dim=dim, classes=classes, seed=1)
    queries = [[v + rng.gauss(0, 1) for v in row] for row in queries]
    box.write("q.npy", npy(queries))
    box.write("q.txt", "".join(f"name {k}\n" for k in truth))
    box.works("fit", "x.safetensors", "--skip-unlabelled", "--dim", 4, "-o", "m.safetensors")
    box.works("index", "x.safetensors", "-o", "r.safetensors")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    box.works("index", "x.safetensors", "--metric", "euclidean", "-o", "e.safetensors")
    return labels, truth


VOTING = (([], None), (["--weighted"], 0.07), (["--weighted", "--temperature", "0.5"], 0.5))


@test
def classify_by_votes(box):
    oracle()
    labels, _ = noisy(box)
    for gallery in ("r", "g", "e"):
        metric = "euclidean" if gallery == "e" else "cosine"
        for k in (1, 4, 15, 200):
            box.works("search", f"{gallery}.safetensors", "q.npy", "-k", k, "-o", "near.npy")
            near, scores = load(box, "near.npy").tolist(), load(box, "near_scores.npy").tolist()
            for more, temperature in VOTING:
                words = ["classify", "m.safetensors", "q.npy", "--gallery", f"{gallery}.safetensors", "-k", k, *more]
                lines = json.loads(box.works(*words, "--json").out)["answers"]
                equal([line["row"] for line in lines], list(range(120)), "rows")
                for i, line in enumerate(lines):
                    wanted = votes(near[i], scores[i], labels, k, metric, temperature)[:5]
                    equal(line["classes"], [f"name {c}" for c, _ in wanted], f"classes of row {i}, {words}")
                    check(np.allclose(line["votes"], [v for _, v in wanted], rtol=1e-12, atol=0), f"votes of row {i}: {line}, {wanted}")


@test
def classify_by_votes_in_text(box):
    noisy(box)
    words = ["classify", "m.safetensors", "q.npy", "--gallery", "r.safetensors"]
    lines = box.works(*words, "-k", 3, "--top", 7).out.splitlines()
    equal(lines[0].split("\t"), ["row"] + [f"{what}{i}" for i in range(1, 8) for what in ("class", "votes")], "header")
    short = 0
    for line in lines[1:]:
        row, *cells = line.split("\t")
        equal(len(cells), 14, "columns")
        given = [(c, v) for c, v in zip(cells[0::2], cells[1::2]) if c]
        check(all(v == "" for c, v in zip(cells[0::2], cells[1::2]) if not c), f"votes of no class: {line}")
        check(all(v in ("1", "2", "3") for _, v in given) and sum(int(v) for _, v in given) <= 3, f"votes: {line}")
        short += len(given) < 7
    equal(short, 120, "there are at most three classes")
    equal(len(box.works(*words).out.splitlines()[0].split("\t")), 11, "--top is 5 where there are so many classes")
    check("." in box.works(*words, "--weighted").out.splitlines()[1].split("\t")[4], "weighted votes are fractions")
    box.refuses(USAGE, *words, "--top", 8, naming=["--top", "1 to 7", "not '8'"])


@test
def eval_by_votes(box):
    oracle()
    labels, truth = noisy(box)
    for gallery in ("r", "g"):
        box.works("search", f"{gallery}.safetensors", "q.npy", "-k", 15, "-o", "near.npy")
        near, scores = load(box, "near.npy").tolist(), load(box, "near_scores.npy").tolist()
        for more, temperature in VOTING:
            words = ["eval", "m.safetensors", "q.npy", "--labels", "q.txt", "--gallery", f"{gallery}.safetensors", *more]
            plain = json.loads(box.works(*words[:5], "--json").out)
            about = json.loads(box.works(*words, "-k", "15,1,10,1", "--json").out)
            equal([entry["k"] for entry in about["knn"]], [1, 10, 15], "k, rising")
            equal((about["knn_n"], about["knn_space"], about["n"]), (120, "raw" if gallery == "r" else "koofu", 120), "counts")
            equal((about["knn_weighted"], about["knn_temperature"]), (temperature is not None, temperature), "weights")
            equal(about["leave_one_out"], False, "leave one out")
            check(15 <= about["candidates_per_query"] <= 200, f"candidates: {about}")
            equal({k: about[k] for k in plain}, plain, "what eval says of prototypes")
            for entry in about["knn"]:
                ranked = [[c for c, _ in votes(near[i], scores[i], labels, entry["k"], "cosine", temperature)] for i in range(120)]
                for name, top in (("top1", 1), ("top5", 5)):
                    hits = sum(truth[i] in ranked[i][:top] for i in range(120))
                    equal(round(entry[name] * 120), hits, f"{name} of {entry['k']}-NN, {words}")
                    check(0 <= entry[name + "_low"] <= entry[name] <= entry[name + "_high"] <= 1, f"interval of {name}")
    lines = box.works(*words, "-k", "1,10", "--no-calibration").out.splitlines()
    equal([line.split("  ")[0] for line in lines], ["space", "raw", "Koo-Fu", "Koo-Fu 1-NN weighted", "Koo-Fu 10-NN weighted"], "table")
    equal(len({len(line.rstrip().rsplit(" ", 1)[0]) for line in lines[1:]}), 1, "the columns are straight")
    lines = box.works(*words[:7], "-k", "1,10", "--no-calibration").out.splitlines()
    equal([line.split("  ")[0] for line in lines[3:]], ["Koo-Fu 1-NN", "Koo-Fu 10-NN"], "table without weights")
    usual = json.loads(box.works(*words, "--json").out)
    equal([entry["k"] for entry in usual["knn"]], [1, 5, 15], "the usual k")


@test
def eval_leaving_one_out(box):
    oracle()
    labels, _ = noisy(box)
    box.works("search", "g.safetensors", "--itself", "-k", 15, "-o", "near.npy")
    near, scores = load(box, "near.npy").tolist(), load(box, "near_scores.npy").tolist()
    words = ["eval", "m.safetensors", "--gallery", "g.safetensors"]
    about = json.loads(box.works(*words, "-k", "1,15", "--json").out)
    labelled = [i for i in range(200) if labels[i] >= 0]
    equal((about["knn_n"], about["rows"], about["n_unlabelled"]), (len(labelled), 200, 200 - len(labelled)), "counts")
    equal([about[k] for k in ("n", "top1", "raw_top5")], [None] * 3, "prototypes")
    for entry in about["knn"]:
        ranked = {i: [c for c, _ in votes(near[i], scores[i], labels, entry["k"])] for i in labelled}
        for name, top in (("top1", 1), ("top5", 5)):
            hits = sum(labels[i] in ranked[i][:top] for i in labelled)
            equal(round(entry[name] * len(labelled)), hits, f"{name} of {entry['k']}-NN")
    text = box.works(*words, "-k", 1).out
    check(not any(line.startswith(("raw ", "Koo-Fu  ")) for line in text.splitlines()), f"no prototypes: {text}")
    check("left out of k-NN, of 200 rows:" in text and f"{200 - len(labelled)} without a label" in text, text)
    flattery = "leave one out: where the map was fitted on these rows, this flatters it"
    equal(text.splitlines()[-1], flattery, "the last line")
    equal(about["leave_one_out"], True, "leave_one_out")
    check(flattery not in box.works("eval", "m.safetensors", "--gallery", "r.safetensors").out, "the original space")
    check(flattery not in box.works("eval", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors").out, "with data")
    for more in (["--raw"], ["--metric", "cosine"]):
        box.refuses(USAGE, *words, *more, naming=more[0])
    for more in (["--labels", "q.txt"], ["--classes", "q.txt"], ["--tensor", "t"], ["--label-tensor", "t"], ["--skip-bad"]):
        box.refuses(USAGE, *words, *more, naming=f"{more[0]} needs data")


@test
def votes_without_a_model(box):
    """A gallery in place of the model: the votes of brute force, and of the same gallery with a model."""
    oracle()
    labels, truth = noisy(box)
    box.works("transform", "m.safetensors", "x.safetensors", "-o", "tx.npy")
    box.works("transform", "m.safetensors", "q.npy", "-o", "tq.npy")
    rows = tensors(box, "x.safetensors")["embeddings"]
    spaces = {"r": (rows, load(box, "q.npy"), "cosine"), "e": (rows, load(box, "q.npy"), "euclidean"),
              "g": (load(box, "tx.npy"), load(box, "tq.npy"), "cosine")}
    for gallery, (g, q, metric) in spaces.items():
        scores = all_scores(g, q, metric)
        order = np.argsort(scores if metric == "euclidean" else -scores, axis=1, kind="stable")[:, :15]
        name, beside = f"{gallery}.safetensors", ["m.safetensors", "--gallery", f"{gallery}.safetensors"]
        answers = json.loads(box.works("classify", name, "q.npy", "--json", "--weighted").out)["answers"]
        for i, answer in enumerate(answers):
            wanted = votes(order[i].tolist(), scores[i][order[i]].tolist(), labels, 15, metric, 0.07)[:5]
            equal(answer["classes"], [f"name {c}" for c, _ in wanted], f"classes of row {i} in {name}")
            check(np.allclose(answer["votes"], [v for _, v in wanted], rtol=1e-5, atol=0), f"votes of row {i}: {answer}, {wanted}")
        for more in ([], ["-k", 3, "--top", 2], ["--weighted", "--labels", "q.txt"]):
            equal(box.works("classify", name, "q.npy", *more).out, box.works("classify", *beside, "q.npy", *more).out, f"{name}, {more}")
        hits = sum(votes(order[i].tolist(), scores[i][order[i]].tolist(), labels, 5)[0][0] == truth[i] for i in range(120))
        about = json.loads(box.works("eval", name, "q.npy", "--labels", "q.txt", "--json").out)
        equal([round(120 * e["top1"]) for e in about["knn"] if e["k"] == 5], [hits], f"5-NN in {name}")
        equal([about[k] for k in ("n", "top1", "raw_top1", "lambda")], [None] * 4, "there are no prototypes")
        equal((about["metric"], about["dim_in"], about["dim_out"]), (metric, 6, g.shape[1]), "the space")
        for data in (["q.npy", "--labels", "q.txt"], []):
            alone, both = (json.loads(box.works("eval", *words, *data, "-k", "1,5", "--json").out) for words in ([name], beside))
            equal(*({k: v for k, v in a.items() if k.startswith("knn") or k == "leave_one_out"} for a in (alone, both)), f"{name}, {data}")
            lines = box.works("eval", name, *data, "-k", "1,5").out.splitlines()
            equal([line.split()[1] for line in lines[1:3]], ["1-NN", "5-NN"], f"no line of prototypes: {lines}")


@test
def votes_without_a_model_refuse_what_needs_one(box):
    noisy(box)
    for option in (["--raw"], ["--metric", "cosine"], ["--text", "x.safetensors"]):
        for command in ("classify", "eval"):
            box.refuses(USAGE, command, "g.safetensors", "x.safetensors", *option, naming=[f"{option[0]} needs a model", "g.safetensors is a gallery"])
    for option in (["--part", "images"], ["--probabilities"], ["--no-reject"]):
        box.refuses(USAGE, "classify", "g.safetensors", "x.safetensors", *option, naming=f"{option[0]} needs a model")
    for option in (["--errors"], ["--per-class", "o"], ["--confusions", "o"], ["--wrong", "o"], ["--unknown", "q.npy"]):
        box.refuses(USAGE, "eval", "g.safetensors", "x.safetensors", *option, naming=f"{option[0]} needs a model")
    box.refuses(USAGE, "classify", "g.safetensors", "q.npy", "--gallery", "r.safetensors", naming=["g.safetensors is a gallery", "--gallery"])
    box.refuses(USAGE, "classify", "r.safetensors", naming="missing argument: DATA or PICTURES")
    box.works("index", "q.npy", "-o", "bare.safetensors")
    for words in (["classify", "bare.safetensors", "q.npy"], ["eval", "bare.safetensors"]):
        box.refuses(BAD_DATA, *words, naming=["bare.safetensors: has no labels to vote with", "--labels"])
    box.write("nine.npy", npy(world(dim=9)[0]))
    box.refuses(BAD_DATA, "classify", "r.safetensors", "nine.npy", naming=["nine.npy: has 9 columns, but the gallery takes 6"])
    box.write("n.txt", "name 1\n" * len(world(dim=9)[0]))
    box.refuses(BAD_DATA, "eval", "r.safetensors", "nine.npy", "--labels", "n.txt", naming=["9", "6"])


@test
def eval_names_classes_that_the_gallery_lacks(box):
    noisy(box)
    box.write("some.safetensors", data_set(n=30, dim=6, names=["name 0", "name 1", "name 2"]))
    box.works("index", "some.safetensors", "-o", "s.safetensors")
    words = ["eval", "m.safetensors", "q.npy", "--labels", "q.txt", "--gallery", "s.safetensors"]
    about = json.loads(box.works(*words, "--json").out)
    absent = sum(k > 2 for k in world(n=120, dim=6, classes=7)[1])
    equal((about["n"], about["knn_n"], about["knn_n_absent"]), (120, 120 - absent, absent), "counts")
    text = box.works(*words).out
    check(f"{absent} of 4 classes that the gallery does not have" in text, text)


# --- what is refused


@test
def files_that_are_no_gallery(box):
    with_gallery(box)
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.write("x.npy", npy(world()[0]))
    for name, what in (("m.safetensors", "is a model"), ("x.safetensors", "is a data set"), ("s.safetensors", "holds statistics"),
                       ("x.npy", "holds embeddings")):
        for words in (["search", name, "x.npy"], ["search", name, "--itself"],
                      ["classify", "m.safetensors", "x.npy", "--gallery", name], ["eval", "m.safetensors", "--gallery", name]):
            box.refuses(BAD_DATA, *words, naming=[f"{name}: {what}, not a gallery", "koofu index"])
    box.refuses(IO, "search", "absent.safetensors", "x.npy", naming="absent.safetensors")
    box.write("torn.safetensors", box.read("g.safetensors")[:-1])
    box.refuses(BAD_DATA, "search", "torn.safetensors", "x.npy", naming="torn.safetensors")


@test
def files_that_are_no_model(box):
    with_gallery(box)
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.write("x.npy", npy(world()[0]))
    for name, what, advice in (("g.safetensors", "is a gallery", "'koofu classify' and 'koofu eval' take it"), ("x.safetensors", "is a data set", "koofu fit DATA"),
                               ("s.safetensors", "holds statistics", "koofu fit STATISTICS"), ("x.npy", "holds embeddings", "koofu fit DATA")):
        for words in (["classify", name, "x.npy"], ["eval", name, "x.safetensors"], ["transform", name, "x.npy", "-o", "o.npy"],
                      ["add-class", name, "new", "x.npy", "-o", "o.safetensors"],
                      ["index", "x.npy", "--model", name, "-o", "o.safetensors"]):
            if what == "is a gallery" and words[0] in ("classify", "eval"):
                continue  # its rows vote
            box.refuses(BAD_DATA, *words, naming=[f"{name}: {what}, not a model; ", advice])


@test
def rows_that_are_mapped_already(box):
    with_gallery(box)
    box.works("fit", "x.safetensors", "-o", "square.safetensors")  # as many columns, so that these do not tell
    box.works("index", "x.safetensors", "--model", "square.safetensors", "-o", "s.safetensors")
    refusal = ".safetensors: the rows of a gallery are already mapped; give the original rows"
    for queries in (["s.safetensors"], ["x.safetensors", "s.safetensors"]):
        box.refuses(BAD_DATA, "search", "s.safetensors", *queries, "-o", "near.npy", naming=refusal)
        for more in ([], ["--raw"], ["--gallery", "s.safetensors"]):
            box.refuses(BAD_DATA, "classify", "square.safetensors", *queries, *more, naming=refusal + "\n")
    box.refuses(BAD_DATA, "search", "g.safetensors", "g.safetensors", naming="g.safetensors: the rows of a gallery are already mapped")
    box.works("search", "s.safetensors", "--itself")
    box.works("search", "r.safetensors", "s.safetensors")
    box.works("search", "s.safetensors", "r.safetensors")
    box.works("classify", "square.safetensors", "s.safetensors", "--gallery", "r.safetensors")


@test
def classify_writes_text(box):
    with_gallery(box)
    words = ["classify", "m.safetensors", "x.safetensors"]
    for ending in (".npy", ".safetensors", ".fvecs", ".xlsx", ".CSV"):
        box.refuses(USAGE, *words, "-o", "o" + ending,
                    naming=f"o{ending}: the name of the answers must end in .txt, .tsv, .csv, .json, .jsonl or .parquet")
    for more, text in (([], "the 3 best classes of 60 rows ("), (["--top", 1], "the best class of 60 rows ("),
                       (["--gallery", "g.safetensors"], "the 3 best classes of 60 rows (")):
        result = box.works(*words, *more, "-o", "o.tsv")
        check(result.err.startswith(f"wrote o.tsv: {text}") and result.out == "", f"{result}")
        equal(len(box.read("o.tsv").splitlines()), 61, "lines")
    equal(box.works(*words, "-o", "o.tsv", "-q").err, "", "-q")
    equal(box.works(*words, "-o", "-", "-q").err, "", "-o -")


@test
def no_header_before_an_error(box):
    with_gallery(box)
    rows, _ = world()
    rows[0] = [NAN] * 8
    box.write("bad.npy", npy(rows))
    for words in (["search", "g.safetensors", "bad.npy"], ["classify", "m.safetensors", "bad.npy"]):
        box.refuses(BAD_DATA, *words, naming=["bad.npy", "row 0"])
        equal(len(box.works(*words, "--skip-bad").out.splitlines()), 60, "header and lines")
    box.write("none.npy", npy([[0.0] * 8] * 3))
    for words in (["search", "g.safetensors", "none.npy"], ["classify", "m.safetensors", "none.npy"]):
        equal(len(box.works(*words, "--skip-bad").out.splitlines()), 1, "the header alone")


@test
def the_example(box):
    folder = os.path.dirname(os.path.abspath(__file__))
    source, include = (os.path.join(folder, "..", "..", name) for name in ("examples/search_gallery.c", "include"))
    program = os.path.join(os.path.dirname(os.path.abspath(box.program)), "tests", "example_search_gallery")
    if not os.path.exists(program) or not shutil.which("cc"):
        raise Skipped("the examples are not built here")
    strict = ["cc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", include, source]
    compiled = subprocess.run(strict, capture_output=True, check=False)
    equal((compiled.returncode, compiled.stderr), (0, b""), "strict compilation")
    with_gallery(box)
    box.write("nine.npy", npy(world(dim=9)[0]))
    for words, status, text in ((["g.safetensors"], 2, "usage: search_gallery"), (["g.safetensors", "x.safetensors", "y"], 2, "usage:"),
                                (["g.safetensors", "nine.npy"], 1, "queries of 8 values"), (["g.safetensors", "absent.npy"], 1, "absent.npy"),
                                (["g.safetensors", "x.safetensors"], 0, "")):
        done = subprocess.run([program, *words], cwd=box.folder, capture_output=True, check=False)
        equal(done.returncode, status, f"status with {words}: {done.stderr}")
        check(text in done.stderr.decode() and not done.stderr.endswith(b": \n"), f"{words}: {done.stderr}")


@test
def queries_that_do_not_fit(box):
    with_gallery(box)
    box.write("nine.npy", npy(world(dim=9)[0]))
    box.refuses(BAD_DATA, "search", "g.safetensors", "nine.npy", naming=["nine.npy", "9", "8"])
    box.refuses(BAD_DATA, "classify", "m.safetensors", "nine.npy", "--gallery", "g.safetensors", naming=["nine.npy", "9", "8"])
    box.refuses(BAD_DATA, "index", "nine.npy", "--model", "m.safetensors", "-o", "o.safetensors", naming=["9", "8"])
    rows, labels = world()
    rows[7] = [NAN] * 8
    box.write("bad.npy", npy(rows))
    box.write("y.txt", "".join(f"class {k}\n" for k in labels))
    for words in (["search", "g.safetensors", "bad.npy"], ["classify", "m.safetensors", "bad.npy", "--gallery", "g.safetensors"],
                  ["eval", "m.safetensors", "bad.npy", "--labels", "y.txt", "--gallery", "g.safetensors"]):
        words += [] if words[0] == "eval" else ["-o", "o.tsv"]
        box.refuses(BAD_DATA, *words, naming=["bad.npy", "row 7"])
    box.refuses(USAGE, "search", "g.safetensors", "x.safetensors", "-k", 61, naming=["-k", "1 to 60", "not '61'"])
    box.refuses(USAGE, "classify", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors", "-k", 61, naming="1 to 60")
    box.refuses(USAGE, "eval", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors", "-k", "1,61", naming="1 to 60")
    box.refuses(USAGE, "eval", "m.safetensors", "--gallery", "g.safetensors", "-k", 60, naming="1 to 59")


@test
def galleries_that_cannot_vote(box):
    with_gallery(box)
    box.write("x.npy", npy(world()[0]))
    box.works("index", "x.npy", "-o", "bare.safetensors")
    box.works("fit", "x.safetensors", "--dim", 3, "-o", "other.safetensors")
    box.write("nine.safetensors", data_set(dim=9))
    box.works("index", "nine.safetensors", "-o", "n.safetensors")
    for words in (["classify", "MODEL", "x.npy"], ["eval", "MODEL", "x.safetensors"], ["eval", "MODEL"]):
        def refuses(model, gallery, *naming):
            box.refuses(BAD_DATA, *[model if w == "MODEL" else w for w in words], "--gallery", gallery, naming=[gallery, *naming])
        refuses("m.safetensors", "bare.safetensors", "no labels")
        refuses("other.safetensors", "g.safetensors", "was not made with other.safetensors")
        refuses("m.safetensors", "n.safetensors", "9", "8")
        box.works(*["other.safetensors" if w == "MODEL" else w for w in words], "--gallery", "r.safetensors")


@test
def options_of_galleries(box):
    with_gallery(box)
    box.refuses(USAGE, "search", "g.safetensors", naming=["missing argument: QUERIES", "--itself"])
    box.refuses(USAGE, "search", "g.safetensors", "x.safetensors", "--itself", naming=["x.safetensors", "--itself"])
    box.refuses(USAGE, "index", "x.safetensors", naming="missing option -o GALLERY.safetensors")
    box.refuses(USAGE, "index", "x.safetensors", "-o", "o.npy", naming=["o.npy", "gallery", ".safetensors"])
    box.refuses(USAGE, "index", "x.safetensors", "-o", "-", naming="file name")
    box.refuses(USAGE, "index", "x.safetensors", "-o", "o.safetensors", "--metric", "dot", naming="cosine, euclidean or inner")
    for output in ("near.fbin", "near.npy.gz"):
        box.refuses(USAGE, "search", "g.safetensors", "x.safetensors", "-o", output,
                    naming=[f"{output}:", ".txt, .tsv, .csv, .json, .jsonl, .parquet, .npy or .safetensors"])
    for text in ("0", "1025", "1,2", "x", ""):
        for option in (["-k"] if text else []) + ["--neighbours="]:
            box.refuses(USAGE, "search", "g.safetensors", "x.safetensors", option + text,
                        naming=[f": {option.rstrip('=')} must be", "1 to 1024", f"not '{text}'"])
    for command in ("search", "classify", "eval"):
        check("1 to 1024" in " ".join(box.works(command, "-h").out.split()), f"help of {command}")
    for text in ("0", "1,1025", "1,,2", "1,", ",1", "1 2", "x"):
        box.refuses(USAGE, "eval", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors", "-k", text, naming="1 to 1024")
    for command in ("classify", "eval"):
        words = [command, "m.safetensors", "x.safetensors"]
        for more in (["-k", 3], ["--weighted"]):
            box.refuses(USAGE, *words, *more, naming="--gallery")
        box.refuses(USAGE, *words, "--gallery", "g.safetensors", "--temperature", 1, naming="--weighted")
        for text in ("0", "-1", "nan", "inf", "1x", "0x1", "1e999", " 1"):
            box.refuses(USAGE, *words, "--gallery", "g.safetensors", "--weighted", f"--temperature={text}",
                        naming=["--temperature", "above 0"])
    for more in (["--raw"], ["--metric", "cosine"]):
        box.refuses(USAGE, "classify", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors", *more, naming=[more[0], "--gallery"])
    words = ["eval", "m.safetensors", "x.safetensors", "--gallery"]
    for gallery in ("g.safetensors", "r.safetensors"):
        box.refuses(USAGE, *words, gallery, "--metric", "cosine", naming=["--metric", "--gallery, which has its own metric"])
    box.refuses(USAGE, *words, "g.safetensors", "--raw", naming=["--raw", "g.safetensors, whose rows are mapped"])
    box.works(*words, "r.safetensors", "--raw")


@test
def gallery_outputs_onto_inputs(box):
    with_gallery(box)
    box.write("q.npy", npy(world()[0]))
    box.write("q_scores.npy", npy(world()[0]))
    box.write("near_scores.npy", npy(world()[0]))
    box.write("folder/near.npy", npy(world()[0]))
    box.write("folder/near_scores.npy", npy(world()[0]))
    box.write("ids.safetensors", "".join(f"{i}\n" for i in range(60)))
    for words in (["search", "g.safetensors", "q.npy", "-o", "g.safetensors"], ["search", "g.safetensors", "q.npy", "-o", "q.npy"],
                  ["search", "g.safetensors", "q_scores.npy", "-o", "q.npy"], ["search", "g.safetensors", "--itself", "-o", "g.safetensors"],
                  ["search", "g.safetensors", "near_*.npy", "-o", "near.npy"], ["search", "g.safetensors", "folder", "-o", "folder/near.npy"],
                  ["index", "x.safetensors", "-o", "x.safetensors"], ["index", "q.npy", "--model", "m.safetensors", "-o", "m.safetensors"],
                  ["index", "q.npy", "--ids", "ids.safetensors", "-o", "ids.safetensors"],
                  ["index", "g.safetensors", "--append", "g.safetensors"],
                  ["classify", "m.safetensors", "q.npy", "--gallery", "g.safetensors", "-o", "g.safetensors"]):
        box.refuses(USAGE, *words, naming="is both an input and the output")
