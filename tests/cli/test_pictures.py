"""Pictures where rows are expected (--encoder), and text through an encoder."""

import json
import shutil
import struct

from files import read_safetensors
from harness import BAD_DATA, IO, USAGE, check, equal, test
from photos import CLIP, MODELS, TEXT, VISION, photos, rows_of


def prepare(box):
    paths = photos(box, "p", ["ant", "owl", "red fox"], 6)
    box.works("embed", CLIP, "p", "-o", "x.safetensors")
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    return paths


def table(text):
    return [line.split("\t") for line in text.splitlines()]


@test
def classify_pictures(box):
    paths = prepare(box)
    rows = table(box.works("classify", "m.safetensors", "x.safetensors").out)
    equal([line.pop(1) for line in rows], ["id", *paths], "ids of rows")
    equal([line.pop() for line in rows], ["truth", *["ant"] * 6, *["owl"] * 6, *["red fox"] * 6], "labels of rows")
    pictures = table(box.works("classify", "m.safetensors", "p", "--encoder", CLIP).out)
    equal(rows[0], ["row", *pictures[0][1:]], "header of rows")
    equal(pictures[0][:3], ["picture", "class1", "cosine1"], "header")
    equal([line[0] for line in pictures[1:]], paths, "paths")
    equal([line[1:] for line in pictures[1:]], [line[1:] for line in rows[1:]], "answers")
    one = table(box.works("classify", "m.safetensors", paths[7], paths[2], "--encoder", CLIP, "--top", 1).out)
    equal([line[:3] for line in one[1:]], [pictures[8][:3], pictures[3][:3]], "two of them")
    answer = json.loads(box.works("classify", "m.safetensors", paths[7], "--encoder", CLIP, "--json", "--top", 1).out)["answers"][0]
    equal((answer["picture"], answer["classes"]), (paths[7], [pictures[8][1]]), "JSON")
    right = sum(line[1] == line[0].split("/")[1] for line in pictures[1:])
    check(right >= 12, f"{right} of 18 are right")
    check("18 pictures" in box.works("classify", "m.safetensors", "p", "--encoder", CLIP, "-o", "a.tsv").err, "to a file")
    by_rows = table(box.works("classify", "m.safetensors", "x.safetensors", "--gallery", "g.safetensors", "-k", 3).out)
    by_votes = table(box.works("classify", "m.safetensors", "p", "--encoder", CLIP, "--gallery", "g.safetensors", "-k", 3).out)
    equal([line[1:] for line in by_votes], [line[2:-1] for line in by_rows], "votes")


@test
def eval_and_add_class_take_pictures(box):
    """What they say of pictures is what they say of the rows that koofu embed makes of them."""
    prepare(box)
    photos(box, "t", ["ant", "owl", "yak"], 4, seed=2)
    box.works("embed", CLIP, "t", "-o", "t.safetensors")
    for words in ([], ["--errors"], ["--json", "--wrong", "w.tsv"], ["--gallery", "g.safetensors", "-k", "1,3"], ["--raw"]):
        rows = box.works("eval", "m.safetensors", "t.safetensors", *words)
        wrong = box.read("w.tsv") if "--wrong" in words else None
        pictures = box.works("eval", "m.safetensors", "t", "--encoder", CLIP, *words)
        equal((pictures.out.split("load_seconds")[0], box.read("w.tsv") if wrong else None),
              (rows.out.split("load_seconds")[0], wrong), f"eval {words}")
        check(wrong is None or b"\tt/" in wrong, f"ids in {wrong}")
    box.works("add-class", "m.safetensors", "yak", "t.safetensors", "-o", "rows.safetensors")
    result = box.works("add-class", "m.safetensors", "yak", "t", "--encoder", CLIP, "-o", "pictures.safetensors")
    equal(box.read("pictures.safetensors"), box.read("rows.safetensors"), "the model with one class more")
    check("the new one from 12 pictures" in result.err, f"{result}")
    box.write("t/owl/0001.png", "nothing")
    for words in (["eval", "m.safetensors", "t"], ["add-class", "m.safetensors", "yak", "t", "-o", "o.safetensors"]):
        box.refuses(BAD_DATA, *words, naming=["t: no .npy", "--encoder"])
        box.refuses(BAD_DATA, *words, "--encoder", VISION, "--skip-bad", naming=["24", "13"])
        box.refuses(BAD_DATA, *words, "--encoder", CLIP, naming=["t/owl/0001.png", "--skip-bad"])
        result = box.works(*words, "--encoder", CLIP, "--skip-bad")
        check("left out 1 picture that cannot be read" in result.err, f"{result}")
        box.refuses(USAGE, *words, "--precision", "f32", naming="--encoder")
        box.refuses(USAGE, *words, "--encoder", CLIP, "--tensor", "x", naming="--tensor")
    box.refuses(BAD_DATA, "eval", "m.safetensors", "t/ant", "--encoder", CLIP, naming=["no labels", "--labels"])
    box.refuses(USAGE, "add-class", "m.safetensors", "x", "t", "--text", "--encoder", CLIP, "-o", "o.safetensors", naming="--text")
    box.refuses(USAGE, "classify", "m.safetensors", "t", "--labels", "l.csv", "--encoder", CLIP, naming="--labels")


