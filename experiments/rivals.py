#!/usr/bin/env python3
"""koofu beside other linear classifiers, on real embeddings. docs/accuracy.md has the protocol and the tables.

usage: rivals.py [--data DIR] [--own NAME TRAIN TEST]... [--koofu PROGRAM] [--sets NAME,...] [--rivals NAME,...]
                 [--shots 1,2,4,8,16,all]
                 [--rival-shots all] [--seeds 10] [--limit SECONDS] [--out CSV] [--text] [--raw-units] [--uneven]

DIR/embeddings holds NAME_x.npy (rows) and NAME_y.npy (class numbers). --own is a set of yours, which takes the place of
those: TRAIN_x.npy, TRAIN_y.npy, TEST_x.npy and TEST_y.npy, with classes as numbers or strings; it may be repeated. The
rivals:

    raw               nearest class mean by cosine, of unit rows
    paper             koofu fit --method paper
    default           koofu fit
    logistic          logistic regression on unit rows, C by cross-validation
    logistic-scaled   the same after StandardScaler
    lda               LinearDiscriminantAnalysis(solver='lsqr', shrinkage='auto') on unit rows
    gda-clip          Gaussian classifier with one covariance, shrunk as GDA-CLIP does, images alone
    svm               LinearSVC on unit rows, C by cross-validation

raw, paper and default are measured for every number of --shots, the others for those of --rival-shots. Shots are drawn at
random from each class, once for each seed; 'all' takes all training rows. The others need two rows of each class, lda
three: for two rows Ledoit and Wolf's shrinkage is zero, and the covariance singular. Everything is chosen on the training
rows: C with 5 folds, or as many as the smallest class has rows.

Measurements are appended to the CSV, and those in it are not repeated, so a run can be stopped and resumed. The tables,
in Markdown, are printed at the end.

    --text        instead: ImageNet with the class names, koofu fit --text beside GDA-CLIP with text
    --raw-units   instead: scikit-learn's wine, breast_cancer, digits and iris without normalising, beside LDA
    --uneven      instead: classes of uneven size, with equal priors and with those of the training rows; --sets, then
                  those of --raw-units

Time is that of the processor (user and system) for choosing and fitting, on one thread. Needs numpy, and scikit-learn for
logistic, lda, svm, --raw-units and --uneven:

    python3 -m venv rivals && rivals/bin/pip install numpy scikit-learn && rivals/bin/python experiments/rivals.py
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is loaded

import argparse
import base64
import csv
import importlib.util
import json
import math
import multiprocessing
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import numpy as np
except ImportError:
    sys.exit("rivals.py needs numpy: python3 -m venv rivals && rivals/bin/pip install numpy scikit-learn")

HERE = os.path.dirname(os.path.abspath(__file__))
SETS = {
    "imagenet": ("ImageNet", "imagenet1k_vitb32_4shot", "imagenet1k_vitb32_1plus2shot"),
    "caltech": ("Caltech", "caltech101_vitb32_16shot", "caltech101_vitb32_test"),
    "pets": ("Pets", "oxford_pets_vitb32_16shot", "oxford_pets_vitb32_test"),
    "flowers": ("Flowers", "oxford_flowers_vitb32_16shot", "oxford_flowers_vitb32_test"),
    "textures": ("Textures", "dtd_vitb32_val", "dtd_vitb32_test"),
}
SHOTS = {}  # rows of each class, of sets that were read and whose classes all have as many
TEXT = "imagenet1k_vitb32_text_photo_of_a"
RIVALS = {
    "raw": "raw class means",
    "paper": "koofu `--method paper`",
    "default": "koofu, default",
    "logistic": "logistic regression, unit rows",
    "logistic-scaled": "logistic regression, StandardScaler",
    "lda": "LDA, shrinkage auto",
    "gda-clip": "GDA-CLIP, images alone",
    "svm": "linear SVM",
}
EVERY_DRAW = ("raw", "paper", "default")
LEAST = {"lda": 3}  # rows of each class; 2 for the others. Of two rows, scikit-learn takes the shrinkage to be zero.
NEED_SKLEARN = ("logistic", "logistic-scaled", "lda", "svm")
HALF_DECADES = {  # of C: the least and the greatest power of ten
    "logistic": (0, 4),
    "logistic-scaled": (-3, 1),
    "svm": (-1, 2),
}
ALPHAS = [10.0 ** (e / 4) for e in range(-16, 9)]  # of GDA-CLIP's scores beside 100 times the cosine with text
COLUMNS = ("set", "shots", "seed", "rival", "top1", "seconds", "ece", "chosen", "right")
UNITS = ("wine", "breast_cancer", "digits", "iris")


# --- data ------------------------------------------------------------------------------------------


def unit(rows):
    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def read(path):
    try:
        return np.load(path)
    except (OSError, ValueError) as reason:
        sys.exit(f"{path} cannot be read: {reason}")


class Set:
    def __init__(self, folder, name):
        _, train, test = SETS[name]
        self.x, y, self.q, labels = (read(os.path.join(folder, f"{part}_{kind}.npy")) for part in (train, test) for kind in "xy")
        for stem, rows, classes in ((train, self.x, y), (test, self.q, labels)):
            if rows.ndim != 2 or len(rows) != len(classes) or rows.shape[1] != self.x.shape[1]:
                sys.exit(f"{stem}: rows of shape {rows.shape} and {len(classes)} labels, beside training rows of {self.x.shape[1:]}")
        numbers = {label: k for k, label in enumerate(sorted(set(y.tolist())))}
        for label in set(labels.tolist()) - set(numbers):
            sys.exit(f"{test}_y.npy: class {label} has no training rows")
        self.y, self.labels = (np.array([numbers[label] for label in part.tolist()]) for part in (y, labels))
        sizes = np.bincount(self.y)
        self.smallest = int(sizes.min())
        SHOTS[name] = self.smallest if self.smallest == sizes.max() else None


def draw(labels, shots, seed):
    """Numbers of the rows, 'shots' of each class, in their order."""
    if shots == "all":
        return np.arange(len(labels))
    order = np.lexsort((np.random.default_rng(seed).random(len(labels)), labels))
    ordered = labels[order]
    rank = np.arange(len(labels)) - np.searchsorted(ordered, ordered)
    return np.sort(order[rank < shots])


# --- koofu -----------------------------------------------------------------------------------------


class Koofu:
    """The program, on files in a temporary folder."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *arguments):
        """What it prints, and its processor time."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen([self.program, *arguments, "--threads", "1"], stdout=out, stderr=err)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0), err.seek(0)
            if process.returncode:
                sys.exit(f"koofu {' '.join(arguments)}\nfailed: {err.read()}")
            return out.read(), used.ru_utime + used.ru_stime

    def fit(self, x, y, *options):
        """Its processor time."""
        np.save(self.path("x"), x)
        np.save(self.path("y"), y)
        return self.run("fit", self.path("x.npy"), "--labels", self.path("y.npy"), "-o", self.path("model.safetensors"),
                        *options)[1]

    def eval(self, q, labels):
        np.save(self.path("q"), q)
        np.save(self.path("labels"), labels)
        return json.loads(self.run("eval", self.path("model.safetensors"), self.path("q.npy"), "--labels",
                                   self.path("labels.npy"), "--json")[0])

    def classify(self, q):
        np.save(self.path("q"), q)
        out = self.run("classify", self.path("model.safetensors"), self.path("q.npy"), "--top", "1", "--json")[0]
        return np.array([int(answer["classes"][0]) for answer in json.loads(out)["answers"]])


def calibration_error(said):
    error = (said.get("calibration") or {}).get("ece")
    return "" if error is None else 100 * error


# --- rivals: each is fitted and answers ------------------------------------------------------------


def class_means(x, y):
    means = np.zeros((int(y.max()) + 1, x.shape[1]))
    np.add.at(means, y, x)
    return means / np.bincount(y)[:, None]


class Raw:
    def fit(self, x, y):
        self.means = unit(class_means(x, y))
        return self

    def scores(self, q):
        return q @ self.means.T

    def predict(self, q):
        return self.scores(q).argmax(axis=1)


class Gaussian(Raw):
    """GDA-CLIP: classes are Gaussians with one covariance. With S the scatter within classes of N rows, its inverse is
    taken as D (S + tr(S) / (N - 1) I)^-1, and all classes are equally likely."""

    def fit(self, x, y):
        means = class_means(x, y)
        rest = x - means[y]
        scatter = rest.T @ rest
        dim = len(scatter)
        scatter[np.diag_indices(dim)] += np.trace(scatter) / (len(x) - 1)
        self.weights = dim * np.linalg.solve(scatter, means.T)
        self.bias = -0.5 * (means.T * self.weights).sum(axis=0)
        return self

    def scores(self, q):
        return q @ self.weights + self.bias


def folds(y):
    """Pairs of rows to fit on and rows to judge; the latter are a fifth of each class."""
    count = min(5, int(np.bincount(y).min()))
    order = np.lexsort((np.random.default_rng(0).random(len(y)), y))
    fold = np.empty(len(y), int)
    fold[order] = np.arange(len(y)) % count
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(count)]


class Scaler:
    """What StandardScaler does, or nothing."""

    def __init__(self, x, wanted):
        self.mean, self.scale = (x.mean(axis=0), x.std(axis=0)) if wanted else (0, 1)
        self.scale = np.where(self.scale == 0, 1, self.scale)  # of constant columns

    def __call__(self, x):
        return ((x - self.mean) / self.scale).astype(np.float32)


class CrossValidated:
    """A classifier with C chosen among half decades by accuracy on left-out folds, the smaller of equals."""

    def __init__(self, make, powers, scaled=False):
        self.make, self.scaled = make, scaled
        self.grid = [10.0 ** (e / 2) for e in range(2 * powers[0], 2 * powers[1] + 1)]

    def fit(self, x, y):
        hits = np.zeros(len(self.grid))
        for seen, left in folds(y):
            scale = Scaler(x[seen], self.scaled)
            model, rows, judged = self.make(), scale(x[seen]), scale(x[left])
            for i, c in enumerate(self.grid):
                hits[i] += (model.set_params(C=c).fit(rows, y[seen]).predict(judged) == y[left]).sum()
        self.chosen = self.grid[int(hits.argmax())]
        self.scale = Scaler(x, self.scaled)
        self.model = self.make().set_params(C=self.chosen).fit(self.scale(x), y)
        return self

    def predict(self, q):
        return self.model.predict(self.scale(q))


def rival(name):
    if name == "raw":
        return Raw()
    if name == "gda-clip":
        return Gaussian()
    if name == "lda":
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    if name == "svm":
        from sklearn.svm import LinearSVC
        return CrossValidated(lambda: LinearSVC(max_iter=5000, random_state=0), HALF_DECADES[name])
    from sklearn.linear_model import LogisticRegression
    return CrossValidated(lambda: LogisticRegression(max_iter=1000, warm_start=True), HALF_DECADES[name],
                          name == "logistic-scaled")


def fit_rival(name, x, y, q, answer):
    warnings.simplefilter("ignore")
    model = rival(name)  # which imports what it needs, before the clock starts
    start = time.process_time()
    model.fit(x, y)
    seconds = time.process_time() - start
    answer.send((model.predict(q), seconds, getattr(model, "chosen", "")))


def within(limit, name, x, y, q):
    """Answers, processor time and C of a rival, in a process of its own; None if it timed out."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=limited, args=(limit, name, x, y, q, theirs))
    process.start()
    theirs.close()
    try:
        result = ours.recv()
    except EOFError:
        result = None
    process.join()
    if result is None and process.exitcode not in (-signal.SIGXCPU, -signal.SIGKILL):
        sys.exit(f"{name} failed")
    return result


