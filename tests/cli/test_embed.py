"""koofu embed: pictures to data sets, and runs that were killed."""

import fcntl
import json
import os
import struct
import random
import resource
import shutil
import signal
import time

from files import png, read_safetensors
from harness import BAD_DATA, IO, USAGE, check, equal, test
from photos import CLIP, MODELS, TEXT, VISION, ids_of, many, photos, rows_of

OUT = "out.safetensors"
PARTS = OUT + ".parts"


@test
def folders_give_labels_and_names(box):
    paths = photos(box, "p", ["owl", "red_fox", "ant"], 4)
    box.write("p/owl/deep/x.PNG", box.read(paths[0]))
    box.write("p/owl/readme.txt", "no picture")
    result = box.works("embed", CLIP, "p", "-o", OUT)
    for text in ("13 rows of 24 f32, 3 classes", "pictures/s"):
        check(text in result.err, f"{text!r} in {result}")
    equal(result.out, "", "stdout")
    tensors, metadata = read_safetensors(box.read(OUT))
    ids = ids_of(tensors)
    equal(ids, sorted([*paths, "p/owl/deep/x.PNG"]), "ids")
    equal(json.loads(metadata["classes"]), ["ant", "owl", "red_fox"], "classes")
    equal(tensors["labels"], [["ant", "owl", "red_fox"].index(i.split("/")[1]) for i in ids], "labels")
    equal(tensors["embeddings"][ids.index("p/owl/deep/x.PNG")], tensors["embeddings"][0], "the same picture twice")
    info = json.loads(box.works("info", "--json", OUT).out)
    equal((info["kind"], info["rows"], info["dim"], info["classes"], info["ids"]), ("data set", 13, 24, 3, True), "info")
    check(not os.path.exists(box.path(PARTS)), "the folder is gone")
    before = box.read(OUT)
    box.works("embed", CLIP, "p", "-o", OUT)  # replaces the older one, as all commands do
    equal(box.read(OUT), before, "the same again")


@test
def pictures_lists_and_patterns(box):
    paths = photos(box, "in/p", ["a", "b"], 3)
    box.works("embed", CLIP, "in/p", "-o", "folder.safetensors")
    rows, labels, _ = rows_of(box, "folder.safetensors")
    box.works("embed", CLIP, paths[4], paths[1], "-o", OUT)
    tensors, metadata = read_safetensors(box.read(OUT))
    equal(ids_of(tensors), [paths[4], paths[1]], "as given")
    equal(tensors["embeddings"], [rows[paths[4]], rows[paths[1]]], "rows")
    check("labels" not in tensors and "classes" not in metadata, "no labels")
    check("no labels" in box.works("embed", CLIP, "in/p/*/0000.png", "-o", OUT).err, "a pattern")
    box.write("in/list.tsv", "p/b/0001.png\tB\np/a/0002.png\tA\n")
    box.works("embed", CLIP, "--list", "in/list.tsv", "-o", OUT)
    tensors, metadata = read_safetensors(box.read(OUT))
    equal(ids_of(tensors), ["p/b/0001.png", "p/a/0002.png"], "as in the list")
    equal((tensors["labels"], metadata["classes"]), ([1, 0], '["A","B"]'), "labels")
    equal(tensors["embeddings"], [rows["in/p/b/0001.png"], rows["in/p/a/0002.png"]], "rows of the list")
    equal(len(labels), 6, "labels of the folder")
    box.refuses(USAGE, "embed", CLIP, "in/p", "--list", "in/list.tsv", "-o", OUT, naming=["in/p", "--list"])
    box.refuses(USAGE, "embed", CLIP, "-o", OUT, naming="missing argument: PICTURES")
    box.refuses(USAGE, "embed", CLIP, "--list", "in/list.tsv", "-o", "in/list.tsv", naming="is both an input and the output")
    box.refuses(USAGE, "embed", CLIP, "in/p", "-o", "out.npy", naming=["out.npy", ".safetensors"])


@test
def no_picture_vanishes(box):
    """A file in a folder is recognised by its magic bytes; unreadable formats are counted and named."""
    paths = photos(box, "p", ["a", "b"], 2)
    box.write("p/a/picture.bmp", box.read(paths[0]))
    for name in ("p/a/anim.gif", "p/b/phone.HEIC", "p/b/scan", "p/b/w.bmp", "p/b/z.txt", "p/b/.DS_Store"):
        box.write(name, "II*\0" if name.endswith("scan") else "GIF89a" if name.endswith("gif") else "x")
    result = box.works("embed", CLIP, "p", "-o", OUT)
    equal(ids_of(read_safetensors(box.read(OUT))[0]), sorted([*paths, "p/a/picture.bmp"]), "ids")
    check("left out 4 pictures of other formats (anim.gif, phone.HEIC, scan, ...); JPEG, PNG and WebP can be read\n" in result.err, f"{result}")
    check("z.txt" not in result.err and "DS_Store" not in result.err, f"{result}")
    box.refuses(BAD_DATA, "embed", CLIP, "p/a/anim.gif", "-o", "o.safetensors", naming=["p/a/anim.gif: is a GIF picture", "JPEG, PNG and WebP"])


