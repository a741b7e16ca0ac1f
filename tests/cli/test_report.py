"""koofu report: one page out of data."""

import json
import random
import re

from files import data_set, npy
from harness import BAD_DATA, IO, USAGE, check, equal, test


def make_data(box):
    box.works("synth", "--classes", 12, "--dim", 24, "--per-class", 8, "-o", "train.safetensors")
    box.works("synth", "--classes", 12, "--dim", 24, "--per-class", 6, "--split", 1, "-o", "test.safetensors")


SECTIONS = ("summary", "lambda", "dimensions", "neighbours", "map")
OF_ERRORS = ("classes", "confusions", "margins")


@test
def with_test_data(box):
    make_data(box)
    result = box.works("report", "train.safetensors", "--test", "test.safetensors", "--title", "Twelve <b>", "-o", "a.html")
    check("wrote a.html: 96 rows, 12 classes, 24 dimensions" in result.err and "top-1 accuracy: raw" in result.err, result.err)
    page = box.read("a.html").decode()
    for section in SECTIONS + OF_ERRORS:
        check(f'id="{section}"' in page, f"{section} is not in the page")
    check("Twelve &lt;b&gt;" in page and "Twelve <b>" not in page, "the title")
    check("of 72 test rows" in page and "train.safetensors" in page and "c0003" in page, "what it is about")
    costs = re.search(r"What fewer dimensions cost</h3>.*?</table>", page, re.S).group(0)
    shown = [int(dim) for dim in re.findall(r"<tr[^>]*><td>(\d+)</td>", costs)]
    check(shown == sorted(shown, reverse=True) and {24, 12, 11, 6, 3} <= set(shown), f"dimensions whose cost is shown: {shown}")
    check("Optimistic" not in page and "in folds that their map has not seen, <b>k = " in page, "what is said about k")
    box.works("report", "train.safetensors", "--test", "test.safetensors", "--title", "Twelve <b>", "-o", "b.html",
              "--threads", 1, "--isa", "plain")
    equal(box.read("b.html"), page.encode(), "the page on one thread and with plain kernels")


@test
def with_folds(box):
    make_data(box)
    box.works("report", "train.safetensors", "--dims", "4,8,24", "--dim", 8, "-k", "1,3", "-o", "page.html")
    page = box.read("page.html").decode()
    for section in (*SECTIONS, *OF_ERRORS):
        check(f'id="{section}"' in page, f"{section} is not in the page")
    check(page.count("These are 96 training rows, each <b>left out</b> in turn, with all 24 dimensions.") == 4, "left out")
    check("test rows</dt>" not in page and "test rows, " not in page, "there are no test rows")
    check("of 96 held-out rows" in page and "3-NN" in page and "24 → 8" in page, "what was asked for")
    box.works("report", "train.safetensors", "--dims", "4,8,24", "--dim", 8, "-k", "1,3", "-o", "b.html", "--threads", 1, "--isa", "plain")
    equal(box.read("b.html"), page.encode(), "the page on one thread and with plain kernels")
    check("λ was chosen on the same rows" in page, "dimensions that were given are not called chosen")
    box.works("report", "train.safetensors", "--dim", "auto", "--margin", 50, "-o", "auto.html")
    check("λ and the number of dimensions were chosen on the same rows" in box.read("auto.html").decode(), "chosen dimensions")


@test
def of_a_model(box):
    make_data(box)
    box.works("fit", "train.safetensors", "--lambda", "2x", "--dim", 6, "--no-normalize", "-o", "model.safetensors")
    box.works("report", "train.safetensors", "--model", "model.safetensors", "--test", "test.safetensors", "-o", "page.html")
    page = box.read("page.html").decode()
    check("24 → 6" in page and "= 2x" in page, "dimensions and lambda of the model")


def share(value):
    """As the page writes it."""
    return f"{100 * value:.2f}\u202f%"


def summary(page):
    """Space and classifier, and the top-1 accuracy, of each line of the first table."""
    table = page.split('<table class="results">')[1].split("</table>")[0]
    return dict(re.findall(r'<th scope="row">(.*?) *</span></th><td>.*?</td><td>(.*?)<small>', table.replace(" <span>", " ")))