def limited(limit, *arguments):
    used = math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + limit, used + limit + 10))
    fit_rival(*arguments)


# --- measuring -------------------------------------------------------------------------------------


class Measurements:
    """Rows of the CSV, by (set, shots, seed, rival)."""

    def __init__(self, path):
        self.path, self.rows = path, {}
        if path and os.path.exists(path):
            with open(path, newline="") as file:
                for row in csv.DictReader(file):
                    self.rows[tuple(row[c] for c in COLUMNS[:4])] = row
        elif path:
            with open(path, "w", newline="") as file:
                csv.writer(file).writerow(COLUMNS)

    def has(self, *key):
        return tuple(map(str, key)) in self.rows

    def add(self, *values):
        row = dict(zip(COLUMNS, map(str, values)))
        self.rows[tuple(row[c] for c in COLUMNS[:4])] = row
        if self.path:
            with open(self.path, "a", newline="") as file:
                csv.writer(file).writerow([row[c] for c in COLUMNS])

    def values(self, column, name, shots, who):
        """Of all seeds; those that are empty are left out."""
        return [float(row[column]) for key, row in self.rows.items()
                if (key[0], key[1], key[3]) == (name, str(shots), who) and row[column]]

    def mean(self, column, name, shots, who):
        values = self.values(column, name, shots, who)
        return sum(values) / len(values) if values else None

    def right(self, name, who):
        """Which test rows were right, fitted on all training rows."""
        row = self.rows.get((name, "all", "0", who))
        return np.unpackbits(np.frombuffer(base64.b64decode(row["right"]), np.uint8)) if row and row["right"] else None


