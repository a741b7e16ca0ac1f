"""Searches within a limit, among some rows, for near-duplicates and through several galleries."""

import json
import math
import os
import random
import resource
import struct

from harness import BAD_DATA, USAGE, check, equal, test
from files import f32, npy, read_safetensors, reseal


def rows_of(n, dim=8, seed=1):
    """Rows, some of which are copies or nearly so."""
    rng = random.Random(seed)
    rows = [[rng.gauss(0, 1) for _ in range(dim)] for _ in range(n)]
    for i in range(n // 4):
        rows[n - 1 - i] = [x + (0.01 * rng.gauss(0, 1) if i % 2 else 0) for x in rows[i]]
    return rows


def score(metric, a, b):
    dot = math.fsum(x * y for x, y in zip(a, b))
    if metric == "inner":
        return dot
    if metric == "euclidean":
        return math.dist(a, b)
    return dot / math.sqrt(math.fsum(x * x for x in a) * math.fsum(x * x for x in b))


def near(metric, value, limit):
    return value <= limit if metric == "euclidean" else value >= limit


LIMITS = {"cosine": 0.5, "euclidean": 2.5, "inner": 3.0}


def make(box, metric, n=60, name="g.safetensors", start=0):
    rows = rows_of(n)
    box.write("x.npy", npy(rows))
    box.write("ids.txt", "".join(f"p{start + i}\n" for i in range(n)))
    box.write("labels.txt", "".join(f"{'abc'[i % 3]}\n" for i in range(n)))
    box.write("q.npy", npy(rows[:5]))
    box.works("index", "x.npy", "--ids", "ids.txt", "--labels", "labels.txt", "--metric", metric, "-o", name)
    return rows


@test
def within_a_limit(box):
    for metric, limit in LIMITS.items():
        rows = make(box, metric)
        lines = box.works("search", "g.safetensors", "q.npy", "--within", limit).out.splitlines()
        equal(lines[0].split("\t")[:3], ["query", "id", "label"], "header")
        found = {(int(q), name): (label, float(value)) for q, name, label, value in (line.split("\t") for line in lines[1:])}
        wanted = {(q, f"p{i}"): score(metric, rows[q], row) for q in range(5) for i, row in enumerate(rows)}
        equal(set(found), {key for key, value in wanted.items() if near(metric, value, limit)}, f"rows, {metric}")
        for (q, name), (label, value) in found.items():
            check(abs(value - wanted[q, name]) < 1e-5 and label == "abc"[int(name[1:]) % 3], f"{metric} {q} {name} {label} {value}")
        about = json.loads(box.works("search", "g.safetensors", "q.npy", "--within", limit, "--json").out)
        equal([len(answer["neighbours"]) for answer in about["answers"]], [sum(q == i for q, _ in found) for i in range(5)], "JSON")
        box.works("search", "g.safetensors", "q.npy", "--within", limit, "-o", "out.tsv")
        equal(box.read("out.tsv").decode().splitlines(), lines, "file")
        itself = box.works("search", "g.safetensors", "--itself", "--within", limit).out.splitlines()[1:]
        pairs = {tuple(line.split("\t")[:2]) for line in itself}
        equal(pairs, {(f"p{i}", f"p{j}") for i in range(60) for j in range(60) if i != j and near(metric, score(metric, rows[i], rows[j]), limit)}, "pairs")


def sparse(box, name):
    """The answers in a .safetensors: (row, score) of each query; and its metadata."""
    tensors, metadata = read_safetensors(box.read(name))
    ends, rows, scores = (tensors[key] for key in ("indptr", "rows", "scores"))
    equal((ends[0], ends[-1], len(scores)), (0, len(rows), len(rows)), "ends and lengths")
    return [list(zip(rows[a:b], scores[a:b])) for a, b in zip(ends, ends[1:])], metadata


def listed(box, *words):
    """The same from JSON."""
    answers = json.loads(box.works("search", "g.safetensors", *words, "--json").out)["answers"]
    return {a["query"]: [(n["row"] + 60 * (n.get("gallery") == "g2.safetensors"), n["score"]) for n in a["neighbours"]] for a in answers}


@test
def as_a_sparse_matrix(box):
    for metric, limit in LIMITS.items():
        rows = make(box, metric)
        many = [rows[i % 60] for i in range(1300)]  # more than are written at once
        many[7] = many[600] = many[601] = many[1299] = [0.0] * 8
        box.write("many.npy", npy(many))
        for words, n in ((("q.npy",), 5), (("--itself",), 60), (("many.npy", "--skip-bad"), 1300), (("q.npy", "--also", "g2.safetensors"), 5)):
            make(box, metric, name="g2.safetensors", start=100)
            words = (*words, "--within", limit)
            wanted = listed(box, *words)
            result = box.works("search", "g.safetensors", *words, "-o", "near.safetensors")
            check("the rows within" in result.err, result.err)
            found, metadata = sparse(box, "near.safetensors")
            equal(len(found), n, "queries")
            for i, answers in enumerate(found):
                equal(answers, wanted.get(i, []), f"{metric}, {words}, query {i}")
            equal((metadata["format"], metadata["metric"], float(metadata["limit"])), ("koofu.answers", metric, limit), "metadata")
            about = json.loads(box.works("info", "--json", "near.safetensors").out)
            equal((about["kind"], about["rows"]), ("answers", n), "info")
        box.works("search", "g.safetensors", "many.npy", "--skip-bad", "--within", limit, "--threads", 1, "-o", "one.safetensors")
        box.works("search", "g.safetensors", "many.npy", "--skip-bad", "--within", limit, "--threads", 3, "-o", "three.safetensors")
        equal(box.read("one.safetensors"), box.read("three.safetensors"), "threads")
    box.works("search", "g.safetensors", "q.npy", "--within", "1e9", "-o", "none.safetensors")
    equal(sparse(box, "none.safetensors")[0], [[]] * 5, "nothing is near enough")
    box.works("search", "g.safetensors", "q.npy", "--within", LIMITS["inner"], "-o", "near.parquet")
    about = json.loads(box.works("info", "--json", "near.parquet").out)
    equal(about["rows"], sum(map(len, listed(box, "q.npy", "--within", LIMITS["inner"]).values())), "records")


@test
def repeated_ids(box):
    box.write("x.npy", npy([[1.0, i] for i in range(60)]))
    said = {}
    for name, ids in (("one", [f"p{i}" for i in range(60)]), ("few", [f"p{i % 58}" for i in range(60)]), ("all", ["\x1bö"] * 60)):
        box.write("ids.txt", "".join(f"{i}\n" for i in ids))
        said[name] = box.works("index", "x.npy", "--ids", "ids.txt", "-o", f"{name}.safetensors").err
    check("warning" not in said["one"], said)
    check("warning: 2 rows have the id of an earlier row, first 'p0'; removing or replacing rows by such an id takes them all" in said["few"], said)
    check("warning: 59 rows have the id of an earlier row, first '\\x1bö'" in said["all"], said)
    again = box.works("index", "all.safetensors", "-o", "again.safetensors").err
    check("warning: 59 rows have" in again, again)


@test
def among_some_rows(box):
    rows = make(box, "cosine")
    box.write("classes.txt", "a\nc\n")
    box.write("some.txt", "".join(f"p{i}\n" for i in range(0, 60, 2)) + "nobody\n")
    for words, allowed in ((["--only", "classes.txt"], lambda i: i % 3 != 1), (["--only-ids", "some.txt"], lambda i: i % 2 == 0),
                           (["--only", "classes.txt", "--only-ids", "some.txt"], lambda i: i % 3 != 1 and i % 2 == 0)):
        lines = box.works("search", "g.safetensors", "q.npy", "-k", 3, *words).out.splitlines()[1:]
        for q, line in enumerate(lines):
            names = line.split("\t")[1::3]
            wanted = sorted((-score("cosine", rows[q], row), i) for i, row in enumerate(rows) if allowed(i))[:3]
            equal(names, [f"p{i}" for _, i in wanted], f"{words}, query {q}")
        lines = box.works("search", "g.safetensors", "q.npy", "--within", "-1", *words).out.splitlines()[1:]
        equal(len(lines), 5 * sum(map(allowed, range(60))), f"within, {words}")
    box.write("none.txt", "nobody\n")
    box.refuses(BAD_DATA, "search", "g.safetensors", "q.npy", "--only-ids", "none.txt", naming="no row of the gallery is left")
    box.refuses(BAD_DATA, "search", "g.safetensors", "q.npy", "--only", "none.txt", naming="none.txt: the gallery has no class 'nobody'")
    box.refuses(USAGE, "search", "g.safetensors", "--itself", "--only", "classes.txt", naming="--only")


@test
def near_duplicates(box):
    for metric, limit in (("cosine", 0.99), ("euclidean", 0.2), ("inner", 11.0)):
        rows = make(box, metric)
        first = list(range(60))
        while True:  # along pairs, until nothing changes
            least = [min([first[j] for j in range(60) if j == i or near(metric, score(metric, rows[i], rows[j]), limit)]) for i in range(60)]
            if least == first:
                break
            first = least
        members = [i for i in range(60) if first.count(first[i]) > 1]
        for words, name in ((["g.safetensors"], "p{}"), (["x.npy", "--metric", metric], "{}")):
            result = box.works("search", *words, "--unique", limit, "--keep", "keep.txt")
            groups = {}
            for line in result.out.splitlines()[1:]:
                group, row = line.split("\t")
                groups.setdefault(group, []).append(row)
            wanted = {}
            for i in members:
                wanted.setdefault(first[i], []).append(name.format(i))
            equal(list(groups.values()), [wanted[i] for i in sorted(wanted)], f"groups, {metric}")
            equal(box.read("keep.txt").decode().split(), [name.format(i) for i in range(60) if first[i] == i], "rows to keep")
        about = json.loads(box.works("search", "g.safetensors", "--unique", limit, "--json").out)
        equal((about["groups"], about["copies"]), (len(wanted), len(members) - len(wanted)), "JSON")


@test
def what_does_not_go_together(box):
    make(box, "cosine")
    for words, naming in ((["q.npy", "--within", "x"], "--within must be a number"), (["q.npy", "--within", "0.5", "-k", "3"], "-k"),
                          (["q.npy", "--within", "0.5", "-o", "out.npy"], ".parquet or .safetensors"), (["--unique", "0.5", "-o", "out.parquet"], "must end in .txt, .tsv or .csv"), (["q.npy", "--within", "0.5", "--html", "p.html"], "--html"),
                          (["--unique", "0.9", "--within", "0.5"], "--unique"), (["--unique", "0.9", "--itself"], "--unique"),
                          (["q.npy", "--unique", "0.9"], "takes no queries"),
                          (["q.npy", "--keep", "k.txt"], "--keep"), (["q.npy", "--metric", "inner"], "--metric")):
        box.refuses(USAGE, "search", "g.safetensors", *words, naming=naming)
    box.works("index", "q.npy", "-o", "bare.safetensors")
    box.write("list.txt", "a\n")
    box.refuses(BAD_DATA, "search", "bare.safetensors", "q.npy", "--only", "list.txt", naming="bare.safetensors: has no labels")
    box.refuses(BAD_DATA, "search", "bare.safetensors", "q.npy", "--only-ids", "list.txt", naming="bare.safetensors: has no ids")
    box.refuses(BAD_DATA, "fit", "q.npy", "-o", "m.safetensors", naming="q.npy: the rows have no labels")


@test
def changed_galleries(box):
    """Rows removed and replaced: the answers of every command are those of the remaining rows."""
    rows = make(box, "cosine")
    box.write("gone.txt", "p3\np59\nnobody\n")
    result = box.works("index", "g.safetensors", "--remove", "gone.txt")
    check("wrote g.safetensors: 2 rows removed, 58 in all; " in result.err and "1 id is not in it" in result.err, f"{result}")
    check("left as it is" in box.works("index", "g.safetensors", "--remove", "gone.txt").err, "twice")
    box.write("new.npy", npy([rows[3], rows[4]]))
    box.write("new.txt", "p7\nfresh\n")
    box.write("two.txt", "a\nb\n")
    result = box.works("index", "new.npy", "--ids", "new.txt", "--labels", "two.txt", "--append", "g.safetensors", "--replace")
    check("2 rows added, 1 removed, 59 in all" in result.err, f"{result}")
    left = [i for i in range(60) if i not in (3, 59, 7)]
    box.write("left.npy", npy([rows[i] for i in left] + [rows[3], rows[4]]))
    box.write("left.txt", "".join(f"p{i}\n" for i in left) + "p7\nfresh\n")
    box.write("left-labels.txt", "".join(f"{'abc'[i % 3]}\n" for i in left) + "a\nb\n")
    box.works("index", "left.npy", "--ids", "left.txt", "--labels", "left-labels.txt", "-o", "h.safetensors")
    for words in (["search", "@", "q.npy", "-k", 9], ["search", "@", "--itself", "-k", 3], ["search", "@", "q.npy", "--within", "0.3"],
                  ["search", "@", "--unique", "0.9"], ["search", "@", "q.npy", "-k", 9, "--rerank-from-disk"]):
        answers = [box.works(*(name if word == "@" else word for word in words)).out for name in ("g.safetensors", "h.safetensors")]
        equal(answers[0], answers[1], f"{words}")
    about = json.loads(box.works("info", "--json", "g.safetensors").out)
    equal(about["rows"], 59, "info")
    for name in "gh":
        box.works("convert", f"{name}.safetensors", "-o", f"{name}-set.safetensors")
    equal(box.read("g-set.safetensors"), box.read("h-set.safetensors"), "as a data set")
    for words, naming in ((["--remove", "gone.txt", "-o", "o.safetensors"], "-o"), (["--compact", "--remove", "gone.txt"], "--compact"),
                          (["--compact", "--append", "h.safetensors"], "--append")):
        box.refuses(USAGE, "index", "g.safetensors", *words, naming=naming)
    box.refuses(USAGE, "index", "new.npy", "--replace", "-o", "i.safetensors", naming="--replace")
    box.works("index", "g.safetensors", "--compact")
    check("has no changes" in box.works("index", "g.safetensors", "--compact").err, "compact")


@test
def several_galleries(box):
    """The answers of one gallery with all rows, each named by its gallery and its row there."""
    rows = rows_of(60)
    box.write("q.npy", npy(rows[:5]))
    for metric in LIMITS:
        parts = (("all", slice(0, 60), "f32"), ("a", slice(0, 20), "f32"), ("b", slice(20, 45), "f32"), ("c", slice(45, 60), "f32"))
        for ids in ([], ["--ids", "ids.txt"]):
            for name, part, _ in parts:
                box.write("x.npy", npy(rows[part]))
                box.write("ids.txt", "".join(f"p{i}\n" for i in range(60)[part]))
                box.write("labels.txt", "".join(f"{'abc'[i % 3] if name != 'c' else 'abcd'[i % 4]}\n" for i in range(60)[part]))
                box.works("index", "x.npy", *ids, "--labels", "labels.txt", "--metric", metric, "-o", f"{name}.safetensors")
            where = [(f"{name}.safetensors", i - part.start) for name, part, _ in parts[1:] for i in range(60)[part]]
            words = ["a.safetensors", "q.npy", "--also", "b.safetensors", "--also", "c.safetensors"]
            for how in (["-k", 7], ["-k", 7, "--rerank-from-disk"], ["--within", LIMITS[metric]]):
                one = json.loads(box.works("search", "all.safetensors", "q.npy", *how, "--json").out)["answers"]
                several = json.loads(box.works("search", *words, *how, "--json").out)["answers"]
                for a, b in zip(one, several):
                    equal([(x["gallery"], x["row"], x["score"]) for x in b["neighbours"]], [(*where[x["row"]], x["score"]) for x in a["neighbours"]], f"{metric} {how}")
            line = box.works("search", *words, "-k", 1).out.splitlines()[1].split("\t")
            equal(line[1], "a.safetensors:p0" if ids else "a.safetensors:0", "text")
            equal(line[2], "a", "label")
    box.works("index", "x.npy", "--ids", "ids.txt", "--labels", "labels.txt", "--metric", "cosine", "-o", "d.safetensors")
    box.refuses(BAD_DATA, "search", "a.safetensors", "q.npy", "--also", "d.safetensors", naming="their metrics differ")
    box.works("index", "x.npy", "--metric", "inner", "-o", "d.safetensors")
    box.refuses(BAD_DATA, "search", "a.safetensors", "q.npy", "--also", "d.safetensors", naming="labels")
    box.works("index", "x.npy", "--labels", "labels.txt", "--metric", "inner", "-o", "d.safetensors")
    box.refuses(BAD_DATA, "search", "a.safetensors", "q.npy", "--also", "d.safetensors", naming="ids")


def change_after(data, number, previous, row, name):
    """A change that adds one row, made from another such change."""
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + size]), bytearray(data[8 + size:])
    header["__metadata__"].update(number=str(number), previous=previous)

    def put(tensor, content):
        begin, end = header[tensor]["data_offsets"]
        check(len(content) == end - begin, f"{tensor}: {len(content)} bytes")
        body[begin:end] = content

    put("embeddings", f32([row]))
    put("batches", struct.pack("<Q", number))
    put("id_bytes", name.encode())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = reseal(struct.pack("<Q", len(text)) + text + bytes(body))
    return data, data[data.index(b'"checksum":"') + 12:][:16].decode()