@test
def with_text(box):
    box.works("synth", "--classes", 12, "--dim", 24, "--per-class", 8, "-o", "train.safetensors", "--text", "text.safetensors", "-q")
    box.works("synth", "--classes", 12, "--dim", 24, "--per-class", 6, "--split", 1, "-o", "test.safetensors", "-q")
    words = ["report", "train.safetensors", "--test", "test.safetensors"]
    said = box.works(*words, "--text", "text.safetensors", "-o", "a.html").err
    page = box.read("a.html").decode()
    for section in SECTIONS + OF_ERRORS + ("text",):
        check(f'id="{section}"' in page, f"{section} is not in the page")
    box.works("fit", "train.safetensors", "--text", "text.safetensors", "-o", "f.safetensors", "-q")
    alone = json.loads(box.works("eval", "f.safetensors", "test.safetensors", "--errors", "--json").out)
    lines = summary(page)
    for name, figure in (("raw prototypes", "raw_top1"), ("Koo-Fu prototypes", "prototypes_top1"), ("raw text (zero-shot)", "model_text_top1"),
                         ("Koo-Fu prototypes and text", "fused_top1")):
        equal(lines[name], share(alone[figure]), name)
    check(f"text and prototypes together {100 * alone['fused_top1']:.2f} %" in said, said)
    zero = json.loads(box.works("eval", "f.safetensors", "test.safetensors", "--text", "text.safetensors", "--json").out)
    equal(lines["Koo-Fu text (zero-shot)"], share(zero["text_top1"]), "zero-shot in the model's space")
    check(f"<dt>α</dt><dd>{alone['alpha']:g}<" in page, "alpha")
    right = sum(bin["top1"] for bin in alone["margins"])
    equal(right, round(alone["fused_top1"] * alone["n"]), "eval --errors is about both together")
    worst = alone["worst_classes"][0]
    check(f"<bdi>{worst['class']}</bdi></th><td>{worst['top1']} of {worst['n']}</td>" in page, "the worst class of both together")
    box.works(*words, "--model", "f.safetensors", "-o", "b.html")  # whose text is in the model
    equal(summary(box.read("b.html").decode()), lines, "a page of the model")
    box.works(*words, "--text", "text.safetensors", "--fuse", "0.25", "--lambda", "2x", "--dim", 7, "-o", "c.html")
    box.works("fit", "train.safetensors", "--text", "text.safetensors", "--fuse", "0.25", "--lambda", "2x", "--dim", 7, "-o", "g.safetensors", "-q")
    page = box.read("c.html").decode()
    given = json.loads(box.works("eval", "g.safetensors", "test.safetensors", "--json").out)
    equal(summary(page)["Koo-Fu prototypes and text"], share(given["fused_top1"]), "alpha and lambda as given")
    check("<dt>α</dt><dd>0.25<" in page and "= 2x" in page and "24 → 7" in page, "what was given")
    check(f"with λ = {given['lambda']:.4g} and α = " in page, "alpha is left out at the lambda that was given")
    box.works("report", "train.safetensors", "--model", "g.safetensors", "-k", "1", "--dims", "24", "-o", "g.html", "-q")
    swept = json.loads(box.works("sweep", "train.safetensors", "--text", "text.safetensors", "--fuse", "0.25", "--lambdas", "2x",
                                 "--dims", "7", "--json").out)["cells"]
    folds = {cell["alpha"]: cell["top1"] for cell in swept if cell["text"] == "fused"}
    equal(summary(box.read("g.html").decode())["Koo-Fu prototypes and text"], share(folds[0.25]), "folds with the model's alpha")
    box.works("report", "train.safetensors", "--text", "text.safetensors", "-k", "1", "--dims", "24", "-o", "d.html")  # folds
    page = box.read("d.html").decode()
    check("together are right for" in page and "of 96 held-out rows" in page, "both together in folds")
    box.works("fit", "train.safetensors", "-o", "m.safetensors", "-q")
    box.works(*words, "--model", "m.safetensors", "--text", "text.safetensors", "-o", "e.html")  # a model that knows none
    lines = summary(box.read("e.html").decode())
    check("raw text (zero-shot)" in lines and "Koo-Fu prototypes and text" not in lines, f"{lines}")
    for bad, naming in ((["--fuse", "1"], "--fuse needs --text"), (["--text", "text.safetensors", "--no-normalize"], "--no-normalize"),
                        (["--text", "text.safetensors", "--fuse", "much"], "--fuse must be auto or a number"),
                        (["--model", "f.safetensors", "--text", "text.safetensors", "--fuse", "1"], "--fuse")):
        box.refuses(USAGE, *words, *bad, "-o", "page.html", naming=naming)


