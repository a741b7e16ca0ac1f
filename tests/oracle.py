"""numpy and scipy in float64 as independent oracles of the statistics and the fit.

usage: oracle.py LIBKOOFU.so

Calls the shared library through ctypes, so it also tests what the library exports.
"""

import ctypes as c
import json
import os
import struct
import sys
import tempfile

try:
    import numpy as np
    import scipy.linalg
except ImportError as missing:
    print(f"left out: {missing}")
    sys.exit(77)

failed = passed = 0


def check(what, value, limit):
    global failed, passed
    ok = bool(value <= limit)
    print(f"{'ok  ' if ok else 'FAIL'} {what:66} {value:.2e}  limit {limit:.0e}")
    passed, failed = passed + ok, failed + (not ok)


class Lambda(c.Structure):
    _fields_ = [("value", c.c_double), ("unit", c.c_int)]


class StatsOptions(c.Structure):
    _fields_ = [("normalize", c.c_int), ("exponent", c.c_int), ("fixed_exponent", c.c_int), ("reserved", c.c_uint64 * 4)]


class FitOptions(c.Structure):
    _fields_ = [("lam", Lambda), ("dim", c.c_uint32), ("choose_dim", c.c_int), ("centre", c.c_int), ("metric", c.c_int),
                ("text", c.c_void_p), ("alpha", c.c_void_p), ("stats_options", StatsOptions), ("stats", c.c_void_p),
                ("between", c.c_void_p), ("one_se", c.c_int), ("sample", c.c_uint64), ("folds", c.c_uint32),
                ("margin", c.c_double), ("method", c.c_int), ("criterion", c.c_int), ("groups", c.c_void_p),
                ("reject", c.c_double), ("reserved", c.c_uint64 * 5)]


AUTO, ABSOLUTE, RELATIVE = 0, 1, 2  # kf_lambda_unit
SHRUNK, PAPER = 1, 2  # kf_method
OFF = 2  # kf_switch


def load(path):
    lib = c.CDLL(path)
    lib.kf_errmsg.restype = c.c_char_p
    lib.kf_model_lambda.restype, lib.kf_model_lambda.argtypes = c.c_double, [c.c_void_p]
    return lib


class Koofu:
    """The part of the interface that the tests need."""

    def __init__(self, path):
        self.lib, self.ctx = load(path), c.c_void_p()
        assert self.lib.kf_ctx_new(None, c.byref(self.ctx)) == 0

    def call(self, name, *arguments):
        if getattr(self.lib, name)(self.ctx, *arguments) != 0:
            raise RuntimeError(f"{name}: {self.lib.kf_errmsg(self.ctx).decode()}")

    def stats(self, x, y, classes, options=None):
        x, y = np.ascontiguousarray(x, "f4"), np.ascontiguousarray(y, "i4")
        s = c.c_void_p()
        self.call("kf_stats_new", c.c_uint32(x.shape[1]), c.c_uint32(classes), None, options and c.byref(options), c.byref(s))
        self.call("kf_stats_add", s, x.ctypes.data_as(c.c_void_p), y.ctypes.data_as(c.c_void_p),
                  c.c_uint64(len(x)))
        return s

    def scatter(self, s, dim):
        w, b, mean = np.empty((dim, dim)), np.empty((dim, dim)), np.empty(dim)
        self.call("kf_stats_scatter", s, *(a.ctypes.data_as(c.c_void_p) for a in (w, b, mean)))
        return w, b, mean

    def fit(self, s, method, lam, unit):
        """The tensors of the model's file, and lambda."""
        m = c.c_void_p()
        self.call("kf_fit_stats", s, c.byref(FitOptions(Lambda(lam, unit), method=method)), c.byref(m))
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "m.safetensors")
            self.call("kf_model_save", m, path.encode())
            return tensors(path), self.lib.kf_model_lambda(m)


def tensors(path):
    with open(path, "rb") as file:
        content = file.read()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    types = {"F64": "<f8", "F32": "<f4", "I64": "<i8"}
    return {name: np.frombuffer(content, types[t["dtype"]], int(np.prod(t["shape"])), begin + t["data_offsets"][0])
            .reshape(t["shape"]) for name, t in json.loads(content[8:begin]).items() if name != "__metadata__"}


