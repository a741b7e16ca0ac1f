"""koofu verify and info: whether files are valid, and what they were made from."""

import json
import os
import random
import struct

from files import data_set, f32, fbin, i32, npy, png, reseal, safetensors, tar, world
from harness import BAD_DATA, IO, Skipped, check, equal, test

CLIP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "models", "clip-bf16")


def info(box, name):
    return json.loads(box.works("info", "--json", name).out)


def command_of(box, name):
    lines = [line for line in box.works("info", name).out.splitlines() if line.startswith("  command")]
    return lines[0].split()[1:] if lines else None


@test
def a_model_names_its_statistics(box):
    box.write("x.safetensors", data_set())
    rows, labels = world()
    for i in range(3):  # the same rows in shards
        box.write(f"s/{i}.npy", npy(rows[20 * i:20 * i + 20]))
        box.write(f"l/{i}.npy", npy(labels[20 * i:20 * i + 20], "<i4"))
        box.works("stats", f"s/{i}.npy", "--labels", f"l/{i}.npy", "-o", f"p{i}.safetensors")
    box.works("merge", "p2.safetensors", "p0.safetensors", "p1.safetensors", "-o", "merged.safetensors")
    box.works("stats", "x.safetensors", "--threads", 2, "-o", "stats.safetensors")
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("fit", "merged.safetensors", "--lambda", "1x", "-o", "f.safetensors")
    checksum = info(box, "stats.safetensors")["metadata"]["checksum"]
    for name in ("m.safetensors", "f.safetensors"):
        about = info(box, name)["metadata"]
        if name == "m.safetensors":
            equal(about["fitted_from"], checksum, name)
        check(about["fitted_by"].startswith("koofu 0."), about["fitted_by"])
    equal(info(box, "f.safetensors")["metadata"]["fitted_from"], info(box, "merged.safetensors")["metadata"]["checksum"], "merged")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    box.works("add-class", "m.safetensors", "new", "s/0.npy", "-o", "more.safetensors")
    out = box.works("verify", "m.safetensors", "g.safetensors", "more.safetensors", "stats.safetensors", "x.safetensors").out.splitlines()
    for line in out[:3]:
        check(f"from statistics {checksum} (stats.safetensors)" in line, line)
        check("fitted by koofu 0." in line, line)
    check(out[4] == "x.safetensors: sound, data set", out[4])
    line = box.works("verify", "m.safetensors", "p0.safetensors", "stats.safetensors").out.splitlines()[0]
    check("(stats.safetensors)" in line, f"of several, those with its checksum: {line}")
    box.write("bad.safetensors", box.read("stats.safetensors")[:-1])
    result = box.run("verify", "--json", "bad.safetensors", "m.safetensors")
    equal((result.status, [json.loads(line)["sound"] for line in result.out.splitlines()]), (BAD_DATA, [False, True]), "json")
    found = [json.loads(line) for line in box.works("verify", "--json", "m.safetensors", "stats.safetensors").out.splitlines()]
    equal((found[0]["statistics"], found[0]["sound"], found[1]["checksum"]), ("stats.safetensors", True, checksum), "json")
    check("stats.safetensors" not in box.works("verify", "m.safetensors").out, "it is not among the files")


def texts(box, name, seed, names):
    """A file of text prototypes with these classes, not of unit length."""
    rows, _ = world(n=len(names), seed=seed)
    box.write(name, safetensors({"embeddings": ("F32", [len(names), 8], f32(rows)), "labels": ("I32", [len(names)], i32(range(len(names))))},
                                {"classes": json.dumps(names)}))


