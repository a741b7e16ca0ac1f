"""Choosing lambda, dimensions and k; sweeps."""

import csv
import io
import json
import random
import re

from harness import BAD_DATA, IO, USAGE, check, equal, test
from files import data_set, differences, f32, i32, npy, read_safetensors, safetensors


def make_data(box, classes=15, dim=24):
    box.works("synth", "--classes", classes, "--dim", dim, "--per-class", 10, "-o", "train.safetensors", "-q")
    box.works("synth", "--classes", classes, "--dim", dim, "--per-class", 6, "--split", 1, "-o", "test.safetensors", "-q")


# --- fit


@test
def few_rows_do_not_know_the_scales_of_columns(box):
    """With one or two rows for each of two or three classes, the default stays near raw class means."""
    for classes, rows in ((2, 1), (2, 2), (3, 1)):
        gain = 0
        for seed in range(8):
            rng = random.Random(100 * classes + 10 * rows + seed)
            centres = [[rng.uniform(-1, 1) * 1.8 for _ in range(64)] for _ in range(classes)]

            def draw(each):
                return [[c + rng.uniform(-1, 1) * 2.5 for c in centre] for centre in centres for _ in range(each)]

            box.write("x.npy", npy(draw(rows)))
            box.write("t.npy", npy(draw(60)))
            box.write("y.npy", npy([k for k in range(classes) for _ in range(rows)], "<i4"))
            box.write("u.npy", npy([k for k in range(classes) for _ in range(60)], "<i4"))
            box.works("fit", "x.npy", "--labels", "y.npy", "-o", "m.safetensors", "-q")
            found = json.loads(box.works("eval", "--json", "m.safetensors", "t.npy", "--labels", "u.npy").out)
            gain += (found["top1"] - found["raw_top1"]) / 8
        check(gain > -0.06, f"{classes} classes with {rows} rows: {100 * gain:.1f} points")


@test
def lambda_is_chosen_by_default(box):
    make_data(box)
    said = box.works("fit", "train.safetensors", "-o", "a.safetensors").err
    found = re.search(r"lambda (\S+)x by leave-one-out likelihood: right for (\S+) % of 150 rows left out in turn \(standard "
                      r"error (\S+) points\); (\d+) values from (\S+)x to (\S+)x were tried", said)
    check(found is not None, said)
    check("  lambda" not in said, "the curve is printed without -v")
    words = ["fit", "train.safetensors", "--lambda", "auto", "--method", "shrunk", "--criterion", "likelihood", "--centre", "mean"]
    asked = box.works(*words, "-v", "-o", "b.safetensors").err
    equal(box.read("a.safetensors") == box.read("b.safetensors"), True, "these are the defaults")
    curve = re.findall(r"^  lambda +(\S+)x  top-1 (\S+) %  top-5 (\S+) %  loss (\S+) at temperature (\S+?)(  chosen)?$", asked, re.M)
    equal(len(curve), int(found.group(4)), "points of the curve with -v")
    equal((curve[0][0], curve[-1][0]), (found.group(5), found.group(6)), "the ends of the curve")
    chosen = [c for c in curve if c[5]]
    equal([(c[0], c[1]) for c in chosen], [(found.group(1), found.group(2))], "the chosen point")
    check(all(float(c[3]) > float(chosen[0][3]) for c in curve if not c[5]), f"not the most likely: {asked}")
    about = json.loads(box.works("info", "--json", "a.safetensors").out)
    equal((about["method"], f"{about['temperature']:.3g}"), ("shrunk", chosen[0][4]), "what the model has of it")


@test
def few_rows_of_many_classes(box):
    """Hits are counted for 2^24 pairs of a row and a class, but for 1,000 rows at least."""
    box.works("synth", "--classes", 30000, "--dim", 16, "--per-class", 2, "-o", "train.safetensors", "-q")
    said = box.works("fit", "train.safetensors", "--method", "paper", "-o", "a.safetensors").err
    check("of 1,000 rows left out in turn" in said, said)
    check("these are a sample of 60,000 rows" in said, said)


