"""Models with names and pictures."""

import json
import random
import re

from harness import BAD_DATA, USAGE, check, equal, test
from files import differences, npy


def make_data(box):
    box.works("synth", "--classes", 20, "--dim", 32, "--per-class", 5, "-o", "train.safetensors", "--text", "text.safetensors", "-q")
    box.works("synth", "--classes", 20, "--dim", 32, "--per-class", 9, "--split", 1, "-o", "test.safetensors", "-q")


@test
def fused_by_default(box):
    make_data(box)
    said = box.works("fit", "train.safetensors", "--text", "text.safetensors", "-o", "f.safetensors").err
    found = re.search(r"lambda (\S+)x and alpha (\S+) by leave-one-out likelihood: text and prototypes together are right for (\S+) % "
                      r"of 100 rows left out in turn \(standard error \S+ points\), text alone for (\S+) %", said)
    check(found is not None and float(found.group(3)) >= float(found.group(4)), said)
    out = box.works("eval", "f.safetensors", "test.safetensors").out
    equal([line.split()[0] for line in out.splitlines()[1:5]], ["raw", "Koo-Fu", "text", "fused"], "lines of eval")
    about = json.loads(box.works("eval", "f.safetensors", "test.safetensors", "--json").out)
    equal(about["alpha"], float(found.group(2)), "alpha")
    zero = json.loads(box.works("eval", "f.safetensors", "test.safetensors", "--text", "text.safetensors", "--json").out)
    equal(about["model_text_top1"], zero["raw_text_top1"], "text of the model and the text itself")
    for part, top1 in (("images", about["prototypes_top1"]), ("text", about["model_text_top1"]), ("fused", about["top1"])):
        rows = box.works("classify", "f.safetensors", "test.safetensors", "--part", part, "--top", 1).out.splitlines()[1:]
        right = sum(int(line.split("\t")[1][1:]) == i % 20 for i, line in enumerate(rows))
        equal(right / len(rows), top1, f"classify --part {part}")
    again = box.works("classify", "f.safetensors", "test.safetensors").out
    check(again.startswith("row\tclass1\tscore1"), again[:60])
    equal(again, box.works("classify", "f.safetensors", "test.safetensors", "--part", "fused").out, "fused is the default")
    sides = [line.split()[-2] for line in box.works("compare", "f.safetensors", "f.safetensors", "test.safetensors", "--raw", "b").out.splitlines()[1:3]]
    equal(sides, ["fused", "raw"], "the spaces that compare names")


@test
def chosen_or_given(box):
    make_data(box)
    box.works("fit", "train.safetensors", "--text", "text.safetensors", "--fuse", "0.25", "--lambda", "0.3x", "-o", "g.safetensors", "-q")
    about = json.loads(box.works("eval", "g.safetensors", "test.safetensors", "--json").out)
    equal(about["alpha"], 0.25, "alpha")
    said = box.works("fit", "train.safetensors", "--text", "text.safetensors", "--lambda", "0.3x", "-o", "h.safetensors").err
    check("lambda 0.3x and alpha" in said, said)
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    box.works("fit", "s.safetensors", "--text", "text.safetensors", "--fuse", "0.25", "-o", "i.safetensors", "-q")
    differ = differences(box.read("i.safetensors"), box.read("g.safetensors"))
    equal(differ, {"temperature", "checksum"}, "from statistics, which have no temperature")
    given = ["--text", "text.safetensors", "--fuse", "0.25", "--lambda", "0.3x", "--method", "paper", "-q"]
    box.works("fit", "train.safetensors", *given, "-o", "g.safetensors")
    box.works("fit", "s.safetensors", *given, "-o", "i.safetensors")
    equal(box.read("i.safetensors") == box.read("g.safetensors"), True, "the paper's method, from statistics")


@test
def the_same_fusion_everywhere(box):
    make_data(box)
    wanted = None
    for threads, isa in ((1, "plain"), (2, "auto"), (5, "auto")):
        box.works("fit", "train.safetensors", "--text", "text.safetensors", "--threads", threads, "--isa", isa, "-o", "f.safetensors", "-q")
        wanted = wanted or box.read("f.safetensors")
        equal(box.read("f.safetensors") == wanted, True, f"{threads} threads, {isa}")


@test
def one_row_each(box):
    box.works("synth", "--classes", 20, "--dim", 32, "--per-class", 1, "-o", "train.safetensors", "--text", "text.safetensors", "-q")
    said = box.works("fit", "train.safetensors", "--text", "text.safetensors", "-o", "f.safetensors").err
    check("alpha 0.03: no class has two rows" in said, said)


