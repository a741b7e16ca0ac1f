"""Rows, labels and sets that make no sense, in valid files."""

from harness import BAD_DATA, check, equal, test
from files import data_set, npy, world

NAN, INF = float("nan"), float("inf")


def write_world(box, rows, labels):
    box.write("x.npy", npy(rows))
    box.write("y.txt", "".join(f"{k}\n" for k in labels))
    return ["x.npy", "--labels", "y.txt"]


@test
def bad_rows(box):
    for bad in ([NAN] + [1.0] * 7, [1.0] * 7 + [INF], [1.0] * 3 + [-INF] + [1.0] * 4, [0.0] * 8, [-0.0] * 8):
        rows, labels = world()
        rows[41] = bad
        words = write_world(box, rows, labels)
        for command in ("stats", "fit"):
            box.refuses(BAD_DATA, command, *words, "-o", "o.safetensors", naming=["x.npy", "row 41"])
        result = box.works("stats", *words, "-o", "s.safetensors", "--skip-bad")
        check("59 rows" in result.err and "1 bad" in result.err, f"{result}")
        result = box.works("convert", *words, "-o", "c.safetensors", "--skip-bad")
        check("59 rows" in result.err, f"{result}")


@test
def bad_rows_in_use(box):
    rows, labels = world()
    words = write_world(box, rows, labels)
    box.works("fit", *words, "-o", "m.safetensors")
    rows[7] = [NAN] * 8
    box.write("bad.npy", npy(rows))
    box.refuses(BAD_DATA, "transform", "m.safetensors", "bad.npy", "-o", "z.npy", naming=["bad.npy", "row 7"])
    box.refuses(BAD_DATA, "eval", "m.safetensors", "bad.npy", "--labels", "y.txt", naming=["bad.npy", "row 7"])
    box.refuses(BAD_DATA, "add-class", "m.safetensors", "new", "bad.npy", "-o", "n.safetensors", naming=["bad.npy", "row 7"])
    box.works("transform", "m.safetensors", "bad.npy", "-o", "z.npy", "--skip-bad")
    equal(box.read("z.npy")[-60 * 32:][7 * 32:8 * 32], b"\0" * 32, "a bad row becomes zeros")


@test
def label_counts(box):
    rows, labels = world()
    words = write_world(box, rows, labels[:59])
    box.refuses(BAD_DATA, "stats", *words, "-o", "o.safetensors", naming=["y.txt", "59", "60"])
    write_world(box, rows, labels + [0])
    box.refuses(BAD_DATA, "stats", *words, "-o", "o.safetensors", naming=["y.txt", "61", "60"])
    box.write("y.npy", npy(labels[:59], "<i4"))
    box.refuses(BAD_DATA, "convert", "x.npy", "--labels", "y.npy", "-o", "o.safetensors", naming=["y.npy", "59", "60"])
    box.write("y.npy", npy([float(k) for k in labels], "<f4"))
    box.refuses(BAD_DATA, "stats", "x.npy", "--labels", "y.npy", "-o", "o.safetensors", naming="y.npy")


@test
def negative_and_empty_labels(box):
    rows, labels = world()
    labels[5] = -1
    box.write("x.npy", npy(rows))
    box.write("y.npy", npy(labels, "<i8"))
    box.write("y.txt", "".join(f"{'' if k < 0 else 'name' + str(k)}\n" for k in labels))
    for name in ("y.npy", "y.txt"):
        box.refuses(BAD_DATA, "stats", "x.npy", "--labels", name, "-o", "o.safetensors", naming=name)
        box.refuses(BAD_DATA, "convert", "x.npy", "--labels", name, "-o", "o.safetensors", naming=name)
        result = box.works("stats", "x.npy", "--labels", name, "-o", "s.safetensors", "--skip-unlabelled")
        check("59 rows" in result.err and "1 without a label" in result.err, f"{result}")
        result = box.works("convert", "x.npy", "--labels", name, "-o", "c.safetensors", "--keep-unlabelled")
        check("60 rows" in result.err, f"{result}")


@test
def labels_out_of_range(box):
    rows, labels = world()
    words = write_world(box, rows, labels)
    box.write("y.npy", npy(labels[:-1] + [2**40], "<i8"))
    box.refuses(BAD_DATA, "stats", "x.npy", "--labels", "y.npy", "-o", "o.safetensors", naming="y.npy")
    box.write("two.txt", "0\n1\n")
    box.refuses(BAD_DATA, "stats", *words, "--classes", "two.txt", "-o", "o.safetensors", naming="y.txt")
    result = box.works("stats", *words, "--classes", "two.txt", "--skip-unknown", "-o", "s.safetensors")
    check("40 rows" in result.err and "left out 20 of 60 rows: 20 without a known label\n" in result.err, f"{result}")
    box.write("twice.txt", "0\n1\n2\n1\n")
    box.refuses(BAD_DATA, "stats", *words, "--classes", "twice.txt", "-o", "o.safetensors", naming="twice.txt")


@test
def no_labels(box):
    rows, _ = world()
    box.write("x.npy", npy(rows))
    for command in ("stats", "fit"):
        box.refuses(BAD_DATA, command, "x.npy", "-o", "o.safetensors", naming="label")
    box.works("convert", "x.npy", "-o", "c.safetensors")


