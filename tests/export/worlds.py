"""Models of every kind with rows to try them on, and the program's own answers for these rows."""

import json
import os
import subprocess

import numpy as np

D, CLASSES = 48, 12


class World:
    """A folder with data and models in which the program runs."""

    def __init__(self, koofu, folder):
        self.koofu, self.folder = os.path.abspath(koofu), folder
        self.run("synth", "--classes", CLASSES, "--dim", D, "--per-class", 30, "--text", "text.safetensors", "-o", "train.safetensors")
        self.run("synth", "--classes", CLASSES, "--dim", D, "--per-class", 6, "--split", 1, "-o", "test.safetensors")
        train, test = rows_of(self.path("train.safetensors")), rows_of(self.path("test.safetensors"))
        # Lengths of all sizes: those that f32 can hold, but whose squares it cannot.
        lengths = np.array([1e-30, 1e-22, 1e-3, 1, 7, 1e5, 1e21, 1e30], "f4")
        self.rows = (test * lengths[np.arange(len(test)) % len(lengths), None]).astype("f4")
        np.save(self.path("rows.npy"), self.rows)
        np.save(self.path("unit.npy"), test)
        counts = [30 - 2 * k for k in range(CLASSES)]  # classes of different sizes, one without rows
        labels = np.arange(len(train)) % CLASSES
        kept = [i for k in range(CLASSES) for i in np.flatnonzero(labels == k)[:counts[k]] if k != 3]
        np.save(self.path("uneven.npy"), 5 * train[kept])
        np.save(self.path("uneven_labels.npy"), labels[kept])
        names = [f'class {k} "ä?"' for k in range(CLASSES)]
        with open(self.path("names.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(names) + "\n")
        uneven = ["uneven.npy", "--labels", "uneven_labels.npy", "--classes", "names.txt"]
        self.run("fit", "train.safetensors", "--reject", "0.9", "-o", "shrunk.safetensors")
        self.run("fit", "train.safetensors", "--dim", 9, "-o", "short.safetensors")
        self.run("fit", "train.safetensors", "--method", "paper", "--lambda", "0.3x", "-o", "paper.safetensors")
        self.run("fit", "train.safetensors", "--text", "text.safetensors", "-o", "fused.safetensors")
        self.run("fit", *uneven, "-o", "uneven.safetensors")
        self.run("fit", *uneven, "--no-normalize", "-o", "lengths.safetensors")

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words):
        process = subprocess.run([self.koofu, *map(str, words), "-q"], cwd=self.folder, capture_output=True, check=False)
        if process.returncode != 0:
            raise SystemExit(f"FAIL: koofu {' '.join(map(str, words))}: {process.stderr.decode()}")
        return process.stdout.decode()

    def transform(self, model, rows, *options):
        self.run("transform", model, rows, *options, "-o", "mapped.npy")
        return np.load(self.path("mapped.npy"))

    def classify(self, model, rows, *options):
        """(scores, probabilities or None), [rows, classes that take part]."""
        found = json.loads(self.run("classify", model, rows, *options, "--top", self.answers(model, *options), "--json", "--no-reject"))["answers"]
        order = self.columns(model, *options)
        scores = np.array([[dict(zip(f["classes"], f["scores"]))[k] for k in order] for f in found])
        if "probabilities" not in found[0]:
            return scores, None
        return scores, np.array([[dict(zip(f["classes"], f["probabilities"]))[k] for k in order] for f in found])

    def columns(self, model, *options):
        del options
        info = json.loads(self.run("info", "--json", model))
        names = json.loads(info["metadata"]["classes"])
        return [name for k, name in enumerate(names) if not (k == 3 and "ä" in name)]

    def answers(self, model, *options):
        return len(self.columns(model, *options))


def rows_of(path):
    """The embeddings of a .safetensors file."""
    with open(path, "rb") as file:
        n = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n))["embeddings"]
        file.seek(8 + n + header["data_offsets"][0])
        return np.frombuffer(file.read(header["data_offsets"][1] - header["data_offsets"][0]), "f4").reshape(header["shape"]).copy()


# Model, rows, options of classify that the file is exported with, whether there is a temperature.
CASES = [
    ("shrunk.safetensors", "rows.npy", [], True),
    ("short.safetensors", "rows.npy", [], True),
    ("paper.safetensors", "rows.npy", [], False),
    ("paper.safetensors", "rows.npy", ["--temperature", "12"], True),
    ("shrunk.safetensors", "rows.npy", ["--metric", "euclidean"], False),
    ("shrunk.safetensors", "rows.npy", ["--raw"], False),
    ("shrunk.safetensors", "rows.npy", ["--raw", "--metric", "euclidean"], False),
    ("fused.safetensors", "rows.npy", [], True),
    ("fused.safetensors", "rows.npy", ["--part", "text"], False),
    ("fused.safetensors", "rows.npy", ["--part", "images"], False),
    ("uneven.safetensors", "rows.npy", [], True),
    ("lengths.safetensors", "uneven.npy", [], True),
    ("lengths.safetensors", "uneven.npy", ["--metric", "cosine"], False),
    ("lengths.safetensors", "uneven.npy", ["--raw"], False),
    ("lengths.safetensors", "uneven.npy", ["--raw", "--metric", "cosine"], False),
]
