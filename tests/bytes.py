#!/usr/bin/env python3
"""Pins every byte that koofu writes.

usage: bytes.py KOOFU [--write] [--keep FOLDER] [-- OPTION...]

Runs the sessions below and compares the SHA-256 of each file they make with tests/bytes.sha256. All
sessions run three times, in different folders: as they are, on one thread with plain kernels, and on
three threads. With options after '--' they run once, with these options added to every command.

--write stores the hashes instead, provided that all three runs agree. --keep leaves the files of the
first run in FOLDER; 'sha256sum -c' works there.

Only data are pinned: files, TSV, CSV and JSON. Sentences, tables for people, help and stderr may change.
Of a report, the numbers in its tables and the shapes of its figures are kept. Inputs are made of
random.random() alone, which is the same in every version of Python, and without libm.
"""

import argparse
import gzip
import hashlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source tree stays as it is

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "bytes.sha256")
sys.path.insert(0, os.path.join(HERE, "cli"))

from files import f32, fbin, fvecs, i32, npy, png, safetensors  # noqa: E402
from harness import Box, Failed, check  # noqa: E402

RUNS = ([], ["--threads", "1", "--isa", "plain"], ["--threads", "3"])
PLACES = ("with blanks", "and ä")  # in the path of the second and third run, where they must not matter
SESSIONS = []

K, DIM, EACH, EACH_TEST = 24, 40, 10, 7
NAMES = [f"c{k:04d}" for k in range(K)]
TRAIN, TEST, TEXT = "../world/train.safetensors", "../world/test.safetensors", "../world/text.safetensors"
MODEL, FUSED, RAW = "../fit/compact.safetensors", "../fit/fused.safetensors", "../fit/not-normalized.safetensors"
GALLERY, RAW_GALLERY = "../index/mapped.safetensors", "../index/original.safetensors"
MODELS, CLIP = "../models", "../models/clip-f32"
# In JSON: times, and what depends on threads and instruction set.
VARYING = re.compile(r'"(load_seconds|search_seconds|queries_per_second|candidates_per_query|isa|threads)": [^,}]*')


def session(function):
    """Registers a session: a function of one Session, run in a folder with its name, in this order."""
    SESSIONS.append(function)
    return function


class Session(Box):
    """The folder of a session. What koofu puts there is hashed, what `write` puts there is not."""

    def __init__(self, program, folder, more):  # unlike Box, the folder is ours
        self.program, self.folder, self.user = program, folder, None
        self.more, self.given = more, set()
        os.mkdir(folder)

    def command(self, *words):
        if words and words[0] in ("fit", "sweep", "report") and "--method" not in words and "--model" not in words:
            words = (*words, "--method", "paper")  # the session `shrunk` has the default
        return super().command(*words, "-q", *self.more)

    def write(self, name, content):
        self.given.add(name)
        return super().write(name, content)

    def store(self, name, content):
        """Puts something derived from what koofu said into a file that is hashed."""
        with open(self.path(name), "wb") as file:
            file.write(content.encode())

    def out(self, name, *words):
        """Stores what a command prints, without the values that differ from run to run."""
        self.store(name, VARYING.sub(r'"\1": null', self.works(*words).out))

    def hashes(self):
        session_name = os.path.basename(self.folder)
        return {f"{session_name}/{name}": hashlib.sha256(self.read(name)).hexdigest()
                for name in self.files() - self.given if os.path.isfile(self.path(name)) and not name.endswith(".html")}


# --- inputs ---------------------------------------------------------------------------------------


def uniform(rng):
    return 2 * rng.random() - 1


def rows_of(n, dim, classes, seed, noise=1):
    """Rows around class centres, of different lengths, and their labels; row i belongs to class i mod classes."""
    rng = random.Random(seed)
    centres = [[uniform(rng) for _ in range(dim)] for _ in range(classes)]
    labels = [i % classes for i in range(n)]
    return [[(1 + i % 4) * (c + noise * uniform(rng)) for c in centres[k]] for i, k in enumerate(labels)], labels


def lines(items):
    return "".join(f"{item}\n" for item in items)


def bf16(rows):
    return b"".join(struct.pack("<f", x)[2:] for row in rows for x in row)


def data_set(rows, labels, names=None, ids=None):
    tensors = {"embeddings": ("F32", [len(rows), len(rows[0])], f32(rows)), "labels": ("I32", [len(rows)], i32(labels))}
    if ids:
        encoded = [name.encode() for name in ids]
        ends = [sum(map(len, encoded[:i + 1])) for i in range(len(ids))]
        tensors |= {"id_ends": ("I64", [len(ids)], struct.pack(f"<{len(ids)}q", *ends)), "id_bytes": ("U8", [ends[-1]], b"".join(encoded))}
    return safetensors(tensors, metadata={"format": "koofu.dataset", "version": "1", **({"classes": json.dumps(names)} if names else {})})


