#!/usr/bin/env python3
"""Why whitening destroys zero-shot accuracy, and why fewer dimensions bring it back (docs/text.md).

usage: modality_gap.py TRAIN_x.npy TRAIN_y.npy TEST_x.npy TEST_y.npy TEXT.npy [--lambda 0.3] [--dims 512,500,...]
                       [--alternatives]

Images are rows with class numbers, TEXT has one row for each class. Everything is float64 numpy; lambda is relative to
the mean eigenvalue of S_w. With images x, their mean m, text t_k, its mean n, and A = T'T for the map T of the first L
directions, the score of class k without centring is

    x A t_k / |T t_k| = (x A n  +  m A (t_k - n)  +  (x - m) A (t_k - n)) / |T t_k|
                         c         b_k               the only part that depends on both the image and the class

For each L the table has
    offset    share of the squared length of T (n - m), at all dimensions, that the first L directions hold
    none, mean, modality    accuracy with each way of centring
    prototypes    accuracy of class means
    sd c, sd b, sd i    how much each of the three parts differs between classes, divided by |T t_k|
    no b, no c, neither    accuracy when b, c or both are left out

--alternatives measures what koofu does not do: a separate lambda for text, and a ridge regression from text to class
means, judged with the class of each image left out.
"""

import argparse

import numpy as np


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class World:
    def __init__(self, files):
        x, y, self.q, self.labels, t = (np.load(name) for name in files)
        x, self.q, self.t = (unit(a.astype(np.float64)) for a in (x, self.q, t))
        count = np.bincount(y, minlength=len(t))
        self.means = np.zeros_like(self.t)
        np.add.at(self.means, y, x)
        self.means /= count[:, None]
        self.m, self.n = x.mean(axis=0), self.t.mean(axis=0)
        within, between = x - self.means[y], self.means - self.m
        self.s_b = (between * count[:, None]).T @ between
        self.values, self.vectors = np.linalg.eigh(within.T @ within)
        self.scale = self.values.mean()

    def whitening(self, relative):
        return (self.vectors * (self.values + relative * self.scale) ** -0.5) @ self.vectors.T

    def map(self, relative):
        """T with all directions, the most discriminative first, and their gamma."""
        z = self.whitening(relative)
        gamma, u = np.linalg.eigh(z @ self.s_b @ z)
        return u[:, ::-1].T @ z, gamma[::-1]

    def right(self, scores):
        return (scores.argmax(axis=1) == self.labels).mean()

    def accuracy(self, images, classes):
        return self.right(unit(images) @ unit(classes).T)


def spread(scores):
    """Standard deviation over classes, averaged over images."""
    return scores.std(axis=1).mean()


def line(w, f):
    """Accuracies and the three parts of the score in the space of the rows of f."""
    a, t, x = f.T @ f, w.t - w.n, w.q - w.m
    c, b, i = (w.q @ a @ w.n)[:, None], (w.m @ a @ t.T)[None], x @ a @ t.T
    length = np.linalg.norm(w.t @ f.T, axis=1)[None]
    own = [w.accuracy(w.q @ f.T, w.t @ f.T), w.accuracy(x @ f.T, (w.t - w.m) @ f.T), w.accuracy(x @ f.T, t @ f.T),
           w.accuracy(w.q @ f.T, w.means @ f.T)]
    parts = [spread(part / length) for part in (c, b, i)]
    without = [w.right(s / length) for s in (c + i, b + i, i)]
    return [f"{100 * v:6.2f}" for v in own] + [f"{v:.4f}" for v in parts] + [f"{100 * v:6.2f}" for v in without]


def table(w, relative, dims):
    f, gamma = w.map(relative)
    offset = f @ (w.n - w.m)
    share = offset ** 2 / (offset @ offset)
    print(f"lambda {relative}x")
    print("dims | offset % | none mean modality prototypes | sd c, b, i | no b, no c, neither")
    for dim in dims:
        print(f"{dim:4} | {100 * share[:dim].sum():6.2f} |", " ".join(line(w, f[:dim])))
    worst = np.argsort(-share)[:3]
    images, text = (((a @ f.T).std(axis=0)) for a in (w.q, w.t))
    print("directions with the largest part of the offset (of", len(share), "by falling gamma; spreads of images and text):")
    for d in worst:
        print(f"  number {d + 1}: {100 * share[d]:.1f} %, gamma {gamma[d]:.2g}, images {images[d]:.4f}, text {text[d]:.4f}")
    print(f"  median of all: gamma {np.median(gamma):.2g}, images {np.median(images):.4f}, text {np.median(text):.4f}\n")


def alternatives(w):
    print("a lambda of its own for text: none, mean, modality; prototypes at the same lambda")
    for relative in (0.1, 0.3, 1, 3, 10, 30, 100):
        z, x = w.whitening(relative), w.q - w.m
        print(f"{relative:5}x", " ".join(f"{100 * v:6.2f}" for v in (
            w.accuracy(w.q @ z, w.t @ z), w.accuracy(x @ z, (w.t - w.m) @ z), w.accuracy(x @ z, (w.t - w.n) @ z),
            w.accuracy(w.q @ z, w.means @ z))))
    print(f"no whitening: none {100 * w.accuracy(w.q, w.t):.2f}, modality {100 * w.accuracy(w.q - w.m, w.t - w.n):.2f}\n")
    print("ridge regression from text to class means, whitened at 1x: in sample; every class predicted without itself;")
    print("the class of the image predicted without itself, the others in sample")
    z, t, means = w.whitening(1), w.t - w.n, w.means - w.means.mean(axis=0)
    x, gram = unit((w.q - w.m) @ z), t.T @ t
    rows = np.arange(len(w.labels))
    for ridge in (0.1, 0.3, 1, 3, 10, 30):
        hat = t @ np.linalg.solve(gram + ridge * np.trace(gram) / len(gram) * np.eye(len(gram)), t.T)
        inside, h = hat @ means, np.diag(hat)[:, None]
        outside = (inside - h * means) / (1 - h)
        mixed = x @ unit(inside @ z).T
        mixed[rows, w.labels] = (x * unit(outside @ z)[w.labels]).sum(axis=1)
        print(f"{ridge:5}x", " ".join(f"{100 * v:6.2f}" for v in (
            w.right(x @ unit(inside @ z).T), w.right(x @ unit(outside @ z).T), w.right(mixed))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=5, metavar="FILE.npy")
    parser.add_argument("--lambda", dest="relative", default="0.1,0.3,1", help="multiples of the mean eigenvalue of S_w")
    parser.add_argument("--dims", default="512,508,500,480,448,384,320,256,192,128,64,32")
    parser.add_argument("--alternatives", action="store_true")
    options = parser.parse_args()
    w = World(options.files)
    print(f"lengths: mean of images {np.linalg.norm(w.m):.3f}, of text {np.linalg.norm(w.n):.3f}, "
          f"between them {np.linalg.norm(w.n - w.m):.3f}\n")
    for relative in options.relative.split(","):
        table(w, float(relative), [int(d) for d in options.dims.split(",") if int(d) <= len(w.m)])
    if options.alternatives:
        alternatives(w)


main()
