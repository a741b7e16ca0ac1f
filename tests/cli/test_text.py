"""Classes by their names: prompts, text prototypes, zero-shot."""

import json
import struct

from harness import BAD_DATA, IO, USAGE, check, equal, test
from files import data_set, f32, i32, npy, safetensors, world

N, K = 240, 12
NAMES = [f"class {k}" for k in range(K)]


def read_rows(box, name):
    """Rows, labels and class names of a native data set."""
    data = box.read(name)
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])

    def values(tensor, code):
        begin, end = header[tensor]["data_offsets"]
        return struct.unpack(f"<{(end - begin) // 4}{code}", data[8 + length + begin:8 + length + end])
    dim = header["embeddings"]["shape"][1]
    flat = values("embeddings", "f")
    return ([flat[i:i + dim] for i in range(0, len(flat), dim)], values("labels", "i"),
            json.loads(header["__metadata__"].get("classes", "null")))


def text_rows(offset=1.5, dim=8):
    """A row for each class of files.world: its mean behind an offset."""
    rows, labels = world(50 * K, dim, K)
    means = [[sum(r[j] for r, k in zip(rows, labels) if k == c) / 50 for j in range(dim)] for c in range(K)]
    return [[m + (offset if j == 1 else 0) for j, m in enumerate(row)] for row in means]


def text_set(rows, names=None, labels=None):
    labels = labels if labels is not None else list(range(len(rows)))
    tensors = {"embeddings": ("F32", [len(rows), len(rows[0])], f32(rows)), "labels": ("I32", [len(rows)], i32(labels))}
    return safetensors(tensors, metadata={"classes": json.dumps(names)} if names else None)


def with_model(box, *words, names=NAMES):
    box.write("x.safetensors", data_set(N, classes=K, names=names))
    box.works("fit", "x.safetensors", "--lambda", "0.3x", "-o", "m.safetensors", "-q", *words)
    box.write("t.safetensors", text_set(text_rows(), names))


def evaluate(box, *words):
    return json.loads(box.works("eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors", "--json", *words).out)


def hits(result, name, n="text_n"):
    return round(result[name] * result[n])


# --- text-prototypes -------------------------------------------------------------------------------


@test
def prototypes_are_means_by_class(box):
    rows, _ = world(12, 5)
    box.write("e.npy", npy(rows))
    box.write("names.txt", "hen\ncat\nox\n")
    box.write("y.txt", "".join(name + "\n" for name in ["hen", "cat", "ox"] for _ in range(4)))
    said = box.works("text-prototypes", "e.npy", "--classes", "names.txt", "-o", "a.safetensors").err
    check("3 classes of 5 from 12 embeddings" in said, said)
    box.works("text-prototypes", "e.npy", "--classes", "names.txt", "--per-class", 4, "-o", "b.safetensors")
    box.works("text-prototypes", "e.npy", "--classes", "names.txt", "--labels", "y.txt", "-o", "c.safetensors")
    equal(box.read("a.safetensors"), box.read("b.safetensors"), "--per-class is what the names say")
    equal(box.read("a.safetensors"), box.read("c.safetensors"), "labels say the same")
    got, labels, names = read_rows(box, "a.safetensors")
    equal((list(labels), names), ([0, 1, 2], ["hen", "cat", "ox"]), "classes")
    for flags in ([], ["--no-unit-rows"], ["--no-unit-mean"], ["--no-unit-rows", "--no-unit-mean"]):
        box.works("text-prototypes", "e.npy", "--per-class", 4, *flags, "-o", "d.safetensors", "-q")
        got, _, names = read_rows(box, "d.safetensors")
        equal(names, None, "names without --classes")
        for k in range(3):
            part = [[v / (1 if "--no-unit-rows" in flags else sum(w * w for w in r) ** .5) for v in r]
                    for r in rows[4 * k:4 * k + 4]]
            mean = [sum(column) / 4 for column in zip(*part)]
            length = 1 if "--no-unit-mean" in flags else sum(v * v for v in mean) ** .5
            check(all(abs(a - b / length) < 1e-6 for a, b in zip(got[k], mean)), f"class {k} with {flags}")


