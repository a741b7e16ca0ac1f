"""Statistics, fits of data, and what a fit of statistics is made of."""

import os

import numpy as np

from common import tensors
from floors import GIVEN, GRID, LAPACK, LDA, growth, limit, peak
from side import Missing
from table import COST, Sample

FULL, TINY = (1000, 768), (20, 48)  # classes and dimensions
GRID_FITS = 13 * 5
# The products of each pair of columns and row, and what they are multiplied as: src/kernel.
MOMENTS = {"amx": ("int8", 9), "avx512": ("int16", 3), "avx2": ("f64", 1)}


def statistics(b):
    (classes, dim), per_class = b.size(FULL, TINY), b.size(1281, 10)
    rows, data, out = classes * per_class, b.world(classes, dim, per_class, "f16"), b.path("out.safetensors")
    with b.c_side("ceilings", b.o.threads) as ceilings:
        sides = {isa: b.command(isa, "stats", data, "-o", out) for isa in b.isas}
        sides.update({(isa, "peak"): lambda isa=isa: ceilings.ask(f"{MOMENTS[isa][0]} {isa}") for isa in b.isas})
        times = b.turns(sides)
    what = f"statistics, {FULL[1]} f16"
    for isa in b.isas:
        kind, products = MOMENTS[isa]
        billions = 1e-9 * products * rows * dim * (dim + 1)
        b.table.compare("stats", what, isa, times[isa], peak(kind), times[isa, "peak"] * billions)
        if isa == "amx":
            b.limit("stats", what, isa, times[isa], limit("300,000 rows/s"), rows / 300000, COST)


def as_arrays(b, data):
    """The same rows and labels as .npy files, in a folder."""
    folder = b.path("arrays")
    os.makedirs(folder, exist_ok=True)
    paths = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    for path, name in zip(paths, ("embeddings", "labels")):
        np.save(path, tensors(data)[name])
    return (folder, *paths)


def fits(b):
    """From .npy to model, as scikit-learn does it from .npy to a fitted object."""
    folder, x, y = as_arrays(b, b.world(*b.size(FULL, TINY), b.size(100, 10)))
    fit = ("fit", x, "--labels", y, "-o", b.path("out.safetensors"))
    sides = {}
    for isa in b.isas:
        sides[isa, "fit, λ given"] = b.command(isa, *fit, "--method", "paper", "--lambda", "0.3x")
        sides[isa, "fit, λ given, shrunk"] = b.command(isa, *fit, "--lambda", "0.3x")
        sides[isa, "fit, default"] = b.command(isa, *fit)
    try:
        lda, grid = (b.python_side("sides_fit.py", kind=kind, folder=folder) for kind in ("lda", "grid"))
        sides[LDA], sides[GRID] = lda.ask, grid.ask
        b.say(f"{lda.what}; {grid.what}")
        why = None
    except Missing as missing:
        why = str(missing)
    times = b.turns(sides)
    if why is None:
        lda.stop()
        grid.stop()
        times[GRID] = times[GRID] * GRID_FITS + times[LDA]  # which is fitted to all rows at the end
    for isa in b.isas:
        given = times[isa, GIVEN]
        b.table.compare("fit", "fit, λ given, shrunk", isa, times[isa, "fit, λ given, shrunk"], GIVEN, given, COST)
        b.table.compare("fit", "fit, default", isa, times[isa, "fit, default"], GIVEN, given, COST)
        for what, other in (("fit, λ given", LDA), ("fit, default", LDA), ("fit, default", GRID)):
            if why is None:
                b.table.compare("fit", what, isa, times[isa, what], other, times[other])
            else:
                b.table.skip("fit", what, isa, other, why)


def f64_peak(isa):
    """AMX has no f64."""
    return "f64", "avx512" if isa == "amx" else isa


def solver(b):
    """The eigensolver and the fit of statistics, which does not depend on the number of rows."""
    dims = b.size((768, 1024, 2048), (96, 128))
    stats = {}
    for dim in dims:
        stats[dim] = b.path(f"stats-{dim}.safetensors")
        b.run("stats", b.world(b.size(FULL, TINY)[0], dim, 5), "-o", stats[dim])
    ours = {isa: b.c_side("solver", b.o.threads, isa) for isa in b.isas}
    sides = {}
    for dim in dims:
        for isa, side in ours.items():
            sides[isa, "product", dim] = lambda side=side, dim=dim: side.ask(f"product {dim}")
            sides[isa, "eigen", dim] = lambda side=side, dim=dim: side.ask(f"eigen {dim}")
            sides[isa, "fit", dim] = lambda side=side, dim=dim: side.ask(f"fit {stats[dim]}")
    try:
        lapack = b.python_side("sides_fit.py", kind="lapack")
        sides.update({("lapack", dim): lambda dim=dim: lapack.ask(dim) for dim in dims})
        b.say(lapack.what)
        why = None
    except Missing as missing:
        why = str(missing)
    with b.c_side("ceilings", b.o.threads) as ceilings:
        sides.update({(isa, "peak"): lambda isa=isa: ceilings.ask(" ".join(f64_peak(isa))) for isa in b.isas})
        times = b.turns(sides)
    for isa in b.isas:
        for dim in dims:
            b.table.compare("solver", f"product, D = {dim}", isa, times[isa, "product", dim], peak("f64"),
                            times[isa, "peak"] * (2e-9 * dim**3))
            solver_rows(b, isa, dim, dims[0], times, why)
    for side in [*ours.values()] + ([lapack] if why is None else []):
        side.stop()


def solver_rows(b, isa, dim, least, times, why):
    eigen, fit = times[isa, "eigen", dim], times[isa, "fit", dim]
    fit_name, both = f"fit of statistics, D = {dim}", f"{LAPACK}, twice"
    if why is None:
        b.table.compare("solver", f"eigenvectors, D = {dim}", isa, eigen, LAPACK, times["lapack", dim])
        b.table.compare("solver", fit_name, isa, fit, both, times["lapack", dim] * 2)
    else:
        b.table.skip("solver", f"eigenvectors, D = {dim}", isa, LAPACK, why)
        b.table.skip("solver", fit_name, isa, both, why)
    if dim == least:
        b.limit("solver", fit_name, isa, fit, limit("0.12 s"), 0.12, COST)
    else:
        scaled = Sample([times[isa, "fit", least].median * (dim / least) ** 3])
        b.table.compare("solver", fit_name, isa, fit, growth(least), scaled, COST)
