#!/usr/bin/env python3
"""Does a vote of neighbours earn a place beside text and prototypes? (docs/text.md)

usage: fuse_votes.py TRAIN_x.npy TRAIN_y.npy TEST_x.npy TEST_y.npy [TEXT.npy] [--shots 2,3,4] [--seeds 3]

The score of a class is  text + alpha * prototype + beta * vote,  or without TEXT  prototype + beta * vote. All
parameters are chosen by leaving each training row out in turn: lambda and alpha as koofu does, then beta with these,
then all three near these values. A row that is left out is also removed from the map (Sherman and Morrison);
otherwise its class-mates would be nearer to it than to a new row. Maps are centred on the mean of the rows. Needs numpy.

Votes, of rows with the cosine c in the mapped space:
    cache T     sum over all rows of a class of exp(-T (1 - c)), divided by its rows (Tip-Adapter)
    k K         share of the K nearest rows that are of the class
    k K T       the same, each weighted by exp(-T (1 - c)) and divided by the sum of weights
    nearest     the largest cosine in the class

The class of a row that is left out has one row less than the others: its sums are divided by n - 1, and its shares
multiplied by n / (n - 1). --shots draws this many rows of each class.
"""

import argparse

import numpy as np

LAMBDAS = [0.03, 0.1, 0.3, 1, 3]
ALPHAS = [0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 2, 4, 10]
BETAS = [0, 0.003, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5]
VOTES = ([("cache", None, t) for t in (5, 10, 20)] + [("k", k, 0) for k in (1, 5, 15, 50)] +
         [("k", k, 10) for k in (5, 15, 50)] + [("nearest", None, None)])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def name(vote):
    return " ".join(str(part) for part in vote if part not in (None, 0))


class World:
    def __init__(self, x, y, q, labels, t):
        self.x, self.y, self.q, self.labels, self.t = x, y, q, labels, t
        self.k = int(y.max()) + 1
        self.count = np.bincount(y, minlength=self.k)
        self.one = np.zeros((len(x), self.k))
        self.one[np.arange(len(x)), y] = 1
        self.means = (self.one.T @ x) / self.count[:, None]
        self.m = x.mean(axis=0)
        self.d = x - self.means[y]
        self.values, self.vectors = np.linalg.eigh(self.d.T @ self.d)
        self.out = self.count[y] > 1  # rows that can be left out

    def whitening(self, relative):
        return (self.vectors * (self.values + relative * self.values.mean()) ** -0.5) @ self.vectors.T


def left_out(w, relative):
    """Cosines of each row with prototypes [N, K] and with rows [N, N] in the map without it. The mean that rows are centred
    on keeps the row, which is one of thousands."""
    z = w.whitening(relative)
    u, v, p = (w.x - w.m) @ z, w.d @ z, (w.means - w.m) @ z
    n = w.count[w.y].astype(float)
    c = np.where(n > 1, n / np.maximum(n - 1, 1), 0)
    f = (c / (1 - c * (v * v).sum(axis=1)))[:, None]
    a = (u * v).sum(axis=1)[:, None]
    length = np.sqrt((u * u).sum(axis=1)[:, None] + f * a * a)
    up, vp = u @ p.T, v @ p.T
    prototypes = (up + f * a * vp) / (length * np.sqrt((p * p).sum(axis=1)[None] + f * vp * vp))
    uu, vu = u @ u.T, v @ u.T
    rows = (uu + f * a * vu) / (length * np.sqrt((u * u).sum(axis=1)[None] + f * vu * vu))
    np.fill_diagonal(rows, -np.inf)
    # The mean without the row; beside text with the length of the mean with it (docs/choosing.md).
    own = u - c[:, None] * v
    with_it = u - v if w.t is not None else own
    product = (u * own).sum(axis=1) + (f * a)[:, 0] * (v * own).sum(axis=1)
    squared = (with_it * with_it).sum(axis=1) + f[:, 0] * (v * with_it).sum(axis=1) ** 2
    prototypes[np.arange(len(n)), w.y] = product / (length[:, 0] * np.sqrt(squared))
    return prototypes, rows


def seen(w, relative):
    """The same for the test rows in the map of all training rows."""
    z = w.whitening(relative)
    q = unit((w.q - w.m) @ z)
    return q @ unit((w.means - w.m) @ z).T, q @ unit((w.x - w.m) @ z).T