@test
def labels_in_a_table(box):
    """As with one folder per class, but for the paths; one loader for embed, quickstart and eval."""
    paths = photos(box, "p", ["ant", "owl", "red fox"], 6)
    lines = []
    for i, path in enumerate(paths):
        box.write(f"flat/{i % 2}/{i:02d}.png", box.read(path))
        lines.append(f"{i:02d}.png,{path.split('/')[1]}\n")
    box.write("l.csv", "image,species\n" + "".join(lines[::-1]))
    box.works("embed", CLIP, "p", "-o", "p.safetensors")
    box.works("embed", CLIP, "flat", "--labels", "l.csv", "-o", "flat.safetensors")
    folders, _, names = rows_of(box, "p.safetensors")
    table_rows, labels, table_names = rows_of(box, "flat.safetensors")
    equal(table_names, names, "classes")
    for i, path in enumerate(paths):
        equal(table_rows[f"flat/{i % 2}/{i:02d}.png"], folders[path], "the row")
        equal(labels[f"flat/{i % 2}/{i:02d}.png"], i // 6, "the label")
    out = box.works("quickstart", "flat", "--labels", "l.csv", "--encoder", CLIP).out
    check("18 pictures in 3 classes" in out, out)
    equal(box.read("flat-koofu/embeddings.safetensors"), box.read("flat.safetensors"), "quickstart")
    model = "flat-koofu/model.safetensors"
    equal(box.works("eval", model, "flat", "--labels", "l.csv", "--encoder", CLIP).out,
          box.works("eval", model, "flat.safetensors").out, "eval")
    # Some lines, of a table with more columns.
    box.write("some.tsv", "n\tname\tof\n" + "".join(f"{i}\t{i:02d}\t{paths[i].split('/')[1]}\n" for i in range(4, 10)))
    words = ["embed", CLIP, "flat", "--labels", "some.tsv", "--id-column", "name", "--label-column", "of"]
    result = box.works(*words, "-o", "some.safetensors")
    check("left out 12 pictures that some.tsv does not label (flat/0/00.png, flat/0/02.png, flat/0/10.png, ...)" in result.err, result.err)
    equal(list(rows_of(box, "some.safetensors")[0]), [f"flat/0/{i:02d}.png" for i in (4, 6, 8)] + [f"flat/1/{i:02d}.png" for i in (5, 7, 9)], "ids")
    # What cannot be.
    box.refuses(BAD_DATA, *words[:5], "-o", "o.safetensors", naming=["'n', 'name', 'of'", "--id-column"])
    box.refuses(BAD_DATA, *words[:7], "-o", "o.safetensors", naming=["'n', 'name', 'of'", "--label-column"])
    box.write("gone.csv", "image,species\n99.png,ant\n" + "".join(lines))
    box.refuses(BAD_DATA, "quickstart", "flat", "--labels", "gone.csv", "--encoder", "nowhere", naming=["gone.csv: 1 line", "99.png", "--skip-bad"])
    check("left out 1 line" in box.works("embed", CLIP, "flat", "--labels", "gone.csv", "--skip-bad", "-o", "o.safetensors").err, "skipped")
    box.refuses(USAGE, "embed", CLIP, "flat", "--label-column", "x", "-o", "o.safetensors", naming="--labels")
    box.refuses(USAGE, "embed", CLIP, "--list", "l.csv", "--labels", "l.csv", "-o", "o.safetensors", naming="--labels")
    box.refuses(USAGE, "embed", CLIP, "flat", "--labels", "l.csv", "--labels", "l.csv", "-o", "o.safetensors", naming="one file")


@test
def classify_what_cannot_be(box):
    paths = prepare(box)
    for precision in ("bf16", "f32"):
        box.works("classify", "m.safetensors", paths[0], "--encoder", CLIP, "--precision", precision)
    box.write(paths[4], "nothing")
    box.refuses(BAD_DATA, "classify", "m.safetensors", "p", "--encoder", CLIP, naming=[paths[4], "--skip-bad"])
    result = box.works("classify", "m.safetensors", "p", "--encoder", CLIP, "--skip-bad")
    equal([line[0] for line in table(result.out)[1:]], [p for p in paths if p != paths[4]], "the others")
    check(paths[4] in result.err and "left out 1 picture that cannot be read" in result.err, f"{result}")
    box.refuses(BAD_DATA, "classify", "m.safetensors", paths[0], "--encoder", VISION, naming=["clip-vision", "13", "24"])
    box.refuses(USAGE, "classify", "m.safetensors", "x.safetensors", "--precision", "f32", naming="--encoder")
    box.refuses(USAGE, "classify", "m.safetensors", "x.safetensors", "--max-pixels", 9, naming="--encoder")
    box.refuses(USAGE, "classify", "m.safetensors", paths[0], "--encoder", CLIP, "--tensor", "x", naming="--tensor")
    box.refuses(IO, "classify", "m.safetensors", "gone.png", "--encoder", CLIP, naming="gone.png")
    box.refuses(BAD_DATA, "classify", "m.safetensors", paths[0], naming=[paths[0], "unknown file extension", "--encoder"])  # forgotten --encoder
    for words in (["classify", "m.safetensors", "p"], ["fit", "p", "-o", "o.safetensors"]):
        box.refuses(BAD_DATA, *words, naming=["p: no .npy", "koofu embed"])


@test
def embeddings_of_nothing(box):
    """A model of zeros: the picture is named, and can be skipped."""
    paths = prepare(box)
    shutil.copytree(CLIP, box.path("zeros"))
    weights = bytearray(box.read("zeros/model.safetensors"))
    begin = 8 + struct.unpack("<Q", weights[:8])[0]
    weights[begin:] = bytes(len(weights) - begin)
    box.write("zeros/model.safetensors", bytes(weights))
    for command in (["classify", "m.safetensors", "--any-encoder"], ["search", "g.safetensors", "--any-encoder"]):
        box.refuses(BAD_DATA, *command, paths[3], "--encoder", "zeros", naming=[paths[3], "zero", "--skip-bad"])
        result = box.works(*command, paths[3], paths[5], "--encoder", "zeros", "--skip-bad")
        equal(len(table(result.out)), 1, "lines besides the header")
        check(f"{paths[3]}: the embedding is zero" in result.err, f"{result}")


@test
def search_with_pictures(box):
    paths = prepare(box)
    rows = table(box.works("search", "g.safetensors", "x.safetensors", "-k", 2).out)
    pictures = table(box.works("search", "g.safetensors", "p", "--encoder", CLIP, "-k", 2).out)
    equal([line[0] for line in pictures[1:]], paths, "queries")
    equal([line[1:] for line in pictures], [line[1:] for line in rows], "answers")
    equal([line[1] for line in pictures[1:]], paths, "each is nearest to itself")
    box.works("search", "g.safetensors", "p", "--encoder", CLIP, "-k", 2, "-o", "a.safetensors")
    equal(len(read_safetensors(box.read("a.safetensors"))[0]["rows"]), 18, "as arrays")
    box.refuses(USAGE, "search", "g.safetensors", "--itself", "--encoder", CLIP, naming="--encoder")
    box.refuses(BAD_DATA, "search", "g.safetensors", paths[0], "--encoder", VISION, naming=["clip-vision", "13", "24"])


@test
def many_pictures_in_blocks(box):
    """More than are embedded at a time, one of them bad."""
    paths = prepare(box)
    names = [box.write(f"q/{i:03d}.png", box.read(paths[i % 18])) for i in range(300)]
    box.write(names[270], "nothing")
    lines = table(box.works("classify", "m.safetensors", "q", "--encoder", CLIP, "--skip-bad", "--top", 1).out)[1:]
    equal([line[0] for line in lines], [n for i, n in enumerate(names) if i != 270], "pictures")
    own = {line[0]: line[1:] for line in table(box.works("classify", "m.safetensors", "p", "--encoder", CLIP, "--top", 1).out)}
    for line in lines:
        equal(line[1:], own[paths[int(line[0][2:5]) % 18]], line[0])


@test
def text_of_classes(box):
    prepare(box)
    box.write("names.txt", "ant\nowl\nred fox\n")
    result = box.works("embed-text", CLIP, "--classes", "names.txt", "-o", "text.safetensors")
    check("3 classes of 24 from 21 prompts" in result.err, f"{result}")
    check("raw text" in box.works("eval", "m.safetensors", "x.safetensors", "--text", "text.safetensors").out, "eval")
    box.works("fit", "x.safetensors", "--text", "text.safetensors", "-o", "fused.safetensors")
    # step by step it is the same
    box.works("embed-text", CLIP, "--classes", "names.txt", "--prompt-rows", "-o", "rows.safetensors")
    box.works("text-prototypes", "rows.safetensors", "-o", "steps.safetensors")
    equal(box.read("steps.safetensors"), box.read("text.safetensors"), "text-prototypes of the rows")
    box.works("prompts", "--classes", "names.txt", "--templates", "builtin7", "-o", "prompts.txt")
    box.works("embed-text", CLIP, "--prompts", "prompts.txt", "-o", "lines.safetensors")
    lines, metadata = read_safetensors(box.read("lines.safetensors"))
    equal(lines["embeddings"], read_safetensors(box.read("rows.safetensors"))[0]["embeddings"], "the prompts themselves")
    check("labels" not in lines and "classes" not in metadata, "no labels")
    box.works("text-prototypes", "lines.safetensors", "--classes", "names.txt", "-o", "steps.safetensors")
    # lines of text do not say which prompts of which classes they were
    tensors, metadata = read_safetensors(box.read("text.safetensors"))
    check(len(metadata.pop("made_with")) == 16, "the prompts are named")
    equal(read_safetensors(box.read("steps.safetensors")), (tensors, metadata), "by way of koofu prompts")
    for threads in (1, 2, 5):
        box.works("embed-text", CLIP, "--classes", "names.txt", "--threads", threads, "-o", "again.safetensors")
        equal(box.read("again.safetensors"), box.read("text.safetensors"), f"{threads} threads")
    box.works("embed-text", CLIP, "--classes", "names.txt", "--templates", "builtin1", "-o", "one.safetensors")
    check(box.read("one.safetensors") != box.read("text.safetensors"), "other templates")
    box.write("synsets.txt", "n1\nn2\n")
    box.write("words.txt", "n2\towl, night bird\nn1\tant\n")
    box.works("embed-text", CLIP, "--classes", "synsets.txt", "--names", "words.txt", "-o", "by.safetensors")
    tensors, metadata = read_safetensors(box.read("by.safetensors"))
    equal(metadata["classes"], '["n1","n2"]', "classes")
    text = read_safetensors(box.read("text.safetensors"))[0]["embeddings"]
    equal(tensors["embeddings"], text[:2], "by other names")


@test
def text_that_cannot_be(box):
    box.write("names.txt", "ant\nowl\n")
    box.write("twice.txt", "ant\nant\n")
    box.write("bad.txt", b"ant\n\xff\n")
    out = ["-o", "text.safetensors"]
    box.refuses(USAGE, "embed-text", CLIP, *out, naming=["--classes", "--prompts", "missing"])
    box.refuses(USAGE, "embed-text", CLIP, "--classes", "names.txt", "--prompts", "names.txt", *out, naming="two ways")
    box.refuses(USAGE, "embed-text", CLIP, "--prompts", "names.txt", "--templates", "builtin1", *out, naming="--templates")
    box.refuses(USAGE, "embed-text", CLIP, "--prompts", "names.txt", "--prompt-rows", *out, naming="--prompt-rows")
    box.refuses(USAGE, "embed-text", CLIP, "--classes", "names.txt", "--dtype", "f16", *out, naming="--dtype")
    box.refuses(USAGE, "embed-text", CLIP, "--classes", "names.txt", "-o", "names.txt", naming="is both an input and the output")
    box.refuses(USAGE, "embed-text", CLIP, "--prompts", "names.txt", "-o", "names.txt", naming="is both an input and the output")
    box.refuses(BAD_DATA, "embed-text", CLIP, "--classes", "twice.txt", *out, naming=["twice.txt", "line 2", "--names"])
    box.refuses(BAD_DATA, "embed-text", CLIP, "--prompts", "bad.txt", *out, naming="UTF-8")
    box.refuses(USAGE, "embed-text", VISION, "--classes", "names.txt", *out, naming="no text tower")
    box.refuses(USAGE, "embed-text", f"{MODELS}/siglip", "--classes", "names.txt", *out, naming="tower that koofu reads (SigLIP)")
    box.refuses(IO, "embed-text", CLIP, "--classes", "gone.txt", *out, naming="gone.txt")
    box.refuses(IO, "embed-text", "gone", "--classes", "names.txt", *out, naming="gone")
    box.works("embed-text", TEXT, "--classes", "names.txt", *out)
    for model in ("clip-f16", "clip-bf16"):
        box.works("embed-text", f"{MODELS}/{model}", "--classes", "names.txt", *out)


@test
def zero_shot_by_search(box):
    """Without any fitted model: the nearest text of a picture."""
    paths = prepare(box)
    box.write("names.txt", "ant\nowl\nred fox\n")
    box.works("embed-text", CLIP, "--classes", "names.txt", "-o", "text.safetensors")
    box.works("index", "text.safetensors", "-o", "classes.safetensors")
    lines = table(box.works("search", "classes.safetensors", paths[0], "--encoder", CLIP, "-k", 3).out)
    equal(sorted(lines[1][2::3]), ["ant", "owl", "red fox"], "all classes, by cosine")
