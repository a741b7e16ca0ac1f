"""Invalid files: one sentence naming the file, status 3, nothing left behind."""

import json
import os
import struct

from harness import BAD_DATA, IO, check, equal, test
from files import data_set, f32, fbin, fvecs, i32, npy, safetensors, world

ROWS, LABELS = world()


def bad_data(box, name, content, status=BAD_DATA):
    """A broken data file, in the commands that would read it."""
    box.write(name, content)
    box.write("y.txt", "".join(f"{k}\n" for k in LABELS))
    box.refuses(status, "convert", name, "--labels", "y.txt", "-o", "out.safetensors", naming=name)
    box.refuses(status, "stats", name, "--labels", "y.txt", "-o", "out.safetensors", naming=name)
    box.refuses(status, "info", name, naming=name)


def npy_with(**more):
    return npy(ROWS, **more)


@test
def npy_headers(box):
    sound = npy_with()
    bad_data(box, "empty.npy", b"")
    bad_data(box, "magic.npy", b"\x94" + sound[1:])
    bad_data(box, "version.npy", sound[:6] + b"\x09" + sound[7:])
    bad_data(box, "short.npy", sound[:9])
    bad_data(box, "past.npy", sound[:8] + b"\xff\xff" + sound[10:])
    bad_data(box, "text.npy", npy_with(header="{'descr': '<f4', 'fortran_order': False, 'shape': (60, 8)"))
    bad_data(box, "nokey.npy", npy_with(header="{'descr': '<f4', 'shape': (60, 8), }"))
    bad_data(box, "object.npy", npy_with(header="{'descr': '|O', 'fortran_order': False, 'shape': (60, 8), }"))
    bad_data(box, "big.npy", npy_with(dtype=">f4"))
    bad_data(box, "struct.npy", npy_with(header="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (60, 8), }"))


@test
def npy_shapes(box):
    bad_data(box, "overflow.npy", npy_with(shape=(2**62, 2**4)))
    bad_data(box, "larger.npy", npy_with(shape=(2**64, 8)))
    bad_data(box, "negative.npy", npy_with(shape=(-60, 8)))
    bad_data(box, "norows.npy", npy_with(shape=(0, 8)))
    bad_data(box, "nocolumns.npy", npy_with(shape=(60, 0)))
    bad_data(box, "wide.npy", npy_with(shape=(1, 65537)))
    bad_data(box, "truncated.npy", npy_with()[:-1])
    bad_data(box, "longer.npy", npy_with() + b"x")
    rank = npy_with(shape=(2, 30, 8))
    box.write("rank.npy", rank)
    box.write("y.txt", "".join(f"{k}\n" for k in LABELS))
    box.refuses(BAD_DATA, "stats", "rank.npy", "--labels", "y.txt", "-o", "o.safetensors", naming="rank.npy")


EMBEDDINGS = ("F32", [60, 8], f32(ROWS))


def header(*entries):
    """A safetensors header of (name, dtype, shape, begin, end)."""
    return "{" + ",".join(f'"{n}":{{"dtype":"{t}","shape":{json.dumps(s)},"data_offsets":[{a},{b}]}}'
                          for n, t, s, a, b in entries) + "}"


@test
def safetensors_headers(box):
    sound = safetensors({"embeddings": EMBEDDINGS})
    bad_data(box, "empty.safetensors", b"")
    bad_data(box, "tiny.safetensors", sound[:7])
    bad_data(box, "zero.safetensors", safetensors({"embeddings": EMBEDDINGS}, length=0))
    bad_data(box, "past.safetensors", safetensors({"embeddings": EMBEDDINGS}, length=len(sound)))
    bad_data(box, "cap.safetensors", safetensors({"embeddings": EMBEDDINGS}, length=2**63))
    bad_data(box, "json.safetensors", safetensors({"embeddings": EMBEDDINGS}, header="{not json}"))
    bad_data(box, "list.safetensors", safetensors({"embeddings": EMBEDDINGS}, header="[1, 2]"))
    bad_data(box, "meta.safetensors", safetensors({"embeddings": EMBEDDINGS}, metadata={"a": 1}))
    one = header(("embeddings", "F32", [60, 8], 0, 1920))
    bad_data(box, "twice.safetensors", safetensors({"e": EMBEDDINGS}, header=one[:-1] + "," + one[1:]))
    bad_data(box, "type.safetensors", safetensors({"e": EMBEDDINGS}, header=one.replace("F32", "X9")))
    bad_data(box, "none.safetensors", safetensors({"e": EMBEDDINGS}, header="{}"))
    deep = "[" * 100000
    bad_data(box, "deep.safetensors", safetensors({"e": EMBEDDINGS}, header='{"a":' + deep))


