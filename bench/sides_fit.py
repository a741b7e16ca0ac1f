"""The peers of a fit, each in a process of its own (side.py).

usage: sides_fit.py '{"kind": "lda" | "grid" | "lapack", "folder": …, "threads": …, "jobs": …}'

lda: scikit-learn's LDA from x.npy and y.npy in the folder to a fitted object. grid: one of five folds and one
shrinkage in GridSearchCV, the mean of as many as run at a time (jobs). lapack: a line is D;
all eigenvectors of a scatter matrix by dsyevd.
"""

import json
import os
import sys

import numpy as np

from side import clock, missing, serve


def load(folder):
    """Unit rows and their classes."""
    rows, labels = (np.load(os.path.join(folder, name)) for name in ("x.npy", "y.npy"))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, labels


def lda(o):
    import sklearn
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    def fit():
        return LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(*load(o["folder"]))

    serve(f"scikit-learn {sklearn.__version__}: LDA, solver 'eigen', shrinkage 0.1", lambda _: clock(fit)[:2])


def grid(o):
    """One job, scikit-learn's default: one fold at a time, all threads for the BLAS. As many jobs as threads: a fold and
    a BLAS thread each, which is faster, since most of LDA does not use the BLAS."""
    import sklearn
    from joblib import parallel_backend
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from threadpoolctl import threadpool_limits

    rows, labels = load(o["folder"])
    folds, jobs = list(StratifiedKFold(5).split(rows, labels))[:o["jobs"]], o["jobs"]

    def search():
        with parallel_backend("threading", n_jobs=jobs), threadpool_limits(o["threads"] // jobs):
            GridSearchCV(LinearDiscriminantAnalysis(solver="eigen"), {"shrinkage": [0.1]}, cv=folds, refit=False,
                         error_score="raise").fit(rows, labels)

    def answer(_):
        wall, busy, _ = clock(search)
        return wall / len(folds), busy / len(folds)

    serve(f"scikit-learn {sklearn.__version__}: GridSearchCV, {jobs} at a time, timed on {len(folds)} of 65 fits and scaled", answer)


def scatter(dim):
    """Columns decrease by a factor of 100, like those of embeddings."""
    rows = np.random.default_rng(dim).uniform(-1, 1, (2 * dim, dim)) / np.linspace(1, 100, dim)
    rows[:, 1:] += 0.5 * rows[:, :-1]
    return rows.T @ rows


def lapack(o):
    import scipy
    from scipy.linalg import eigh

    matrices = {}

    def answer(line):
        dim = int(line)
        if dim not in matrices:
            matrices[dim] = scatter(dim)
            eigh(matrices[dim], driver="evd")  # threads and memory are up
        return clock(lambda: eigh(matrices[dim], driver="evd", check_finite=False))[:2]

    serve(f"scipy {scipy.__version__}: eigh(driver='evd') with its OpenBLAS", answer)


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    try:
        {"lda": lda, "grid": grid, "lapack": lapack}[request["kind"]](request)
    except ImportError as reason:
        missing(str(reason))
