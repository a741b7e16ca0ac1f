"""What the commands do when all is well, as a user sees it."""

import json
import os
import pty
import random
import re
import resource
import struct
import subprocess

from harness import BAD_DATA, IO, USAGE, Skipped, check, equal, test
from files import data_set, differences, f32, fbin, fvecs, i32, npy, safetensors, small_bin, world


def with_model(box, **more):
    box.write("x.safetensors", data_set(**more))
    box.works("fit", "x.safetensors", "-o", "m.safetensors", "-q")


@test
def two_commands(box):
    box.works("synth", "--classes", 20, "--dim", 32, "-o", "train.safetensors")
    box.works("synth", "--classes", 20, "--dim", 32, "--split", 1, "-o", "test.safetensors", "--text", "text.safetensors")
    result = box.works("fit", "train.safetensors", "--dim", 16, "-o", "m.safetensors")
    equal(result.out, "", "fit has no result but the file")
    for text in ("320 rows", "20 classes", "16 of 32 dimensions", "by leave-one-out", "standard error"):
        check(text in result.err, f"{text} is not in the summary: {result}")
    result = box.works("eval", "m.safetensors", "test.safetensors")
    check(result.out.splitlines()[1].startswith("raw "), f"raw line: {result}")
    check(result.out.splitlines()[2].startswith("Koo-Fu "), f"Koo-Fu line: {result}")
    equal(result.err, "", "nothing on stderr in a pipe")


@test
def quiet_is_silent(box):
    box.write("x.safetensors", data_set())
    for words in (["stats", "x.safetensors", "-o", "s.safetensors"], ["merge", "s.safetensors", "-o", "t.safetensors"],
                  ["fit", "s.safetensors", "-o", "m.safetensors"], ["convert", "x.safetensors", "-o", "y.safetensors"],
                  ["transform", "m.safetensors", "x.safetensors", "-o", "z.npy"],
                  ["add-class", "m.safetensors", "new", "x.safetensors", "-o", "n.safetensors"],
                  ["synth", "--classes", 3, "--dim", 8, "-o", "w.safetensors"],
                  ["classify", "m.safetensors", "x.safetensors", "-o", "c.tsv"],
                  ["index", "x.safetensors", "-o", "g.safetensors"],
                  ["search", "g.safetensors", "x.safetensors", "-o", "near.npy"]):
        result = box.works(*words, "-q")
        equal((result.out, result.err), ("", ""), f"{words[0]} -q")


@test
def verbose_says_more(box):
    box.write("x.safetensors", data_set())
    result = box.works("stats", "x.safetensors", "-o", "s.safetensors", "-v", "--isa", "plain")
    check("plain" in result.err and re.search(r"total \d+\.\d+ s", result.err), f"-v: {result}")


def info(box, name):
    return json.loads(box.works("info", "--json", name).out)


@test
def info_of_every_kind(box):
    rows, labels = world()
    box.write("x.npy", npy(rows))
    box.write("x.fvecs", fvecs(rows))
    box.write("x.fbin", fbin(rows))
    box.write("y.npy", npy(labels, "<i4"))
    box.write("y.txt", "".join(f"{k}\n" for k in labels))
    box.write("x.safetensors", data_set())
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.works("fit", "s.safetensors", "--dim", 4, "-o", "m.safetensors")
    for name in ("x.npy", "x.fvecs", "x.fbin"):
        about = info(box, name)
        equal((about["kind"], about["rows"], about["dim"]), ("embeddings", 60, 8), name)
    equal((info(box, "y.npy")["kind"], info(box, "y.npy")["rows"]), ("labels", 60), "y.npy")
    equal((info(box, "y.txt")["format"], info(box, "y.txt")["rows"]), ("text", 60), "y.txt")
    about = info(box, "x.safetensors")
    equal((about["kind"], about["rows"], about["dim"], about["classes"]), ("data set", 60, 8, 3), "data set")
    about = info(box, "s.safetensors")
    equal((about["kind"], about["rows"], about["normalized"], about["exponent"]), ("statistics", 60, True, 22), "statistics")
    about = info(box, "m.safetensors")
    equal((about["kind"], about["dim"], about["dim_out"], about["classes"]), ("model", 8, 4, 3), "model")
    check(about["lambda"] > 0 and about["tensors"] and about["metadata"], "model")
    equal(about["bytes"], os.path.getsize(box.path("m.safetensors")), "bytes")
    text = box.works("info", "m.safetensors", "x.npy").out
    check("m.safetensors: model" in text and "8 -> 4" in text and "x.npy: embeddings" in text, text)


