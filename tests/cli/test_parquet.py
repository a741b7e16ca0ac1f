"""Rows, labels and ids in .parquet files: those of four programs (tests/golden/parquet), our own, and hostile ones."""

import json
import os
import pathlib
import re
import sys

from harness import BAD_DATA, USAGE, Skipped, check, equal, test
from files import read_safetensors

try:
    import numpy
except ImportError:
    numpy = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "parquet"
ODD = ROOT / "tests" / "golden" / "parquet_odd"
sys.path.insert(0, str(ROOT / "tests" / "parquet"))


def golden():
    """The module that says what the files hold, and the files with their facts."""
    if numpy is None:
        raise Skipped("numpy is not installed")
    import rows
    found = []
    for path in sorted(GOLDEN.glob("*.parquet")):
        n = int(re.search(r"-n(\d+)\.", path.name)[1])
        found.append((path, n, "-nulls" in path.name, "-nan" in path.name))
    check(len(found) >= 50, "golden files")
    return rows, found


def has_zstd(box):
    """Whether this build reads Zstandard; if not, the error names it."""
    result = box.run("stats", GOLDEN / "pyarrow-zstd-n23.parquet", "--label-column", "class", "-o", "z.safetensors")
    if result.status == 0:
        return True
    check(result.status == BAD_DATA and "Zstandard" in result.err and "libzstd" in result.err, str(result))
    return False


def columns_of(path):
    if "-struct-" in path.name:
        return ["--column", "a.b.embedding", "--label-column", "a.b.class"]
    suffix = ":f32" if "-bytes-" in path.name else ""
    return ["--column", "embedding" + suffix, "--label-column", "class"]


def needs_zstd(path):
    return "-zstd-" in path.name


def read_set(box, name):
    tensors, metadata = read_safetensors(box.read(name))
    ends, text = tensors["id_ends"], tensors["id_bytes"].decode()
    ids = [text[a:b] for a, b in zip([0] + ends, ends)]
    return numpy.array(tensors["embeddings"], "f4"), tensors["labels"], ids, json.loads(metadata.get("classes", "[]"))


def same_rows(box, file, rows, n, bad, words):
    """koofu reads from a file what rows.py says, without its bad rows."""
    box.works("convert", file, *words, *(["--skip-bad"] if bad else []), "-o", "o.safetensors")
    x, labels, ids, names = read_set(box, "o.safetensors")
    kept = [i for i in range(n) if i not in bad]
    check((x == rows.rows(n)[kept]).all(), f"{file}: rows")
    classes, keys = rows.classes(n), rows.keys(n)
    equal([names[k] for k in labels], [classes[i] for i in kept], f"{file}: labels")
    equal(ids, [keys[i] for i in kept], f"{file}: ids")


@test
def files_of_other_programs(box):
    rows, found = golden()
    zstd = has_zstd(box)
    for path, n, nulls, nan in found:
        if needs_zstd(path) and not zstd:
            continue
        bad = {2, 3, n - 1} if nulls else {1} if nan else set()
        same_rows(box, path, rows, n, bad, columns_of(path))
        if not bad:
            continue
        said = box.refuses(BAD_DATA, "convert", path, *columns_of(path), "-o", "p.safetensors", naming=[path.name, "--skip-bad"])
        group = "row group 0, row 2: it is null" if nulls else "row group 0, row 1: column 2 is NaN"
        check(group in said.err, f"{path.name}: {said}")


@test
def odd_files(box):
    """Damage under a checksum, lists of other lengths, numbers that are null or wrap around."""
    golden()
    damaged = bytearray((ODD / "crc.parquet").read_bytes())
    at = damaged.index(numpy.float32([-1.875, -1.5, -1.125]).tobytes()[:8])
    damaged[at + 2] ^= 1
    box.write("crc.parquet", bytes(damaged))
    box.works("convert", ODD / "crc.parquet", "-o", "o.safetensors")
    box.refuses(BAD_DATA, "convert", "crc.parquet", "-o", "o.safetensors", naming="checksum is wrong")
    box.refuses(BAD_DATA, "convert", ODD / "ragged.parquet", "-o", "o.safetensors", naming="length is not that of the others")
    box.refuses(BAD_DATA, "convert", ODD / "ragged-nulls.parquet", "--skip-bad", "-o", "o.safetensors", naming="row 2 has 3 values")
    box.works("convert", ODD / "labels.parquet", "--label-column", "label", "--keep-unlabelled", "-o", "o.safetensors")
    equal(read_safetensors(box.read("o.safetensors"))[0]["labels"], [1, -1, 0], "a null is no class")
    box.works("convert", ODD / "wraps.parquet", "--id-column", "number", "-o", "o.safetensors")
    tensors = read_safetensors(box.read("o.safetensors"))[0]
    equal(tensors["id_bytes"], b"2147483647-21474836485", "sums of 32 bits")


