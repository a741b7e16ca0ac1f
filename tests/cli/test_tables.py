"""Rows in tables with a column for each dimension, .csv and .parquet, and label files that are not text."""

import csv
import io
import json
import pathlib
import resource

from files import f32, npy, read_safetensors, world
from harness import BAD_DATA, USAGE, check, equal, test

ROOT = pathlib.Path(__file__).resolve().parents[2]
ODD = ROOT / "tests" / "golden" / "parquet_odd"
N, DIM = 60, 8
NAMES = ["ant", 'bee, "b"', "cat"]


def rows():
    x, labels = world(N, DIM)
    return [list(row) for row in x], [NAMES[k] for k in labels], [f"p/{i}.jpg" for i in range(N)]


def table(header, records, separator=","):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    writer.writerows(([header] if header else []) + records)
    return out.getvalue()


def read_set(box, name):
    tensors, metadata = read_safetensors(box.read(name))
    names = json.loads(metadata.get("classes", "[]"))
    text, ids, begin = tensors.get("id_bytes", b"").decode(), [], 0
    for end in tensors.get("id_ends", []):
        ids.append(text[begin:end])
        begin = end
    return f32(tensors["embeddings"]), [names[k] for k in tensors.get("labels", [])], ids


@test
def tables_of_pandas(box):
    x, labels, ids = rows()
    numbers, named = [str(i) for i in range(DIM)], [f"emb_{i}" for i in range(DIM)]
    whole = [[*r, label, name] for r, label, name in zip(x, labels, ids)]
    box.write("plain.csv", table([*numbers, "label", "id"], whole))
    box.write("plain.tsv", table([*numbers, "label", "id"], whole, "\t"))
    box.write("index.csv", table(["", *numbers, "label", "id"], [[i, *r] for i, r in enumerate(whole)]))
    box.write("saved.csv", table(["Unnamed: 0", *numbers, "label", "id"], [[i, *r] for i, r in enumerate(whole)]))
    box.write("names.csv", table([f"size {c}" for c in "abcdefgh"] + ["label", "id"], whole))
    for name in ("plain.csv", "plain.tsv", "index.csv", "saved.csv", "names.csv"):
        said = box.works("convert", name, "-o", "o.safetensors").err
        equal(read_set(box, "o.safetensors"), (f32(x), labels, ids), name)
        check(f"labels are those of {name}, column 'label'" in said, said)
    more = table([*reversed(named), "kind", "price", "photo"], [[*reversed(r), label, 1.5, i] for r, label, i in zip(x, labels, ids)])
    box.write("more.csv", "\ufeff" + more.replace("\n", "\r\n"))
    for words in (["--label-column", "kind"], ["--label-column", DIM + 1], ["--label-column", "kind", "--column", "emb_"]):
        box.works("convert", "more.csv", *words, "--id-column", "photo", "-o", "o.safetensors")
        equal(read_set(box, "o.safetensors"), (f32(x), labels, ids), f"in any order, with {words}")
    box.works("convert", "plain.csv", "--id-column", "", "-o", "o.safetensors")
    equal(read_set(box, "o.safetensors"), (f32(x), labels, []), "ids that are not wanted")
    box.write("bare.csv", table(None, x))
    box.write("spaces.csv", "".join(", ".join(map(str, r)) + "\n" for r in x))
    box.write("beside.csv", table(None, [[*r, label] for r, label in zip(x, labels)]))
    box.write("y.txt", "".join(label + "\n" for label in labels))
    for name, words in (("bare.csv", ["--labels", "y.txt"]), ("spaces.csv", ["--labels", "y.txt"]),
                        ("beside.csv", ["--label-column", DIM + 1])):
        box.works("convert", name, *words, "-o", "o.safetensors")
        equal(read_set(box, "o.safetensors")[:2], (f32(x), labels), f"{name}, without a header")
    box.works("transform", box.works("fit", "plain.csv", "-o", "m.safetensors") and "m.safetensors", "bare.csv", "-o", "t.npy")
    equal(len(box.read("t.npy")) > N * 4, True, "a table of queries")