@test
def bins_of_every_type(box):
    """Bytes and halves are the numbers they hold: the same rows as in f32."""
    rng = random.Random(3)
    for ending, code, low, high in (("f16bin", "e", -512, 511), ("u8bin", "B", 0, 255), ("i8bin", "b", -128, 127)):
        rows = [[rng.randint(low, high) for _ in range(5)] for _ in range(700)]
        rows[1][0], rows[1][1] = low, high
        box.write(f"x.{ending}", small_bin(rows, code))
        box.write("x.fbin", fbin(rows))
        about = info(box, f"x.{ending}")
        equal((about["format"], about["rows"], about["dim"]), (ending, 700, 5), ending)
        box.works("convert", f"x.{ending}", "-o", "a.safetensors")
        box.works("convert", "x.fbin", "-o", "b.safetensors")
        equal(box.read("a.safetensors"), box.read("b.safetensors"), ending)


@test
def info_goes_on_after_a_bad_file(box):
    box.write("x.safetensors", data_set())
    box.write("bad.npy", "nothing")
    result = box.run("info", "bad.npy", "x.safetensors", "--json")
    equal(result.status, BAD_DATA, "status")
    equal(json.loads(result.out)["path"], "x.safetensors", "the sound file")
    check("bad.npy" in result.err and result.err.count("\n") == 1, f"{result}")


@test
def names_do_not_steer_the_terminal(box):
    evil = "a\x1b[31m\n\t\x7fz"
    box.write(f"{evil}.safetensors", safetensors({f"e{evil}": ("F32", [60, 8], f32(world()[0])),
                                                  "labels": ("I32", [60], i32(world()[1]))}, {evil: evil}))
    box.write("m/x.safetensors", data_set())
    data = f"{evil}.safetensors"
    said = [box.works("info", data).out.replace("\n", ""),
            box.works("stats", data, "-o", f"{evil}s.safetensors").err[:-1],
            box.works("merge", f"{evil}s.safetensors", "-o", f"{evil}t.safetensors").err[:-1],
            box.works("fit", f"{evil}s.safetensors", "-o", f"{evil}m.safetensors").err.replace("\n", ""),
            box.works("convert", data, "-o", f"{evil}c.safetensors").err[:-1],
            box.works("index", data, "-o", f"{evil}g.safetensors").err[:-1],
            box.works("search", f"{evil}g.safetensors", data, "-o", f"{evil}.tsv").err[:-1],
            box.works("synth", "--classes", 3, "--dim", 8, "-o", f"{evil}w.safetensors").err[:-1]]
    os.mkdir(box.path(f"{evil}.folder"))
    for status, words in ((USAGE, ["stats", data, "-o", data]), (IO, ["stats", data, "-o", f"{evil}.folder"]),
                          (IO, ["stats", data, "-o", f"{evil}/absent"]), (USAGE, ["convert", data, "-o", f"{evil}.npy"]),
                          (USAGE, ["fit", f"{evil}s.safetensors", "--skip-bad", "-o", "o.safetensors"]),
                          (USAGE, [evil]), (USAGE, ["demo", evil]), (USAGE, ["fit", f"--{evil}"]),
                          (USAGE, ["fit", "x", "--dim", evil]), (IO, ["info", f"{evil}.npy"]),
                          (BAD_DATA, ["search", data, data]), (USAGE, ["search", f"{evil}g.safetensors"]),
                          (BAD_DATA, ["merge", "m/x.safetensors", "-o", f"{evil}x.safetensors"])):
        said.append(box.refuses(status, *words).err[:-1])
    for text in said:
        check(not any(c < " " or c == "\x7f" for c in text), f"control characters in {text!r}")
    check("wrote a\\x1b[31m\\n\\t\\x7fzs.safetensors: " in said[1], f"the name is there: {said[1]!r}")


@test
def more_shards_than_files_may_be_open(box):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 400:
        raise Skipped("so many files cannot be open at all")
    for i in range(100):
        box.write(f"shards/{i:03}.safetensors", data_set(n=6, dim=4, seed=i))
    box.works("stats", "shards", "-o", "s.safetensors", limits={resource.RLIMIT_NOFILE: 50})
    equal(info(box, "s.safetensors")["rows"], 600, "rows")


