#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into fuzz/corpus/, valid and invalid ones.

    python3 fuzz/make_seeds.py [--koofu build/koofu]

Only the standard library is needed. Statistics, models and some galleries are made by koofu
itself, where a program is given; their seeds are left alone otherwise. What fuzzing has added to the corpora
(tools/fuzz.sh --minimise) stays.
"""

import argparse
import gzip
import io
import json
import pathlib
import struct
import tarfile
import subprocess
import tempfile
import zipfile

CORPUS = pathlib.Path(__file__).parent / "corpus"


def put(target, name, data):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def npy(descr, shape, data, version=1, fortran="False", header=None):
    if header is None:
        header = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    text = header.encode("utf-8" if version == 3 else "latin-1") + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def npy_seeds():
    rows = floats(1, 2, 3, 4, 5, 6)
    put("npy", "f4", npy("<f4", (2, 3), rows))
    put("npy", "f4-fortran", npy("<f4", (2, 3), rows, fortran="True"))
    put("npy", "f4-version2", npy("<f4", (2, 3), rows, version=2))
    put("npy", "f4-version3", npy("<f4", (2, 3), rows, version=3))
    put("npy", "f2", npy("<f2", (2, 2), struct.pack("<4e", 1, 2, 3, 4)))
    put("npy", "f8", npy("<f8", (1, 2), struct.pack("<2d", 1, 1e300)))
    put("npy", "nan", npy("<f4", (2, 2), floats(1, float("nan"), 0, 0)))
    for code, descr in zip("bBhHiIqQ", "|i1 |u1 <i2 <u2 <i4 <u4 <i8 <u8".split()):
        put("npy", "labels-" + descr[1:], npy(descr, (4,), struct.pack("<4" + code, 0, 1, 2, 1)))
    put("npy", "labels-column", npy("<i8", (4, 1), struct.pack("<4q", 0, -1, 2**40, 1)))
    put("npy", "labels-U", npy("<U2", (4,), "a\0b\u20acc\0a\0".encode("utf-32-le")))
    put("npy", "labels-S", npy("|S2", (4,), b"a\0bbc\0a\0"))
    put("npy", "bad-surrogate", npy("<U1", (4,), struct.pack("<4I", 97, 0xD800, 98, 0x110000)))
    put("npy", "bad-padding", npy("|S2", (4,), b"a\0\0bc\0a\0"))
    put("npy", "bad-string-size", npy("<U99999999999", (4,), b""))
    put("npy", "bad-object", npy("|O", (4,), b"\x80\x04."))
    put("npy", "bad-struct", npy("", "", b"", header="{'descr': [('a', '<f4')], 'shape': (1,), }"))
    put("npy", "bad-big-endian", npy(">f4", (1, 2), rows[:8]))
    put("npy", "bad-overflow", npy("<f4", (2**40, 2**40), rows))
    put("npy", "bad-negative", npy("<f4", "(-1, 3)", rows))
    put("npy", "bad-short", npy("<f4", (2, 3), rows[:-1]))
    put("npy", "bad-long", npy("<f4", (2, 3), rows + b"x"))
    put("npy", "bad-twice", npy("", "", b"", header="{'shape': (1, 1), 'shape': (1, 1), }"))
    put("npy", "bad-header-length", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{}")
    put("npy", "bad-magic", b"NUMPY" * 4)
    put("npy", "bad-version", npy("<f4", (1, 1), rows[:4], version=4))
    put("npy", "bad-matrix-labels", npy("<i4", (2, 2), rows[:16]))
    put("npy", "bad-wide-labels", npy("|S65537", (0,), b""))
    put("npy", "bad-labels-limit", npy("<i4", (4,), struct.pack("<4i", 0, 1, 2, 2**30)))
    whole = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }"
    headers = {"colon": whole.replace("':", "'"), "open": whole[:-1], "end": whole + " x", "comma": whole.replace(" 'shape", " 'x': 1, 'shape"),
               "after": whole.replace("False,", "False;"), "lacks": "{'descr': '<f4', 'shape': (1, 1)}", "lacks-descr": "{}",
               "lacks-shape": whole.replace(" 'shape': (1, 1),", ""), "order": whole.replace("False", "0"), "shape": whole.replace("(1, 1)", "1"),
               "number": whole.replace("(1, 1)", "(1)"), "size": whole.replace("(1, 1)", "(a,)"), "size-64": whole.replace("(1, 1)", "(99999999999999999999, 1)"),
               "deep": whole.replace("(1, 1)", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "list": "[]", "key": whole.replace("descr", "description of it")}  # fmt: skip
    for name, header in headers.items():
        put("npy", "bad-header-" + name, npy("", "", rows[:4], header=header))


def npz(arrays, wide=False, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in arrays.items():
            # As numpy does; in a fixed time, so that the seeds are always the same.
            info = zipfile.ZipInfo(name + ".npy")
            info.compress_type = method
            with archive.open(info, "w", force_zip64=wide) as member:
                member.write(data)
    return file.getvalue()


def in_directory(archive, at, data):
    """The archive with bytes of the first entry of its directory replaced."""
    at += archive.index(b"PK\1\2")
    return archive[:at] + data + archive[at + len(data):]


def directory_64(archive):
    """The same archive with a 64-bit end of its directory."""
    end = archive[-22:]
    entries, size, offset = struct.unpack("<HII", end[10:20])
    wide = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, entries, entries, size, offset)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, len(archive) - 22, 1)
    return archive[:-22] + wide + locator + end[:8] + b"\xff" * 12 + end[20:]


def extra_64(archive, member, keep=24, claim=None):
    """The same archive with sizes and offset of the first member in an extra field of 64 bits, after another one."""
    at = archive.index(b"PK\1\2")
    fields = struct.pack("<QQQ", len(member), len(member), 0)[:keep]
    extra = struct.pack("<HH4s", 9, 4, b"else") + struct.pack("<HH", 1, claim or len(fields)) + fields
    name = archive[at + 28] + 46
    entry = bytearray(archive[at:at + name])
    entry[20:28] = b"\xff" * 8
    entry[30:32] = struct.pack("<H", len(extra))
    entry[42:46] = b"\xff" * 4
    grown = archive[:at] + bytes(entry) + extra + archive[at + name:-22]
    end = bytearray(archive[-22:])
    end[12:16] = struct.pack("<I", struct.unpack("<I", end[12:16])[0] + len(extra))
    return grown + bytes(end)


def tar(members, form=tarfile.GNU_FORMAT):
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w", format=form) as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return memory.getvalue().rstrip(b"\0") + bytes(1536 - len(memory.getvalue().rstrip(b"\0")) % 512)


def tar_seeds():
    members = [("0.png", b"picture"), ("0.cls", b"cat\n"), ("0.txt", b"a cat"), ("0.json", b'{"kind": 1, "of": ["x"]}')]
    whole = tar(members)
    put("tar", "gnu", whole)
    put("tar", "gnu-long", tar([("d" * 120 + "/0.png", b"p"), ("x/.hidden.png", b"p")]))
    put("tar", "pax", tar([("ü" * 80 + ".png", b"p"), *members], tarfile.PAX_FORMAT))
    put("tar", "ustar", tar([("f" * 90 + "/" + "g" * 60 + ".webp", b"p")], tarfile.USTAR_FORMAT))
    put("tar", "several", tar([("1.jpg", b"p"), ("1.png", b"q"), ("2.seg.png", b"r"), ("3", b"s")]))
    put("tar", "bad-cut", whole[:700])
    put("tar", "bad-no-end", whole[:-1024])
    put("tar", "bad-sum", b"9" + whole[1:])
    put("tar", "bad-json", tar([("0.png", b"p"), ("0.json", b"{")]))
    put("tar", "bad-class", tar([("0.png", b"p"), ("0.cls", b"\xff")]))
    put("tar", "bad-gzip", b"\x1f\x8b" + bytes(600))


def npz_seeds():
    rows = npy("<f4", (4, 2), floats(1, 2, 3, 4, 5, 6, 7, 8))
    labels = npy("<i8", (4,), struct.pack("<4q", 0, 1, 2, 1))
    names = npy("<U2", (4,), "a\0b\0c\0a\0".encode("utf-32-le"))
    whole = npz({"x": rows, "y": labels})
    put("npz", "stored", whole)
    put("npz", "stored-64", npz({"x": rows, "y": labels}, wide=True))
    file = io.BytesIO(npz({"x": rows, "names": names}, method=zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b"a comment"
    deflated = file.getvalue()
    put("npz", "deflated", deflated)
    put("npz", "several", npz({"x": rows, "w": rows, "y": labels, "names": names}))
    put("npz", "object", npz({"x": rows, "o": npy("|O", (4,), b"\x80\x04.")}))
    put("npz", "bad-cut", whole[:-30])
    put("npz", "bad-empty", npz({}))
    put("npz", "bad-crc", whole.replace(floats(3), floats(9)))
    put("npz", "bad-packed", deflated[:50] + b"\xff" + deflated[51:])
    put("npz", "bad-encrypted", whole.replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"))
    put("npz", "bad-size", whole.replace(struct.pack("<II", len(rows), len(rows)), struct.pack("<II", len(rows), 2**31)))
    put("npz", "bad-twice", whole.replace(b"y.npy", b"x.npy"))
    put("npz", "bad-no-x", npz({"w": rows, "y": labels}))
    put("npz", "bad-no-matrix", npz({"y": labels}))
    put("npz", "bad-two-lists", npz({"x": rows, "y": labels, "z": labels}))
    put("npz", "bad-late-array", npz({"x": b"\x93NUMPY\x02\x00\x00\x00\x02\x00" + bytes(2**17)}, method=zipfile.ZIP_DEFLATED))
    put("npz", "bad-long-header", npz({"x": b"\x93NUMPY\x02\x00\x01\x00\x10\x00" + bytes(2**20 + 1)}, method=zipfile.ZIP_DEFLATED))
    put("npz", "bad-name-utf8", whole.replace(b"y.npy", b"\xff.npy"))
    put("npz", "bad-outside", whole.replace(struct.pack("<II", len(labels), len(labels)), struct.pack("<II", 2**30, 2**30)))
    put("npz", "bad-local", whole.replace(b"PK\3\4", b"PK\3\5"))
    put("npz", "bad-method", whole.replace(b"PK\1\2\x14\3\x14\0\0\0\0\0", b"PK\1\2\x14\3\x14\0\0\0\x0c\0"))
    put("npz", "bad-parts", whole[:-18] + b"\1" + whole[-17:])
    put("npz", "bad-count", whole[:-14] + b"\xfe\xfe\xfe\xfe" + whole[-10:])
    put("npz", "bad-place", whole[:-6] + b"\1\0" + whole[-4:])
    put("npz", "bad-entry", whole.replace(b"PK\1\2", b"PK\1\3"))
    put("npz", "bad-entry-length", whole[: whole.index(b"PK\1\2") + 32] + b"\xff\xff" + whole[whole.index(b"PK\1\2") + 34:])
    size = struct.pack("<II", len(rows), len(rows))
    put("npz", "bad-extra", whole.replace(size, b"\xff" * 8))
    put("npz", "bad-deflated-size", in_directory(deflated, 24, struct.pack("<I", len(rows) + 1)))
    put("npz", "bad-deflated-bomb", in_directory(deflated, 24, struct.pack("<I", 2**31)))
    put("npz", "directory-64", directory_64(whole))
    put("npz", "bad-directory-64", directory_64(whole)[:-42] + b"PK\6\6" + directory_64(whole)[-38:])
    put("npz", "bad-directory-64-sum", directory_64(whole).replace(b"PK\6\6", b"PK\6\5"))
    put("npz", "bad-directory-64-short", b"\xff" * 22 + whole[-22:-12] + b"\xff" * 10 + b"\0\0")
    put("npz", "extra-64", extra_64(whole, rows))
    put("npz", "bad-extra-64", extra_64(whole, rows, keep=8))
    put("npz", "bad-extra-64-cut", extra_64(whole, rows, claim=99))


def csv_seeds():
    def seed(name, text, rows, column=None, tabs=False):
        kind = (rows - 1) << 4 | [None, "label", 1, 2].index(column) << 1 | tabs
        put("csv", name, bytes([kind]) + (text if isinstance(text, bytes) else text.encode()))
    seed("one", "a\nb\na\n", 3)
    seed("header", "label\na\nb\na", 3)
    seed("bom-crlf", "\ufefflabel\r\na\r\nb\r\n", 2)
    seed("by-name", 'path,label\n"a,1",x\nb,"y ""z"""\n', 2, "label")
    seed("by-number", 'path,label\n"a\nb",x\nb,\n', 2, 2)
    seed("tabs", "label\tpath\nx\ta,b\ny\tc\n", 2, "label", tabs=True)
    seed("bad-columns", "a,b\nc,d\n", 2)
    seed("bad-ragged", "label,b\nc\nd,e\n", 2, "label")
    seed("bad-open", 'label\n"a\nb\n', 2, "label")
    seed("bad-after", 'label\n"a"b\nb\n', 2, "label")
    seed("bad-inside", 'label\na"b\nb\n', 2, "label")
    seed("bad-carriage", "label\ra\rb\r", 2, "label")
    seed("bad-nul", "label\na\0\nb\n", 2, "label")
    seed("bad-latin1", "label\n\u00e4\nb\n".encode("latin-1"), 2, "label")
    seed("bad-no-column", "path,name\na,b\n", 1, "label")
    seed("bad-two-columns", "label,label\na,b\n", 1, "label")
    seed("bad-no-second", "a\nb\n", 2, 2)
    seed("bad-like-header", "label\na\n", 2)
    seed("not-like-header", "x\ny\n", 2)
    seed("bad-long", "label\n" + "x" * 65537, 1, "label")
    seed("rows", "id,label,x0,x1,x2\np,a,1,-2.5,3e4\nq,b,,inf,nan\n", 2)
    seed("rows-index", ',0,1\n0,1.5,2\n1,2.5,"3"\n', 2)
    seed("rows-bare", "1.5\t2.5\ta\n3.5\t-4\tb\n", 2, 2, tabs=True)
    seed("rows-names", "a,b,label\n1,2,x\n", 1, "label")
    seed("bad-rows-gap", "x0,x2,label\n1,2,a\n", 1, "label")
    seed("bad-rows-two", "x0,x1,y0,y1\n1,2,3,4\n", 1)
    seed("bad-rows-text", "x0,x1\n1,2\n3,four\n", 2)
    seed("bad-rows-ragged", "x0,x1\n1,2\n3\n", 2)
    seed("bad-rows-id", "id,x0\n,1\n", 1)
    seed("many-columns", ",".join(map(str, range(50))) + "\n", 1, "label")