@test
def labels_inside_and_in_another_order(box):
    rows, labels = world(30, 6)
    box.write("a.safetensors", text_set(rows, ["x", "y", "z"], labels))
    box.works("text-prototypes", "a.safetensors", "-o", "b.safetensors")
    equal(read_rows(box, "b.safetensors")[2], ["x", "y", "z"], "names inside")
    box.write("n.txt", "p\nq\nr\n")
    box.works("text-prototypes", "a.safetensors", "--classes", "n.txt", "-o", "c.safetensors")
    equal(read_rows(box, "c.safetensors")[2], ["p", "q", "r"], "names of --classes")
    equal(read_rows(box, "c.safetensors")[0], read_rows(box, "b.safetensors")[0], "rows")


@test
def prototypes_that_cannot_be(box):
    rows, _ = world(12, 5)
    box.write("e.npy", npy(rows))
    box.write("n.txt", "a\nb\nc\nd\ne\n")
    box.write("twice.txt", "a\nb\na\n")
    box.write("y.txt", "a\n" * 11)
    out = ["-o", "t.safetensors"]
    box.refuses(BAD_DATA, "text-prototypes", "e.npy", *out, naming=["e.npy", "--per-class"])
    box.refuses(BAD_DATA, "text-prototypes", "e.npy", "--per-class", 5, *out, naming="12 text embeddings are not a multiple of 5")
    box.refuses(BAD_DATA, "text-prototypes", "e.npy", "--classes", "n.txt", *out,
                naming="12 embeddings cannot be shared out evenly among the 5 classes of n.txt")
    box.refuses(BAD_DATA, "text-prototypes", "e.npy", "--classes", "n.txt", "--per-class", 4, *out,
                naming="make 3 classes; there are 5 names")
    box.refuses(BAD_DATA, "text-prototypes", "e.npy", "--classes", "twice.txt", *out,
                naming="twice.txt: line 3 repeats the class name 'a' of line 1")
    box.refuses(BAD_DATA, "text-prototypes", "e.npy", "--labels", "y.txt", *out, naming="11")
    box.refuses(USAGE, "text-prototypes", "e.npy", "--labels", "y.txt", "--per-class", 4, *out, naming="--labels cannot be used with --per-class")
    box.refuses(USAGE, "text-prototypes", "e.npy", "--per-class", 4, "-o", "t.npy", naming=".safetensors")
    box.refuses(IO, "text-prototypes", "absent.npy", "--per-class", 4, *out, naming="absent.npy")


# --- prompts ---------------------------------------------------------------------------------------


@test
def prompts_class_by_class(box):
    box.write("n.txt", "tench, Tinca tinca\n'kite (bird of prey)',\n'bikini', # two-piece\n\"potter's wheel\",\nC# code # x\n")
    box.write("t.txt", "a {}.\nthe {} of {}s\n")
    out = box.works("prompts", "--classes", "n.txt", "--templates", "t.txt").out.splitlines()
    equal(out, ["a tench.", "the tench of tenchs", "a kite (bird of prey).", "the kite (bird of prey) of kite (bird of prey)s",
                "a bikini.", "the bikini of bikinis", "a potter's wheel.", "the potter's wheel of potter's wheels",
                "a C# code.", "the C# code of C# codes"], "prompts")
    one = box.works("prompts", "--classes", "n.txt", "--templates", "builtin1").out.splitlines()
    equal(one[:2], ["image of tench", "image of kite (bird of prey)"], "builtin1")
    seven = box.works("prompts", "--classes", "n.txt", "--templates", "builtin7").out.splitlines()
    equal((len(seven), seven[:7]), (35, ["itap of a tench.", "a bad photo of the tench.", "a origami tench.",
                                         "a photo of the large tench.", "a tench in a video game.", "art of the tench.",
                                         "a photo of the small tench."]), "builtin7")
    box.works("prompts", "--classes", "n.txt", "--templates", "builtin80", "-o", "p.txt")
    lines = box.read("p.txt").decode().splitlines()
    equal((len(lines), len(set(lines))), (400, 400), "builtin80")
    check(set(seven) <= set(lines), "the seven are among the eighty")


