"""Ids in answers, and the endings of names, which decide the formats of outputs."""

import csv
import io
import json

from files import data_set, npy, world
from harness import USAGE, check, equal, test

IDS = [f"p/{i}, \"{i}\".jpg" for i in range(60)]


def with_ids(box):
    box.write("x.safetensors", data_set())
    box.write("ids.txt", "".join(f"{name}\n" for name in IDS))
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("index", "x.safetensors", "--ids", "ids.txt", "-o", "g.safetensors")  # also data with ids


def table(text):
    return [line.split("\t") for line in text.splitlines()]


@test
def classify_gives_the_ids_of_rows(box):
    with_ids(box)
    for more in ([], ["--gallery", "g.safetensors"], ["--probabilities"]):
        words = ["classify", "m.safetensors", "g.safetensors", *more]
        rows = table(box.works("classify", "m.safetensors", "x.safetensors", *more).out)
        lines = table(box.works(*words).out)
        equal([line.pop(1) for line in lines], ["id", *IDS], "ids")
        equal(lines, rows, "all other columns")
        box.works(*words, "-o", "a.csv")
        equal([line[:2] for line in csv.reader(io.StringIO(box.read("a.csv").decode()))],
              [["row", "id"], *[[str(i), name] for i, name in enumerate(IDS)]], ".csv")
        answers = json.loads(box.works(*words, "--json").out)["answers"]
        equal([(a["row"], a["id"]) for a in answers], list(enumerate(IDS)), "--json")
    check('"id"' not in box.works("classify", "m.safetensors", "x.safetensors", "--json").out, "rows without ids")
    for data in ("x", "g"):
        box.works("classify", "m.safetensors", f"{data}.safetensors", "-o", f"{data}.tsv")
    result = json.loads(box.works("compare", "x.tsv", "g.tsv", "x.safetensors", "--json").out)
    equal((result["both"] + result["neither"], result["n"]), (60, 60), "compare reads answers with ids")


@test
def search_gives_the_ids_of_queries(box):
    with_ids(box)
    box.write("rows.npy", npy(world(60)[0]))
    words = ["search", "g.safetensors", "g.safetensors", "-k", 2]
    lines, rows = (table(box.works(*words[:2], name, *words[3:]).out) for name in ("g.safetensors", "rows.npy"))
    equal(lines[0][:2], ["query", "id1"], "header")
    equal([line[0] for line in lines[1:]], IDS, "ids of queries")
    equal([line[1] for line in lines[1:]], IDS, "ids of the gallery")
    equal([line[1:] for line in lines], [line[1:] for line in rows], "answers")
    equal([line[0] for line in rows[1:]], [str(i) for i in range(60)], "queries without ids")
    equal([a["id"] for a in json.loads(box.works(*words, "--json").out)["answers"]], IDS, "--json")
    box.works(*words, "-o", "a.csv")
    found = list(csv.reader(io.StringIO(box.read("a.csv").decode())))
    equal([line[:2] for line in found[1:]], [[name, name] for name in IDS], ".csv")
    within = table(box.works("search", "g.safetensors", "g.safetensors", "--within", 0.999999).out)
    check({line[0] for line in within[1:]} == set(IDS), "--within")
    page = box.works("search", "g.safetensors", "g.safetensors", "-k", 1, "--html", "p.html") and box.read("p.html").decode()
    check("p/7, &#34;7&#34;.jpg" in page or "p/7, &quot;7&quot;.jpg" in page, "the page names queries")
    several = table(box.works(*words, "--also", "g.safetensors").out)
    equal(several[8][1], f"g.safetensors:{IDS[7]}", "several galleries")
    box.works(*words, "--also", "g.safetensors", "-o", "b.csv")
    equal(list(csv.reader(io.StringIO(box.read("b.csv").decode())))[8][1], f"g.safetensors:{IDS[7]}", "also in .csv")


def documents(box, name):
    """The objects of NAME.json and NAME.jsonl, which must be the same."""
    found = json.loads(box.read(f"{name}.json"))
    equal([json.loads(line) for line in box.read(f"{name}.jsonl").decode().splitlines()], found, f"lines of {name}")
    return found


