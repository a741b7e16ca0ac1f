"""Probabilities and their calibration, rows of unknown classes, and wrong answers."""

import csv
import io
import json
import math
import re

from files import data_set, f32, i32, npy, safetensors, world
from harness import USAGE, check, equal, test
from photos import CLIP, photos

NAMES = ["plain", 'a "b", c', "tab\there"]


def fit(box, *words, seed=1, n=60):
    box.write("x.safetensors", data_set(n=n, seed=seed, names=NAMES))
    return box.works("fit", "x.safetensors", "-o", "m.safetensors", *words)


def overlapping(box, n=240):
    """Data that a model gets partly wrong, with ids."""
    rows, labels = world(n, dim=6, classes=3, seed=5)
    rows = [[0.6 * x + 1 for x in row] for row in rows]
    ids = [f"row {i}, \"{i % 7}\"" for i in range(n)]
    ends = [sum(len(x.encode()) for x in ids[:i + 1]) for i in range(n)]
    text = "".join(ids).encode()
    box.write("y.safetensors", safetensors(
        {"embeddings": ("F32", [n, 6], f32(rows)), "labels": ("I32", [n], i32([(k + (i % 6 == 0)) % 3 for i, k in enumerate(labels)])),
         "id_bytes": ("U8", [len(text)], text), "id_ends": ("I64", [n], b"".join(e.to_bytes(8, "little") for e in ends))},
        metadata={"classes": json.dumps(NAMES), "format": "koofu.data"}))
    box.works("fit", "y.safetensors", "-o", "w.safetensors")
    return ids


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def rows_of(out):
    return json.loads(out)["answers"]


@test
def probabilities_beside_scores(box):
    fit(box)
    temperature = json.loads(box.works("info", "--json", "m.safetensors").out)["temperature"]
    check(temperature > 0 and "temperature" in box.works("info", "m.safetensors").out, "a fit from rows has a temperature")
    for row in rows_of(box.works("classify", "m.safetensors", "x.safetensors", "--probabilities", "--json").out):
        e = [math.exp(temperature * (s - row["scores"][0])) for s in row["scores"]]
        for got, want in zip(row["probabilities"], e):
            check(abs(got - want / sum(e)) < 1e-12, f"softmax: {row}")
        equal(row["truth"], NAMES[row["row"] % 3], "truth")
    text = box.works("classify", "m.safetensors", "x.safetensors", "--probabilities", "--top", 1).out
    equal(text.splitlines()[0], "row\tclass1\tcosine1\tprobability1\ttruth", "header")
    flat = rows_of(box.works("classify", "m.safetensors", "x.safetensors", "--probabilities", "--json", "--temperature", "1e-9").out)
    check(all(abs(p - 1 / 3) < 1e-6 for row in flat for p in row["probabilities"]), "any temperature can be given")


@test
def no_temperature(box):
    fit(box)
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.works("fit", "s.safetensors", "-o", "n.safetensors")
    check("temperature" not in box.works("info", "n.safetensors").out, "statistics give no temperature")
    box.refuses(USAGE, "classify", "n.safetensors", "x.safetensors", "--probabilities",
                naming=["no temperature", "--temperature"])
    box.refuses(USAGE, "classify", "m.safetensors", "x.safetensors", "--probabilities", "--raw", naming="not of these scores")
    box.refuses(USAGE, "classify", "m.safetensors", "x.safetensors", "--temperature", 2, naming="--probabilities")
    box.works("index", "x.safetensors", "-o", "g.safetensors")
    box.refuses(USAGE, "classify", "m.safetensors", "x.safetensors", "--probabilities", "--gallery", "g.safetensors", naming="--gallery")
    check("probabilities" not in box.works("eval", "n.safetensors", "x.safetensors").out, "eval without a temperature")
    check("probabilities" not in box.works("eval", "m.safetensors", "x.safetensors", "--raw").out, "eval of the original space")
    check("probabilities" in box.works("eval", "n.safetensors", "x.safetensors", "--temperature", 5).out, "eval at a given temperature")