@test
def prompts_of_all_names(box):
    box.write("ids.txt", "n2\r\nn1\r\n")
    box.write("names.txt", "n1\tcrane, tower crane\nn0\tcrane\nn2\tcrane , Grus\n")
    words = ["prompts", "--classes", "ids.txt", "--names", "names.txt", "--templates", "builtin1"]
    equal(box.works(*words).out, "image of crane\nimage of crane\n", "the first names")
    out = box.works(*words, "--all-names", "--label-output", "y.txt").out
    equal(out, "image of crane\nimage of Grus\nimage of crane\nimage of tower crane\n", "all names")
    equal(box.read("y.txt"), b"n2\nn2\nn1\nn1\n", "labels")
    box.refuses(USAGE, *words, "--all-names", naming="--label-output")
    box.write("ids.txt", "n2\nn3\n")
    box.refuses(BAD_DATA, *words, naming=["names.txt", "'n3'", "line 2"])
    box.write("names.txt", "n2 crane\n")
    box.refuses(BAD_DATA, *words, naming="names.txt: line 1 has no tab")


@test
def prompts_that_cannot_be(box):
    cases = [("cat\n\ndog\n", "n.txt: line 2 is empty"), ("cat\n# all\n", "line 2 is empty"),
             ("cat\ndog\ncat, tom\n", "line 3 repeats the class name 'cat' of line 1"), ("'cat' dog\n", "line 1: the quotation"),
             ("n1\tcat\n", "--names"), ("", "n.txt: is empty"), ("cat\0\n", "NUL")]
    for text, cause in cases:
        box.write("n.txt", text)
        box.refuses(BAD_DATA, "prompts", "--classes", "n.txt", "--templates", "builtin1", "-o", "p.txt", naming=cause)
    box.write("n.txt", "cat\ncat\n")
    equal(box.works("prompts", "--classes", "n.txt", "--templates", "builtin1", "--repeats").out, "image of cat\n" * 2, "repeats")
    box.write("t.txt", "a {}\na photo\n")
    box.refuses(BAD_DATA, "prompts", "--classes", "n.txt", "--templates", "t.txt", "--repeats", naming="t.txt: line 2 has no {}")
    box.write("n.txt", "cat\ndog\n")
    for bad in (b"\xff", b"caf\xe9", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82"):
        box.write("bad.txt", b"cat\n{} " + bad + b"\ndog\n")
        for words in (["--classes", "bad.txt", "--templates", "builtin1"], ["--classes", "n.txt", "--templates", "bad.txt"],
                      ["--classes", "n.txt", "--templates", "builtin1", "--names", "bad.txt"]):
            box.refuses(BAD_DATA, "prompts", *words, naming="bad.txt: line 2 is not valid UTF-8")
    box.write("n.txt", "\ufeffcafé\n猫\n".encode())
    equal(box.works("prompts", "--classes", "n.txt", "--templates", "builtin1").out, "image of café\nimage of 猫\n", "UTF-8")
    box.refuses(IO, "prompts", "--classes", "n.txt", "--templates", "builtin8", naming="builtin8")
    box.refuses(USAGE, "prompts", "--classes", "n.txt", "--templates", "t.txt", "-o", "t.txt", naming="is both an input and the output")
    box.refuses(USAGE, "prompts", "--classes", "n.txt", naming="--templates")


# --- eval and classify -----------------------------------------------------------------------------


@test
def text_beside_prototypes(box):
    with_model(box)
    plain = json.loads(box.works("eval", "m.safetensors", "x.safetensors", "--json").out)
    text = evaluate(box)
    equal({k: text[k] for k in plain}, plain, "what is not about text stays")
    equal((text["text"], text["text_centre"], text["text_classes"], text["text_n"]), ("t.safetensors", "modality", K, N), "text")
    for centre in ("none", "mean", "modality"):
        words = ["--text", "t.safetensors", "--text-centre", centre]
        lines = box.works("classify", "m.safetensors", "x.safetensors", "--top", 1, *words).out.splitlines()[1:]
        right = sum(line.split("\t")[1] == NAMES[i % K] for i, line in enumerate(lines))
        equal(hits(evaluate(box, "--text-centre", centre), "text_top1"), right, f"eval is classify with {centre}")
    lines = box.works("classify", "m.safetensors", "x.safetensors", "--top", 1, "--raw", "--text", "t.safetensors").out.splitlines()[1:]
    right = sum(line.split("\t")[1] == NAMES[i % K] for i, line in enumerate(lines))
    equal(hits(text, "raw_text_top1"), right, "raw")
    check(text["text_top1"] > evaluate(box, "--text-centre", "none")["text_top1"], "centring closes the gap")
    table = box.works("eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors").out
    check("\nraw text " in table and "\nKoo-Fu text " in table, table)
    raw = box.works("eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors", "--raw").out
    check("\nraw text " in raw and "Koo-Fu" not in raw, raw)


@test
def text_of_other_lengths(box):
    """A file of prompts with labels is averaged; lengths count under --text-as-is alone."""
    with_model(box)
    rows = text_rows()
    scaled = [[v * 3 ** (k % 5 - 2) for v in row] for k, row in enumerate(rows)]
    before = evaluate(box)
    box.write("t.safetensors", text_set(scaled, NAMES))
    after = evaluate(box)
    for name in ("text_top1", "raw_text_top1"):
        equal(after[name], before[name], name)
    check(evaluate(box, "--text-as-is")["text_top1"] != before["text_top1"], "lengths count")
    box.write("t.safetensors", text_set(rows + rows, NAMES, list(range(K)) * 2))
    equal(evaluate(box)["text_top1"], before["text_top1"], "two rows a class")


@test
def text_with_truth_sets_and_errors(box):
    with_model(box)
    box.write("set.txt", "class 0\nclass 2\n")
    box.write("truth.txt", "".join(("" if i % 4 == 0 else f"class {i % K},class {(i + 1) % K}") + "\n" for i in range(N)))
    small = evaluate(box, "--class-set", "set.txt")
    equal((small["text_n"], small["text_n_absent"]), (40, 200), "a class set")
    true = evaluate(box, "--truth", "truth.txt")
    equal((true["text_n"], true["n_excluded"]), (180, 60), "a truth")
    check(true["text_top1"] > evaluate(box)["text_top1"], "more is right")
    errors = evaluate(box, "--errors", "--text-centre", "none", "--per-class", "c.tsv")
    equal(errors["errors_of"], "text", "whose errors")
    lines = [line.split("\t") for line in box.read("c.tsv").decode().splitlines()[1:]]
    equal(sum(int(line[2]) for line in lines), hits(errors, "text_top1"), "hits by class are those of text")
    check(hits(errors, "text_top1") != hits(errors, "top1", "n"), "... and not those of prototypes")
    printed = box.works("eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors", "--errors").out
    check("errors of text in the model's space" in printed, printed)
    printed = box.works("eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors", "--errors", "--raw").out
    check("errors of text in the original space" in printed, printed)


@test
def classes_are_matched_by_name(box):
    with_model(box)
    rows = text_rows()
    whole = evaluate(box)
    box.write("t.safetensors", text_set(rows[::-1], NAMES[::-1]))
    turned = evaluate(box)
    equal(turned["text_top1"], whole["text_top1"], "another order")
    box.write("t.safetensors", text_set([rows[0], [1.0] * 8, *rows[2:]], ["class 0", "cow", *NAMES[2:]]))
    result = box.works("eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors")
    for said in ("1 of the 12 classes of the model is not in the text ('class 1')", "1 of the 12 classes of the text is not in the model ('cow')"):
        equal(result.err.count(said), 1, f"{said!r} in {result.err}")
    check("left out of text, of 240 rows:\n  20 of 1 class that the text does not have" in result.out, result.out)
    equal(evaluate(box)["text_n"], 220, "rows of text")
    seen = box.works("classify", "m.safetensors", "x.safetensors", "--text", "t.safetensors", "--top", 12, "-q").out
    check("cow" in seen and "class 1\t" not in seen, "classes are those of the text")
    box.write("t.safetensors", text_set(rows, list("abcdefghijkl")))
    box.refuses(BAD_DATA, "eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors", "-q",
                naming=["no class of the text ('a', ...)", "'class 0'"])
    box.write("t.safetensors", text_set(rows, list("abcdefghijka")))
    box.refuses(BAD_DATA, "eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors", naming="'a'")
    box.write("t.safetensors", text_set(rows))
    box.refuses(BAD_DATA, "eval", "m.safetensors", "x.safetensors", "--text", "t.safetensors",
                naming="the classes of the model have names, those of the text only numbers")


@test
def classes_without_names(box):
    rows, labels = world(N, classes=K)
    box.write("x.npy", npy(rows))
    box.write("y.npy", npy(labels, "<i4"))
    box.write("t.npy", npy(text_rows()))
    box.works("fit", "x.npy", "--labels", "y.npy", "--lambda", "0.3x", "-o", "m.safetensors", "-q")
    box.works("text-prototypes", "t.npy", "--per-class", 1, "-o", "t.safetensors", "-q")
    words = ["eval", "m.safetensors", "x.npy", "--labels", "y.npy", "--text", "t.safetensors"]
    equal(json.loads(box.works(*words, "--json").out)["text_n"], N, "by number")
    box.write("t.safetensors", text_set(text_rows(), NAMES))
    box.refuses(BAD_DATA, *words, naming="the classes of the text have names, those of the model only numbers")
    box.write("t.safetensors", text_set(text_rows()[:2]))
    box.refuses(BAD_DATA, *words, naming="the text has 2 classes, the model 12")


@test
def text_that_cannot_be_used(box):
    with_model(box, "--no-normalize")
    for command in ("eval", "classify"):
        box.refuses(BAD_DATA, command, "m.safetensors", "x.safetensors", "--text", "t.safetensors", naming="keeps the lengths of images")
    with_model(box)
    box.write("e.npy", npy(text_rows()))
    words = ["m.safetensors", "x.safetensors"]
    box.refuses(BAD_DATA, "eval", *words, "--text", "e.npy", naming="koofu text-prototypes")
    box.write("short.safetensors", text_set(text_rows(dim=5), NAMES))
    box.refuses(BAD_DATA, "eval", *words, "--text", "short.safetensors", naming="5 columns, the images 8")
    box.refuses(IO, "eval", *words, "--text", "absent.safetensors", naming="absent")
    box.refuses(USAGE, "eval", *words, "--text-centre", "none", naming="--text-centre needs --text")
    box.refuses(USAGE, "classify", *words, "--text-as-is", naming="--text-as-is needs --text")
    box.refuses(USAGE, "eval", *words, "--text", "t.safetensors", "--text-centre", "median", naming="median")
    box.works("index", "x.safetensors", "-o", "g.safetensors", "-q")
    box.refuses(USAGE, "classify", *words, "--text", "t.safetensors", "--gallery", "g.safetensors", naming="--text cannot be used with --gallery")
    box.refuses(USAGE, "eval", "m.safetensors", "--gallery", "g.safetensors", "--text", "t.safetensors", naming="--text needs data")
    both = json.loads(box.works("eval", *words, "--text", "t.safetensors", "--gallery", "g.safetensors", "-k", 1, "--json").out)
    equal(both["text_top1"], evaluate(box)["text_top1"], "neighbours beside text")
    box.refuses(USAGE, "classify", *words, "--text", "t.safetensors", "-o", "t.safetensors", naming="t.safetensors")


@test
def text_gives_the_same_bytes_everywhere(box):
    box.works("synth", "--classes", 30, "--dim", 64, "-o", "x.safetensors", "--text", "t.safetensors", "-q")
    wanted = None
    for isa in ("plain", "avx2", "avx512", "amx"):
        for threads in (1, 3):
            how = ["--isa", isa, "--threads", threads]
            if box.run("version", *how).status or box.run("stats", "x.safetensors", "-o", "s.safetensors", *how).status:
                continue
            box.works("text-prototypes", "t.safetensors", "-o", "p.safetensors", *how)
            box.works("fit", "x.safetensors", "--lambda", "0.1x", "--dim", 20, "-o", "m.safetensors", *how)
            got = (box.read("p.safetensors"),
                   box.works("classify", "m.safetensors", "x.safetensors", "--text", "p.safetensors", *how).out)
            wanted = wanted or got
            check(got == wanted, f"{isa}, {threads} threads")


# --- sweep -----------------------------------------------------------------------------------------


@test
def cells_of_text_are_those_of_eval(box):
    box.works("synth", "--classes", 20, "--dim", 48, "-o", "x.safetensors", "--text", "t.safetensors", "-q")
    box.works("synth", "--classes", 20, "--dim", 48, "--split", 1, "--per-class", 6, "-o", "y.safetensors", "-q")
    words = ["sweep", "x.safetensors", "--test", "y.safetensors", "--lambdas", "0.01x,1x", "--dims", "48,20,5"]
    plain = json.loads(box.works(*words, "--json").out)["cells"]
    cells = json.loads(box.works(*words, "--json", "--text", "t.safetensors", "--text-centre", "all").out)["cells"]
    equal(cells[:len(plain)], plain, "cells of images stay")
    cells = [c for c in cells if c["text"] != "fused"]  # those are tested in test_fuse.py
    order = [(c["text"], round(c["relative"] or 0, 9), c["dim"]) for c in cells[len(plain):]]
    equal(order, [("none", 0, 48)] + [(centre, lam, dim) for centre in ("none", "mean", "modality") for lam in (0.01, 1)
                                      for dim in (48, 20, 5)], "cells of text and their order")
    for cell in cells[len(plain):]:
        relative = f"{cell['relative']}x" if cell["space"] == "koofu" else "1x"
        box.works("fit", "x.safetensors", "--lambda", relative, "--dim", cell["dim"], "-o", "m.safetensors", "-q")
        alone = json.loads(box.works("eval", "m.safetensors", "y.safetensors", "--text", "t.safetensors", "--json",
                                     "--text-centre", cell["text"]).out)
        prefix = "raw_" if cell["space"] == "raw" else ""
        equal((cell["n"], cell["top1"], cell["top5"]),
              (alone["text_n"], alone[prefix + "text_top1"], alone[prefix + "text_top5"]), f"{cell}")
    text = box.works(*words, "--text", "t.safetensors", "--no-prototypes").out
    check("text (centring: modality), cosine, top-1" in text and "prototypes" not in text, text)
    equal(text.count("\n       raw "), 2, "the original space is in both tables")
    csv = box.works(*words, "--text", "t.safetensors", "--format", "csv").out.splitlines()
    check(csv[0].endswith(",text,alpha,best") and ",modality,," in csv[-7] and csv[1].split(",")[-3:-1] == ["", ""], csv[0])
    folds = json.loads(box.works("sweep", "x.safetensors", "--folds", 3, "--lambdas", "1x", "--dims", 48, "--json",
                                 "--text", "t.safetensors").out)["cells"]
    equal([c["n"] for c in folds if c["text"]], [320, 320, 320], "folds")
    box.refuses(USAGE, "sweep", "x.safetensors", "--leave-one-out", "--text", "t.safetensors", naming="--leave-one-out")
    box.refuses(USAGE, *words, "--text-centre", "all", naming="--text-centre needs --text")
    box.refuses(USAGE, *words, "--no-prototypes", naming="-k or --text")
    box.refuses(BAD_DATA, *words, "--no-normalize", "--text", "t.safetensors", naming="keeps the lengths of images")
    box.write("u.safetensors", text_set([[1.0] * 48, [2.0] * 47 + [1.0]], ["p", "q"]))
    box.refuses(BAD_DATA, *words, "--text", "u.safetensors", naming=["no class of the text", "training data"])
