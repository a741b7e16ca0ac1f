"""WebDataset archives: pictures in .tar files, with classes, texts and JSON beside them."""

import json
import os
import random
import signal
import tarfile

from files import png, read_safetensors, tar
from harness import BAD_DATA, IO, USAGE, check, equal, test
from photos import CLIP, ids_of, rows_of

OUT = "out.safetensors"
CLASSES = ["owl", "fox", "ant"]


def samples(n, first=0, seed=1):
    """Pictures with .cls, .txt and .json, as (key, class, members)."""
    rng, found = random.Random(seed + first), []
    for i in range(first, first + n):
        name = CLASSES[i % 3]
        found.append((f"{i:06d}", name, [
            (f"{i:06d}.png", png(rng.randbytes(4 * 4 * 3), 4, 4)), (f"{i:06d}.cls", f"{name}\n".encode()),
            (f"{i:06d}.txt", f"a \"{name}\"\nno. {i} ÿ".encode()),
            (f"{i:06d}.json", json.dumps({"kind": i % 2, "list": [1, {"a b": " x\\\" "}]}, indent=1).encode())]))
    return found


def archive(found, **more):
    return tar([m for _, _, members in found for m in members], **more)


@test
def samples_become_rows(box):
    one, two = samples(7), samples(5, first=7)
    box.write("s/00.tar", archive(one))
    box.write("s/01.tar", archive(two, form=tarfile.PAX_FORMAT))
    box.works("embed", CLIP, "s/00.tar", "s/01.tar", "--metadata", "m.jsonl", "-o", OUT)
    tensors, metadata = read_safetensors(box.read(OUT))
    every = [(f"s/00.tar/{k}.png", c, m) for k, c, m in one] + [(f"s/01.tar/{k}.png", c, m) for k, c, m in two]
    equal(ids_of(tensors), [i for i, _, _ in every], "ids")
    equal(json.loads(metadata["classes"]), sorted(CLASSES), "classes")
    equal(tensors["labels"], [sorted(CLASSES).index(c) for _, c, _ in every], "labels")
    for i, (_, name, members) in enumerate(every):  # the same pictures as files of their own
        box.write(f"p/{name}/{i:03d}.png", members[0][1])
    box.works("embed", CLIP, "p", "-o", "p.safetensors")
    files = rows_of(box, "p.safetensors")[0]
    for i, (_, name, _) in enumerate(every):
        equal(tensors["embeddings"][i], files[f"p/{name}/{i:03d}.png"], f"row {i}")
    lines = [json.loads(line) for line in box.read("m.jsonl").decode().splitlines()]
    for i, (name, label, members) in enumerate(every):
        equal(lines[i], {"row": i, "id": name, "class": label, "text": members[2][1].decode(),
                         "json": json.loads(members[3][1])}, f"line {i}")
    equal(len(lines), 12, "lines")


@test
def names_of_any_length(box):
    """Longer than the 100 bytes of a header, the 255 of a file's name and the 4,096 of a path."""
    keys = ["d/" * (n // 2 - 3) + f"{n:06d}" for n in (90, 248, 250, 256, 300, 5000)]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        box.write("long.tar", tar([(key + end, text) for key in keys
                                   for end, text in ((".png", png(bytes(48), 4, 4)), (".cls", b"owl"))], form))
        box.works("embed", CLIP, "long.tar", "--metadata", "m.jsonl", "-o", OUT)
        ids = [f"long.tar/{key}.png" for key in keys]
        equal(ids_of(read_safetensors(box.read(OUT))[0]), ids, "ids")
        lines = box.read("m.jsonl").decode().splitlines()
        equal([json.loads(line)["id"] for line in lines], ids, "ids of the metadata")