@test
def classes_by_name_alone(box):
    make_data(box)
    box.works("fit", "train.safetensors", "--text", "text.safetensors", "-o", "f.safetensors", "-q")
    box.works("convert", "text.safetensors", "-o", "rows.safetensors", "-q")
    said = box.works("add-class", "f.safetensors", "by name", "rows.safetensors", "--text", "-o", "g.safetensors").err
    check("21 classes, the new one from 20 rows of text" in said, said)
    rows = box.works("classify", "g.safetensors", "test.safetensors", "--top", 21).out.splitlines()[1:]
    check(all("by name" in row for row in rows), "the new class is not among the answers")
    box.works("add-class", "f.safetensors", "by rows", "test.safetensors", "-o", "h.safetensors", "-q")
    check("fused" in box.works("eval", "h.safetensors", "test.safetensors").out, "the model has lost its text")


@test
def fusing_refused(box):
    make_data(box)
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    text = ["--text", "text.safetensors"]
    for words, naming in ((["train.safetensors", "--fuse", "auto"], "--fuse needs --text"),
                          (["s.safetensors", *text], ["from the rows themselves, not from statistics", "--fuse"]),
                          (["train.safetensors", *text, "--fuse", "much"], "--fuse must be auto or a number"),
                          (["train.safetensors", *text, "--fuse", "-1"], "--fuse must be auto or a number"),
                          (["train.safetensors", *text, "--no-normalize"], "rows that are not normalised"),
                          (["train.safetensors", *text, "--between", "s.safetensors"], "S_b from other statistics")):
        box.refuses(USAGE, "fit", *words, "-o", "m.safetensors", naming=naming)
    box.works("fit", "train.safetensors", "-o", "m.safetensors", "-q")
    box.refuses(USAGE, "add-class", "m.safetensors", "x", "test.safetensors", "--text", "-o", "n.safetensors", naming="has no text")
    box.refuses(USAGE, "classify", "m.safetensors", "test.safetensors", "--part", "text", "--raw", naming="--part cannot be used with --raw")
    box.works("synth", "--classes", 20, "--dim", 16, "--per-class", 1, "-o", "x.safetensors", "--text", "narrow.safetensors", "-q")
    box.refuses(BAD_DATA, "fit", "train.safetensors", "--text", "narrow.safetensors", "-o", "m.safetensors", naming=["16", "32"])


@test
def sweeps(box):
    make_data(box)
    words = ["train.safetensors", "--text", "text.safetensors"]
    over = ["--test", "test.safetensors", "--lambdas", "0.1x,3x", "--dims", "32,7"]
    cells = json.loads(box.works("sweep", *words, *over, "--json", "-q").out)["cells"]
    fused = [cell for cell in cells if cell["text"] == "fused"]
    equal([(round(cell["relative"], 6), cell["dim"]) for cell in fused], [(0.1, 32), (0.1, 7), (3, 32), (3, 7)], "fused cells")
    for cell in fused:
        box.works("fit", *words, "--lambda", f"{cell['relative']:.1f}x", "--dim", cell["dim"], "--fuse", "auto", "-o", "f.safetensors", "-q")
        alone = json.loads(box.works("eval", "f.safetensors", "test.safetensors", "--json").out)
        equal((cell["n"], cell["top1"], cell["top5"], cell["alpha"]),
              (alone["n"], alone["fused_top1"], alone["fused_top5"], alone["alpha"]), f"lambda {cell['relative']}, {cell['dim']} dimensions")
    rows = [line.split(",") for line in box.works("sweep", *words, *over, "--format", "csv", "-q").out.splitlines()]
    equal(rows[0][-3:], ["text", "alpha", "best"], "the head of the CSV")
    equal([[int(row[8]), row[12], float(row[13])] for row in rows if row[12] == "fused"],
          [[round(cell["top1"] * cell["n"]), "fused", cell["alpha"]] for cell in fused], "CSV and JSON")
    equal(len(rows) - 1, len(cells), "lines of the CSV")
    lines = box.works("sweep", *words, *over, "-q").out.split("text and prototypes together, cosine, top-1")[1].splitlines()
    shares = [f"{'*' if cell['best'] else ''}{100 * cell['top1']:.2f}" for cell in fused]
    for line, at in ((2, 0), (3, 2)):
        relative, alpha = f"{fused[at]['relative']:g}x", f"{fused[at]['alpha']:g}"
        equal(lines[line].split(), [relative, shares[at], shares[at + 1], "alpha", alpha], "a line of the table")
    equal("*" in "".join(shares), True, "a best cell")
    given = json.loads(box.works("sweep", *words, *over, "--fuse", "0.25", "--json", "-q").out)["cells"]
    equal({cell["alpha"] for cell in given if cell["text"] == "fused"}, {0.25}, "alpha as given")
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    some = ["s.safetensors", "--text", "text.safetensors", *over]
    equal(json.loads(box.works("sweep", *some, "--fuse", "0.25", "--json", "-q").out)["cells"], given, "from statistics")
    without = box.works("sweep", *some)
    check("together" not in without.out and "left out; --fuse ALPHA includes them" in without.err, without.err)
    check("together" not in box.works("sweep", *words, *over, "--no-prototypes").out, "--no-prototypes")
    folds = json.loads(box.works("sweep", *words, "--lambdas", "0.3x", "--dims", 32, "--folds", 3, "--json", "-q").out)["cells"]
    equal([cell["n"] for cell in folds if cell["text"] == "fused"], [100], "rows in folds")
    for bad, naming in (([*some, "--fuse", "auto"], "the rows themselves"), ([*words, "--fuse", "much"], "--fuse must be auto or a number"),
                        (["train.safetensors", "--fuse", "1"], "--fuse needs --text"), ([*words, "--fuse", "1", "--no-prototypes"], "--no-prototypes"),
                        ([*words, *over[:2], "--between", "s.safetensors", "--fuse", "1"], "--between"),
                        ([*words, *over[:2], "--shots", "1", "--fuse", "1"], "--shots")):
        box.refuses(USAGE, "sweep", *bad, naming=naming)


