#!/usr/bin/env python3
"""koofu.KooFu beside scikit-learn's estimators, on real embeddings, in one run: accuracy and time.

usage: estimators.py [--data DIR] [--koofu PROGRAM] [--sets NAME,...] [--without logistic]

DIR/embeddings holds NAME_x.npy (rows) and NAME_y.npy (class numbers). Every estimator is fitted to the training rows and
scored on the test rows, as scikit-learn users do it:

    KooFu()                                                       everything chosen by the fit
    LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
    LogisticRegression, C by GridSearchCV (1, 10, 100, 1000; 3 folds)

With PROGRAM, `koofu fit` and `koofu eval` must give the accuracy of KooFu() to the digit. Time is processor time (user and
system) of choosing and fitting, on one thread, without scoring. Needs koofu and scikit-learn.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is loaded

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import koofu

HERE = os.path.dirname(os.path.abspath(__file__))
SETS = {
    "imagenet": ("imagenet1k_vitb32_4shot", "imagenet1k_vitb32_1plus2shot"),
    "caltech": ("caltech101_vitb32_16shot", "caltech101_vitb32_test"),
    "pets": ("oxford_pets_vitb32_16shot", "oxford_pets_vitb32_test"),
    "flowers": ("oxford_flowers_vitb32_16shot", "oxford_flowers_vitb32_test"),
    "textures": ("dtd_vitb32_val", "dtd_vitb32_test"),
}


def estimators():
    yield "koofu", lambda: koofu.KooFu()
    yield "LDA", lambda: LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
    yield "logistic", lambda: GridSearchCV(LogisticRegression(max_iter=300), {"C": [1, 10, 100, 1000]}, cv=3)


def paths(data, name):
    return [os.path.join(data, "embeddings", f"{name}_{part}.npy") for part in "xy"]


def by_program(program, data, train, test):
    """Top-1 accuracy as the command line gives it."""
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.safetensors")
        for command in (["fit", paths(data, train)[0], "--labels", paths(data, train)[1], "-o", model],
                        ["eval", model, paths(data, test)[0], "--labels", paths(data, test)[1], "--json"]):
            out = subprocess.run([program, *command], check=True, capture_output=True).stdout
    return json.loads(out)["top1"]


def measure(make, X, y, Xt, yt):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        estimator = make().fit(X, y)
        seconds = time.process_time() - begin
    return estimator.score(Xt, yt), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(HERE, "..", "..", "shared", "data"))
    parser.add_argument("--koofu", help="the program, to compare with")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--without", default="", help="estimators to leave out, such as logistic")
    arguments = parser.parse_args()
    koofu.configure(threads=1)
    left_out = arguments.without.split(",")
    names = [name for name, _ in estimators() if name not in left_out]
    print("| set |", " | ".join(f"{name}: top-1, s" for name in names), "|")
    print("| --- |", " | ".join("--:" for _ in names), "|")
    for chosen in arguments.sets.split(","):
        train, test = SETS[chosen]
        X, y = (np.load(path) for path in paths(arguments.data, train))
        Xt, yt = (np.load(path) for path in paths(arguments.data, test))
        X, Xt = X.astype(np.float32), Xt.astype(np.float32)
        cells = []
        for name, make in estimators():
            if name in left_out:
                continue
            score, seconds = measure(make, X, y, Xt, yt)
            cells.append(f"{100 * score:.2f} %, {seconds:.2f}")
            if name == "koofu" and arguments.koofu:
                expected = by_program(arguments.koofu, arguments.data, train, test)
                if round(score * len(yt)) != round(expected * len(yt)):
                    sys.exit(f"{chosen}: KooFu has {score}, the command line {expected}")
        print(f"| {chosen} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