@test
def safetensors_header_over_its_cap(box):
    with open(box.path("huge.safetensors"), "wb") as file:  # sparse: 101 MB that the disk does not see
        file.write(struct.pack("<Q", 100_000_001))
        file.truncate(100_000_001 + 8 + 1920)
    box.refuses(BAD_DATA, "info", "huge.safetensors", naming="huge.safetensors")


@test
def safetensors_offsets(box):
    def bad(name, *entries):
        bad_data(box, name + ".safetensors", safetensors({"e": EMBEDDINGS}, header=header(*entries)))

    bad("overlap", ("embeddings", "F32", [60, 8], 0, 1920), ("b", "F32", [4], 1900, 1916))
    bad("gap", ("embeddings", "F32", [59, 8], 0, 1888), ("b", "F32", [4], 1904, 1920))
    bad("start", ("embeddings", "F32", [59, 8], 32, 1920))
    bad("beyond", ("embeddings", "F32", [60, 8], 8, 1928))
    bad("reversed", ("embeddings", "F32", [60, 8], 1920, 0))
    bad("negative", ("embeddings", "F32", [60, 8], -1920, 0))
    bad("size", ("embeddings", "F32", [60, 9], 0, 1920))
    bad("shape", ("embeddings", "F32", [2**62, 2**4], 0, 1920))
    bad("minus", ("embeddings", "F32", [-60, 8], 0, 1920))
    bad("fraction", ("embeddings", "F32", [60.5, 8], 0, 1920))
    bad("trailing", ("embeddings", "F32", [59, 8], 0, 1888))
    box.write("cut.safetensors", safetensors({"embeddings": EMBEDDINGS})[:-4])
    box.refuses(BAD_DATA, "info", "cut.safetensors", naming="cut.safetensors")


@test
def vector_files(box):
    sound = fvecs(ROWS)
    bad_data(box, "empty.fvecs", b"")
    bad_data(box, "cut.fvecs", sound[:-1])
    bad_data(box, "zero.fvecs", struct.pack("<i", 0) * 9)
    bad_data(box, "minus.fvecs", struct.pack("<i", -8) + sound[4:])
    bad_data(box, "huge.fvecs", struct.pack("<i", 2**31 - 1) + sound[4:])
    bad_data(box, "empty.fbin", b"")
    bad_data(box, "head.fbin", fbin(ROWS)[:7])
    bad_data(box, "cut.fbin", fbin(ROWS)[:-4])
    bad_data(box, "long.fbin", fbin(ROWS) + b"1234")
    bad_data(box, "overflow.fbin", struct.pack("<II", 2**32 - 1, 2**32 - 1) + fbin(ROWS)[8:])
    bad_data(box, "norows.fbin", struct.pack("<II", 0, 8))
    uneven = fvecs(ROWS[:30]) + fvecs([row[:7] + [9] for row in ROWS[30:59]]) + struct.pack("<i8f", 7, *ROWS[59])
    box.write("uneven.fvecs", uneven)
    box.write("y.txt", "".join(f"{k}\n" for k in LABELS))
    box.refuses(BAD_DATA, "stats", "uneven.fvecs", "--labels", "y.txt", "-o", "o.safetensors", naming="uneven.fvecs")


@test
def things_that_are_no_data_file(box):
    os.mkdir(box.path("folder.npy"))
    os.mkdir(box.path("hollow"))
    box.refuses(IO, "info", "folder.npy", naming="folder.npy: not a model folder")
    box.refuses(BAD_DATA, "stats", "hollow", "-o", "o.safetensors", naming="hollow")
    box.refuses(IO, "info", "absent.npy", naming="absent.npy")
    box.refuses(IO, "stats", "absent.npy", "-o", "o.safetensors", naming="absent.npy")
    box.refuses(IO, "stats", "absent*.npy", "-o", "o.safetensors", naming="absent*.npy")
    box.refuses(IO, "eval", "absent.safetensors", "x", naming="absent.safetensors")
    box.refuses(IO, "merge", "absent.safetensors", "-o", "o.safetensors", naming="absent.safetensors")
    box.write("x.safetensors", data_set())
    box.refuses(BAD_DATA, "merge", "x.safetensors", "-o", "o.safetensors", naming="x.safetensors")
    box.refuses(BAD_DATA, "eval", "x.safetensors", "x.safetensors", naming="x.safetensors")
    box.refuses(BAD_DATA, "eval", "folder.npy", "x.safetensors", naming="folder.npy")
    box.write("x.npy", npy_with())
    box.refuses(BAD_DATA, "stats", "x.npy", "--labels", "hollow", "-o", "o.safetensors", naming="hollow")
    box.refuses(IO, "stats", "x.npy", "--labels", "absent.txt", "-o", "o.safetensors", naming="absent.txt")
    box.refuses(IO, "stats", "x.npy", "--labels", "y.txt", "--classes", "absent.txt", "-o", "o.safetensors", naming=".txt")


@test
def every_flipped_byte_of_a_model_is_seen(box):
    box.write("x.safetensors", data_set(n=12, dim=4, classes=2))
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    flipped_bytes(box, "m.safetensors", lambda path: ["eval", path, "x.safetensors"])


