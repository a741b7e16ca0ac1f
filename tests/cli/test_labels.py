"""Where labels come from: shards in order, folders, tables, strings and archives, as a new user has them."""

import glob
import json
import os

from harness import BAD_DATA, IO, USAGE, Skipped, check, equal, test
from files import data_set, npy, read_safetensors, world

try:
    import numpy
except ImportError:
    numpy = None

NAMES = ["ant", "bee", "c\u00e4t"]


def need_numpy():
    if numpy is None:
        raise Skipped("numpy is not installed")


def arrays(n=120):
    need_numpy()
    rows, labels = world(n=n, dim=8)
    return numpy.array(rows, "f4"), numpy.array(labels)


def shards(box, n=12):
    """Shards img_0 ... img_11, their labels in one file and in a folder."""
    x, y = arrays(10 * n)
    for folder in ("img", "lab"):
        os.mkdir(box.path(folder))
    for i in range(n):
        numpy.save(box.path(f"img/img_{i}.npy"), x[10 * i:10 * i + 10])
        numpy.save(box.path(f"lab/labels_{i}.npy"), y[10 * i:10 * i + 10])
    numpy.save(box.path("x.npy"), x)
    numpy.save(box.path("y.npy"), y)
    return ["img/" + os.path.basename(p) for p in sorted(glob.glob(box.path("img/*")))]


def statistics(box, *words):
    box.works("stats", *words, "-o", "o.safetensors")
    return box.read("o.safetensors")


@test
def shards_and_one_label_file(box):
    by_bytes = shards(box)
    equal(by_bytes[2], "img/img_10.npy", "the order of a shell")
    want = statistics(box, "x.npy", "--labels", "y.npy")
    result = box.works("stats", "img", "--labels", "y.npy", "-o", "o.safetensors")
    equal(box.read("o.safetensors"), want, "a folder")
    check("img/img_9.npy before img/img_10.npy" in result.err, f"the order is told: {result}")
    equal(statistics(box, "img/*.npy", "--labels", "y.npy"), want, "a pattern")
    words = ["stats", *by_bytes, "--labels", "y.npy", "-o", "p.safetensors"]
    box.refuses(USAGE, *words, naming=["y.npy", "img/img_11.npy comes before img/img_2.npy", "--order number", "--order given"])
    equal(statistics(box, *by_bytes, "--labels", "y.npy", "--order", "number"), want, "sorted on request")
    check(statistics(box, *by_bytes, "--labels", "y.npy", "--order", "given") != want, "as given: other labels")
    check(statistics(box, "img", "--labels", "y.npy", "--order", "name") != want, "by name: other labels")
    box.refuses(USAGE, *words, "--order", "size", naming="--order must be number, name or given")
    box.works("fit", "x.npy", "--labels", "y.npy", "-o", "m.safetensors")
    box.works("classify", "m.safetensors", *by_bytes)  # no file covers the rows of all files
    truth = "".join(f"{k}\n" for k in numpy.load(box.path("y.npy")))
    box.write("truth.txt", truth)
    box.refuses(USAGE, "eval", "m.safetensors", *by_bytes, "--truth", "truth.txt", naming=["truth.txt", "--order"])


@test
def a_folder_of_labels(box):
    by_bytes = shards(box)
    want = statistics(box, "x.npy", "--labels", "y.npy")
    for data in (["img"], by_bytes):
        for labels in ("lab", "lab/*.npy"):
            equal(statistics(box, *data, "--labels", labels), want, f"{data} with {labels}")
    os.remove(box.path("lab/labels_3.npy"))
    box.refuses(USAGE, "stats", "img", "--labels", "lab", "-o", "p.safetensors",
                naming=["11 label files", "lab/labels_", "12 data files", "img/img_"])
    numpy.save(box.path("lab/labels_3.npy"), numpy.zeros(9, int))
    box.refuses(BAD_DATA, "stats", "img", "--labels", "lab", "-o", "p.safetensors",
                naming=["lab/labels_3.npy: 9 labels for the 10 rows of img/img_3.npy"])
    os.mkdir(box.path("empty"))
    box.refuses(BAD_DATA, "stats", "img", "--labels", "empty", "-o", "p.safetensors", naming="no .npy, .npz, .parquet, .txt, .csv or .tsv")


