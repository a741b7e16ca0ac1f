#!/usr/bin/env python3
"""Text as queries of galleries: for how many classes the text finds a row of its own class first, in the original space
and in that of a model, with and without subtracting a mean of texts (docs/text.md).

usage: text_search.py KOOFU TRAIN_x.npy TRAIN_y.npy GALLERY_x.npy GALLERY_y.npy TEXT.npy [OTHER_TEXT.npy] [FIT OPTION…]

Row k of TEXT belongs to class k. OTHER_TEXT are other texts, whose mean is tried as well. Needs numpy.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

DRAWS = 5


def main():
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    koofu, train_x, train_y, gallery_x, gallery_y, text = sys.argv[1:7]
    more = sys.argv[7:]
    other = more.pop(0) if more and more[0].endswith(".npy") else None

    def run(*words):
        return subprocess.run([koofu, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def hits(gallery, *words):
        answers = json.loads(run("search", gallery, text, "-k", "1", "--json", "--text-queries", *words))["answers"]
        return sum(a["neighbours"][0]["label"] == a["query"] for a in answers)

    with tempfile.TemporaryDirectory(prefix="koofu-text-") as work:
        model, raw, mapped, some = (os.path.join(work, name) for name in
                                    ("m.safetensors", "raw.safetensors", "mapped.safetensors", "some.npy"))
        run("fit", train_x, "--labels", train_y, "-o", model, *more)
        run("index", gallery_x, "--labels", gallery_y, "-o", raw)
        run("index", gallery_x, "--labels", gallery_y, "--model", model, "-o", mapped)
        rows = np.load(text)
        answers = json.loads(run("search", mapped, text, "-k", "1", "--json"))["answers"]
        lines = [("as it is", hits(raw), sum(a["neighbours"][0]["label"] == a["query"] for a in answers)),
                 ("less the mean of the queries", hits(raw, "--text-mean", text), hits(mapped))]
        if other:
            lines.append(("less the mean of other texts", hits(raw, "--text-mean", other), hits(mapped, "--text-mean", other)))
        rng = np.random.default_rng(0)
        for n in (3, 10, 30, 100):
            found = []
            for _ in range(DRAWS):
                np.save(some, rows[rng.permutation(len(rows))[:n]])
                found.append([hits(g, "--text-mean", some) for g in (raw, mapped)])
            lines.append((f"less the mean of {n} of the queries, {DRAWS} draws", *np.mean(found, axis=0)))
        print(f"{'text, ' + str(len(rows)) + ' queries':50} {'original':>9} {'Koo-Fu':>9}")
        for name, *values in lines:
            print(f"{name:50} " + " ".join(f"{v:9.0f}" for v in values))


if __name__ == "__main__":
    main()