def votes(w, rows, vote, own):
    """[rows, K]; own: classes that have one row fewer, or None."""
    kind, k, t = vote
    count = np.repeat(w.count[None].astype(float), len(rows), axis=0)
    if own is not None:
        count[np.arange(len(rows)), own] -= 1
    count = np.maximum(count, 1)
    if kind == "cache":
        return (np.exp(-t * (1 - rows)) @ w.one) / count
    if kind == "nearest":
        out = np.full((len(rows), w.k), -1.0)
        for j in range(rows.shape[1]):
            np.maximum(out[:, w.y[j]], rows[:, j], out=out[:, w.y[j]])
        return out
    k = min(k, rows.shape[1] - 1)
    nearest = np.argpartition(-rows, k - 1, axis=1)[:, :k]
    cosines = np.take_along_axis(rows, nearest, axis=1)
    weights = np.exp(-t * (1 - cosines))
    out = np.zeros((len(rows), w.k))
    np.add.at(out, (np.arange(len(rows))[:, None], w.y[nearest]), weights / weights.sum(axis=1, keepdims=True))
    return out * (w.count[None] / count)


def right(scores, labels):
    return (scores.argmax(axis=1) == labels).mean()


class Points:
    """Scores at one lambda, of rows that are left out or of test rows."""

    def __init__(self, w, relative, test):
        self.labels = w.labels if test else w.y[w.out]
        prototypes, rows = seen(w, relative) if test else left_out(w, relative)
        if not test:
            prototypes, rows = prototypes[w.out], rows[w.out]
        own = None if test else self.labels
        self.base = (w.q if test else w.x[w.out]) @ w.t.T if w.t is not None else None
        self.base = self.base.astype(np.float32) if self.base is not None else None
        self.prototypes = prototypes.astype(np.float32)
        self.votes = {v: votes(w, rows, v, own).astype(np.float32) for v in VOTES}

    def scores(self, alpha):
        return self.prototypes if self.base is None else self.base + alpha * self.prototypes


def around(values, value, reach):
    at = values.index(value)
    return values[max(at - reach, 0):at + reach + 1]


def measure(w):
    alphas = ALPHAS if w.t is not None else [1]
    train = {r: Points(w, r, False) for r in LAMBDAS}
    plain = {(r, a): right(p.scores(a), p.labels) for r, p in train.items() for a in alphas}
    r, a = max(plain, key=lambda key: (plain[key], -key[1], key[0]))
    tested = {}

    def test(r, a, vote=None, b=0):
        if r not in tested:
            tested[r] = Points(w, r, True)
        p = tested[r]
        return right(p.scores(a) + (b * p.votes[vote] if vote else 0), p.labels)

    before = test(r, a)
    print(f"without votes: lambda {r}x" + (f", alpha {a}" if w.t is not None else "") +
          f": left out {100 * plain[r, a]:.2f}, test {100 * before:.2f}")
    print("vote             beta alone: left out   test   gain |   lambda  alpha    beta: left out   test   gain | hindsight")
    overall = (plain[r, a], None)
    for vote in VOTES:
        scores, own = train[r].scores(a), train[r].votes[vote]
        curve = [right(scores + b * own, train[r].labels) for b in BETAS]
        b = BETAS[int(np.argmax(curve))]
        one = test(r, a, vote, b)
        grid = {(r2, a2, b2): right(p.scores(a2) + b2 * p.votes[vote], p.labels)
                for r2 in around(LAMBDAS, r, 1) for p in (train[r2],) for a2 in around(alphas, a, 3) for b2 in BETAS}
        best = max(grid, key=lambda key: (grid[key], -key[2], -key[1], key[0]))
        all3 = test(best[0], best[1], vote, best[2])
        hindsight = max(test(r, a, vote, b2) for b2 in BETAS)
        print(f"{name(vote):12s} {b:10g}      {100 * max(curve):8.2f} {100 * one:6.2f} {100 * (one - before):+6.2f} | "
              f"{best[0]:7g}x {best[1]:6g} {best[2]:7g} {100 * grid[best]:8.2f} {100 * all3:6.2f} "
              f"{100 * (all3 - before):+6.2f} | {100 * hindsight:6.2f}")
        if grid[best] > overall[0]:
            overall = (grid[best], (vote, best, all3))
    if overall[1]:
        vote, best, all3 = overall[1]
        print(f"chosen of all: {name(vote)}, beta {best[2]:g}: left out {100 * overall[0]:.2f}, test {100 * all3:.2f}, "
              f"gain {100 * (all3 - before):+.2f}\n")
    else:
        print("chosen of all: no vote\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--shots", help="rows of each class to draw, separated by commas (default: all)")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    x, y, q, labels = (np.load(file) for file in options.files[:4])
    t = unit(np.load(options.files[4]).astype(np.float64)) if len(options.files) > 4 else None
    x, q = unit(x.astype(np.float64)), unit(q.astype(np.float64))
    for shots in [int(s) for s in options.shots.split(",")] if options.shots else [None]:
        for seed in range(options.seeds if shots else 1):
            rows = np.arange(len(x))
            if shots:
                order = np.random.default_rng(seed).permutation(len(x))
                rows = np.sort(np.concatenate([order[y[order] == k][:shots] for k in range(int(y.max()) + 1)]))
            print(f"{shots} rows of each class, seed {seed}:" if shots else "all rows:")
            measure(World(x[rows], y[rows], q, labels, t))


main()
