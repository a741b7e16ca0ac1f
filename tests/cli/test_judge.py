"""Right classes, class sets, errors by class, and comparing two classifiers."""

import json

from harness import BAD_DATA, IO, USAGE, check, equal, test
from files import data_set, f32, i32, npy, safetensors, world

NAMES = ["class 0", "class 1", "class 2"]


def with_model(box, n=60):
    """A model with names, data with labels, and the answers of the model."""
    box.write("x.safetensors", data_set(n=n))
    box.works("fit", "x.safetensors", "-o", "m.safetensors", "-q")
    lines = box.works("classify", "m.safetensors", "x.safetensors", "--top", 3).out.splitlines()[1:]
    return [line.split("\t")[1::2] for line in lines]


def evaluate(box, *words):
    return json.loads(box.works("eval", "m.safetensors", "x.safetensors", "--json", *words).out)


def share(result, name):
    return round(result[name] * result["n"])


@test
def truth_of_three_kinds(box):
    answers = with_model(box)
    sets = [[] if i % 5 == 0 else [i % 3] if i % 2 else [i % 3, (i + 1) % 3] for i in range(60)]
    box.write("names.txt", "".join(n + "\n" for n in NAMES))
    box.write("real.json", json.dumps(sets))
    box.write("t.txt", "".join(",".join(NAMES[k] for k in right) + "\n" for right in sets))
    order = list(range(59, -1, -1))
    box.write("clean.csv", "proposed_labels,id\n" + "".join(
        f'"{", ".join(map(str, sets[i]))}",x_val_{i + 1:08d}.JPEG\n' for i in order if sets[i]))
    box.write("ids.txt", "".join(f"val/x_val_{i + 1:08d}.JPEG\n" for i in range(60)))
    scored = [(a, [NAMES[k] for k in right]) for a, right in zip(answers, sets) if right]
    top1 = sum(a[0] in right for a, right in scored)
    names = ["--truth-classes", "names.txt"]
    for words in (["--truth", "real.json", *names], ["--truth", "t.txt"],
                  ["--truth", "real.json", *names, "--ids", "ids.txt"],
                  ["--truth", "clean.csv", *names, "--ids", "ids.txt"]):
        result = evaluate(box, *words)
        equal((result["n"], result["n_excluded"]), (48, 12), f"rows with {words}")
        equal((share(result, "top1"), share(result, "top5")), (top1, 48), f"hits with {words}")
        equal(result["truth"], words[1], "the truth is named")
    text = box.works("eval", "m.safetensors", "x.safetensors", "--truth", "t.txt").out
    check("12 that the truth has no class for" in text, text)


@test
def truth_needs_no_labels(box):
    with_model(box)
    rows, labels = world(60)
    box.write("rows.npy", npy(rows))
    box.write("t.txt", "".join(f"class {k}\n" for k in labels))
    by_truth = json.loads(box.works("eval", "m.safetensors", "rows.npy", "--truth", "t.txt", "--json").out)
    by_label = evaluate(box)
    for name in ("n", "top1", "raw_top1"):
        equal(by_truth[name], by_label[name], name)


@test
def truth_that_does_not_fit(box):
    with_model(box)
    box.write("ids.txt", "a\n" * 60)
    cases = [("short.json", "[[1]]", "has entries for 1 rows, but the data have 60"),
             ("cut.json", "[[1], [2", "not valid JSON at its byte 8"),
             ("numbers.json", json.dumps([[0]] * 60), "--truth-classes"),
             ("empty.txt", "\n" * 60, "none of the 60 rows"),
             ("other.txt", "cow\n" * 60, "none of the 60 rows"),
             ("bad.csv", "id,x\na,1\n", "bad.csv: the header line has no column"),
             ("twice.csv", "id,labels\na.png,class 0\nb/a.JPEG,class 0\n", "line 3 repeats the id 'a' of line 2")]
    for name, text, cause in cases:
        box.write(name, text)
        ids = ["--ids", "ids.txt"] if name == "twice.csv" else []
        box.refuses(BAD_DATA, "eval", "m.safetensors", "x.safetensors", "--truth", name, *ids, naming=cause)
    box.refuses(IO, "eval", "m.safetensors", "x.safetensors", "--truth", "absent.json", naming="absent.json")
    for words in (["--ids", "ids.txt"], ["--truth-classes", "ids.txt"]):
        box.refuses(USAGE, "eval", "m.safetensors", "x.safetensors", *words, naming="--truth")


