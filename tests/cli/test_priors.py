"""Priors: classes that are equally likely, or as likely as they are frequent among the training rows."""

import json
import math
import random

from files import f32, i32, safetensors
from harness import USAGE, check, equal, test

COUNTS = [40, 5, 12]
NAMES = ["many", "few", "some"]


def uneven(box, name="x.safetensors", counts=COUNTS, seed=3):
    """Classes of different sizes that overlap."""
    rng = random.Random(7)
    centres = [[rng.gauss(0, 1) for _ in range(6)] for _ in counts]
    rng = random.Random(seed)
    labels = [k for k, n in enumerate(counts) for _ in range(n)]
    rows = [[c + rng.gauss(0, 1.2) for c in centres[k]] for k in labels]
    box.write(name, safetensors({"embeddings": ("F32", [len(rows), 6], f32(rows)), "labels": ("I32", [len(rows)], i32(labels))},
                                metadata={"classes": json.dumps(NAMES[:len(counts)])}))


def answers(box, model, *words):
    return json.loads(box.works("classify", model, "q.safetensors", "--top", 3, "--json", *words).out)["answers"]


def about(box, model):
    return json.loads(box.works("info", "--json", model).out)


@test
def scores_of_smaller_classes_fall(box):
    uneven(box)
    uneven(box, "q.safetensors", [20, 20, 20], seed=9)
    for raw in ([], ["--no-normalize"]):
        fits = {}
        for priors in ("equal", "training"):
            box.works("fit", "x.safetensors", "--priors", priors, "--lambda", "0.5x", *raw, "-o", f"{priors}.safetensors")
            equal(about(box, f"{priors}.safetensors")["priors"], priors, "what the model says")
            check(f"priors       {priors}" in box.works("info", f"{priors}.safetensors").out, "info")
            fits[priors] = answers(box, f"{priors}.safetensors", "--probabilities")
        told = about(box, "training.safetensors")
        prior = float(told["metadata"]["prior"])
        check("prior" not in about(box, "equal.safetensors")["metadata"], "equal priors are no metadata")
        equal(f"{prior:.12g}", f"{2 / (57 - 3) if raw else 1 / told['temperature']:.12g}", "its unit")
        for one, other in zip(fits["equal"], fits["training"]):
            plain = dict(zip(one["classes"], one["scores"]))
            for k, score in zip(other["classes"], other["scores"]):
                less = prior * math.log(40 / COUNTS[NAMES.index(k)])
                want = math.sqrt(plain[k] ** 2 + less) if raw else plain[k] - less
                check(abs(score - want) < 1e-5, f"{k}: {score} is not {want}")
            e = [math.exp(told["temperature"] * (-s * s / 2 if raw else s)) for s in other["scores"]]
            check(all(abs(p - x / sum(e)) < 1e-9 for p, x in zip(other["probabilities"], e)), "probabilities")
        few = [sum(row["classes"][0] == "few" for row in fits[p]) for p in ("equal", "training")]
        check(few[0] > few[1], f"the smallest class is answered less often: {few}")
        right = sum(row["truth"] == row["classes"][0] for row in fits["training"])
        judged = json.loads(box.works("eval", "training.safetensors", "q.safetensors", "--json").out)
        equal(round(60 * judged["top1"]), right, "eval")


@test
def defaults(box):
    uneven(box)
    for words, priors in (([], "equal"), (["--no-normalize"], "training"), (["--no-normalize", "--method", "paper"], "equal")):
        said = json.loads(box.works("fit", "x.safetensors", *words, "--json", "-o", "a.safetensors").out)
        equal((said["priors"], about(box, "a.safetensors")["priors"]), (priors, priors), str(words))
        box.works("fit", "x.safetensors", *words, "--priors", priors, "-o", "b.safetensors", *["-q"])
        equal(box.read("a.safetensors") == box.read("b.safetensors"), True, "the same when asked for")


@test
def rows_left_out_see_them(box):
    uneven(box)
    told = [json.loads(box.works("fit", "x.safetensors", "--priors", p, "--lambda", "auto", "--json", "-o", "a.safetensors").out)
            for p in ("equal", "training")]
    check(told[0]["right"] < told[1]["right"], f"{told[0]['right']}, {told[1]['right']}: larger classes are likelier here")
    check(told[0]["by_lambda"]["points"][0]["loss"] > told[1]["by_lambda"]["points"][0]["loss"], "and so is the truth")