@test
def lambda_by_accuracy(box):
    make_data(box)
    line = (r"lambda (\S+)x by leave-one-out: right for (\S+) % of 150 rows left out in turn \(standard error (\S+) points\); "
            r"(\d+) values from 0.00316x to (\S+)x were tried")
    models = []
    for how in (["--method", "paper"], ["--criterion", "accuracy"]):
        said = box.works("fit", "train.safetensors", *how, "-v", "-o", "a.safetensors").err
        found = re.search(line, said)
        check(found is not None, said)
        curve = re.findall(r"^  lambda +(\S+)x  top-1 (\S+) %  top-5 (\S+) %(?:  loss \S+ at temperature \S+?)?(  chosen)?$", said, re.M)
        equal(len(curve), int(found.group(4)), "points of the curve with -v")
        chosen = [c for c in curve if c[3]]
        equal([(c[0], c[1]) for c in chosen], [(found.group(1), found.group(2))], "the chosen point")
        best = max(float(c[1]) for c in curve)
        equal(chosen[0], [c for c in curve if float(c[1]) == best][-1], f"the largest of the best: {said}")
        about = json.loads(box.works("info", "--json", "a.safetensors").out)
        models.append((about["method"], "temperature" in about, about["metadata"]["centre"]))
    equal(models, [("paper", False, "none"), ("shrunk", True, "mean")], "the models")
    box.works("fit", "train.safetensors", "--method", "paper", "--criterion", "accuracy", "--centre", "none", "-o", "b.safetensors", "-q")
    box.works("fit", "train.safetensors", "--method", "paper", "-o", "a.safetensors", "-q")
    equal(box.read("a.safetensors") == box.read("b.safetensors"), True, "these are the defaults of the paper's method")
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    for words, naming in ((["train.safetensors", "--centre", "none"], ["the paper's method", "--method paper"]),
                          (["train.safetensors", "--criterion", "accuracy", "--lambda", "1x"], "--criterion needs --lambda auto"),
                          (["s.safetensors", "--criterion", "accuracy"], "--criterion needs the rows themselves"),
                          (["train.safetensors", "--criterion", "best"], "--criterion must be likelihood or accuracy")):
        box.refuses(USAGE, "fit", *words, "-o", "m.safetensors", naming=naming)
    for centre in ("none", "mean"):
        said = box.works("fit", "train.safetensors", "--method", "paper", "--criterion", "likelihood", "--centre", centre, "-o", "a.safetensors").err
        check("by leave-one-out likelihood" in said, said)


def copies(box, of=4):
    """Every row of train.safetensors `of` times with a little noise, and the number of each one's origin."""
    tensors, metadata = read_safetensors(box.read("train.safetensors"))
    rng = random.Random(3)
    rows = [[x + rng.gauss(0, 0.005) for x in row] for row in tensors["embeddings"] for _ in range(of)]
    labels = [k for k in tensors["labels"] for _ in range(of)]
    origins = [i for i in range(len(tensors["labels"])) for _ in range(of)]
    box.write("copies.safetensors", safetensors({"embeddings": ("F32", [len(rows), len(rows[0])], f32(rows)),
                                                 "labels": ("I32", [len(rows)], i32(labels))}, metadata={"classes": metadata["classes"]}))
    return rows, labels, origins


