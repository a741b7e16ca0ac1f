"""Part 'files': mutated files of every kind that koofu reads, given to every command that reads
them.

A case is files:SUBJECT:SEED:NUMBER; these determine every byte. Rules: the status is a documented
one; a failure prints one line that names the file, no output, and leaves no file; a success prints
and writes no NaN; damage to a file with a checksum is always noticed; time and memory stay within
bounds.
"""

import json
import os
import random
import re
import struct

from lab import BAD_DATA, IO, OK, USAGE, check_end, check_message, check_safe, hold
from mutate import mutate

MEMORY = 2 << 30        # address space of a run
PEAK = 300 << 20        # memory of which it may use
PEAK_PICTURE = 3 << 29  # for a picture just below the limit on pixels: it is decoded alone
NOT_A_NUMBER = re.compile(rb"(?<![\w.])[+-]?(nan|inf|infinity)(?![\w])", re.I)
NAMED = re.compile(rb"\"[^\"\\n]*\b(nan|inf|infinity)\b", re.I)
# What a message may call the file, if it is about how two of them go together.
ROLE = re.compile(r"\b(model|text|data|data set|rows?|statistics|gallery|labels?)\b")
QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"')
IN = "../../../in/"


class Subject:
    """A file or a folder with one file that is mutated, and what is done with it. @ is the changed file or folder."""

    def __init__(self, name, source, kind, *uses, folder=None, loose=False, change_of=None):
        self.name, self.source, self.kind, self.uses = name, source, kind, uses
        self.folder = folder          # the folder of the inputs that the file is in, copied as a whole
        self.file = os.path.basename(source)
        self.loose = loose            # the message may be about a file that it names
        self.change_of = change_of    # the file is a change of this gallery, which @ is then


def use(*words):
    return words


OUT = ("-o", "out.safetensors")
ROWS = (use("convert", "@", *OUT), use("classify", "!paper.safetensors", "@"), use("info", "--json", "@"), use("index", "@", *OUT),
        use("search", "!plain.safetensors", "@", "-k", "2"), use("transform", "!shrunk.safetensors", "@", "-o", "out.npy"),
        use("convert", "@", "--skip-bad", *OUT))
LABELLED = (use("stats", "@", *OUT), use("fit", "@", *OUT), use("fit", "@", "--method", "paper", "--lambda", "1x", *OUT), use("eval", "!shrunk.safetensors", "@"),
            use("eval", "!fused.safetensors", "@", "--errors", "--json"), use("compare", "!paper.safetensors", "!fused.safetensors", "@", "--json"),
            use("index", "@", "--model", "!shrunk.safetensors", *OUT), use("add-class", "!shrunk.safetensors", "okapi", "@", *OUT),
            use("sweep", "@", "--lambdas", "1x", "--dims", "4", "--folds", "2", "--json"), use("text-prototypes", "@", *OUT))
MODEL = (use("info", "@", "--json"), use("info", "@"), use("classify", "@", "!x.npy", "--probabilities"), use("classify", "@", "!x.npy", "--json", "--raw"),
         use("classify", "@", "!x.npy", "--metric", "euclidean"), use("eval", "@", "!set.safetensors", "--json"), use("eval", "@", "!set.safetensors", "--errors"),
         use("transform", "@", "!x.npy", *OUT), use("transform", "@", "!x.npy", "--no-normalize", "-o", "out.npy"),
         use("index", "!set.safetensors", "--model", "@", *OUT), use("add-class", "@", "okapi", "!one.npy", *OUT),
         use("compare", "@", "!paper.safetensors", "!set.safetensors", "--json"), use("classify", "@", "!x.npy", "--text", "!text.safetensors"),
         use("report", "!set.safetensors", "--test", "!test.safetensors", "--model", "@", "--dims", "4", "-k", "1", "-o", "out.html"))