def world(n, dim, classes, seed):
    """Rows in a cone as CLIP's (the mean of the unit rows is about 0.7 long), with anisotropic noise;
    some classes are small."""
    r = np.random.default_rng(seed)
    y = np.minimum(r.integers(0, classes, n), r.integers(0, classes, n))
    mix = np.linalg.qr(r.standard_normal((dim, dim)))[0]
    noise = r.standard_normal((n, dim)) * (np.arange(1, dim + 1) ** -0.7)
    centre = r.standard_normal((classes, dim)) * (np.arange(1, dim + 1) ** -0.5)
    mean = 1.6 * np.ones(dim) / np.sqrt(dim)
    x = (mean + centre[y] * 0.5 + noise) @ mix
    return x.astype("f4"), y.astype("i4")


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def fixed(x):
    """The rows as koofu's integers: eight lanes, a tree, one division, one product, one rounding."""
    x = x.astype("f8")
    padded = np.zeros((len(x), -(-x.shape[1] // 8) * 8))
    padded[:, :x.shape[1]] = x
    lane = np.zeros((len(x), 8))
    for i in range(0, padded.shape[1], 8):
        lane += padded[:, i:i + 8] ** 2
    l = lane.T
    norm2 = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
    return np.rint(x * (4194304.0 / np.sqrt(norm2))[:, None]) / 4194304.0


def scatter(x, y, classes):
    """By the definition, in float64, around the means."""
    mean = x.mean(0)
    within, between = np.zeros((x.shape[1],) * 2), np.zeros((x.shape[1],) * 2)
    for k in range(classes):
        rows = x[y == k]
        if len(rows) == 0:
            continue
        mu = rows.mean(0)
        within += (rows - mu).T @ (rows - mu)
        between += len(rows) * np.outer(mu - mean, mu - mean)
    return within, between, mean


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def check_scatter(kf, name, x, y, classes):
    s = kf.stats(x, y, classes)
    w, b, mean = kf.scatter(s, x.shape[1])
    exact_w, exact_b, exact_mean = scatter(fixed(x), y, classes)
    check(f"{name}: S_w on the fixed-point rows, relative", relative(w, exact_w), 1e-12)
    check(f"{name}: S_b on the fixed-point rows, relative", relative(b, exact_b), 1e-12)
    check(f"{name}: mean on the fixed-point rows, relative", relative(mean, exact_mean), 1e-12)
    float_w, float_b, _ = scatter(unit(x.astype("f8")), y, classes)
    check(f"{name}: S_w on the rows themselves, relative", relative(w, float_w), 1e-6)
    check(f"{name}: S_b on the rows themselves, relative", relative(b, float_b), 1e-6)
    return s, w, b


def check_fit(kf, name, s, w, b, lam, is_relative):
    dim = len(w)
    model, absolute = kf.fit(s, PAPER, lam, RELATIVE if is_relative else ABSOLUTE)
    t, within, between = (model[part] for part in ("transform", "within_eigenvalues", "between_eigenvalues"))
    check(f"{name}: the paper's method shrinks nothing", "signal" in model, 0)
    if is_relative:
        check(f"{name}: lambda is {lam:g} mean eigenvalues", abs(absolute / (lam * np.trace(w) / dim) - 1), 1e-14)
    regular = w + absolute * np.eye(dim)
    name = f"{name}, lambda {lam:g}{'x' if is_relative else ''}"
    check(f"{name}: T S'_w T^T = I", abs(t @ regular @ t.T - np.eye(dim)).max(), 1e-9)
    scale = max(1.0, between[0])
    check(f"{name}: T S_b T^T = diag(gamma)", abs(t @ b @ t.T - np.diag(between)).max() / scale, 1e-9)
    check(f"{name}: eigenvalues of S_w against scipy",
          abs(within - np.linalg.eigvalsh(w)[::-1]).max() / within[0], 1e-12)
    # The generalised problem S_b v = gamma S'_w v, solved another way.
    gamma, v = scipy.linalg.eigh(b, regular)
    gamma, v = gamma[::-1], v[:, ::-1].T
    check(f"{name}: gamma against scipy", abs(between - gamma).max() / scale, 1e-10)
    # Directions are unique up to sign where gamma is well apart from its neighbours.
    gap = np.minimum(np.abs(np.diff(gamma, prepend=np.inf)), np.abs(np.diff(gamma, append=-np.inf)))
    clear = gap > 1e-3 * gamma[0]
    sign = np.sign((t * v).sum(1))[:, None]
    worst = max(np.linalg.norm(t[i] - sign[i] * v[i]) / np.linalg.norm(v[i]) for i in np.where(clear)[0])
    check(f"{name}: {clear.sum()} directions against scipy, up to sign", worst, 1e-8)


# --- the default method -----------------------------------------------------------------------------


def singles(n, dim, classes, seed):
    """Like world, but every fourth class has one row."""
    x, y = world(n, dim, classes, seed)
    once = [np.flatnonzero(y == k)[1:] for k in range(0, classes, 4)]
    kept = np.setdiff1d(np.arange(n), np.concatenate(once))
    return x[kept], y[kept]


def units(n, dim, classes, seed):
    """Columns in units of their own; the first is constant, the second constant within classes."""
    x, y = world(n, dim, classes, seed)
    x = x * np.random.default_rng(seed).choice([0.5, 3, 100, 1000], dim) + 5
    x[:, 0], x[:, 1] = 7, 3 * y
    return x.astype("f4"), y


def column_scales(w, b):
    """s of each column: its deviation within classes, between them if there is none within, 1 if it is constant."""
    w, b = np.diag(w), np.diag(b)
    scatter = np.where(w > 0, w, b) / w.mean()
    return np.sqrt(np.where(scatter > 0, scatter, 1))


def check_shrunk(kf, name, rows, s, y, classes, lam, unit):
    """Everything by solving linear equations in the original space, instead of T: with R = S_w + lambda diag(s^2), the
    shrunk mean of n rows is T times R times (R^-1 - (R + n kappa S_b)^-1) (mean - mean of all)."""
    model, absolute = kf.fit(s, SHRUNK, lam, unit)
    same, _ = kf.fit(s, 0, lam, unit)
    check(f"{name}: it is the default", not all(np.array_equal(a, same[part]) for part, a in model.items()), 0)
    w, b, mean = scatter(rows, y, classes)
    count = np.bincount(y, minlength=classes)
    total, filled = not w.any(), count > 0
    w = b if total else w
    dim, scale = len(w), column_scales(w, b)
    values = np.linalg.eigvalsh(w / np.outer(scale, scale))[::-1]
    check(f"{name}: eigenvalues of S_w in scaled columns", abs(model["within_eigenvalues"] - values).max() / values[0], 1e-12)
    factor = (30 if total else 0.3) if unit == AUTO else lam
    check(f"{name}: lambda is {factor:g} mean eigenvalues", abs(absolute / (factor * values.mean()) - 1), 1e-12)
    regular = w + absolute * np.diag(scale ** 2)
    t, gamma = model["transform"], model["between_eigenvalues"]
    check(f"{name}: mean", abs(model["mean"] - mean).max() / abs(mean).max(), 1e-12)
    check(f"{name}: T R T^T = I", abs(t @ regular @ t.T - np.eye(dim)).max(), 1e-9)
    check(f"{name}: T S_b T^T = diag(gamma)", abs(t @ b @ t.T - np.diag(gamma)).max() / max(1, gamma[0]), 1e-9)
    values = scipy.linalg.eigh(b, regular, eigvals_only=True)[::-1]
    check(f"{name}: gamma against scipy", abs(gamma - values).max() / max(1, gamma[0]), 1e-10)
    n = len(rows)
    kappa = (n - filled.sum()) / (n - (count ** 2).sum() / n)
    check(f"{name}: signal, only where means are shrunk", ("signal" in model) == total, 0)
    if not total:
        check(f"{name}: signal", relative(model["signal"], kappa * values), 1e-9)
    wanted = np.zeros((classes, dim))
    for k in np.flatnonzero(filled):
        away = rows[y == k].mean(0) - mean
        wanted[k] = np.linalg.solve(regular, away)
        if not total:
            wanted[k] -= np.linalg.solve(regular + count[k] * kappa * b, away)
    lengths = np.sqrt(((wanted @ regular) * wanted).sum(1))
    check(f"{name}: lengths of prototypes", relative(model["prototype_lengths"], lengths), 1e-9)
    mapped = (wanted @ regular @ t.T)[filled] / lengths[filled, None]
    check(f"{name}: {filled.sum()} unit prototypes", abs(model["prototypes"][filled] - mapped).max(), 1e-7)
    check(f"{name}: {(~filled).sum()} classes without rows", abs(model["prototypes"][~filled]).sum(), 0)


def check_default(kf):
    exponent = 10
    raw = StatsOptions(normalize=OFF, exponent=exponent)
    for what, make, n, dim, classes, seed, options in (
            ("K < D", world, 2000, 64, 20, 4, None), ("K > D, singles", singles, 1500, 40, 200, 5, None),
            ("K < D, singles", singles, 300, 90, 30, 6, None), ("raw units", units, 900, 24, 7, 7, raw)):
        x, y = make(n, dim, classes, seed)
        rows = fixed(x) if options is None else np.rint(x.astype("f8") * 2.0 ** exponent) / 2.0 ** exponent
        s = kf.stats(x, y, classes, options)
        check_shrunk(kf, what, rows, s, y, classes, 0, AUTO)
        check_shrunk(kf, f"{what}, 10x", rows, s, y, classes, 10, RELATIVE)
    for dim, classes in ((48, 20), (20, 48)):
        x, y = world(classes, dim, classes, 8)[0], np.arange(classes, dtype="i4")
        s = kf.stats(x, y, classes)
        check_shrunk(kf, f"one row a class, {classes} classes, {dim} columns", fixed(x), s, y, classes, 0, AUTO)


def main():
    kf = Koofu(sys.argv[1])
    for n, dim, classes, seed in ((4000, 64, 10, 1), (3000, 130, 50, 2), (900, 33, 400, 3)):
        x, y = world(n, dim, classes, seed)
        name = f"{n} x {dim}, {classes} classes"
        s, w, b = check_scatter(kf, name, x, y, classes)
        check_fit(kf, name, s, w, b, 0.3, True)
        check_fit(kf, name, s, w, b, 1e-3, True)
        check_fit(kf, name, s, w, b, 2.5, False)
    check_default(kf)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