@test
def a_model_names_its_text(box):
    names = ["a", "b", "c"]
    box.write("x.safetensors", data_set(names=names))
    texts(box, "raw.safetensors", 5, names)
    texts(box, "other.safetensors", 6, names)
    texts(box, "more.safetensors", 7, ["d", "e"])
    box.works("text-prototypes", "raw.safetensors", "-o", "t.safetensors")
    box.works("fit", "x.safetensors", "--text", "t.safetensors", "--fuse", 1, "-o", "m.safetensors")
    box.works("fit", "x.safetensors", "--text", "raw.safetensors", "--fuse", 1, "-o", "n.safetensors")
    box.works("fit", "x.safetensors", "--text", "other.safetensors", "--fuse", 1, "-o", "o.safetensors")
    box.works("fit", "x.safetensors", "-o", "plain.safetensors")
    sums = {name: info(box, f"{name}.safetensors")["metadata"].get("text_from") for name in ("m", "n", "o", "plain")}
    check(sums["plain"] is None and len(sums["o"]) == 16 and sums["o"] != sums["m"], sums)
    files = [f"{name}.safetensors" for name in ("m", "n", "o", "plain", "x", "raw", "t", "other", "more")]
    found = {line["path"]: line for line in map(json.loads, box.works("verify", "--json", *files).out.splitlines())}
    check(found["m.safetensors"]["text"] in ("t.safetensors", "raw.safetensors"), found["m.safetensors"])  # the same prototypes, to a bit
    equal(found["o.safetensors"]["text"], "other.safetensors", "its text")
    command = command_of(box, "o.safetensors")
    box.works("fit", "x.safetensors", *(word if word != "TEXT" else "other.safetensors" for word in command[2:]), "-o", "again.safetensors")
    equal(info(box, "again.safetensors")["metadata"]["text_from"], sums["o"], "made by the command that info prints")
    check("text" not in found["plain.safetensors"] and "text_from" not in found["plain.safetensors"], found["plain.safetensors"])
    lines = box.works("verify", "o.safetensors", "other.safetensors").out.splitlines()
    check(f", with text {sums['o']} (other.safetensors)" in lines[0], lines[0])
    check(box.works("verify", "o.safetensors", "raw.safetensors").out.splitlines()[0].endswith(f", with text {sums['o']}"), "it is not among the files")
    check(f"  text         {sums['o']}\n" in box.works("info", "o.safetensors").out, "info")
    # It is kept, and another text is recorded beside it.
    rows, _ = world()
    box.write("rows.npy", npy(rows[:9]))
    box.works("add-class", "o.safetensors", "new", "rows.npy", "-o", "more-rows.safetensors")
    equal(info(box, "more-rows.safetensors")["metadata"]["text_from"], sums["o"], "with a class of rows")
    box.works("add-class", "o.safetensors", "d", "more.safetensors", "--text", "-o", "more-text.safetensors")
    added = info(box, "more-text.safetensors")["metadata"]["text_from"]
    box.works("add-class", "m.safetensors", "d", "more.safetensors", "--text", "-o", "m-text.safetensors")
    check(len({added, sums["o"], sums["m"], info(box, "m-text.safetensors")["metadata"]["text_from"]}) == 4, "both texts")
    data = box.read("o.safetensors")
    at = data.index(b'"text_from":"') + len(b'"text_from":"')
    box.write("bad.safetensors", reseal(data[:at] + b"x" + data[at + 1:]))
    box.refuses(BAD_DATA, "verify", "bad.safetensors", naming="'text_from' is not 16 hexadecimal digits")


@test
def the_text_names_its_prompts(box):
    if not os.path.isdir(CLIP):
        raise Skipped("there is no model")
    for name, content in (("names.txt", "cat\ndog\n"), ("others.txt", "cat\ncow\n"), ("one.txt", "a {}.\n")):
        box.write(name, content)
    box.works("embed-text", CLIP, "--classes", "names.txt", "-o", "a.safetensors")
    box.works("embed-text", CLIP, "--classes", "names.txt", "--templates", "one.txt", "-o", "b.safetensors")
    box.works("embed-text", CLIP, "--classes", "others.txt", "-o", "c.safetensors")
    made = {name: info(box, f"{name}.safetensors")["metadata"]["made_with"] for name in "abc"}
    equal(len(set(made.values())), 3, "templates and classes count")
    dim = info(box, "a.safetensors")["dim"]
    rng = random.Random(1)
    rows = [[rng.gauss(0, 1) + 3 * (i % 2) for _ in range(dim)] for i in range(40)]
    box.write("x.npy", npy(rows))
    box.write("y.txt", "".join(f"{('cat', 'dog')[i % 2]}\n" for i in range(40)))
    box.works("fit", "x.npy", "--labels", "y.txt", "--text", "a.safetensors", "--fuse", 1, "-o", "m.safetensors")
    about = info(box, "m.safetensors")["metadata"]
    equal(about["text_made_with"], made["a"], "of the model")
    check(f", of prompts {made['a']}\n" in box.works("info", "m.safetensors").out, "info")
    line = box.works("verify", "m.safetensors", "b.safetensors", "a.safetensors").out.splitlines()[0]
    check(line.endswith(f", with text {about['text_from']} (a.safetensors) of prompts {made['a']}"), line)
    equal(about["encoder"], info(box, "a.safetensors")["metadata"]["encoder"], "the encoder of the text is that of the model")
    box.works("convert", "a.safetensors", "-o", "copy.safetensors")
    check("made_with" not in info(box, "copy.safetensors")["metadata"], "a converted file")