def without_evidence(box, name):
    """The contents of a data set without what only embed writes about its making."""
    tensors, metadata = read_safetensors(box.read(name))
    tensors.pop("picture_sums", None)
    return tensors, {key: value for key, value in metadata.items() if not key.startswith("made_")}


@test
def types_and_lengths(box):
    photos(box, "p", ["a", "b"], 5)
    box.works("embed", CLIP, "p", "-o", "f32.safetensors")
    box.works("embed", CLIP, "p", "--dtype", "f16", "-o", "f16.safetensors")
    box.works("convert", "f32.safetensors", "--dtype", "f16", "-o", "converted.safetensors")
    equal(without_evidence(box, "f16.safetensors"), without_evidence(box, "converted.safetensors"), "f16, embedded and converted")
    box.works("convert", "f32.safetensors", "-o", "same.safetensors")
    equal(without_evidence(box, "same.safetensors"), without_evidence(box, "f32.safetensors"), "convert keeps ids and encoder")
    box.works("embed", CLIP, "p", "--normalize", "-o", "unit.safetensors")
    for row, unit in zip(rows_of(box, "f32.safetensors")[0].values(), rows_of(box, "unit.safetensors")[0].values()):
        length = sum(x * x for x in row) ** 0.5
        check(abs(length - 1) > 1e-3, "rows have a length of their own")
        check(all(abs(u - x / length) < 1e-6 for u, x in zip(unit, row)), "unit rows")
    box.works("embed", CLIP, "p", "--precision", "f32", "-o", "exact.safetensors")
    check(box.read("exact.safetensors") != box.read("f32.safetensors"), "bf16 is the default")


def scaled_model(box, name, factor):
    """A copy of the model whose last matrix, and so every embedding, is multiplied by a factor."""
    for file in os.listdir(CLIP):
        with open(os.path.join(CLIP, file), "rb") as source:
            data = bytearray(source.read())
        if file == "model.safetensors":
            start = 8 + struct.unpack("<Q", data[:8])[0]
            begin, end = (start + at for at in json.loads(data[8:start])["visual_projection.weight"]["data_offsets"])
            numbers = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
            data[begin:end] = struct.pack(f"<{len(numbers)}f", *(factor * x for x in numbers))
        box.write(f"{name}/{file}", bytes(data))
    return name


@test
def embeddings_that_cannot_be_kept(box):
    paths = photos(box, "p", ["a", "b"], 3)
    large, none = scaled_model(box, "large", 1e6), scaled_model(box, "none", 0)
    box.works("embed", large, "p", "-o", OUT)
    box.works("embed", large, "p", "--dtype", "bf16", "-o", OUT)
    box.works("embed", large, "p", "--dtype", "f16", "--normalize", "-o", OUT)
    os.unlink(box.path(OUT))
    box.refuses(BAD_DATA, "embed", large, "p", "--dtype", "f16", "-o", OUT, naming=[paths[0], "too large for f16"])
    box.refuses(BAD_DATA, "embed", none, "p", "-o", OUT, naming=[paths[0], "zero or not finite"])
    result = box.run("embed", none, "p", "--skip-bad", "-o", OUT)
    equal(result.status, BAD_DATA, f"{result}")
    for text in [f"{path}: the embedding is zero" for path in paths] + ["none of the 6 pictures"]:
        check(text in result.err, f"{text!r} in {result}")
    check(not os.path.exists(box.path(OUT)) and not os.path.exists(box.path(PARTS)), "nothing is left")


@test
def the_same_bytes(box):
    """Whatever the threads, the instruction set and the size of shards."""
    photos(box, "p", ["a", "b", "c"], 9)
    box.works("embed", CLIP, "p", "-o", OUT)
    wanted = box.read(OUT)
    for more in (["--threads", 1], ["--threads", 2], ["--threads", 5], ["--shard", 1], ["--shard", 7], ["--shard", 27],
                 ["--shard", 26, "--threads", 5], ["--isa", "plain"], ["--isa", "avx2"], ["--isa", "avx512"], ["--isa", "amx"]):
        result = box.run("embed", CLIP, "p", "-o", "again.safetensors", "--no-resume", *more)
        if result.status == USAGE and "does not have the instruction set" in result.err:
            continue
        equal(result.status, 0, f"{more}: {result}")
        equal(box.read("again.safetensors"), wanted, f"bytes with {more}")


