"""koofu's search or FAISS, in a process of its own (side.py): its environment (threads, kernels of its BLAS) must
be set before it is loaded.

usage: sides_search.py '{"kind": "koofu" | "faiss", "folder": …, "k": …, "threads": …, "metric": …, "sizes": […], "tuned": …, …}'

The folder holds base.npy and queries.npy. A line `N CALLS` asks for the median of this many calls with N queries
each; `announced` of them are announced to koofu. FAISS is tuned for the sizes, unless it is to be as it comes, and
the first word of what it says is the seconds of the best settings. koofu leaves its last neighbours, and how many
rows it scored in double precision for them, in found-ISA.npz.
"""

import ctypes
import json
import os
import statistics
import sys
import threading

import numpy as np

from common import PATIENCE
from side import clock, missing, serve

# FAISS's blocks of queries and of the database (its default first), and whether the queries are split
# among threads with one OpenMP thread each instead. For fewer queries than a threshold it does not call BLAS.
BLOCKS = ((4096, 1024, False), (4096, 512, False), (1024, 1024, False), (1024, 512, False), (4096, 512, True))
ALWAYS_BLAS, NEVER_BLAS, FEW = 0, 2**31 - 1, 20


def blas():
    """Version and kernels of the BLAS that FAISS has loaded, as it reports them."""
    with open("/proc/self/maps") as f:
        paths = sorted({line.split()[-1] for line in f if ".so" in line and line.split()[-1].startswith("/")})
    for path in paths:
        if os.path.basename(path).startswith("libmkl_rt"):
            text = ctypes.create_string_buffer(200)
            ctypes.CDLL(path).MKL_Get_Version_String(text, 199)
            return f"MKL {text.value.decode().split('Version ')[-1].split('-')[0]}"
    for path in paths:
        if "openblas" in os.path.basename(path) and "scipy" not in os.path.basename(path):
            lib = ctypes.CDLL(path)
            lib.openblas_get_config.restype = lib.openblas_get_corename.restype = ctypes.c_char_p
            return f"OpenBLAS {lib.openblas_get_config().decode().split()[1]} {lib.openblas_get_corename().decode()}"
    return "unknown BLAS"


class Faiss:
    def __init__(self, o, base, _):
        import faiss
        self.faiss, self.threads, self.k, self.clock = faiss, o["threads"], o["k"], o["clock"]
        faiss.omp_set_num_threads(self.threads)
        self.index = (faiss.IndexFlatL2 if o["metric"] == "euclidean" else faiss.IndexFlatIP)(base.shape[1])
        for start in range(0, len(base), 100000):  # in blocks, so that memory holds the rows once
            self.index.add(np.ascontiguousarray(base[start:start + 100000]))
        level = faiss.SIMDConfig.get_level_name() if hasattr(faiss, "SIMDConfig") else faiss.get_compile_options()
        self.version = f"FAISS {faiss.__version__} ({str(level).replace('OPTIMIZE', '').strip()})"
        self.best, self.tuned = {}, o["tuned"]  # best: setting by size

    def settings(self, size):
        """The default must come first, since settings persist."""
        if not self.tuned:
            return (None,)
        if size <= FEW:
            return (None, (ALWAYS_BLAS, *BLOCKS[0]), (NEVER_BLAS, *BLOCKS[0]))
        return (None, *((ALWAYS_BLAS, *block) for block in BLOCKS))

    def tune(self, sizes, queries):
        """Finds the best setting for each size, from one call or, for few queries, five. After two slow settings it
        stops."""
        total = 0
        for size in sizes:
            spent = {}
            for setting in self.settings(size):
                calls = 5 if size <= FEW else 1
                spent[setting] = min(clock(lambda: self.search(queries[:size], setting))[self.clock] for _ in range(calls))
                if len(spent) > 1 and min(spent.values()) > PATIENCE:
                    break
            self.best[size] = min(spent, key=spent.get)
            total += min(spent.values())
        return total

    def search(self, queries, setting="best"):
        if setting == "best":
            setting = self.best[len(queries)]
        cvar, split = self.faiss.cvar, False
        if setting:
            (cvar.distance_compute_blas_threshold, cvar.distance_compute_blas_query_bs,
             cvar.distance_compute_blas_database_bs, split) = setting
        if split and self.threads > 1:
            return self.search_split(queries)
        return self.index.search(queries, self.k)[1]

    def search_split(self, queries):
        parts = np.array_split(queries, self.threads)

        def work(part):
            self.faiss.omp_set_num_threads(1)  # of this thread alone
            self.index.search(part, self.k)
        threads = [threading.Thread(target=work, args=(part,)) for part in parts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


class Ours:
    def __init__(self, o, base, queries):
        from library import Index, Koofu, load
        lib = load(o["library"])
        self.k, self.out = o["k"], os.path.join(o["folder"], f"found-{o['isa']}.npz")
        self.version = f"koofu {lib.kf_version().decode()}"
        self.index = Index(Koofu(lib, o["threads"], o["isa"]), base, o["metric"], queries=queries)

    def search(self, queries):
        self.found, self.candidates = self.index.search(queries, self.k)


def main():
    o = json.loads(sys.argv[1])
    base, queries = (np.load(os.path.join(o["folder"], name)) for name in ("base.npy", "queries.npy"))
    try:
        side = {"koofu": Ours, "faiss": Faiss}[o["kind"]](o, base, o.get("announced", 0))
    except ImportError as reason:
        missing(str(reason))
    del base
    side.search(queries[:16], *([None] if o["kind"] == "faiss" else []))  # threads and libraries are up
    what = f"{side.tune(o['sizes'], queries)} {side.version}, {blas()}" if o["kind"] == "faiss" else side.version
    count = 0

    def answer(line):
        nonlocal count
        size, calls = map(int, line.split())
        times = []
        for _ in range(calls):  # other queries from call to call
            start = count * size % (len(queries) - size + 1)
            times.append(clock(lambda: side.search(queries[start:start + size]))[:2])
            count += 1
        if o["kind"] == "koofu":
            np.savez(side.out, found=side.found, candidates=side.candidates)
        return tuple(map(statistics.median, zip(*times)))

    serve(what, answer)


if __name__ == "__main__":
    main()