STATS = (use("info", "@", "--json"), use("fit", "@", *OUT), use("fit", "@", "--method", "paper", "--lambda", "gda", *OUT), use("merge", "@", "!stats-2.safetensors", *OUT),
         use("merge", "@", *OUT), use("fit", "!stats.safetensors", "--between", "@", *OUT), use("sweep", "@", "--test", "!test.safetensors", "--lambdas", "0.1x", "--format", "csv"))
GALLERY = (use("info", "@", "--json"), use("search", "@", "!q.npy", "-k", "3"), use("search", "@", "!q.npy", "-o", "near.npy"), use("search", "@", "--itself", "-k", "2"),
           use("search", "@", "!q.npy", "--rerank-from-disk", "--json"), use("index", "!test.safetensors", "--append", "@", *OUT),
           use("index", "!test.safetensors", "--append", "@"), use("classify", "!shrunk.safetensors", "!x.npy", "--gallery", "@", "--weighted"),
           use("eval", "!shrunk.safetensors", "!set.safetensors", "--gallery", "@", "--json"), use("convert", "@", *OUT), use("search", "@", "!q.npy", "--html", "out.html"),
           use("classify", "@", "!x.npy", "--weighted"), use("eval", "@", "--json"), use("search", "@", "!q.npy", "--within", "0.5"),
           use("search", "@", "!q.npy", "-k", "2", "--also", "!gallery.safetensors"), use("search", "!living.safetensors", "!q.npy", "-k", "2", "--also", "@", "--json"),
           use("search", "@", "!q.npy", "-k", "1", "--only-ids", "!two-ids.txt"), use("search", "@", "--unique", "0.5"), use("verify", "@"),
           use("index", "@", "--remove", "!gone.txt"), use("index", "@", "--compact"))
TEXT = (use("fit", "!set.safetensors", "--text", "@", *OUT), use("classify", "!shrunk.safetensors", "!x.npy", "--text", "@"), use("eval", "!paper.safetensors", "!set.safetensors", "--text", "@"),
        use("info", "@", "--json"), use("classify", "!paper.safetensors", "!x.npy", "--text", "@", "--text-as-is", "--raw"), use("search", "!plain.safetensors", "@", "--text-queries", "-k", "1"))
LABELS = (use("convert", "!x.npy", "--labels", "@", *OUT), use("stats", "!x.npy", "--labels", "@", "--classes", "!names.txt", "--skip-unknown", "--skip-unlabelled", *OUT),
          use("convert", "!x.npy", "--labels", "@", "--keep-unlabelled", *OUT), use("eval", "!shrunk.safetensors", "!x.npy", "--labels", "@"), use("info", "@", "--json"))
NAMES = (use("convert", "!x.npy", "--labels", "!y.npy", "--classes", "@", *OUT), use("prompts", "--classes", "@", "--templates", "builtin1"),
         use("prompts", "--classes", "@", "--templates", "!templates.txt", "--label-output", "l.txt", "-o", "p.txt"), use("convert", "!set.safetensors", "--only", "@", *OUT),
         use("eval", "!shrunk.safetensors", "!set.safetensors", "--class-set", "@"), use("stats", "!x.npy", "--labels", "!y.txt", "--classes", "@", "--skip-unknown", *OUT),
         use("text-prototypes", "!text-rows.npy", "--classes", "@", *OUT))
PICTURE = (use("embed", "!vision", "@", *OUT), use("embed", "!vision", "@", "!photos/cat/0.png", "--skip-bad", *OUT), use("embed", "!siglip", "@", "--precision", "f32", *OUT))
ARCHIVE = (use("embed", "!vision", "@", *OUT), use("embed", "!vision", "@", "--skip-bad", "--metadata", "m.jsonl", *OUT),
           use("embed", "!vision", "@", "--label-key", "kind", *OUT))
TOWERS = (use("embed", "@", "!photos/cat/0.png", *OUT),)
WORDS = (use("embed-text", "@", "--prompts", "!prompts.txt", *OUT), use("embed-text", "@", "--classes", "!two.txt", "--templates", "builtin1", *OUT))