@test
def more_changes_than_descriptors(box):
    """A gallery that was appended to 2,000 times is read with 256 descriptors by everything that reads galleries."""
    n = 2000
    rng = random.Random(3)
    rows = [[rng.gauss(0, 1) for _ in range(8)] for _ in range(n + 20)]
    box.write("base.npy", npy(rows[:20]))
    box.write("ids.txt", "".join(f"i{i:04}\n" for i in range(20)))
    box.works("index", "base.npy", "--ids", "ids.txt", "-o", "g.safetensors")
    box.write("one.npy", npy(rows[20:21]))
    box.write("one.txt", "i0020\n")
    box.works("index", "one.npy", "--ids", "one.txt", "--append", "g.safetensors")
    first = os.listdir(box.path("g.safetensors.changes"))[0]
    data = box.read(f"g.safetensors.changes/{first}")
    previous = data[data.index(b'"checksum":"') + 12:][:16].decode()
    for i in range(1, n):
        data, previous = change_after(data, i + 1, previous, rows[20 + i], f"i{20 + i:04}")
        box.write(f"g.safetensors.changes/{first[:17]}{i + 1:06}.safetensors", data)
    box.write("all.npy", npy(rows))
    box.write("all.txt", "".join(f"i{i:04}\n" for i in range(n + 20)))
    box.works("index", "all.npy", "--ids", "all.txt", "-o", "h.safetensors")
    box.write("q.npy", npy(rows[:7]))
    few = {"limits": {resource.RLIMIT_NOFILE: (256, 256)}}
    for words in (["search", "@", "q.npy", "-k", 9], ["search", "@", "q.npy", "-k", 9, "--rerank-from-disk"],
                  ["search", "@", "--itself", "-k", 2], ["search", "@", "q.npy", "--within", "0.3"], ["search", "@", "--unique", "0.9"]):
        answers = [box.works(*(name if word == "@" else word for word in words), **few).out for name in ("g.safetensors", "h.safetensors")]
        equal(answers[0], answers[1], f"{words}")
    box.works("verify", "g.safetensors", **few)
    for name in "gh":
        box.works("convert", f"{name}.safetensors", "-o", f"{name}-set.safetensors", **few)
    equal(box.read("g-set.safetensors"), box.read("h-set.safetensors"), "as a data set")
    box.write("gone.txt", "i0003\ni1999\n")
    box.works("index", "g.safetensors", "--remove", "gone.txt", **few)
    box.write("more.txt", "i9999\n")
    box.works("index", "one.npy", "--ids", "more.txt", "--append", "g.safetensors", **few)
    box.works("index", "g.safetensors", "--compact", **few)
    about = json.loads(box.works("info", "--json", "g.safetensors").out)
    equal(about["rows"], n + 20 - 2 + 1, "after it was made one file")
    check(not os.path.isdir(box.path("g.safetensors.changes")), "changes are left")
