"""Statistics, fits to data, and the parts of a fit to statistics."""

import os

import numpy as np

from common import on_disk, read_once, tensors
from floors import COLD, COLD_OR_WARM, GIVEN, GRID, GRID_JOBS, LAPACK, LDA, UNEQUAL, growth, limit, peak
from side import clock
from table import COST, Sample

FULL, TINY = (1000, 768), (20, 48)  # classes and dimensions
GRID_FITS, TWICE = 13 * 5, f"{LAPACK}, twice"
# The arithmetic of products of columns, by instruction set (src/kernel).
MOMENTS = {"amx": ("int8", 9), "avx512": ("int16", 3), "avx2": ("f64", 1)}


def statistics(b):
    (classes, dim), per_class = b.size(FULL, TINY), b.size(1281, 10)
    rows, data, out = classes * per_class, b.world(classes, dim, per_class, "f16"), b.path("out.safetensors")
    ceilings = b.c_side("ceilings", b.o.threads)
    sides = {isa: b.command(isa, "stats", data, "-o", out) for isa in b.isas}
    sides.update({(isa, "peak"): lambda isa=isa: ceilings.ask(f"{MOMENTS[isa][0]} {isa}") for isa in b.isas})
    why_not = "disk time is not processor time" if b.o.clock != "wall" else None if on_disk(data) else "files are in memory"
    if not why_not:
        sides.update({(isa, "cold"): b.cold(data, sides[isa]) for isa in b.isas})
        sides["reading"] = b.cold(data, lambda: clock(lambda: read_once(data)))
    times = b.turns(sides)
    what = f"statistics, {FULL[1]} f16"
    for isa in b.isas:
        kind, products = MOMENTS[isa]
        billions = 1e-9 * products * rows * dim * (dim + 1)
        b.table.compare("stats", what, isa, times[isa], peak(kind), times[isa, "peak"] * billions)
        if isa == "amx":
            b.limit("stats", what, isa, times[isa], limit("300,000 rows/s"), rows / 300000, COST)
        if "reading" in times:
            b.table.compare("stats", COLD, isa, times[isa, "cold"], COLD_OR_WARM, times[isa].larger(times["reading"]), COST)
        else:
            b.table.skip("stats", COLD, isa, COLD_OR_WARM, why_not)


def as_arrays(b, name, data, keep=None):
    """The same rows and labels, or those that are kept, as .npy files in a folder."""
    folder = b.path(name)
    os.makedirs(folder, exist_ok=True)
    paths = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    for path, tensor in zip(paths, ("embeddings", "labels")):
        values = tensors(data)[tensor]
        np.save(path, values if keep is None else values[keep])
    return (folder, *paths)


def unequal(labels, least):
    """A choice of rows that leaves each class a random number of them, from `least` on."""
    rng = np.random.default_rng(1)
    keep = np.zeros(len(labels), bool)
    for k in np.unique(labels):
        rows = np.flatnonzero(labels == k)
        keep[rows[:rng.integers(least, len(rows) + 1)]] = True
    return keep


def fits(b):
    """From .npy to a model, as scikit-learn goes from .npy to a fitted object."""
    data = b.world(*b.size(FULL, TINY), b.size(100, 10))
    folder, x, y = as_arrays(b, "equal", data)
    fit = ("fit", x, "--labels", y, "-o", b.path("out.safetensors"))
    sides = {}
    for isa in b.isas:
        sides[isa, "fit, λ given"] = b.command(isa, *fit, "--method", "paper", "--lambda", "0.3x")
        sides[isa, "fit, λ given, shrunk"] = b.command(isa, *fit, "--lambda", "0.3x")
        sides[isa, "fit, default"] = b.command(isa, *fit)
    for name, kind, jobs in ((LDA, "lda", 1), (GRID, "grid", 1), (GRID_JOBS, "grid", b.o.threads)):
        side = b.peer(lambda kind=kind, jobs=jobs: b.python_side("sides_fit.py", kind=kind, folder=folder, jobs=jobs), name)
        if side:
            sides[name] = side.ask
    other, x, y = as_arrays(b, "unequal", data, unequal(tensors(data)["labels"], b.size(30, 3)))
    fit = ("fit", x, "--labels", y, "-o", b.path("out.safetensors"))
    sides.update({(isa, UNEQUAL): b.command(isa, *fit) for isa in b.isas})
    if side := b.peer(lambda: b.python_side("sides_fit.py", kind="lda", folder=other, jobs=1), LDA):
        sides[UNEQUAL] = side.ask
    times = b.turns(sides)
    for name in (GRID, GRID_JOBS):
        if name in times:
            times[name] = times[name] * GRID_FITS + times[LDA]  # which is fitted to all rows at the end
    for isa in b.isas:
        for what in ("fit, λ given, shrunk", "fit, default"):
            b.table.compare("fit", what, isa, times[isa, what], GIVEN, times[isa, GIVEN], COST)
        for what, other in (("fit, λ given", LDA), ("fit, default", LDA), ("fit, default", GRID), ("fit, default", GRID_JOBS)):
            b.compare("fit", what, isa, times[isa, what], other, times.get(other))
        b.compare("fit", UNEQUAL, isa, times[isa, UNEQUAL], LDA, times.get(UNEQUAL))


def f64_peak(isa):
    """AMX has no f64."""
    return "f64", "avx512" if isa == "amx" else isa


def solver(b):
    """The eigensolver and the fit to statistics, which do not depend on the number of rows."""
    dims = b.size((768, 1024, 2048), (96, 128))
    stats = {dim: b.path(f"stats-{dim}.safetensors") for dim in dims}
    for dim in dims:
        b.run("stats", b.world(b.size(FULL, TINY)[0], dim, 5), "-o", stats[dim])
    sides, ceilings = {}, b.c_side("ceilings", b.o.threads)
    for isa in b.isas:
        ours = b.c_side("solver", b.o.threads, isa)
        for dim in dims:
            for name, line in (("product", f"product {dim}"), ("eigen", f"eigen {dim}"), ("fit", f"fit {stats[dim]}")):
                sides[isa, name, dim] = lambda ours=ours, line=line: ours.ask(line)
        sides[isa, "peak"] = lambda isa=isa: ceilings.ask(" ".join(f64_peak(isa)))
    lapack = b.peer(lambda: b.python_side("sides_fit.py", kind="lapack"), LAPACK, TWICE)
    if lapack:
        sides.update({("lapack", dim): lambda dim=dim: lapack.ask(dim) for dim in dims})
    times = b.turns(sides)
    for isa in b.isas:
        for dim in dims:
            solver_rows(b, isa, dim, dims[0], times)


def solver_rows(b, isa, dim, least, times):
    lapack, fit, what = times.get(("lapack", dim)), times[isa, "fit", dim], f"fit of statistics, D = {dim}"
    b.table.compare("solver", f"product, D = {dim}", isa, times[isa, "product", dim], peak("f64"),
                    times[isa, "peak"] * (2e-9 * dim**3))
    b.compare("solver", f"eigenvectors, D = {dim}", isa, times[isa, "eigen", dim], LAPACK, lapack)
    b.compare("solver", what, isa, fit, TWICE, lapack and lapack * 2)
    if dim == least:
        b.limit("solver", what, isa, fit, limit("0.12 s"), 0.12, COST)
    else:
        scaled = Sample([times[isa, "fit", least].median * (dim / least) ** 3])
        b.table.compare("solver", what, isa, fit, growth(least), scaled, COST)
