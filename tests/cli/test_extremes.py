"""Files with a correct checksum whose numbers are as large or small as the rules of docs/formats.md allow: every command that
reads them works or refuses, and 'nan' never leaves the program."""

import re
import struct

from files import data_set, npy, reseal, world
from harness import check, equal, test

CODES = {"F64": "d", "F32": "f", "I64": "q"}


def changed(data, tensors=None, metadata=None):
    """The file with every element of some tensors multiplied by a number, or set to it (a list of one), and with other
    metadata."""
    length = struct.unpack("<Q", data[:8])[0]
    header, body = data[8:8 + length].decode(), bytearray(data[8 + length:])
    for name, change in (tensors or {}).items():
        dtype, begin, end = re.search(rf'"{name}":{{"dtype":"(\w+)","shape":\[[0-9,]*\],"data_offsets":\[(\d+),(\d+)\]', header).groups()
        code, begin, end = CODES[dtype], int(begin), int(end)
        values = struct.unpack(f"<{(end - begin) // struct.calcsize(code)}{code}", body[begin:end])
        most = 3e38 if code == "f" else 1e308
        values = [(change[0] if v else 0) if isinstance(change, list) else max(-most, min(most, v * change)) for v in values]
        body[begin:end] = struct.pack(f"<{len(values)}{code}", *values)
    for key, value in (metadata or {}).items():
        header, n = re.subn(rf'"{key}":"[^"]*"', f'"{key}":"{value}"', header)
        equal(n, 1, f"metadata {key}")
    return reseal(struct.pack("<Q", len(header)) + header.encode() + bytes(body))


def no_nan(box, *words):
    """Runs a command that may work or refuse; no number of its output, and of the pages it writes, is a NaN."""
    result = box.run(*words)
    check(result.status in (0, 2, 3, 5), f"status {result.status} of {result}")
    pages = [box.read(name).decode() for name in ("page.html", "out.tsv", "wrong.tsv") if name in box.files()]
    for text in (result.out, result.err, *pages):
        check(not re.search(r"(?<![a-zA-Z])-?nan(?![a-zA-Z])", text, re.I), f"a NaN in the output of {words}: {text[:2000]}")
    return result


MODELS = [
    {"tensors": {"transform": 1e190}},
    {"tensors": {"transform": 1e-250}},
    {"tensors": {"transform": 1e-320}},
    {"tensors": {"class_means": 1e300}},
    {"tensors": {"prototype_lengths": 1e308}},
    {"tensors": {"prototype_lengths": [5e-324]}},
    {"tensors": {"signal": [1e308]}},
    {"tensors": {"signal": [0.0]}},
    {"tensors": {"between_eigenvalues": [1e308]}},
    {"tensors": {"between_eigenvalues": [0.0]}},
    {"tensors": {"counts": [1 << 40]}},
    {"tensors": {"mean": [0.0]}},
    {"tensors": {"within_eigenvalues": [1e308]}, "metadata": {"mean_eigenvalue": "1e308"}},
    {"tensors": {"within_eigenvalues": [0.0]}, "metadata": {"mean_eigenvalue": "0", "within_rank": "0"}},
    {"metadata": {"lambda": "1.7e308"}},
    {"metadata": {"lambda": "0"}},
    {"metadata": {"rows": "1099511627776"}},
    {"metadata": {"temperature": "1.7e308"}},
    {"metadata": {"temperature": "5e-324"}},
    {"metadata": {"reject": "1"}},
]


