"""Text from outside: what reaches a terminal, a log, a table or a page, whatever names, ids and paths hold."""

import csv
import io
import json
import os
import pty
import re
import unicodedata

from harness import BAD_DATA, IO, USAGE, check, equal, test
from files import data_set, f32, i32, npy, safetensors, world

# C1 controls, overrides and isolates of direction, no width, line ends, tags: none of it may come
# out as it is.
EVIL = ["\x9b31m\x85", "fox\u202exof\u2066", "do\u200bg\u200e\u2028\ufeff\U000e0041"]
SHOWN = [r"\u{9b}31m\u{85}", r"fox\u{202e}xof\u{2066}", r"do\u{200b}g\u{200e}\u{2028}\u{feff}\u{e0041}"]


def hidden(text):
    """The first control or invisible character, other than line ends and tabs."""
    return next((c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in "\t\n"), None)


def shows_all(text, what):
    check(hidden(text) is None, f"{what} holds {hidden(text)!r}: {text[:300]!r}")


def evil_model(box):
    box.write("x.safetensors", data_set(names=EVIL))
    box.write("m.txt", "".join(f"{name}\n" for name in EVIL))
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("index", "x.safetensors", "-o", "g.safetensors")


@test
def names_in_results(box):
    evil_model(box)
    for words in (["classify", "m.safetensors", "x.safetensors"], ["search", "g.safetensors", "x.safetensors", "-k", 2],
                  ["search", "g.safetensors", "x.safetensors", "--json"], ["info", "m.safetensors"],
                  ["info", "m.safetensors", "--json"], ["classify", "m.safetensors", "x.safetensors", "--json"],
                  ["eval", "m.safetensors", "x.safetensors", "--errors"],
                  ["eval", "m.safetensors", "x.safetensors", "--errors", "--json"]):
        shows_all(box.works(*words).out, " ".join(map(str, words)))
    for option, name in (("--per-class", "k"), ("--confusions", "c"), ("--wrong", "w")):
        for ending in ("tsv", "csv"):
            box.works("eval", "m.safetensors", "x.safetensors", option, f"{name}.{ending}")
            shows_all(box.read(f"{name}.{ending}").decode(), f"{option} {ending}")
    answers = box.works("classify", "m.safetensors", "x.safetensors", "--top", 1).out
    equal({line.split("\t")[1] for line in answers.splitlines()[1:]}, set(SHOWN), "names in the table")
    lines = json.loads(box.works("classify", "m.safetensors", "x.safetensors", "--top", 1, "--json").out)["answers"]
    equal({line["classes"][0] for line in lines}, set(EVIL), "JSON gives the names back")


@test
def every_format_character(box):
    """By Python's tables, whose Unicode may be older than ours."""
    names = [f"a{chr(c)}b" for c in range(0x80, 0x110000) if unicodedata.category(chr(c)) in ("Cc", "Cf", "Zl", "Zp")]
    check(len(names) > 150, "there are that many")
    box.write("x.safetensors", data_set(n=2 * len(names), classes=len(names), names=names))
    box.works("fit", "x.safetensors", "--lambda", "1x", "-o", "m.safetensors")
    result = box.works("classify", "m.safetensors", "x.safetensors", "--json")
    shows_all(result.out, "JSON")
    shows_all(box.works("classify", "m.safetensors", "x.safetensors").out, "a table")


@test
def a_table_is_read_back(box):
    """'koofu compare' undoes what 'koofu classify' escapes, also where names look like escapes."""
    names = [EVIL[1], r"fox\u{202e}xof\u{2066}", "a\\tb\u0085"]
    box.write("x.safetensors", data_set(names=names))
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("classify", "m.safetensors", "x.safetensors", "-o", "a.tsv")
    got = json.loads(box.works("compare", "a.tsv", "m.safetensors", "x.safetensors", "--json").out)
    equal((got["only_a"], got["only_b"]), (0, 0), f"the same answers: {got}")
    check(got["both"] > 0, f"some are right: {got}")


@test
def paths_and_names_in_messages(box):
    path = "p\u202e\x9b\u2066.safetensors"
    box.write(path, data_set())
    for status, words in ((BAD_DATA, ["search", path, path]), (IO, ["stats", path, "-o", f"{path}/x.safetensors"]),
                          (USAGE, ["stats", path, "-o", path]), (IO, ["info", f"{path}.npy"]), (USAGE, [path]),
                          (USAGE, ["fit", path, f"--{path}"]), (BAD_DATA, ["fit", path, "--labels", path, "-o", "o.safetensors"])):
        result = box.run(*words)
        check(result.status in (status, USAGE, BAD_DATA), f"{result}")
        shows_all(result.err, " ".join(words))
        check(r"p\u{202e}\u{9b}\u{2066}" in result.err, f"the path is there: {result}")
    shows_all(box.works("fit", path, "-o", f"m{path}").err, "what fit says")
    shows_all(box.works("info", path).out, "info")
    # Bytes that are not UTF-8.
    os.symlink(path, os.path.join(os.fsencode(box.folder), b"l\xff\xe2\x80.safetensors"))
    check(r"l\xff\xe2\x80.safetensors" in box.works("info", os.fsdecode(b"l\xff\xe2\x80.safetensors")).out, "bytes are shown")
    # A note of the library, and a class in a message.
    box.write("y.txt", f"{EVIL[1]}\n" * 59 + "\n")
    box.write("x.npy", npy(world()[0]))
    box.write("names.txt", "other\nanother\n")
    result = box.refuses(BAD_DATA, "stats", "x.npy", "--labels", "y.txt", "--classes", "names.txt", "-o", "s.safetensors",
                         naming=r"fox\u{202e}xof\u{2066}")
    shows_all(result.err, "a class in a message")


