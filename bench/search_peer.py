"""One peer of koofu's search, in a process of its own: its environment (threads, kernels of its BLAS)
must be set before it is loaded. bench/search.py runs it.

usage: search_peer.py PEER FOLDER REQUEST

PEER: faiss-ip, faiss-l2, sklearn-cosine, sklearn-euclidean, numpy. FOLDER holds base.npy and
queries.npy. REQUEST: JSON with k, threads, repeat, patience (seconds) and, for latencies, batches and
calls. Prints JSON: version, blas, and the best setting with its seconds (or, for latencies, the best
setting for each batch); leaves the neighbours in FOLDER/neighbours.npy. Exits with 77 where the peer is
not installed.
"""

import ctypes
import json
import os
import statistics
import sys
import threading

import numpy as np

from common import clock

# FAISS's blocks of queries and of the database (its default first), and whether the queries are split
# among threads with one OpenMP thread each instead.
FAISS_SETTINGS = ((4096, 1024, False), (4096, 512, False), (1024, 1024, False), (1024, 512, False),
                  (4096, 512, True))
ALWAYS_BLAS, NEVER_BLAS = 0, 2**31 - 1  # for fewer queries than a threshold FAISS does not call BLAS


def blas(wanted, unwanted="/no/such"):
    """Version and kernels of the BLAS that is loaded, by asking it."""
    with open("/proc/self/maps") as f:
        paths = sorted({line.split()[-1] for line in f if ".so" in line and line.split()[-1].startswith("/")})
    for path in paths:
        name = os.path.basename(path)
        if name.startswith("libmkl_rt"):
            text = ctypes.create_string_buffer(200)
            ctypes.CDLL(path).MKL_Get_Version_String(text, 199)
            version = text.value.decode().split("Version ")[-1].split("-")[0]
            kernels = [os.path.basename(p) for p in paths if "libmkl_avx" in p or "libmkl_def" in p or "libmkl_mc" in p]
            return f"MKL {version} {' '.join(k.split('.')[0][len('libmkl_'):] for k in kernels)}".strip()
    for path in paths:
        name = os.path.basename(path)
        if wanted in name and unwanted not in name:
            lib = ctypes.CDLL(path)
            for pre, post in (("", ""), ("scipy_", "64_"), ("scipy_", "")):
                try:
                    config = getattr(lib, f"{pre}openblas_get_config{post}")
                    core = getattr(lib, f"{pre}openblas_get_corename{post}")
                except AttributeError:
                    continue
                config.restype = core.restype = ctypes.c_char_p
                return f"OpenBLAS {config().decode().split()[1]} {core().decode()}"
    return "unknown BLAS"


class Faiss:
    def __init__(self, base, request, metric):
        import faiss
        self.faiss, self.threads, self.k = faiss, request["threads"], request["k"]
        faiss.omp_set_num_threads(self.threads)
        self.index = (faiss.IndexFlatIP if metric == "ip" else faiss.IndexFlatL2)(base.shape[1])
        for start in range(0, len(base), 100000):  # in blocks, so that memory holds the rows once
            self.index.add(np.ascontiguousarray(base[start:start + 100000]))
        level = faiss.SIMDConfig.get_level_name() if hasattr(faiss, "SIMDConfig") else faiss.get_compile_options()
        self.version = f"FAISS {faiss.__version__} ({str(level).replace('OPTIMIZE', '').strip()})"

    def blas(self):
        return blas("openblas", "scipy")

    def settings(self):
        return [("default", None)] + [(f"blocks {q} × {b}{', queries split' if split else ''}",
                                       (ALWAYS_BLAS, q, b, split)) for q, b, split in FAISS_SETTINGS]

    def small_settings(self):
        q, b, _ = FAISS_SETTINGS[0]
        return [("default", None), ("always BLAS", (ALWAYS_BLAS, q, b, False)),
                ("never BLAS", (NEVER_BLAS, q, b, False))]

    def search(self, queries, setting):
        """The default must come first: settings stay."""
        cvar, split = self.faiss.cvar, False
        if setting:
            (cvar.distance_compute_blas_threshold, cvar.distance_compute_blas_query_bs,
             cvar.distance_compute_blas_database_bs, split) = setting
        if split and self.threads > 1:
            return self.search_split(queries)
        return self.index.search(queries, self.k)[1]

    def search_split(self, queries):
        parts = np.array_split(queries, self.threads)
        results = [None] * len(parts)

        def work(i):
            self.faiss.omp_set_num_threads(1)  # of this thread alone
            results[i] = self.index.search(parts[i], self.k)[1]
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(parts))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return np.concatenate(results)