@test
def class_sets(box):
    answers = with_model(box)
    box.write("two.txt", "class 2\nclass 0\n")
    result = evaluate(box, "--class-set", "two.txt")
    best = [next(a for a in row if a != "class 1") for row in answers]
    hits = sum(best[i] == NAMES[i % 3] for i in range(60) if i % 3 != 1)
    equal((result["n"], result["n_absent"], result["absent_classes"]), (40, 20, 1), "rows")
    equal(share(result, "top1"), hits, "hits")
    text = box.works("eval", "m.safetensors", "x.safetensors", "--class-set", "two.txt").out
    check("20 of 1 class that the model does not have, or that is not in the class set" in text, text)
    box.write("more.txt", "class 2\nclass 0\ncow\n")
    result = box.works("eval", "m.safetensors", "x.safetensors", "--class-set", "more.txt")
    check("the model has 2 of its 3 classes" in result.err, result)
    box.write("none.txt", "cow\n")
    box.refuses(BAD_DATA, "eval", "m.safetensors", "x.safetensors", "--class-set", "none.txt", naming="none.txt")
    # A gallery stays whole: neighbours of other classes still vote.
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors", "-q")
    result = evaluate(box, "--gallery", "g.safetensors", "-k", "1", "--class-set", "two.txt")
    equal((result["knn_n"], result["knn_n_absent"]), (40, 20), "rows of neighbours")


@test
def errors_in_files(box):
    answers = with_model(box)
    result = box.works("eval", "m.safetensors", "x.safetensors", "--errors", "--per-class", "c.tsv",
                       "--confusions", "f.tsv")
    for text in ("lowest top-1", "margin between"):
        check(text in result.out, f"{text!r}: {result}")
    bins = [line.split() for line in result.out[result.out.index("margin between"):].splitlines()[2:12]]
    equal(bins[0][5], result.out.splitlines()[2].split()[2], "from the first bin on: all rows")
    equal(bins[9][3], bins[9][5], "from the last bin on: its own rows")
    lines = [line.split("\t") for line in box.read("c.tsv").decode().splitlines()]
    equal(lines[0], ["class", "rows", "top1", "top5", "answers"], "header")
    for k, name in enumerate(NAMES):
        rows = [a for i, a in enumerate(answers) if i % 3 == k]
        equal(lines[1 + k], [name, "20", str(sum(a[0] == name for a in rows)), "20",
                             str(sum(a[0] == name for a in answers))], name)
    wrong = {}
    for i, a in enumerate(answers):
        if a[0] != NAMES[i % 3]:
            wrong[NAMES[i % 3], a[0]] = wrong.get((NAMES[i % 3], a[0]), 0) + 1
    lines = [line.split("\t") for line in box.read("f.tsv").decode().splitlines()]
    equal(lines[0], ["rows", "class", "answer"], "header")
    equal({(c, a): int(n) for n, c, a in lines[1:]}, wrong, "confusions")
    plain, more = evaluate(box), evaluate(box, "--errors")
    equal({k: v for k, v in more.items() if k in plain}, plain, "errors do not change accuracies")
    equal(sum(b["n"] for b in more["margins"]), 60, "rows in bins")
    equal(sum(b["top1"] for b in more["margins"]), share(more, "top1"), "hits in bins")
    raw = evaluate(box, "--errors", "--raw")
    equal(raw["raw_top1"], plain["raw_top1"], "raw")
    equal(sum(b["top1"] for b in raw["margins"]), share(raw, "raw_top1"), "raw hits in bins")