def use_model(box, name):
    done = 0
    for words in (["info", name], ["info", "--json", name], ["eval", name, "x.safetensors"], ["eval", name, "x.safetensors", "--json"], ["eval", name, "x.safetensors", "--errors", "--wrong", "wrong.tsv"],
                  ["eval", name, "x.safetensors", "--metric", "euclidean"],
                  ["classify", name, "q.npy", "--top", "2"], ["classify", name, "q.npy", "--probabilities", "--json"],
                  ["classify", name, "q.npy", "--metric", "euclidean"],
                  ["compare", name, "good.safetensors", "x.safetensors"], ["report", "x.safetensors", "--model", name, "-o", "page.html"],
                  ["transform", name, "x.safetensors", "-o", "t.npy"],
                  ["add-class", name, "more", "q.npy", "-o", "larger.safetensors"],
                  ["index", "x.safetensors", "--model", name, "-o", "g.safetensors"], ["search", "g.safetensors", "q.npy", "-k", "2"]):
        done += no_nan(box, *words).status == 0
    if "larger.safetensors" in box.files():
        box.works("info", "larger.safetensors")  # what was written can be read
    return done


@test
def models(box):
    box.write("x.safetensors", data_set(n=60, names=["a", "b", "c"]))
    box.write("q.npy", npy(world(5, seed=1)[0]))
    box.works("fit", "x.safetensors", "--reject", "0.9", "-o", "good.safetensors")
    good = box.read("good.safetensors")
    equal(changed(good), good, "nothing changed")
    everything = use_model(box, "good.safetensors")
    check(everything == 15, f"only {everything} commands work on a good model")
    for change in MODELS:
        box.write("m.safetensors", changed(good, **change))
        check(box.run("info", "m.safetensors").status == 0, f"{change} breaks no rule")
        use_model(box, "m.safetensors")


@test
def with_text(box):
    box.write("x.safetensors", data_set(n=60, names=["a", "b", "c"]))
    box.write("q.npy", npy(world(5, seed=1)[0]))
    box.write("t.safetensors", data_set(n=3, seed=4, names=["a", "b", "d"]))
    box.works("fit", "x.safetensors", "--text", "t.safetensors", "--fuse", "0.5", "-o", "good.safetensors")
    good = box.read("good.safetensors")
    for change in ({"metadata": {"alpha": "1e6"}}, {"metadata": {"alpha": "0"}}, {"metadata": {"alpha": "5e-324"}},
                   {"tensors": {"transform": 1e190}}, {"tensors": {"class_means": 1e300}}):
        box.write("m.safetensors", changed(good, **change))
        check(use_model(box, "m.safetensors") >= 8, f"{change} should leave something that works")


@test
def statistics(box):
    box.write("x.safetensors", data_set(n=60, names=["a", "b", "c"]))
    for raw in ([], ["--no-normalize"]):
        box.works("stats", "x.safetensors", *raw, "-o", "good.safetensors")
        good = box.read("good.safetensors")
        for change in ({"metadata": {"exponent": "200"}}, {"metadata": {"exponent": "-200"}}, {"tensors": {"class_sums": [0]}}):
            for name in ("s.safetensors", "copy.safetensors"):
                box.write(name, changed(good, **change))
            for words in (["info", "s.safetensors"], ["fit", "s.safetensors", "-o", "m.safetensors"],
                          ["fit", "s.safetensors", "--method", "paper", "--lambda", "1e-300", "-o", "m.safetensors"],
                          ["merge", "s.safetensors", "copy.safetensors", "-o", "two.safetensors"]):
                if no_nan(box, *words).status == 0 and words[-2] == "-o":
                    box.works("info", words[-1])


@test
def galleries(box):
    rows, labels = world(40)
    box.write("x.safetensors", data_set(n=40, names=["a", "b", "c"]))
    box.write("q.npy", npy(rows[:3]))
    for metric in ("euclidean", "inner"):
        box.works("index", "x.safetensors", "--metric", metric, "-o", "good.safetensors")
        for factor in (1e300, 1e-44, [0.0]):
            box.write("g.safetensors", changed(box.read("good.safetensors"), {"embeddings": factor}))
            for words in (["info", "g.safetensors"], ["search", "g.safetensors", "q.npy", "-k", "3"],
                          ["search", "g.safetensors", "q.npy", "-k", "3", "--json"],
                          ["eval", "x.safetensors", "--gallery", "g.safetensors", "-k", "3"], ["stats", "g.safetensors", "-o", "s.safetensors"]):
                no_nan(box, *words)
