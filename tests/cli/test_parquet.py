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
    """Whether this build reads Zstandard; if not, it says so by name."""
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
    """What koofu reads from a file is what rows.py says, without its bad rows."""
    box.works("convert", file, *words, *(["--skip-bad"] if bad else []), "-o", "o.safetensors")
    x, labels, ids, names = read_set(box, "o.safetensors")
    kept = [i for i in range(n) if i not in bad]
    check((x == rows.rows(n)[kept]).all(), f"{file}: rows")
    equal([names[k] for k in labels], [rows.classes(n)[i] for i in kept], f"{file}: labels")
    equal(ids, [rows.keys(n)[i] for i in kept], f"{file}: ids")


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
def labels_by_number(box):
    rows, found = golden()
    for path, n, nulls, _ in found:
        if needs_zstd(path) or nulls or "-nan-" in path.name:
            continue
        words = columns_of(path)[:2] + ["--label-column", "number"]
        box.works("convert", path, *words, "-o", "o.safetensors")
        equal(read_set(box, "o.safetensors")[1], rows.numbers(n), f"{path}: numbers")


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
    box.refuses(BAD_DATA, *words, "--label-column", "embedding", naming=["texts or integers", *columns])
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