@test
def tables_replace_no_input(box):
    with_model(box)
    box.write("t.txt", "class 0\n" * 60)
    words = ["eval", "m.safetensors", "x.safetensors"]
    for name in ("x.safetensors", "m.safetensors"):
        box.refuses(USAGE, *words, "--per-class", name, naming=name)
    box.refuses(USAGE, *words, "--truth", "t.txt", "--confusions", "t.txt", naming="t.txt")
    box.refuses(USAGE, *words, "--confusions", "a.tsv", "--per-class", "a.tsv", naming="a.tsv")
    box.refuses(USAGE, *words, "--confusions", "-", naming="need a file name")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors", "-q")
    box.refuses(USAGE, "eval", "m.safetensors", "--gallery", "g.safetensors", "--errors", naming="needs data")


@test
def unknown_rows(box):
    with_model(box)
    rows, _ = world(40, seed=9)
    box.write("u.npy", npy(rows))
    result = evaluate(box, "--unknown", "u.npy")["open_set"]
    equal((result["n_known"], result["n_unknown"]), (60, 40), "rows")

    def best(name):
        answers = json.loads(box.works("classify", "m.safetensors", name, "--top", 1, "--json").out)["answers"]
        return [answer["scores"][0] for answer in answers]
    known, unknown = best("x.safetensors"), best("u.npy")
    pairs = sum((a > b) + (a == b) / 2 for a in known for b in unknown)
    check(abs(result["auroc"] - pairs / 2400) < 1e-12, f"AUROC {result['auroc']}, by the book {pairs / 2400}")
    threshold = sorted(known)[3]
    equal(result["threshold"], threshold, "threshold")
    equal(result["fpr95"], sum(b >= threshold for b in unknown) / 40, "false positives")
    check("AUROC" in box.works("eval", "m.safetensors", "x.safetensors", "--unknown", "u.npy").out, "text")


@test
def comparisons(box):
    answers = with_model(box)
    box.works("classify", "m.safetensors", "x.safetensors", "--raw", "-o", "b.tsv", "-q")
    raw = [line.split("\t")[1] for line in box.read("b.tsv").decode().splitlines()[1:]]
    table = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for i in range(60):
        table[answers[i][0] == NAMES[i % 3], raw[i] == NAMES[i % 3]] += 1
    wanted = [table[True, True], table[True, False], table[False, True], table[False, False]]
    for second in (["b.tsv", "x.safetensors"], ["m.safetensors", "x.safetensors", "--raw", "b"]):
        result = json.loads(box.works("compare", "m.safetensors", *second, "--json").out)
        equal([result[k] for k in ("both", "only_a", "only_b", "neither")], wanted, f"table of {second}")
        equal(result["difference"], (wanted[1] - wanted[2]) / 60, "difference")
        check(result["difference_low"] <= result["difference"] <= result["difference_high"], "interval")
    text = box.works("compare", "m.safetensors", "b.tsv", "x.safetensors").out
    for part in ("A right", "B wrong", "95 % interval", "McNemar"):
        check(part in text, f"{part}: {text}")
    # Answers alone, by a truth: 11 right in one, 4 in the other, of 15 rows.
    box.write("t.txt", "".join(NAMES[i % 3] + "\n" for i in range(60)))
    for name, right in (("c.tsv", range(11)), ("d.tsv", range(11, 15))):
        box.write(name, "row\tclass1\tcosine1\n" + "".join(
            f"{i}\t{NAMES[i % 3] if i in right or i > 14 else 'cow'}\t1\n" for i in range(60)))
    result = json.loads(box.works("compare", "c.tsv", "d.tsv", "--truth", "t.txt", "--json").out)
    equal([result[k] for k in ("both", "only_a", "only_b", "neither")], [45, 11, 4, 0], "table")
    equal((result["a"], result["b"]), (56 / 60, 49 / 60), "accuracies")
    check(abs(result["p"] - 2 * 1941 / 2**15) < 1e-12, f"p of 11 against 4: {result['p']}")
    result = json.loads(box.works("compare", "b.tsv", "b.tsv", "--truth", "t.txt", "--json").out)
    equal((result["n"], result["only_a"], result["p"]), (60, 0, 1), "with itself")