@test
def every_flipped_byte_of_statistics_is_seen(box):
    box.write("x.safetensors", data_set(n=12, dim=4, classes=2))
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    flipped_bytes(box, "s.safetensors", lambda path: ["merge", path, "-o", "o.safetensors"])


@test
def every_flipped_byte_of_a_gallery_is_seen(box):
    box.write("x.safetensors", data_set(n=12, dim=4, classes=2))
    box.works("fit", "x.safetensors", "--dim", 3, "-o", "m.safetensors")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    flipped_bytes(box, "g.safetensors", lambda path: ["search", path, "x.safetensors", "-o", "o.npy"])


@test
def a_damaged_gallery_is_no_data_set(box):
    box.write("x.safetensors", data_set(n=12, dim=4, classes=2))
    box.works("index", "x.safetensors", "-o", "g.safetensors")
    damaged = bytearray(box.read("g.safetensors"))
    damaged[-52] ^= 1  # the last bit of a number, before 12 labels
    uses = (["convert"], ["stats"], ["fit"], ["index"])
    for words in uses:
        box.works(*words, "g.safetensors", "-o", "o.safetensors")
    box.write("g.safetensors", bytes(damaged))
    for words in uses:
        box.refuses(BAD_DATA, *words, "g.safetensors", "-o", "o.safetensors", naming="the file is damaged")
    # Other programs may mean something else by a checksum.
    box.write("g.safetensors", box.read("g.safetensors").replace(b"koofu.gallery", b"other.gallery"))
    box.works("convert", "g.safetensors", "-o", "o.safetensors")


def flipped_bytes(box, name, load):
    """Flips each byte in turn. koofu info, which judges them all at once, must find every one bad, or take it for
    something else (a byte of the metadata that says what the file is); then loading it must fail."""
    sound = box.read(name)
    names = []
    for i in range(len(sound)):
        broken = bytearray(sound)
        broken[i] ^= 1 << i % 8
        names.append(box.write(f"{i}.safetensors", bytes(broken)))
    result = box.run("info", "--json", *names)
    equal(result.status, BAD_DATA, f"status: {result}")
    described = [json.loads(line) for line in result.out.splitlines()]
    equal(result.err.count("\n") + len(described), len(names), "answers")
    check(len(described) < 40, f"{len(described)} broken files were described")
    for about in described:
        equal(about["kind"], "tensors", f"{about['path']} is described")
        box.refuses(BAD_DATA, *load(about["path"]), naming=about["path"])


@test
def truncated_models_and_statistics(box):
    box.write("x.safetensors", data_set(n=12, dim=4, classes=2))
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.works("fit", "s.safetensors", "-o", "m.safetensors")
    for name in ("s", "m"):
        sound = box.read(name + ".safetensors")
        for length in (0, 7, 8, 100, len(sound) // 2, len(sound) - 1):
            box.write("cut.safetensors", sound[:length])
            box.refuses(BAD_DATA, "info", "cut.safetensors", naming="cut.safetensors")
    box.write("cut.safetensors", box.read("m.safetensors")[:-1])
    for command in (["eval"], ["classify"], ["transform", "-o", "o.npy"], ["add-class", "name", "-o", "o.safetensors"]):
        words = [command[0], "cut.safetensors", *command[1:], "x.safetensors"]
        box.refuses(BAD_DATA, *words, naming="cut.safetensors")
    box.write("t.safetensors", box.read("s.safetensors")[:-1])
    box.refuses(BAD_DATA, "merge", "s.safetensors", "t.safetensors", "-o", "o.safetensors", naming="t.safetensors")
    box.refuses(BAD_DATA, "fit", "t.safetensors", "-o", "o.safetensors", naming="t.safetensors")
    box.refuses(BAD_DATA, "fit", "x.safetensors", "--between", "t.safetensors", "-o", "o.safetensors", naming="t.safetensors")


@test
def labels_inside_that_do_not_fit(box):
    def bad(name, dtype, shape, content, metadata=None):
        box.write(name, safetensors({"embeddings": EMBEDDINGS, "labels": (dtype, shape, content)}, metadata))
        box.refuses(BAD_DATA, "stats", name, "-o", "o.safetensors", naming=name)

    bad("few.safetensors", "I32", [59], i32(LABELS[:59]))
    bad("float.safetensors", "F32", [60], struct.pack("<60f", *LABELS))
    bad("square.safetensors", "I32", [60, 2], i32(LABELS * 2))
    bad("names.safetensors", "I32", [60], i32(LABELS), {"classes": '["a", "b"]'})
    bad("nojson.safetensors", "I32", [60], i32(LABELS), {"classes": "a, b, c"})
    bad("twice.safetensors", "I32", [60], i32(LABELS), {"classes": '["a", "b", "a"]'})
