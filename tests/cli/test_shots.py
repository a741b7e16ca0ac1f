"""Few-shot curves: koofu sweep --shots, koofu report --shots."""

import csv
import io
import json

from harness import BAD_DATA, USAGE, check, equal, test


def make_data(box):
    box.works("synth", "--classes", 12, "--dim", 32, "--per-class", 6, "-o", "train.safetensors", "--text", "t.safetensors", "-q")
    box.works("synth", "--classes", 12, "--dim", 32, "--per-class", 5, "--split", 1, "-o", "test.safetensors", "-q")


SWEEP = ("sweep", "train.safetensors", "--test", "test.safetensors")


@test
def shots_in_three_formats(box):
    make_data(box)
    given = (*SWEEP, "--text", "t.safetensors", "--shots", "4,1", "--seeds", 2)
    text = box.works(*given).out
    check(text.startswith("per cent of 60 test rows: mean, standard deviation, least and most of 2 draws"), text)
    for word in ("raw", "Koo-Fu", "zero-shot", "fused", "there Koo-Fu takes that of all rows", "chosen from the drawn rows alone"):
        check(word in text, f"{word!r} is not in {text}")
    lines = list(csv.DictReader(io.StringIO(box.works(*given, "--format", "csv").out)))
    equal([(r["shots"], r["seed"], r["classifier"]) for r in lines],
          [(s, d, c) for s in "14" for d in "01" for c in ("raw", "koofu", "text", "fused")], "lines of the CSV")
    equal({r["rows"] for r in lines if r["shots"] == "4"}, {"48"}, "rows that are drawn")
    tree = json.loads(box.works(*given, "--json").out)
    equal((tree["classes"], tree["seeds"], [s["shots"] for s in tree["shots"]]), (12, 2, [1, 4]), "what the JSON is of")
    for size in tree["shots"]:
        for name in ("raw", "koofu", "text", "fused"):
            draws = [float(r["top1_share"]) for r in lines if r["shots"] == str(size["shots"]) and r["classifier"] == name]
            check(abs(size[name]["top1"]["mean"] - sum(draws) / 2) < 1e-6, "the mean of the draws")
            check(abs(size[name]["top1"]["low"] - min(draws)) < 1e-6, "the least of the draws")
        equal(["alpha" in size[name]["draws"][0] for name in ("koofu", "fused")], [False, True], "who has an alpha")
    check("rotation" not in text, text)
    other = box.works(*given, "--json", "--threads", 1, "--isa", "plain").out
    equal(json.loads(other), tree, "on one thread and with plain kernels")


@test
def one_shot(box):
    make_data(box)
    given = (*SWEEP, "--shots", "1", "--seeds", 3)
    paper = box.works(*given, "--method", "paper")
    check("there the map of Koo-Fu is a rotation" in paper.out, paper.out)
    one = json.loads(box.works(*given, "--method", "paper", "--json").out)["shots"][0]
    equal((one["raw"]["top1"], one["koofu"]["draws"][0]["lambda"]), (one["koofu"]["top1"], 1), "the paper's method: a rotation")
    one = json.loads(box.works(*given, "--json").out)["shots"][0]
    check(one["raw"]["draws"] != one["koofu"]["draws"], "the default scales columns and centres")
    box.works("synth", "--classes", 12, "--dim", 32, "--per-class", 1, "-o", "train.safetensors", "-q")
    one = json.loads(box.works(*SWEEP, "--shots", "1", "--seeds", 1, "--json").out)["shots"][0]
    box.works("fit", "train.safetensors", "-o", "m.safetensors", "-q")
    fitted = json.loads(box.works("eval", "m.safetensors", "test.safetensors", "--json").out)
    equal((one["koofu"]["draws"][0]["lambda"], one["koofu"]["top1"]["mean"]), (fitted["lambda"], fitted["top1"]), "as fit and eval say")


@test
def shots_without_text(box):
    make_data(box)
    said = box.works(*SWEEP, "--shots", "2,100", "--seeds", 1, "--format", "csv", "-o", "out.csv").err
    check("wrote out.csv: 4 figures" in said, said)
    check("100 shots were asked for, but no class has more than 6 rows: all 72 rows were taken" in said, said)
    lines = list(csv.DictReader(io.StringIO(box.read("out.csv").decode())))
    equal([(r["shots"], r["rows"], r["classes_with_fewer"], r["classifier"]) for r in lines],
          [("2", "24", "0", "raw"), ("2", "24", "0", "koofu"), ("100", "72", "12", "raw"), ("100", "72", "12", "koofu")],
          "the lines")
    box.works("fit", "train.safetensors", "-o", "m.safetensors", "-q")
    whole = json.loads(box.works("eval", "m.safetensors", "test.safetensors", "--json").out)
    equal((float(lines[2]["top1_share"]), float(lines[3]["top1_share"])),
          (round(whole["raw_top1"], 6), round(whole["top1"], 6)), "all rows are what fit and eval give")


@test
def shots_refused(box):
    make_data(box)
    box.refuses(USAGE, "sweep", "train.safetensors", "--shots", "1,2", naming="--shots needs --test")
    box.refuses(USAGE, *SWEEP, "--shots", "0,2", naming="--shots must be a whole number from 1")
    box.refuses(USAGE, *SWEEP, "--shots", "2", "--seeds", 0, naming="--seeds must be")
    box.refuses(USAGE, *SWEEP, "--seeds", 2, naming="--seeds needs --shots")
    for other in (("-k", 3), ("--dims", 8), ("--lambdas", "1x"), ("--no-raw",), ("--no-normalize",)):
        box.refuses(USAGE, *SWEEP, "--shots", 2, *other, naming="cannot be used with --shots")
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    box.refuses(BAD_DATA, "sweep", "s.safetensors", "--test", "test.safetensors", "--shots", 2, naming="s.safetensors")
    box.works("synth", "--classes", 3, "--dim", 32, "-o", "x.safetensors", "--text", "few.safetensors", "-q")
    box.works(*SWEEP, "--shots", 2, "--text", "few.safetensors")
    box.refuses(USAGE, "report", "train.safetensors", "--shots", 2, "-o", "p.html", naming="--shots needs --test")
    box.refuses(USAGE, "report", "train.safetensors", "--seeds", 2, "-o", "p.html", naming="--seeds needs --shots")


@test
def shots_in_a_report(box):
    make_data(box)
    given = ("report", "train.safetensors", "--test", "test.safetensors")
    box.works(*given, "--shots", "1,2,4", "--seeds", 2, "--text", "t.safetensors", "-o", "page.html")
    page = box.read("page.html").decode()
    check('id="shots"' in page and "With 4 rows per class" in page and "text alone" in page, "the section")
    check("the scatter of all rows is used instead" in page and "a rotation" not in page, "one row per class")
    box.works(*given, "--shots", "1,2,4", "-o", "page.html")
    page = box.read("page.html").decode()
    check('id="shots"' in page and "text alone" not in page, "the section without text")
    box.works(*given, "-o", "page.html")
    check('id="shots"' not in box.read("page.html").decode(), "a section that was not asked for")
