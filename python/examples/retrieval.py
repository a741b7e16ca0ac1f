"""Retrieval in fewer dimensions: held-out classes, queries against a gallery, and FAISS for
comparison if installed.

usage: retrieval.py [--rows X.npy --labels Y.npy] [--dims 16,32,64,128] [--k 10] [--plot FILE.png]

The map is fitted to one half of the classes; the others are searched: each row looks for its k
nearest among all rows of these classes, and precision is the share that is of its own class.
Without files, a synthetic world takes their place. With FAISS, the same mapped rows are searched by
its flat index, which must find rows as near.
"""

import argparse
import time

import numpy as np

import koofu

try:
    import faiss
except ImportError:
    faiss = None


def synthetic(classes=80, dim=192, per_class=30, seed=0):
    """Classes differ in a few directions, rows of a class in all, and in some of them much."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(dim, 32)))[0]
    y = np.repeat(np.arange(classes), per_class)
    centres = 3 * rng.normal(size=(classes, 32)) @ directions.T
    noise = rng.normal(size=(len(y), dim)) * np.geomspace(8, 0.8, dim)
    return (centres[y] + noise).astype(np.float32), y


def precision(rows, y):
    return (y[rows] == y[:, None]).mean()


def search_faiss(X, k):
    """Scores of the k nearest other rows, by FAISS's flat index."""
    index = faiss.IndexFlatIP(X.shape[1])
    index.add(X)
    return index.search(X, k + 1)[0][:, 1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows")
    parser.add_argument("--labels")
    parser.add_argument("--dims", default="16,32,64,128")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--plot")
    given = parser.parse_args()
    X, y = (np.load(given.rows), np.load(given.labels)) if given.rows else synthetic()
    seen = y < (y.max() + 1) / 2
    train, y_train, X, y = X[seen], y[seen], X[~seen], y[~seen]

    stats = koofu.Stats.of(train, y_train)
    raw = precision(koofu.Gallery.build(X).itself(given.k).rows, y)
    print(f"{len(X)} rows of classes that the map has not seen, {given.k} neighbours each")
    print(f"raw, {X.shape[1]} dimensions: precision {100 * raw:.2f} %")
    table = []
    for dim in (int(n) for n in given.dims.split(",")):
        model = koofu.fit(train, y_train, stats=stats, n_components=dim)
        gallery = koofu.Gallery.build(X, model=model)
        begin = time.perf_counter()
        hits = gallery.itself(given.k)
        seconds = time.perf_counter() - begin
        table.append((dim, precision(hits.rows, y)))
        line = f"Koo-Fu, {dim} dimensions: precision {100 * table[-1][1]:.2f} %, {1000 * seconds:.1f} ms"
        if faiss is not None:
            mapped = model.transform(X)
            begin = time.perf_counter()
            scores = search_faiss(mapped, given.k)
            seconds = time.perf_counter() - begin
            if not np.allclose(scores, hits.scores, atol=1e-5):
                raise SystemExit("FAISS has found other neighbours")
            line += f"; FAISS {1000 * seconds:.1f} ms"
        print(line)

    if given.plot:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        dims, shares = np.array(table).T
        pyplot.axhline(100 * raw, linestyle=":", color="gray", label=f"raw, {X.shape[1]} dimensions")
        pyplot.semilogx(dims, 100 * shares, "o-", base=2, label="Koo-Fu")
        pyplot.xlabel("dimensions")
        pyplot.ylabel(f"precision of {given.k} neighbours, %")
        pyplot.legend()
        pyplot.savefig(given.plot, dpi=150)


if __name__ == "__main__":
    main()