@test
def the_command_of_a_model_makes_it_again(box):
    box.write("x.safetensors", data_set(n=90))
    for words in ([], ["--method", "paper"], ["--dim", "auto"], ["--dim", 2, "--lambda", "0.3x"], ["--method", "paper", "--centre", "mean"], ["--no-normalize"],
                  ["--metric", "euclidean"]):
        box.works("fit", "x.safetensors", *words, "-o", "m.safetensors")
        command = command_of(box, "m.safetensors")
        equal(command[:2], ["koofu", "fit"], words)
        box.works("fit", "x.safetensors", *command[2:], "-o", "again.safetensors")
        one, two = info(box, "m.safetensors")["metadata"], info(box, "again.safetensors")["metadata"]
        for key in ("lambda", "centre", "normalized", "fitted_from", "method", "within_rank"):
            equal(one.get(key), two.get(key), f"{key} with {words}")
        box.works("transform", "m.safetensors", "x.safetensors", "-o", "a.npy")
        box.works("transform", "again.safetensors", "x.safetensors", "-o", "b.npy")
        equal(box.read("a.npy"), box.read("b.npy"), f"the map with {words}")


@test
def what_is_not_sound(box):
    rows, labels = world()
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("index", "x.safetensors", "-o", "g.safetensors")
    for name in ("m.safetensors", "g.safetensors"):
        damaged = bytearray(box.read(name))
        damaged[-5] ^= 64
        box.write("bad.safetensors", bytes(damaged))
        box.refuses(BAD_DATA, "verify", "bad.safetensors", naming=["bad.safetensors", "checksum"])
    rows[17][3] = float("nan")
    box.write("nan.npy", npy(rows))
    box.write("nan.fbin", fbin(rows))
    rows[17] = [0.0] * len(rows[0])
    box.write("zero.npy", npy(rows))
    for name in ("nan.npy", "nan.fbin", "zero.npy"):
        result = box.refuses(BAD_DATA, "verify", name, naming=[name, "17"])
    good = tar([("0.png", png(bytes(48), 4, 4))])
    box.write("a.tar", good)
    box.write("cut.tar", good[:1024])
    check("a.tar: sound, archive" in box.works("verify", "a.tar").out, "archive")
    result = box.run("verify", "cut.tar", "a.tar", "absent.npy", "m.safetensors")
    equal(result.status, BAD_DATA, "the first failure")
    check("cut.tar" in result.err and "absent.npy" in result.err and "m.safetensors: sound" in result.out, f"{result}")
    box.refuses(IO, "verify", "absent.npy", naming=["absent.npy"])
    forged = box.read("m.safetensors")
    at = forged.index(b'"fitted_from":"') + len(b'"fitted_from":"')
    box.write("forged.safetensors", forged[:at] + b"x" + forged[at + 1:])
    box.refuses(BAD_DATA, "verify", "forged.safetensors", naming=["forged.safetensors"])


@test
def labels_that_are_no_classes(box):
    rows, labels = world()
    labels[5] = 7
    flat = struct.pack(f"<{len(rows) * len(rows[0])}f", *(v for row in rows for v in row))
    box.write("x.safetensors", safetensors({"embeddings": ("F32", [60, 8], flat), "labels": ("I32", [60], struct.pack("<60i", *labels))},
                                           {"classes": json.dumps(["a", "b", "c"])}))
    box.refuses(BAD_DATA, "verify", "x.safetensors", naming=["x.safetensors", "7"])