def safetensors(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    rows = floats(1, 2, 3, 4)
    labels = struct.pack("<2i", 1, 0)
    meta = {"classes": json.dumps(["cat", "d\u00f6g"]), "format": "koofu.dataset"}
    full = {
        "__metadata__": meta,
        "embeddings": tensor("F32", [2, 2], 0, 16),
        "labels": tensor("I32", [2], 16, 24),
    }
    put("safetensors", "data-set", safetensors(full, rows + labels))
    put("safetensors", "only", safetensors({"x": tensor("F32", [2, 2], 0, 16)}, rows))
    ids = {"id_ends": tensor("I64", [2], 0, 16), "embeddings": tensor("F32", [2, 2], 16, 32), "id_bytes": tensor("U8", [5], 32, 37)}
    put("safetensors", "ids", safetensors(ids, struct.pack("<2q", 3, 5) + rows + "a\u00f6cd".encode()))
    put("safetensors", "bad-ids", safetensors(ids, struct.pack("<2q", 3, -1) + rows + b"abcde"))
    half = {"embeddings": tensor("F16", [2, 2], 0, 8)}
    put("safetensors", "f16", safetensors(half, struct.pack("<4e", 1, 2, 3, 4)))
    brain = {"embeddings": tensor("BF16", [2, 2], 0, 8)}
    put("safetensors", "bf16", safetensors(brain, b"\x80\x3f" * 4))
    double = {"embeddings": tensor("F64", [1, 2], 0, 16)}
    put("safetensors", "f64", safetensors(double, struct.pack("<2d", 1, 2)))
    others = {"a": tensor("BOOL", [3], 0, 3), "b": tensor("F4", [2], 3, 4), "c": tensor("I8", [], 4, 5)}
    put("safetensors", "others", safetensors(others, b"\0" * 5))
    names = dict(full, __metadata__={"classes": '["a", "a"]'})
    put("safetensors", "bad-names", safetensors(names, rows + labels))
    gap = {"a": tensor("F32", [2, 1], 0, 8), "b": tensor("F32", [1, 1], 12, 16)}
    put("safetensors", "bad-gap", safetensors(gap, rows))
    overlap = {"a": tensor("F32", [2, 1], 0, 8), "b": tensor("F32", [3, 1], 4, 16)}
    put("safetensors", "bad-overlap", safetensors(overlap, rows))
    put("safetensors", "bad-range", safetensors({"a": tensor("F32", [9], 0, 36)}, rows))
    put("safetensors", "bad-trailing", safetensors({"a": tensor("F32", [1], 0, 4)}, rows))
    huge = {"a": tensor("F32", [2**62, 2**62], 0, 16)}
    put("safetensors", "bad-overflow", safetensors(huge, rows))
    put("safetensors", "bad-negative", safetensors({"a": tensor("F32", [-4], 0, 16)}, rows))
    put("safetensors", "bad-duplicate", safetensors(b'{"a": {}, "a": {}}', b""))
    put("safetensors", "bad-json", safetensors(b'{"a": ', b""))
    put("safetensors", "bad-length", struct.pack("<Q", 2**63) + b"{}")
    put("safetensors", "bad-short", b"{}")
    put("safetensors", "bad-pointer", b"version https://git-lfs.github.com/spec/v1\n")
    put("safetensors", "bad-past-end", struct.pack("<Q", 99) + b"{}")
    put("safetensors", "bad-type", safetensors({"a": tensor("F99", [4], 0, 16)}, rows))
    put("safetensors", "bad-no-type", safetensors({"a": {}}, rows))
    put("safetensors", "bad-offsets", safetensors({"a": tensor("F32", [4], 16, 0)}, rows))
    put("safetensors", "bad-span", safetensors({"a": tensor("F32", [3], 0, 16)}, rows))
    put("safetensors", "empty-tensor", safetensors({"a": tensor("F32", [2, 2], 0, 16), "b": tensor("F32", [0], 0, 0)}, rows))
    put("safetensors", "bad-metadata", safetensors({"__metadata__": [], **half}, bytes(8)))
    put("safetensors", "bad-metadata-value", safetensors({"__metadata__": {"a": 1}, **half}, bytes(8)))
    put("safetensors", "bad-labels", safetensors(dict(full, labels=tensor("F32", [2], 16, 24)), rows + labels))
    put("safetensors", "bad-label", safetensors(full, rows + struct.pack("<2i", 2, 0)))
    put("safetensors", "bad-zero", safetensors(full, bytes(16) + labels))
    put("safetensors", "bad-id-ends", safetensors(ids | {"id_ends": tensor("I32", [4], 0, 16)}, bytes(16) + rows + b"abcde"))
    put("safetensors", "bad-id-alone", safetensors({"embeddings": half["embeddings"], "id_bytes": tensor("U8", [1], 8, 9)}, bytes(9)))
    put("safetensors", "bad-two", safetensors({"a": tensor("F32", [1, 2], 0, 8), "b": tensor("F32", [1, 2], 8, 16)}, rows))
    put("safetensors", "bad-rows", safetensors({"embeddings": tensor("F32", [4], 0, 16)}, rows))
    put("safetensors", "bad-list", safetensors(b"[]", b""))
    lists = {"list": '{"a": 1}', "strings": "[1]", "comma": '["a" "b"]', "end": '["a", "b"', "after": '["a"] 1', "control": '["\x01"]'}
    for name, text in lists.items():
        put("safetensors", "bad-names-" + name, safetensors(dict(full, __metadata__={"classes": text}), rows + labels))
    texts = {"pair": r'"\ud83d\uDc08\u00E9\n"', "half": r'"\ud83d"', "low": r'"\udc00"', "hex": r'"\u00g0"', "nul": r'"\u0000"', "escape": r'"\x"',
             "control": '"\x01"', "open": '"a', "word": "nul", "number": "-", "zero": "01", "point": "1.", "exponent": "1e", "key": "{1: 2}",
             "no-colon": '{"a" 1}', "comma": "[1 2]", "brace": '{"a": 1 "b"}', "after": "1} {", "deep": "[" * 65}  # fmt: skip
    for name, text in texts.items():
        put("safetensors", ("json-" if name == "pair" else "bad-json-") + name, safetensors(b'{"__metadata__": {"a": %s}}' % text.encode(), b""))
    put("safetensors", "bad-utf8", safetensors(b'{"\xff": 1}', b""))
    one = {"__metadata__": {"encoder": "clip", "encoder_checksum": "0" * 16, "format": "koofu.dataset"}, "embeddings": tensor("F32", [2, 2], 0, 16)}
    for name, change in {"alone": {"encoder_checksum": None}, "nameless": {"encoder": None}, "name": {"encoder": ""}, "digits": {"encoder_checksum": "0" * 15 + "G"}}.items():
        meta = {key: value for key, value in (one["__metadata__"] | change).items() if value is not None}
        put("safetensors", "bad-encoder-" + name, safetensors(one | {"__metadata__": meta}, rows))


def shards_seeds():
    rows, labels = floats(1, 2, 3, 4), struct.pack("<2i", 1, 0)

    def file(classes=None, encoder=None, dim=2, labelled=True, ids=b""):
        meta = {"format": "koofu.dataset"}
        if classes:
            meta["classes"] = json.dumps(classes)
        if encoder:
            meta |= {"encoder": "clip", "encoder_checksum": encoder}
        header, data = {"__metadata__": meta}, b""
        if ids:
            header["id_ends"], data = tensor("I64", [2], 0, 16), struct.pack("<2q", 1, len(ids))
        header["embeddings"] = tensor("F32", [4 // dim, dim], len(data), len(data) + 16)
        data += rows
        if labelled:
            header["labels"], data = tensor("I32", [2], len(data), len(data) + 8), data + labels
        if ids:
            header["id_bytes"], data = tensor("U8", [len(ids)], len(data), len(data) + len(ids)), data + ids
        return safetensors(header, data)

    def seed(name, first, second):
        put("shards", name, struct.pack("<H", len(first)) + first + second)

    plain, one, other = file(), "0123456789abcdef", "f" * 16
    seed("two", file(labelled=False), file(labelled=False, encoder=one))
    seed("same", file(["a", "b"], one, ids=b"xy"), file(["a", "b"], one, ids=b"zzz"))
    seed("encoders", file(encoder=one), file(encoder=other))
    seed("unknown", file(labelled=False, ids=b"xy"), file(labelled=False, encoder=other))
    seed("bad-classes", file(["a", "b"]), file(["b", "a"]))
    seed("bad-some-names", file(["a", "b"]), plain)
    seed("bad-columns", file(labelled=False), file(labelled=False, dim=4))
    seed("bad-some-labels", plain, file(labelled=False))
    seed("bad-second", plain, b"{}")


def any_seeds():
    """The first byte is the ending: none, .jpg, .dat, .npy, .npz, .fbin, .fvecs, .safetensors, .csv, .txt."""
    rows = floats(1, 2, 3, 4)
    put("any", "npy", b"\0" + npy("<f4", (2, 2), rows))
    put("any", "npz", b"\0" + npz({"x": npy("<f4", (2, 2), rows)}))
    put("any", "safetensors", b"\0" + safetensors({"x": tensor("F32", [2, 2], 0, 16)}, rows))
    put("any", "text", b"\0cat\ndog\neel\ncat\n")
    put("any", "bad-picture", b"\1\xff\xd8\xff")
    put("any", "bad-ending", b"\2rows")
    put("any", "bad-empty", b"\0")
    put("any", "npy-labels", b"\3" + npy("<i4", (4,), struct.pack("<4i", 0, 1, 2, 1)))
    put("any", "fbin", b"\5" + struct.pack("<2I", 2, 2) + rows)
    put("any", "fvecs", b"\6" + (struct.pack("<i", 2) + rows[:8]) * 2)
    put("any", "bad-data-set", b"\7" + safetensors({"x": tensor("F32", [2, 2], 0, 16)}, rows))
    put("any", "bad-checksum", b"\7" + gallery({"metric": "cosine"}, [("embeddings", "F32", [2, 2], rows)]))
    put("any", "lines", b"\x09cat\n\ndog\ncat\n")


def gallery(meta, tensors):
    """Tensors as (name, dtype, shape, bytes). The fuzz target corrects the checksum."""
    common = {"checksum": "0" * 16, "format": "koofu.gallery", "version": "1"}
    header, data = {"__metadata__": {**common, **meta}}, b""
    for name, dtype, shape, content in tensors:
        header[name] = tensor(dtype, shape, len(data), len(data) + len(content))
        data += content
    return safetensors(json.dumps(header, separators=(",", ":")).encode(), data)


def gallery_seeds():
    cosine, euclidean = {"metric": "cosine"}, {"metric": "euclidean"}
    names = {"classes": '["cat","d\u00f6g"]'}
    through = {"normalized": "1", "centre": "mean", "lambda": "0.5"}
    rows = ("embeddings", "F32", [3, 2], floats(1, 0, 0.6, 0.8, 0, -1))
    labels = ("labels", "I32", [3], struct.pack("<3i", 1, -1, 0))
    ends = ("id_ends", "I64", [3], struct.pack("<3q", 1, 4, 5))
    ids = ("id_bytes", "U8", [5], "a\u00e9bc".encode())
    transform = ("transform", "F64", [2, 3], struct.pack("<6d", 1, 0, 0, 0, 1, 1))
    mean = ("mean", "F64", [3], struct.pack("<3d", 0, 0.5, 0))
    full = [transform, mean, ends, rows, labels, ids]
    put("gallery", "rows", gallery(cosine, [rows]))
    put("gallery", "inner", gallery({"metric": "inner"}, [rows, labels]))
    put("gallery", "named", gallery({**cosine, **names}, [rows, labels]))
    put("gallery", "ids", gallery(euclidean, [ends, rows, ids]))
    put("gallery", "mapped", gallery({**cosine, **through}, [transform, mean, rows]))
    put("gallery", "full", gallery({**euclidean, **through, **names}, full))
    halves = ("embeddings", "F16", [3, 2], struct.pack("<6e", 1, 0, 0.6, 0.8, 0, -1))
    put("gallery", "half", gallery({**cosine, **names}, [halves, labels]))
    put("gallery", "half-mapped", gallery({**cosine, **through}, [transform, mean, halves]))
    put("gallery", "bf16", gallery({**cosine, **names}, [("embeddings", "BF16", [3, 2], struct.pack("<6H", 0x3F80, 0, 0x3F1A, 0x3F4D, 0, 0xBF80)), labels]))
    put("gallery", "bf16-mapped", gallery({**cosine, **through}, [transform, mean, ("embeddings", "BF16", [1, 2], struct.pack("<2H", 0x3F80, 0))]))
    # Finite numbers that map a query of ones to inf - inf.
    huge = ("transform", "F64", [2, 3], struct.pack("<6d", 1e308, -1e308, 0, 0, 1, 0))
    far = ("mean", "F64", [3], struct.pack("<3d", -100, -100, 0))
    put("gallery", "overflow", gallery({**cosine, **through}, [huge, far, rows]))
    batches = ("batches", "U64", [2], struct.pack("<2Q", 1, 2))
    put("gallery", "batches", gallery(cosine, [rows, batches]))

    def bad(name, what, *tensors):
        put("gallery", "bad-" + name, gallery(what, list(tensors)))

    bad("metric", {"metric": "hamming"}, rows)
    bad("length", cosine, ("embeddings", "F32", [1, 2], floats(1, 1)))
    bad("nan", euclidean, ("embeddings", "F32", [1, 2], floats(1, float("nan"))))
    bad("half-nan", cosine, ("embeddings", "F16", [1, 2], struct.pack("<2e", 1, float("nan"))))
    bad("half-length", {**cosine, **through}, transform, mean, ("embeddings", "F16", [1, 2], struct.pack("<2e", 1, 0.25)))
    bad("empty", cosine, ("embeddings", "F32", [0, 2], b""))
    bad("label", {**cosine, **names}, rows, ("labels", "I32", [3], struct.pack("<3i", 0, 2, 1)))
    bad("ends", cosine, ("id_ends", "I64", [3], struct.pack("<3q", 1, 2**62, 5)), rows, ids)
    bad("falling", cosine, ("id_ends", "I64", [3], struct.pack("<3q", 4, 1, 5)), rows, ids)
    bad("utf8", cosine, ends, rows, ("id_bytes", "U8", [5], b"a\xe9\xe9bc"))
    bad("map", {**cosine, **through}, ("transform", "F64", [1, 1], struct.pack("<d", 1)), mean, rows)
    bad("map-rows", {**cosine, **through}, ("transform", "F64", [1, 3], struct.pack("<3d", 1, 0, 0)), mean, rows)
    bad("map-empty", {**cosine, **through}, ("transform", "F64", [0, 3], b""), mean, rows)
    bad("map-zero", {**cosine, **through}, ("transform", "F64", [2, 3], struct.pack("<6d", 1, 0, 0, 0, 0, 0)), mean, rows)
    bad("map-nan", {**cosine, **through}, ("transform", "F64", [2, 3], struct.pack("<6d", 1, 0, 0, 0, float("inf"), 0)), mean, rows)
    bad("mean", {**cosine, **through}, transform, ("mean", "F64", [3], struct.pack("<3d", 9, 9, 9)), rows)
    bad("mean-alone", cosine, mean, rows)
    bad("unit", {**cosine, **through}, transform, mean, ("embeddings", "F32", [1, 2], floats(1, 1)))
    bad("zero", cosine, ("embeddings", "F32", [1, 2], floats(0, 0)))
    bad("cosine-nan", cosine, ("embeddings", "F32", [1, 2], floats(1, float("nan"))))
    bad("batches", cosine, rows, ("batches", "U64", [0], b""))
    bad("batches-type", cosine, rows, ("batches", "I64", [1], bytes(8)))
    bad("no-metric", {}, rows)
    bad("k", {**cosine, "k": "0"}, rows)
    bad("k-number", {**cosine, "k": "x"}, rows)
    bad("lambda", {**cosine, **through, "lambda": "x"}, transform, mean, rows)
    bad("list", cosine, ("embeddings", "F32", [2], floats(1, 0)))
    bad("type", cosine, ("embeddings", "F16", [1, 2], bytes(4)))
    bad("shape", cosine, rows, ("labels", "I32", [2], bytes(8)))
    bad("last", cosine, ends, rows, ("id_bytes", "U8", [6], b"abcdef"))
    bad("version", {**cosine, "version": "99"}, rows)
    bad("format", {**cosine, "format": "koofu.other"}, rows)
    put("gallery", "bad-checksum", safetensors({"__metadata__": {"format": "koofu.gallery", "version": "1", **cosine}, "embeddings": tensor("F32", [1, 2], 0, 8)}, floats(1, 0)))
    put("gallery", "bad-json", safetensors(b"{", b""))


def changes_seeds():
    """Changes of the galleries of three rows that the target makes: rows alone (0), with classes (1), with classes and
    ids (2), of f16 with ids (3). It corrects the checksums, unless the first byte has 4."""
    rows = ("embeddings", "F32", [2, 2], floats(0.6, 0.8, 0, 1))
    halves = ("embeddings", "F16", [2, 2], struct.pack("<4e", 1, 2, 0.5, -1))
    labels = ("labels", "I32", [2], struct.pack("<2i", 0, -1))
    ends = ("id_ends", "I64", [2], struct.pack("<2q", 1, 3))
    ids = ("id_bytes", "U8", [3], b"dee")
    batch = ("batches", "U64", [1], struct.pack("<Q", 7))

    def removed(*places):
        return ("removed", "I64", [len(places)], struct.pack(f"<{len(places)}q", *places))

    def change(number, *tensors, **meta):
        links = {"format": "koofu.change", "base": "0" * 16, "number": str(number), "previous": "0" * 16}
        return gallery({**links, **meta}, list(tensors))

    def seed(name, kind, first, second=b""):
        put("changes", name, bytes([kind]) + struct.pack("<H", len(first)) + first + second)

    full = [ends, rows, labels, ids, batch]
    seed("remove", 0, change(1, removed(1)))
    seed("add", 0, change(1, rows, batch))
    seed("add-remove", 0, change(1, rows, batch), change(2, removed(0, 4)))
    seed("labels", 1, change(1, rows, labels, batch), change(2, rows, labels, batch, k="3"))
    seed("class", 1, change(1, rows, ("labels", "I32", [2], struct.pack("<2i", 2, 1)), batch, classes='["eel"]'))
    seed("full", 2, change(1, removed(2), *full), change(2, removed(0, 3), *full))
    seed("half", 3, change(1, ends, halves, ids, batch), change(2, removed(1)))
    seed("bad-links", 4, change(1, removed(1)))
    seed("bad-number", 0, change(2, removed(1)))
    seed("bad-second", 0, change(1, removed(1)), change(1, removed(0)))
    seed("bad-all", 0, change(1, removed(0, 1)), change(2, removed(2)))
    seed("bad-twice", 0, change(1, removed(1)), change(2, removed(1)))
    seed("bad-falling", 0, change(1, removed(1, 0)))
    seed("bad-place", 0, change(1, removed(3)))
    seed("bad-own", 0, change(1, removed(3), rows, batch))
    seed("bad-negative", 0, change(1, removed(-1)))
    seed("bad-far", 0, change(1, removed(2**62)))
    seed("bad-empty", 0, change(1, ("embeddings", "F32", [0, 2], b""), batch))
    seed("nothing", 0, change(1))
    seed("bad-columns", 0, change(1, ("embeddings", "F32", [1, 3], floats(1, 0, 0)), batch))
    seed("bad-type", 3, change(1, ends, rows, ids, batch))
    seed("bad-no-batch", 0, change(1, rows))
    seed("bad-batches", 0, change(1, rows, ("batches", "U64", [2], bytes(16))))
    seed("bad-labels", 0, change(1, rows, labels, batch))
    seed("bad-no-labels", 1, change(1, rows, batch))
    seed("bad-label", 1, change(1, rows, ("labels", "I32", [2], struct.pack("<2i", 2, 0)), batch))
    seed("bad-class", 1, change(1, rows, labels, batch, classes='["cat"]'))
    seed("bad-classes", 0, change(1, rows, batch, classes='["eel"]'))
    seed("bad-ends", 2, change(1, ("id_ends", "I64", [2], struct.pack("<2q", 3, 1)), rows, labels, ids, batch))
    seed("same-ids", 2, change(1, ends, rows, labels, ("id_bytes", "U8", [3], b"abb"), batch))
    seed("bad-nan", 0, change(1, ("embeddings", "F32", [1, 2], floats(1, float("nan"))), batch))
    seed("bad-zero", 0, change(1, ("embeddings", "F32", [1, 2], floats(0, 0)), batch))
    seed("bad-k", 0, change(1, removed(1), k="0"))
    seed("bad-format", 0, gallery({"metric": "cosine"}, [rows]))
    seed("bad-version", 0, change(1, removed(1), version="99"))
    seed("bad-short", 0, change(1, removed(1))[:-1])


def vecs_seeds():
    row = struct.pack("<i", 2)
    put("fvecs", "two", row + floats(1, 2) + row + floats(3, 4))
    put("fvecs", "bad-second", row + floats(1, 2) + struct.pack("<i", 3) + floats(3, 4))
    put("fvecs", "bad-short", row + floats(1, 2) + row)
    put("fvecs", "bad-negative", struct.pack("<i", -1))
    put("fvecs", "bad-zero", bytes(8))
    put("fvecs", "bad-large", struct.pack("<i", 2**31 - 1))
    put("fvecs", "bad-few", b"\2\0")
    put("fbin", "two", struct.pack("<2I", 2, 2) + floats(1, 2, 3, 4))
    put("fbin", "bad-short", struct.pack("<2I", 2, 2) + floats(1, 2, 3))
    put("fbin", "bad-huge", struct.pack("<2I", 2**32 - 1, 2**32 - 1))
    put("fbin", "bad-zero", struct.pack("<2I", 0, 0))
    put("fbin", "bad-header", b"\1\0\0")


def text_seeds():
    for target in "labels", "classes":
        put(target, "plain", b"cat\ndog\n")
        put(target, "crlf", b"cat\r\ndog\r\n")
        put(target, "bom", b"\xef\xbb\xbfcat\ndog")
        put(target, "utf8", "cat\ndog\nL\u00f6we\n\u732b\n\U0001f408\n".encode())
        put(target, "repeated", b"cat\ndog\ncat\ncat\n")
        put(target, "empty-line", b"cat\n\ndog\n")
        put(target, "bad-latin1", b"cat\ndog\nL\xf6we\n")
        put(target, "bad-nul", b"cat\ndog\0\n")
        put(target, "bad-utf16", "cat\ndog\n".encode("utf-16"))
        put(target, "bad-long", b"x" * 65537 + b"\n")
    put("labels", "many", b"".join(b"%d\n" % (i % 7) for i in range(3000)))
    put("classes", "bad-unknown", b"cat\neel\n")
    put("classes", "bad-empty", b"")


def truth_seeds():
    """The first byte is what follows: 0 JSON, 1 CSV, 2 text, 3 a hierarchy, 4 answers; + 8 with names,
    + 16 by ids, + 32 by its own lines as ids."""
    def seed(name, kind, text):
        put("truth", name, bytes([kind]) + text)

    table = b'id,original_label,proposed_labels,validation\n'
    seed("json", 0, b"[[], [970, 795], [230, 231], [809]]")
    seed("json-names", 8, b"[[2], [0, 1], []]")
    seed("json-ids", 16, b"[[3], [1, 2]]")
    seed("json-words", 0, b'[["cat"], [], ["dog", "cat"]]')
    seed("bad-json", 0, b"[[1], [2,")
    seed("bad-json-kind", 0, b'[[1], {"a": 2}, 3]')
    seed("bad-json-number", 0, b"[[1e9, 99999999999999999999, -1, 0.5]]")
    seed("csv", 1, table + b'x_val_1.JPEG,26,26,*\nx_val_2.JPEG,3,"689, 601",+\n')
    seed("csv-ids", 17, table + b'b/a.png,26,26,*\nx_val_2.JPEG,3,,+\n"say ""a""",1,2,3\n')
    seed("bad-csv-twice", 17, table + b"a.png,1,1,*\na.JPEG,1,1,*\n")
    seed("bad-csv-quote", 1, table + b'a,1,"2\n')
    seed("bad-csv-short", 1, table + b"a,1\n")
    seed("bad-csv-header", 1, b"a,b\n1,2\n")
    seed("text", 2, b"3, 1\n\n0\t2\r\n")
    seed("text-names", 10, b"cat,dog\n\neel\n")
    seed("text-words", 2, b"big cat\tdog, wild\n911\n")
    seed("bad-text-nan", 2, b"1\nnan\n")
    seed("bad-text-nul", 2, b"1\n\0\n")
    seed("bad-text-empty", 2, b"1,,2\n")
    seed("tree", 3, b"animal cat\nanimal dog\nanimal eel\ncat lion\npet cat\n")
    seed("tree-names", 11, b"animal\tcat\nfish\teel\nfriend\tdog\n")
    seed("bad-tree-cycle", 3, b"a cat\ncat dog\ndog a\ndog eel\n")
    seed("bad-tree-line", 3, b"a b c\n")
    seed("answers", 4, b"row\tclass1\tcosine1\n0\t1\t0.5\n1\t7\t0.5\n")
    seed("answers-names", 12, b"row\tclass1\tvotes1\n1\teel\t3\n0\tc\\x61t\\\\\t2\n2\t\t\n")
    seed("bad-answers-row", 4, b"row\tclass1\tcosine1\n99999999999999999999\t1\t1\n")
    seed("bad-answers-twice", 4, b"row\tclass1\tcosine1\n0\t1\t1\n0\t1\t1\n")
    seed("bad-json-object", 0, b"{}")
    seed("bad-json-null", 0, b"[[null]]")
    seed("bad-json-mixed", 0, b'[[1], ["cat"]]')
    seed("bad-json-mixed-names", 0, b'[["cat"], [1]]')
    seed("bad-json-empty-name", 0, b'[[""]]')
    seed("bad-json-none", 0, b"[]")
    seed("bad-json-class", 8, b"[[3]]")
    seed("bad-json-name", 8, b'[["cow"]]')
    seed("bad-json-large", 0, b"[[4194304]]")
    seed("bad-json-negative", 0, b"[[-1]]")
    seed("bad-json-ids", 16, b"[[3]]")
    seed("bad-csv-after", 1, table + b'a,1,"2"3,*\n')
    seed("bad-csv-no-id", 17, table + b",1,2,*\n")
    seed("bad-csv-no-ids", 17, b"label\n1\n")
    seed("csv-labels", 1, b"labels,x\n1,y\n")
    seed("bad-ids-line", 32, b"\n[[1]]")
    seed("bad-csv-none-found", 17, table + b"zzz,1,1,*\n")


def encoder_seeds():
    """The config and index of fuzz/tiny_model.h, and others."""
    tiny = {"model_type": "clip_vision_model", "hidden_size": 4, "intermediate_size": 5,
            "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 4, "patch_size": 2,
            "projection_dim": 3}

    def config(name, value):
        put("encoder_config", name, json.dumps(value).encode())

    config("tiny", tiny)
    config("gelu", tiny | {"hidden_act": "gelu", "layer_norm_eps": 1e-6, "num_channels": 3})
    config("clip", {"model_type": "clip", "projection_dim": 3, "vision_config": tiny,
                    "text_config": {"hidden_size": 4, "vocab_size": 9, "eos_token_id": 2,
                                    "max_position_embeddings": 7}})
    config("old", {"model_type": "clip", "vision_config": None, "vision_config_dict": tiny,
                   "text_config_dict": {}})
    config("text", tiny | {"model_type": "clip_text_model"})
    config("siglip", {"model_type": "siglip", "vision_config": tiny | {"vision_use_head": True}})
    config("bad-heads", tiny | {"num_attention_heads": 3})
    config("bad-layers", tiny | {"num_hidden_layers": 2**31})
    config("bad-patch", tiny | {"patch_size": 5})
    config("bad-activation", tiny | {"hidden_act": "relu"})
    config("bad-type", {"model_type": "bert"})
    config("bad-list", [tiny])
    config("bad-eps", tiny | {"layer_norm_eps": 1})
    config("bad-eps-kind", tiny | {"layer_norm_eps": "small"})
    config("bad-end", {"model_type": "clip", "vision_config": tiny, "text_config": {"eos_token_id": -1}})
    config("bad-channels", tiny | {"num_channels": 4})
    config("bad-patches", tiny | {"image_size": 4096, "patch_size": 1})
    config("bad-head", {"model_type": "siglip", "vision_config": tiny | {"vision_use_head": False}})
    config("bad-section", {"model_type": "clip", "vision_config": []})
    config("bad-count", tiny | {"hidden_size": 1.5})
    config("bad-activation-kind", tiny | {"hidden_act": 1})

    layer = "vision_model.encoder.layers.0."
    linears = [layer + name for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                         "self_attn.out_proj", "mlp.fc1", "mlp.fc2")]
    norms = ["vision_model.pre_layrnorm", layer + "layer_norm1", layer + "layer_norm2",
             "vision_model.post_layernorm"]
    embeddings = ["class_embedding", "patch_embedding.weight", "position_embedding.weight"]
    names = (["vision_model.embeddings." + name for name in embeddings] +
             [name + end for name in norms + linears for end in (".weight", ".bias")] +
             ["visual_projection.weight"])
    first = names[:3] + [n for n in names if "pre_layr" in n or "layer_norm1" in n or "q_proj" in n]
    files = {name: ("a" if name in first else "b") + ".safetensors" for name in names}

    def index(name, value):
        put("weight_index", name, json.dumps(value).encode())

    index("whole", {"metadata": {"total_size": 1}, "weight_map": files})
    index("bad-file", {"weight_map": files | {names[0]: "c.safetensors"}})
    index("bad-other", {"weight_map": files | {names[0]: "b.safetensors"}})
    index("bad-path", {"weight_map": {names[0]: "../a.safetensors"}})
    index("bad-none", {"weight_map": {names[0]: ""}})
    index("bad-map", {"weight_map": [names[0]]})
    index("bad-empty", {})
    index("bad-many", {"weight_map": {f"{i}": f"{'ab'[i % 2]}.safetensors" if i < 2 else f"f{i}" for i in range(4)}})


def image_seeds():
    """Some of the pictures that the tests have (tests/golden/make_images.py), and bad ones of them."""
    golden = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "images"
    names = """exif6-le.jpg exif8-be.jpg xmp.jpg cmyk.jpg ycck.jpg grey.jpg grey-progressive.jpg q10-s2.jpg
        progressive-420.jpg restart.jpg grey1-13x19.png grey4-i-13x19.png grey16-13x19.png la16-i-13x19.png
        rgb8-13x19.png rgba16-13x19.png palette-alpha4-i-13x19.png palette2-1x1.png grey8-1x1.png exif5.png exif7-after.png
        xmp.png raw-profile.png bad-icc.png q50.webp alpha-q5.webp lossless.webp lossless-alpha.webp
        exif4.webp xmp.webp animated.webp animated-part.webp shape-1x400.png""".split()
    for name in names:
        data = (golden / name).read_bytes()
        put("image", name, data)
        if name in ("q10-s2.jpg", "rgb8-13x19.png", "q50.webp", "animated.webp"):
            put("image", "bad-cut-" + name, data[: len(data) // 2])
    png = bytearray((golden / "rgb8-13x19.png").read_bytes())
    png[16:24] = struct.pack(">2I", 50000, 50000)
    put("image", "bad-bomb.png", png)
    put("image", "bad-gif", b"GIF89a")
    jpeg, animated = ((golden / name).read_bytes() for name in ("q10-s2.jpg", "animated-part.webp"))
    put("image", "bad-size.jpg", jpeg[: jpeg.index(b"\xff\xc0") + 5] + bytes(4) + jpeg[jpeg.index(b"\xff\xc0") + 9:])
    at = jpeg.index(b"\xff\xc0")
    put("image", "bad-two-components.jpg", jpeg[: at + 2] + b"\0\x0e" + jpeg[at + 4:at + 9] + b"\2" + jpeg[at + 10:at + 16] + jpeg[at + 19:].replace(b"\xff\xda\0\x0c\3", b"\xff\xda\0\x0a\2", 1).replace(b"\3\x11\0\x3f", b"\0\x3f", 1))
    progressive = (golden / "grey-progressive.jpg").read_bytes()
    scan = progressive.index(b"\xff\xda")
    put("image", "bad-scans.jpg", progressive[:scan] + progressive[scan:scan + 10] * 120 + b"\xff\xd9")
    frame = animated.index(b"ANMF") + 8
    put("image", "bad-frame-outside.webp", animated[:frame] + b"\xff\xff\xff" + animated[frame + 3:])
    put("image", "bad-frame-size.webp", animated[:frame + 6] + b"\1\0\0" + animated[frame + 9:])
    put("image", "bad-frame-empty.webp", animated[:frame] + animated[frame:].replace(b"VP8", b"JNK"))
    put("image", "bad-frame-none.webp", animated.replace(b"ANMF", b"JUNK"))
    tiff = b"II\x2a\0\x08\0\0\0"

    def exif(name, data):
        block = b"Exif\0\0" + data
        put("image", name, b"\xff\xd8\xff\xe1" + struct.pack(">H", len(block) + 2) + block + jpeg[2:])

    def entry(kind, count, value):
        return tiff + struct.pack("<HHHI", 1, 274, kind, count) + value

    exif("exif-byte.jpg", entry(6, 1, b"\3\0\0\0"))
    exif("exif-long.jpg", entry(4, 1, b"\5\0\0\0"))
    exif("exif-elsewhere.jpg", entry(4, 2, struct.pack("<I", 22)) + b"\7\0\0\0\0\0\0\0")
    exif("exif-outside.jpg", entry(4, 9, struct.pack("<I", 99)))
    exif("exif-ascii.jpg", entry(2, 1, b"\3\0\0\0"))
    exif("exif-none.jpg", tiff + struct.pack("<HHHII", 1, 256, 3, 1, 9))
    exif("exif-order.jpg", b"XX\x2a\0" + bytes(8))
    xmp = b"http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation='6'/><y tiff:Orientation=\"x\"/>"
    put("image", "xmp-none.jpg", b"\xff\xd8\xff\xe1" + struct.pack(">H", len(xmp) + 2) + xmp + jpeg[2:])
    grey = bytearray((golden / "grey16-13x19.png").read_bytes())
    grey[24] = 8
    put("image", "bad-depth.png", grey)


def preprocess_seeds():
    def seed(name, **config):
        put("preprocess", name, json.dumps(config).encode())

    square = {"height": 16, "width": 16}
    seed("clip", image_processor_type="CLIPImageProcessor", size={"shortest_edge": 16}, crop_size=square,
         resample=3, do_resize=True, do_center_crop=True, do_rescale=True, rescale_factor=1 / 255,
         do_normalize=True, image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.1], do_convert_rgb=True)
    seed("clip-old", feature_extractor_type="CLIPFeatureExtractor", size=20, crop_size=16, resample=2)
    seed("siglip", image_processor_type="SiglipImageProcessor", size=square, resample=1)
    seed("no-crop", do_center_crop=False, size=16)
    seed("no-resize", do_resize=False, crop_size=16, image_mean=0.5, image_std=2)
    seed("tall", size={"height": 65536, "width": 1}, crop_size=square)
    seed("bad-size", size={"shortest_edge": 224, "longest_edge": 300})
    seed("bad-std", crop_size=16, image_std=[1, 0, 1])
    seed("bad-resample", crop_size=16, resample=4)
    seed("bad-kind", image_processor_type="DetrImageProcessor")
    put("preprocess", "bad-json", b'{"size": 16')
    put("preprocess", "bad-list", b"[]")
    seed("bad-crop", crop_size=[16])
    seed("bad-resample-number", crop_size=16, resample=6)
    seed("bad-shape", crop_size={"height": 16, "width": 8})
    seed("bad-factor", crop_size=16, rescale_factor="x")
    seed("bad-pad", crop_size=16, do_pad=True)
    seed("bad-kind-kind", image_processor_type=1)
    seed("bad-bool", do_resize=1)
    seed("thin", size=65536, crop_size=16, do_center_crop=True)


def koofu_seeds(koofu):
    """A tiny world, its statistics, models and galleries of it."""
    with tempfile.TemporaryDirectory() as folder:

        def make(name, *arguments):
            path = pathlib.Path(folder) / (name + ".safetensors")
            subprocess.run([koofu, *arguments, "-o", path], check=True, capture_output=True)
            return path

        size = ["--classes", "3", "--dim", "8", "--per-class", "4"]
        text = pathlib.Path(folder) / "text.safetensors"
        world = make("world", "synth", *size, "--text", text)
        stats = make("stats", "stats", world)
        raw = make("raw", "stats", world, "--no-normalize")
        known = pathlib.Path(folder) / "known.safetensors"
        known.write_bytes(from_encoder(world.read_bytes()))
        put("safetensors", "encoder", known.read_bytes())
        put("safetensors", "bad-encoder", from_encoder(world.read_bytes(), "no checksum"))
        put("stats", "normalized", stats.read_bytes())
        put("stats", "raw", raw.read_bytes())
        put("stats", "encoder", make("known-stats", "stats", known).read_bytes())
        put("model", "full", make("full", "fit", stats).read_bytes())
        put("model", "two", make("two", "fit", stats, "--dim", "2").read_bytes())
        put("model", "raw", make("raw-model", "fit", raw).read_bytes())
        put("model", "paper", make("paper", "fit", stats, "--method", "paper", "--lambda", "0.3x").read_bytes())
        put("model", "shrunk", make("shrunk", "fit", known, "--reject", "0.9").read_bytes())
        put("model", "fused", make("fused", "fit", world, "--text", text).read_bytes())
        put("gallery", "encoder", make("known-gallery", "index", known, "--model", make("map", "fit", known), "-k", "3").read_bytes())
        grown = make("grown", "index", world)
        subprocess.run([koofu, "index", make("more", "synth", *size, "--split", "1"), "--append", grown], check=True, capture_output=True)
        put("gallery", "grown", grown.read_bytes())
        fused, shrunk = pathlib.Path(folder, "fused.safetensors").read_bytes(), pathlib.Path(folder, "shrunk.safetensors").read_bytes()
        meta = {"format": "koofu.stats", "version": "1", "checksum": "0" * 16, "rows": "0", "dim": "1", "normalized": "1", "exponent": "22"}
        put("stats", "bad-classes", safetensors(json.dumps({"__metadata__": meta, "counts": tensor("I64", [0], 0, 0)}, separators=(",", ":")).encode(), b""))
        for name, change in STATS_CHANGES.items():
            put("stats", "bad-" + name, changed(stats.read_bytes(), change))
        for name, change in MODEL_CHANGES.items():
            put("model", "bad-" + name, changed(fused if name.startswith("text") else shrunk, change))
        data = world.read_bytes()
        for target in "stats", "model":
            put(target, "bad-kind", data)
            put(target, "bad-json", safetensors(b"{", b""))


def changed(data, change):
    """A file with other metadata, or with other bytes at the beginning of a tensor; the targets correct the checksum."""
    length = struct.unpack_from("<Q", data)[0]
    header, body = json.loads(data[8:8 + length]), bytearray(data[8 + length:])
    for key, value in change.items():
        if isinstance(value, bytes):
            begin = header[key]["data_offsets"][0]
            body[begin:begin + len(value)] = value
        elif value is None:
            del header["__metadata__"][key]
        else:
            header["__metadata__"][key] = value
    return safetensors(json.dumps(header, separators=(",", ":")).encode(), bytes(body))


def doubles(*values):
    return struct.pack(f"<{len(values)}d", *values)


HUGE = struct.pack("<q", 2**62)
STATS_CHANGES = {
    "rows": {"rows": "13"}, "rows-word": {"rows": "x"}, "no-rows": {"rows": None}, "exponent": {"exponent": "21"}, "sums": {"class_sums": HUGE},
    "sums-length": {"class_sums": struct.pack("<8q", *[4 << 22] * 8)}, "moments": {"moments_high": HUGE}, "squares": {"moments_high": bytes(8), "moments_low": bytes(8)},
    "products": {"class_sums": bytes(192), "moments_high": bytes(288), "moments_low": struct.pack("<36q", 1 << 44, 2 << 44, *[0] * 34)}, "lengths": {"moments_low": struct.pack("<q", 12 << 44)}, "count": {"counts": HUGE},
    "names": {"classes": '["a", "b"]'},
}  # fmt: skip
MODEL_CHANGES = {
    "rows": {"rows": "0"}, "prior": {"prior": "1"}, "lambda": {"lambda": None}, "centre": {"centre": "none"}, "method": {"method": "paper"},
    "alone": {"reject": None}, "reject": {"reject": "9"}, "rank": {"within_rank": "7"}, "rank-large": {"within_rank": "9"}, "trace": {"mean_eigenvalue": "9"},
    "transform": {"transform": doubles(*[0] * 8)}, "mean": {"mean": doubles(*[1] * 8)}, "eigenvalues": {"within_eigenvalues": doubles(-1)},
    "falling": {"between_eigenvalues": doubles(0, 1)}, "counts": {"counts": bytes(24)}, "count": {"counts": bytes(8)}, "means": {"class_means": floats(float("nan"))},
    "prototypes": {"prototypes": floats(9)}, "length": {"prototype_lengths": doubles(0)}, "names": {"classes": '["a"]'},
    "text-alpha": {"alpha": "-1"}, "text-no-alpha": {"alpha": None}, "text-given": {"text_given": bytes(2)}, "text-row": {"text": floats(9)},
    "text-fused": {"fused_prototypes": floats(9)}, "text-normalized": {"normalized": "0"},
    "text-no-rows": {"counts": bytes(8), "class_means": bytes(32), "prototype_lengths": bytes(8), "prototypes": bytes(32), "fused_prototypes": floats(9)},
}  # fmt: skip


def from_encoder(data, checksum="0123456789abcdef"):
    """The same data set, made by an encoder."""
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    header["__metadata__"] |= {"encoder": "clip", "encoder_checksum": checksum}
    return safetensors(json.dumps(header).encode(), data[8 + length:])


def tokenizer_json(**changes):
    """A tokenizer of three letters, as transformers writes it."""
    letters = ["t", "h", "e", "t</w>", "h</w>", "e</w>", "th", "the</w>", "<|startoftext|>", "<|endoftext|>"]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    splits = "<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"
    whole = {
        "added_tokens": [{"id": i, "content": letters[i], "special": True, **flags} for i in (8, 9)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": splits}, "behavior": "Removed", "invert": True},
            {"type": "ByteLevel", "add_prefix_space": False}]},
        "post_processor": {"type": "RobertaProcessing", "sep": [letters[9], 9], "cls": [letters[8], 8]},
        "model": {"type": "BPE", "end_of_word_suffix": "</w>", "vocab": {t: i for i, t in enumerate(letters)},
                  "merges": ["t h", ["th", "e</w>"]]},
    }  # fmt: skip
    return json.dumps({**whole, **changes}).encode()


def tokenizer_seeds():
    def seed(name, kind, *files):
        put("tokenizer", name, bytes([kind]) + b"\0".join(files))

    seed("json", 0, tokenizer_json())
    seed("json-pad", 0, tokenizer_json(), b'{"pad_token": "h", "tokenizer_class": "CLIPTokenizer"}')
    seed("bad-json-kind", 0, tokenizer_json(model={"type": "Unigram"}))
    seed("bad-json-normalizer", 0, tokenizer_json(normalizer=None))
    vocabulary = b'{"t": 0, "h": 1, "th": 2, "<|startoftext|>": 3, "<|endoftext|>": 4}'
    seed("two", 1, vocabulary, b"#version: 0.2\nt h\n")
    seed("bad-two-merge", 1, vocabulary, b"t x\n")
    seed("bad-two-number", 1, b'{"t": 0, "h": 0}', b"t h\n")
    text = b'"bpe_simple_vocab_16e6.txt#version: 0.2\nt h\nth e</w>\n'
    packed = gzip.compress(text, 9, mtime=0)
    seed("packed", 2, packed)
    seed("bad-packed-short", 2, packed[:-5])
    seed("bad-packed-sum", 2, packed[:-8] + b"xxxx" + packed[-4:])
    seed("text", 3, text)
    seed("text-map", 3, text, b'{"pad_token": {"content": "!", "normalized": true}}')
    seed("bad-text-twice", 3, text + b"t h\n")
    decoder = b'{"added_tokens_decoder": {"514": {"content": "<|startoftext|>", "normalized": true}}, "pad_token": "!"}'
    seed("config", 4, decoder, b'{"bos_token": "<|startoftext|>"}')
    seed("config-own", 4, b'{"image_token": "<image>", "extra_special_tokens": ["x", {"content": "y"}]}')
    seed("legacy", 5, b'{"<new>": 516, "Dog": 517}', b'{"mask_token": "Dog"}')
    plain = tokenizer_json()
    model = json.loads(plain)["model"]
    added = json.loads(plain)["added_tokens"]
    changes = {
        "suffix": {"model": model | {"end_of_word_suffix": ""}}, "dropout": {"model": model | {"dropout": 0.5}},
        "prefix": {"model": model | {"continuing_subword_prefix": "", "fuse_unk": True}}, "no-vocab": {"model": model | {"vocab": {}}},
        "no-merges": {"model": model | {"merges": "t h"}}, "merge": {"model": model | {"merges": [["t"]]}}, "merge-line": {"model": model | {"merges": ["t h e"]}},
        "merge-space": {"model": model | {"merges": ["th"]}}, "id": {"model": model | {"vocab": {"t": 0.5}}}, "id-large": {"model": model | {"vocab": {"t": 2**20}}},
        "empty-token": {"model": model | {"vocab": {"": 1}}}, "model": {"model": None}, "post": {"post_processor": {"type": "ByteLevel"}},
        "ends": {"post_processor": {"type": "RobertaProcessing", "sep": ["x", 1], "cls": ["y", 2]}}, "pre": {"pre_tokenizer": None},
        "added-list": {"added_tokens": {}}, "added-id": {"added_tokens": [{"content": "x"}]}, "added-number": {"added_tokens": [{"id": 99, "content": "x"}]},
        "added-twice": {"added_tokens": [added[0], added[0] | {"id": 10}]}, "added-word": {"added_tokens": [added[0] | {"single_word": True}]},
        "added-space": {"added_tokens": [{"id": 10, "content": "a b"}]}, "added-empty": {"added_tokens": [{"id": 10, "content": ""}]},
        "no-end": {"model": model | {"vocab": {"t": 0, "h": 1, "th": 2, "<|startoftext|>": 3}, "merges": []}},
    }  # fmt: skip
    for name, change in changes.items():
        seed("bad-json-" + name, 0, tokenizer_json(**change))
    pattern = json.loads(plain)["pre_tokenizer"]
    pattern["pretokenizers"][0]["pattern"]["Regex"] = "x"
    seed("bad-json-regex", 0, tokenizer_json(pre_tokenizer=pattern))
    seed("json-template", 0, tokenizer_json(post_processor={"type": "TemplateProcessing"}))
    seed("json-replaced", 0, tokenizer_json(added_tokens=[added[0], added[1], added[1] | {"normalized": True}]))
    configs = {
        "class": {"tokenizer_class": "BertTokenizer"}, "split": {"split_special_tokens": True}, "side": {"padding_side": "left"}, "no-bos": {"bos_token": None},
        "decoder": {"added_tokens_decoder": []}, "decoder-number": {"added_tokens_decoder": {"x": {"content": "y"}}}, "extra": {"extra_special_tokens": {"a": "b"}},
        "text": {"pad_token": {"content": 1}}, "same": {"pad_token": {"content": "Dog", "normalized": True}, "mask_token": {"content": "dOG", "normalized": True}},
        "many": {"extra_special_tokens": [f"<{i}>" for i in range(260)]},
    }  # fmt: skip
    for name, change in configs.items():
        seed("bad-config-" + name, 4, json.dumps(change).encode())
    seed("bad-legacy", 5, b'{"x": "y"}')
    seed("bad-text-version", 3, b"t h\n")
    seed("bad-text-merge", 3, b"#version\nth\n")
    seed("bad-two-line", 1, vocabulary, b"t h e\n")


def tokens_seeds():
    texts = {
        "plain": "A photo of the dog, it's 12 o'clock.", "empty": "", "space": " \t\u3000",
        "specials": "<|startoftext|><|endoftext|> <|ENDOFTEXT|>!\u00c9!", "marks": "a\u0301\u0323" * 20,
        "hangul": "\u1100\u1161\u11a8\uac00\u11a8", "dotted": "\u0130I\u0307\u0323", "emoji": "\U0001f468\u200d\U0001f469",
        "long": "the" * 60, "rising": "oooo" * 9 + "thethe" * 9 + "anand" * 9, "nul": "a\0b", "cjk": "\u4f60\u597d\u3000\u304b\u3099", "rtl": "\u05d0\u05b8\u05d1 \u202e\u0645",
    }  # fmt: skip
    for name, text in texts.items():
        put("tokens", name, text.encode())
    for name, text in {"bad-lone": b"a\x80", "bad-short": b"caf\xc3", "bad-surrogate": b"\xed\xa0\x80"}.items():
        put("tokens", name, text)


def serve_body_seeds():
    """The address and the kind of body, the length of JSON before a binary tensor, and the body."""
    addresses = {"classify": 0, "search": 1, "class": 2, "embeddings": 3, "infer": 4, "binary": 5}
    kinds = {"json": 0, "npy": 8, "picture": 16, "octets": 24, "form": 48}

    def seed(name, address, body, kind="json", head=0):
        put("serve_body", name, bytes([addresses[address] + kinds[kind], head]) + (body if isinstance(body, bytes) else body.encode()))

    seed("rows", "classify", '{"rows":[[1,-0.5,2e-3],[0.1,1E+2,3]],"top":2}')
    seed("numbers", "search", '{"row_numbers":[0,5],"k":3,"space":"raw"}')
    seed("images", "classify", '{"images":["data:image/png;base64,iVBORw0KGgo="]}')
    seed("texts", "search", '{"texts":["a \\u00e9\\ud83d\\ude00\\n"]}')
    seed("class", "class", '{"name":"okapi","rows":[[1,2,3]]}')
    seed("class-name", "class", '{"name":"okapi","text":true}')
    seed("embeddings", "embeddings", '{"input":["data:image/jpeg;base64,/9j/","x"],"model":"m","encoding_format":"base64","dimensions":3,"space":"koofu"}')
    seed("digits", "classify", '{"rows":[[0.012345679104328156,16777217.0000000001,1e-46],[3.4028236e38,1e400,0.1]]}')
    seed("infer", "infer", '{"id":"1","inputs":[{"name":"rows","shape":[1,3],"datatype":"FP32","data":[[1,2,3]]}],"outputs":[{"name":"scores"}]}')
    head = '{"inputs":[{"name":"rows","shape":[1,3],"datatype":"FP64","parameters":{"binary_data_size":24}}]}'
    seed("infer-binary", "binary", head.encode() + struct.pack("<3d", 1, 2, 3), "octets", len(head))
    seed("npy", "classify", npy("<f4", "(2, 3)", floats(1, 2, 3, 4, 5, 6)), "npy")
    seed("picture", "classify", b"\x89PNG\r\n\x1a\n", "picture")

    def form(*parts):
        return b"".join(b"--xyz\r\nContent-Disposition: form-data; " + head + b"\r\n\r\n" + value + b"\r\n" for head, value in parts) + b"--xyz--\r\n"

    seed("form-pictures", "search", form((b'name="images"; filename="a \\"b\\".png"', b"\x89PNG"), (b"name=images", b"\xff\xd8\xff"), (b'name="k"', b"3")), "form")
    seed("form-rows", "classify", form((b'name="rows"; filename="d/r.npy"', npy("<f4", "(1, 3)", floats(1, 2, 3))), (b'name="top"', b"2")), "form")
    seed("form-class", "class", form((b'name="name"', b"okapi"), (b'name="rows"', b"[[1,2,3]]")), "form")
    seed("form-texts", "search", form((b'name="texts"', b"a fox"), (b'name="texts"', b"an owl"), (b'name="space"', b"raw")), "form")
    seed("bad-form-end", "classify", form((b'name="images"; filename="a', b"x"))[:-7], "form")
    seed("bad-form-head", "classify", b"--xyz\r\nContent-Disposition: form-data; name", "form")
    for name, body in {"bad-deep": "[" * 40, "bad-comma": '{"rows":[[1,]]}', "bad-half": '{"rows":["\\ud800"]}', "bad-twice": '{"k":1,"k":2}',
                       "bad-skip": '{"inputs":[],"parameters":{"a":[{"b":[null,true,"x"]}]}}', "bad-zero": '{"rows":[[01]]}'}.items():
        seed(name, "infer" if name == "bad-skip" else "search", body)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--koofu", help="the program, to make seeds of statistics and models")
    koofu = parser.parse_args().koofu
    npy_seeds()
    npz_seeds()
    tar_seeds()
    safetensors_seeds()
    gallery_seeds()
    changes_seeds()
    vecs_seeds()
    shards_seeds()
    any_seeds()
    text_seeds()
    csv_seeds()
    truth_seeds()
    encoder_seeds()
    image_seeds()
    preprocess_seeds()
    tokenizer_seeds()
    tokens_seeds()
    serve_body_seeds()
    if koofu:
        koofu_seeds(koofu)


if __name__ == "__main__":
    main()