def koofu_options(who, shots):
    """With one row a class nothing varies within classes; for the paper's method any absolute lambda is then as good."""
    if who == "default":
        return ()
    return ("--method", "paper", "--lambda", "1") if shots == 1 else ("--method", "paper")


def measure(koofu, data, name, shots, seed, who, limit):
    drawn = draw(data.y, shots, seed)
    x, y, error, answers = data.x[drawn], data.y[drawn], "", None
    if who in ("paper", "default"):
        seconds = koofu.fit(x, y, *koofu_options(who, shots))
        said = koofu.eval(data.q, data.labels)
        top1, error, chosen = said["top1"], calibration_error(said), said["lambda"]
        if shots == "all":
            answers = koofu.classify(data.q)
    else:
        result = within(limit, who, unit(x), y, unit(data.q))
        if result is None:
            return name, shots, seed, who, "", "", "", f"timed out after {limit} s", ""
        answers, seconds, chosen = result
        top1 = (answers == data.labels).mean()
    bits = np.packbits(answers == data.labels).tobytes() if shots == "all" else b""
    return name, shots, seed, who, 100 * top1, round(seconds, 3), error, chosen, base64.b64encode(bits).decode()


def too_few(who, shots):
    return who not in EVERY_DRAW and shots < LEAST.get(who, 2)


