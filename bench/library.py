"""The parts of libkoofu.so that the search benchmarks need, through ctypes."""

import ctypes as c

import numpy as np

ISA = {"plain": 1, "avx2": 2, "avx512": 3, "amx": 4}
METRIC = {"cosine": 1, "euclidean": 2, "inner": 3}


class CtxOptions(c.Structure):
    _fields_ = [("threads", c.c_uint), ("isa", c.c_int), ("progress", c.c_void_p), ("log", c.c_void_p),
                ("user", c.c_void_p), ("any_encoder", c.c_int), ("reserved", c.c_uint64 * 7)]


class IndexOptions(c.Structure):
    _fields_ = [("metric", c.c_int), ("rows_in_place", c.c_int), ("dtype", c.c_int), ("queries", c.c_uint64),
                ("reserved", c.c_uint64 * 2)]


class Report(c.Structure):
    _fields_ = [("queries", c.c_uint64), ("candidates", c.c_uint64), ("far", c.c_uint64), ("reserved", c.c_uint64 * 3)]


def load(path):
    lib = c.CDLL(path)
    lib.kf_version.restype = lib.kf_errmsg.restype = c.c_char_p
    lib.kf_index_bytes.restype = c.c_uint64
    for name in ("kf_errmsg", "kf_ctx_free", "kf_index_free", "kf_index_bytes"):
        getattr(lib, name).argtypes = [c.c_void_p]
    lib.kf_index_new.argtypes = [c.c_void_p, c.c_void_p, c.c_uint64, c.c_uint32, c.c_void_p, c.c_void_p]
    lib.kf_search.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p, c.c_uint64, c.c_uint32] + [c.c_void_p] * 4
    return lib


class Koofu:
    """A context with a number of threads and an instruction set."""

    def __init__(self, lib, threads, isa):
        self.lib, self.ctx = lib, c.c_void_p()
        if lib.kf_ctx_new(c.byref(CtxOptions(threads, ISA[isa])), c.byref(self.ctx)) != 0:
            raise RuntimeError(f"no context with {isa}")

    def __del__(self):
        self.lib.kf_ctx_free(self.ctx)

    def call(self, name, *arguments):
        if getattr(self.lib, name)(self.ctx, *arguments) != 0:
            raise RuntimeError(f"{name}: {self.lib.kf_errmsg(self.ctx).decode()}")


class Index:
    def __init__(self, koofu, rows, metric, in_place=False, queries=0):
        self.koofu, self.rows, self.index = koofu, rows if in_place else None, c.c_void_p()
        options = IndexOptions(METRIC[metric], in_place, queries=queries)
        koofu.call("kf_index_new", rows.ctypes.data, *rows.shape, c.byref(options), c.byref(self.index))

    def __del__(self):
        self.koofu.lib.kf_index_free(self.index)

    def bytes(self):
        return self.koofu.lib.kf_index_bytes(self.index)

    def search(self, queries, k):
        """Neighbours [n][k], and the number of rows scored in double precision."""
        found, report = np.empty((len(queries), k), "i8"), Report()
        self.koofu.call("kf_search", self.index, queries.ctypes.data, len(queries), k, None, found.ctypes.data,
                        None, c.byref(report))
        return found, report.candidates