@test
def strings_and_tables(box):
    x, y = arrays()
    names = numpy.array(NAMES)[y]
    numpy.save(box.path("x.npy"), x)
    box.write("y.txt", "\n".join(names))
    want = statistics(box, "x.npy", "--labels", "y.txt")
    numpy.save(box.path("wide.npy"), names)
    numpy.save(box.path("bytes.npy"), numpy.char.encode(names, "utf-8"))
    box.write("one.csv", "\ufefflabel\r\n" + "".join(f"{n}\r\n" for n in names))
    box.write("many.csv", "path,label,note\n" + "".join(f'"p, {i}.jpg",{n},"a ""b""\n"\n' for i, n in enumerate(names)))
    box.write("many.tsv", "path\tlabel\n" + "".join(f"p, {i}.jpg\t{n}\n" for i, n in enumerate(names)))
    for labels in ("wide.npy", "bytes.npy", "one.csv"):
        equal(statistics(box, "x.npy", "--labels", labels), want, labels)
    for labels, column in (("many.csv", "label"), ("many.csv", 2), ("many.tsv", "label"), ("many.tsv", 2)):
        equal(statistics(box, "x.npy", "--labels", labels, "--label-column", column), want, f"{labels}, {column}")
    words = ["stats", "x.npy", "--labels", "many.csv", "-o", "p.safetensors"]
    box.refuses(BAD_DATA, *words, naming=["many.csv: the table has 3 columns", "'path', 'label', 'note'", "--label-column"])
    box.refuses(BAD_DATA, *words, "--label-column", "class", naming=["no column 'class'", "'path', 'label', 'note'"])
    box.refuses(BAD_DATA, *words, "--label-column", 4, naming="no column 4")
    box.write("short.csv", "label\n" + "".join(f"{n}\n" for n in names[1:]))
    box.refuses(BAD_DATA, "stats", "x.npy", "--labels", "short.csv", "-o", "p.safetensors", naming=["like a header", "119 labels"])
    # Rows that are read in blocks find their labels in the middle of a table.
    box.works("fit", "x.npy", "--labels", "many.csv", "--label-column", "label", "-o", "m.safetensors")
    one, two = (json.loads(box.works("eval", "m.safetensors", "x.npy", "--labels", *l, "--json").out)
                for l in (["y.txt"], ["many.csv", "--label-column", "label"]))
    equal(one, two, "accuracies")