@test
def fused_models_are_called_so(box):
    make_data(box)
    box.works("fit", "train.safetensors", "--text", "text.safetensors", "-o", "f.safetensors", "-q")
    box.works("fit", "train.safetensors", "-o", "m.safetensors", "-q")
    about = json.loads(box.works("compare", "f.safetensors", "m.safetensors", "test.safetensors", "--json").out)
    equal((about["a_space"], about["b_space"], about["a_file"]), ("fused", "koofu", "f.safetensors"), "sides of a comparison")
    judged = json.loads(box.works("eval", "f.safetensors", "test.safetensors", "--metric", "euclidean", "--json").out)
    equal((judged["top1"], judged["metric"], judged["prototypes_metric"]), (about["a"], "cosine", "euclidean"), "what was compared how")
    note = "raw and Koo-Fu: by Euclidean distance; text and fused: by cosine"
    check(note in box.works("eval", "f.safetensors", "test.safetensors", "--metric", "euclidean").out, "the metrics of the lines")
    check(note not in box.works("eval", "f.safetensors", "test.safetensors").out, "a note on metrics that are the same")
    errors = json.loads(box.works("eval", "f.safetensors", "test.safetensors", "--errors", "--json").out)
    equal(errors["errors_of"], "fused", "whose errors")


@test
def one_se_with_text(box):
    make_data(box)
    words = ["fit", "train.safetensors", "--text", "text.safetensors", "--one-se", "-o", "f.safetensors"]
    box.refuses(USAGE, *words, naming="--one-se cannot be used with --text")
    said = box.works(*words, "--fuse", "0.5").err
    check("the largest within one standard error" in said or "by leave-one-out" in said, said)


@test
def text_does_not_hide_what_rows_can_do(box):
    """Rows that only a very small lambda separates, with uninformative text."""
    rng = random.Random(3)
    strong, dim, classes = 16, 40, 24
    means = [[0.0] * strong + [rng.gauss(0, 0.05) for _ in range(dim - strong)] for _ in range(classes)]
    offset = [rng.gauss(0, 2) for _ in range(dim)]
    turns = [[rng.gauss(0, 1) for _ in range(dim)] for _ in range(20)]

    def turned(row):  # by reflections: no column shows what lies in few directions
        for turn in turns:
            along = 2 * sum(x * t for x, t in zip(row, turn)) / sum(t * t for t in turn)
            row = [x - along * t for x, t in zip(row, turn)]
        return [x + o for x, o in zip(row, offset)]

    def rows(each):
        return [turned([m + rng.gauss(0, 1 if i < strong else 0.01) for i, m in enumerate(mean)])
                for mean in means for _ in range(each)]

    for name, each in (("train", 5), ("test", 20)):
        box.write(f"{name}.npy", npy(rows(each)))
        box.write(f"{name}_y.npy", npy([k for k in range(classes) for _ in range(each)], dtype="<i4"))
    box.write("t.npy", npy([turned([m + rng.gauss(0, 0.05) for m in mean]) for mean in means]))
    box.works("text-prototypes", "t.npy", "--per-class", 1, "-o", "t.safetensors")
    right = []
    for words in ([], ["--text", "t.safetensors"]):
        box.works("fit", "train.npy", "--labels", "train_y.npy", *words, "-o", "m.safetensors")
        right.append(json.loads(box.works("eval", "m.safetensors", "test.npy", "--labels", "test_y.npy", "--json").out)["top1"])
    check(right[0] > 0.9 and right[1] > right[0] - 0.03, f"rows {right[0]}, with text {right[1]}")
