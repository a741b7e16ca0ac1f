"""Writes the files the tests need, valid and broken ones, with nothing but the standard library."""

import io
import json
import random
import struct
import tarfile
import zlib


def npy(rows, dtype="<f4", shape=None, fortran=False, version=1, header=None):
    """A .npy file of a list of rows (or of labels); shape and header may be set wrong."""
    flat = [x for row in rows for x in row] if rows and isinstance(rows[0], (list, tuple)) else list(rows)
    if shape is None:
        shape = (len(rows), len(rows[0])) if rows and isinstance(rows[0], (list, tuple)) else (len(rows),)
    code = {"f2": "e", "f4": "f", "f8": "d", "i4": "i", "i8": "q", "u1": "B"}[dtype[1:]]
    if header is None:
        header = f"{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {tuple(shape)!r}, }}"
    text = header.encode("latin-1")
    prefix = 10 if version == 1 else 12
    text += b" " * (-(prefix + len(text) + 1) % 64) + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    order = ">" if dtype[0] == ">" else "<"
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + struct.pack(f"{order}{len(flat)}{code}", *flat)


def safetensors(tensors, metadata=None, header=None, length=None):
    """A .safetensors file of {name: (dtype, shape, bytes)}; header and length may be set wrong."""
    entries, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, content) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(entries).encode() if header is None else header.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def f32(rows):
    flat = [x for row in rows for x in row]
    return struct.pack(f"<{len(flat)}f", *flat)


def i32(labels):
    return struct.pack(f"<{len(labels)}i", *labels)


def fvecs(rows):
    return b"".join(struct.pack(f"<i{len(row)}f", len(row), *row) for row in rows)


def fbin(rows):
    return struct.pack("<II", len(rows), len(rows[0])) + f32(rows)


def small_bin(rows, code):
    """f16bin (code "e"), u8bin ("B") or i8bin ("b")."""
    flat = [x for row in rows for x in row]
    return struct.pack(f"<II{len(flat)}{code}", len(rows), len(rows[0]), *flat)


def tar(members, form=tarfile.GNU_FORMAT):
    """The bytes of an archive of (name, bytes) pairs."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w", format=form) as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return memory.getvalue()


def world(n=60, dim=8, classes=3, seed=1):
    """Rows around class centres, and their labels."""
    rng = random.Random(seed)
    centres = [[rng.gauss(0, 1) for _ in range(dim)] for _ in range(classes)]
    labels = [i % classes for i in range(n)]
    rows = [[c + rng.gauss(0, 0.5) for c in centres[k]] for k in labels]
    return rows, labels


def data_set(n=60, dim=8, classes=3, seed=1, names=None):
    """A native data set as bytes."""
    rows, labels = world(n, dim, classes, seed)
    names = names or [f"class {k}" for k in range(classes)]
    return safetensors({"embeddings": ("F32", [n, dim], f32(rows)), "labels": ("I32", [n], i32(labels))},
                       metadata={"classes": json.dumps(names)})


def png(pixels, width, height):
    """A PNG of 8-bit RGB: bytes, row by row."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    lines = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b""))


def read_safetensors(data):
    """{name: list of numbers, or of rows} and the metadata; what is of type U8 stays bytes."""
    length = struct.unpack("<Q", data[:8])[0]
    header, tensors = json.loads(data[8:8 + length]), {}
    metadata = header.pop("__metadata__", {})
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        content = data[8 + length + begin:8 + length + end]
        code, size = {"F64": ("d", 8), "F32": ("f", 4), "F16": ("e", 2), "I64": ("q", 8), "U64": ("Q", 8), "I32": ("i", 4),
                      "U8": ("s", 1)}[entry["dtype"]]
        if code == "s":
            tensors[name] = content
            continue
        flat = list(struct.unpack(f"<{len(content) // size}{code}", content))
        width = entry["shape"][1] if len(entry["shape"]) == 2 else 0
        tensors[name] = [flat[i:i + width] for i in range(0, len(flat), width)] if width else flat
    return tensors, metadata


def differences(a, b):
    """The names of tensors and metadata in which two .safetensors files, as bytes, differ."""
    (tensors, metadata), (others, other) = read_safetensors(a), read_safetensors(b)
    both = {**{("tensor", k): v for k, v in tensors.items()}, **{("", k): v for k, v in metadata.items()}}
    those = {**{("tensor", k): v for k, v in others.items()}, **{("", k): v for k, v in other.items()}}
    return {key[1] for key in both.keys() | those.keys() if both.get(key) != those.get(key)}


def xxh64(data):
    """XXH64 with seed 0, as in docs/formats.md."""
    mask, p = (1 << 64) - 1, (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261)

    def rotate(x, n):
        return (x << n | x >> (64 - n)) & mask

    def step(lane, word):
        return rotate((lane + word * p[1]) & mask, 31) * p[0] & mask
    at, h = 0, p[4]
    if len(data) >= 32:
        lanes = [(p[0] + p[1]) & mask, p[1], 0, -p[0] & mask]
        for at in range(0, len(data) - 31, 32):
            lanes = [step(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at))]
        at += 32
        h = sum(rotate(lane, n) for lane, n in zip(lanes, (1, 7, 12, 18))) & mask
        for lane in lanes:
            h = ((h ^ step(0, lane)) * p[0] + p[3]) & mask
    h = (h + len(data)) & mask
    for at in range(at, len(data) - 7, 8):
        h = (rotate(h ^ step(0, struct.unpack_from("<Q", data, at)[0]), 27) * p[0] + p[3]) & mask
    at = len(data) - len(data) % 8
    if len(data) % 8 >= 4:
        h = (rotate(h ^ struct.unpack_from("<I", data, at)[0] * p[0] & mask, 23) * p[1] + p[2]) & mask
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ byte * p[4] & mask, 11) * p[0] & mask
    h = (h ^ h >> 33) * p[1] & mask
    h = (h ^ h >> 29) * p[2] & mask
    return h ^ h >> 32


def reseal(data):
    """A koofu file with its checksum recomputed."""
    at = data.index(b'"checksum":"') + 12
    blank = data[:at] + b"0" * 16 + data[at + 16:]
    return data[:at] + b"%016x" % xxh64(blank) + data[at + 16:]