@test
def bad_pictures(box):
    paths = photos(box, "p", ["a", "b"], 6)
    whole = box.read(paths[3])
    box.write(paths[3], whole[:len(whole) // 2])
    box.write(paths[7], "no picture at all")
    box.refuses(BAD_DATA, "embed", CLIP, "p", "-o", OUT, naming=[paths[3], "--skip-bad"])  # and leaves nothing behind
    result = box.works("embed", CLIP, "p", "--skip-bad", "-o", OUT)
    lines = result.err.splitlines()
    check(lines[0].startswith(paths[3]) and lines[1].startswith(paths[7]), f"both are named: {result}")
    check("left out 2 pictures that cannot be read" in result.err, f"how many: {result}")
    check("10 rows" in result.err, f"the others: {result}")
    rows, labels, classes = rows_of(box, OUT)
    equal(list(rows), [p for p in paths if p not in (paths[3], paths[7])], "ids")
    equal(list(labels.values()), [0] * 5 + [1] * 5, "labels")
    equal(classes, '["a","b"]', "classes")
    for name in os.listdir(box.path("p/a")):
        box.write(f"p/a/{name}", "nothing")
    check("9 rows" not in box.works("embed", CLIP, "p", "--skip-bad", "-o", OUT).err, "a class without rows")
    equal(rows_of(box, OUT)[2], '["a","b"]', "stays a class")
    box.refuses(BAD_DATA, "embed", CLIP, "p/a", "-o", OUT, naming="p/a/0000.png")
    result = box.run("embed", CLIP, "p/a", "--skip-bad", "-o", "none.safetensors")
    equal(result.status, BAD_DATA, f"{result}")
    check("none of the 6 pictures can be read" in result.err, f"{result}")
    check(not [f for f in box.files() if f.startswith("none")], "nothing is left")


@test
def what_is_not_there(box):
    photos(box, "p", ["a", "b"], 2)
    box.write("list.txt", "p/a/0000.png\np/a/gone.png\n")
    box.refuses(IO, "embed", CLIP, "--list", "list.txt", "-o", OUT, naming="p/a/gone.png: cannot be opened")
    result = box.works("embed", CLIP, "--list", "list.txt", "--skip-bad", "-o", OUT)
    check("p/a/gone.png: cannot be opened" in result.err and "1 row of" in result.err, f"{result}")
    box.refuses(IO, "embed", CLIP, "gone", "-o", OUT, naming="gone: cannot be opened")
    box.refuses(IO, "embed", "gone", "p", "-o", OUT, naming="gone")
    box.refuses(USAGE, "embed", TEXT, "p", "-o", OUT, naming="no image tower")
    box.refuses(IO, "embed", CLIP, "p", "-o", "gone/out.safetensors", naming="gone/out.safetensors: cannot be created")
    os.mkdir(box.path("empty"))
    box.refuses(BAD_DATA, "embed", CLIP, "empty", "-o", OUT, naming="empty: no JPEG, PNG or WebP picture")
    box.refuses(BAD_DATA, "embed", "empty", CLIP, "-o", OUT, naming=["no JPEG, PNG or WebP picture", "is a model"])  # mixed up
    box.write("file.safetensors.parts", "a file")
    box.refuses(IO, "embed", CLIP, "p", "-o", "file.safetensors", naming="file.safetensors.parts: is not a folder")
    box.refuses(BAD_DATA, "embed", CLIP, "p", "--max-pixels", 255, "-o", OUT, naming=["p/a/0000.png", "--max-pixels"])
    box.works("embed", CLIP, "p", "--max-pixels", 256, "-o", OUT)
    os.chmod(box.path("p/a"), 0)
    box.become_nobody()
    try:
        box.refuses(IO, "embed", CLIP, "p", "-o", "n.safetensors", naming="p/a: cannot be opened")
    finally:
        os.chmod(box.path("p/a"), 0o700)


# --- runs that were interrupted ----------------------------------------------------------


def unfinished(box, *more, shard=4):
    """A run whose last picture cannot be read: all shards but the last exist. Returns that picture and its bytes."""
    paths = photos(box, "p", ["a", "b"], 10)
    whole = box.read(paths[-1])
    box.write(paths[-1], whole[:60])
    result = box.run("embed", CLIP, "p", "--shard", shard, "-o", OUT, *more)
    equal(result.status, BAD_DATA, f"{result}")
    check(paths[-1] in result.err, f"{result}")
    equal(sorted(os.listdir(box.path(PARTS))),
          ["lock", "manifest.safetensors", *[f"shard-{i:08d}.safetensors" for i in range(20 // shard - 1)]], "what is kept")
    return paths[-1], whole


@test
def goes_on_where_it_stopped(box):
    path, whole = unfinished(box)
    box.write(path, whole)
    result = box.works("embed", CLIP, "p", "--shard", 4, "-o", OUT)
    check("16 pictures were done by an earlier run" in result.err, f"{result}")
    check(not os.path.exists(box.path(PARTS)), "the folder is gone")
    box.works("embed", CLIP, "p", "-o", "one.safetensors")
    equal(box.read(OUT), box.read("one.safetensors"), "bytes")


@test
def skipping_can_begin_later(box):
    """Shards without bad pictures serve both runs; those with some only a run that skips them."""
    path, _ = unfinished(box)
    result = box.works("embed", CLIP, "p", "--shard", 4, "--skip-bad", "-o", OUT)
    check("16 pictures were done" in result.err and path in result.err, f"{result}")
    equal(len(rows_of(box, OUT)[0]), 19, "rows")


@test
def what_was_said_is_said_again(box):
    paths = photos(box, "p", ["a", "b"], 10)
    for i in (1, 5, 18):
        box.write(paths[i], f"bad {i}")
    wanted = box.works("embed", CLIP, "p", "--shard", 4, "--skip-bad", "-o", "one.safetensors").err.splitlines()[:3]
    process = None
    for _ in range(200):  # until one was killed with some shards, but not all
        process = box.start("embed", CLIP, "p", "--shard", 4, "--skip-bad", "-o", OUT)
        while process.poll() is None and not os.path.exists(box.path(PARTS + "/shard-00000001.safetensors")):
            time.sleep(0.0002)
        process.kill()
        process.communicate()
        if os.path.exists(box.path(PARTS)):
            break
        if os.path.exists(box.path(OUT)):
            os.unlink(box.path(OUT))
    result = box.works("embed", CLIP, "p", "--shard", 4, "--skip-bad", "-o", OUT)
    equal(result.err.splitlines()[:3], wanted, "the same remarks")
    check("left out 3 pictures" in result.err, f"{result}")
    equal(box.read(OUT), box.read("one.safetensors"), "bytes")
    for i in (1, 5, 18):
        check(wanted[(1, 5, 18).index(i)].startswith(paths[i]), "in order")


@test
def another_run_is_refused(box):
    path, whole = unfinished(box)
    box.write(path, whole)
    photos(box, "q", ["a", "b"], 10)
    before = {name: box.read(f"{PARTS}/{name}") for name in os.listdir(box.path(PARTS))}
    for words, cause in ((["embed", CLIP, "q", "--shard", 4], "other pictures"),
                         (["embed", CLIP, "p/a", "--shard", 4], "other pictures"),
                         (["embed", os.path.join(MODELS, "clip-f16"), "p", "--shard", 4], "another encoder"),
                         (["embed", CLIP, "p", "--shard", 4, "--precision", "f32"], "another encoder"),
                         (["embed", CLIP, "p", "--shard", 4, "--dtype", "f16"], "another type"),
                         (["embed", CLIP, "p", "--shard", 4, "--normalize"], "another length"),
                         (["embed", CLIP, "p"], "another size")):
        box.refuses(USAGE, *words, "-o", OUT, naming=[PARTS, cause, "--no-resume", "another name"])
    equal({name: box.read(f"{PARTS}/{name}") for name in os.listdir(box.path(PARTS))}, before, "what is kept")
    result = box.works("embed", CLIP, "p", "--no-resume", "-o", OUT)
    check("earlier run" not in result.err, f"{result}")
    check(not os.path.exists(box.path(PARTS)), "the folder is gone")


@test
def changed_and_damaged_shards_are_made_again(box):
    path, whole = unfinished(box)
    box.write(path, whole)
    time.sleep(0.02)
    changed = "p/a/0001.png"
    box.write(changed, box.read("p/b/0003.png"))            # shard 0
    box.write(f"{PARTS}/shard-00000002.safetensors",        # one bit
              bytes([*box.read(f"{PARTS}/shard-00000002.safetensors")[:-20], 77]) + bytes(19))
    os.rename(box.path(f"{PARTS}/shard-00000003.safetensors"), box.path(f"{PARTS}/shard-00000001.safetensors"))
    result = box.works("embed", CLIP, "p", "--shard", 4, "-o", OUT)
    for text in ("shard-00000000.safetensors: its pictures have changed", "shard-00000002.safetensors", "damaged",
                 "shard-00000001.safetensors: its pictures have changed"):
        check(text in result.err, f"{text!r} in {result}")
    check("earlier run" not in result.err, f"nothing is left of it: {result}")
    box.works("embed", CLIP, "p", "-o", "one.safetensors")
    equal(box.read(OUT), box.read("one.safetensors"), "bytes")
    rows = rows_of(box, OUT)[0]
    equal(rows[changed], rows["p/b/0003.png"], "the new picture")


@test
def a_moment_is_enough(box):
    """A picture of the same size written a nanosecond later counts as changed."""
    path, whole = unfinished(box)
    box.write(path, whole)
    info = os.stat(box.path("p/a/0005.png"))  # shard 1
    os.utime(box.path("p/a/0005.png"), ns=(info.st_atime_ns, info.st_mtime_ns + 1))
    result = box.works("embed", CLIP, "p", "--shard", 4, "-o", OUT)
    check("shard-00000001.safetensors: its pictures have changed" in result.err, f"{result}")
    check("12 pictures were done by an earlier run" in result.err, f"{result}")


@test
def a_damaged_manifest(box):
    unfinished(box)
    box.write(f"{PARTS}/manifest.safetensors", "nonsense")
    box.refuses(BAD_DATA, "embed", CLIP, "p", "--shard", 4, "-o", OUT, naming=["manifest", "--no-resume"])


@test
def files_of_others_stay(box):
    path, whole = unfinished(box)
    box.write(path, whole)
    for name in ("notes.txt", "shard-list.txt", "sub/shard-00000000.safetensors", ".hidden"):
        box.write(f"{PARTS}/{name}", "mine")
    box.write(f"{PARTS}/.shard-00000003.safetensors.0123456789abcdef.part", "ours")
    box.works("embed", CLIP, "p", "--shard", 4, "-o", OUT)
    equal({f for f in box.files() if f.startswith(PARTS + "/")},
          {f"{PARTS}/{n}" for n in ("notes.txt", "shard-list.txt", "sub", "sub/shard-00000000.safetensors", ".hidden")}, "files")
    box.works("embed", CLIP, "p", "--no-resume", "-o", OUT)
    equal(box.read(f"{PARTS}/sub/shard-00000000.safetensors"), b"mine", "what is below it")


@test
def one_process_at_a_time(box):
    path, whole = unfinished(box)
    box.write(path, whole)
    with open(box.path(PARTS + "/lock"), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for more in ([], ["--no-resume"]):
            box.refuses(IO, "embed", CLIP, "p", "--shard", 4, "-o", OUT, *more, naming=[PARTS, "another process"])
    box.works("embed", CLIP, "p", "--shard", 4, "-o", OUT)
    many(box, "m", 300)
    both = [box.start("embed", CLIP, "m", "--shard", 5, "-o", "both.safetensors") for _ in range(4)]
    ends = [(p.communicate()[1].decode(), p.returncode) for p in both]
    check(any(code == 0 for _, code in ends), f"one at least comes through: {ends}")
    for text, code in ends:
        check(code == 0 or (code == IO and "another process" in text), f"the others are told: {ends}")
    box.works("embed", CLIP, "m", "-o", "one.safetensors")
    equal(box.read("both.safetensors"), box.read("one.safetensors"), "bytes")


@test
def a_lock_that_was_left_behind(box):
    """Only a held lock counts; a stale one is removed."""
    photos(box, "p", ["cat", "dog"], 3)
    box.write(f"{PARTS}/lock", "")
    box.works("embed", CLIP, "p", "-o", OUT)
    check(not os.path.exists(box.path(PARTS)), "the folder is gone")
    box.write(f"{PARTS}/shard-00000000.safetensors", "of somebody else")
    box.refuses(IO, "embed", CLIP, "p", "--no-resume", "-o", OUT, naming=[PARTS, "no manifest"])  # and leaves no lock there


@test
def parts_that_are_a_link(box):
    photos(box, "p", ["cat", "dog"], 3)
    os.mkdir(box.path("elsewhere"))
    for target in ("elsewhere", "nowhere"):
        os.symlink(target, box.path(PARTS))
        box.refuses(IO, "embed", CLIP, "p", "-o", OUT, naming=[PARTS, "symbolic link"])
        os.unlink(box.path(PARTS))


@test
def a_full_disk_loses_nothing(box):
    paths = many(box, "m", 400)
    box.works("embed", CLIP, "m", "-o", "one.safetensors")
    box.write(OUT, "old")
    size = len(box.read("one.safetensors"))
    shard = 20 * 24 * 4  # bytes of rows
    result = box.run("embed", CLIP, "m", "--shard", 20, "-o", OUT, limits={resource.RLIMIT_FSIZE: shard // 2})
    equal(result.status, IO, f"no shard fits: {result}")
    check("cannot be written" in result.err and "shard-00000000" in result.err, f"{result}")
    check(not os.path.exists(box.path(PARTS)), "nothing was finished")
    result = box.run("embed", CLIP, "m", "--shard", 20, "-o", OUT, limits={resource.RLIMIT_FSIZE: size // 2})
    equal(result.status, IO, f"shards fit, the file does not: {result}")
    equal(len([f for f in os.listdir(box.path(PARTS)) if f.startswith("shard-")]), 20, "shards that are kept")
    equal(box.read(OUT), b"old", "the older file")
    check(f"{len(paths)} pictures were done by an earlier run" in box.works("embed", CLIP, "m", "--shard", 20, "-o", OUT).err, "resumed")
    equal(box.read(OUT), box.read("one.safetensors"), "bytes")


@test
def a_signal_stops_it(box):
    many(box, "m", 1500)
    for number, shard in ((signal.SIGINT, 2), (signal.SIGTERM, 100)):
        process = box.start("embed", CLIP, "m", "--shard", 5, "-o", OUT)
        while process.poll() is None and not os.path.exists(box.path(f"{PARTS}/shard-{shard:08d}.safetensors")):
            time.sleep(0.001)
        process.send_signal(number)
        err = process.communicate()[1].decode()
        check(process.returncode in (0, -number), f"{process.returncode} {err}")
        check(process.returncode == 0 or ("interrupted" in err and "finished shards are kept" in err), err)
    box.works("embed", CLIP, "m", "--shard", 5, "-o", OUT)
    box.works("embed", CLIP, "m", "-o", "one.safetensors")
    equal(box.read(OUT), box.read("one.safetensors"), "bytes")


@test
def killed_at_random_moments(box):
    """Twenty times with SIGKILL, each time some shards and a moment later, and the file has the same bytes."""
    many(box, "m", 2000)
    box.works("embed", CLIP, "m", "--shard", 10, "-o", "one.safetensors")
    wanted = box.read("one.safetensors")

    def shards():
        try:
            return len([name for name in os.listdir(box.path(PARTS)) if name.startswith("shard-")])
        except FileNotFoundError:
            return 0
    rng, kills, resumed, ends = random.Random(time.time_ns()), 0, 0, 0
    while kills < 20:
        enough = shards() + rng.randrange(60)
        process = box.start("embed", CLIP, "m", "--shard", 10, "-o", OUT)
        if box.wait_for(process, lambda: shards() >= enough):
            time.sleep(rng.uniform(0, 0.005))
        process.send_signal(signal.SIGKILL)
        err = process.communicate()[1].decode()
        if process.returncode == -signal.SIGKILL:
            kills += 1
            check(not os.path.exists(box.path(OUT)) or box.read(OUT) == wanted, "the file is whole or not there")
            if os.path.exists(box.path(OUT)):
                os.unlink(box.path(OUT))  # killed before the shards were removed: they suffice
            continue
        equal(process.returncode, 0, err)
        ends += 1
        resumed += "earlier run" in err
        equal(box.read(OUT), wanted, f"bytes after {kills} kills")
        os.unlink(box.path(OUT))
    result = box.works("embed", CLIP, "m", "--shard", 10, "-o", OUT)
    resumed += "earlier run" in result.err
    equal(box.read(OUT), wanted, "bytes")
    check(resumed > 0, f"kills have landed in the middle ({ends} ends)")
    check(not os.path.exists(box.path(PARTS)), "the folder is gone")


# --- finished work is not repeated -----------------------------------------------------------


def embedded_anew(box, *words):
    """The bytes that the command writes to a new file."""
    box.works("embed", *words, "-o", "anew.safetensors", "--no-resume")
    return box.read("anew.safetensors")


@test
def nothing_is_done_again(box):
    paths = photos(box, "p", ["a", "b"], 6)
    box.works("embed", CLIP, "p", "-o", OUT)
    before, stamp = box.read(OUT), os.stat(box.path(OUT))
    for more in ([], ["--shard", 3], ["--threads", 1]):
        result = box.works("embed", CLIP, "p", "-o", OUT, *more)
        equal(result.err, f"{OUT} is up to date: 12 pictures, none changed; --no-resume embeds them again\n", "what is said")
        after = os.stat(box.path(OUT))
        equal((after.st_mtime_ns, after.st_ino), (stamp.st_mtime_ns, stamp.st_ino), "the file was not touched")
    os.utime(box.path(paths[3]), ns=(1, 1))  # the same bytes at another time
    check("up to date" in box.works("embed", CLIP, "p", "-o", OUT).err, "another time")
    result = box.works("embed", CLIP, "p", "-o", OUT, "--no-resume")
    check("pictures/s" in result.err and "up to date" not in result.err, f"{result}")
    equal(box.read(OUT), before, "the same again")
    check(os.stat(box.path(OUT)).st_ino != stamp.st_ino, "another file")
    check(not os.path.exists(box.path(PARTS)), "no folder")


@test
def only_what_changed_is_done_again(box):
    paths = photos(box, "p", ["a", "b"], 6)

    def again(reused, *words):
        result = box.works("embed", CLIP, *(words or ["p"]), "-o", OUT)
        wanted = f"{reused} pictures were taken from {OUT} as it was; --no-resume embeds them again"
        check(wanted in result.err if reused else "as it was" not in result.err, f"{wanted!r} in {result}")
        equal(box.read(OUT), embedded_anew(box, CLIP, *(words or ["p"])), f"{reused} reused")

    box.works("embed", CLIP, "p", "-o", OUT)
    box.write(paths[2], box.read(paths[7]))           # changed, and known from elsewhere
    again(12)
    box.write(paths[2], png(bytes(range(192)), 8, 8))  # changed
    again(11)
    box.write("p/c/new.png", png(bytes(range(3)) * 4, 2, 2))  # added, with a class
    again(12)
    os.remove(box.path(paths[0]))                      # removed
    again(12)
    os.rename(box.path(paths[5]), box.path("p/b/other.png"))  # renamed, and of another class
    again(12)
    box.write("list.tsv", "".join(f"{path}\tx\n" for path in reversed(paths[6:9])))
    again(3, "--list", "list.tsv")                     # other labels, another order
    # Another encoder or other settings: nothing is reused.
    again(0, "p", "--dtype", "f16")
    again(0, "p", "--normalize")
    again(0, "p", "--precision", "f32")
    again(0, "p", "--precision", "f32", "--max-pixels", "100000")
    again(0, "p")
    box.works("embed", VISION, "p", "-o", OUT)
    again(0)


@test
def another_list_is_another_run(box):
    """The same pictures with other labels, class names or ids, in another order, or some of them: an unfinished run is not
    resumed, and a finished one is not up to date."""
    paths = photos(box, "p", ["a", "b"], 3)
    whole = box.read(paths[-1])
    words = ["embed", CLIP, "--list", "list.tsv", "--shard", 2, "-o", OUT]

    def write_list(labels, order=range(6), named=paths):
        box.write("list.tsv", "".join(f"{named[i]}\t{labels[i]}\n" for i in order))

    others = {"labels": ("xyxyxy",), "names": ("xxxzzz",), "order": ("xxxyyy", [1, 0, 2, 3, 4, 5]), "fewer": ("xxxyyy", [0, 1, 2, 3, 5]),
              "one class": ("xxxxxx",), "a name": ("xxxyyy", range(6), ["p/copy.png", *paths[1:]])}
    box.write("p/copy.png", box.read(paths[0]))
    for what, other in others.items():
        write_list("xxxyyy")
        box.write(paths[-1], whole[:60])
        equal(box.run(*words).status, BAD_DATA, "the last picture cannot be read")
        box.write(paths[-1], whole)
        write_list(*other)
        box.refuses(USAGE, *words, naming=[PARTS, "other pictures", "--no-resume"])
        write_list("xxxyyy")
        check("4 pictures were done by an earlier run" in box.works(*words).err, f"the first list, after another: {what}")
        write_list(*other)
        result = box.works(*words)
        check("up to date" not in result.err and "pictures were taken from" in result.err, f"{what}: {result}")
        equal(box.read(OUT), embedded_anew(box, CLIP, "--list", "list.tsv"), f"another list: {what}")
        os.remove(box.path(OUT))

    # The same list in another folder: the ids are the same, the pictures need not be.
    write_list("xxxyyy")
    box.write(paths[-1], whole[:60])
    equal(box.run(*words).status, BAD_DATA, "the last picture cannot be read")
    box.write(paths[-1], whole)
    shutil.copytree(box.path("p"), box.path("other/p"))
    shutil.copy(box.path("list.tsv"), box.path("other/list.tsv"))
    words[3] = "other/list.tsv"
    box.refuses(USAGE, *words, naming=[PARTS, "other pictures", "--no-resume"])
    box.works(*words, "--no-resume")
    words[3] = "list.tsv"
    check("up to date" in box.works(*words).err, "a file does not say where its pictures were")


@test
def bad_pictures_are_tried_again(box):
    """Those that were left out have no row, so they are read again, and named again."""
    paths = photos(box, "p", ["a", "b"], 4)
    box.write(paths[1], b"no picture")
    words = ["embed", CLIP, "p", "-o", OUT, "--skip-bad"]
    first = box.works(*words)
    before = box.read(OUT)
    second = box.works(*words)
    for result in (first, second):
        check(f"{paths[1]}: is not a JPEG" in result.err and "left out 1 picture" in result.err, f"{result}")
    check("7 pictures were taken from" in second.err, f"{second}")
    equal(box.read(OUT), before, "the same bytes")
    result = box.run("embed", CLIP, "p", "-o", OUT)
    equal(result.status, BAD_DATA, f"{result}")
    check(paths[1] in result.err, f"{result}")
    equal(box.read(OUT), before, "left as it was")


@test
def what_is_not_ours_is_not_reused(box):
    photos(box, "p", ["a", "b"], 4)
    box.works("embed", CLIP, "p", "-o", OUT)
    whole = box.read(OUT)
    header_size = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8:8 + header_size])

    def changed(change, data=whole[8 + header_size:]):
        copy = json.loads(json.dumps(header))
        change(copy)
        text = json.dumps(copy).encode()
        return struct.pack("<Q", len(text)) + text + data

    def drop(name):
        return lambda h: h["__metadata__"].pop(name)

    def set_to(name, value):
        return lambda h: h["__metadata__"].__setitem__(name, value)

    for content in (b"", b"x", whole[:-1], whole[:100], changed(drop("made_with")), changed(set_to("made_with", "1")),
                    changed(set_to("made_with", "G" * 16)), changed(lambda h: h.__setitem__("other", h.pop("picture_sums"))),
                    changed(lambda h: h["picture_sums"].update(dtype="I64"))):
        box.write(OUT, content)
        result = box.works("embed", CLIP, "p", "-o", OUT)
        check("as it was" not in result.err and "up to date" not in result.err, f"{content[:200]}: {result}")
        equal(box.read(OUT), whole, "the right bytes")
    box.write(OUT, changed(set_to("made_of", "0" * 16)))  # another list: rows are reused, the file is written
    check("8 pictures were taken" in box.works("embed", CLIP, "p", "-o", OUT).err, "rows")
    equal(box.read(OUT), whole, "the right bytes")
    box.works("convert", OUT, "-o", "copy.safetensors")
    check("as it was" not in box.works("embed", CLIP, "p", "-o", "copy.safetensors").err, "a copy does not say")
    equal(box.read("copy.safetensors"), whole, "written anew")


# --- what happens to the ids ----------------------------------------------------------------------


@test
def ids_go_with_the_rows(box):
    paths = photos(box, "p", ["a", "b"], 6)
    box.works("embed", CLIP, "p", "-o", OUT)
    box.works("fit", OUT, "-o", "m.safetensors")
    box.works("index", OUT, "--model", "m.safetensors", "-o", "g.safetensors")
    lines = box.works("search", "g.safetensors", OUT, "-k", 1).out.splitlines()
    equal(lines[0].split("\t")[:2], ["query", "id1"], "header")
    equal([line.split("\t")[1] for line in lines[1:]], paths, "each is nearest to itself")
    box.write("names.txt", "".join(f"row {i}\n" for i in range(12)))
    box.works("index", OUT, "--ids", "names.txt", "-o", "g.safetensors")
    equal(ids_of(read_safetensors(box.read("g.safetensors"))[0])[3], "row 3", "--ids comes first")
    box.works("transform", "m.safetensors", OUT, "-o", "t.safetensors")
    equal(ids_of(read_safetensors(box.read("t.safetensors"))[0]), paths, "transform keeps them")
    box.write("b.txt", "b\n")
    box.works("convert", OUT, "--only", "b.txt", "-o", "part.safetensors")
    equal(ids_of(read_safetensors(box.read("part.safetensors"))[0]), paths[6:], "those of one class")
    box.works("synth", "--classes", 2, "--dim", 24, "--per-class", 2, "-o", "s.safetensors")
    check("ids" not in box.works("info", "s.safetensors").out, "no ids")
    check("one for each row" in box.works("info", OUT).out, "ids")


@test
def a_vision_model_alone(box):
    photos(box, "p", ["a", "b"], 2)
    check("4 rows of 13 f32" in box.works("embed", VISION, "p", "-o", OUT).err, "rows of it")
    check("encoder" in box.works("embed", VISION, "p", "-v", "-o", OUT).err, "what is used")
    box.write("x/1.png", png(bytes(12), 2, 2))
    check("1 row of 13 f32, no labels" in box.works("embed", VISION, "x", "-o", OUT).err, "a plain folder")