@test
def labels_by_number(box):
    rows, found = golden()
    for path, n, nulls, _ in found:
        if needs_zstd(path) or nulls or "-nan-" in path.name:
            continue
        words = columns_of(path)[:2] + ["--label-column", "number"]
        box.works("convert", path, *words, "-o", "o.safetensors")
        equal(read_set(box, "o.safetensors")[1], rows.numbers(n), f"{path}: numbers")


@test
def class_names_of_hugging_face(box):
    """A column that the file calls a ClassLabel gets its names, unless others are given."""
    rows, _ = golden()
    path = GOLDEN / "pyarrow-huggingface-n23.parquet"
    box.works("convert", path, "--label-column", "number", "-o", "o.safetensors")
    tensors, metadata = read_safetensors(box.read("o.safetensors"))
    equal((tensors["labels"], json.loads(metadata["classes"])), (rows.numbers(23), rows.NAMES), "numbers and names")
    box.write("others.txt", "A\nB\nC\n")
    box.works("convert", path, "--label-column", "number", "--classes", "others.txt", "-o", "o.safetensors")
    equal(json.loads(read_safetensors(box.read("o.safetensors"))[1]["classes"]), ["A", "B", "C"], "names that were given")
    box.works("convert", path, "--label-column", "class", "-o", "o.safetensors")
    equal(json.loads(read_safetensors(box.read("o.safetensors"))[1]["classes"]), sorted(rows.NAMES), "a column of text")
    bad = path.read_bytes().replace(b'["dog", "cat", "red fox"]', b'["dog", "dog", "red fox"]')
    box.write("bad.parquet", bad)
    box.refuses(BAD_DATA, "convert", "bad.parquet", "--label-column", "number", "-o", "o.safetensors", naming="'dog'")
    box.works("convert", "bad.parquet", "--label-column", "number", "--classes", "others.txt", "-o", "o.safetensors")


@test
def same_bits_as_npy(box):
    """Statistics do not depend on where rows come from, nor on threads."""
    rows, _ = golden()
    numpy.save(box.path("x.npy"), rows.rows(200))
    box.write("y.txt", "\n".join(rows.classes(200)) + "\n")
    box.works("stats", "x.npy", "--labels", "y.txt", "-o", "a.safetensors")
    for threads in (1, 2, 5):
        box.works("stats", GOLDEN / "pyarrow-delta-n200.parquet", "--label-column", "class", "--threads", threads,
                  "-o", "b.safetensors")
        equal(box.read("b.safetensors"), box.read("a.safetensors"), f"{threads} threads")


@test
def which_column(box):
    golden()
    file = GOLDEN / "pyarrow-default-n23.parquet"
    words = ["stats", file, "-o", "s.safetensors"]
    columns = ["'key' (text)", "'class' (text)", "'number' (i64)", "'embedding' (list of f32)"]
    box.refuses(BAD_DATA, *words, "--label-column", "nothing", naming=["no column 'nothing'", *columns])
    box.refuses(BAD_DATA, *words, "--column", "number", "--label-column", "class", naming=["'number' is i64", *columns])
    box.refuses(BAD_DATA, *words, "--label-column", "embedding", naming=["text or integers", *columns])
    box.refuses(BAD_DATA, "stats", GOLDEN / "pyarrow-bytes-n23.parquet", "--label-column", "class", "-o", "s.safetensors",
                naming=["no column is a list of floats", "'embedding' (bytes)"])
    box.refuses(BAD_DATA, "stats", GOLDEN / "pyarrow-bytes-n23.parquet", "--column", "embedding", "--label-column", "class",
                "-o", "s.safetensors", naming="'embedding:f32'")
    box.works("stats", file, "--column", "embedding.list.element", "--label-column", "class", "-o", "s.safetensors")
    out = box.works("info", file).out
    check("embedding  list of f32 [23]" in out and "23" in out and "one for each row" in out, out)
    about = json.loads(box.works("info", "--json", file).out)
    equal([about["format"], about["kind"], about["rows"], about["dim"], about["ids"]], ["parquet", "embeddings", 23, 4, True], "info")


@test
def several_files(box):
    """Shards of different programs are one data set."""
    rows, _ = golden()
    files = [GOLDEN / f"{p}-n23.parquet" for p in ("duckdb-default", "pandas-default", "polars-snappy", "pyarrow-f16")]
    box.works("convert", *files, "--label-column", "class", "-o", "o.safetensors")
    x, labels, ids, names = read_set(box, "o.safetensors")
    check((x == numpy.concatenate([rows.rows(23)] * 4)).all(), "rows")
    equal([names[k] for k in labels], rows.classes(23) * 4, "labels")
    equal(ids, rows.keys(23) * 4, "ids")
    box.works("convert", *files, "--label-column", "class", "--id-column", "number", "-o", "o.safetensors")
    equal(read_set(box, "o.safetensors")[2], [str(k) for k in rows.numbers(23) * 4], "integers as ids")