@test
def comparisons_that_make_no_sense(box):
    with_model(box)
    box.works("classify", "m.safetensors", "x.safetensors", "-o", "a.tsv", "-q")
    box.refuses(USAGE, "compare", "m.safetensors", "a.tsv", naming="missing argument: DATA")
    box.refuses(USAGE, "compare", "a.tsv", "a.tsv", naming="--truth")
    box.refuses(USAGE, "compare", "a.tsv", "a.tsv", "x.safetensors", "--raw", "a", naming="--raw")
    box.refuses(USAGE, "compare", "a.tsv", "m.safetensors", "x.safetensors", "--raw", "both", naming="a.tsv")
    box.refuses(USAGE, "compare", "a.tsv", naming="missing argument: B")
    box.write("no.tsv", "hello\n")
    box.refuses(BAD_DATA, "compare", "no.tsv", "a.tsv", "x.safetensors", naming=["no.tsv", "class1"])
    box.write("cut.tsv", box.read("a.tsv") + b"60\tclass 0\t1\n")
    box.refuses(BAD_DATA, "compare", "cut.tsv", "a.tsv", "x.safetensors", naming=["cut.tsv", "line 62", "row 60"])


@test
def groups_of_classes(box):
    box.write("h.txt", "animal dog\nanimal pet\ndog pug\npet pug\ndog husky\nanimal fish\nfish eel\npug minipug\n")
    box.write("set.txt", "pug\nstone\n")
    box.write("all.txt", "minipug\neel\nfish\npug\nhusky\ndog\nanimal\n")
    box.write("names.txt", "stone\ta stone\npug\tthe pug\n")
    words = ["classes", "--hierarchy", "h.txt", "--set", "set.txt", "--all", "all.txt"]
    box.refuses(BAD_DATA, *words, "-o", "g", naming=["set.txt", "'stone' (line 2)", "file of names"])
    result = box.works(*words, "--names", "names.txt", "-o", "g")
    check("the pug" in result.out and "14K" not in result.out, f"{result}")
    lists = {"only": "stone", "both": "pug", "leaves": "eel husky", "ancestors": "dog animal",
             "descendants": "minipug", "other": "fish", "exclusive": "stone pug eel husky"}
    for name, classes in lists.items():
        equal(box.read(f"g-{name}.txt").decode().split(), classes.split(), name)
    table = json.loads(box.works(*words, "--names", "names.txt", "--json").out)
    for name, classes in lists.items():
        equal(table[name], len(classes.split()), f"number of {name}")
    equal(table["total"], 8, "total")
    box.write("set.txt", "pug\ndog\n")
    check("contains 1 ancestor of its own classes" in box.works(*words).err, "an ancestor in the set is logged")
    box.write("h.txt", "a b\nb a\n")
    box.refuses(BAD_DATA, *words, naming=["h.txt", "is an ancestor of itself"])
    box.refuses(USAGE, "classes", "--hierarchy", "h.txt", "--set", "set.txt", naming="--all")


@test
def names_with_odd_characters(box):
    rows, labels = world(60)
    odd = ["a\tb", "c\\d", "e\nf"]
    box.write("x.safetensors", safetensors({"embeddings": ("F32", [60, 8], f32(rows)), "labels": ("I32", [60], i32(labels))},
                                           metadata={"classes": json.dumps(odd)}))
    box.works("fit", "x.safetensors", "-o", "m.safetensors", "-q")
    box.works("classify", "m.safetensors", "x.safetensors", "-o", "a.tsv", "-q")
    result = json.loads(box.works("compare", "a.tsv", "m.safetensors", "x.safetensors", "--json").out)
    equal((result["only_a"], result["only_b"], result["n"]), (0, 0, 60), "answers read back")
    check(result["both"] > 30, f"{result}")
    box.works("eval", "m.safetensors", "x.safetensors", "--per-class", "c.tsv", "-q")
    check("a\\tb\t20" in box.read("c.tsv").decode(), "names are escaped")
