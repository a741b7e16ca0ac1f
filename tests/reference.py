"""examples/reference.c, the mathematics on one page, against the program: the same fit to 1e-10, the same answers,
neighbours and counts of rows left out.

usage: reference.py path/to/koofu path/to/example_reference
"""

import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "cli"))
from files import npy  # noqa: E402

LINES = 250
FIT = 1e-10  # T, eigenvalues, lengths of prototypes: relative
F32 = 1e-6  # cosines of koofu are of rows rounded to f32
NEIGHBOURS = 5

failed = passed = 0


def check(what, value, limit):
    global failed, passed
    ok = value <= limit
    print(f"{'ok  ' if ok else 'FAIL'} {what:74} {value:.2e}  limit {limit:.3g}")
    passed, failed = passed + ok, failed + (not ok)


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def world(counts, dim, seed, spread):
    """Rows around class means and a large common one, with noise that falls from column to column; their lengths vary."""
    r = random.Random(seed)
    means = [[1 + spread * r.gauss(0, 1) / (1 + j) ** 0.5 for j in range(dim)] for _ in counts]
    rows = []
    for label in (k for k, n in enumerate(counts) for _ in range(n)):
        length = math.exp(r.gauss(0, 1))
        rows.append((label, [single(length * (m + r.gauss(0, 1) / (1 + j) ** 0.7)) for j, m in enumerate(means[label])]))
    r.shuffle(rows)
    return rows


def tensors(path):
    with open(path, "rb") as file:
        content = file.read()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    out = {}
    for name, t in json.loads(content[8:begin]).items():
        if name != "__metadata__":
            first, end = t["data_offsets"]
            flat = [x[0] for x in struct.iter_unpack({"F64": "<d", "F32": "<f", "I64": "<q"}[t["dtype"]], content[begin + first:begin + end])]
            width = t["shape"][1] if len(t["shape"]) == 2 else None
            out[name] = flat if width is None else [flat[i:i + width] for i in range(0, len(flat), width)]
    return out


def distance(a, b):
    """|a - b| / |b|"""
    return math.dist(a, b) / math.hypot(*b)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