@test
def settings_as_in_fit(box):
    make_data(box)
    words = ["report", "train.safetensors", "--test", "test.safetensors", "--dims", "24", "-k", "1"]
    for options in (["--lambda", "3x"], ["--one-se"], ["--lambda", "ledoit-wolf"], ["--no-normalize"],
                    ["--no-normalize", "--exponent", "20", "--lambda", "gda"]):
        box.works(*words, *options, "--dim", 9, "-o", "page.html", "-q")
        box.works("fit", "train.safetensors", *options, "--dim", 9, "-o", "m.safetensors", "-q")
        alone = json.loads(box.works("eval", "m.safetensors", "test.safetensors", "--json").out)
        page = box.read("page.html").decode()
        equal([summary(page)[name] for name in ("raw prototypes", "Koo-Fu prototypes")],
              [share(alone["raw_top1"]), share(alone["top1"])], f"{options}")
        check(f"{alone['lambda']:.4g} = " in page, f"{options}: lambda {alone['lambda']:.4g}")
    kept = []
    for scale in ("0.001x", "0.3x", "30x"):
        auto = ["--lambda", scale, "--dim", "auto", "--margin", 12]
        box.works("report", "train.safetensors", *auto, "--dims", "24", "-k", "1", "-o", "page.html", "-q")
        box.works("fit", "train.safetensors", *auto, "-o", "m.safetensors", "-q")
        kept.append(json.loads(box.works("info", "m.safetensors", "--json").out)["dim_out"])
        check(f"24 → {kept[-1]}<" in box.read("page.html").decode(), f"{scale}: {kept[-1]} dimensions")
    check(len(set(kept)) > 1, f"{kept}: lambda makes no difference")
    box.works("fit", "train.safetensors", "-o", "m.safetensors", "-q")
    for option in (["--lambda", "1"], ["--one-se"], ["--no-normalize"], ["--dim", "auto"]):
        box.refuses(USAGE, *words, "--model", "m.safetensors", *option, "-o", "page.html", naming=option[0])
    box.refuses(USAGE, *words, "--lambda", "much", "-o", "page.html", naming="much")
    box.refuses(USAGE, *words, "--lambda", "1", "--one-se", "-o", "page.html", naming="--one-se needs --lambda auto")


@test
def judged_by_a_truth(box):
    make_data(box)
    words = ["report", "train.safetensors", "--test", "test.safetensors", "--dim", 9, "--dims", "9,24", "-k", "1"]
    box.write("truth.txt", "".join(f"c{i % 12:04d},c{(i + 1) % 12:04d}\n" if i % 5 else "\n" for i in range(72)).encode())
    box.works("fit", "train.safetensors", "--dim", 9, "-o", "m.safetensors", "-q")
    alone = json.loads(box.works("eval", "m.safetensors", "test.safetensors", "--truth", "truth.txt", "--errors", "--json").out)
    box.works(*words, "--truth", "truth.txt", "--shots", 2, "--seeds", 1, "-o", "page.html", "-q")
    page = box.read("page.html").decode()
    equal(summary(page)["Koo-Fu prototypes"], share(alone["top1"]), "by a truth")
    swept = json.loads(box.works("sweep", "train.safetensors", "--test", "test.safetensors", "--truth", "truth.txt", "--dims", "9",
                                 "-k", "1", "--lambdas", alone["lambda"], "--json").out)["cells"]
    for cell in swept:
        if cell["k"]:
            name = f"{'raw' if cell['space'] == 'raw' else 'Koo-Fu'} 1-NN"
            equal(summary(page)[name], share(cell["top1"]), f"{name} by a truth")
    for worst in alone["worst_classes"][:3]:
        check(f"<bdi>{worst['class']}</bdi></th><td>{worst['top1']} of {worst['n']}</td>" in page, f"{worst} by a truth")
    check(f"Of 72 test rows, {alone['n_excluded']} were left out: {alone['n_excluded']} without a right class in the truth" in page, "left out")
    plain = json.loads(box.works("eval", "m.safetensors", "test.safetensors", "--json").out)
    check(alone["top1"] != plain["top1"], "the truth makes no difference")
    box.refuses(USAGE, "report", "train.safetensors", "--truth", "truth.txt", "-o", "page.html", naming="--truth needs --test")
    box.refuses(USAGE, *words, "--ids", "truth.txt", "-o", "page.html", naming="--ids needs --truth")