@test
def commas(box):
    fit(box)
    box.works("classify", "m.safetensors", "x.safetensors", "--top", 2, "-o", "a.csv")
    box.works("classify", "m.safetensors", "x.safetensors", "--top", 2, "-o", "a.tsv")
    table = list(csv.reader(io.StringIO(box.read("a.csv").decode(), newline="")))
    tabs = [line.split("\t") for line in box.read("a.tsv").decode().splitlines()]
    equal(table[0], ["row", "class1", "cosine1", "class2", "cosine2", "truth"], "header")
    equal({row[1] for row in table[1:]}, set(NAMES), "names come back as they are")
    equal([[f.replace("\t", "\\t") for f in row] for row in table], tabs, "both tables hold the same")
    for name in ("p.csv", "p.tsv"):
        box.works("eval", "m.safetensors", "x.safetensors", "--per-class", name, "--confusions", "c" + name)
    equal(list(csv.reader(io.StringIO(box.read("p.csv").decode())))[2][:2], [NAMES[1], "20"], "--per-class with commas")
    equal(box.read("p.tsv").decode().splitlines()[2].split("\t")[:2], [NAMES[1], "20"], "--per-class with tabs")
    equal(box.read("cp.csv").decode().splitlines()[0], "rows,class,answer", "--confusions with commas")


@test
def truth_of_labelled_rows(box):
    fit(box)
    result = box.works("classify", "m.safetensors", "x.safetensors", "--json")
    right = sum(row["classes"][0] == row["truth"] for row in rows_of(result.out))
    check(f"right for {100 * right / 60:.2f} % of 60 rows with a label" in result.err, result.err)
    equal(box.works("classify", "m.safetensors", "x.safetensors", "--json", "-q").err, "", "-q")
    rows, labels = world()
    box.write("r.npy", npy(rows))
    box.write("y.txt", "".join(["\n" if i == 3 else f"{NAMES[k]}\n" for i, k in enumerate(labels)]))
    bare = box.works("classify", "m.safetensors", "r.npy")
    check("truth" not in bare.out and "right" not in bare.err, "rows without labels")
    some = box.works("classify", "m.safetensors", "r.npy", "--labels", "y.txt", "--json")
    check("truth" not in rows_of(some.out)[3] and "of 59 rows" in some.err, "a row without a label")


@test
def rows_that_went_wrong(box):
    ids = overlapping(box)
    result = json.loads(box.works("eval", "w.safetensors", "y.safetensors", "--json", "--wrong", "w.jsonl").out)
    wrong = lines(box.read("w.jsonl").decode())
    answers = rows_of(box.works("classify", "w.safetensors", "y.safetensors", "--json", "--probabilities", "--top", 3).out)
    want = [row for row in answers if row["truth"] != row["classes"][0]]
    equal(len(wrong), 240 - round(result["top1"] * 240), "as many as eval counts")
    check(len(wrong) > 20, "some are wrong")
    for got, row in zip(wrong, want):
        equal((got["row"], got["id"]), (row["row"], ids[row["row"]]), "row and id")
        equal((got["truth"], got["answer"]), (row["truth"], row["classes"][0]), "truth and answer")
        equal((got["score"], got["probability"]), (row["scores"][0], row["probabilities"][0]), "score and probability")
        equal(got["margin"], row["scores"][0] - row["scores"][1], "margin")
        check(abs(got["truth_probability"] - row["probabilities"][row["classes"].index(row["truth"])]) < 1e-12, "of the truth")
    box.works("eval", "w.safetensors", "y.safetensors", "--wrong", "w.csv")
    table = list(csv.DictReader(io.StringIO(box.read("w.csv").decode(), newline="")))
    equal([(int(r["row"]), r["id"], r["truth"], r["answer"]) for r in table],
          [(r["row"], r["id"], r["truth"], r["answer"]) for r in wrong], "with commas")
    box.works("eval", "w.safetensors", "y.safetensors", "--wrong", "w.txt", "--raw")
    check("probability" not in box.read("w.txt").decode().splitlines()[0], "no temperature in the original space")
    box.refuses(USAGE, "eval", "w.safetensors", "y.safetensors", "--wrong", "-", naming="--wrong")
    box.refuses(USAGE, "eval", "w.safetensors", "y.safetensors", "--wrong", "a.tsv", "--per-class", "a.tsv", naming="a.tsv")


@test
def calibration(box):
    overlapping(box)
    answers = rows_of(box.works("classify", "w.safetensors", "y.safetensors", "--json", "--probabilities", "--top", 3).out)
    got = json.loads(box.works("eval", "w.safetensors", "y.safetensors", "--json").out)["calibration"]
    nll = brier = 0
    bins = [[0, 0, 0.0] for _ in range(15)]
    for row in answers:
        p = dict(zip(row["classes"], row["probabilities"]))
        nll -= math.log(p[row["truth"]]) / 240
        brier += sum((q - (name == row["truth"])) ** 2 for name, q in p.items()) / 240
        at = bins[math.ceil(row["probabilities"][0] * 15) - 1]
        at[0] += 1
        at[1] += row["classes"][0] == row["truth"]
        at[2] += row["probabilities"][0]
    check(abs(got["nll"] - nll) < 1e-9 and abs(got["brier"] - brier) < 1e-9, f"{got}: {nll}, {brier}")
    check(abs(got["ece"] - sum(abs(b[1] - b[2]) for b in bins) / 240) < 1e-9, "calibration error")
    equal([(b["n"], b["top1"]) for b in got["bins"]], [(b[0], b[1]) for b in bins], "bins")
    text = box.works("eval", "w.safetensors", "y.safetensors").out
    check(f"negative log-likelihood {nll:.4f}, Brier score {brier:.4f}" in text and "calibration error" in text, text)
    check("calibration" not in box.works("eval", "w.safetensors", "y.safetensors", "--no-calibration").out, "--no-calibration")
    more = json.loads(box.works("eval", "w.safetensors", "y.safetensors", "--json", "--errors").out)
    equal(more["calibration"], got, "with errors by class")