@test
def info_says_what_is_read(box):
    x, labels, ids = rows()
    box.write("t.csv", table(["id", *(f"emb_{i}" for i in range(DIM)), "label"], [[n, *r, k] for n, r, k in zip(ids, x, labels)]))
    about = json.loads(box.works("info", "--json", "t.csv").out)
    equal([about[key] for key in ("kind", "rows", "dim", "classes", "ids")], ["data set", N, DIM, len(set(labels)), True], "a table of rows")
    equal([(t["name"], t["dtype"], t["shape"]) for t in about["tensors"]],
          [("id", "text", [N]), *((f"emb_{i}", "number", [N]) for i in range(DIM)), ("label", "text", [N])], "its columns")
    text = box.works("info", "t.csv").out
    check(f"rows         {N}\n" in text and "ids          one for each row\n" in text, text)
    check(f"  columns\n    id     text [{N}]\n    emb_0 to emb_7  number [{N}]\n    label  text [{N}]\n" in text, text)
    box.write("t.csv", table(None, [[*r[:2], k] for r, k in zip(x, labels)]))
    about = json.loads(box.works("info", "--json", "t.csv").out)
    equal((about["kind"], about["rows"]), ("table", N), "labels that are not named")
    check("    0 to 3             f32 [23]\n" in box.works("info", ODD / "columns-bare.parquet").out, "columns of a .parquet")


@test
def bad_tables(box):
    x, labels, _ = rows()
    named = [f"emb_{i}" for i in range(DIM)]
    def write(header, records):
        box.write("t.csv", table(header, records))
    whole = [[*r, label] for r, label in zip(x, labels)]
    def refuses(naming, *words):
        box.refuses(BAD_DATA, "convert", "t.csv", *words, "-o", "o.safetensors", "-q", naming=naming)
    write([*named, "kind"], whole)
    columns = "its columns are 'emb_0' to 'emb_7' (number), 'kind' (text)"
    box.refuses(BAD_DATA, "fit", "t.csv", "-o", "o.safetensors", naming=["t.csv: the rows have no labels", columns, "--label-column"])
    refuses([columns, "there is no column 'class'"], "--label-column", "class")
    refuses([columns, "there is no column 'photo'"], "--id-column", "photo")
    refuses([columns, "there is no column 'x'"], "--column", "x")
    write([*named[:3], *named[4:], "label"], [r[:3] + r[4:] for r in whole])
    refuses(["column 'emb_3' is missing", "'emb_0' to 'emb_2' (number), 'emb_4' to 'emb_7' (number)"])
    write([*named[:3], "emb_04", *named[4:], "label"], whole)
    refuses("column 'emb_3' is missing")
    write([*named[:3], "emb_2", *named[4:], "label"], whole)
    refuses("column 'emb_2' is there twice")
    write([f"emb_{i + 2}" for i in range(DIM)] + ["label"], whole)
    refuses("column 'emb_0' is missing")
    write(["a0", "a1", "a2", "b0", "b1", "b2", "b3", "b4", "label"], whole)
    refuses(["several sets of columns are numbered", "--column"])
    box.works("convert", "t.csv", "--column", "a", "-o", "o.safetensors")
    equal(read_safetensors(box.read("o.safetensors"))[0]["embeddings"], read(box, [r[:3] for r in x]), "one of two sets")
    write([*"abcdefgh", "kind"], whole)
    refuses(["column 'kind' is text, and none are numbered", "'kind' (text)"])
    box.works("convert", "t.csv", "--label-column", "kind", "-o", "o.safetensors")
    for field, naming in (("oops", "line 9, column 'emb_3': 'oops' is not a number"), ("0x10", "'0x10' is not a number"),
                          ("1e999", "'1e999' is not a number"), ("1,5", "'1,5' is not a number"), ("9" * 70, "is not a number"),
                          ("", "row 7: column 'emb_3' is NaN"), ("nan", "column 'emb_3' is NaN"), ("-inf", "column 'emb_3' is infinite"), ("1e99", "column 'emb_3' is infinite")):
        changed = [list(r) for r in whole]
        changed[7][3] = field
        write([*named, "label"], changed)
        refuses(naming)
    box.works("convert", "t.csv", "--skip-bad", "-o", "o.safetensors")
    box.write("t.csv", table([*named, "label"], whole) + "1,2\n")
    refuses(f"line {N + 2} has 2 fields, but the first line has {DIM + 1}")
    write([*named, "label"], [])
    refuses("t.csv: the file has no rows")
    write([*named, "label", "id"], [[*r, f"p{i}" if i != 5 else ""] for i, r in enumerate(whole)])
    refuses("the id of row 5 is empty")
    wide = [f"d{i}" for i in range(65537)]
    write(wide, [[1] * 65537])
    refuses("the rows have 65537 columns, but the limit is 65536")
    write(["no", "numbers"], [["a", "b"]])
    refuses(["t.csv", "'no' (text), 'numbers' (text)"])
    box.write("t.csv", b"a,b\n\xff,2\n")
    refuses("column 'a' is text")
    write(["id", "embedding", "label"], [["p", "[0.5, 1.5]", "cat"]])
    refuses("t.csv: column 'embedding' is text, and none are numbered, as 'x0', 'x1', for dimensions; "
            "lists in text are not read, but a .parquet can hold them; its columns are")


