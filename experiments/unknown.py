#!/usr/bin/env python3
"""What separates rows of unknown classes from known ones best: the score of the best class, its probability, or the margin?

Half of the classes of each set are known, drawn by seed; koofu fits them, and classifies the test rows of all classes.
Prints a table for docs/probabilities.md: the area under the ROC curve, how many unknown rows are refused where 95 % of the
known ones are kept, and what the threshold of 'koofu fit --reject 0.95' keeps and refuses.

    experiments/unknown.py build/koofu DIR/embeddings [--seeds 5] [--method paper]
"""

import argparse
import json
import os
import subprocess
import tempfile

import numpy

SETS = {"Caltech": ("caltech101_vitb32_16shot", "caltech101_vitb32_test"),
        "DTD": ("dtd_vitb32_val", "dtd_vitb32_test"),
        "Flowers": ("oxford_flowers_vitb32_16shot", "oxford_flowers_vitb32_test"),
        "Pets": ("oxford_pets_vitb32_16shot", "oxford_pets_vitb32_test"),
        "ImageNet": ("imagenet1k_vitb32_4shot", "imagenet1k_vitb32_1plus2shot")}


def area(known, unknown):
    """How often a known row has the larger value; ties count half."""
    order = numpy.sort(unknown)
    below = numpy.searchsorted(order, known, "left") + numpy.searchsorted(order, known, "right")
    return below.sum() / 2 / len(known) / len(unknown)


def load(folder, name):
    return numpy.load(f"{folder}/{name}_x.npy"), numpy.load(f"{folder}/{name}_y.npy").ravel()


def values(koofu, model, rows, work):
    """Score, probability and margin of each row, and whether the model knows it."""
    numpy.save(f"{work}/rows.npy", rows)
    words = [koofu, "classify", model, f"{work}/rows.npy", "--top", "2", "--json", "-q"]
    if "temperature" in json.loads(subprocess.run([koofu, "info", "--json", model], capture_output=True, check=True).stdout):
        words.append("--probabilities")
    answers = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)["answers"]
    found = {"score": [a["scores"][0] for a in answers], "margin": [a["scores"][0] - a["scores"][1] for a in answers]}
    if "probabilities" in answers[0]:
        found["probability"] = [a["probabilities"][0] for a in answers]
    return {name: numpy.array(v) for name, v in found.items()}, numpy.array([a["known"] for a in answers])


def measure(args, train, test, seed, work):
    x, y = load(args.data, train)
    a, b = load(args.data, test)
    classes = numpy.unique(y)
    known = numpy.random.default_rng(seed).permutation(classes)[:len(classes) // 2]
    kept, familiar = numpy.isin(y, known), numpy.isin(b, known)
    numpy.save(f"{work}/x.npy", x[kept])
    numpy.save(f"{work}/y.npy", y[kept].astype("<i4"))
    model = f"{work}/model.safetensors"
    subprocess.run([args.koofu, "fit", f"{work}/x.npy", "--labels", f"{work}/y.npy", "--reject", "0.95", "-o", model, "-q",
                    "--method", args.method], check=True)
    found, says_known = values(args.koofu, model, a, work)
    result = {name: (area(v[familiar], v[~familiar]), (v[~familiar] < numpy.quantile(v[familiar], 0.05)).mean())
              for name, v in found.items()}
    result["threshold"] = (says_known[familiar].mean(), 1 - says_known[~familiar].mean())
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("koofu")
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--method", default="shrunk")
    args = parser.parse_args()
    args.koofu = os.path.abspath(args.koofu)
    table = {}
    with tempfile.TemporaryDirectory() as work:
        for name, (train, test) in SETS.items():
            runs = [measure(args, train, test, seed, work) for seed in range(args.seeds)]
            table[name] = {q: tuple(100 * numpy.mean([run[q] for run in runs], axis=0)) for q in runs[0]}
    table["mean"] = {q: tuple(numpy.mean([row[q] for row in table.values()], axis=0)) for q in table["Pets"]}
    columns = [q for q in ("score", "probability", "margin", "threshold") if q in table["mean"]]
    print("| set | " + " | ".join("kept, refused" if q == "threshold" else f"{q}: AUROC, refused" for q in columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name, row in table.items():
        print(f"| {name} | " + " | ".join(f"{row[q][0]:.1f}, {row[q][1]:.1f}" for q in columns) + " |")


if __name__ == "__main__":
    main()