@test
def unknown_rows(box):
    result = fit(box, "--reject", "0.9", n=90)
    check("which 90 % of known rows reach" in result.err, result.err)
    info = json.loads(box.works("info", "--json", "m.safetensors").out)
    equal(info["reject_share"], 0.9, "share")
    threshold = info["reject"]
    rows = rows_of(box.works("classify", "m.safetensors", "x.safetensors", "--json").out)
    for row in rows:
        equal(row["known"], row["scores"][0] >= threshold, "known")
    check(sum(row["known"] for row in rows) >= 81, "most rows are known")
    far, _ = world(30, seed=99)
    box.write("far.npy", npy([[-x for x in row] for row in far]))
    result = box.works("classify", "m.safetensors", "far.npy", "--top", 1)
    table = [line.split("\t") for line in result.out.splitlines()]
    equal(table[0], ["row", "class1", "cosine1", "known"], "header")
    unknown = sum(line[3] == "unknown" for line in table[1:])
    check(unknown > 0 and f"{unknown} row" in result.err and "of no known class" in result.err, result.err)
    check(all(line[1] for line in table), "the answer is shown all the same")
    judged = json.loads(box.works("eval", "m.safetensors", "x.safetensors", "--unknown", "far.npy", "--json").out)["open_set"]
    equal((round(judged["kept"] * 90), round(judged["refused"] * 30)), (sum(row["known"] for row in rows), unknown), "eval --unknown")
    for words in (["--no-reject"], ["--raw"], ["--metric", "euclidean"]):
        check("known" not in box.works("classify", "m.safetensors", "far.npy", "--top", 1, *words).out, f"{words}: no threshold")
    box.works("add-class", "m.safetensors", "far", "far.npy", "-o", "n.safetensors")
    equal(json.loads(box.works("info", "--json", "n.safetensors").out)["reject"], threshold, "one more class keeps it")


@test
def reject_is_a_share(box):
    fit(box)
    for share, naming in (("1", "must be between 0 and 1"), ("95", "must be between 0 and 1"), ("0", "--reject"), ("x", "--reject")):
        box.refuses(USAGE, "fit", "x.safetensors", "--reject", share, "-o", "r.safetensors", naming=naming)
    box.refuses(USAGE, "fit", "x.safetensors", "--reject", "0.9", "--dim", 2, "-o", "r.safetensors", naming="all dimensions")
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.refuses(USAGE, "fit", "s.safetensors", "--reject", "0.9", "-o", "r.safetensors", naming="from the rows themselves")


@test
def in_the_report(box):
    overlapping(box)
    box.works("report", "y.safetensors", "--test", "y.safetensors", "-o", "page.html")
    page = box.read("page.html").decode()
    check('id="probabilities"' in page and "expected calibration error" in page, "probabilities")
    worst = page[page.index('id="worst"'):]
    check(worst.count("<tr><th") == 12 and "row 0, &quot;0&quot;" in page or "&quot;" in worst, "ids are escaped")
    check("<img" not in page and "img-src" not in page, "no pictures")
    margins = [float(m) for m in re.findall(r"<td>([0-9.]+)</td>", worst)]
    equal(margins, sorted(margins, reverse=True), "the widest margin first")


@test
def pictures_of_the_worst(box):
    paths = photos(box, "p", ["ant", "owl"], 6)
    box.write("list.txt", "".join(f"{path}\t{'owl' if i % 4 == 1 else path.split('/')[1]}\n" for i, path in enumerate(paths)))
    box.works("embed", CLIP, "p", "-o", "x.safetensors")
    box.works("embed", CLIP, "--list", "list.txt", "-o", "t.safetensors")
    box.works("report", "x.safetensors", "--test", "t.safetensors", "-o", "page.html")
    page = box.read("page.html").decode()
    check('<img src="data:image/' in page and "img-src data:" in page, "thumbnails")
    check("<script" not in page, "no script")
