"""Many rows in shards: statistics of each shard, in any order, with an exact sum.

usage: shards.py [--rows 10000000] [--dim 256] [--classes 1000] [--shard 100000] [--workers 2]
[--plot FILE.png]

Shards are made when they are needed, by number, as they would be read from files or a store.
Workers are processes; statistics travel between them as bytes. Memory is that of a shard for each
worker, whatever the number of rows. At the end the model is compared with one of the same shards in
another order: it has the same bytes.
"""

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import koofu


def shard(number, size, dim, classes):
    """Rows and labels of one shard, the same at every call."""
    world = np.random.default_rng(0)
    centres = world.normal(size=(classes, dim)).astype(np.float32)
    rng = np.random.default_rng([1, number])
    y = rng.integers(0, classes, size=size)
    return centres[y] + 3 * rng.standard_normal((size, dim), dtype=np.float32), y


def count(number, size, dim, classes):
    return koofu.Stats.of(*shard(number, size, dim, classes))


def use_one_thread():
    koofu.configure(threads=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("rows", 10_000_000), ("dim", 256), ("classes", 1000), ("shard", 100_000), ("workers", 2)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--plot")
    given = parser.parse_args()
    shards = max(given.rows // given.shard, 2)
    one = partial(count, size=given.shard, dim=given.dim, classes=given.classes)

    begin = time.perf_counter()
    estimator = koofu.KooFu(lambda_="0.3x")
    total = None
    with ProcessPoolExecutor(given.workers, initializer=use_one_thread) as pool:
        for i, stats in enumerate(pool.map(one, range(shards))):
            total = stats if total is None else total.merge(stats)
    model = koofu.fit(total, lambda_="0.3x")
    seconds = time.perf_counter() - begin
    print(f"{total.rows:,} rows of {given.dim} columns in {shards} shards: {seconds:.1f} s")
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"peak memory of a process: {peak / 1024:.0f} MiB; all rows together: "
          f"{4 * total.rows * given.dim / 2**20:.0f} MiB")

    X, y = shard(shards, 5000, given.dim, given.classes)  # rows that were in no shard
    print(f"top-1 accuracy: {100 * (model.predict(X) == y).mean():.2f} %")

    few = min(shards, 4)
    for number in reversed(range(few)):  # batch by batch, backwards
        estimator.partial_fit(*shard(number, given.shard, given.dim, given.classes))
    forward = sum(one(number) for number in range(few))
    if estimator.model_ != koofu.fit(forward, lambda_="0.3x"):
        raise SystemExit("another order has given other bytes")
    print(f"{few} shards forward, and backward by partial_fit: the same bytes")

    if given.plot:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        pyplot.semilogy(np.maximum(model.between_eigenvalues, 1e-12))
        pyplot.xlabel("direction")
        pyplot.ylabel("scatter between classes, whitened")
        pyplot.savefig(given.plot, dpi=150)


if __name__ == "__main__":
    main()