@test
def groups_are_left_out_together(box):
    make_data(box, dim=64)
    rows, labels, origins = copies(box)
    n = len(rows)
    fit = ["fit", "copies.safetensors", "-o", "m.safetensors"]
    alone = box.works(*fit).err
    check("a nearly equal row in their class" in alone, alone)
    hopeful, small = (json.loads(box.works(*fit, "--json", "-q").out)[name] for name in ("top1", "lambda"))
    box.write("groups.txt", "".join(f"video {i}\n" for i in origins))
    said = box.works(*fit, "--groups", "groups.txt").err
    check("a nearly equal row" not in said, f"advice that is followed already: {said}")
    check("by leave-one-group-out likelihood: right for" in said and f"of {n} rows left out in turn" in said, said)
    check("a nearly equal row" not in said, "twins of one group do no harm: " + said)
    box.write("halves.txt", "".join(f"{i}\n" for i in range(n)))
    said = box.works("fit", "copies.safetensors", "-o", "h.safetensors", "--groups", "halves.txt").err
    check("a nearly equal row in their class, in another group" in said, said)
    wanted = box.read("m.safetensors")
    honest, large = (json.loads(box.works(*fit, "--groups", "groups.txt", "--json", "-q").out)[name] for name in ("top1", "lambda"))
    check(honest < hopeful - 0.2 and large > small, f"{hopeful} and {small}, with groups {honest} and {large}")
    box.write("groups.npy", npy(origins, "<i8"))
    box.works(*fit, "--groups", "groups.npy", "-q")
    equal(box.read("m.safetensors") == wanted, True, "groups by number, in a .npy")
    for threads, isa in ((1, "plain"), (3, "auto")):
        box.works(*fit, "--groups", "groups.txt", "--threads", threads, "--isa", isa, "-q")
        equal(box.read("m.safetensors") == wanted, True, f"{threads} threads, {isa}")
    # labels from a file, groups beside them
    box.write("x.npy", npy(rows))
    box.write("y.txt", "".join(f"c{k:04d}\n" for k in labels))
    box.works("fit", "x.npy", "--labels", "y.txt", "--groups", "groups.txt", "-o", "m.safetensors", "-q")
    equal(json.loads(box.works("info", "--json", "m.safetensors").out)["lambda"], large, "lambda of rows and labels in two files")
    # files in an order that must be given explicitly
    for name, some in (("x2.npy", rows[:300]), ("x10.npy", rows[300:])):
        box.write(name, npy(some))
    words = ["fit", "x10.npy", "x2.npy", "--order", "number", "--labels", "y.txt", "-o", "n.safetensors", "-q", "--groups"]
    box.works(*words, "groups.txt")
    equal(box.read("n.safetensors") == box.read("m.safetensors"), True, "two files, sorted by number")
    for name, first in (("s2.safetensors", 0), ("s10.safetensors", 300)):
        box.write(name, safetensors({"embeddings": ("F32", [300, 64], f32(rows[first:first + 300])),
                                     "labels": ("I32", [300], i32(labels[first:first + 300]))}))
    words = ["fit", "s10.safetensors", "s2.safetensors", "--groups", "groups.txt", "-o", "s.safetensors"]
    box.refuses(USAGE, *words, naming="--order number")
    box.works(*words, "--order", "number", "-q")
    equal(json.loads(box.works("info", "--json", "s.safetensors").out)["lambda"], large, "lambda of shards with labels inside")
    # every row a group of its own is what happens without groups
    box.write("each.txt", "".join(f"{i}\n" for i in range(n)))
    box.works(*fit, "--groups", "each.txt", "-q")
    each = box.read("m.safetensors")
    box.works(*fit, "-q")
    equal(box.read("m.safetensors") == each, True, "groups of one row")
    for how, word in ((["--criterion", "accuracy"], "by leave-one-group-out:"), (["--method", "paper", "--centre", "mean"], "by leave-one-group-out:")):
        check(word in box.works(*fit, *how, "--groups", "groups.txt").err, f"{how}")