@test
def ways_to_name_archives(box):
    for i in range(3):
        box.write(f"s/{i:02d}.tar", archive(samples(3, first=3 * i)))
    box.works("embed", CLIP, "s/00.tar", "s/01.tar", "s/02.tar", "-o", OUT)
    wanted = box.read(OUT)
    for words in (["s/{00..02}.tar"], ["s/*.tar"], ["s"], ["s/0{0..2}.tar"]):
        os.remove(box.path(OUT))
        box.works("embed", CLIP, *words, "-o", OUT)
        equal(box.read(OUT), wanted, words)
    box.refuses(IO, "embed", CLIP, "s/{00..03}.tar", "-o", OUT, naming=["s/03.tar"])
    box.refuses(IO, "embed", CLIP, "s/{03..00}.tar", "-o", OUT, naming=["s/{03..00}.tar"])
    equal(box.read(OUT), wanted, "nothing was lost")


@test
def classes_from_json(box):
    box.write("a.tar", archive(samples(6)))
    box.works("embed", CLIP, "a.tar", "--label-key", "kind", "-o", OUT)
    tensors, metadata = read_safetensors(box.read(OUT))
    equal((json.loads(metadata["classes"]), tensors["labels"]), (["0", "1"], [0, 1, 0, 1, 0, 1]), "classes")
    box.refuses(BAD_DATA, "embed", CLIP, "a.tar", "--label-key", "list", "-o", OUT, naming=["a.tar/000000.json", "'list'"])
    box.works("embed", CLIP, "a.tar", "--label-key", "absent", "-o", "none.safetensors")
    check("labels" not in read_safetensors(box.read("none.safetensors"))[0], "no class at all")
    box.refuses(USAGE, "embed", CLIP, "--list", "x", "--label-key", "kind", "-o", OUT)


@test
def names_that_are_long_or_strange(box):
    pixels = png(bytes(range(48)), 4, 4)
    long = "/".join(["folder" * 10] * 4)
    names = [f"{long}/{i}.png" for i in range(3)] + ["ü/ä b.JPG.png", ".hidden.png", "./x.jpeg", "noending", "x.seg.png", "a.b/c.webp"]
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        box.write("a.tar", tar([(n, pixels) for n in names], form=form))
        box.works("embed", CLIP, "a.tar", "-o", OUT, "--no-resume")
        equal(ids_of(read_safetensors(box.read(OUT))[0]), [f"a.tar/{n}" for n in (*names[:3], "./x.jpeg", "a.b/c.webp")], form)
    box.write("a.tar", tar([("1.png", pixels), ("1.jpg", pixels), ("2.png", pixels)]))
    check("left out 1 picture beside" in box.works("embed", CLIP, "a.tar", "-o", OUT).err, "the second picture")
    equal(ids_of(read_safetensors(box.read(OUT))[0]), ["a.tar/1.png", "a.tar/2.png"], "the first of each sample")
    box.write("a.tar", tar([("1.png", pixels), ("2.png", pixels), ("1.png", pixels)]))
    box.refuses(BAD_DATA, "embed", CLIP, "a.tar", "-o", OUT, naming=["a.tar/1.png", "twice"])


def sealed(header, as_signed=False):
    """A header with the right sum of its bytes, which some old programs added up as signed."""
    header[148:156] = b" " * 8
    total = sum(b - 256 if as_signed and b > 127 else b for b in header)
    header[148:156] = f"{total:06o}\0 ".encode()
    return bytes(header)