def on_terminal(box, *words):
    """What a command prints when its output is a terminal."""
    ours, theirs = pty.openpty()
    result = box.run(*words, stdout=theirs)
    os.close(theirs)
    out = b""
    try:
        while chunk := os.read(ours, 65536):
            out += chunk
    except OSError:  # Linux: nothing more can come
        pass
    os.close(ours)
    equal(result.status, 0, f"{result}")
    return out.decode().replace("\r\n", "\n")


@test
def lists_on_a_terminal(box):
    """Lines for other programs stay as they are in files and pipes, and are escaped on a terminal."""
    box.write("names.txt", "".join(f"{name}\n" for name in EVIL[1:]))
    words = ["prompts", "--classes", "names.txt", "--templates", "builtin1"]
    equal(box.works(*words).out, "".join(f"image of {name}\n" for name in EVIL[1:]), "a pipe")
    equal(on_terminal(box, *words), "".join(f"image of {name}\n" for name in SHOWN[1:]), "a terminal")


@test
def cells_of_csv(box):
    """RFC 4180, and nothing that a spreadsheet would evaluate; numbers stay numbers."""
    names = ["=1+2", "+x", "-y", "@z", "-0.5", "+1e3", "'=already", "'plain", "a,b", 'say "x"', "two\nlines", "\ttab", "\rcr",
             "-", "a=b", "-1-1", "\u202eover"]
    wanted = ["'=1+2", "'+x", "'-y", "'@z", "-0.5", "+1e3", "''=already", "'plain", "a,b", 'say "x"', "two\nlines", "'\ttab",
              "'\rcr", "'-", "a=b", "'-1-1", r"\u{202e}over"]
    box.write("x.safetensors", data_set(n=20 * len(names), dim=32, classes=len(names), names=names))
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("classify", "m.safetensors", "x.safetensors", "--top", len(names), "-o", "a.csv")
    text = box.read("a.csv").decode()
    lines = list(csv.reader(io.StringIO(text, newline="")))
    equal({len(line) for line in lines}, {2 + 2 * len(names)}, "columns")
    equal(set(lines[1][1:-1:2]), set(wanted), "cells")
    for cell in (cell for line in lines[1:] for cell in line):
        check(cell[:1] not in "=@\t\r" or not cell, f"a formula: {cell!r}")
        check(cell[:1] not in "+-" or not cell or re.fullmatch(r"[+-][0-9.]+(e[+-]?\d+)?", cell), f"a formula: {cell!r}")
    check('"\'=1+2"' in text and ",-0.5," in text, "a guarded cell is quoted, a number is not")
    scores = [float(cell) for line in lines[1:] for cell in line[2:-1:2]]
    check(min(scores) < 0, "negative scores are numbers")


@test
def sets_in_the_csv_of_a_sweep(box):
    box.write("x.safetensors", data_set())
    box.write("=cmd|\u202e.txt", "class 0\nclass 1\n")
    out = box.works("sweep", "x.safetensors", "--dims", 4, "--lambdas", "1x", "--class-set", "=cmd|\u202e.txt",
                    "--format", "csv").out
    shows_all(out, "the CSV")
    check('"\'=cmd|\\u{202e}.txt",' in out, f"the set is guarded: {out!r}")


@test
def names_on_a_page(box):
    box.write("x.safetensors", data_set(names=EVIL))
    box.works("report", "x.safetensors", "--title", f"t{EVIL[1]}\u200f", "-o", "r.html")
    page = box.read("r.html").decode()
    shows_all(page, "the page")
    check("fox\ufffdxof\ufffd" in page, "a replacement takes the place")


@test
def ids_are_lossless_inside(box):
    """Files that koofu reads back itself keep every byte."""
    ids = [f"{i}{EVIL[i % 3]}" for i in range(60)]
    text = "\n".join(ids).encode()
    rows, labels = world()
    ends, blob = [], b""
    for name in ids:
        blob += name.encode()
        ends.append(len(blob))
    box.write("ids.txt", text + b"\n")
    box.write("x.safetensors", safetensors({"embeddings": ("F32", [60, 8], f32(rows)), "labels": ("I32", [60], i32(labels))},
                                           {"classes": json.dumps(EVIL)}))
    box.works("index", "x.safetensors", "--ids", "ids.txt", "-o", "g.safetensors")
    check(blob in box.read("g.safetensors"), "the gallery has the ids as they are")
    out = box.works("search", "g.safetensors", "x.safetensors", "-k", 1, "--json").out
    shows_all(out, "JSON")
    equal([a["neighbours"][0]["id"] for a in json.loads(out)["answers"]], ids, "ids come back")
