"""Choosing on real CLIP embeddings, from training rows alone.

usage: choosing.py KOOFU FOLDER

  - leave-one-out accuracies are those of an independent float64 program, and so is the best lambda
  - the lambda that `koofu fit` chooses tests nearly as well as the best one in hindsight
  - the dimensions that `koofu fit --dim auto` keeps lose at most half a point against all of them on the test rows,
    and what cross-validation says of the loss is within two standard errors of that
  - a sweep of 12 lambdas and 12 dimensions has, cell by cell, the figures of separate fits and
    evaluations, in less than a fifth of their time

The folder holds embeddings/NAME_x.npy and NAME_y.npy; where it or numpy is absent the test is left out.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

# training set, test set, points that the chosen lambda may test below the best one
SETS = [("imagenet1k_vitb32_4shot", "imagenet1k_vitb32_1plus2shot", 1.0),
        ("oxford_pets_vitb32_16shot", "oxford_pets_vitb32_test", 1.5),
        ("caltech101_vitb32_16shot", "caltech101_vitb32_test", 1.5),
        ("oxford_flowers_vitb32_16shot", "oxford_flowers_vitb32_test", 1.5),
        ("dtd_vitb32_val", "dtd_vitb32_test", 1.5)]
GRID = [0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 5, 30]
FINE = [round(10 ** (i / 8), 6) for i in range(-20, 13)]  # 0.003 to 30, eighths of a decade
LAMBDAS = ["0.01x", "0.03x", "0.1x", "0.2x", "0.3x", "0.465696", "0.5x", "0.7x", "1x", "2x", "3x", "10x"]
DIMS = [8, 16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512]


def leave_one_out(np, x, y, relative):
    """Hits by cosine and by distance, for each lambda, when each row in turn is taken out of S_w and of its class mean:
    with A = (S_w + lambda)^-1, g = x A m_j, q = x A x and P = m A m, by the formula of Sherman and Morrison."""
    x = x.astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    classes = int(y.max()) + 1
    count = np.bincount(y, minlength=classes).astype(float)
    mean = np.zeros((classes, x.shape[1]))
    np.add.at(mean, y, x)
    mean /= count[:, None]
    d = x - mean[y]
    s_w = d.T @ d
    scale = np.trace(s_w) / len(s_w)
    rows = np.arange(len(x))
    hits = {"cosine": [], "euclidean": []}
    for r in relative:
        a = np.linalg.inv(s_w + r * scale * np.eye(len(s_w)))
        am = a @ mean.T
        g, q, p = x @ am, ((x @ a) * x).sum(axis=1), mean @ am
        n = count[y]
        c = n / (n - 1)
        own = g[rows, y]
        dd = q - 2 * own + p[y, y]
        f = c / (1 - c * dd)
        b = g - p[y]                # d A m_j
        xd = q - own                # x A d
        score = (g + (f * xd)[:, None] * b) / np.sqrt(np.diag(p)[None] + f[:, None] * b ** 2)
        vp = xd - c * dd            # d A (x - c d)
        score[rows, y] = ((q - c * xd + f * xd * vp) /
                          np.sqrt(q - 2 * c * xd + c ** 2 * dd + f * vp ** 2))
        hits["cosine"].append(int((score.argmax(axis=1) == y).sum()))
        score = -(q[:, None] - 2 * g + np.diag(p)[None] + f[:, None] * (xd[:, None] - b) ** 2)
        score[rows, y] = -c ** 2 * (dd + f * dd ** 2)
        hits["euclidean"].append(int((score.argmax(axis=1) == y).sum()))
    return hits


def main():
    koofu, folder = sys.argv[1:3]
    embeddings = os.path.join(folder, "embeddings")
    if not os.path.isdir(embeddings):
        print(f"left out: there is no folder {embeddings}")
        return 77
    try:
        import numpy as np
    except ImportError:
        print("left out: numpy is not installed")
        return 77
    failed = 0

    def check(ok, text):
        nonlocal failed
        print(f"{'ok  ' if ok else 'FAIL'} {text}")
        failed += not ok

    def run(*arguments):
        return subprocess.run([koofu, *map(str, arguments)], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)

    def files(name):
        return [os.path.join(embeddings, name + "_x.npy"), "--labels", os.path.join(embeddings, name + "_y.npy")]

    def tested(name):
        return ["--test", os.path.join(embeddings, name + "_x.npy"),
                "--test-labels", os.path.join(embeddings, name + "_y.npy")]

    def check_leave_one_out(train):
        x, y = (np.load(os.path.join(embeddings, train + end)) for end in ("_x.npy", "_y.npy"))
        for metric, wanted in leave_one_out(np, x, y, GRID).items():
            cells = json.loads(run("sweep", *files(train), "--leave-one-out", "--metric", metric, "--json",
                                   "--lambdas", ",".join(f"{r}x" for r in GRID)).stdout)["cells"]
            got = [round(cell["top1"] * cell["n"]) for cell in cells]
            worst = max(abs(a - b) for a, b in zip(got, wanted))
            best = max(range(len(GRID)), key=lambda i: (got[i], i))
            other = max(range(len(GRID)), key=lambda i: (wanted[i], i))
            check(len(got) == len(GRID) and worst <= 0.001 * len(y) and best == other,
                  f"{train}, {metric}: leave-one-out at {len(GRID)} lambdas, at most {worst} of {len(y)} rows "
                  f"apart; best at {GRID[best]}x and {GRID[other]}x")

    def check_regret(train, test, allowed, where):
        model = os.path.join(where, "m.safetensors")
        said = run("fit", *files(train), "-o", model).stderr
        chosen = re.search(r"lambda (\S+)x by leave-one-out", said).group(1)
        mine = json.loads(run("eval", model, *files(test), "--json").stdout)["top1"]
        cells = json.loads(run("sweep", *files(train), *tested(test), "--no-raw", "--dims", 512, "--json",
                               "--lambdas", ",".join(f"{r}x" for r in FINE)).stdout)["cells"]
        best = max(cells, key=lambda cell: cell["top1"])
        regret = 100 * (best["top1"] - mine)
        check(regret <= allowed, f"{train}: {chosen}x chosen, tests {100 * mine:.2f} %; best in hindsight "
              f"{best['relative']:.4g}x, {100 * best['top1']:.2f} %: {regret:.2f} points, {allowed} allowed")

    def check_dims(train, test, where):
        few, all_dims = (os.path.join(where, name + ".safetensors") for name in ("few", "all"))
        by_dim = json.loads(run("fit", *files(train), "--dim", "auto", "-o", few, "--json").stdout)["by_dim"]
        chosen, said_n = by_dim["points"][by_dim["dim"] - 1], by_dim["n"]
        run("fit", *files(train), "-o", all_dims)
        tested = json.loads(run("compare", all_dims, few, *files(test), "--json").stdout)
        loss, n = tested["difference"], tested["n"]
        said = (chosen["lost"] - chosen["won"]) / said_n
        errors = [(b + c + 1) / m ** 2 for b, c, m in
                  ((tested["only_a"], tested["only_b"], n), (chosen["lost"], chosen["won"], said_n))]
        away = abs(loss - said) / sum(errors) ** 0.5
        check(100 * loss <= 0.5 and away <= 2,
              f"{train}: {chosen['dim']} dimensions kept; said to lose {100 * said:.2f} points, at most {100 * chosen['loss_upper95']:.2f}; "
              f"on test rows {100 * loss:.2f}, {away:.1f} standard errors away")

    def check_sweep(train, test, where):
        stats, model = (os.path.join(where, name + ".safetensors") for name in ("s", "m"))
        begun = time.monotonic()
        cells = json.loads(run("sweep", *files(train), *tested(test), "--no-raw", "--json", "--lambdas",
                               ",".join(LAMBDAS), "--dims", ",".join(map(str, DIMS))).stdout)["cells"]
        at_once = time.monotonic() - begun
        got = {(i // len(DIMS), cell["dim"]): (cell["top1"], cell["top5"]) for i, cell in enumerate(cells)}
        run("stats", *files(train), "-o", stats)
        begun, wrong = time.monotonic(), 0
        for i, value in enumerate(LAMBDAS):
            for dim in DIMS:
                run("fit", stats, "--lambda", value, "--dim", dim, "-o", model)
                alone = json.loads(run("eval", model, *files(test), "--json").stdout)
                wrong += got.get((i, dim)) != (alone["top1"], alone["top5"])
        apart = time.monotonic() - begun
        check(wrong == 0 and len(cells) == len(LAMBDAS) * len(DIMS),
              f"{train}: {len(cells)} cells of a sweep, {wrong} of them not as alone")
        check(at_once < apart / 5, f"{train}: {at_once:.2f} s at once, {apart:.2f} s apart")

    for train, test, allowed in SETS:
        check_leave_one_out(train)
        with tempfile.TemporaryDirectory() as where:
            check_regret(train, test, allowed, where)
            check_dims(train, test, where)
    with tempfile.TemporaryDirectory() as where:
        check_sweep(*SETS[0][:2], where)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