@test
def headers_of_other_programs(box):
    """What Python's tarfile does not write, or only for members of many gigabytes."""
    pixels = png(bytes(range(48)), 4, 4)
    content = pixels + bytes(-len(pixels) % 512)  # whole blocks: nothing is filled up
    box.write("a.tar", tar([("1.png", content), ("2.png", content)]))
    box.works("embed", CLIP, "a.tar", "-o", OUT)
    wanted = read_safetensors(box.read(OUT))[0]["embeddings"]
    equal(wanted[0], wanted[1], "two of the same picture")
    plain = tar([("1.png", content)])
    first, rest = bytearray(plain[:512]), plain[512:]
    binary, signed, pax = bytearray(first), bytearray(first), bytearray(first)
    binary[124:136] = b"\x80" + len(content).to_bytes(11, "big")
    signed[329:337] = b"\xff" * 8
    pax[124:136] = b"%011o\0" % 0
    record = b" size=%d\n" % len(content)
    record = b"%d" % (len(record) + 2) + record
    about = bytearray(tar([("x", record)])[:1024])
    about[156:157] = b"x"
    for name, archive_of in (("binary", sealed(binary) + rest), ("signed", sealed(signed, True) + rest),
                             ("pax", sealed(about[:512]) + bytes(about[512:]) + sealed(pax) + rest)):
        box.write("a.tar", archive_of)
        box.works("embed", CLIP, "a.tar", "-o", OUT, "--no-resume")
        equal(read_safetensors(box.read(OUT))[0]["embeddings"], wanted[:1], name)
    long = "/".join(["folder" * 5] * 4) + "/1.png"
    box.write("a.tar", tar([(long, pixels)], form=tarfile.USTAR_FORMAT))
    box.works("embed", CLIP, "a.tar", "-o", OUT, "--no-resume")
    equal(ids_of(read_safetensors(box.read(OUT))[0]), [f"a.tar/{long}"], "a name in two parts")
    first[156:157] = b"S"
    box.write("a.tar", sealed(first) + rest)
    box.refuses(BAD_DATA, "embed", CLIP, "a.tar", "-o", OUT, naming=["a.tar", "sparse"])


@test
def samples_of_which_parts_are_missing(box):
    """What one sample lacks is not taken from the one before it."""
    (_, _, one), (_, _, two) = samples(2)
    box.write("a.tar", tar([*one, two[0], (".png", one[0][1]), (".txt", b"of no sample")]))
    box.works("embed", CLIP, "a.tar", "--metadata", "m.jsonl", "-o", OUT)
    lines = [json.loads(line) for line in box.read("m.jsonl").decode().splitlines()]
    equal([line["id"] for line in lines], ["a.tar/000000.png", "a.tar/000001.png"], "hidden files are no samples")
    equal(lines[1], {"row": 1, "id": "a.tar/000001.png", "class": None, "text": None, "json": None}, "the second sample")
    equal(read_safetensors(box.read(OUT))[0]["labels"], [0, -1], "labels")


@test
def bad_archives(box):
    found = samples(3)
    whole = archive(found)
    end = max(i for i in range(0, len(whole), 512) if any(whole[i:i + 512])) + 512
    damaged = bytearray(whole)
    damaged[512 * 2 + 100] ^= 1  # no header: the picture may suffer, the archive does not
    header = bytearray(whole)
    header[3] ^= 1
    size = bytearray(whole)
    size[124:136] = b"77777777777\0"
    size[148:156] = b" " * 8
    size[148:156] = f"{sum(size[:512]):06o}\0 ".encode()
    for name, content, words in (
            ("empty.tar", b"", ["empty"]), ("short.tar", whole[:100], ["not a tar archive"]),
            ("text.tar", b"x" * 2048, ["not a tar archive"]), ("gz.tar", b"\x1f\x8b" + b"x" * 2048, ["compressed"]),
            ("cut.tar", whole[:end], ["end mark", "cut off"]), ("half.tar", whole[:end - 512 - 100], ["cut off"]),
            ("in.tar", whole[:700], ["cut off"]), ("header.tar", bytes(header), ["not a tar archive"]),
            ("size.tar", bytes(size), ["cut off"]), ("none.tar", tar([("a.txt", b"x")]), ["no JPEG"]),
            ("class.tar", tar([("1.png", found[0][2][0][1]), ("1.cls", b" \n")]), ["class.tar/1.cls", "class"]),
            ("nopic.tar", tar([("1.png", b"")]), ["nopic.tar/1.png", "empty"])):
        box.write(name, content)
        box.refuses(BAD_DATA, "embed", CLIP, name, "-o", OUT, naming=[name, *words])
    second = bytearray(whole)
    at = next(i for i in range(512, len(whole), 512) if whole[i:i + 10] == b"000000.cls")
    second[at + 1] ^= 1
    box.write("second.tar", bytes(second))
    box.refuses(BAD_DATA, "embed", CLIP, "second.tar", "-o", OUT, naming=["second.tar", f"byte {at}", "checksum"])