class Problem:
    """Rows and queries as files for both programs; classes are numbers."""

    def __init__(self, folder, programs, counts, dim, seed, spread):
        self.folder, (self.koofu, self.reference) = folder, programs
        self.rows = world(counts, dim, seed, spread)
        self.queries = [(0, [single(x + 0.1) for x in row]) for _, row in world([3] * len(counts), dim, seed + 100, spread)]
        self.classes, self.dim = len(counts), dim
        for name, rows in (("train", self.rows), ("queries", self.queries)):
            with open(self.path(f"{name}.npy"), "wb") as file:
                file.write(npy([row for _, row in rows]))
            with open(self.path(f"{name}.txt"), "w", encoding="ascii") as file:
                print(len(rows), dim, len(counts), file=file)
                for label, row in rows:
                    print(label, *map(repr, row), file=file)
        with open(self.path("labels.npy"), "wb") as file:
            file.write(npy([label for label, _ in self.rows], "<i4"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def program(self, command, *words):
        done = subprocess.run([self.koofu, command, *words], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"koofu {command}: {done.stderr}")
        return done.stdout

    def fit(self, *words):
        return json.loads(self.program("fit", "train.npy", "--labels", "labels.npy", "--method", "paper", *words, "-o", "m.safetensors", "--json"))

    def answers(self):
        """Of each query: class, cosine, class by vote, neighbours and their cosines."""
        def lines(*words):
            return [line.split("\t") for line in self.program(*words).splitlines()[1:]]
        self.program("index", "train.npy", "--labels", "labels.npy", "--model", "m.safetensors", "-o", "g.safetensors", "-q")
        k = str(min(NEIGHBOURS, len(self.rows)))
        return [(int(a[1]), float(a[2]), int(v[1]), [int(row) for row in n[1::3]]) for a, v, n in zip(
            lines("classify", "m.safetensors", "queries.npy", "--top", "1"),
            lines("classify", "g.safetensors", "queries.npy", "-k", k, "--top", "1"), lines("search", "g.safetensors", "queries.npy", "-k", k))]

    def by_reference(self, dim, *lambdas):
        """What the reference prints: lists of rows of numbers, by name."""
        k = min(NEIGHBOURS, len(self.rows))
        done = subprocess.run([self.reference, "train.txt", "queries.txt", str(dim), str(k), *lambdas], cwd=self.folder,
                              stdout=subprocess.PIPE, text=True, check=True)
        out = {}
        for line in done.stdout.splitlines():
            name, *numbers = line.split(" ")
            out.setdefault(name, []).append([float(x) for x in numbers])
        return out


def compare_fit(name, problem, dim, lam):
    problem.fit("--lambda", lam, "--dim", str(dim))
    model, ours = tensors(problem.path("m.safetensors")), problem.by_reference(dim, lam)
    within, between = model["within_eigenvalues"], model["between_eigenvalues"]
    name = f"{name}, lambda {lam}, {dim} of {problem.dim}"
    check(f"{name}: eigenvalues of S_w", distance(ours["within"][0], within), FIT)
    check(f"{name}: gamma", distance(ours["between"][0], between), FIT)
    # A direction is unique where its gamma is well apart from all others.
    t, edges = model["transform"], [math.inf, *between, -math.inf]
    clear = [i for i in range(dim) if min(edges[i] - edges[i + 1], edges[i + 1] - edges[i + 2]) > 1e-3 * between[0]]
    check(f"{name}: {len(clear)} rows of T", max(distance(ours["T"][i], t[i]) for i in clear), FIT)
    check(f"{name}: too few of them", len(clear) < min(2, problem.classes - 1), 0)
    if dim == problem.dim:  # T^T T = (S_w + lambda I)^-1, which is unique
        check(f"{name}: T^T T", distance(*([dot(a, b) for a in zip(*x) for b in zip(*x)] for x in (ours["T"], t))), FIT)
    counts = model["counts"]
    lengths = [math.hypot(*p) for p in ours["prototype"]]
    check(f"{name}: lengths of prototypes", distance(lengths, model["prototype_lengths"]), FIT)
    # Stored as unit rows in f32; along directions that are not unique only their lengths can be
    # compared.
    shown = [i for i in clear if between[i] > 1e-9 * between[0]]
    worst = max(abs(p[i] / length - q[i]) for p, q, length, n in zip(ours["prototype"], model["prototypes"], lengths, counts) if n > 0 for i in shown)
    check(f"{name}: prototypes", worst, 2 ** -24)
    answers = problem.answers()
    check(f"{name}: {len(answers)} nearest prototypes", sum(a[0] != q[0] for a, q in zip(answers, ours["query"])), 0)
    check(f"{name}: their cosines", max(abs(a[1] - q[1]) for a, q in zip(answers, ours["query"])), F32)
    check(f"{name}: neighbours", sum(a[3] != q[3:] for a, q in zip(answers, ours["query"])), 0)
    check(f"{name}: votes", sum(a[2] != q[2] for a, q in zip(answers, ours["query"])), 0)


def compare_choice(name, problem):
    """lambda by leaving rows out: koofu's grid, tried the slow way."""
    said = problem.fit()
    points = said["by_lambda"]["points"]
    ours = problem.by_reference(problem.dim, *(repr(p["lambda"]) for p in points))
    hits = [round(p["top1"] * said["by_lambda"]["n"]) for p in points]
    check(f"{name}: rows right at {len(points)} lambdas", sum(a[1] != b for a, b in zip(ours["tried"], hits)), 0)
    check(f"{name}: all lambdas are equally good", len(set(hits)) == 1, 0)
    check(f"{name}: the lambda chosen", abs(ours["lambda"][0][0] / said["lambda"] - 1), FIT)


def main():
    with open(os.path.join(HERE, "..", "examples", "reference.c"), encoding="utf-8") as file:
        check("lines of examples/reference.c", len(file.readlines()), LINES)
    for name, counts, dim, seed, spread in (
            ("more rows than columns", [20] * 5, 12, 1, 0.3), ("fewer rows than columns", [4] * 6, 40, 2, 0.7),
            ("2 classes", [15, 25], 9, 3, 0.2), ("unequal classes, two with one row", [30, 1, 12, 5, 1, 9], 10, 4, 0.3),
            ("more classes than columns, one empty", [6, 5, 4, 0, 7, 6, 5, 4, 6, 3], 5, 5, 0.4)):
        with tempfile.TemporaryDirectory(prefix="koofu-reference-") as folder:
            problem = Problem(folder, map(os.path.abspath, sys.argv[1:3]), counts, dim, seed, spread)
            for lam in ("0.3x", "0.01x", "2.5", *(["0"] if seed == 1 else [])):
                compare_fit(name, problem, dim, lam)
            if len(counts) > 2:  # of one dimension all cosines are 1 or -1
                compare_fit(name, problem, min(dim, len(counts)) - 1, "0.3x")
            compare_choice(name, problem)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main())