@test
def archives(box):
    x, y = arrays()
    names = numpy.array(NAMES)[y]
    numpy.save(box.path("x.npy"), x)
    numpy.save(box.path("y.npy"), y)
    want = statistics(box, "x.npy", "--labels", "y.npy")
    for save in (numpy.savez, numpy.savez_compressed):
        save(box.path("d.npz"), x=x, y=y, other=numpy.arange(5))
        save(box.path("s.npz"), x=x, names=names, z=numpy.asfortranarray(x.astype("f8")))
        before = box.files()
        if "without zlib" in box.run("stats", "d.npz", "-o", "o.safetensors").err:
            box.refuses(BAD_DATA, "stats", "d.npz", "-o", "p.safetensors", naming=["d.npz", "compressed", "numpy.savez"])
            continue
        for words in (["d.npz"], ["d.npz:x"], ["d.npz", "--tensor", "x", "--label-tensor", "y"], ["x.npy", "--labels", "d.npz"],
                      ["x.npy", "--labels", "d.npz:y"], ["s.npz:x", "--labels", "d.npz:y"], ["s.npz:z", "--labels", "d.npz:y"]):
            equal(statistics(box, *words), want, f"{save.__name__}: {words}")
        equal(box.files(), before, "nothing is left behind")
        check("labels are those of d.npz:y" in box.works("stats", "d.npz", "-o", "o.safetensors").err, "which labels")
        box.works("convert", "s.npz:x", "-o", "n.safetensors")
        equal(json.loads(read_safetensors(box.read("n.safetensors"))[1]["classes"]), NAMES, "class names")
        about = json.loads(box.works("info", "--json", "d.npz").out)
        equal([about[k] for k in ("format", "kind", "rows", "dim", "classes")], ["npz", "data set", 120, 8, 3], "info")
        equal({t["name"]: t["shape"] for t in about["tensors"]}, {"x": [120, 8], "y": [120], "other": [5]}, "arrays")
        for labels in ("d.npz", "y.npy"):  # which would be read whatever the name
            box.refuses(USAGE, "stats", "x.npy", "--labels", labels, "--label-tensor", "y", "-o", "p.safetensors",
                        naming=[labels, "'y'", "FILE.npz:NAME"])
        box.refuses(BAD_DATA, "stats", "s.npz", "-o", "p.safetensors", naming=["several arrays", "'x' (120 x 8 <f4)", "--tensor"])
        box.refuses(BAD_DATA, "stats", "d.npz:w", "-o", "p.safetensors", naming=["no array 'w'", "'other' (5 <i8)"])
        box.refuses(USAGE, "convert", "d.npz", "-o", "d.npz", naming="d.npz")
        whole = bytearray(box.read("d.npz"))
        for at in (len(whole) // 4, len(whole) // 2):
            damaged = bytearray(whole)
            damaged[at] ^= 16
            box.write("damaged.npz", bytes(damaged))
            box.refuses(BAD_DATA, "stats", "damaged.npz:x", "-o", "p.safetensors", naming="damaged")
        box.write("cut.npz", bytes(whole[:-30]))
        box.refuses(BAD_DATA, "stats", "cut.npz", "-o", "p.safetensors", naming="cut.npz")
    box.refuses(IO, "stats", "none.npz:x", "-o", "p.safetensors", naming="none.npz")


@test
def packed_arrays_in_a_folder_that_cannot_be_written(box):
    x, y = arrays()
    os.mkdir(box.path("read"))
    numpy.savez_compressed(box.path("read/d.npz"), x=x, y=y)
    box.become_nobody()
    os.chmod(box.path("read"), 0o555)
    result = box.run("stats", "read/d.npz", "-o", "o.safetensors")
    os.chmod(box.path("read"), 0o755)
    check(result.status == 0 or "without zlib" in result.err, f"unpacks elsewhere: {result}")


@test
def the_same_file_twice(box):
    box.write("a.safetensors", data_set())
    os.link(box.path("a.safetensors"), box.path("b.safetensors"))
    box.refuses(USAGE, "fit", "a.safetensors", "./a.safetensors", "-o", "m.safetensors", naming=["given twice", "a.safetensors"])
    box.refuses(USAGE, "fit", ".", "-o", "m.safetensors", naming=["given twice", "./b.safetensors", "./a.safetensors"])
    box.works("fit", "a.safetensors", "-o", "m.safetensors")
    # classify counts right answers if there are labels; queries without them are taken as they come
    box.refuses(USAGE, "classify", "m.safetensors", "a.safetensors", "b.safetensors", naming=["given twice", "b.safetensors"])
    box.write("q.npy", npy(world()[0]))
    os.link(box.path("q.npy"), box.path("r.npy"))
    result = box.works("classify", "m.safetensors", "q.npy", "r.npy")
    check("rows are taken twice from r.npy" in result.err, f"told: {result}")
    equal(len(result.out.splitlines()), 1 + 2 * 60, "lines")


@test
def what_text_is(box):
    box.write("notes.txt", "a\nb\na\n")
    box.write("t.csv", "path,label\na,b\n")
    about = json.loads(box.works("info", "--json", "notes.txt").out)
    equal((about["kind"], about["rows"], about["classes"]), ("lines", 3, 2), "text")
    text = box.works("info", "notes.txt", "t.csv").out
    check("lines        3" in text and "distinct     2" in text and "records      2" in text and "    label " in text, text)
