#!/usr/bin/env python3
"""Writes tests/golden/parquet: small files of pyarrow, polars, duckdb and pandas, each with the rows of rows.py.

    tools/test_parquet.sh BUILD --golden

The name of a file says what tests/cli/test_parquet.py must find in it: PROGRAM-WHAT-nROWS.parquet, where WHAT may
have 'nulls' (rows 2, 3 and the last one are null) or 'nan' (a null element in row 1). Those in tests/golden/parquet_odd
hold something else, which test_parquet.py says itself.
"""

import json
import pathlib
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import rows as golden

OUT = pathlib.Path(__file__).resolve().parents[1] / "golden" / "parquet"
ODD = OUT.parent / "parquet_odd"
N = 23
MANY = 9000  # whose rows take more than two of Snappy's blocks of 64 KiB


def lists(n, kind=pa.float32(), nulls=False, hole=False):
    x = golden.rows(n).astype(kind.to_pandas_dtype()).tolist()
    if nulls:
        x = [None if i in (2, 3, n - 1) else row for i, row in enumerate(x)]
    if hole:
        x[1][2] = None
    if kind == pa.float16():
        x = [None if row is None else [None if v is None else np.float16(v) for v in row] for row in x]
    return x


def arrow(n=N, kind=pa.float32(), make=pa.list_, nulls=False, hole=False, label=pa.string(), number=pa.int64()):
    return pa.table({
        "key": pa.array(golden.keys(n), pa.string()),
        "class": pa.array(golden.classes(n), label) if not pa.types.is_dictionary(label)
        else pa.array(golden.classes(n)).dictionary_encode(),
        "number": pa.array(golden.numbers(n), number),
        "embedding": pa.array(lists(n, kind, nulls, hole), make(kind)),
    })


def write(name, table, n=N, **options):
    options.setdefault("store_schema", False)
    pq.write_table(table, OUT / f"pyarrow-{name}-n{n}.parquet", **options)


def fixed(kind):
    return pa.list_(kind, golden.DIM)


def of_pyarrow():
    write("default", arrow(), store_schema=True)
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        write(codec, arrow(), compression=codec, use_dictionary=False)
    write("v2", arrow(), data_page_version="2.0")
    write("v2-none", arrow(), data_page_version="2.0", compression="none")
    write("v2-nulls", arrow(nulls=True), data_page_version="2.0")
    write("fixed", arrow(make=fixed), store_schema=True)
    write("fixed-nulls", arrow(make=fixed, nulls=True))
    write("large", arrow(make=pa.large_list, label=pa.large_string()))
    write("f16", arrow(kind=pa.float16()))
    write("f16-plain-nulls", arrow(kind=pa.float16(), nulls=True), use_dictionary=False)
    write("f64", arrow(kind=pa.float64()))
    write("nulls", arrow(nulls=True))
    write("nulls-plain-pages", arrow(nulls=True), use_dictionary=False, data_page_size=40, write_batch_size=3)
    write("nan", arrow(hole=True))
    write("groups", arrow(60), 60, row_group_size=17)
    write("groups-nulls", arrow(nulls=True), row_group_size=5)
    write("pages", arrow(), data_page_size=40, write_batch_size=3, use_dictionary=False, compression="none")
    write("pages-dictionary", arrow(), data_page_size=8, write_batch_size=3)
    write("crc", arrow(), write_page_checksum=True)
    write("statistics", arrow(), write_page_index=True)
    write("item", arrow(), use_compliant_nested_type=False)
    features = {"embedding": {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"},
                "number": {"names": golden.NAMES, "_type": "ClassLabel"}}
    write("huggingface", arrow().replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}),
          store_schema=True)
    write("categories", arrow(label=pa.dictionary(pa.int32(), pa.string())))
    for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.uint64()):
        write(f"{kind}", arrow(6, number=kind), 6)
    write("split", arrow(), use_dictionary=False, column_encoding={
        "embedding.list.element": "BYTE_STREAM_SPLIT", "number": "BYTE_STREAM_SPLIT",
        "key": "DELTA_BYTE_ARRAY", "class": "DELTA_LENGTH_BYTE_ARRAY"})
    write("split-f16", arrow(kind=pa.float16()), use_dictionary=False, column_encoding={
        "embedding.list.element": "BYTE_STREAM_SPLIT", "number": "DELTA_BINARY_PACKED"})
    write("delta", arrow(200, number=pa.int32()), 200, use_dictionary=False, column_encoding={
        "number": "DELTA_BINARY_PACKED", "key": "DELTA_BYTE_ARRAY", "class": "DELTA_BYTE_ARRAY"})
    table = arrow()
    inner = pa.StructArray.from_arrays([table["embedding"].combine_chunks(), table["class"].combine_chunks()],
                                       ["embedding", "class"])
    write("struct", pa.table({"a": pa.StructArray.from_arrays([inner], ["b"]), "key": table["key"], "number": table["number"]}))
    schema = pa.schema([pa.field("key", pa.string(), False), pa.field("class", pa.string(), False),
                        pa.field("number", pa.int64(), False),
                        pa.field("embedding", pa.list_(pa.field("element", pa.float32(), False)), False)])
    write("required", table.cast(schema))
    raw = [row.tobytes() for row in golden.rows(N)]
    for version in ("1.0", "2.0"):
        write(f"many-f16-v{version[0]}", arrow(MANY, pa.float16()), MANY, use_dictionary=["key", "class"], data_page_version=version)
    write("bytes", table.set_column(3, "embedding", pa.array(raw, pa.binary())))
    write("bytes-fixed", table.set_column(3, "embedding", pa.array(raw, pa.binary(4 * golden.DIM))))