@test
def bad_members(box):
    good = samples(3)
    box.write("a.tar", tar([*good[0][2], ("bad.png", b"no picture"), ("bad.txt", b"t"), *good[1][2], ("c.png", good[2][2][0][1]),
                            ("c.json", b"{"), ("d.png", good[2][2][0][1]), ("d.txt", b"\xff")]))
    box.refuses(BAD_DATA, "embed", CLIP, "a.tar", "-o", OUT, naming=["a.tar/bad.png"])
    box.works("embed", CLIP, "a.tar", "--skip-bad", "-o", OUT)
    box.refuses(BAD_DATA, "embed", CLIP, "a.tar", "--skip-bad", "--label-key", "kind", "-o", "x.safetensors", naming=["a.tar/c.json"])
    result = box.works("embed", CLIP, "a.tar", "--skip-bad", "--metadata", "m.jsonl", "-o", OUT)
    check("a.tar/c.json" in result.err and "a.tar/d.txt" in result.err, f"{result}")
    lines = [json.loads(line) for line in box.read("m.jsonl").decode().splitlines()]
    equal([line["id"] for line in lines], ids_of(read_safetensors(box.read(OUT))[0]), "rows and lines agree")
    equal([line["row"] for line in lines], list(range(len(lines))), "numbers of rows")
    equal((lines[2]["json"], lines[3]["text"]), (None, None), "what is damaged is null")
    box.refuses(IO, "embed", CLIP, "a.tar", "--skip-bad", "--metadata", "none/m.jsonl", "-o", "y.safetensors", naming=["none/m.jsonl"])
    check(not os.path.exists(box.path("y.safetensors")), "refused before the work")


@test
def killed_and_resumed(box):
    """As img2dataset writes them: shards of many samples; the run is killed again and again."""
    for i in range(3):
        box.write(f"s/{i:05d}.tar", archive(samples(40, first=40 * i)))
    words = ["embed", CLIP, "s/{00000..00002}.tar", "--shard", "8", "--threads", "1", "--metadata", "m.jsonl"]
    box.works(*words, "-o", "whole.safetensors")
    lines = box.read("m.jsonl")
    os.remove(box.path("m.jsonl"))
    wanted = box.read("whole.safetensors")

    def shards():
        parts = box.path(OUT + ".parts")
        return len([n for n in os.listdir(parts) if n.startswith("shard-")]) if os.path.isdir(parts) else 0
    rng, kills = random.Random(2), 0
    while kills < 8:
        enough = shards() + rng.randrange(5)
        process = box.start(*words, "-o", OUT)
        box.wait_for(process, lambda: shards() >= enough)
        process.send_signal(signal.SIGKILL)
        err = process.communicate()[1].decode()
        if process.returncode == -signal.SIGKILL:
            kills += 1
            check(not os.path.exists(box.path(OUT)) or box.read(OUT) == wanted, "the file is whole or not there")
            continue
        equal((process.returncode, box.read(OUT) == wanted, box.read("m.jsonl") == lines), (0, True, True), err)
        os.remove(box.path(OUT))
    box.works(*words, "-o", OUT)
    equal((box.read(OUT) == wanted, box.read("m.jsonl") == lines), (True, True), "the same bytes")
    box.write("s/00001.tar", archive(samples(40, first=40, seed=9)))  # one shard is another now
    err = box.works(*words, "-o", OUT).err
    check("80 pictures were taken from" in err, err)


@test
def quickstart_and_classify(box):
    rng = random.Random(5)
    members = []
    for i in range(24):
        colour = [(250, 20, 20), (20, 20, 250)][i % 2]
        pixels = bytes(min(255, max(0, c + rng.randrange(-20, 20))) for _ in range(64) for c in colour)
        members += [(f"{i:03d}.png", png(pixels, 8, 8)), (f"{i:03d}.cls", [b"red", b"blue"][i % 2])]
    box.write("a.tar", tar(members))
    box.works("quickstart", "a.tar", "--encoder", CLIP, "-o", "q")
    out = box.works("classify", "q/model.safetensors", "--encoder", CLIP, "a.tar").out
    rows = [line.split("\t") for line in out.splitlines()]
    check(any("red" in row for row in rows) and len(rows) >= 24, out)