def read(box, x):
    """What x is in f32."""
    box.write("x.npy", npy(x))
    box.works("convert", "x.npy", "--labels", box.write("y.txt", "a\n" * len(x)) or "y.txt", "-o", "x.safetensors")
    return read_safetensors(box.read("x.safetensors"))[0]["embeddings"]


@test
def thousands_of_columns(box):
    dim = 4096
    x = [[(7 * i + j) % 97 / 8 for j in range(dim)] for i in range(5)]
    box.write("wide.csv", table([str(i) for i in range(dim)] + ["label"], [[*r, "ab"[i % 2]] for i, r in enumerate(x)]))
    box.works("convert", "wide.csv", "-o", "o.safetensors")
    equal(read_set(box, "o.safetensors")[:2], (f32(x), list("ababa")), "rows")


def golden(n=23, dim=4):
    x = [[((i * 7 + j * 3) % 31 - 15) / 8 for j in range(dim)] for i in range(n)]
    return x, [["dog", "cat", "red fox"][i % 3] for i in range(n)], [f"k{i:03d}" if i % 5 else f"a longer key, {i}" for i in range(n)]


@test
def columns_of_parquet(box):
    x, labels, ids = golden()
    box.works("convert", ODD / "columns.parquet", "--label-column", "class", "-o", "o.safetensors")
    equal(read_set(box, "o.safetensors"), (f32(x), labels, ids), "in any order, beside others")
    box.works("convert", ODD / "columns.parquet", "--label-column", "class", "--column", "emb_", "-o", "o.safetensors")
    equal(read_set(box, "o.safetensors"), (f32(x), labels, ids), "named")
    box.works("convert", ODD / "columns-types.parquet", "--label-column", "class", "-o", "o.safetensors")
    equal(read_set(box, "o.safetensors")[0], f32([[a, i, c, d] for i, (a, _, c, d) in enumerate(x)]), "f64, integers, f16 and f32")
    box.works("transform", box.works("fit", ODD / "columns.parquet", "--label-column", "class", "-o", "m.safetensors") and "m.safetensors",
              ODD / "columns-bare.parquet", "-o", "t.npy")
    box.refuses(BAD_DATA, "fit", ODD / "columns.parquet", "-o", "o.safetensors",
                naming=["the rows have no labels", "'emb_3' to 'emb_1' (f32), 'class' (text), 'emb_0' (f32)", "--label-column"])
    for name, naming in (("-gap", "column 'emb_1' is missing"), ("-text", "column 'emb_1' is not a number"),
                         ("-two", "several sets of columns are numbered"), ("-nulls", "row 3: column 'emb_1' is NaN")):
        box.refuses(BAD_DATA, "convert", ODD / f"columns{name}.parquet", "--label-column", "class", "-o", "o.safetensors",
                    naming=[f"columns{name}.parquet", naming])
    box.refuses(BAD_DATA, "convert", ODD / "columns-bomb.parquet", "-o", "o.safetensors",
                naming="its columns take 96 MiB, more than 1024 times the file")
    box.works("convert", ODD / "columns-nulls.parquet", "--label-column", "class", "--skip-bad", "-o", "o.safetensors")
    equal(read_set(box, "o.safetensors")[1], labels[:3] + labels[4:], "without the row of the null")


