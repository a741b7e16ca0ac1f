"""numpy and scipy in float64 as independent oracles of the statistics and the fit.

usage: oracle.py LIBKOOFU.so

Calls the shared library through ctypes, so it also tests what the library exports.
"""

import ctypes as c
import sys

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


class FitOptions(c.Structure):
    _fields_ = [("lam", Lambda), ("rest", c.c_uint64 * 64)]  # zeros: all else is the default


def load(path):
    lib = c.CDLL(path)
    lib.kf_errmsg.restype = c.c_char_p
    for name in ("transform_matrix", "within_eigenvalues", "between_eigenvalues", "mean"):
        f = getattr(lib, "kf_model_" + name)
        f.restype, f.argtypes = c.POINTER(c.c_double), [c.c_void_p]
    lib.kf_model_lambda.restype, lib.kf_model_lambda.argtypes = c.c_double, [c.c_void_p]
    return lib


class Koofu:
    """As little of the interface as the tests need."""

    def __init__(self, path):
        self.lib, self.ctx = load(path), c.c_void_p()
        assert self.lib.kf_ctx_new(None, c.byref(self.ctx)) == 0

    def call(self, name, *arguments):
        if getattr(self.lib, name)(self.ctx, *arguments) != 0:
            raise RuntimeError(f"{name}: {self.lib.kf_errmsg(self.ctx).decode()}")

    def stats(self, x, y, classes):
        x, y = np.ascontiguousarray(x, "f4"), np.ascontiguousarray(y, "i4")
        s = c.c_void_p()
        self.call("kf_stats_new", c.c_uint32(x.shape[1]), c.c_uint32(classes), None, None, c.byref(s))
        self.call("kf_stats_add", s, x.ctypes.data_as(c.c_void_p), y.ctypes.data_as(c.c_void_p),
                  c.c_uint64(len(x)))
        return s

    def scatter(self, s, dim):
        w, b, mean = np.empty((dim, dim)), np.empty((dim, dim)), np.empty(dim)
        self.call("kf_stats_scatter", s, *(a.ctypes.data_as(c.c_void_p) for a in (w, b, mean)))
        return w, b, mean

    def fit(self, s, lam, relative, dim):
        m = c.c_void_p()
        options = FitOptions(Lambda(lam, 2 if relative else 1))
        self.call("kf_fit_stats", s, c.byref(options), c.byref(m))
        array = lambda name, shape: np.ctypeslib.as_array(
            getattr(self.lib, "kf_model_" + name)(m), shape).copy()
        return (array("transform_matrix", (dim, dim)), array("within_eigenvalues", (dim,)),
                array("between_eigenvalues", (dim,)), self.lib.kf_model_lambda(m))


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
    t, within, between, absolute = kf.fit(s, lam, is_relative, dim)
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


def main():
    kf = Koofu(sys.argv[1])
    for n, dim, classes, seed in ((4000, 64, 10, 1), (3000, 130, 50, 2), (900, 33, 400, 3)):
        x, y = world(n, dim, classes, seed)
        name = f"{n} x {dim}, {classes} classes"
        s, w, b = check_scatter(kf, name, x, y, classes)
        check_fit(kf, name, s, w, b, 0.3, True)
        check_fit(kf, name, s, w, b, 1e-3, True)
        check_fit(kf, name, s, w, b, 2.5, False)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
