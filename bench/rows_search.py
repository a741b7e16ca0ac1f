"""Exact search beside FAISS, the peak of 8-bit products and the speed of memory."""

import os
import sys

import numpy as np

from common import blas_environment, cpu_has, say, tensors
from floors import FAISS, FAISS_AS_IT_COMES, READING, SEARCHED, SMALL, peak, searched
from side import Missing
from table import COST

DEBIAN_PYTHON = "/usr/bin/python3"
PAPER_ROWS = 1281167
PAPER_DIMS = (768, 640, 512, 384, 256, 192, 128, 96, 76, 64, 32)  # of the paper's table of efficiency
DATA = ["gaussian", "synth"]
CHECKED = 50  # queries that are compared with float64
K = 15


# --- data -----------------------------------------------------------------------------------------


def gaussian(n, dim, seed):
    rows = np.random.default_rng(seed).standard_normal((n, dim), dtype="f4")
    for start in range(0, n, 65536):
        block = rows[start:start + 65536]
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return rows


def make_rows(b, n, n_queries, dim, data="gaussian"):
    """Writes base.npy and queries.npy, unit rows for all sides."""
    for name, count, split in (("base.npy", n, 0), ("queries.npy", n_queries, 1)):
        if data == "synth":
            rows = tensors(b.world(1000, dim, -(-count // 1000), split=split))["embeddings"][:count]
        else:
            rows = gaussian(count, dim, split)
        np.save(b.path(name), rows)


def unit(rows):
    wide = rows.astype("f8")
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def exact_scores(base, queries, metric):
    """Scores in float64, of the rows as given; greater is nearer."""
    rescale = unit if metric == "cosine" else np.asarray
    q = rescale(queries).astype("f8")
    scores = np.empty((len(q), len(base)))
    for start in range(0, len(base), 16384):
        rows = rescale(base[start:start + 16384]).astype("f8")
        scores[:, start:start + 16384] = q @ rows.T
        if metric == "euclidean":
            scores[:, start:start + 16384] -= (rows * rows).sum(1) / 2
    return scores


def check(b, group, what, isa):
    """koofu's last neighbours must be those of float64, where float64 can separate the scores."""
    base, queries = np.load(b.path("base.npy"), mmap_mode="r"), np.load(b.path("queries.npy"))
    answer = np.load(b.path(f"found-{isa}.npz"))
    found = answer["found"]
    say(f"{what} ({isa}): {answer['candidates'] / len(found):.0f} candidates a query")
    some = np.linspace(0, len(found) - 1, min(CHECKED, len(found))).astype(int)
    scores, wrong = exact_scores(base, queries[some], b.o.metric), 0
    for row, ours in zip(scores, found[some]):
        best = np.argpartition(-row, K - 1)[:K]
        best = best[np.lexsort((best, -row[best]))]
        wrong += len(set(ours)) < K or bool(np.abs(row[ours] - row[best]).max() > 1e-13)
    if wrong:
        b.table.fail(f"{group}: {what} ({isa}): {wrong} of {len(some)} lists of neighbours are not those of float64")


# --- sides ----------------------------------------------------------------------------------------


def koofu_side(b, isa, k=K, announced=0):
    return b.python_side("sides_search.py", kind="koofu", folder=b.work, isa=isa, k=k, metric=b.o.metric,
                         library=b.library, announced=announced)


def mkl():
    """Environment in which FAISS uses MKL instead of the BLAS of its wheel, if MKL is installed."""
    folder = os.path.join(sys.prefix, "lib")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = sorted(n for n in names if n.startswith("libmkl_rt.so"))
    return {"LD_PRELOAD": f"{folder}/libiomp5.so {folder}/{found[-1]}"} if found and "libiomp5.so" in names else None


def faiss_sources():
    """FAISS of the virtual environment, with its own BLAS and with MKL, and Debian's."""
    sources = [(sys.executable, {})] + ([(sys.executable, mkl())] if mkl() else [])
    if os.path.exists(DEBIAN_PYTHON) and os.path.realpath(sys.executable) != os.path.realpath(DEBIAN_PYTHON):
        sources.append((DEBIAN_PYTHON, {}))
    return sources


FASTEST = {}  # source by level, sizes and dimensions: what the rows are does not matter


def fastest_faiss(b, level, sizes, dim):
    """The best FAISS, tuned for queries of these sizes. level: the instruction sets it is limited to."""
    best, least, why, key = None, float("inf"), [], (level, *sizes, dim)
    for python, preload in FASTEST.get(key, faiss_sources()):
        try:
            side = b.python_side("sides_search.py", {**blas_environment(b.o.threads, level), **preload}, python,
                                 kind="faiss", tuned=True, folder=b.work, k=K, metric=b.o.metric, sizes=sizes)
        except Missing as missing:
            why.append(str(missing))
            continue
        seconds, side.what = side.what.split(maxsplit=1)
        if float(seconds) < least:
            best, side, least = side, best, float(seconds)
            FASTEST[key] = [(python, preload)]
        if side:
            side.stop()  # the slower one, which holds all rows
    if best is None:
        raise Missing("; ".join(dict.fromkeys(why)))
    return best


def plain_faiss(b, sizes):
    """FAISS as pip installs it, with default settings except for the number of threads."""
    side = b.python_side("sides_search.py", blas_environment(b.o.threads, None), kind="faiss", tuned=False, folder=b.work, k=K,
                         metric=b.o.metric, sizes=sizes)
    side.what = side.what.split(maxsplit=1)[1] + ", as it comes"
    return side


def levels(b):
    """FAISS is limited to AVX2 where koofu is."""
    return {isa: "avx2" if isa == "avx2" or not cpu_has("avx512bw") else "avx512" for isa in b.isas}


def search_sides(b, sizes, line, dim, announced=0):
    """Turns of koofu by instruction set and of FAISS by level, for each size."""
    sides = {}
    for isa in b.isas:
        side = koofu_side(b, isa, announced=announced)
        sides.update({(isa, size): lambda side=side, size=size: side.ask(line(size)) for size in sizes})
    for level in sorted(set(levels(b).values())):
        side = b.peer(lambda level=level: fastest_faiss(b, level, sizes, dim), FAISS)
        if side:
            sides.update({(level, FAISS, size): lambda side=side, size=size: side.ask(line(size)) for size in sizes})
    return sides


# --- groups ---------------------------------------------------------------------------------------


def compare_search(b, group, n, n_queries, dim, what, data="gaussian"):
    make_rows(b, n, n_queries, dim, data)
    sides = search_sides(b, [n_queries], lambda size: f"{size} 1", dim, announced=n_queries)
    held = set(levels(b).values()) == {"avx2"}  # which what comes with pip is not
    plain = None if held else b.peer(lambda: plain_faiss(b, [n_queries]), FAISS_AS_IT_COMES)
    if plain:
        sides[FAISS_AS_IT_COMES] = lambda: plain.ask(f"{n_queries} 1")
    ceilings = b.c_side("ceilings", b.o.threads)
    sides.update({(isa, "peak"): lambda isa=isa: ceilings.ask(f"int8 {isa}") for isa in b.isas})
    times = b.turns(sides)
    b.stop_sides()
    for isa in b.isas:
        check(b, group, what, isa)
        ours = times[isa, n_queries]
        faiss, ceiling = times.get((levels(b)[isa], FAISS, n_queries)), times[isa, "peak"] * (2e-9 * n * n_queries * dim)
        b.compare(group, what, isa, ours, FAISS, faiss)
        if levels(b)[isa] != "avx2":
            b.compare(group, what, isa, ours, FAISS_AS_IT_COMES, times.get(FAISS_AS_IT_COMES))
        b.table.compare(group, what, isa, ours, peak("int8"), ceiling)
        if data == "gaussian":  # what no search that multiplies all rows could exceed
            b.compare(group, f"the peak itself, d = {dim}", isa, ceiling, FAISS, faiss)


def search(b):
    """Enough queries for koofu to look for leading directions, which clustered rows have."""
    for data in b.o.data:
        for dim in b.o.dims or SEARCHED:
            compare_search(b, "search", b.size(200000, 10000), b.size(4096, 200), dim, searched(dim, data), data)
    if not b.o.dims:  # what few-shot sets have: most of the time goes to candidates, not to the scan
        compare_search(b, "search", b.size(4000, 1000), b.size(3000, 200), 512, SMALL)


def paper(b):
    """The sizes of the paper's table of efficiency; 500 of its 50,000 queries."""
    for dim in b.o.dims or PAPER_DIMS:
        compare_search(b, "paper", b.size(PAPER_ROWS, 12811), b.size(500, 50), dim, f"search of {PAPER_ROWS:,}, d = {dim}")


def latency(b):
    """Few queries at a time, as on a server. No search can be faster than reading the rows once, except for the part
    that stays in the last-level cache."""
    n, dim, sizes, calls = b.size(1000000, 10000), 256, (1, 4, 16), b.size(20, 3)
    make_rows(b, n, 1000, dim)
    sides, ceilings = search_sides(b, sizes, lambda size: f"{size} {calls}", dim), b.c_side("ceilings", b.o.threads)
    sides[READING] = lambda: ceilings.ask(f"memory {n * dim}")
    times = b.turns(sides)
    for size in sizes:
        what = f"{size} {'query' if size == 1 else 'queries'}"
        for isa in b.isas:
            b.table.compare("latency", what, isa, times[isa, size], READING, times[READING], COST)
            b.compare("latency", what, isa, times[isa, size], FAISS, times.get((levels(b)[isa], FAISS, size)))