@test
def labels_beside_other_rows(box):
    rows, _ = golden()
    numpy.save(box.path("x.npy"), rows.rows(23))
    box.write("y.txt", "\n".join(rows.classes(23)) + "\n")
    box.works("stats", "x.npy", "--labels", "y.txt", "-o", "a.safetensors")
    box.works("stats", "x.npy", "--labels", GOLDEN / "polars-lz4-n23.parquet", "--label-column", "class", "-o", "b.safetensors")
    equal(box.read("b.safetensors"), box.read("a.safetensors"), "a label file")
    box.refuses(BAD_DATA, "stats", "x.npy", "--labels", GOLDEN / "polars-lz4-n23.parquet", "-o", "b.safetensors",
                naming=["several columns could be labels", "'key'", "--label-column"])
    numpy.save(box.path("x.npy"), rows.rows(22))
    box.refuses(BAD_DATA, "stats", "x.npy", "--labels", GOLDEN / "polars-lz4-n23.parquet", "--label-column", "class",
                "-o", "b.safetensors", naming="23 labels for the 22 rows")


@test
def folders_of_clip_retrieval(box):
    """img_emb/img_emb_N.npy with metadata/metadata_N.parquet."""
    rows, _ = golden()
    for name in ("set/img_emb", "set/metadata"):
        os.makedirs(box.path(name))
    programs = ["duckdb-default", "pandas-default"] + ["pyarrow-snappy"] * 9
    for i, program in enumerate(programs):
        numpy.save(box.path(f"set/img_emb/img_emb_{i}.npy"), rows.rows(23).astype("f2"))
        box.write(f"set/metadata/metadata_{i}.parquet", (GOLDEN / f"{program}-n23.parquet").read_bytes())
    words = ["--label-column", "class", "--id-column", "key", "-o", "o.safetensors"]
    for given in (["set"], ["set/img_emb"], [f"set/img_emb/img_emb_{i}.npy" for i in range(11)]):
        box.works("convert", *given, *words)
        x, labels, ids, names = read_set(box, "o.safetensors")
        check((x == numpy.concatenate([rows.rows(23)] * 11)).all(), "rows")
        equal([names[k] for k in labels], rows.classes(23) * 11, "labels")
        equal(ids, rows.keys(23) * 11, "ids")
    os.remove(box.path("set/metadata/metadata_7.parquet"))
    box.refuses(USAGE, "convert", "set", *words, naming=["10 label files", "11 data files"])


@test
def written_and_read_again(box):
    """A data set through .parquet and back has the same bytes: rows, labels, class names in their order, ids."""
    rows, _ = golden()
    box.works("convert", GOLDEN / "pyarrow-nulls-n23.parquet", "--label-column", "class", "--skip-bad", "-o", "a.safetensors")
    for dtype in ("f32", "f16"):
        box.works("convert", "a.safetensors", "--dtype", dtype, "-o", "b.parquet")
        box.works("convert", "b.parquet", "-o", "c.safetensors")
        equal(box.read("c.safetensors"), box.read("a.safetensors"), f"through {dtype}")
    box.write("names.txt", "zebra\nred fox\ncat\ndog\n")
    words = ["--label-column", "class", "--classes", "names.txt"]
    box.works("convert", GOLDEN / "duckdb-default-n23.parquet", *words, "-o", "a.safetensors")
    box.works("convert", GOLDEN / "duckdb-default-n23.parquet", *words, "-o", "b.parquet")
    box.works("convert", "b.parquet", "-o", "c.safetensors")
    equal(box.read("c.safetensors"), box.read("a.safetensors"), "names in their order, one without rows")
    box.refuses(USAGE, "convert", "a.safetensors", "--dtype", "bf16", "-o", "d.parquet", naming="bf16")
    box.works("convert", GOLDEN / "pyarrow-default-n23.parquet", "--label-column", "number", "-o", "n.parquet")
    box.works("convert", "n.parquet", "-o", "n.safetensors")
    equal(read_set(box, "n.safetensors")[1], rows.numbers(23), "numbers")