@test
def groups_refused(box):
    make_data(box)
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    box.write("groups.txt", "".join(f"{i // 2}\n" for i in range(150)))
    box.write("few.txt", "a\n" * 149)
    box.write("only.txt", "c0001\nc0002\n")
    box.write("classes.txt", "".join(f"{i // 10}\n" for i in range(150)))
    given = ["-o", "m.safetensors", "--groups"]
    box.refuses(USAGE, "fit", "s.safetensors", *given, "groups.txt", naming="--groups needs the rows themselves")
    box.refuses(USAGE, "fit", "train.safetensors", "--between", "s.safetensors", *given, "groups.txt", naming="groups cannot be combined with S_b")
    box.refuses(USAGE, "fit", "train.safetensors", "--only", "only.txt", *given, "groups.txt", naming="--groups cannot be used with --only")
    box.refuses(BAD_DATA, "fit", "train.safetensors", *given, "few.txt", naming=["few.txt", "149", "150"])
    box.refuses(IO, "fit", "train.safetensors", *given, "gone.txt", naming="gone.txt")
    box.write("empty.txt", "a\n" * 70 + "\n" + "b\n" * 79)
    box.write("negative.npy", npy([i // 2 - 1 for i in range(150)], "<i8"))
    box.write("two.csv", "video,frame\n" + "".join(f"{i // 2},{i % 2}\n" for i in range(150)))
    for name, what in (("empty.txt", "line 71 is empty"), ("negative.npy", "-1"), ("two.csv", "2 columns")):
        said = box.refuses(BAD_DATA, "fit", "train.safetensors", *given, name, naming=[name, what, "--groups takes one group for each row"]).err
        check("--skip-unlabelled" not in said and "--label-column" not in said, f"advice on labels: {said}")
    box.works("fit", "train.safetensors", "--method", "paper", *given, "groups.txt", "-q")
    box.works("fit", "train.safetensors", "--method", "paper", "--lambda", "1x", "--reject", "0.9", *given, "groups.txt", "-q")
    rows = [i % 15 for i in range(150)]  # the labels of train.safetensors: each class is one group
    box.write("classes.txt", "".join(f"{k}\n" for k in rows))
    box.refuses(BAD_DATA, "fit", "train.safetensors", *given, "classes.txt", naming="no class has two rows of different groups")


@test
def one_standard_error(box):
    make_data(box)
    box.works("fit", "train.safetensors", "-o", "a.safetensors", "-q")
    said = box.works("fit", "train.safetensors", "--one-se", "-o", "b.safetensors").err
    a, b = (json.loads(box.works("info", "--json", name).out)["lambda"] for name in ("a.safetensors", "b.safetensors"))
    check(b > a, f"{b} is not above {a}")
    check("the largest within one standard error" in said, said)
    said = box.works("fit", "train.safetensors", "--no-normalize", "-o", "c.safetensors").err
    check("the smallest within one standard error" in said, said)


@test
def by_distances_the_smallest(box):
    make_data(box)
    said = box.works("fit", "train.safetensors", "--no-normalize", "--json", "-o", "a.safetensors")
    curve = json.loads(said.out)["by_lambda"]
    check(curve["chosen"] < curve["best"], f"{curve['chosen']} of {curve['best']}")
    check("the chosen one is the smallest within one standard error" in said.err, said.err)


@test
def a_sample_is_told_with_text(box):
    make_data(box)
    box.works("synth", "--classes", 15, "--dim", 24, "--per-class", 1, "-o", "y.safetensors", "--text", "text.safetensors", "-q")
    for more, told in (([], False), (["--sample", 60], True)):
        said = box.works("fit", "train.safetensors", "--text", "text.safetensors", "-o", "a.safetensors", *more).err
        equal("these are a sample of 150 rows" in said, told, said)


@test
def chosen_as_when_given(box):
    make_data(box)
    box.works("fit", "train.safetensors", "--dim", "auto", "-o", "a.safetensors", "-q")
    about = json.loads(box.works("info", "--json", "a.safetensors").out)
    box.works("fit", "train.safetensors", "--lambda", repr(about["lambda"]), "--dim", about["dim_out"], "-o", "b.safetensors", "-q")
    equal(box.read("a.safetensors") == box.read("b.safetensors"), True, "a choice and the same by hand")


@test
def dimensions_are_chosen(box):
    box.works("synth", "--classes", 30, "--dim", 24, "--per-class", 4, "-o", "few.safetensors", "-q")
    said = box.works("fit", "few.safetensors", "--lambda", "1x", "--dim", "auto", "--folds", 3, "-o", "a.safetensors").err
    check("all 24 dimensions are kept: 3 folds of 120 rows do not show that fewer lose at most 0.5 points" in said, said)
    equal(json.loads(box.works("info", "--json", "a.safetensors").out)["dim_out"], 24, "dimensions of few rows")
    make_data(box)
    said = box.works("fit", "train.safetensors", "--dim", "auto", "--margin", 15, "-o", "a.safetensors").err
    found = re.search(r"(\d+) dimensions? by 10 folds: right for \S+ % of 150 rows, all 24 for \S+ %; the loss, (\S+) points, is "
                      r"at most (\S+) with 95 % confidence", said)
    check(found is not None and float(found.group(2)) < float(found.group(3)) <= 15 and int(found.group(1)) < 15, said)
    # fifteen centred classes differ in fourteen directions, whatever the rows are
    said = box.works("fit", "train.safetensors", "--dim", "auto", "--centre", "mean", "-o", "a.safetensors").err
    check(re.search(r"\b14 dimensions by 10 folds: .* the loss, 0.00 points, is at most 0.00 with", said) is not None, said)
    said = box.works("fit", "train.safetensors", "--dim", "auto", "--margin", 99, "-o", "a.safetensors").err
    check("1 dimension by 10 folds" in said, said)


@test
def a_fit_in_json(box):
    make_data(box)
    result = box.works("fit", "train.safetensors", "--dim", "auto", "--margin", 20, "-o", "a.safetensors", "--json")
    about, info = json.loads(result.out), json.loads(box.works("info", "--json", "a.safetensors").out)
    for name in ("rows", "dim_out", "lambda"):
        equal(about[name], info[name], f"{name} of the model")
    equal((about["model"], about["n_unlabelled"], about["n_bad"], about["n"]), ("a.safetensors", 0, 0, 150), "rows")
    chosen = about["by_lambda"]["points"][about["by_lambda"]["chosen"]]
    equal((chosen["lambda"], chosen["top1"]), (about["lambda"], about["right"] / 150), "the chosen lambda")
    equal(about["by_lambda"]["criterion"], "likelihood", "the criterion")
    check(0 < about["temperature"] < chosen["temperature"], f"temperature of fewer dimensions: {about['temperature']}")
    whole = json.loads(box.works("fit", "train.safetensors", "-o", "b.safetensors", "--json", "-q").out)
    equal(whole["temperature"], chosen["temperature"], "temperature of all dimensions")
    check(0 < chosen["loss_error"] < chosen["loss"] == min(p["loss"] for p in about["by_lambda"]["points"]), f"losses: {about['by_lambda']}")
    dims = about["by_dim"]
    equal((dims["dim"], len(dims["points"]), dims["margin"], dims["folds"]), (about["dim_out"], 24, 0.2, 10), "dimensions")
    check(dims["points"][dims["dim"] - 1]["loss_upper95"] <= 0.2 < dims["points"][max(dims["dim"] - 2, 0)]["loss_upper95"], f"{dims}")
    equal((about["by_fusion"], about["alpha"], about["fused"], about["many_near"]), (None, None, False, False), "what there is not")
    check("dimensions by 10 folds" in result.err, "what is said stays on stderr")
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    about = json.loads(box.works("fit", "s.safetensors", "-o", "b.safetensors", "--json", "-q").out)
    equal((about["n"], about["top1"], about["by_lambda"], about["by_dim"]), (0, None, None, None), "of statistics")
    about = json.loads(box.works("fit", "train.safetensors", "--method", "paper", "-o", "b.safetensors", "--json", "-q").out)
    equal((about["by_lambda"]["criterion"], about["by_lambda"]["points"][0]["loss"], about["temperature"]), ("accuracy", None, None), "hits alone")


@test
def rules_and_samples(box):
    make_data(box)
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    for how in ([], ["--method", "paper"]):
        box.works("fit", "train.safetensors", "--lambda", "gda", *how, "-o", "g.safetensors", "-q")
        box.works("fit", "s.safetensors", "--lambda", "gda", *how, "-o", "h.safetensors", "-q")
        differ = differences(box.read("g.safetensors"), box.read("h.safetensors"))  # only rows have a temperature
        equal(differ, set() if how else {"temperature", "checksum"}, f"gda from data and from statistics, {how}")
    box.works("fit", "train.safetensors", "--lambda", "ledoit-wolf", "-o", "l.safetensors", "-q")
    said = box.works("fit", "train.safetensors", "--sample", 45, "-o", "a.safetensors").err
    check("of 45 rows left out in turn" in said and "a sample of 150 rows" in said, said)
    said = box.works("fit", "s.safetensors", "-o", "d.safetensors").err
    check("lambda 0.3x, the default for statistics" in said and "leave-one-out" not in said, said)
    box.refuses(BAD_DATA, "fit", "s.safetensors", "s.safetensors", "-o", "d.safetensors", naming="'koofu merge' first")


@test
def rows_alone_in_their_class(box):
    box.write("x.safetensors", data_set(n=7, classes=4))  # 2, 2, 2, 1
    said = box.works("fit", "x.safetensors", "-o", "a.safetensors").err
    check("of 6 rows left out in turn" in said and "1 row is alone in its class" in said, said)
    box.write("y.safetensors", data_set(n=4, classes=4))
    words = ["y.safetensors", "-o", "b.safetensors"]
    box.refuses(BAD_DATA, "fit", *words, "--method", "paper",
                naming="lambda cannot be chosen by leaving rows out: no class has two rows; use an absolute lambda above 0; "
                       "set it with --lambda")
    box.works("fit", *words, "--method", "paper", "--lambda", "0.1")
    instead = "no class has two different rows: the scatter of all rows takes the place of that within classes; lambda is "
    said = box.works("fit", *words).err
    check(instead + "30x its mean eigenvalue, the default then" in said, said)
    wanted = box.read("b.safetensors")
    said = box.works("fit", *words, "--lambda", "30x").err
    check(instead + "30x its mean eigenvalue\n" in said, said)
    equal(box.read("b.safetensors") == wanted, True, "the same by hand")
    right = box.works("classify", "b.safetensors", "y.safetensors", "--top", 1).out.splitlines()[1:]
    equal([line.split("\t")[1] for line in right], [f"class {k}" for k in range(4)], "every row is its own class")
    box.works("stats", "y.safetensors", "-o", "s.safetensors", "-q")
    check(instead + "30x" in box.works("fit", "s.safetensors", "-o", "b.safetensors").err, "from statistics")
    box.refuses(BAD_DATA, "fit", *words, "--lambda", 0, naming="the scatter of all rows has matrix rank 3 of 8")


@test
def choosing_refused(box):
    make_data(box)
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    for words, naming in ((["s.safetensors", "--lambda", "auto"], "--lambda auto needs the rows"),
                          (["s.safetensors", "--lambda", "ledoit-wolf"], "from the rows themselves, not from statistics"),
                          (["s.safetensors", "--dim", "auto"], "from the rows themselves, not from statistics"),
                          (["train.safetensors", "--lambda", "auto", "--between", "s.safetensors"], "--lambda auto needs the rows"),
                          (["train.safetensors", "--lambda", "0.3x", "--one-se"], "--one-se needs --lambda auto"),
                          (["train.safetensors", "--folds", 3], "--folds needs --dim auto"),
                          (["train.safetensors", "--margin", 1], "--margin needs --dim auto"),
                          (["train.safetensors", "--dim", "auto", "--margin", 100], "--margin must be below 100 points"),
                          (["train.safetensors", "--lambda", "0.3x", "--sample", 9], "--sample needs"),
                          (["train.safetensors", "--dim", "automatic"], "--dim must be a whole number")):
        box.refuses(USAGE, "fit", *words, "-o", "m.safetensors", naming=naming)
    box.refuses(USAGE, "fit", "train.safetensors", "--lambda", "best", "-o", "m.safetensors", naming=["'best'", "gda"])


@test
def neighbours_are_chosen(box):
    make_data(box)
    box.works("fit", "train.safetensors", "-o", "m.safetensors", "-q")
    box.works("index", "train.safetensors", "--model", "m.safetensors", "-o", "g.safetensors", "-q")
    result = box.works("eval", "m.safetensors", "test.safetensors", "--gallery", "g.safetensors", "-k", "auto")
    found = re.search(r"k = (\d+) is right for \S+ % of 150 rows of the gallery left out in turn; the best of 1 to 50, k = (\d+),", result.err)
    check(found is not None and int(found.group(1)) <= int(found.group(2)), result.err)
    check(f"Koo-Fu {found.group(1)}-NN" in result.out, result.out)
    same = box.works("classify", "m.safetensors", "test.safetensors", "--gallery", "g.safetensors", "-k", found.group(1))
    auto = box.works("classify", "m.safetensors", "test.safetensors", "--gallery", "g.safetensors", "-k", "auto", "-q")
    equal(auto.out, same.out, "classify -k auto")
    box.refuses(USAGE, "classify", "m.safetensors", "test.safetensors", "-k", "auto", naming="--gallery")
    check("if the map was fitted on these rows, this k is too small" in result.err, result.err)


@test
def neighbours_are_chosen_by_folds(box):
    make_data(box)
    box.works("fit", "train.safetensors", "--lambda", "0.3x", "-o", "m.safetensors", "-q")
    said = box.works("index", "train.safetensors", "--model", "m.safetensors", "-k", "auto", "-o", "g.safetensors").err
    found = re.search(r"k = (\d+) is right for (\S+) % of 150 rows in folds that their map has not seen; the best of 1 to 50, k = (\d+), for (\S+) %", said)
    check(found is not None, said)
    cells = json.loads(box.works("sweep", "train.safetensors", "--lambdas", "0.3x", "--dims", 24, "--no-raw", "--no-prototypes",
                                 "-k", ",".join(map(str, range(1, 51))), "--json").out)["cells"]
    equal([f"{100 * cells[int(found.group(i)) - 1]['top1']:.2f}" for i in (1, 3)], [found.group(2), found.group(4)], "a sweep over folds")
    equal(max(cell["top1"] for cell in cells), cells[int(found.group(3)) - 1]["top1"], "the best")
    words = ["classify", "m.safetensors", "test.safetensors", "--gallery", "g.safetensors"]
    wanted = box.works(*words, "-k", found.group(1)).out
    equal(box.works(*words).out, wanted, "the k of the gallery is the default of classify")
    result = box.works("eval", *words[1:], "-k", "auto")
    check(f"k = {found.group(1)}, from the gallery" in result.err and f"Koo-Fu {found.group(1)}-NN" in result.out, result.err)
    # other rows than those of the map, and the original space: rows are left out in turn
    for more in (["test.safetensors", "--model", "m.safetensors"], ["train.safetensors"]):
        check("rows of the gallery left out in turn" in box.works("index", *more, "-k", "auto", "-o", "h.safetensors").err, f"{more}")
    box.works("index", "test.safetensors", "--append", "g.safetensors", "-o", "i.safetensors", "-q")
    check(f"k = {found.group(1)}, from" in box.works("eval", "m.safetensors", "--gallery", "i.safetensors", "-k", "auto").err, "k of a longer gallery")
    box.refuses(USAGE, "index", "test.safetensors", "--append", "g.safetensors", "-k", "auto", naming="--append")
    box.write("bare.npy", npy([[float(i + j) for j in range(24)] for i in range(4)]))
    box.refuses(BAD_DATA, "index", "bare.npy", "-k", "auto", "-o", "h.safetensors", naming="no labels")


# --- sweep


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


@test
def sweep_is_what_fit_and_eval_say(box):
    make_data(box)
    words = ["sweep", "train.safetensors", "--test", "test.safetensors", "--lambdas", "0.1x,0.5", "--dims", "24,7", "-k", "1,5"]
    cells = table(box.works(*words, "--format", "csv").out)
    equal(len(cells), 3 + 2 * 3 * 2, "cells")
    for cell in cells:
        value = cell["lambda"] if cell["space"] == "koofu" else "0.3x"
        box.works("fit", "train.safetensors", "--lambda", value, "--dim", cell["dim"], "-o", "m.safetensors", "-q")
        more = []
        if cell["k"] != "0":
            model = ["--model", "m.safetensors"] if cell["space"] == "koofu" else []
            box.works("index", "train.safetensors", *model, "-o", "g.safetensors", "-q")
            more = ["--gallery", "g.safetensors", "-k", cell["k"]]
        alone = json.loads(box.works("eval", "m.safetensors", "test.safetensors", *more, "--json").out)
        if cell["k"] != "0":
            wanted = alone["knn"][0]["top1"], alone["knn"][0]["top5"]
        else:
            raw = "raw_" if cell["space"] == "raw" else ""
            wanted = alone[raw + "top1"], alone[raw + "top5"]
        n = int(cell["n"])
        equal((int(cell["top1"]) / n, int(cell["top5"]) / n), wanted, f"{cell}")
    found = json.loads(box.works(*words, "--json").out)
    for k in {cell["k"] for cell in cells}:
        best = max(int(cell["top1"]) for cell in cells if cell["k"] == k)
        equal([cell["best"] for cell in cells if cell["k"] == k],
              [str(int(int(cell["top1"]) == best)) for cell in cells if cell["k"] == k], f"best of k = {k}")
    equal([c["best"] for c in found["cells"]], [c["best"] == "1" for c in cells], "best cells in JSON and CSV")
    equal([(c["dim"], c["k"] or 0, round(c["top1"] * c["n"])) for c in found["cells"]],
          [(int(c["dim"]), int(c["k"]), int(c["top1"])) for c in cells], "JSON and CSV")
    text = box.works(*words).out
    for cell in cells:
        star = r"\*" if cell["best"] == "1" else " "
        check(re.search(rf"{star}{100 * int(cell['top1']) / int(cell['n']):.2f}\b", text) is not None, f"{cell} is not in the text:\n{text}")
    box.works(*words, "--format", "csv", "-o", "sweep.csv")
    equal(table(box.read("sweep.csv").decode()), cells, "a file")


@test
def like_an_earlier_model(box):
    """More rows are added by statistics; what was chosen from the first ones stays."""
    make_data(box)
    for name in ("train", "test"):
        box.works("stats", f"{name}.safetensors", "-o", f"{name}-s.safetensors", "-q")
    box.works("merge", "train-s.safetensors", "test-s.safetensors", "-o", "all.safetensors", "-q")
    box.works("fit", "train.safetensors", "-o", "first.safetensors", "-q")
    said = box.works("fit", "train-s.safetensors", "--like", "first.safetensors", "-o", "again.safetensors").err
    check(re.search(r"lambda \S+, now \S+x the mean eigenvalue, kept from first.safetensors", said), said)
    equal(box.read("again.safetensors") == box.read("first.safetensors"), True, "the same rows, the same model")
    box.works("fit", "all.safetensors", "--like", "first.safetensors", "-o", "grown.safetensors", "-q")
    first, grown = (json.loads(box.works("info", "--json", f"{name}.safetensors").out) for name in ("first", "grown"))
    equal([grown[key] for key in ("lambda", "temperature")], [first[key] for key in ("lambda", "temperature")], "what is kept")
    check(grown["rows"] > first["rows"], "the rows")
    said = box.works("fit", "all.safetensors", "-o", "plain.safetensors").err
    check("lambda 0.3x, the default for statistics" in said and "--like" in said, said)
    for words, naming in ((["--lambda", "auto"], "--lambda auto cannot be used with --like"), (["--one-se"], "--like"),
                          (["--method", "paper"], "another method")):
        box.refuses(USAGE, "fit", "all.safetensors", "--like", "first.safetensors", *words, "-o", "m.safetensors", naming=naming)
    box.works("fit", "all.safetensors", "--like", "first.safetensors", "-o", "first.safetensors", "-q")
    equal(box.read("first.safetensors") == box.read("grown.safetensors"), True, "a model is replaced by one of more rows")


@test
def sweep_over_folds_and_statistics(box):
    make_data(box)
    text = box.works("sweep", "train.safetensors", "--folds", 4).out
    check("per cent of 150 rows in 4 folds" in text and "prototypes, cosine, top-5" in text, text)
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    a = box.works("sweep", "s.safetensors", "--test", "test.safetensors", "--metric", "both").out
    b = box.works("sweep", "train.safetensors", "--test", "test.safetensors", "--metric", "both").out
    equal(a, b, "statistics and data")
    check("euclidean" in a and "cosine" in a, a)


@test
def sweep_leave_one_out(box):
    make_data(box)
    for how in ([], ["--method", "paper"]):
        said = box.works("fit", "train.safetensors", *how, "-v", "-o", "m.safetensors").err
        curve = dict(re.findall(r"^  lambda +(\S+)x  top-1 (\S+) %", said, re.M))
        text = box.works("sweep", "train.safetensors", *how, "--leave-one-out", "--lambdas", "0.1x,0.31622776601683795x").out
        for value in ("0.1", "0.316"):
            check(re.search(rf"^ +{value}x +[*]?{curve[value]}$", text, re.M) is not None, f"{value}x: {curve[value]} in {text}")


@test
def sweep_class_sets(box):
    make_data(box)
    box.write("few.txt", "c0001\nc0003\nc0004\n")
    box.write("most.txt", "".join(f"c{k:04d}\n" for k in range(12)))
    words = ["sweep", "train.safetensors", "--test", "test.safetensors", "--lambdas", "0.3x", "--dims", 24, "--format", "csv"]
    cells = table(box.works(*words, "--class-set", "few.txt", "--class-set", "most.txt").out)
    equal([(c["set"], c["space"], c["n"]) for c in cells], [("few.txt", "raw", "18"), ("few.txt", "koofu", "18"),
                                                           ("most.txt", "raw", "72"), ("most.txt", "koofu", "72")], "sets")
    box.works("fit", "train.safetensors", "--lambda", "0.3x", "-o", "m.safetensors", "-q")
    alone = json.loads(box.works("eval", "m.safetensors", "test.safetensors", "--class-set", "few.txt", "--json").out)
    equal([int(c["top1"]) / 18 for c in cells[:2]], [alone["raw_top1"], alone["top1"]], "a set alone")


@test
def sweep_refused(box):
    make_data(box)
    box.works("stats", "train.safetensors", "-o", "s.safetensors", "-q")
    tested = ["--test", "test.safetensors"]
    for words, naming in ((["s.safetensors"], "needs the training rows"),
                          (["s.safetensors", *tested, "-k", 1], "needs the training rows"),
                          (["train.safetensors", "--dims", 25], "the embeddings have 24"),
                          (["train.safetensors", *tested, "--folds", 3], "--folds cannot be used with --test"),
                          (["train.safetensors", "--truth", "t.json"], "--truth needs --test"),
                          (["train.safetensors", "--between", "s.safetensors"], "--between needs --test"),
                          (["train.safetensors", "--no-prototypes"], "--no-prototypes needs -k"),
                          (["train.safetensors", "--leave-one-out", *tested], "--test cannot be used with --leave-one-out"),
                          (["train.safetensors", "--leave-one-out", "-k", 3], "-k cannot be used with --leave-one-out"),
                          (["train.safetensors", "--test-labels", "y.txt"], "--test-labels needs --test"),
                          (["train.safetensors", "-o", "train.safetensors"], "train.safetensors")):
        box.refuses(USAGE, "sweep", *words, naming=naming)
    box.refuses(USAGE, "sweep", "train.safetensors", "--lambdas", "0.1x,,1x", naming="''")


@test
def sweeps_say_what_is_missing(box):
    make_data(box)
    box.write("bare.npy", npy([[float(i + j) for j in range(24)] for i in range(4)]))
    box.refuses(BAD_DATA, "sweep", "train.safetensors", "--test", "bare.npy", naming="with --test-labels")
    box.refuses(USAGE, "sweep", "train.safetensors", "-k", 121, naming="without fold 1 of 5: the 121 nearest rows")
    said = box.refuses(USAGE, "fit", "train.safetensors", "-o", "model.npy", naming="must end in .safetensors").err
    check("leave-one-out" not in said, f"the name is looked at after the work: {said}")


# --- the same bytes


@test
def the_same_choice_everywhere(box):
    make_data(box)
    wanted = None
    for threads in (1, 2, 5):
        for isa in ("plain", "auto"):
            box.works("fit", "train.safetensors", "--dim", "auto", "--threads", threads, "--isa", isa, "-o", "m.safetensors", "-q")
            made = box.read("m.safetensors")
            box.works("fit", "train.safetensors", "--method", "paper", "--threads", threads, "--isa", isa, "-o", "m.safetensors", "-q")
            swept = box.works("sweep", "train.safetensors", "-k", "1,3", "--metric", "both", "--threads", threads, "--isa", isa).out
            found = made, box.read("m.safetensors"), swept
            wanted = wanted or found
            equal(found == wanted, True, f"{threads} threads, {isa}")