def subjects():
    found = [
        Subject("paper", "paper.safetensors", "safetensors", *MODEL), Subject("shrunk", "shrunk.safetensors", "safetensors", *MODEL),
        Subject("fused", "fused.safetensors", "safetensors", *MODEL, use("classify", "@", "!x.npy", "--part", "text"), use("add-class", "@", "okapi", "!one.npy", "--text", *OUT)),
        Subject("raw", "raw.safetensors", "safetensors", *MODEL),
        Subject("stats", "stats.safetensors", "safetensors", *STATS), Subject("stats-raw", "stats-raw.safetensors", "safetensors", *STATS),
        Subject("gallery", "gallery.safetensors", "safetensors", *GALLERY), Subject("plain", "plain.safetensors", "safetensors", *GALLERY),
        Subject("bare", "bare.safetensors", "safetensors", *GALLERY), Subject("compact", "compact.safetensors", "safetensors", *GALLERY),
        Subject("change", "change.safetensors", "safetensors", *GALLERY, change_of="base.safetensors"),
        Subject("only-ids", "two-ids.txt", "text", use("search", "!living.safetensors", "!q.npy", "-k", "1", "--only-ids", "@")),
        Subject("text", "text.safetensors", "safetensors", *TEXT),
        Subject("set", "set.safetensors", "safetensors", *ROWS, *LABELLED), Subject("embedded", "embedded.safetensors", "safetensors", *ROWS, use("fit", "@", *OUT)),
        Subject("npy", "x.npy", "npy", *ROWS), Subject("npy8", "x8.npy", "npy", *ROWS), Subject("columns", "columns.npy", "npy", *ROWS),
        Subject("half", "half.npy", "npy", *ROWS),
        Subject("table", "x.csv", "text", *ROWS, use("fit", "@", "--label-column", "kind", "--id-column", "photo", *OUT)),
        Subject("stored", "stored.npz", "zip", *ROWS, use("stats", "@", *OUT)), Subject("packed", "packed.npz", "zip", *ROWS, use("stats", "@", *OUT)),
        Subject("fvecs", "x.fvecs", "vecs", *ROWS), Subject("fbin", "x.fbin", "vecs", *ROWS), Subject("u8bin", "x.u8bin", "vecs", *ROWS),
        Subject("tar", "shard.tar", "tar", *ARCHIVE),
        Subject("labels", "y.txt", "text", *LABELS), Subject("labels-npy", "y.npy", "npy", *LABELS), Subject("labels-strings", "ys.npy", "npy", *LABELS),
        Subject("labels-tsv", "y.tsv", "text", *LABELS),
        Subject("labels-csv", "y.csv", "text", *(use(*words, "--label-column", "class") for words in LABELS if words[0] != "info"), use("info", "@", "--json")),
        Subject("names", "names.txt", "text", *NAMES),
        Subject("ids", "ids.txt", "text", use("index", "!x.npy", "--ids", "@", *OUT)),
        Subject("groups", "groups.txt", "text", use("fit", "!set.safetensors", "--groups", "@", *OUT)),
        Subject("templates", "templates.txt", "text", use("prompts", "--classes", "!names.txt", "--templates", "@"),
                use("embed-text", "!words", "--classes", "!two.txt", "--templates", "@", *OUT)),
        Subject("wordnet", "wordnet.txt", "text", use("prompts", "--classes", "!two.txt", "--names", "@", "--all-names", "--templates", "builtin1", "--label-output", "l.txt")),
        Subject("prompts", "prompts.txt", "text", use("embed-text", "!words", "--prompts", "@", *OUT)),
        Subject("truth", "truth.txt", "text", use("eval", "!shrunk.safetensors", "!x.npy", "--truth", "@")),
        Subject("real", "real.json", "json", use("eval", "!shrunk.safetensors", "!x.npy", "--truth", "@", "--truth-classes", "!names.txt")),
        Subject("clean", "clean.csv", "text", use("eval", "!shrunk.safetensors", "!x.npy", "--truth", "@", "--truth-classes", "!names.txt", "--ids", "!clean-ids.txt")),
        Subject("tree", "tree.txt", "text", use("classes", "--hierarchy", "@", "--set", "!tree-set.txt", "--all", "!tree-all.txt"),
                use("classes", "--hierarchy", "@", "--set", "!tree-set.txt", "--all", "!tree-all.txt", "--json", "-o", "g")),
        Subject("picture-labels", "photos.csv", "text", use("embed", "!vision", "!photos", "--labels", "@", *OUT)),
        Subject("list", "far.tsv", "text", use("embed", "!vision", "--list", "@", *OUT), loose=True),
        Subject("config", "clip/config.json", "json", *TOWERS, *WORDS, folder="clip"), Subject("siglip-config", "siglip/config.json", "json", *TOWERS, folder="siglip"),
        Subject("preprocessor", "clip/preprocessor_config.json", "json", *TOWERS, folder="clip"),
        Subject("vocabulary", "words/vocab.json", "json", *WORDS, folder="words"), Subject("merges", "words/merges.txt", "text", *WORDS, folder="words"),
        Subject("tokenizer", "tokens/tokenizer.json", "json", *WORDS, folder="tokens"),
        Subject("packed-words", "packed/bpe_simple_vocab_16e6.txt.gz", "gzip", *WORDS, folder="packed"),
        Subject("weights", "vision/model.safetensors", "safetensors", *TOWERS, folder="vision"), Subject("word-weights", "words/model.safetensors", "safetensors", *WORDS, folder="words"),
        Subject("shard-index", "shards/model.safetensors.index.json", "json", *TOWERS, *WORDS, folder="shards"),
        Subject("shard", "shards/model-00002-of-00003.safetensors", "safetensors", *TOWERS, *WORDS, folder="shards"),
    ]
    for source in ("q75-s2.jpg", "progressive-420.jpg", "cmyk.jpg", "exif6-be.jpg", "restart.jpg"):
        found.append(Subject(source, source, "jpeg", *PICTURE))
    for source in ("rgb8-13x19.png", "palette4-i-13x19.png", "la16-13x19.png", "exif6.png", "grey-trns.png"):
        found.append(Subject(source, source, "png", *PICTURE))
    for source in ("q50.webp", "lossless-alpha.webp", "exif6.webp", "animated.webp"):
        found.append(Subject(source, source, "webp", *PICTURE))
    return {s.name: s for s in found}