@test
def the_ending_decides(box):
    with_ids(box)
    classify, search = ["classify", "m.safetensors", "g.safetensors"], ["search", "g.safetensors", "x.safetensors", "-k", 2]
    for words, name in ((classify, "c"), (search, "s")):
        printed, whole = box.works(*words).out, json.loads(box.works(*words, "--json").out)
        for ending in ("tsv", "txt", "csv", "json", "jsonl"):
            equal(box.works(*words, "-o", f"{name}.{ending}").out, "", "nothing is printed")
        box.works(*words, "-o", name)
        for same in (f"{name}.tsv", f"{name}.txt", name):
            equal(box.read(same).decode(), printed, same)
        equal([line.split(",")[0] for line in box.read(f"{name}.csv").decode().splitlines()],
              [line.split("\t")[0] for line in printed.splitlines()], "the same with commas")
        equal(documents(box, name), whole["answers"], f"{name}.json")
        about = json.loads(box.works(*words, "--json", "-o", f"{name}.tsv").out)
        timed = {"load_seconds", "search_seconds", "queries_per_second"}
        equal({k: v for k, v in about.items() if k not in timed},
              {k: v for k, v in whole.items() if k not in timed | {"answers"}}, "--json with -o: all but the answers")
    box.works("search", "g.safetensors", "x.safetensors", "--within", 2, "-o", "none.json")
    equal(json.loads(box.read("none.json"))[7], {"query": 7, "text": False, "neighbours": []}, "no answers")
    box.works("search", "x.safetensors", "--unique", -1, "-o", "u.csv")
    check(box.read("u.csv").startswith(b"group,row\n0,0\n"), "--unique")


@test
def tables_of_eval_and_sweep(box):
    with_ids(box)
    box.write("y.safetensors", data_set(seed=2, names=["class 1", "class 2", "class 0"]))
    box.write("one.txt", "class 0\n")
    for ending in ("json", "jsonl", "tsv"):
        box.works("eval", "m.safetensors", "y.safetensors", "--wrong", f"w.{ending}")
    equal([str(o["row"]) for o in documents(box, "w")], [line[0] for line in table(box.read("w.tsv").decode())[1:]], "--wrong")
    box.works("eval", "m.safetensors", "x.safetensors", "--class-set", "one.txt", "--wrong", "none.json")
    equal(box.read("none.json"), b"[]\n", "none is wrong")
    words = ["sweep", "x.safetensors", "--lambdas", "0.3x", "--folds", 2]
    for ending, option in (("csv", "csv"), ("json", "json"), ("txt", "text")):
        box.works(*words, "-o", f"t.{ending}")
        equal(box.read(f"t.{ending}").decode(), box.works(*words, "--format", option).out, ending)
    box.works(*words, "--json", "-o", "t")
    equal(box.read("t"), box.read("t.json"), "--json decides where there is no ending")
    box.refuses(USAGE, *words, "--format", "json", "-o", "t.csv", naming=["--format", "t.csv", "ending"])


@test
def endings_that_cannot_be_written(box):
    for words, endings in ((["sweep", "no.npy", "-o"], ".txt, .csv or .json"), (["stats", "no.npy", "-o"], ".safetensors"),
                           (["merge", "no.safetensors", "-o"], ".safetensors"), (["fit", "no.npy", "-o"], ".safetensors"),
                           (["convert", "no.npy", "-o"], ".parquet or .safetensors"),
                           (["transform", "no.safetensors", "no.npy", "-o"], ".parquet, .npy or .safetensors"),
                           (["classify", "no.safetensors", "no.npy", "-o"], ".txt, .tsv, .csv, .json, .jsonl or .parquet"),
                           (["search", "no.safetensors", "no.npy", "-o"], ".jsonl, .parquet, .npy or .safetensors"),
                           (["eval", "no.safetensors", "no.npy", "--wrong"], ".txt, .tsv, .csv, .json or .jsonl"),
                           (["eval", "no.safetensors", "no.npy", "--per-class"], ".txt, .tsv or .csv"),
                           (["prompts", "--classes", "no.txt", "--templates", "builtin1", "-o"], ".txt")):
        box.refuses(USAGE, *words, "o.xlsx", naming=["o.xlsx: the name of", "must end in", f"{endings};"])