def photos(s, folder, classes, each, seed):
    """folder/CLASS/00.png and so on: 16 patches in the colours of the class, with noise, in several shapes."""
    rng, paths = random.Random(seed), []
    for name in classes:
        colours = [int(256 * rng.random()) for _ in range(48)]
        for i in range(each):
            width, height = ((16, 16), (24, 17), (33, 48), (5, 7))[i % 4]
            pixels = bytes(min(255, max(0, colours[(y * 4 // height * 4 + x * 4 // width) * 3 + c] + int(120 * uniform(rng))))
                           for y in range(height) for x in range(width) for c in range(3))
            paths.append(s.write(f"{folder}/{name}/{i:02d}.png", png(pixels, width, height)))
    return sorted(paths)


# --- data -----------------------------------------------------------------------------------------


@session
def world(s):
    """The synthetic world that most of the other sessions use."""
    shape = ["--classes", K, "--dim", DIM, "--per-class"]
    s.works("synth", *shape, EACH, "-o", "train.safetensors", "--text", "text.safetensors")
    s.works("synth", *shape, EACH_TEST, "--split", 1, "-o", "test.safetensors")
    s.works("synth", *shape, 3, "--seed", 7, "-o", "other.safetensors")
    s.works("synth", *shape, 1, "-o", "single.safetensors")
    for dtype in ("f16", "bf16"):
        s.works("synth", *shape, EACH, "--dtype", dtype, "-o", f"train-{dtype}.safetensors", "--text", f"text-{dtype}.safetensors")
    s.works("synth", "--classes", 40, "--dim", 24, "--per-class", 130, "--dtype", "f16", "-o", "large.safetensors")


@session
def convert(s):
    rows, labels = rows_of(50, 12, 5, 1)
    names = ["ant", "bee", "cät", "dog, \"small\"", "eel"]
    s.write("names.txt", lines(names))
    s.write("y.txt", lines(names[k] for k in labels))
    s.write("y4.npy", npy(labels, "<i4"))
    s.write("y8.npy", npy(labels, "<i8"))
    for code in ("<f2", "<f4", "<f8"):
        s.write(f"x{code[1:]}.npy", npy(rows, code))
        s.works("convert", f"x{code[1:]}.npy", "--labels", "y.txt", "-o", f"{code[1:]}.safetensors")
    s.write("x2.npy", npy(rows, "<f4", version=2))
    s.works("convert", "x2.npy", "--labels", "y8.npy", "-o", "integers.safetensors")
    s.works("convert", "xf4.npy", "--labels", "y4.npy", "--classes", "names.txt", "-o", "named.safetensors")
    s.works("convert", "xf4.npy", "-o", "bare.safetensors")
    for dtype in ("f16", "bf16"):
        s.works("convert", "xf8.npy", "--labels", "y.txt", "--dtype", dtype, "-o", f"to-{dtype}.safetensors")
    s.write("x.fvecs", fvecs(rows))
    s.works("convert", "x.fvecs", "--labels", "y.txt", "-o", "fvecs.safetensors")
    s.write("x.fbin", fbin(rows))
    s.works("convert", "x.fbin", "--labels", "y.txt", "-o", "fbin.safetensors")
    s.write("columns.npy", npy([x for column in zip(*rows) for x in column], "<f4", shape=(50, 12), fortran=True))
    s.works("convert", "columns.npy", "--labels", "y.txt", "-o", "columns.safetensors")
    flat = [x for row in rows for x in row]
    for dtype, content in (("F16", struct.pack(f"<{len(flat)}e", *flat)), ("BF16", bf16(rows)), ("F64", struct.pack(f"<{len(flat)}d", *flat))):
        s.write(f"in-{dtype}.safetensors", safetensors({"other": ("F32", [2, 2], f32([[1, 2], [3, 4]])), "rows": (dtype, [50, 12], content),
                                                        "which": ("I64", [50], struct.pack("<50q", *labels))}))
        s.works("convert", f"in-{dtype}.safetensors", "--tensor", "rows", "--label-tensor", "which", "--classes", "names.txt",
                "-o", f"from-{dtype}.safetensors")
    for i in (7, 20, 21, 49):
        rows[i] = [0.0] * 12 if i % 2 else [float("nan" if i == 20 else "inf")] + rows[i][1:]
    s.write("bad.npy", npy(rows))
    s.works("convert", "bad.npy", "--labels", "y.txt", "--skip-bad", "-o", "skipped.safetensors")
    s.write("bad-ids.safetensors", data_set(rows, labels, names, [f"photos/{i} ä.jpg" for i in range(50)]))
    s.works("convert", "bad-ids.safetensors", "--skip-bad", "-o", "ids.safetensors")
    s.write("gaps.txt", lines("" if i % 6 == 0 else names[k] for i, k in enumerate(labels)))
    s.works("convert", "xf4.npy", "--labels", "gaps.txt", "--keep-unlabelled", "-o", "gaps.safetensors")
    s.write("two.txt", "eel\nant\n")
    s.works("convert", "xf4.npy", "--labels", "y.txt", "--only", "two.txt", "-o", "two.safetensors")
    s.works("convert", "ids.safetensors", "--only", "two.txt", "--dtype", "f16", "-o", "ids-two.safetensors")


@session
def sizes(s):
    """Classes of many sizes: 1 to 40 rows, which is more sizes than nodes, and 2, 4, … 14."""
    for name, counts, dim in (("many", range(1, 41), 20), ("few", range(2, 15, 2), 30)):
        labels = [k for k, count in enumerate(counts) for _ in range(count)]
        rng = random.Random(len(labels))
        centres = [[uniform(rng) for _ in range(dim)] for _ in counts]
        s.write(f"{name}.npy", npy([[c + uniform(rng) for c in centres[k]] for k in labels], "<f4"))
        s.write(f"{name}-labels.npy", npy(labels, "<i4"))
        data = [f"{name}.npy", "--labels", f"{name}-labels.npy"]
        s.works("fit", *data, "-o", f"{name}-model.safetensors")
        s.works("fit", *data, "--metric", "euclidean", "--no-normalize", "-o", f"{name}-distances.safetensors")
        s.out(f"{name}.json", "fit", *data, "--json", "-o", f"{name}-again.safetensors")


@session
def shards(s):
    """One data set in three files of rows with a file of labels each: by name, by pattern, by folder."""
    rows, labels = rows_of(210, 20, 6, 2)
    names = [f"class {k}" for k in range(6)]
    parts = []
    for i, part in enumerate((slice(0, 80), slice(80, 81), slice(81, 210))):
        s.write(f"in/x{i}.npy", npy(rows[part], ("<f4", "<f8", "<f4")[i]))
        parts.append(s.write(f"labels/y{i}.txt", lines(names[k] for k in labels[part])))
    s.write("y.npy", npy(labels, "<i4"))
    by_name = ["in/x0.npy", "in/x1.npy", "in/x2.npy", *(word for part in parts for word in ("--labels", part))]
    for name, words in (("names", by_name), ("pattern", ["in/x*.npy", "--labels", "labels/y*.txt"]), ("folder", ["in", "--labels", "y.npy"])):
        s.works("convert", *words, "-o", f"{name}.safetensors")
        s.works("stats", *words, "-o", f"{name}-stats.safetensors")
        s.works("fit", *words, "--dim", 9, "-o", f"{name}-model.safetensors")
        s.works("index", *words, "--model", f"{name}-model.safetensors", "-o", f"{name}-gallery.safetensors")
        s.works("transform", f"{name}-model.safetensors", *words, "-o", f"{name}-mapped.safetensors")
        s.out(f"{name}-eval.json", "eval", f"{name}-model.safetensors", *words, "--json")
        s.out(f"{name}-sweep.csv", "sweep", *words, "--lambdas", "0.3x", "--dims", "20,4", "-k", 3, "--folds", 3, "--format", "csv")
    s.out("classify.tsv", "classify", "names-model.safetensors", "in/x*.npy", "--top", 2)
    for name, rows_in, labels_in in (("a", "in/x0.npy", parts[0]), ("b", "in/x1.npy", parts[1]), ("c", "in/x2.npy", parts[2])):
        s.works("stats", rows_in, "--labels", labels_in, "-o", f"{name}.safetensors")
    s.works("merge", "c.safetensors", "a.safetensors", "b.safetensors", "-o", "merged.safetensors")


@session
def stats(s):
    s.works("stats", TRAIN, "-o", "plain.safetensors")
    s.works("stats", TEST, "-o", "test.safetensors")
    s.works("stats", "../world/train-f16.safetensors", "-o", "f16.safetensors")
    s.works("stats", "../world/train-bf16.safetensors", "-o", "bf16.safetensors")
    s.works("stats", "../convert/f8.safetensors", "--no-normalize", "-o", "not-normalized.safetensors")
    s.works("stats", "../convert/f8.safetensors", "--no-normalize", "--exponent", 9, "-o", "exponent.safetensors")
    s.works("stats", "../convert/two.safetensors", "--no-normalize", "--exponent", 9, "-o", "exponent-two.safetensors")
    s.works("stats", "../convert/bad.npy", "--labels", "../convert/gaps.txt", "--skip-bad", "--skip-unlabelled", "-o", "skipped.safetensors")
    s.write("known.txt", "ant\nbee\nyak\neel\n")
    s.works("stats", "../convert/xf4.npy", "--labels", "../convert/y.txt", "--classes", "known.txt", "--skip-unknown", "-o", "known.safetensors")
    s.write("some.txt", lines(NAMES[3:17]))
    s.works("stats", TRAIN, "--only", "some.txt", "-o", "only.safetensors")
    s.works("merge", "plain.safetensors", "test.safetensors", "-o", "merged.safetensors")
    s.works("merge", "exponent.safetensors", "exponent-two.safetensors", "-o", "merged-exponent.safetensors")
    s.works("merge", "skipped.safetensors", "known.safetensors", "-o", "merged-classes.safetensors")
    s.works("merge", "only.safetensors", "-o", "merged-one.safetensors")


# --- models ---------------------------------------------------------------------------------------


@session
def fit(s):
    statistics = "../stats/plain.safetensors"
    s.write("easy.safetensors", data_set(*rows_of(40, 10, 4, 18, noise=0.1)))  # all are right with any lambda
    text = [TRAIN, "--text", TEXT]
    for name, words in {
            "auto": [TRAIN],
            "statistics": [statistics],
            "relative": [statistics, "--lambda", "0.05x"],
            "absolute": [statistics, "--lambda", "1.5"],
            "gda": [statistics, "--lambda", "gda"],
            "ledoit-wolf": [TRAIN, "--lambda", "ledoit-wolf"],
            "one-se": [TRAIN, "--one-se"],
            "one-se-easy": ["easy.safetensors", "--one-se"],
            "sample": [TRAIN, "--sample", 70],
            "compact": [TRAIN, "--lambda", "0.3x", "--dim", 11],
            "dim-auto": [TRAIN, "--dim", "auto"],
            "dim-folds": [TRAIN, "--dim", "auto", "--folds", 3, "--lambda", "1x"],
            "dim-margin": [TRAIN, "--dim", "auto", "--margin", 2.5, "--sample", 150],
            "centred": [TRAIN, "--centre", "mean"],
            "centred-compact": [statistics, "--centre", "mean", "--dim", 7],
            "euclidean": [TRAIN, "--metric", "euclidean", "--dim", "auto"],
            "between": ["../stats/only.safetensors", "--between", statistics],
            "between-centred": [statistics, "--between", "../stats/test.safetensors", "--lambda", "2", "--centre", "mean", "--dim", 20],
            "not-normalized": [TRAIN, "--no-normalize"],
            "not-normalized-exponent": ["../convert/f8.safetensors", "--no-normalize", "--exponent", 9, "--lambda", "0.3x"],
            "not-normalized-statistics": ["../stats/not-normalized.safetensors", "--dim", 5],
            "only": [TRAIN, "--only", "../stats/some.txt"],
            "skipped": ["../convert/bad.npy", "--labels", "../convert/gaps.txt", "--skip-bad", "--skip-unlabelled"],
            "numbers": ["../convert/integers.safetensors"],
            "f16": ["../world/train-f16.safetensors", "--dim", 16],
            "fused": text,
            "fused-alpha": [*text, "--fuse", "0.25"],
            "fused-lambda": [*text, "--lambda", "0.3x"],
            "fused-both": [*text, "--lambda", "0.8", "--fuse", "2", "--dim", 13],
            "fused-dim": [*text, "--dim", 9],
            "fused-one-se": [*text, "--fuse", "0.25", "--one-se"],
            "fused-statistics": [statistics, "--text", TEXT, "--fuse", "0.25"],
            "fused-only": [*text, "--only", "../stats/some.txt"],
            "single": ["../world/single.safetensors", "--lambda", "0.5", "--dim", 12],
            "single-fused": ["../world/single.safetensors", "--text", TEXT]}.items():
        s.works("fit", *words, "-o", f"{name}.safetensors")


@session
def shrunk(s):
    """The default method."""
    statistics = "../stats/plain.safetensors"
    s.write("groups.txt", lines(i // 5 for i in range(K * EACH)))
    text = [TRAIN, "--text", TEXT]
    for name, words in {
            "auto": [TRAIN],
            "statistics": [statistics],
            "given": [TRAIN, "--lambda", "0.3x", "--dim", 11],
            "dim-auto": [TRAIN, "--dim", "auto", "--margin", 3],
            "accuracy": [TRAIN, "--criterion", "accuracy"],
            "one-se": [TRAIN, "--one-se"],
            "sample": [TRAIN, "--sample", 70],
            "groups": [TRAIN, "--groups", "groups.txt"],
            "euclidean": [TRAIN, "--metric", "euclidean"],
            "not-normalized": [TRAIN, "--no-normalize"],
            "between": ["../stats/only.safetensors", "--between", statistics],
            "skipped": ["../convert/bad.npy", "--labels", "../convert/gaps.txt", "--skip-bad", "--skip-unlabelled"],
            "reject": [TRAIN, "--reject", "0.9"],
            "fused": text,
            "fused-alpha": [*text, "--fuse", "0.25"],
            "fused-lambda": [*text, "--lambda", "0.3x"],
            "fused-groups": [*text, "--groups", "groups.txt"],
            "single": ["../world/single.safetensors"],
            "single-fused": ["../world/single.safetensors", "--text", TEXT]}.items():
        s.works("fit", *words, "--method", "shrunk", "-o", f"{name}.safetensors")
    s.write("okapi.npy", npy(rows_of(5, DIM, 1, 3)[0]))
    s.works("add-class", "auto.safetensors", "okapi", "okapi.npy", "-o", "okapi.safetensors")
    for name in ("auto", "given", "reject", "fused", "not-normalized", "single", "okapi"):
        s.out(f"{name}.json", "eval", f"{name}.safetensors", TEST, "--json")
        s.out(f"{name}.tsv", "classify", f"{name}.safetensors", TEST, "--probabilities")
    s.out("sweep.csv", "sweep", TRAIN, "--method", "shrunk", "--lambdas", "0.3x,1x", "--dims", "40,9", "-k", 3, "--format", "csv")
    s.out("left-out.csv", "sweep", TRAIN, "--method", "shrunk", "--lambdas", "0.3x,1x", "--leave-one-out", "--format", "csv")


@session
def add_class(s):
    rows, _ = rows_of(5, DIM, 1, 3)
    s.write("okapi.npy", npy(rows))
    s.write("bad.npy", npy([rows[0], [0.0] * DIM, rows[1]]))
    s.works("add-class", MODEL, "okapi", "okapi.npy", "-o", "rows.safetensors")
    s.works("add-class", "rows.safetensors", "gnu", "bad.npy", "--skip-bad", "-o", "rows-2.safetensors")
    s.works("add-class", RAW, "okapi", "okapi.npy", "-o", "not-normalized.safetensors")
    s.works("add-class", "../fit/centred.safetensors", "okapi", "okapi.npy", "-o", "centred.safetensors")
    s.works("add-class", FUSED, "okapi", "okapi.npy", "-o", "fused-rows.safetensors")
    s.works("add-class", FUSED, "okapi", "okapi.npy", "--text", "-o", "fused-text.safetensors")
    s.works("add-class", "fused-rows.safetensors", "okapi", "bad.npy", "--skip-bad", "--text", "-o", "fused-both.safetensors")
    s.works("add-class", FUSED, NAMES[2], "okapi.npy", "--text", "-o", "fused-other-text.safetensors")
    s.out("classify.tsv", "classify", "fused-both.safetensors", TEST, "--top", 3)


@session
def text(s):
    s.write("names.txt", "tench, Tinca tinca\n'kite (bird of prey)',\n\"potter's wheel\",\nC# code # x\ncafé\n")
    s.write("templates.txt", "a {}.\nthe {} of {}s\n")
    for templates in ("builtin1", "builtin7", "builtin80", "templates.txt"):
        s.out(f"prompts-{templates.removesuffix('.txt')}.txt", "prompts", "--classes", "names.txt", "--templates", templates)
    s.write("ids.txt", "n2\nn1\n")
    s.write("wordnet.txt", "n1\tcrane, tower crane\nn0\tcrane\nn2\theron , Ardea\n")
    s.works("prompts", "--classes", "ids.txt", "--names", "wordnet.txt", "--templates", "builtin1", "--all-names",
            "--label-output", "all-labels.txt", "-o", "all-names.txt")
    rows, labels = rows_of(40, 10, 5, 4)
    s.write("e.npy", npy(sorted(rows)))
    s.write("y.txt", lines("abcde"[k] for k in labels))
    s.write("n.txt", lines("edcba"))
    s.works("text-prototypes", "e.npy", "--per-class", 8, "-o", "numbers.safetensors")
    s.works("text-prototypes", "e.npy", "--classes", "n.txt", "-o", "names.safetensors")
    s.works("text-prototypes", "e.npy", "--classes", "n.txt", "--labels", "y.txt", "-o", "labels.safetensors")
    s.works("text-prototypes", "e.npy", "--labels", "y.txt", "--no-unit-rows", "-o", "no-unit-rows.safetensors")
    s.works("text-prototypes", "e.npy", "--labels", "y.txt", "--no-unit-mean", "-o", "no-unit-mean.safetensors")
    s.works("text-prototypes", "e.npy", "--labels", "y.txt", "--no-unit-rows", "--no-unit-mean", "-o", "no-unit.safetensors")
    s.works("text-prototypes", "../convert/bad.npy", "--labels", "../convert/y.txt", "--skip-bad", "-o", "skipped.safetensors")


# --- their use ------------------------------------------------------------------------------------


@session
def transform(s):
    s.works("transform", MODEL, TEST, "-o", "f32.npy")
    s.works("transform", MODEL, TEST, "--dtype", "f16", "-o", "f16.npy")
    for dtype in ("f32", "f16", "bf16"):
        s.works("transform", MODEL, TEST, "--dtype", dtype, "-o", f"{dtype}.safetensors")
    s.works("transform", MODEL, TEST, "--no-normalize", "-o", "lengths.npy")
    for name in ("centred", "not-normalized", "euclidean", "fused", "between-centred"):
        s.works("transform", f"../fit/{name}.safetensors", TEST, "-o", f"by-{name}.safetensors")
    s.works("transform", RAW, TEST, "--no-normalize", "-o", "not-normalized-lengths.npy")
    s.works("transform", "../fit/skipped.safetensors", "../convert/bad.npy", "--skip-bad", "-o", "skipped.npy")
    s.works("transform", "../fit/skipped.safetensors", "../convert/bad.npy", "--labels", "../convert/y.txt", "--skip-bad",
            "--dtype", "f16", "-o", "skipped.safetensors")
    s.works("transform", "../fit/skipped.safetensors", "../convert/x.fvecs", "-o", "fvecs.npy")
    s.works("transform", "../fit/skipped.safetensors", "../convert/ids.safetensors", "-o", "ids.safetensors")


@session
def index(s):
    s.works("index", TRAIN, "-o", "original.safetensors")
    s.works("index", TRAIN, "--model", MODEL, "-o", "mapped.safetensors")
    s.works("index", TRAIN, "--model", FUSED, "-o", "fused.safetensors")
    s.works("index", TRAIN, "--model", RAW, "-o", "not-normalized.safetensors")
    s.works("index", TRAIN, "--model", "../fit/centred.safetensors", "-o", "centred.safetensors")
    for metric in ("euclidean", "inner"):
        s.works("index", TRAIN, "--model", MODEL, "--metric", metric, "-o", f"mapped-{metric}.safetensors")
    rows, labels = rows_of(120, 16, 6, 5)
    s.write("x.npy", npy(rows))
    s.write("y.txt", lines(f"class {k}" for k in labels))
    s.write("ids.txt", lines(f"photos/{i} ä.jpg" for i in range(120)))
    for name, part in (("a", slice(0, 70)), ("b", slice(70, 120))):
        s.write(f"{name}.npy", npy(rows[part]))
        s.write(f"{name}.txt", lines(f"class {k}" for k in labels[part]))
        s.write(f"{name}-ids.txt", lines(f"photos/{i} ä.jpg" for i in range(120)[part]))
    for metric in ("cosine", "euclidean", "inner"):
        s.works("index", "x.npy", "--metric", metric, "--labels", "y.txt", "--ids", "ids.txt", "-o", f"{metric}.safetensors")
        s.works("index", "a.npy", "--metric", metric, "--labels", "a.txt", "--ids", "a-ids.txt", "-o", f"{metric}-grown.safetensors")
        s.works("index", "b.npy", "--append", f"{metric}-grown.safetensors", "--labels", "b.txt", "--ids", "b-ids.txt")
        s.works("index", f"{metric}-grown.safetensors", "--compact")
    s.works("index", "x.npy", "-o", "bare.safetensors")
    s.works("index", "a.npy", "--append", "bare.safetensors", "-o", "bare-appended.safetensors")
    s.works("index", TEST, "--append", "mapped.safetensors", "-o", "mapped-appended.safetensors")
    s.works("index", "../convert/two.safetensors", "-o", "classes.safetensors")
    s.works("index", "../convert/f4.safetensors", "--append", "classes.safetensors")
    s.works("index", "classes.safetensors", "--compact")
    s.works("index", "../convert/bad.npy", "--labels", "../convert/gaps.txt", "--skip-bad", "-o", "skipped.safetensors")
    s.works("index", "../convert/bad-ids.safetensors", "--skip-bad", "-o", "ids.safetensors")
    s.works("index", "../convert/bad-ids.safetensors", "--skip-bad", "--only", "../convert/two.txt", "-o", "ids-two.safetensors")
    s.works("index", "../convert/ids-two.safetensors", "--append", "skipped.safetensors", "-o", "ids-dropped.safetensors")
    other, labels = rows_of(12, 12, 3, 13)
    s.write("other.safetensors", data_set(other, labels, ["yak", "eel", "auk"]))
    s.works("index", "other.safetensors", "--append", "skipped.safetensors", "-o", "new-classes.safetensors")
    s.write("some.txt", lines(NAMES[:5]))
    s.works("index", TRAIN, "--only", "some.txt", "-o", "only.safetensors")


@session
def search(s):
    queries, _ = rows_of(33, 16, 6, 6)
    s.write("q.npy", npy(queries))
    for metric in ("cosine", "euclidean", "inner"):
        gallery = f"../index/{metric}.safetensors"
        s.works("search", gallery, "q.npy", "-k", 7, "-o", f"{metric}.npy")
        s.works("search", gallery, "q.npy", "-k", 7, "-o", f"{metric}.safetensors")
        s.works("search", gallery, "q.npy", "-k", 3, "-o", f"{metric}.tsv")
        s.out(f"{metric}-itself.tsv", "search", gallery, "--itself", "-k", 2)
        s.works("search", gallery, "--itself", "-o", f"{metric}-itself.safetensors")
        s.works("search", gallery, "q.npy", "-k", 7, "--rerank-from-disk", "-o", f"{metric}-disk.npy")
        s.out(f"{metric}-disk-itself.tsv", "search", gallery, "--itself", "-k", 120 - 1, "--rerank-from-disk")
    for name in ("mapped", "mapped-euclidean", "mapped-inner", "original", "fused", "not-normalized", "centred"):
        s.out(f"{name}.tsv", "search", f"../index/{name}.safetensors", TEST, "-k", 4)
        s.works("search", f"../index/{name}.safetensors", TEST, "-k", 50, "-o", f"{name}.safetensors")
    s.out("ids.tsv", "search", "../index/ids.safetensors", "../convert/xf8.npy", "-k", 2)
    s.out("bare.tsv", "search", "../index/bare.safetensors", "q.npy", "-k", 1)
    s.out("bare-itself.tsv", "search", "../index/bare-appended.safetensors", "--itself", "-k", 2)  # some rows occur twice
    s.write("bad.npy", npy([queries[0], [0.0] * 16, queries[1], [float("nan")] * 16, *queries[2:9]]))
    s.works("search", "../index/cosine.safetensors", "bad.npy", "--skip-bad", "-k", 2, "-o", "skipped.npy")
    s.out("skipped.tsv", "search", "../index/cosine.safetensors", "bad.npy", "--skip-bad", "-k", 2)
    s.out("about.json", "search", GALLERY, TEST, "-k", 5, "--json", "-o", "with-json.tsv")


@session
def classify(s):
    for name, model in (("model", MODEL), ("auto", "../fit/auto.safetensors"), ("fused", FUSED), ("not-normalized", RAW),
                        ("centred", "../fit/centred.safetensors"), ("between", "../fit/between.safetensors")):
        s.out(f"{name}.tsv", "classify", model, TEST)
        s.out(f"{name}.json", "classify", model, TEST, "--json", "--top", 3)
        s.out(f"{name}-raw.tsv", "classify", model, TEST, "--raw", "--top", K)
        if name != "fused":  # text is compared by cosine alone
            s.out(f"{name}-euclidean.json", "classify", model, TEST, "--metric", "euclidean", "--json")
    s.works("classify", MODEL, TEST, "--top", 1, "-o", "to-a-file.tsv")
    s.works("classify", MODEL, TEST, "--top", 1, "--raw", "-o", "to-a-file-raw.tsv")
    s.out("numbers.tsv", "classify", "../fit/numbers.safetensors", "../convert/xf8.npy")
    s.out("skipped.tsv", "classify", "../fit/skipped.safetensors", "../convert/bad.npy", "--skip-bad")
    s.out("raw-euclidean.json", "classify", MODEL, TEST, "--raw", "--metric", "euclidean", "--json", "--top", 2)
    for part in ("images", "text", "fused"):
        s.out(f"part-{part}.tsv", "classify", FUSED, TEST, "--part", part)
        s.out(f"part-{part}.json", "classify", "../fit/fused-both.safetensors", TEST, "--part", part, "--json")
    for centre in ("none", "mean", "modality"):
        s.out(f"text-{centre}.tsv", "classify", MODEL, TEST, "--text", TEXT, "--text-centre", centre)
    s.out("text-raw.json", "classify", MODEL, TEST, "--text", TEXT, "--raw", "--json")
    s.out("text-as-is.tsv", "classify", MODEL, TEST, "--text", "../world/other.safetensors", "--text-as-is", "--metric", "euclidean")


@session
def votes(s):
    for name, gallery in (("mapped", GALLERY), ("original", RAW_GALLERY)):
        words = ["classify", MODEL, TEST, "--gallery", gallery]
        s.out(f"{name}.tsv", *words)
        s.out(f"{name}-1.tsv", *words, "-k", 1, "--top", 3)
        s.out(f"{name}-all.json", *words, "-k", K * EACH, "--top", K, "--json")
        s.out(f"{name}-auto.tsv", *words, "-k", "auto")
        s.out(f"{name}-weighted.json", *words, "-k", 9, "--weighted", "--json")
        s.out(f"{name}-steep.tsv", *words, "-k", 20, "--weighted", "--temperature", "0.01")
        s.out(f"{name}-weighted-auto.json", *words, "-k", "auto", "--weighted", "--json")
        judged = ["eval", MODEL, TEST, "--gallery", gallery, "--json"]
        s.out(f"eval-{name}.json", *judged)
        s.out(f"eval-{name}-k.json", *judged, "-k", "1,2,30", "--weighted")
        s.out(f"eval-{name}-auto.json", *judged, "-k", "auto")
        s.out(f"eval-{name}-itself.json", "eval", MODEL, "--gallery", gallery, "--json", "-k", "1,10")
    s.out("unlabelled.tsv", "classify", "../fit/skipped.safetensors", "../convert/xf4.npy", "--gallery", "../index/skipped.safetensors", "-k", 4)
    s.out("eval-unlabelled.json", "eval", "../fit/skipped.safetensors", "--gallery", "../index/skipped.safetensors", "--json")
    s.out("euclidean.json", "classify", RAW, TEST, "--gallery", "../index/not-normalized.safetensors", "--weighted", "--json")


def write_truth(s):
    """The right classes of each test row, in three forms, and the ids of rows."""
    n = K * EACH_TEST
    sets = [[] if i % 9 == 0 else [i % K] if i % 2 else [i % K, (i + 5) % K, (i + 1) % K] for i in range(n)]
    s.write("truth.txt", lines(",".join(NAMES[k] for k in right) for right in sets))
    s.write("real.json", json.dumps(sets))
    s.write("clean.csv", "proposed_labels,id\n" + lines(
        f'"{", ".join(map(str, sets[i]))}",x_val_{i + 1:08d}.JPEG' for i in reversed(range(n)) if sets[i]))
    s.write("names.txt", lines(NAMES))
    s.write("ids.txt", lines(f"val/x_val_{(i * 5) % n + 1:08d}.JPEG" for i in range(n)))
    return {"text": ["--truth", "truth.txt"], "real": ["--truth", "real.json", "--truth-classes", "names.txt"],
            "real-ids": ["--truth", "real.json", "--truth-classes", "names.txt", "--ids", "ids.txt"],
            "clean": ["--truth", "clean.csv", "--truth-classes", "names.txt", "--ids", "ids.txt"]}


@session
def evaluate(s):
    def judge(name, *words):
        s.out(f"{name}.json", "eval", *words, "--json")

    for name in ("auto", "compact", "fused", "fused-both", "not-normalized", "centred", "euclidean", "between", "only", "fused-only"):
        judge(f"model-{name}", f"../fit/{name}.safetensors", TEST)
        judge(f"model-{name}-euclidean", f"../fit/{name}.safetensors", TEST, "--metric", "euclidean")
    judge("raw", MODEL, TEST, "--raw")
    s.write("zeros.npy", npy([[0.0] * DIM if i % 3 else row for i, row in enumerate(rows_of(20, DIM, 4, 14)[0])]))
    judge("numbers", "../fit/numbers.safetensors", "../convert/xf4.npy", "--labels", "../convert/y8.npy")
    judge("skipped", "../fit/skipped.safetensors", "../convert/bad.npy", "--labels", "../convert/gaps.txt", "--skip-bad")
    judge("skipped-unknown", MODEL, TEST, "--unknown", "zeros.npy", "--skip-bad")
    judge("unlabelled", "../fit/skipped.safetensors", "../convert/gaps.safetensors")
    for name, words in write_truth(s).items():
        judge(f"truth-{name}", MODEL, TEST, *words)
        judge(f"truth-{name}-fused", FUSED, TEST, *words, "--errors", "--gallery", "../index/fused.safetensors", "-k", "1,7")
    s.write("set.txt", lines(["yak", *NAMES[20:2:-3]]))
    judge("set", MODEL, TEST, "--class-set", "set.txt")
    judge("set-everything", MODEL, TEST, "--class-set", "set.txt", "--truth", "truth.txt", "--text", TEXT, "--gallery", GALLERY, "--errors",
          "--unknown", "../world/other.safetensors")
    for name, words in {"model": [MODEL], "raw": [MODEL, "--raw"], "fused": [FUSED], "text": [MODEL, "--text", TEXT],
                        "text-raw": [MODEL, "--text", TEXT, "--raw"], "euclidean": [RAW]}.items():
        judge(f"errors-{name}", words[0], TEST, *words[1:], "--errors", "--per-class", f"errors-{name}-classes.tsv",
              "--confusions", f"errors-{name}-confusions.tsv")
        judge(f"unknown-{name}", words[0], TEST, *words[1:], "--unknown", "../world/other.safetensors")
    s.works("convert", TEST, "--only", "../stats/some.txt", "-o", "known.safetensors")
    s.write("rest.txt", lines([*NAMES[:3], *NAMES[17:]]))
    s.works("convert", TEST, "--only", "rest.txt", "-o", "rest.safetensors")
    for name in ("only", "fused-only"):
        for how, more in (("mapped", []), ("raw", ["--raw"]), ("text", ["--text", TEXT])):
            judge(f"unknown-classes-{name}-{how}", f"../fit/{name}.safetensors", "known.safetensors", *more,
                  "--unknown", "rest.safetensors", "--class-set", "../stats/some.txt")
    for centre in ("none", "mean", "modality"):
        judge(f"text-{centre}", MODEL, TEST, "--text", TEXT, "--text-centre", centre)
        judge(f"text-{centre}-only", "../fit/only.safetensors", TEST, "--text", TEXT, "--text-centre", centre, "--class-set", "set.txt")
    judge("text-as-is", MODEL, TEST, "--text", "../world/other.safetensors", "--text-as-is", "--metric", "euclidean")
    judge("text-f16", "../fit/f16.safetensors", "../world/train-bf16.safetensors", "--text", "../world/text-f16.safetensors")


@session
def sweep(s):
    def over(name, data, *words):
        s.out(f"{name}.csv", "sweep", data, *words, "--format", "csv")
        s.out(f"{name}.json", "sweep", data, *words, "--json")

    test = ["--test", TEST]
    grid = ["--lambdas", "0.1x,1x,0.5", "--dims", "40,17,3"]
    over("test", TRAIN, *test)
    over("statistics", "../stats/plain.safetensors", *test, *grid)
    over("neighbours", TRAIN, *test, *grid, "-k", "1,5", "--metric", "both")
    over("neighbours-alone", TRAIN, *test, "--lambdas", "0.3x", "-k", "3", "--no-prototypes", "--no-raw")
    over("folds", TRAIN, *grid, "--folds", 3)
    over("folds-neighbours", TRAIN, "--lambdas", "0.3x", "--dims", "40,9", "-k", "1,4", "--folds", 4)
    over("leave-one-out", TRAIN, "--leave-one-out")
    over("leave-one-out-sample", TRAIN, "--leave-one-out", "--sample", 90, "--metric", "euclidean", "--lambdas", "0.1x,3x")
    over("centred", TRAIN, *test, *grid, "--centre", "mean")
    over("between", "../stats/only.safetensors", *test, *grid, "--between", "../stats/plain.safetensors")
    over("not-normalized", TRAIN, *test, "--lambdas", "0.3x", "--no-normalize", "--metric", "both")
    over("only", TRAIN, *test, "--lambdas", "0.3x", "--only", "../stats/some.txt")
    truth = write_truth(s)
    over("truth", TRAIN, *test, "--lambdas", "0.3x,3x", "--dims", "40,8", *truth["clean"], "-k", "3")
    s.write("a.txt", lines(NAMES[::2]))
    s.write("b.txt", lines(NAMES[5:12]))
    over("sets", TRAIN, *test, "--lambdas", "0.3x,3x", "--dims", "40,8", "--class-set", "a.txt", "--class-set", "b.txt", "-k", "3")
    text_words = ["--text", TEXT]
    over("text", TRAIN, *test, *text_words, *grid)
    over("text-centres", TRAIN, *test, *text_words, *grid, "--text-centre", "all", "--no-prototypes")
    over("text-alpha", "../stats/plain.safetensors", *test, *text_words, *grid, "--fuse", "0.5", "--text-centre", "mean")
    over("text-folds", TRAIN, *text_words, "--lambdas", "0.3x", "--dims", "40,10", "--folds", 3)
    over("text-sets", TRAIN, *test, *text_words, "--lambdas", "0.3x", "--class-set", "a.txt", "--class-set", "b.txt", *truth["real"])
    over("text-as-is", TRAIN, *test, "--text", "../world/other.safetensors", "--text-as-is", "--lambdas", "1x", "--metric", "both")
    over("shots", TRAIN, *test, "--shots", "1,3,100", "--seeds", 2)
    over("shots-text", TRAIN, *test, *text_words, "--shots", "2,5", "--seeds", 2)
    s.works("sweep", TRAIN, *test, "--lambdas", "0.3x", "--format", "csv", "-o", "to-a-file.csv")


@session
def compare(s):
    answers, raw = "../classify/to-a-file.tsv", "../classify/to-a-file-raw.tsv"
    truth = write_truth(s)
    s.write("set.txt", lines(NAMES[2:15]))
    for name, words in {
            "models": [MODEL, FUSED, TEST],
            "raw": [MODEL, MODEL, TEST, "--raw", "b"],
            "raw-both": [MODEL, FUSED, TEST, "--raw", "both"],
            "euclidean": [MODEL, RAW, TEST, "--metric", "euclidean"],
            "answers": [answers, raw, TEST],
            "mixed": [FUSED, raw, TEST, "--class-set", "set.txt"],
            "truth": [answers, raw, *truth["text"]],
            "truth-ids": [MODEL, raw, TEST, *truth["clean"]]}.items():
        s.out(f"{name}.json", "compare", *words, "--json")


@session
def classes(s):
    s.write("h.txt", "animal dog\nanimal pet\ndog pug\npet pug\ndog husky\nanimal fish\nfish eel\npug minipug\n")
    s.write("set.txt", "pug\nstone\n")
    s.write("all.txt", "minipug\neel\nfish\npug\nhusky\ndog\nanimal\n")
    s.write("names.txt", "stone\ta stone\npug\tthe pug\n")
    s.out("groups.json", "classes", "--hierarchy", "h.txt", "--set", "set.txt", "--all", "all.txt", "--names", "names.txt",
          "-o", "group", "--json")


@session
def odd_names(s):
    """Names that tables must escape, and classes without rows."""
    rows, labels = rows_of(60, 8, 4, 12)
    names = ["a\tb", "c\\d", "e\nf\x1b", "no rows", "<ü> & \"猫 \U0001f431\""]
    s.write("x.safetensors", data_set(rows, [k + (k == 3) for k in labels], names))
    s.works("fit", "x.safetensors", "-o", "m.safetensors")
    s.out("classify.tsv", "classify", "m.safetensors", "x.safetensors")
    s.out("classify.json", "classify", "m.safetensors", "x.safetensors", "--json")
    s.out("eval.json", "eval", "m.safetensors", "x.safetensors", "--errors", "--per-class", "classes.tsv", "--confusions", "confusions.tsv", "--json")
    s.out("compare.json", "compare", "classify.tsv", "m.safetensors", "x.safetensors", "--json")
    s.write("set, \"quoted\".txt", "a\tb\nc\\d\n")
    s.out("sweep.csv", "sweep", "x.safetensors", "--lambdas", "0.3x", "--class-set", "set, \"quoted\".txt", "--format", "csv")
    s.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    s.out("search.tsv", "search", "g.safetensors", "x.safetensors", "-k", 2)
    s.out("votes.tsv", "classify", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors", "-k", 3)
    s.out("info.json", "info", "--json", "x.safetensors", "m.safetensors", "g.safetensors")


@session
def numbers(s):
    """Classes without names."""
    rows, labels = rows_of(70, 14, 7, 15, noise=3)
    s.write("x.safetensors", data_set(rows, labels))
    s.write("text.safetensors", data_set([[x + 0.5 for x in row] for row in rows[:7]], range(7)))
    s.works("fit", "x.safetensors", "--dim", 5, "-o", "m.safetensors")
    s.works("fit", "x.safetensors", "--text", "text.safetensors", "-o", "fused.safetensors")
    s.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    s.out("classify.tsv", "classify", "m.safetensors", "x.safetensors")
    s.out("classify.json", "classify", "fused.safetensors", "x.safetensors", "--json")
    s.out("votes.json", "classify", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors", "-k", 3, "--json")
    s.out("search.tsv", "search", "g.safetensors", "--itself", "-k", 2)
    s.write("set.txt", "5\n0\n3\n12\n")
    s.write("truth.txt", lines("" if i % 7 == 2 else f"{k},{(k + 2) % 7}" for i, k in enumerate(labels)))
    for name, words in {"labels": [], "set": ["--class-set", "set.txt"], "truth": ["--truth", "truth.txt"],
                        "text": ["--text", "text.safetensors"]}.items():
        s.out(f"eval-{name}.json", "eval", "m.safetensors", "x.safetensors", *words, "--errors", "--confusions", f"confusions-{name}.tsv", "--json")
    s.out("compare.json", "compare", "classify.tsv", "fused.safetensors", "x.safetensors", "--json")
    s.out("sweep.json", "sweep", "x.safetensors", "--text", "text.safetensors", "--lambdas", "0.3x", "--class-set", "set.txt", "--json")


@session
def uneven(s):
    """Classes of one row, two rows and so on; one class has nearly all."""
    rows, labels = rows_of(90, 18, 6, 16, noise=3)
    kept = [i for i, k in enumerate(labels) if i < 6 or (k == 5 or i // 6 < k)]
    names = [f"class {k}" for k in range(6)]
    s.write("x.safetensors", data_set([rows[i] for i in kept], [labels[i] for i in kept], names))
    s.write("rest.safetensors", data_set(rows[60:], labels[60:], names))
    s.write("text.safetensors", data_set([[x + 0.5 for x in row] for row in rows[:5]], range(5), names[:5]))
    text_words = ["--text", "text.safetensors"]
    for name, words in {"auto": [], "dim": ["--dim", "auto"], "euclidean": ["--metric", "euclidean"], "ledoit-wolf": ["--lambda", "ledoit-wolf"],
                        "sample": ["--sample", 15], "fused": text_words}.items():
        s.works("fit", "x.safetensors", *words, "-o", f"{name}.safetensors")
    for name in ("dim", "fused"):
        s.out(f"eval-{name}.json", "eval", f"{name}.safetensors", "rest.safetensors", "--errors", "--json")
    s.works("index", "x.safetensors", "--model", "auto.safetensors", "-o", "gallery.safetensors")
    s.out("votes.json", "eval", "auto.safetensors", "rest.safetensors", "--gallery", "gallery.safetensors", "-k", "auto", "--json")
    s.out("leave-one-out.csv", "sweep", "x.safetensors", "--leave-one-out", "--format", "csv")
    s.out("folds.json", "sweep", "x.safetensors", "--folds", 4, "-k", "1,6", *text_words, "--lambdas", "0.1x,3x", "--json")
    s.out("shots.json", "sweep", "x.safetensors", "--test", "rest.safetensors", "--shots", "1,2,4", *text_words, "--json")


@session
def large(s):
    """More rows than a block has, of anything; then few queries, which threads share."""
    data = "../world/large.safetensors"
    s.works("stats", data, "-o", "stats.safetensors")
    s.works("fit", data, "--sample", 600, "--dim", 10, "-o", "model.safetensors")
    s.works("transform", "model.safetensors", data, "--dtype", "f16", "-o", "mapped.npy")
    s.works("convert", data, "--dtype", "bf16", "-o", "bf16.safetensors")
    s.works("classify", "model.safetensors", data, "--top", 2, "-o", "classify.tsv")
    s.works("index", data, "--model", "model.safetensors", "-o", "gallery.safetensors")
    s.works("search", "gallery.safetensors", "--itself", "-k", 3, "-o", "itself.safetensors")
    s.works("search", "gallery.safetensors", "bf16.safetensors", "-k", 2, "--rerank-from-disk", "-o", "near.npy")
    s.write("two.npy", npy(rows_of(2, 24, 2, 17)[0]))
    s.works("search", "gallery.safetensors", "two.npy", "-k", 100, "-o", "two.safetensors")
    s.works("search", "gallery.safetensors", "two.npy", "-k", 9, "--rerank-from-disk", "-o", "two-disk.safetensors")
    s.out("eval.json", "eval", "model.safetensors", "--gallery", "gallery.safetensors", "-k", "1,15", "--json")
    s.out("votes.tsv", "classify", "model.safetensors", "two.npy", "--gallery", "gallery.safetensors", "-k", "auto")
    s.out("sweep.csv", "sweep", data, "--lambdas", "0.3x,3x", "--dims", "24,6", "--folds", 2, "--format", "csv")
    s.out("leave-one-out.csv", "sweep", data, "--leave-one-out", "--sample", 700, "--lambdas", "0.1x,1x", "--format", "csv")


# --- pictures and words ---------------------------------------------------------------------------

PHOTOS = ["n01440764_tench", "red_fox", "017.Night_Owl", "ant"]


def copy_model(s, name, files):
    """A copy of the CLIP model, with these {name: content} and without those whose content is None."""
    for file in os.listdir(s.path(CLIP)):
        if file not in files:
            s.write(f"{name}/{file}", s.read(f"{CLIP}/{file}"))
    for file, content in files.items():
        if content is not None:
            s.write(f"{name}/{file}", content)


def tokenizers(s):
    """{name: files} of CLIP's tokenizer in its other forms."""
    vocabulary, merges = json.loads(s.read(f"{CLIP}/vocab.json")), s.read(f"{CLIP}/merges.txt")
    with open(os.path.join(HERE, "golden", "tokenizer", "json", "tokenizer.json"), encoding="utf-8") as file:
        whole = json.load(file)
    start, end = vocabulary["<|startoftext|>"], vocabulary["<|endoftext|>"]
    whole["model"] |= {"vocab": vocabulary, "merges": [line.split() for line in merges.decode().splitlines()[1:]]}
    whole["post_processor"] |= {"cls": ["<|startoftext|>", start], "sep": ["<|endoftext|>", end]}
    for token, number in zip(whole["added_tokens"], (start, end)):
        token["id"] = number
    without = {"vocab.json": None, "merges.txt": None}
    return {"tokenizer-json": without | {"tokenizer.json": json.dumps(whole)},
            "tokenizer-text": without | {"bpe_simple_vocab_16e6.txt": merges},
            "tokenizer-packed": without | {"bpe_simple_vocab_16e6.txt.gz": gzip.compress(merges)}}


@session
def embed(s):
    paths = photos(s, "photos", PHOTOS, 8, 8)
    s.write("photos/ant/deep/x.PNG", s.read(paths[0]))
    s.write("photos/ant/readme.txt", "no picture")
    for model in ("clip-f32", "clip-f16", "clip-bf16", "clip-vision", "siglip"):
        s.works("embed", f"{MODELS}/{model}", "photos", "-o", f"{model}.safetensors")
        s.works("embed", f"{MODELS}/{model}", "photos", "--precision", "f32", "-o", f"{model}-exact.safetensors")
        s.works("embed", f"{MODELS}/{model}", "../images", "-o", f"{model}-images.safetensors")
    for name, resample in (("lanczos", 1), ("bilinear", 2)):
        config = json.loads(s.read(f"{CLIP}/preprocessor_config.json"))
        copy_model(s, name, {"preprocessor_config.json": json.dumps(config | {"resample": resample})})
        s.works("embed", name, "photos", "-o", f"{name}.safetensors")
    s.works("embed", CLIP, paths[2], "-o", "one.safetensors")
    s.works("embed", CLIP, "photos/", "--shard", 5, "-o", "shards.safetensors")
    for dtype in ("f16", "bf16"):
        s.works("embed", CLIP, "photos", "--dtype", dtype, "-o", f"to-{dtype}.safetensors")
    s.works("embed", CLIP, "photos", "--normalize", "-o", "unit.safetensors")
    s.works("embed", CLIP, paths[8], "photos/*/01.png", "photos/ant/deep", "-o", "mixed.safetensors")
    s.write("photos/list.tsv", "ant/01.png\tANT\nred_fox/02.png\tfox\nant/00.png\tANT\n")
    s.works("embed", CLIP, "--list", "photos/list.tsv", "-o", "list.safetensors")
    s.write("list.txt", lines(paths[3:12]))
    s.works("embed", CLIP, "--list", "list.txt", "-o", "list-without-classes.safetensors")
    photos(s, "some", PHOTOS[:3], 6, 9)
    whole = s.read("some/red_fox/03.png")
    s.write("some/red_fox/03.png", whole[:len(whole) // 2])
    s.write("some/017.Night_Owl/00.png", "no picture at all")
    s.works("embed", CLIP, "some", "--skip-bad", "--shard", 4, "-o", "skipped.safetensors")
    check(s.run("embed", CLIP, "some", "--shard", 4, "-o", "resumed.safetensors").status == 3, "a bad picture stops embed")
    s.write("some/017.Night_Owl/00.png", whole)
    check(s.run("embed", CLIP, "some", "--shard", 4, "-o", "resumed.safetensors").status == 3, "another one does as well")
    s.write("some/red_fox/03.png", whole)
    s.works("embed", CLIP, "some", "--shard", 4, "-o", "resumed.safetensors")


@session
def embed_text(s):
    s.write("names.txt", lines(sorted(PHOTOS)))
    s.write("spoken.txt", "017.Night_Owl\tNight Owl, owl\nn01440764_tench\ttench\nred_fox\tred fox, fox, Vulpes\nant\tant\n")
    s.write("prompts.txt", "a cat\nA photo of 2 dogs, isn't it?\n  déjà de\u0301ja\u0300 vu 猫 \U0001f431 İ\n"
            + "very " * 90 + "long\n" + "photothecating" * 40 + "\nthe <|endoftext|> of the\u00a0photo\n")
    s.write("templates.txt", "a {}.\nthe {} of {}s\n")
    named = ["--classes", "names.txt", "--names", "spoken.txt"]
    for model in ("clip-f32", "clip-f16", "clip-bf16", "clip-text"):
        folder = f"{MODELS}/{model}"
        s.works("embed-text", folder, *named, "-o", f"{model}.safetensors")
        s.works("embed-text", folder, *named, "--precision", "f32", "--templates", "templates.txt", "-o", f"{model}-exact.safetensors")
        s.works("embed-text", folder, "--prompts", "prompts.txt", "-o", f"{model}-prompts.safetensors")
    for name, files in tokenizers(s).items():
        copy_model(s, name, files)
        s.works("embed-text", name, "--prompts", "prompts.txt", "-o", f"{name}.safetensors")
    s.write("one.txt", "a photo of the cat\n")
    s.works("embed-text", CLIP, "--prompts", "one.txt", "-o", "one.safetensors")
    s.works("embed-text", CLIP, "--classes", "names.txt", "--templates", "builtin80", "-o", "plain.safetensors")
    s.works("embed-text", CLIP, *named, "--all-names", "-o", "all-names.safetensors")
    s.works("embed-text", CLIP, *named, "--all-names", "--prompt-rows", "-o", "rows.safetensors")
    s.works("embed-text", CLIP, *named, "--prompt-rows", "--dtype", "f16", "-o", "rows-f16.safetensors")


@session
def encoder(s):
    """Pictures where rows are expected."""
    pictures = "../embed/photos"
    s.works("fit", "../embed/clip-f32.safetensors", "-o", "model.safetensors")
    s.works("fit", "../embed/clip-f32.safetensors", "--text", "../embed_text/clip-f32.safetensors", "-o", "fused.safetensors")
    s.works("index", "../embed/clip-f32.safetensors", "--model", "model.safetensors", "-o", "gallery.safetensors")
    s.works("index", "../embed/unit.safetensors", "-o", "original.safetensors")
    s.works("transform", "model.safetensors", "../embed/clip-f32.safetensors", "-o", "mapped.safetensors")
    by = ["--encoder", CLIP]
    s.out("classify.tsv", "classify", "model.safetensors", pictures, *by)
    s.out("classify.json", "classify", "fused.safetensors", pictures, *by, "--json", "--top", 2)
    s.out("exact.tsv", "classify", "model.safetensors", pictures, *by, "--precision", "f32", "--raw")
    s.out("votes.tsv", "classify", "model.safetensors", pictures, *by, "--gallery", "gallery.safetensors", "-k", 3)
    s.out("zero-shot.tsv", "classify", "model.safetensors", f"{pictures}/*/03.png", *by, "--text", "../embed_text/clip-f32.safetensors")
    s.out("one.json", "classify", "model.safetensors", f"{pictures}/ant/02.png", *by, "--json")
    s.write("fox.txt", "red_fox\n")
    s.works("convert", "../embed/clip-f32.safetensors", "--only", "fox.txt", "-o", "fox.safetensors")
    s.write("bad/1.png", "nothing")
    s.write("bad/2.png", s.read(f"{pictures}/ant/01.png"))
    s.out("skipped.tsv", "classify", "model.safetensors", "bad", *by, "--skip-bad")
    s.out("search.tsv", "search", "gallery.safetensors", pictures, *by, "-k", 2)
    s.works("search", "original.safetensors", f"{pictures}/red_fox", *by, "-k", 5, "-o", "search.npy")
    s.works("search", "original.safetensors", f"{pictures}/red_fox", *by, "-k", 5, "-o", "search.safetensors")
    s.out("by-words.tsv", "search", "original.safetensors", "../embed_text/clip-f32-prompts.safetensors", "-k", 3)


@session
def quickstart(s):
    pictures = "../embed/photos"
    s.works("quickstart", pictures, "--encoder", CLIP, "-o", "names")
    s.works("quickstart", pictures, "--encoder", CLIP, "--no-text", "-o", "pictures")
    s.works("quickstart", pictures, "--encoder", f"{MODELS}/clip-vision", "-o", "vision")
    s.works("quickstart", pictures, "--encoder", CLIP, "--precision", "f32", "--templates", "../embed_text/templates.txt", "-o", "exact")
    photos(s, "own", PHOTOS, 5, 11)
    s.write("own/ant/00.png", "no picture")
    s.works("quickstart", "own", "--encoder", f"{MODELS}/clip-bf16", "--skip-bad")


# --- descriptions ---------------------------------------------------------------------------------


@session
def info(s):
    for name, files in {
            "world": [TRAIN, TEXT, "../world/train-f16.safetensors"],
            "convert": ["../convert/xf2.npy", "../convert/y4.npy", "../convert/y.txt", "../convert/x.fvecs", "../convert/x.fbin",
                        "../convert/in-BF16.safetensors", "../convert/gaps.safetensors", "../convert/bare.safetensors"],
            "stats": ["../stats/plain.safetensors", "../stats/exponent.safetensors"],
            "fit": [MODEL, RAW, FUSED, "../fit/centred.safetensors", "../fit/numbers.safetensors", "../add_class/fused-text.safetensors"],
            "index": [GALLERY, "../index/inner.safetensors", "../index/bare.safetensors", "../index/not-normalized.safetensors"],
            "search": ["../search/cosine.safetensors", "../search/cosine.npy", "../search/cosine_scores.npy"],
            "embed": ["../embed/clip-f32.safetensors", "../embed/mixed.safetensors", "../embed_text/rows-f16.safetensors"]}.items():
        s.out(f"{name}.json", "info", "--json", *files)


SHAPE = re.compile(r"<(?:text|path|line|circle|rect|polyline|polygon)\b[^>]*>")
PLACE = re.compile(r'\b(?:d|points|x|y|x1|y1|x2|y2|cx|cy|r|width|height)="[^"]*"')
CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)


def figures(page):
    """Where the shapes and words of a page's figures are, and the numbers in its tables, without the prose."""
    found = []
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        found += [" ".join(PLACE.findall(shape)) for shape in SHAPE.findall(svg)]
    for cell in CELL.findall(page):
        found.append(" ".join(re.findall(r"\d[\d.,]*", re.sub(r"<svg.*?</svg>|<[^>]*>", " ", cell, flags=re.DOTALL))))
    return lines(found)


@session
def report(s):
    truth = write_truth(s)
    for name, words in {
            "test": [TRAIN, "--test", TEST, "--text", TEXT, "--shots", "1,3", "--seeds", 2],
            "folds": [TRAIN, "--dims", "40,12", "-k", "1,3"],
            "folds-text": [TRAIN, "--text", TEXT, "--fuse", "0.5"],
            "uneven": ["../uneven/x.safetensors", "--test", "../uneven/rest.safetensors", "--one-se"],
            "model": [TRAIN, "--test", TEST, "--model", MODEL, *truth["clean"]],
            "fused": [TRAIN, "--test", TEST, "--model", FUSED],
            "not-normalized": [TRAIN, "--test", TEST, "--no-normalize", "--lambda", "0.3x", "--dim", 20]}.items():
        s.works("report", *words, "-o", f"{name}.html")
        found = figures(s.read(f"{name}.html").decode())
        check(len(found) > 1000, f"{name}.html has next to no figures: {found}")
        s.store(f"{name}.txt", found)
    for name in ("names", "pictures"):
        s.store(f"quickstart-{name}.txt", figures(s.read(f"../quickstart/{name}/report.html").decode()))


# --- the run --------------------------------------------------------------------------------------


def run_sessions(program, root, more):
    """{SESSION/FILE: hash}, and the failures by session."""
    found, wrong = {}, {}
    for name in ("models", "images"):
        os.symlink(os.path.join(HERE, "golden", name), os.path.join(root, name))
    for function in SESSIONS:
        s = Session(program, os.path.join(root, function.__name__), more)
        try:
            function(s)
        except (Failed, OSError, subprocess.SubprocessError) as reason:
            wrong[function.__name__] = reason
        found |= s.hashes()
    return found, wrong


def read_list():
    with open(LIST, encoding="utf-8") as file:
        return {name: value for value, name in (line.rstrip("\n").split("  ", 1) for line in file)}


def differences(found, wanted):
    """Lines about files that differ."""
    for name in sorted(found.keys() | wanted.keys()):
        if name not in found:
            yield f"{name}: was not made"
        elif name not in wanted:
            yield f"{name}: is not in {os.path.basename(LIST)}"
        elif found[name] != wanted[name]:
            yield f"{name}: has other bytes"


def main():
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = sys.argv[at + 1:]
    parser = argparse.ArgumentParser(usage="bytes.py KOOFU [--write] [--keep FOLDER] [-- OPTION...]")
    parser.add_argument("koofu")
    parser.add_argument("--write", action="store_true", help="store the hashes in tests/bytes.sha256")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the files of the first run here; a new folder")
    given = parser.parse_args(sys.argv[1:at])
    program = os.path.abspath(given.koofu)
    if not os.access(program, os.X_OK):
        parser.error(f"{given.koofu}: cannot be run")
    if given.keep and os.path.exists(given.keep):
        parser.error(f"{given.keep}: exists already")
    wanted = None if given.write else read_list()
    passed = failed = 0
    for i, more in enumerate([options] if options else RUNS):
        with tempfile.TemporaryDirectory(prefix="koofu-bytes-") as folder:
            root = given.keep if given.keep and i == 0 else os.path.join(folder, *PLACES[:i])
            os.makedirs(root, exist_ok=True)
            found, wrong = run_sessions(program, root, more)
        wanted = found if wanted is None else wanted
        bad = [*(f"{name}: {reason}" for name, reason in wrong.items()), *differences(found, wanted)]
        for line in bad:
            print(f"FAILED {line}" + (f" (with {' '.join(more)})" if more else ""))
        failed += len(bad)
        passed += sum(wanted.get(name) == value for name, value in found.items())
    if given.write and not failed:
        with open(LIST, "w", encoding="utf-8") as file:
            file.write(lines(f"{wanted[name]}  {name}" for name in sorted(wanted)))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