class Sklearn:
    def __init__(self, base, request, metric):
        import sklearn
        from sklearn.neighbors import NearestNeighbors
        self.index = NearestNeighbors(n_neighbors=request["k"], algorithm="brute", metric=metric)
        self.index.fit(np.array(base))
        self.version = f"scikit-learn {sklearn.__version__}"

    def blas(self):
        return blas("openblas")

    def settings(self):
        return [("brute", None)]

    def search(self, queries, setting):
        return self.index.kneighbors(queries, return_distance=False)


class Numpy:
    def __init__(self, base, request, metric):
        self.base, self.k, self.version = np.array(base), request["k"], f"numpy {np.__version__}"

    def blas(self):
        return blas("openblas")

    def settings(self):
        return [(f"blocks of {n} queries", n) for n in (64, 256)]

    def search(self, queries, block):
        out = np.empty((len(queries), self.k), "i8")
        for start in range(0, len(queries), block):
            scores = queries[start:start + block] @ self.base.T
            best = np.argpartition(scores, -self.k, axis=1)[:, -self.k:]
            order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
            out[start:start + block] = np.take_along_axis(best, order, 1)
        return out


PEERS = {"faiss": Faiss, "sklearn": Sklearn, "numpy": Numpy}


def throughput(peer, queries, request, out):
    """Every setting once, then the best one again; one run alone where that takes long. The default alone
    does not decide what takes long: it may go without BLAS."""
    runs = {}
    for name, setting in peer.settings():
        seconds, found = clock(lambda: peer.search(queries, setting))
        runs[name] = [seconds]
        if seconds == min(r[0] for r in runs.values()):
            best, best_setting = name, setting
            np.save(out, found)
        if len(runs) > 1 and min(r[0] for r in runs.values()) > request["patience"]:
            break
    while runs[best][0] <= request["patience"] and len(runs[best]) < request["repeat"]:
        runs[best].append(clock(lambda: peer.search(queries, best_setting))[0])
    return {"setting": best, "seconds": runs[best], "all": {name: r[0] for name, r in runs.items()}}


def latency(peer, queries, request):
    """For each size of a batch the least median among the settings."""
    best = {}
    for name, setting in peer.small_settings():
        for batch in request["batches"]:
            seconds = []
            while len(seconds) < request["calls"] and (sum(seconds) < request["patience"] or not seconds):
                start = len(seconds) * batch % (len(queries) - batch + 1)
                seconds.append(clock(lambda: peer.search(queries[start:start + batch], setting))[0])
            if batch not in best or statistics.median(seconds) < statistics.median(best[batch]["seconds"]):
                best[batch] = {"setting": name, "seconds": seconds}
    return {"batches": best}


def main():
    peer_name, folder, request = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    kind, _, metric = peer_name.partition("-")
    base = np.load(os.path.join(folder, "base.npy"), mmap_mode="r")
    queries = np.load(os.path.join(folder, "queries.npy"))
    try:
        build, peer = clock(lambda: PEERS[kind](base, request, metric))
    except ImportError as missing:
        print(missing)
        return 77
    peer.search(queries[:min(16, len(queries))], peer.settings()[0][1])  # threads and libraries are up
    result = (latency(peer, queries, request) if "batches" in request else
              throughput(peer, queries, request, os.path.join(folder, "neighbours.npy")))
    print(json.dumps({"version": peer.version, "blas": peer.blas(), "build": build, **result}))
    return 0


sys.exit(main())