@test
def classify_tsv(box):
    with_model(box, names=["plain", "tab\there", "back\\slash"])
    lines = box.works("classify", "m.safetensors", "x.safetensors").out.split("\n")
    equal(lines[0], "row\tclass1\tcosine1\tclass2\tcosine2\tclass3\tcosine3\ttruth", "header")
    equal(lines.pop(), "", "the end of the last line")
    equal(len(lines), 61, "lines")
    names = {"plain", "tab\\there", "back\\\\slash"}
    for number, line in enumerate(lines[1:]):
        row, *pairs, truth = line.split("\t")
        equal(int(row), number, "row number")
        equal(truth, ["plain", "tab\\there", "back\\\\slash"][number % 3], "truth")
        equal(set(pairs[0::2]), names, "classes")
        scores = [float(s) for s in pairs[1::2]]
        check(scores == sorted(scores, reverse=True), f"cosines fall: {line}")
    top = box.works("classify", "m.safetensors", "x.safetensors", "--top", 1, "--metric", "euclidean").out
    equal(top.split("\n")[0], "row\tclass1\tdistance1\ttruth", "header with --top 1")


@test
def classify_json(box):
    with_model(box, names=["plain", "quote\"\x01", "\u00fcber"])
    result = json.loads(box.works("classify", "m.safetensors", "x.safetensors", "--json").out)
    lines = result["answers"]
    right = sum(line["classes"][0] == line["truth"] for line in lines)
    equal([result[name] for name in ("rows", "n_bad", "n_labelled", "right")], [60, 0, 60, right], "counts")
    equal([line["row"] for line in lines], list(range(60)), "rows")
    equal(set(lines[0]["classes"]), {"plain", "quote\"\x01", "\u00fcber"}, "classes")
    check(all(len(line["scores"]) == 3 for line in lines), "scores")


@test
def classify_without_names_and_to_a_file(box):
    rows, labels = world()
    box.write("x.npy", npy(rows))
    box.write("y.npy", npy(labels, "<i8"))
    box.works("fit", "x.npy", "--labels", "y.npy", "-o", "m.safetensors")
    out = box.works("classify", "m.safetensors", "x.npy", "--top", 1).out
    answers = [int(line.split("\t")[1]) for line in out.splitlines()[1:]]
    check(sum(a == b for a, b in zip(answers, labels)) > 50, "numbers as classes, mostly right")
    before = box.files()
    equal(box.works("classify", "m.safetensors", "x.npy", "--top", 1, "-o", "c.tsv").out, "", "stdout with -o")
    equal(box.files() - before, {"c.tsv"}, "files")
    equal(box.read("c.tsv").decode(), out, "the file")
    equal(box.works("classify", "m.safetensors", "x.npy", "--top", 1, "-o", "-").out, out, "-o -")


@test
def classify_skips_bad_rows(box):
    with_model(box)
    rows, _ = world()
    rows[3], rows[59] = [0.0] * 8, [float("nan")] * 8
    box.write("bad.npy", npy(rows))
    box.refuses(BAD_DATA, "classify", "m.safetensors", "bad.npy", "-o", "c.tsv", naming=["bad.npy", "row 3"])
    result = box.works("classify", "m.safetensors", "bad.npy", "--skip-bad", "--top", 1)
    numbers = [int(line.split("\t")[0]) for line in result.out.splitlines()[1:]]
    equal(numbers, [i for i in range(60) if i not in (3, 59)], "rows")
    check("2 bad rows" in result.err, f"{result}")


