#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a synthetic world with real CLIP embeddings, figure by figure.

    koofu synth --per-class 4           -o train.safetensors --text text.safetensors
    koofu synth --per-class 3 --split 1 -o test.safetensors
    tools/calibrate_synth.py FOLDER train.safetensors test.safetensors text.safetensors

FOLDER holds NAME_x.npy (rows) and NAME_y.npy (class numbers) of the sets named in REAL below, and
the text rows. The table goes to standard output in Markdown; docs/synth.md quotes it. Needs numpy;
everything is float64 and independent of libkoofu.
"""

import argparse
import json
import struct
from pathlib import Path

import numpy as np

# set: training rows, test rows, text rows
REAL = {
    "imagenet1k": (
        "imagenet1k_vitb32_4shot",
        "imagenet1k_vitb32_1plus2shot",
        "imagenet1k_vitb32_text_photo_of_a",
    ),
    "oxford_pets": ("oxford_pets_vitb32_16shot", "oxford_pets_vitb32_test", None),
    "caltech101": ("caltech101_vitb32_16shot", "caltech101_vitb32_test", None),
}
RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 400)


def read_safetensors(path):
    """The embeddings and labels of a native data set."""
    kinds = {"F32": "<f4", "F16": "<f2", "I32": "<i4"}
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])

    def tensor(name):
        begin, end = header[name]["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], kinds[header[name]["dtype"]])
        return values.reshape(header[name]["shape"])

    return tensor("embeddings").astype(np.float64), tensor("labels").astype(np.int64)


def read_real(folder, name):
    rows = np.load(folder / f"{name}_x.npy").astype(np.float64)
    return rows, np.load(folder / f"{name}_y.npy").astype(np.int64)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def accuracy(scores, y):
    """Top-1 and top-5."""
    hits = np.argsort(-scores, axis=1, kind="stable")[:, :5] == y[:, None]
    return hits[:, 0].mean(), hits.any(axis=1).mean()


class Whitening:
    """Class means and the eigenvectors of S_w of unit rows."""

    def __init__(self, x, y):
        self.counts = np.bincount(y)
        self.means = np.zeros((len(self.counts), x.shape[1]))
        np.add.at(self.means, y, x)
        self.means /= self.counts[:, None]
        within = x - self.means[y]
        values, vectors = np.linalg.eigh(within.T @ within)
        self.values, self.vectors = values[::-1], vectors[:, ::-1]
        self.freedom = len(x) - len(self.counts)

    def map(self, relative):
        """Z for lambda = relative times the mean eigenvalue."""
        return self.vectors / np.sqrt(self.values + relative * self.values.mean())


def nearest(x, prototypes, y):
    return accuracy(unit(x) @ unit(prototypes).T, y)


def image_figures(x, y, vx, vy):
    w = Whitening(x, y)
    total = w.values.sum()
    figures = {"length of the mean": [np.linalg.norm(x.mean(axis=0))]}
    cosine = vx @ x.T
    same = vy[:, None] == y
    figures["cosine within a class"] = [cosine[same].mean()]
    figures["cosine between classes"] = [cosine[~same].mean()]
    figures["trace of S_w / (N - K)"] = [total / w.freedom]
    centred = w.means - w.means.mean(axis=0)
    spread = (centred**2).sum() / (len(centred) - 1) - total / w.freedom * (1 / w.counts).mean()
    figures["scatter of class centres"] = [spread]
    for rank in RANKS:
        if rank <= x.shape[1]:
            figures[f"eigenvalue {rank} of S_w, % of trace"] = [100 * w.values[rank - 1] / total]
    figures["raw NVP, top-1 top-5"] = nearest(vx, w.means, vy)
    for relative in (0.1, 0.3, 1, 3):
        z = w.map(relative)
        figures[f"whitened {relative}x NVP, top-1 top-5"] = nearest(vx @ z, w.means @ z, vy)
    z = w.map(0.3)
    means = w.means @ z
    middle = np.average(means, axis=0, weights=w.counts)
    scatter = (means - middle).T @ ((means - middle) * w.counts[:, None])
    rotation = np.linalg.eigh(scatter)[1][:, ::-1]
    for dim in (32, 64, 128, 256):
        if dim <= x.shape[1]:
            r = rotation[:, :dim]
            figures[f"0.3x, {dim} dimensions, top-1"] = [nearest(vx @ z @ r, means @ r, vy)[0]]
    figures["raw 1-NN, top-1"] = [(y[np.argmax(cosine, axis=1)] == vy).mean()]
    return figures, w


def text_figures(x, vx, vy, t, w):
    image_mean, text_mean = x.mean(axis=0), t.mean(axis=0)
    figures = {"length of the text mean": [np.linalg.norm(text_mean)]}
    figures["gap between the means"] = [np.linalg.norm(text_mean - image_mean)]
    lengths = np.linalg.norm(text_mean) * np.linalg.norm(image_mean)
    figures["cosine of the means"] = [text_mean @ image_mean / lengths]
    figures["scatter of text"] = [((t - text_mean) ** 2).sum() / (len(t) - 1)]
    figures["cosine image to its text"] = [(vx * t[vy]).sum(axis=1).mean()]
    figures["cosine image to any text"] = [(vx @ t.T).mean()]
    figures["zero-shot, top-1 top-5"] = accuracy(vx @ t.T, vy)
    for relative in (0.1, 1, 10):
        z = w.map(relative)
        plain = nearest(vx @ z, t @ z, vy)[0]
        moved = nearest((vx - image_mean) @ z, (t - text_mean) @ z, vy)[0]
        figures[f"zero-shot {relative}x, as is and centred"] = [plain, moved]
    return figures


def figures_of(train, test, text):
    x, vx = unit(train[0]), unit(test[0])
    figures, w = image_figures(x, train[1], vx, test[1])
    if text is not None:
        figures.update(text_figures(x, vx, test[1], unit(text), w))
    return figures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="real embeddings")
    parser.add_argument("train", help="synthetic rows, .safetensors")
    parser.add_argument("test", help="synthetic rows of another split")
    parser.add_argument("text", nargs="?", help="synthetic text rows")
    parser.add_argument("--set", choices=sorted(REAL), default="imagenet1k", help="real set")
    args = parser.parse_args()

    train, test, text = REAL[args.set]
    real_text = np.load(args.folder / f"{text}.npy").astype(np.float64) if text else None
    real = figures_of(read_real(args.folder, train), read_real(args.folder, test), real_text)
    made_text = read_safetensors(args.text)[0] if args.text else None
    made = figures_of(read_safetensors(args.train), read_safetensors(args.test), made_text)

    print(f"| figure | real ({args.set}) | synthetic |\n| --- | --- | --- |")
    for name, values in made.items():
        show = lambda numbers: " ".join(f"{v:.3f}" for v in numbers)
        print(f"| {name} | {show(real[name]) if name in real else '-'} | {show(values)} |")


if __name__ == "__main__":
    main()