SUBJECTS = subjects()


def prepare(lab):
    """Leaves out uses for which a valid file is refused, such as asking for labels of rows that have none."""
    for subject in SUBJECTS.values():
        subject.uses = [words for words in subject.uses if works(lab, subject, words)]
        hold(subject.uses, f"no use of {subject.source} works")


def works(lab, subject, words):
    with open(os.path.join(lab.inputs, subject.source), "rb") as file:
        target = place(lab, subject, file.read())
    return lab.bench.run(filled_in(words, target), memory=MEMORY).status == OK


def filled_in(words, target):
    return [*(target if word == "@" else IN + word[1:] if word.startswith("!") else word for word in words), "-q"]


def cases(lab, share=None):
    names = list(SUBJECTS)
    n = share or lab.options.mutations
    return [f"files:{names[i % len(names)]}:{lab.seed}:{i}" for i in range(n)]


def place(lab, subject, content):
    """Puts the file with this content where the words of a use find it; what they call it."""
    lab.bench.clear()
    if subject.change_of:
        with open(os.path.join(lab.inputs, subject.change_of), "rb") as file:
            gallery = file.read()
        base = re.search(rb'"checksum":"([0-9a-f]{16})"', gallery).group(1).decode()
        lab.bench.write("g.safetensors", gallery)
        lab.bench.write(f"g.safetensors.changes/{base}-000001.safetensors", content)
        return "g.safetensors"
    if not subject.folder:
        lab.bench.write(subject.file, content)
        return subject.file
    copy = os.path.join(lab.bench.case, subject.folder)
    os.mkdir(copy)
    for other in os.listdir(os.path.join(lab.inputs, subject.folder)):
        if other != subject.file:
            os.symlink(os.path.join("..", IN, subject.folder, other), os.path.join(copy, other))
    lab.bench.write(f"{subject.folder}/{subject.file}", content)
    return subject.folder