@test
def many_groups_written(box):
    """More than one row group, and pages that no batch ends with."""
    golden()
    n, dim = 20000, 520  # 41.6 MB
    x = numpy.random.default_rng(1).standard_normal((n, dim), "f4")
    numpy.save(box.path("x.npy"), x)
    box.write("y.txt", "".join(f"{i % 9}\n" for i in range(n)))
    box.works("stats", "x.npy", "--labels", "y.txt", "-o", "a.safetensors")
    box.works("convert", "x.npy", "--labels", "y.txt", "-o", "x.parquet")
    box.works("stats", "x.parquet", "-o", "b.safetensors")
    equal(box.read("b.safetensors"), box.read("a.safetensors"), "statistics")
    box.works("convert", "x.npy", "--labels", "y.txt", "--threads", 1, "-o", "y.parquet")
    check(box.read("y.parquet") == box.read("x.parquet"), "the same bytes with one thread")
    check(box.read("x.parquet").count(b"embedding") == 3, "two row groups and the schema")


def table(box, name):
    """The columns of a file of koofu, by a reader of twenty lines: PLAIN pages, nothing packed, one row group."""
    out = {}
    about = json.loads(box.works("info", "--json", name).out)
    for column in about["tensors"]:
        out[column["name"]] = column["dtype"]
    return about["rows"], out


@test
def answers(box):
    golden()
    file = GOLDEN / "pyarrow-default-n23.parquet"
    box.works("fit", file, "--label-column", "class", "--lambda", "0.5", "-o", "m.safetensors")
    box.works("index", file, "--label-column", "class", "-o", "g.safetensors")
    box.works("search", "g.safetensors", file, "-k", 3, "-o", "s.parquet")
    equal(table(box, "s.parquet"), (69, {"query": "i64", "query_id": "text", "rank": "i64", "row": "i64", "id": "text",
                                         "label": "text", "score": "f64"}), "search")
    box.works("classify", "m.safetensors", file, "--label-column", "class", "--top", 2, "--probabilities", "-o", "c.parquet")
    equal(table(box, "c.parquet"), (46, {"row": "i64", "id": "text", "rank": "i64", "class": "text", "cosine": "f64",
                                         "probability": "f64", "truth": "text"}), "classify")
    box.works("transform", "m.safetensors", file, "--label-column", "class", "-o", "t.parquet")
    box.works("transform", "m.safetensors", file, "--label-column", "class", "-o", "t.safetensors")
    box.works("convert", "t.parquet", "-o", "u.safetensors")
    equal(read_set(box, "u.safetensors")[2], read_set(box, "t.safetensors")[2], "ids of mapped rows")
    check((read_set(box, "u.safetensors")[0] == read_set(box, "t.safetensors")[0]).all(), "mapped rows")
    want = [line.split("\t") for line in box.works("search", "g.safetensors", file, "-k", 3).out.splitlines()[1:]]
    box.works("convert", GOLDEN / "pyarrow-default-n23.parquet", "--label-column", "class", "-o", "o.safetensors")
    numpy.save(box.path("one.npy"), numpy.ones((69, 2), "f4"))
    box.works("convert", "one.npy", "--labels", "s.parquet", "--label-column", "id", "-o", "l.safetensors")
    tensors, metadata = read_safetensors(box.read("l.safetensors"))
    names = json.loads(metadata["classes"])
    equal([names[k] for k in tensors["labels"]], [line[at] for line in want for at in (1, 4, 7)], "ids of the answers")


@test
def hostile_files(box):
    """Every byte of a few files is changed, and every length cut: an answer or one sentence, never a signal."""
    golden()
    for name in ("pyarrow-default-n23", "duckdb-v2-nulls-n23", "polars-array-nulls-n23"):
        data = (GOLDEN / f"{name}.parquet").read_bytes()
        for at in range(5, len(data), len(data) // 23):
            for value in (0x00, 0xFF, data[at] ^ 0x15):
                box.write("h.parquet", data[:at] + bytes([value]) + data[at + 1:])
                result = box.run("stats", "h.parquet", "--column", "embedding", "--label-column", "class", "--skip-bad",
                                 "-o", "h.safetensors")
                check(result.status in (0, BAD_DATA), str(result))
        box.write("h.parquet", data[:len(data) // 2])
        box.refuses(BAD_DATA, "info", "h.parquet", naming="does not begin and end like a .parquet")
        box.write("h.parquet", data[:-8] + b"\xff\xff\xff\x7fPAR1")
        box.refuses(BAD_DATA, "info", "h.parquet", naming="the footer of 2147483647 bytes")
        box.write("h.parquet", data[:-4] + b"PARE")
        box.refuses(BAD_DATA, "info", "h.parquet", naming="encrypted")
    damaged = bytearray((GOLDEN / "pyarrow-crc-n23.parquet").read_bytes())
    damaged[60] ^= 1
    box.write("h.parquet", bytes(damaged))
    box.refuses(BAD_DATA, "convert", "h.parquet", "--label-column", "class", "-o", "h.safetensors", naming="checksum is wrong")