@test
def beside_a_gallery_with_changes(box):
    """Data sets of several files, of which one brings more files of its own."""
    x, labels, _ = golden()
    box.write("g.npy", npy(x))
    box.write("y.txt", "".join(f"{name}\n" for name in labels))
    box.works("index", "g.npy", "--labels", "y.txt", "-o", "g.safetensors")
    box.works("index", "g.npy", "--labels", "y.txt", "--append", "g.safetensors")
    box.works("convert", ODD / "columns.parquet", "--label-column", "class", "-o", "c.parquet")
    box.works("stats", "g.safetensors", "c.parquet", "-o", "s.safetensors")
    info = json.loads(box.works("info", "--json", "s.safetensors").out)
    equal((info["rows"], info["classes"]), (69, 3), "rows and classes")


@test
def labels_are_not_json(box):
    x, _ = world(N, DIM)
    box.write("x.npy", npy(x))
    for name in ("y.jsonl", "y.json", "y.ndjson"):
        box.write(name, '{"label": "a"}\n' * N)
        box.refuses(USAGE, "fit", "x.npy", "--labels", name, "-o", "m.safetensors",
                    naming=f"{name}: a label file is .npy, .npz, .parquet, .csv, .tsv or text with one label per line")


def seconds(box, *words):
    """Of the processor, so that it does not matter what else the machine does."""
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    box.works(*words)
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before


@test
def labels_beside_the_numbers_take_no_time(box):
    """A row fetched by itself brings its label without a walk through the numbers of others."""
    x, labels = world(600, 64)
    names = [NAMES[k] for k in labels]
    header = [f"e{i}" for i in range(64)]
    box.write("x.csv", table(header, [list(row) for row in x]))
    box.write("whole.csv", table([*header, "label"], [[*row, name] for row, name in zip(x, names)]))
    box.write("y.txt", "".join(f"{name}\n" for name in names))
    apart = seconds(box, "report", "x.csv", "--labels", "y.txt", "--no-neighbours", "-o", "apart.html")
    inside = seconds(box, "report", "whole.csv", "--no-neighbours", "-o", "inside.html")
    check(inside < 6 * apart + 0.2, f"{inside:.2f} s with the labels inside, {apart:.2f} s with those of a file")


@test
def lines_of_labels_beside_text(box):
    """Labels are copied, but messages tell their lines in the table."""
    box.write("t.csv", 'e0,e1,label,text\n1,2,"a ""x""\ny","p\nq\r\n"\n3,4,b,"l\n\n"\n5,6,"a ""x""\ny",z\n1,0,,k')
    box.refuses(BAD_DATA, "convert", "t.csv", "--column", "e", "-o", "o.safetensors", naming="t.csv: the label in line 11 is empty")
    box.write("names.txt", "b\n")
    box.refuses(BAD_DATA, "convert", "t.csv", "--column", "e", "--classes", "names.txt", "-o", "o.safetensors",
                naming="in line 2 is not a class of names.txt")
