"""At least one session for every command, several for those that write or read in several ways.

IN is the folder of inputs from fixtures.py. A session runs in a folder that is empty except for
what `old` names, and writes only there. `commands_of` asks the program for its commands, and
`check_complete` fails if one has no session.
"""

import os
import re
import subprocess
import sys

IN = "../../../in"  # from jobs/N/c


class Session:
    def __init__(self, name, words, old=None, writes=(), resumes=(), best_effort=(), messages=1):
        self.name = name
        self.words = [word.replace("@", IN + "/") if isinstance(word, str) else str(word) for word in words] + ["-q"]
        self.command = self.words[0]
        self.old = old or {}          # {file or folder in the session's folder: input it is a copy of, or its bytes}
        self.writes = tuple(writes)   # files or folders it writes, besides those it replaces
        self.resumes = tuple(resumes)  # what an unfinished run may leave, for the next one to use
        self.best_effort = tuple(best_effort)  # pages that leave out pictures which cannot be read
        self.messages = messages               # lines that a failure may have


def session(name, *words, **more):
    return Session(name, words, **more)


def standing(*names):
    """Older files that a session replaces."""
    return {name: b"an older file\n" for name in names}


def all_sessions():
    out = ["-o", "out.safetensors"]
    one = {"old": standing("out.safetensors"), "writes": ["out.safetensors"]}
    embed = {"old": standing("out.safetensors"), "writes": ["out.safetensors"], "resumes": ["out.safetensors.parts"]}
    labels = ["--labels", "@y.txt"]
    living = {"g.safetensors": "living.safetensors", "g.safetensors.changes": "living.safetensors.changes"}
    return [
        session("quickstart", "quickstart", "@photos", "--encoder", "@clip", "-o", "q", writes=["q"], resumes=["q"],
                best_effort=["q/report.html"]),  # a thumbnail that cannot be read is left out
        session("quickstart-pictures", "quickstart", "@photos", "--encoder", "@vision", "-o", "q", writes=["q"], resumes=["q"],
                best_effort=["q/report.html"]),
        session("embed", "embed", "@clip", "@photos", *out, **embed),
        session("embed-shards", "embed", "@vision", "@photos", "--shard", 3, *out, **embed),
        session("embed-list", "embed", "@siglip", "--list", "@list.tsv", "--dtype", "f16", *out, **embed),
        session("embed-table", "embed", "@vision", "@photos", "--labels", "@photos.csv", *out, **embed),
        session("eval-pictures", "eval", "@seen.safetensors", "@photos", "--encoder", "@clip", "--labels", "@photos.csv", messages=10),
        session("add-class-pictures", "add-class", "@seen.safetensors", "yak", "@photos", "--encoder", "@clip", *out, **one),
        session("embed-jpeg", "embed", "@vision", "@q75-s2.jpg", "@q50.webp", *out, **embed),
        session("embed-text", "embed-text", "@clip", "--classes", "@two.txt", "--names", "@wordnet.txt", "--templates", "@templates.txt", *out, **one),
        session("embed-text-prompts", "embed-text", "@words", "--prompts", "@prompts.txt", *out, **one),
        session("embed-text-json", "embed-text", "@tokens", "--classes", "@two.txt", "--prompt-rows", *out, **one),
        session("convert", "convert", "@x.npy", *labels, "--only", "@some.txt", *out, **one),
        session("convert-npz", "convert", "@packed.npz", "--classes", "@names.txt", *out, **one),
        session("convert-stored", "convert", "@stored.npz:embeddings", "--labels", "@stored.npz:labels", *out, **one),
        session("convert-csv", "convert", "@x.fbin", "--labels", "@y.csv", "--label-column", "class", *out, **one),
        session("convert-table", "convert", "@x.csv", "--label-column", "kind", "--id-column", "photo", *out, **one),
        session("convert-strings", "convert", "@x.fvecs", "--labels", "@ys.npy", "--dtype", "bf16", *out, **one),
        session("convert-pattern", "convert", "@parts/*.npy", "--labels", "@y.npy", *out, **one),
        session("info", "info", "--json", "@set.safetensors", "@stats.safetensors", "@fused.safetensors", "@gallery.safetensors",
                "@x.npy", "@packed.npz", "@x.fvecs", "@x.fbin", "@y.csv", "@y.txt", messages=10),
        session("info-text", "info", "@raw.safetensors"),
        session("verify", "verify", "@set.safetensors", "@fused.safetensors", "@gallery.safetensors", "@packed.npz", "@x.u8bin",
                "@shard.tar", messages=6),
        session("embed-tar", "embed", "@vision", "@shard.tar", "--metadata", "m.jsonl", "-o", "out.safetensors",
                **{**embed, "writes": ["out.safetensors", "m.jsonl"]}),
        session("stats", "stats", "@set.safetensors", *out, **one),
        session("stats-raw", "stats", "@x8.npy", *labels, "--no-normalize", *out, **one),
        session("merge", "merge", "@stats.safetensors", "@stats-2.safetensors", *out, **one),
        session("fit", "fit", "@set.safetensors", *out, **one),
        session("fit-paper", "fit", "@x.npy", *labels, "--method", "paper", "--dim", "auto", *out, **one),
        session("fit-stats", "fit", "@stats.safetensors", "--like", "@shrunk.safetensors", "--lambda", "0.3x", *out, **one),
        session("fit-fused", "fit", "@set.safetensors", "--text", "@text.safetensors", "--reject", "0.9", *out, **one),
        session("fit-groups", "fit", "@set.safetensors", "--groups", "@groups.txt", *out, **one),
        session("transform", "transform", "@paper.safetensors", "@set.safetensors", *out, **one),
        session("transform-npy", "transform", "@shrunk.safetensors", "@x.npy", "-o", "out.npy", old=standing("out.npy"), writes=["out.npy"]),
        session("classify", "classify", "@shrunk.safetensors", "@x.npy", "--probabilities"),
        session("classify-file", "classify", "@fused.safetensors", "@x.npy", "--json", "-o", "out.jsonl", old=standing("out.jsonl"), writes=["out.jsonl"]),
        session("classify-votes", "classify", "@shrunk.safetensors", "@x.npy", "--gallery", "@gallery.safetensors", "--weighted"),
        session("classify-alone", "classify", "@living.safetensors", "@x.npy", "--weighted"),
        session("eval-alone", "eval", "@living.safetensors", "--json"),
        session("classify-text", "classify", "@shrunk.safetensors", "@x.npy", "--text", "@text.safetensors"),
        session("classify-pictures", "classify", "@seen.safetensors", "@photos", "--encoder", "@clip"),
        session("eval", "eval", "@shrunk.safetensors", "@set.safetensors", "--errors"),
        session("eval-files", "eval", "@fused.safetensors", "@set.safetensors", "--json", "--per-class", "classes.tsv", "--confusions", "confusions.csv",
                "--wrong", "wrong.jsonl", old=standing("classes.tsv", "confusions.csv", "wrong.jsonl"), writes=["classes.tsv", "confusions.csv", "wrong.jsonl"]),
        session("eval-truth", "eval", "@shrunk.safetensors", "@x.npy", "--truth", "@real.json", "--truth-classes", "@names.txt", "--json"),
        session("eval-clean", "eval", "@shrunk.safetensors", "@x.npy", "--truth", "@clean.csv", "--truth-classes", "@names.txt", "--ids", "@clean-ids.txt"),
        session("sweep", "sweep", "@set.safetensors", "--lambdas", "0.3x,1x", "--dims", "8,3", "-k", "1", "--folds", "3", "--format", "csv",
                "-o", "out.csv", old=standing("out.csv"), writes=["out.csv"]),
        session("sweep-test", "sweep", "@stats.safetensors", "--test", "@test.safetensors", "--lambdas", "1x", "--json"),
        session("compare", "compare", "@paper.safetensors", "@fused.safetensors", "@set.safetensors", "--json"),
        session("classes", "classes", "--hierarchy", "@tree.txt", "--set", "@tree-set.txt", "--all", "@tree-all.txt", "-o", "group",
                writes=["group-"]),
        session("report", "report", "@set.safetensors", "--test", "@test.safetensors", "--lambda", "0.3x", "--dims", "8,4", "-k", "1",
                "-o", "out.html", old=standing("out.html"), writes=["out.html"]),
        session("add-class", "add-class", "@shrunk.safetensors", "okapi", "@one.npy", *out, **one),
        session("add-class-text", "add-class", "@fused.safetensors", "okapi", "@one.npy", "--text", *out, **one),
        session("add-class-journal", "add-class", "@shrunk.safetensors", "--from-journal", "@journal", *out, **one),
        session("index", "index", "@x.npy", *labels, "--ids", "@ids.txt", "--model", "@shrunk.safetensors", *out, **one),
        session("append", "index", "@test.safetensors", "--ids", "@more-ids.txt", "--append", "g.safetensors", old={"g.safetensors": "gallery.safetensors"}, writes=["g.safetensors"]),
        session("append-to", "index", "@test.safetensors", "--ids", "@more-ids.txt", "--append", "@plain.safetensors", *out, **one),
        session("replace", "index", "@test.safetensors", "--ids", "@some-ids.txt", "--append", "g.safetensors", "--replace",
                old={"g.safetensors": "gallery.safetensors"}, writes=["g.safetensors"]),
        session("remove", "index", "g.safetensors", "--remove", "@gone.txt", old={"g.safetensors": "gallery.safetensors"}, writes=["g.safetensors"]),
        session("compact", "index", "g.safetensors", "--compact", old=living, writes=["g.safetensors"]),
        session("compact-many", "index", "g.safetensors", "--compact", writes=["g.safetensors"],
                old={"g.safetensors": "living-many.safetensors", "g.safetensors.changes": "living-many.safetensors.changes"}),
        session("index-again", "index", "@set.safetensors", "--model", "@shrunk.safetensors", "-o", "g.safetensors", old=living, writes=["g.safetensors"]),
        session("search-living", "search", "@living.safetensors", "@q.npy", "-k", 2, "--only-ids", "@two-ids.txt"),
        session("search-many", "search", "@living-many.safetensors", "--itself", "--rerank-from-disk", "-k", 1),
        session("convert-many", "convert", "@living-many.safetensors", *out, **one),
        session("search-also", "search", "@gallery.safetensors", "@q.npy", "-k", 3, "--also", "@living.safetensors"),
        session("search-within", "search", "@living.safetensors", "@q.npy", "--within", "0.2", "--only", "@some.txt"),
        session("search-sparse", "search", "@living.safetensors", "@q.npy", "--within", "0.2", *out, **one),
        session("search-unique", "search", "@living.safetensors", "--unique", "0.5", "--keep", "keep.txt", old=standing("keep.txt"), writes=["keep.txt"]),
        session("index-f16", "index", "@set.safetensors", "--dtype", "f16", *out, **one),
        session("index-bf16", "index", "@set.safetensors", "--dtype", "bf16", *out, **one),
        session("search-f16", "search", "@compact.safetensors", "@q.npy", "-k", 3),
        session("search", "search", "@gallery.safetensors", "@q.npy", "-k", 3),
        session("search-npy", "search", "@plain.safetensors", "@q.npy", "-o", "near.npy", old=standing("near.npy", "near_scores.npy"),
                writes=["near.npy", "near_scores.npy"]),
        session("search-disk", "search", "@bare.safetensors", "--itself", "--rerank-from-disk", "-k", 2, *out, **one),
        session("search-page", "search", "@shown.safetensors", "a cat", "--encoder", "@clip", "--pictures", "@.", "--html", "out.html",
                old=standing("out.html"), writes=["out.html"], best_effort=["out.html"]),
        session("search-tsv", "search", "@shown.safetensors", "@photos/cat/0.png", "--encoder", "@clip", "-o", "out.tsv", old=standing("out.tsv"),
                writes=["out.tsv"]),
        session("serve", "serve", "@shrunk.safetensors", "--gallery", "@gallery.safetensors", "--port", 0, "--check"),
        session("serve-journal", "serve", "@shrunk.safetensors", "--journal", "j", "--port", 0, "--check", old={"j": "journal"}),
        session("serve-pictures", "serve", "@seen.safetensors", "--rows", "@embedded.safetensors", "--encoder", "@clip", "--images", "@photos", "--port", 0, "--check"),
        session("export-onnx", "export", "@fused.safetensors", "--inline-bytes", 1, "-o", "out.onnx", old=standing("out.onnx"), writes=["out.onnx"]),
        session("export-faiss", "export", "@shrunk.safetensors", "--gallery", "@gallery.safetensors", "-o", "out.faiss", old=standing("out.faiss"),
                writes=["out.faiss"]),
        session("export-npz", "export", "@raw.safetensors", "-o", "out.npz", old=standing("out.npz"), writes=["out.npz"]),
        session("export-c", "export", "@shrunk.safetensors", "-o", "out.c", old=standing("out.c", "out.h"), writes=["out.c", "out.h"]),
        session("export-hub", "export", "@shrunk.safetensors", "-o", "hub", writes=["hub"], resumes=["hub"]),
        session("prompts", "prompts", "--classes", "@names.txt", "--templates", "@templates.txt", "--label-output", "labels.txt", "-o", "out.txt",
                old=standing("labels.txt", "out.txt"), writes=["labels.txt", "out.txt"]),
        session("prompts-out", "prompts", "--classes", "@names.txt", "--templates", "builtin7"),
        session("text-prototypes", "text-prototypes", "@text-rows.npy", "--classes", "@names.txt", *out, **one),
        session("synth", "synth", "--classes", 3, "--dim", 8, "--per-class", 4, "--text", "text.safetensors", *out,
                old=standing("out.safetensors", "text.safetensors"), writes=["out.safetensors", "text.safetensors"]),
        session("demo", "demo", "--classes", 3, "--dim", 8, "--per-class", 4),
        session("help", "help", "fit"),
        session("man", "help", "--man", "search"),
        session("completion", "help", "--completion", "zsh"),
        session("version", "version"),
    ]


def commands_of(program):
    """The program's own list."""
    text = subprocess.run([program, "help"], capture_output=True, check=True).stdout.decode()
    found = re.findall(r"^  ([a-z][a-z-]*)  +\S", text.split("\n\n")[2], re.M)
    if len(found) < 10:
        sys.exit("torture: the program's list of commands cannot be read")
    return found


def check_complete(program, sessions):
    listed = commands_of(program)
    forgotten = sorted(set(listed) - {s.command for s in sessions})
    if forgotten:
        sys.exit(f"torture: no session for {', '.join(forgotten)}; add one to tests/torture/sessions.py")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def old_files(s, inputs):
    """{name: bytes} before the session."""
    found = {}
    for name, content in s.old.items():
        source = os.path.join(inputs, content) if isinstance(content, str) else None
        if source and os.path.isdir(source):
            found |= {f"{name}/{inner}": read(os.path.join(source, inner)) for inner in os.listdir(source)}
        else:
            found[name] = read(source) if source else content
    return found