def measure_all(arguments, koofu, folder, made):
    for name in arguments.sets:
        data = Set(folder, name)
        for who in arguments.rivals:
            for shots in arguments.shots if who in EVERY_DRAW else arguments.rival_shots:
                if shots != "all" and (shots >= data.smallest or too_few(who, shots)):
                    continue  # these are all there are, or not enough
                for seed in range(1 if shots == "all" else arguments.seeds):
                    if not made.has(name, shots, seed, who):
                        made.add(*measure(koofu, data, name, shots, seed, who, arguments.limit))
                        row = made.rows[(name, str(shots), str(seed), who)]
                        print(*(row[c] for c in COLUMNS[:-1]), file=sys.stderr, flush=True)


# --- tables ----------------------------------------------------------------------------------------


def mcnemar(ours, theirs):
    """Exact two-sided p of the rows that only one of the two got right."""
    a, b = int((ours & ~theirs & 1).sum()), int((theirs & ~ours & 1).sum())
    return min(1.0, 2 * sum(math.comb(a + b, i) for i in range(min(a, b) + 1)) / 2 ** (a + b))


def figure(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def table(title, heads, rows):
    print(f"\n{title}\n")
    print("| " + " | ".join(heads) + " |")
    print("| --- |" + " --: |" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def mean_of(values):
    return sum(values) / len(values) if values and None not in values else None


def missing(made, name, who):
    row = made.rows.get((name, "all", "0", who))
    return "timed out" if row and not row["top1"] else "–"


def full_tables(made, sets, rivals):
    heads = [SETS[s][0] for s in sets]
    for title, column, digits in (("Top-1 in per cent, all training rows", "top1", 2),
                                  ("Processor time of the fit in seconds", "seconds", 2)):
        rows = []
        for who in rivals:
            values = [made.mean(column, s, "all", who) for s in sets]
            cells = [missing(made, s, who) if v is None else figure(v, digits) for s, v in zip(sets, values)]
            rows.append([RIVALS[who], *cells, figure(mean_of(values), digits)])
        table(title, ["", *heads, "mean"], rows)
    rows = []
    for who in (r for r in rivals if r != "default"):
        pairs = [(made.right(s, "default"), made.right(s, who)) for s in sets]
        values = [None if a is None or b is None else mcnemar(a, b) for a, b in pairs]
        gains = [None if v is None else made.mean("top1", s, "all", "default") - made.mean("top1", s, "all", who)
                 for s, v in zip(sets, values)]
        rows.append([RIVALS[who], *("–" if v is None else f"{g:+.2f} ({v:.2g})" for g, v in zip(gains, values))])
    table("Points that koofu's default is ahead, and McNemar's exact p", ["", *heads], rows)
    rows = [[RIVALS["default"], *(figure(made.mean("ece", s, "all", "default")) for s in sets)]]
    table("Calibration error in per cent, 15 bins", ["", *heads], rows)


def by_shots(made, name, shots, who, column="top1"):
    """Mean over draws, or of all rows where a set has just as many; None where it was not measured."""
    value = made.mean(column, name, shots, who)
    return made.mean(column, name, "all", who) if value is None and shots == SHOTS.get(name) else value


def there(values):
    return [value for value in values if value is not None]


def shots_table(made, title, column, sets, rivals, numbers):
    rows = []
    for number in numbers:
        for who in rivals:
            values = [by_shots(made, name, number, who, column) for name in sets]
            expected = [by_shots(made, name, number, "default", column) for name in sets]
            if there(values):
                whole = len(there(values)) == len(there(expected))
                mean = mean_of(there(values)) if whole else None
                rows.append([str(number), RIVALS[who], *map(figure, values), figure(mean)])
    table(title, ["shots", "", *(SETS[name][0] for name in sets), "mean"], rows)


def shots_tables(made, sets, rivals, shots):
    numbers = [number for number in shots if number != "all"]
    shots_table(made, "Top-1 in per cent by shots, mean over draws", "top1", sets, rivals, numbers)
    shots_table(made, "Calibration error of the default in per cent by shots", "ece", sets, ["default"], numbers)
    rows = []
    for who in (name for name in rivals if name in EVERY_DRAW):
        cells = [mean_of(there([by_shots(made, name, number, who) for number in numbers])) for name in sets]
        rows.append([RIVALS[who], *map(figure, cells), figure(mean_of(cells))])
    heads = ["", *(SETS[name][0] for name in sets), "mean"]
    table("Top-1 in per cent of each set, mean over the numbers of shots", heads, rows)


# --- with text -------------------------------------------------------------------------------------


def gda_with_text(x, y, t):
    """GDA-CLIP with text: 100 times the cosine with text plus alpha times the Gaussian score, alpha by cross-validation.
    Returns the model and alpha."""
    hits = np.zeros(len(ALPHAS))
    for seen, left in folds(y):
        words, scores = 100 * x[left] @ t.T, Gaussian().fit(x[seen], y[seen]).scores(x[left])
        hits += [((words + alpha * scores).argmax(axis=1) == y[left]).sum() for alpha in ALPHAS]
    return Gaussian().fit(x, y), ALPHAS[int(hits.argmax())]


def fit_text(koofu, data, *options):
    """Answers of koofu for the test rows, processor time of the fit, calibration error."""
    seconds = koofu.fit(data.x, data.y, "--text", koofu.path("text.safetensors"), *options)
    error = calibration_error(koofu.eval(data.q, data.labels))
    return koofu.classify(data.q), seconds, error


def fit_gda_text(data, x, q, t):
    """The same of GDA-CLIP."""
    start = time.process_time()
    model, alpha = gda_with_text(x, data.y, t)
    seconds = time.process_time() - start
    return (100 * q @ t.T + alpha * model.scores(q)).argmax(axis=1), seconds, ""


def measure_text(koofu, folder):
    data = Set(folder, "imagenet")
    words = np.load(os.path.join(folder, f"{TEXT}.npy"))
    x, q, t = unit(data.x), unit(data.q), unit(words)
    np.save(koofu.path("words"), words)
    koofu.run("text-prototypes", koofu.path("words.npy"), "--per-class", "1", "-o", koofu.path("text.safetensors"))
    measured = {"text alone": ((q @ t.T).argmax(axis=1), "", ""),
                "koofu `fit --method paper --text`": fit_text(koofu, data, "--method", "paper"),
                "koofu `fit --text`": fit_text(koofu, data),
                "GDA-CLIP with text": fit_gda_text(data, x, q, t)}
    ours = measured["koofu `fit --text`"][0]
    rows = [[who, f"{100 * (answers == data.labels).mean():.2f}", figure(seconds or None), figure(error or None),
             "" if answers is ours else f"{mcnemar_of(ours, answers, data.labels):.2g}"]
            for who, (answers, seconds, error) in measured.items()]
    table("ImageNet, 4 shots, with class names", ["", "top-1", "seconds", "calibration error", "McNemar's p"], rows)


def mcnemar_of(ours, theirs, labels):
    return mcnemar((ours == labels).astype(np.uint8), (theirs == labels).astype(np.uint8))


# --- raw units -------------------------------------------------------------------------------------


def measure_units(koofu, seeds):
    from sklearn import datasets
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.model_selection import train_test_split
    rows = []
    for name in UNITS:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        ours, theirs = [], []
        for seed in range(seeds):
            a, b, ya, yb = train_test_split(x, y, train_size=0.6, random_state=seed, stratify=y)
            koofu.fit(a, ya, "--no-normalize")
            ours.append(koofu.classify(b) == yb)
            theirs.append(LinearDiscriminantAnalysis().fit(a, ya).predict(b) == yb)
        gains = [100 * (u.mean() - v.mean()) for u, v in zip(ours, theirs)]
        error = np.std(gains, ddof=1) / math.sqrt(len(gains)) if len(gains) > 1 else 0
        ours, theirs = np.concatenate(ours), np.concatenate(theirs)
        rows.append([name, f"{100 * ours.mean():.2f}", f"{100 * theirs.mean():.2f}",
                     f"{np.mean(gains):+.2f} ± {error:.2f}", str((ours & ~theirs).sum()), str((theirs & ~ours).sum())])
    table(f"Raw units, top-1 in per cent, {seeds} splits 60/40",
          ["", "koofu, default", "LDA", "difference ± standard error", "right: koofu alone", "LDA alone"], rows)


# --- uneven classes --------------------------------------------------------------------------------


def uneven(labels, seed):
    """Numbers of rows: the sizes of classes, in random order, fall geometrically from the smallest there is to an eighth."""
    rng = np.random.default_rng(seed)
    there = np.bincount(labels)
    wanted = rng.permutation(np.maximum(1, np.round(there.min() * np.geomspace(1, 1 / 8, len(there))))).astype(int)
    return np.sort(np.concatenate([rng.permutation(np.flatnonzero(labels == k))[:n] for k, n in enumerate(wanted)]))


def weighted(right, labels, sizes):
    """Accuracy if classes are as frequent as these sizes."""
    weights = (sizes / np.bincount(labels, minlength=len(sizes)))[labels]
    return 100 * (right * weights).sum() / weights.sum()


def try_priors(koofu, x, y, q, labels, *options):
    """Accuracy in per cent on classes of one size and on those of the training rows, with each kind of priors."""
    sizes, out = np.bincount(y), []
    for priors in ("equal", "training"):
        koofu.fit(x, y, "--priors", priors, *options)
        right = koofu.classify(q) == labels
        out.append([weighted(right, labels, np.ones(len(sizes))), weighted(right, labels, sizes)])
    return np.transpose(out)


def measure_uneven(koofu, folder, sets, seeds):
    from sklearn import datasets
    from sklearn.model_selection import train_test_split
    for title, listed in (("Unit rows", sets), ("Raw units", UNITS)):
        rows, means = [], []
        for name in listed:
            tried = []
            for seed in range(seeds):
                if listed is UNITS:
                    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
                    x, q, y, labels = train_test_split(x, y, train_size=0.6, random_state=seed, stratify=y)
                else:
                    data = Set(folder, name)
                    x, y, q, labels = data.x, data.y, data.q, data.labels
                drawn = uneven(y, seed)
                tried.append(try_priors(koofu, x[drawn], y[drawn], q, labels, *(["--no-normalize"] if listed is UNITS else [])))
            mean, gains = np.mean(tried, axis=0), np.diff(np.array(tried), axis=2)[:, :, 0]
            error = gains.std(axis=0, ddof=1) / math.sqrt(seeds) if seeds > 1 else np.zeros(2)
            means.append(mean)
            rows.append([name] + [cell for i in range(2) for cell in (f"{mean[i][0]:.2f}", f"{mean[i][1]:.2f}",
                                                                     f"{gains[:, i].mean():+.2f} ± {error[i]:.2f}")])
        mean = np.mean(means, axis=0)
        rows.append(["mean"] + [cell for i in range(2) for cell in (f"{mean[i][0]:.2f}", f"{mean[i][1]:.2f}", f"{mean[i][1] - mean[i][0]:+.2f}")])
        table(f"{title}, uneven classes, top-1 in per cent, {seeds} draws",
              ["", "balanced test: equal", "training", "gain", "shares of training: equal", "training", "gain"], rows)


# --- command line ----------------------------------------------------------------------------------


def names(known):
    def parse(text):
        wrong = [name for name in text.split(",") if name not in known]
        if wrong:
            raise argparse.ArgumentTypeError(f"{wrong[0]} is not one of {', '.join(known)}")
        return text.split(",")
    return parse


def numbers(text):
    return [shots if shots == "all" else int(shots) for shots in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0], add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--data", default=os.path.join(HERE, "..", "..", "shared", "data"))
    parser.add_argument("--koofu", default=os.path.join(HERE, "..", "build", "koofu"))
    parser.add_argument("--own", nargs=3, action="append", default=[], metavar=("NAME", "TRAIN", "TEST"))
    parser.add_argument("--sets")
    parser.add_argument("--rivals", type=names(RIVALS), default=list(RIVALS))
    parser.add_argument("--shots", type=numbers, default=[1, 2, 4, 8, 16, "all"])
    parser.add_argument("--rival-shots", type=numbers, default=["all"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--out")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--raw-units", action="store_true")
    parser.add_argument("--uneven", action="store_true")
    arguments = parser.parse_args()
    own = {name: (name, os.path.abspath(train), os.path.abspath(test)) for name, train, test in arguments.own}
    if arguments.text and own:
        parser.error("--text is about ImageNet, not about sets of your own")
    SETS.update(own)
    try:
        arguments.sets = names(SETS)(arguments.sets) if arguments.sets else list(own or SETS)
    except argparse.ArgumentTypeError as reason:
        parser.error(f"--sets: {reason}")
    arguments.data_needed = not arguments.raw_units and any(name not in own for name in arguments.sets)
    return arguments


def require(arguments, folder):
    """What is missing, in words, before anything is measured."""
    if arguments.data_needed and not os.path.isdir(folder):
        sys.exit(f"there is no folder {folder}; --data names the one that holds 'embeddings' (docs/accuracy.md), "
                 "and --own sets of yours")
    if not os.access(arguments.koofu, os.X_OK):
        sys.exit(f"there is no program {arguments.koofu}; build koofu (make), or give --koofu")
    if arguments.raw_units or arguments.uneven or (not arguments.text and any(name in NEED_SKLEARN for name in arguments.rivals)):
        if importlib.util.find_spec("sklearn") is None:
            sys.exit("scikit-learn is missing: install it (python3 -m venv rivals && rivals/bin/pip install numpy "
                     "scikit-learn), or leave its rivals out (--rivals raw,paper,default,gda-clip)")


def main():
    arguments = parse_arguments()
    if arguments.help:
        print(__doc__.strip())
        return
    folder = os.path.join(arguments.data, "embeddings")
    require(arguments, folder)
    with tempfile.TemporaryDirectory() as work:
        koofu = Koofu(os.path.abspath(arguments.koofu), work)
        if arguments.raw_units:
            measure_units(koofu, arguments.seeds)
        elif arguments.text:
            measure_text(koofu, folder)
        elif arguments.uneven:
            measure_uneven(koofu, folder, arguments.sets, arguments.seeds)
        else:
            made = Measurements(arguments.out)
            measure_all(arguments, koofu, folder, made)
            full_tables(made, arguments.sets, arguments.rivals)
            shots_tables(made, arguments.sets, arguments.rivals, arguments.shots)


if __name__ == "__main__":
    main()