@test
def eval_counts_what_it_leaves_out(box):
    with_model(box)
    rows, labels = world(n=70)
    rows[69] = [float("inf")] * 8
    names = [f"class {k}" for k in range(3)] + ["stranger", "alien"]
    for i in range(60, 64):
        labels[i] = -1
    for i in range(64, 69):
        labels[i] = 3 + i % 2
    box.write("t.npy", npy(rows))
    box.write("t.txt", "".join(f"{names[k] if k >= 0 else ''}\n" for k in labels))
    words = ["eval", "m.safetensors", "t.npy", "--labels", "t.txt", "--skip-bad"]
    result = json.loads(box.works(*words, "--json").out)
    equal([result[k] for k in ("rows", "n", "n_unlabelled", "n_absent", "absent_classes", "n_bad")], [70, 60, 4, 5, 2, 1],
          "counts")
    for key in ("top1", "top5", "raw_top1", "raw_top5"):
        check(0 <= result[key + "_low"] <= result[key] <= result[key + "_high"] <= 1, f"{key} and its interval")
    equal((result["top5"], result["metric"], result["dim_in"], result["dim_out"]), (1, "cosine", 8, 8), "the rest")
    text = box.works(*words).out
    for line in ("4 without a label", "5 of 2 classes that the model does not have", "1 that is NaN"):
        check(line in text, f"{line!r} is not in {text}")
    raw = json.loads(box.works(*words, "--json", "--raw").out)
    equal((raw["top1"], raw["raw_top1"]), (None, result["raw_top1"]), "--raw")
    box.write("two.txt", "class 0\nclass 1\n")
    some = json.loads(box.works(*words, "--json", "--classes", "two.txt").out)
    equal((some["n"], some["n_unlabelled"]), (40, 29), "with --classes")


@test
def label_files_by_pattern(box):
    rows, labels = world()
    for i in range(3):
        box.write(f"x{i}.npy", npy(rows[20 * i:20 * i + 20]))
        box.write(f"y{i}.npy", npy(labels[20 * i:20 * i + 20], "<i4"))
    box.works("stats", "x*.npy", "--labels", "y*.npy", "-o", "a.safetensors")
    box.works("stats", "x0.npy", "x1.npy", "x2.npy", "--labels=y0.npy", "--labels", "y1.npy", "--labels=y2.npy", "-o",
              "b.safetensors")
    equal(box.read("a.safetensors"), box.read("b.safetensors"), "pattern and list")
    box.refuses(USAGE, "stats", "x*.npy", "--labels", "y0.npy", "--labels", "y1.npy", "-o", "c.safetensors", naming="label")


@test
def fit_options(box):
    box.write("x.safetensors", data_set())
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.works("fit", "x.safetensors", "-o", "a.safetensors", "--lambda", "0.5")
    box.works("fit", "s.safetensors", "-o", "b.safetensors", "--lambda=0.5")
    differ = differences(box.read("a.safetensors"), box.read("b.safetensors"))
    equal(differ, {"temperature", "checksum"}, "from data and from statistics, which have no temperature")
    box.works("fit", "x.safetensors", "-o", "e.safetensors", "--lambda", "0.5", "--method", "paper")
    box.works("fit", "s.safetensors", "-o", "f.safetensors", "--lambda", "0.5", "--method", "paper")
    equal(box.read("e.safetensors"), box.read("f.safetensors"), "the paper's method, from data and from statistics")
    for name, method in (("a.safetensors", "shrunk"), ("b.safetensors", "shrunk"), ("f.safetensors", "paper")):
        equal(info(box, name)["method"], method, "the method in JSON")
        check(f"\n  method       {method}\n" in box.works("info", name).out, "the method of the model")
    equal("method" in info(box, "s.safetensors"), False, "statistics are of no method")
    equal(info(box, "a.safetensors")["lambda"], 0.5, "lambda")
    box.works("fit", "s.safetensors", "-o", "c.safetensors", "--lambda=0.5", "--between", "s.safetensors")
    box.works("fit", "s.safetensors", "-o", "d.safetensors", "--centre", "mean", "--dim", 2, "--lambda", "1x")
    equal(info(box, "d.safetensors")["dim_out"], 2, "dim")


@test
def add_class(box):
    with_model(box)
    box.write("new.npy", npy([[9.0, 1, 1, 1, 1, 1, 1, -9], [9.0, 1, 1, 1, 1, 1, 1, -8]]))
    box.works("add-class", "m.safetensors", "newcomer", "new.npy", "-o", "m2.safetensors")
    equal(info(box, "m2.safetensors")["classes"], 4, "classes")
    out = box.works("classify", "m2.safetensors", "new.npy", "--top", 1).out
    equal([line.split("\t")[1] for line in out.splitlines()[1:]], ["newcomer"] * 2, "answers")
    box.refuses(USAGE, "add-class", "m2.safetensors", "newcomer", "new.npy", "-o", "m3.safetensors", naming="newcomer")