@test
def unknown_rows(box):
    uneven(box)
    uneven(box, "q.safetensors", [20, 20, 20], seed=9)
    uneven(box, "new.safetensors", [160], seed=4)
    for raw in ([], ["--no-normalize"]):
        box.works("fit", "x.safetensors", "--priors", "training", "--reject", 0.8, *raw, "-o", "m.safetensors")
        known = [row["known"] for row in answers(box, "m.safetensors")]
        check(0 < sum(known) < 60, f"{sum(known)} of 60 are known")
        box.works("add-class", "m.safetensors", "new", "new.safetensors", "-o", "n.safetensors")
        before, after = about(box, "m.safetensors"), about(box, "n.safetensors")
        more = float(before["metadata"]["prior"]) * math.log(160 / 40)
        want = math.sqrt(before["reject"] ** 2 + more) if raw else before["reject"] - more
        check(abs(after["reject"] - want) < 1e-9, "the threshold moves with the scores")


@test
def the_same_everywhere(box):
    uneven(box)
    for raw in ([], ["--no-normalize"]):
        wanted = None
        for threads in (1, 3):
            for isa in ("plain", "auto"):
                for words in (["--reject", "0.9"], ["--dim", "2"]):
                    box.works("fit", "x.safetensors", "--priors", "training", *raw, *words, "--threads", threads, "--isa", isa,
                              "-o", words[0] + ".safetensors", "-q")
                found = box.read("--reject.safetensors"), box.read("--dim.safetensors")
                wanted = wanted or found
                equal(found == wanted, True, f"{threads} threads, {isa}")
        if not raw:
            told = about(box, "./--dim.safetensors")
            equal(f"{float(told['metadata']['prior']):.9g}", f"{1 / told['temperature']:.9g}", "with fewer dimensions")


@test
def where_there_are_none(box):
    uneven(box)
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.works("stats", "x.safetensors", "--no-normalize", "-o", "r.safetensors")
    box.works("synth", "--classes", 3, "--dim", 8, "--per-class", 5, "-o", "y.safetensors", "--text", "t.safetensors", "-q")
    given = ["--priors", "training", "-o", "m.safetensors"]
    for words, naming in ((["x.safetensors", "--method", "paper"], "equally likely"),
                          (["y.safetensors", "--text", "t.safetensors"], "text cannot be combined with priors"),
                          (["s.safetensors"], "found from the rows themselves"),
                          (["x.safetensors", "--metric", "euclidean"], "equal priors only"),
                          (["x.safetensors", "--criterion", "accuracy"], "need a temperature"),
                          (["x.safetensors", "--dim", "auto"], "equal priors only"),
                          (["x.safetensors", "--priors", "mine"], "--priors must be equal or training")):
        box.refuses(USAGE, "fit", *(words + given if words[-1] != "mine" else words + given[2:]), naming=naming)
    box.works("fit", "r.safetensors", *given)
    equal(about(box, "m.safetensors")["priors"], "training", "distances need no temperature")
    box.refuses(USAGE, "sweep", "x.safetensors", "--priors", "training", naming="equal priors only")
    box.refuses(USAGE, "report", "x.safetensors", "--priors", "training", "-o", "r.html", naming="only with equal priors")
    box.works("fit", "x.safetensors", *given)
    box.refuses(USAGE, "report", "x.safetensors", "--model", "m.safetensors", "-o", "r.html", naming="only with equal priors")


@test
def sweeps_and_reports_of_distances(box):
    uneven(box)
    uneven(box, "q.safetensors", [20, 20, 20], seed=9)
    right = {}
    for priors in ("equal", "training"):
        box.works("fit", "x.safetensors", "--no-normalize", "--priors", priors, "--lambda", "0.3x", "-o", "m.safetensors")
        one = json.loads(box.works("eval", "m.safetensors", "q.safetensors", "--json").out)["top1"]
        swept = json.loads(box.works("sweep", "x.safetensors", "--test", "q.safetensors", "--no-normalize", "--priors", priors,
                                     "--lambdas", "0.3x", "--no-raw", "--format", "json").out)
        equal(swept["cells"][0]["top1"], one, priors)
        right[priors] = one
        box.works("report", "x.safetensors", "--test", "q.safetensors", "--no-normalize", "--priors", priors, "-o", "r.html")
    check(right["equal"] != right["training"], f"{right}")