def made(lab, name, seed, number):
    """(how, content, must, words with @) of a case."""
    subject, rng = SUBJECTS[name], random.Random(f"files:{name}:{seed}:{number}")
    with open(os.path.join(lab.inputs, subject.source), "rb") as file:
        how, content, must = mutate(subject.kind, file.read(), rng)
    return how, content, must, rng.choice(subject.uses)


def command_of(lab, name, seed, number):
    return made(lab, name, seed, number)[3][0]


def looks_ours(content):
    """Whether a file still claims to be koofu's and has a checksum; otherwise its rows are an ordinary data set."""
    return b'"format":"koofu.' in content and b'"checksum":"' in content


def run(lab, name, seed, number):
    subject = SUBJECTS[name]
    how, content, must, words = made(lab, name, seed, number)
    target = place(lab, subject, content)
    words, placed = filled_in(words, target), lab.bench.tree()
    result = lab.bench.run(words, memory=MEMORY)
    lab.shown = f"[{how}] {result}"
    check_end(result)
    most = PEAK_PICTURE if subject.kind in ("jpeg", "png", "webp") else PEAK
    hold(result.peak < most or lab.bench.sanitized, lambda: f"it takes {result.peak >> 20} MiB")
    tree = lab.bench.tree()
    left = {n: c for n, c in tree.items() if n not in placed and not n.startswith(target + "/")}
    if result.status == OK:
        hold(not must or (words[0] == "convert" and not looks_ours(content)), "damage is not noticed")
        check_success(words, result, left, content)
    else:
        hold(result.status in (USAGE, BAD_DATA, IO), lambda: f"status {result.status} for a bad file")
        check_message(result)
        text = result.err.decode("utf-8", "replace")
        options = any(word in text for word in words if word.startswith("--"))  # that ask for what this file does not have
        hold(target in text or any(word.removeprefix(IN) in text for word in words if word.startswith(IN)) or ROLE.search(text) or
             (result.status == USAGE and options) or subject.loose,
             f"the message names neither {target} nor what it is")
        hold(result.out == b"", "it fails, but prints something")
        left = [n for n in left if ".parts/" not in n]
        hold(not left, lambda: f"it fails, and {', '.join(left)} is left behind")
        hold(all(tree.get(n) == c for n, c in placed.items()), "it fails, and has changed the file")
    return words[0]


def check_success(words, result, left, content):
    check_safe(result.err.decode("utf-8", "surrogateescape"))
    if words[0] != "prompts":  # these are words, and may say anything
        found = NOT_A_NUMBER.search(QUOTED.sub(b"", result.out))
        found = found if found and not NAMED.search(content) else None  # a class or a key may have this name
        hold(not found, lambda: f"{found.group().decode()} is printed")
    for name, written in left.items():
        if name.endswith(".safetensors"):
            check_numbers(name, written)


def check_numbers(name, content):
    """No tensor of floats that koofu writes holds a NaN or an infinity; answers for bad queries do not occur here."""
    length = struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    for tensor, entry in header.items():
        begin, end = (8 + length + at for at in entry["data_offsets"])
        masks = {"F32": ("I", 0x7F800000), "F64": ("Q", 0x7FF0000000000000), "F16": ("H", 0x7C00), "BF16": ("H", 0x7F80)}
        if entry["dtype"] in masks:
            form, mask = masks[entry["dtype"]]
            words = struct.unpack_from(f"<{(end - begin) // struct.calcsize(form)}{form}", content, begin)
            hold(all(word & mask != mask for word in words), f"{tensor} of {name} holds what is not a number")