@test
def transform_to_both_formats(box):
    with_model(box)
    box.works("transform", "m.safetensors", "x.safetensors", "-o", "z.npy")
    box.works("transform", "m.safetensors", "x.safetensors", "-o", "z.safetensors")
    npy_rows, st_rows = box.read("z.npy")[-60 * 8 * 4:], box.read("z.safetensors")
    check(npy_rows in st_rows, "the same rows in both formats")
    values = struct.unpack("<480f", npy_rows)
    check(all(abs(sum(v * v for v in values[i:i + 8]) - 1) < 1e-5 for i in range(0, 480, 8)), "unit length")
    equal(info(box, "z.safetensors")["classes"], 3, "labels come along")
    box.works("transform", "m.safetensors", "x.safetensors", "-o", "h.npy", "--dtype", "f16", "--no-normalize")
    equal(info(box, "h.npy")["tensors"][0]["dtype"] if info(box, "h.npy")["tensors"] else "<f2", "<f2", "dtype")


@test
def demo_is_small_and_reproducible(box):
    words = ["demo", "--classes", 12, "--dim", 64, "--per-class", 4, "--test-per-class", 3]
    first = box.works(*words).out
    equal(box.works(*words, "--threads", 1, "--isa", "plain").out, first, "the same figures")
    for text in ("synthetic", "raw", "Koo-Fu", "0.03x", "koofu fit", "koofu eval"):
        check(text in first, f"{text!r} is not in the demo")
    quiet = box.works(*words, "-q")
    equal((quiet.out, quiet.err), (first, ""), "the table is the result, which -q does not touch")
    equal(box.files(), set(), "files")


@test
def progress_on_a_terminal_only(box):
    box.write("x.safetensors", data_set())
    try:
        main, other = pty.openpty()
    except OSError as reason:  # a chroot without /dev/pts
        raise Skipped(str(reason))
    process = subprocess.Popen(box.command("demo", "--classes", 50), cwd=box.folder, env=box.environment(),
                               stdout=subprocess.DEVNULL, stderr=other)
    os.close(other)
    shown = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(main)
    equal(process.wait(), 0, "status")
    check(b"%" in shown, f"no progress on a terminal: {shown!r}")
    check(shown.endswith(b"\r\x1b[K"), f"the line is not cleared at the end: {shown[-40:]!r}")


@test
def labels_inside_or_beside(box):
    rows, labels = world()
    box.write("named.safetensors", safetensors({"vectors": ("F32", [60, 8], f32(rows)), "targets": ("I32", [60], i32(labels))}))
    box.works("stats", "named.safetensors", "--tensor", "vectors", "--label-tensor", "targets", "-o", "s.safetensors")
    equal(info(box, "s.safetensors")["rows"], 60, "rows")


@test
def rows_of_some_classes(box):
    """--only: statistics and galleries of parts make up those of the whole."""
    box.write("x.safetensors", data_set(n=60))
    box.write("one.txt", "class 1\n")
    box.write("others.txt", "class 2\nclass 0\nno such class\n")
    box.works("stats", "x.safetensors", "-o", "all.safetensors", "-q")
    for name in ("one", "others"):
        box.works("stats", "x.safetensors", "--only", f"{name}.txt", "-o", f"{name}.safetensors", "-q")
    box.works("merge", "one.safetensors", "others.safetensors", "-o", "merged.safetensors", "-q")
    equal(box.read("merged.safetensors"), box.read("all.safetensors"), "the bytes of both parts together")
    os.symlink("one.safetensors", box.path("link.safetensors"))
    box.refuses(USAGE, "merge", "one.safetensors", "others.safetensors", "link.safetensors", "-o", "twice.safetensors",
                naming=["link.safetensors", "given twice"])
    box.works("index", "x.safetensors", "--only", "others.txt", "-o", "g.safetensors", "-q")
    labels = box.works("search", "g.safetensors", "x.safetensors", "-k", 1).out.splitlines()[1:]
    equal({line.split("\t")[2] for line in labels}, {"class 0", "class 2"}, "labels in the gallery")
    box.write("ids.txt", "".join(f"{i}\n" for i in range(60)))
    box.refuses(USAGE, "index", "x.safetensors", "--only", "one.txt", "--ids", "ids.txt", "-o", "h.safetensors")
    box.refuses(USAGE, "fit", "all.safetensors", "--only", "one.txt", "-o", "m.safetensors")