@test
def refusals(box):
    make_data(box)
    box.works("fit", "train.safetensors", "-o", "model.safetensors")
    box.refuses(USAGE, "report", "train.safetensors", naming="-o")
    box.refuses(USAGE, "report", "-o", "page.html", naming="missing argument: DATA")
    box.refuses(USAGE, "report", "train.safetensors", "-o", "-", naming="file name")
    box.refuses(USAGE, "report", "train.safetensors", "-o", "train.safetensors", naming="is both an input and the output")
    box.refuses(USAGE, "report", "train.safetensors", "--test", "test.safetensors", "-o", "test.safetensors",
                naming="is both an input and the output")
    box.refuses(USAGE, "report", "train.safetensors", "--test-labels", "y.txt", "-o", "page.html", naming="--test")
    box.write("bare.npy", npy([[float(i + j + 1) for j in range(24)] for i in range(4)]))
    box.refuses(BAD_DATA, "report", "train.safetensors", "--test", "bare.npy", "-o", "page.html", naming="with --test-labels")
    box.refuses(USAGE, "report", "train.safetensors", "--model", "model.safetensors", "--dim", 3, "-o", "page.html",
                naming="--dim")
    box.refuses(IO, "report", "train.safetensors", "-o", "absent/page.html", naming="absent/page.html")
    box.refuses(IO, "report", "absent.npy", "-o", "page.html", naming="absent.npy")


@test
def notes_are_said_once(box):
    names = [f"class {k}" for k in range(12)]
    box.write("train.safetensors", data_set(n=96, dim=12, classes=12))
    box.write("test.safetensors", data_set(n=36, dim=12, classes=12, seed=2))
    box.write("text.safetensors", data_set(n=12, dim=12, classes=12, seed=3, names=names[:10] + ["cow", "hen"]))
    said = box.works("report", "train.safetensors", "--test", "test.safetensors", "--text", "text.safetensors",
                     "--shots", "1,2", "-o", "page.html").err
    for note in ("2 of the 12 classes of the training data are not in the text", "2 of the 12 classes of the text are not in"):
        equal(said.count(note), 1, f"how often is said: {note}\n{said}")


@test
def near_duplicates_are_told(box):
    box.works("synth", "--classes", 12, "--dim", 64, "--per-class", 12, "-o", "honest.safetensors", "-q")
    box.write("copy.safetensors", box.read("honest.safetensors"))  # the same file twice is refused
    box.works("convert", "honest.safetensors", "copy.safetensors", "-o", "twice.safetensors", "-q")
    for name, warned in (("honest.safetensors", False), ("twice.safetensors", True)):
        for words in (["fit", name, "-o", "m.safetensors"], ["report", name, "-o", "page.html"]):
            said = box.works(*words).err
            found = re.search(r"warning: (\d+) of (\d+) rows checked have a nearly equal row in their class.*--groups FILE", said)
            equal(found is not None, warned, f"{words}: a warning\n{said}")
            if warned:
                equal(found.groups(), ("288", "288"), "every row has its copy")
    quiet = box.works("fit", "twice.safetensors", "--lambda", "0.3x", "-o", "m.safetensors").err
    check("warning" not in quiet, f"nothing was left out: {quiet}")