def odd():
    def put(name, **columns):
        options = {"use_dictionary": False, "store_schema": False, "write_page_checksum": name == "crc"}
        if "number" in columns:
            options["column_encoding"] = {"number": "DELTA_BINARY_PACKED"}
        pq.write_table(pa.table(columns), ODD / f"{name}.parquet", **options)

    def ragged(*lengths):
        return pa.array([None if n is None else [1.0] * n for n in lengths], pa.list_(pa.float32()))
    put("crc", embedding=arrow()["embedding"])
    put("ragged", embedding=ragged(4, 3, 5, 4))
    put("ragged-nulls", embedding=ragged(4, None, 3, 4))
    put("labels", embedding=ragged(2, 2, 2), label=pa.array([1, None, 0], pa.int32()))
    put("wraps", embedding=ragged(2, 2, 2), number=pa.array([2**31 - 1, -2**31, 5], pa.int32()))


def of_columns():
    """A column for each dimension, as DataFrame.to_parquet writes them, in any order and of several types."""
    def put(name, frame):
        frame.to_parquet(ODD / f"columns{name}.parquet", compression=None)

    x = golden.rows(N)
    frame = pd.DataFrame(x, columns=[f"emb_{i}" for i in range(x.shape[1])])
    frame.insert(1, "class", golden.classes(N))
    frame["price"], frame["key"] = 1.5, golden.keys(N)
    put("", frame[frame.columns[::-1]])
    put("-gap", frame.drop(columns="emb_1"))
    put("-text", frame.assign(emb_1="x"))
    put("-types", frame.astype({"emb_0": "f8", "emb_2": "f2"}).assign(emb_1=range(N)))
    put("-nulls", frame.assign(emb_1=[None if i == 3 else v for i, v in enumerate(frame["emb_1"])]))
    put("-two", frame.assign(b0=1.0, b1=2.0))
    put("-bomb", pd.DataFrame({f"x{i}": np.zeros(1 << 20, "f4") for i in range(24)}))
    put("-bare", pd.DataFrame(x, columns=[str(i) for i in range(x.shape[1])]).set_axis(golden.keys(N)))


def of_polars():
    def frame(kind, **more):
        return pl.DataFrame({"key": golden.keys(N), "class": golden.classes(N), "number": golden.numbers(N),
                             "embedding": pl.Series(lists(N, **more), dtype=kind)})
    for codec in ("zstd", "snappy", "lz4", "gzip", "uncompressed"):
        frame(pl.List(pl.Float32)).write_parquet(OUT / f"polars-{codec}-n{N}.parquet", compression=codec)
    frame(pl.Array(pl.Float32, golden.DIM)).write_parquet(OUT / f"polars-array-n{N}.parquet", compression="snappy")
    frame(pl.List(pl.Float64), nulls=True).write_parquet(OUT / f"polars-nulls-n{N}.parquet", compression="snappy")
    frame(pl.Array(pl.Float32, golden.DIM), nulls=True).write_parquet(OUT / f"polars-array-nulls-n{N}.parquet",
                                                                     compression="snappy")
    frame(pl.List(pl.Float32)).write_parquet(OUT / f"polars-groups-n{N}.parquet", compression="snappy", row_group_size=6)


def of_duckdb():
    table, holes, many = arrow(), arrow(nulls=True), arrow(MANY)
    connection = duckdb.connect()
    connection.register("many", many)
    connection.register("t", table)
    connection.register("holes", holes)
    for name, source, options in (("default", "t", ""), ("zstd", "t", "codec zstd"), ("v2", "t", "parquet_version v2"),
                                  ("none", "t", "codec uncompressed"), ("gzip", "t", "codec gzip"), ("lz4", "t", "codec lz4_raw"),
                                  ("nulls", "holes", ""), ("v2-nulls", "holes", "parquet_version v2"),
                                  ("array", f"(select key, class, number, embedding::float[{golden.DIM}] as embedding from t)", ""),
                                  ("many", "many", "dictionary_size_limit 0")):
        more = f", {options}" if options else ""
        n = MANY if source == "many" else N
        connection.sql(f"copy (select * from {source}) to '{OUT}/duckdb-{name}-n{n}.parquet' (format parquet{more})")


def of_pandas():
    frame = pd.DataFrame({"key": golden.keys(N), "class": golden.classes(N), "number": golden.numbers(N),
                          "embedding": list(golden.rows(N))})
    frame.to_parquet(OUT / f"pandas-default-n{N}.parquet")
    frame["class"] = frame["class"].astype("category")
    frame["embedding"] = pd.Series(lists(N, nulls=True))
    frame.to_parquet(OUT / f"pandas-categories-nulls-n{N}.parquet")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for path in OUT.glob("*.parquet"):
        path.unlink()
    ODD.mkdir(parents=True, exist_ok=True)
    for make in (odd, of_columns, of_pyarrow, of_polars, of_duckdb, of_pandas):
        make()
    print(f"{len(list(OUT.iterdir()))} files, {sum(p.stat().st_size for p in OUT.iterdir())} bytes")


if __name__ == "__main__":
    sys.exit(main())
