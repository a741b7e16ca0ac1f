#!/usr/bin/env python3
"""koofu and four programs that write .parquet agree, in both directions.

    tools/test_parquet.sh BUILD

In: tables with embeddings, labels and ids, with every codec, version, encoding and list type of the
programs, with nulls, structs, many row groups and pages, at several sizes. koofu must convert them
to the rows that Arrow reads. Out: all four read what koofu writes.
"""

import itertools
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

KOOFU, PARTS = sys.argv[1], sys.argv[2:] or ["in", "out"]
RNG = np.random.default_rng(7)
done = {"in": 0, "out": 0}


def run(*words, fails=False):
    result = subprocess.run([KOOFU, *map(str, words)], capture_output=True, text=True, check=False)
    if (result.returncode != 0) != fails:
        sys.exit(f"{' '.join(map(str, words))}: status {result.returncode}\n{result.stderr}")
    return result


def safetensors(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    kinds = {"F32": "<f4", "F16": "<f2", "I32": "<i4", "I64": "<i8", "U8": "u1"}
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            a, b = entry["data_offsets"]
            out[name] = np.frombuffer(data[8 + n + a:8 + n + b], kinds[entry["dtype"]]).reshape(entry["shape"])
    return out, json.loads(header["__metadata__"].get("classes", "[]"))


def has_zstd(folder):
    pq.write_table(pa.table({"embedding": [[1.0, 2.0]]}), folder / "z.parquet", compression="zstd")
    return subprocess.run([KOOFU, "convert", folder / "z.parquet", "-o", folder / "z.safetensors"], capture_output=True,
                          check=False).returncode == 0


# --- what is written by others ---------------------------------------------------------------------

def content(n, dim, nulls):
    x = RNG.standard_normal((n, dim)).astype("f2").astype("f4")
    missing = set(RNG.choice(n, n // 7, False).tolist()) if nulls else set()
    words = [f"class {k}" if k % 3 else "é" * k for k in range(1, 40)]
    labels = [words[i] for i in RNG.integers(0, len(words), n)]
    keys = [f"{i:07d}.jpg" if i % 11 else f"https://example.org/{i}/" + "x" * int(i % 300) for i in range(n)]
    return x, missing, labels, keys


def table(n, dim, nulls, kind, fixed):
    x, missing, labels, keys = content(n, dim, nulls)
    rows = [None if i in missing else row for i, row in enumerate(x.astype(kind))]
    list_type = pa.list_(pa.from_numpy_dtype(kind), dim) if fixed else pa.list_(pa.from_numpy_dtype(kind))
    return pa.table({"key": keys, "class": labels, "count": RNG.integers(0, 1000, n), "embedding": pa.array(rows, list_type),
                     "also": RNG.standard_normal(n)})


def compare(path, folder, name):
    """koofu reads the same from a file as Arrow does."""
    try:
        arrow = pq.read_table(path)
    except pa.ArrowInvalid:  # pyarrow 26 cannot read every file with null arrays of fixed size
        arrow = pl.read_parquet(path).to_arrow()
        done["not by Arrow"] = done.get("not by Arrow", 0) + 1
    out = folder / "o.safetensors"
    lists = arrow["embedding"].to_pylist()
    kept = [i for i, row in enumerate(lists) if row is not None]
    bad = ["--skip-bad"] if len(kept) < len(lists) else []
    run("convert", path, "--column", "embedding", "--label-column", "class", "--id-column", "key", *bad, "-o", out)
    tensors, names = safetensors(out)
    assert (tensors["embeddings"] == np.array([lists[i] for i in kept], "f4")).all(), f"{name}: rows"
    labels, keys = arrow["class"].to_pylist(), arrow["key"].to_pylist()
    assert [names[k] for k in tensors["labels"]] == [labels[i] for i in kept], f"{name}: labels"
    ends, text = tensors["id_ends"].tolist(), tensors["id_bytes"].tobytes()
    assert [text[a:b].decode() for a, b in zip([0] + ends, ends)] == [keys[i] for i in kept], f"{name}: ids"
    done["in"] += 1


def of_pyarrow(folder, codecs):
    path = folder / "a.parquet"
    for codec, version, dictionary in itertools.product(codecs, ("1.0", "2.0"), (True, False)):
        for n, dim, nulls, kind, fixed in ((3000, 33, False, "f4", True), (900, 64, True, "f4", False), (500, 7, True, "f2", True),
                                           (400, 16, False, "f8", False)):
            pq.write_table(table(n, dim, nulls, kind, fixed), path, compression=codec, data_page_version=version,
                           use_dictionary=dictionary, data_page_size=5000, row_group_size=n // 3)
            compare(path, folder, f"pyarrow {codec} {version} {dictionary} {kind}")
    for text, number, real in itertools.product(("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
                                                ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"), ("PLAIN", "BYTE_STREAM_SPLIT")):
        for nulls in (False, True):
            pq.write_table(table(2000, 24, nulls, "f4", False), path, use_dictionary=False, write_page_checksum=True,
                           column_encoding={"key": text, "class": text, "count": number, "embedding.list.element": real})
            compare(path, folder, f"pyarrow {text} {number} {real}")


def of_polars(folder, codecs):
    path = folder / "a.parquet"
    for codec, nulls, fixed in itertools.product(codecs, (False, True), (False, True)):
        frame = pl.from_arrow(table(4000, 48, nulls, "f4", fixed))
        frame.write_parquet(path, compression="uncompressed" if codec == "none" else codec, row_group_size=1500)
        compare(path, folder, f"polars {codec} {nulls} {fixed}")
    pl.from_arrow(table(4000, 48, False, "f4", True)).write_parquet(path)  # the default
    if "zstd" in codecs:
        compare(path, folder, "polars")


def of_duckdb(folder, codecs):
    path = folder / "a.parquet"
    for codec, version, nulls, fixed in itertools.product(codecs, ("v1", "v2"), (False, True), (False, True)):
        rows = table(5000, 20, nulls, "f4", fixed)
        words = {"none": "uncompressed", "lz4": "lz4_raw"}.get(codec, codec)
        connection = duckdb.connect()
        connection.register("rows", rows)
        connection.sql(f"copy (select * from rows) to '{path}' (format parquet, codec {words}, parquet_version {version}, row_group_size 2048)")
        compare(path, folder, f"duckdb {codec} {version} {nulls} {fixed}")


def of_pandas(folder, _):
    path = folder / "a.parquet"
    for nulls in (False, True):
        x, missing, labels, keys = content(1000, 12, nulls)
        frame = pd.DataFrame({"key": keys, "class": pd.Categorical(labels),
                              "embedding": [None if i in missing else row for i, row in enumerate(x)]})
        frame.to_parquet(path)
        compare(path, folder, f"pandas {nulls}")


# --- what koofu writes -----------------------------------------------------------------------------

def readers(path):
    """Each program's view of a file: a list of columns by name."""
    yield "pyarrow", pq.read_table(path).to_pydict()
    yield "polars", pl.read_parquet(path).to_dict(as_series=False)
    relation = duckdb.sql(f"select * from '{path}'")
    yield "duckdb", dict(zip(relation.columns, map(list, zip(*relation.fetchall()))))
    frame = pd.read_parquet(path)
    yield "pandas", {name: [None if value is None or value is pd.NA or value != value else value for value in frame[name].tolist()]
                     if name != "embedding" else frame[name].tolist() for name in frame.columns}


def written(folder):
    n, dim = 40000, 300  # two row groups
    x, _, labels, keys = content(n, dim, False)
    path, out = folder / "a.parquet", folder / "b.parquet"
    pq.write_table(pa.table({"key": keys, "class": labels, "embedding": pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), dim)}), path)
    for dtype in ("f32", "f16"):
        run("convert", path, "--label-column", "class", "--dtype", dtype, "-o", out)
        assert pq.ParquetFile(out).metadata.num_row_groups == (2 if dtype == "f32" else 1)
        for program, columns in readers(out):
            assert (np.array(columns["embedding"], "f4") == x).all(), f"{program}, {dtype}: rows"
            assert columns["label"] == labels and columns["id"] == keys, f"{program}: labels and ids"
            done["out"] += 1
    few = folder / "few.parquet"
    pq.write_table(pq.read_table(path).slice(0, 500), few)
    run("fit", path, "--label-column", "class", "--lambda", "0.3", "-o", folder / "m.safetensors")
    run("index", path, "--label-column", "class", "-o", folder / "g.safetensors")
    run("search", folder / "g.safetensors", few, "-k", 4, "-o", out)
    run("search", folder / "g.safetensors", few, "-k", 4, "-o", folder / "s.npy")
    for program, columns in readers(out):
        assert columns["row"] == np.load(folder / "s.npy").ravel().tolist(), f"{program}: answers"
        assert columns["score"] == np.load(folder / "s_scores.npy").ravel().tolist(), f"{program}: scores"
        assert columns["id"] == [keys[i] for i in columns["row"]] and columns["label"] == [labels[i] for i in columns["row"]]
        assert columns["rank"] == [1, 2, 3, 4] * 500 and columns["query_id"] == [keys[i // 4] for i in range(2000)], program
        done["out"] += 1
    run("classify", folder / "m.safetensors", few, "--label-column", "class", "--top", 3, "--probabilities", "-o", out)
    lines = run("classify", folder / "m.safetensors", few, "--label-column", "class", "--top", 3, "--json").stdout
    want = [name for answer in json.loads(lines)["answers"] for name in answer["classes"]]
    for program, columns in readers(out):
        assert columns["class"] == want and columns["row"] == [i // 3 for i in range(1500)], f"{program}: classes"
        assert columns["truth"] == [labels[i // 3] for i in range(1500)], program
        done["out"] += 1
    pq.write_table(pa.table({"class": ["a", None, "b"], "embedding": [[1.0, 2], [3, 4], [5, 6]]}), path)
    run("convert", path, "--label-column", "class", "--keep-unlabelled", "-o", out)
    for program, columns in readers(out):
        assert columns["label"] == ["a", None, "b"], f"{program}: {columns['label']}"
        done["out"] += 1


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        codecs = ["none", "snappy", "gzip", "lz4"] + (["zstd"] if has_zstd(folder) else [])
        for part in (of_pyarrow, of_polars, of_duckdb, of_pandas) if "in" in PARTS else ():
            part(folder, codecs)
        if "out" in PARTS:
            written(folder)
    print(f"{done['in']} files of others read as Arrow reads them ({', '.join(codecs)}; {done.get('not by Arrow', 0)} that it "
          f"cannot read as polars does); {done['out']} views of ours agree")


if __name__ == "__main__":
    main()