@test
def one_class(box):
    rows, labels = world()
    words = write_world(box, rows, [0] * 60)
    box.works("stats", *words, "-o", "s.safetensors")
    few = "a fit needs at least two classes with rows; there is 1"
    box.refuses(BAD_DATA, "fit", "s.safetensors", "-o", "m.safetensors", naming=f"s.safetensors: {few}")
    box.refuses(BAD_DATA, "fit", *words, "-o", "m.safetensors", naming=f"x.npy: {few}")
    box.write("two.safetensors", data_set())
    box.works("stats", "two.safetensors", "-o", "t.safetensors")
    box.refuses(BAD_DATA, "fit", "t.safetensors", "--between", "s.safetensors", "--lambda", "1x", "-o", "m.safetensors",
                naming=f"s.safetensors: {few}")
    # Merged statistics are named after their own file.
    box.write("copy.safetensors", box.read("s.safetensors"))
    box.works("merge", "s.safetensors", "copy.safetensors", "-o", "sum.safetensors")
    box.refuses(BAD_DATA, "fit", "sum.safetensors", "-o", "m.safetensors", naming=f"sum.safetensors: {few}")


@test
def no_row_has_a_label(box):
    box.write("x.npy", npy(world()[0]))
    box.write("y.npy", npy([-1] * 60, "<i8"))
    box.write("names.txt", "ant\nfox\n")
    for command in ("stats", "fit"):
        for names in ([], ["--classes", "names.txt"]):
            box.refuses(BAD_DATA, command, "x.npy", "--labels", "y.npy", *names, "--skip-unlabelled", "-o", "o.safetensors",
                        naming="x.npy: no row of the data set has a label")


@test
def singular_scatter(box):
    rows, labels = world(n=6)
    words = write_world(box, rows, labels)
    box.refuses(BAD_DATA, "fit", *words, "--lambda", "0", "-o", "m.safetensors", naming=["rank", "lambda"])
    box.works("fit", *words, "--lambda", "1e-6", "-o", "m.safetensors")


@test
def different_dimensions(box):
    box.write("a.npy", npy(world(dim=8)[0]))
    box.write("b.npy", npy(world(dim=9)[0]))
    box.write("y.txt", "".join(f"{k}\n" for k in world(n=60)[1] * 2))
    box.refuses(BAD_DATA, "stats", "a.npy", "b.npy", "--labels", "y.txt", "-o", "o.safetensors", naming=["b.npy", "9", "8"])
    box.write("y60.txt", "".join(f"{k}\n" for k in world(n=60)[1]))
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    for words in (["classify", "m.safetensors", "b.npy"], ["transform", "m.safetensors", "b.npy", "-o", "z.npy"],
                  ["add-class", "m.safetensors", "new", "b.npy", "-o", "n.safetensors"],
                  ["eval", "m.safetensors", "b.npy", "--labels", "y60.txt"]):
        box.refuses(BAD_DATA, *words, naming=["9", "8"])


@test
def statistics_that_do_not_merge(box):
    for name, more in (("a", {}), ("b", {"dim": 9}), ("c", {"n": 30})):
        box.write(f"x{name}.safetensors", data_set(**more))
        box.works("stats", f"x{name}.safetensors", "-o", f"{name}.safetensors")
    box.works("stats", "xa.safetensors", "--no-normalize", "--exponent", 10, "-o", "raw10.safetensors")
    box.works("stats", "xa.safetensors", "--no-normalize", "--exponent", 11, "-o", "raw11.safetensors")
    for one, two in (("a", "b"), ("a", "raw10"), ("raw10", "raw11")):
        box.refuses(BAD_DATA, "merge", f"{one}.safetensors", f"{two}.safetensors", "-o", "o.safetensors",
                    naming=f"{two}.safetensors")
    box.works("merge", "a.safetensors", "c.safetensors", "-o", "o.safetensors")


@test
def exponents(box):
    box.write("x.safetensors", data_set())
    box.works("stats", "x.safetensors", "--no-normalize", "-o", "s.safetensors")
    box.works("stats", "x.safetensors", "--no-normalize", "--exponent", "-3", "-o", "t.safetensors")
    box.refuses(BAD_DATA, "stats", "x.safetensors", "--no-normalize", "--exponent", 40, "-o", "o.safetensors",
                naming="x.safetensors")


@test
def too_large_for_f16(box):
    rows, labels = world()
    rows[17][3] = 1e6
    words = write_world(box, rows, labels)
    box.refuses(BAD_DATA, "convert", *words, "--dtype", "f16", "-o", "o.safetensors", naming=["x.npy", "17"])
    box.works("convert", *words, "--dtype", "bf16", "-o", "o.safetensors")


@test
def nothing_to_score(box):
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.write("z.safetensors", data_set(names=["x", "y", "z"]))
    box.refuses(BAD_DATA, "eval", "m.safetensors", "z.safetensors")
    box.write("bare.npy", npy(world()[0]))
    box.refuses(BAD_DATA, "eval", "m.safetensors", "bare.npy", naming="label")
