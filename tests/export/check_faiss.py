"""Indexes: FAISS reads them, finds what `koofu search` finds, and writes the same bytes again.

usage: check_faiss.py KOOFU
"""

import sys
import tempfile

import faiss
import numpy as np

from worlds import World

K = 10


def check(condition, message):
    if not condition:
        raise SystemExit(f"FAIL: {message}")


def read(world, name):
    """The index; its bytes come out as they went in."""
    index = faiss.read_index(world.path(name))
    faiss.write_index(index, world.path("again.faiss"))
    with open(world.path(name), "rb") as ours, open(world.path("again.faiss"), "rb") as theirs:
        check(ours.read() == theirs.read(), f"{name}: FAISS writes other bytes")
    return index


def search(world, gallery, rows):
    world.run("search", gallery, rows, "-k", K, "-o", "near.npy")
    return np.load(world.path("near.npy")), np.load(world.path("near_scores.npy"))


def same(found, scores, wanted, want_scores, size, case):
    """The same neighbours, but for those that are equally near within FAISS's rounding: f32, and squared distances as
    differences of squared lengths."""
    most = 1e-6 * np.maximum(size, np.abs(want_scores))
    off = np.max(np.abs(scores - want_scores) / most)
    check(off <= 1, f"{case}: scores are off by {off} millionths")
    for row, (a, b) in enumerate(zip(found, wanted)):
        for at in np.flatnonzero(a != b):
            s = want_scores[row]
            ties = [x for x in (at - 1, at + 1) if 0 <= x < K and abs(s[x] - s[at]) < 2 * most[row, at]]
            check(ties or at == K - 1, f"{case}: row {row} has the neighbours {a}, not {b}")


def compare(world, model, rows, mapped, metric, numbered, dtype="f32"):
    case = f"{model} {'mapped' if mapped else 'raw'} {metric} {dtype} ids {numbered}"
    ids = np.arange(len(np.load(world.path(rows)))) * 7 + 100 if numbered else None
    words = ["--metric", metric, "--dtype", dtype] + (["--model", model] if mapped else [])
    if numbered:
        with open(world.path("ids.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{i}\n" for i in ids)
        words += ["--ids", "ids.txt"]
    world.run("index", rows, *words, "-o", "g.safetensors")
    raw = [] if mapped else ["--raw"]
    world.run("export", model, "--gallery", "g.safetensors", *raw, "-o", "g.faiss")
    index = read(world, "g.faiss")
    queries = (np.load(world.path(rows))[::5] + 0.01 * np.load(world.path(rows))[1::5][:1]).astype("f4")
    np.save(world.path("q.npy"), queries)
    wanted, want_scores = search(world, "g.safetensors", "q.npy")
    if metric == "euclidean":
        want_scores = want_scores ** 2
    size = 1 if mapped else max(1, np.max(np.sum(queries ** 2, axis=1)))
    scores, found = index.search(queries, K)
    if numbered:
        found = (found - 100) // 7
    same(found, scores, wanted, want_scores, size, case)
    # Without rows: the same once FAISS has added them.
    world.run("export", model, "--metric", metric, *raw, "-o", "e.faiss")
    empty = read(world, "e.faiss")
    check(empty.ntotal == 0 and empty.d == queries.shape[1], f"{case}: an empty index")
    empty.add(np.load(world.path(rows)))
    scores, found = empty.search(queries, K)
    if dtype == "f32":
        same(found, scores, wanted, want_scores, size, case + " empty")


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(sys.argv[1], folder)
        for model, rows in [("shrunk.safetensors", "unit.npy"), ("paper.safetensors", "unit.npy"), ("short.safetensors", "unit.npy"),
                            ("fused.safetensors", "unit.npy"), ("lengths.safetensors", "uneven.npy")]:
            for metric in ("cosine", "euclidean", "inner"):
                for mapped in (True, False):
                    compare(world, model, rows, mapped, metric, numbered=mapped)
        compare(world, "shrunk.safetensors", "unit.npy", True, "cosine", False, dtype="f16")
    print(f"faiss {faiss.__version__}: 31 indexes with rows and 31 without")


main()