def cells(page):
    """Every line of the table of the sweep: what it is, rows, and its top-1 accuracy and interval in per cent."""
    table = page.split("of the sweep as a table")[1].split("</table>")[0]
    found = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td><td>(\d+)</td><td>(.*?)</td><td>([\d.]+).*?</td><td class="soft">([\d.]+)–([\d.]+)</td>', table)
    return {line[:4]: tuple(float(x) for x in line[4:]) for line in found}


def sampled(box, n, *words):
    """The page and JSON of all rows, and of a sample of n; nearly all figures of all rows lie in the intervals of the sample."""
    pages, said = [], []
    for name, more in (("all.html", []), ("some.html", ["--sample", n])):
        result = box.works("report", *words, *more, "--json", "-o", name)
        pages.append(box.read(name).decode())
        said.append((json.loads(result.out), result.err))
    whole, part = map(cells, pages)
    equal([line[:3] for line in whole], [line[:3] for line in part], "the settings shown")
    inside = [part[line][1] <= whole[match][0] <= part[line][2] for line, match in zip(part, whole)]
    check(len(inside) >= 25 and sum(inside) >= 0.95 * len(inside), f"{sum(inside)} of {len(inside)} figures lie in the intervals of {n} rows")
    (all_rows, _), (some, text) = said
    equal((all_rows["sweep_n"], all_rows["sweep_error95"], some["sweep_n"], some["sweep_rows"]), (some["sweep_rows"], 0, n, all_rows["sweep_n"]), "sizes")
    points = f"{100 * some['sweep_error95']:.2f} points"
    check(f"a sample of {n:,} of {some['sweep_rows']:,} rows" in text and points in text and "95 %" in text, text)
    check(pages[1].count(f"judged on a sample of {n:,} of {some['sweep_rows']:,} rows") >= 3 and f"within {points}" in pages[1], "the page says so")
    check("judged on a sample" not in pages[0] and "a sample of" not in said[0][1], "a page about all rows speaks of a sample")
    return all_rows, some


@test
def samples(box):
    box.works("synth", "--classes", 20, "--dim", 32, "--per-class", 200, "-o", "train.safetensors")
    box.works("synth", "--classes", 20, "--dim", 32, "--per-class", 200, "--split", 1, "-o", "test.safetensors")
    whole, some = sampled(box, 700, "train.safetensors")
    check(some["raw_top1_low"] <= whole["raw_top1"] <= some["raw_top1_high"] and some["top1_low"] <= whole["top1"] <= some["top1_high"]
          and some["judged"] == "folds" and some["n"] == 700, f"{whole} {some}")
    whole, some = sampled(box, 900, "train.safetensors", "--test", "test.safetensors")
    for key in ("n", "top1", "raw_top1", "judged", "lambda"):
        equal(some[key], whole[key], f"{key}: all test rows are judged once")
    first = box.read("some.html")
    for threads in (1, 3):
        box.works("report", "train.safetensors", "--test", "test.safetensors", "--sample", 900, "--threads", threads, "-o", "again.html", "-q")
        equal(box.read("again.html"), first, f"the sample with {threads} threads")


@test
def samples_of_unequal_classes(box):
    """One class with nearly all rows, which is easy, and many small ones that are not."""
    rng = random.Random(4)
    labels = [i // 12 for i in range(1440)] + [120] * 3000
    centres = [[rng.gauss(0, 0.6) for _ in range(24)] for _ in range(120)] + [[4.0] * 24]
    box.write("x.npy", npy([[c + rng.gauss(0, 1) for c in centres[k]] for k in labels]))
    box.write("y.txt", "".join(f"c{k:03d}\n" for k in labels))
    whole, some = sampled(box, 100, "x.npy", "--labels", "y.txt")
    check(some["top1_low"] <= whole["top1"] <= some["top1_high"], f"{whole['top1']} is not in {some['top1_low']} to {some['top1_high']}")


@test
def without_neighbours(box):
    make_data(box)
    box.works("report", "train.safetensors", "--no-neighbours", "-o", "page.html")
    page = box.read("page.html").decode()
    check("-NN" not in page and "Choosing k" not in page and 'id="dimensions"' in page, "a page without neighbours")
    box.refuses(USAGE, "report", "train.safetensors", "--no-neighbours", "-k", 3, "-o", "page.html", naming="--no-neighbours")
