"""The inputs of all sessions: made once per run, by the program and by hand, as small as possible."""

import gzip
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
GOLDEN = os.path.join(TESTS, "golden")
sys.path.insert(0, os.path.join(TESTS, "cli"))

from files import f32, fbin, fvecs, i32, npy, png, safetensors, small_bin, tar  # noqa: E402

DIM, CLASSES, EACH = 8, 4, 6
NAMES = ["ant", "bee", "cät", "dog, small"]


def lines(items):
    return "".join(f"{item}\n" for item in items).encode()


def rows_of(n, seed, dim=DIM, classes=CLASSES):
    rng = random.Random(seed)
    centres = [[2 * rng.random() - 1 for _ in range(dim)] for _ in range(classes)]
    labels = [i % classes for i in range(n)]
    return [[c + 0.8 * rng.random() - 0.4 for c in centres[k]] for k in labels], labels


def data_set(rows, labels, ids=None):
    tensors = {"embeddings": ("F32", [len(rows), DIM], f32(rows)), "labels": ("I32", [len(rows)], i32(labels))}
    if ids:
        encoded = [name.encode() for name in ids]
        ends = [sum(map(len, encoded[:i + 1])) for i in range(len(ids))]
        tensors |= {"id_ends": ("I64", [len(ids)], struct.pack(f"<{len(ids)}q", *ends)), "id_bytes": ("U8", [ends[-1]], b"".join(encoded))}
    return safetensors(tensors, metadata={"format": "koofu.dataset", "version": "1", "classes": json.dumps(NAMES)})


def strings(items):
    """A .npy of strings, as numpy writes them."""
    width = max(map(len, items))
    header = f"{{'descr': '<U{width}', 'fortran_order': False, 'shape': ({len(items)},), }}"
    content = b"".join(item.ljust(width, "\0").encode("utf-32-le") for item in items)
    return npy([], "<f4", header=header) + content


def npz(members, compression):
    """An archive with the same bytes whenever it is made."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = compression
            archive.writestr(entry, content)
    return buffer.getvalue()


def noise_png(rng, side):
    return png(rng.randbytes(side * side * 3), side, side)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Maker:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def koofu(self, *words):
        done = subprocess.run([self.program, *map(str, words), "-q"], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, check=False, env={**os.environ, "KOOFU_THREADS": "1"})
        if done.returncode != 0:
            sys.exit(f"torture: a sound file cannot be made: koofu {' '.join(map(str, words))}: status {done.returncode}: "
                     f"{done.stderr.decode(errors='replace')}")


def make(program, folder):
    """Writes everything below `folder`."""
    os.makedirs(folder)
    m = Maker(program, folder)
    make_rows(m)
    make_models(m)
    make_pictures(m)
    make_words(m)
    m.koofu("embed", "clip", "photos", "-o", "embedded.safetensors")
    m.koofu("embed-text", "clip", "--classes", "two.txt", "-o", "said.safetensors")
    m.koofu("fit", "embedded.safetensors", "-o", "seen.safetensors")
    m.koofu("index", "embedded.safetensors", "-o", "shown.safetensors")
    os.makedirs(os.path.join(folder, "journal"))
    m.koofu("convert", "one.npy", "--labels", "okapi.txt", "-o", "journal/000001.safetensors")


def make_rows(m):
    rows, labels = rows_of(CLASSES * EACH, 1)
    test, _ = rows_of(CLASSES * 2, 2)
    m.write("x.npy", npy(rows))
    m.write("x8.npy", npy(rows, "<f8"))
    m.write("half.npy", npy(rows, "<f2"))
    m.write("columns.npy", npy([v for column in zip(*rows) for v in column], "<f4", shape=(len(rows), DIM), fortran=True))
    m.write("parts/1.npy", npy(rows[:9]))
    m.write("parts/10.npy", npy(rows[9:], "<f8"))
    m.write("x.fvecs", fvecs(rows))
    m.write("x.fbin", fbin(rows))
    m.write("x.u8bin", small_bin([[int(abs(v) * 50) % 256 for v in row] for row in rows], "B"))
    m.write("y.txt", lines(NAMES[k] for k in labels))
    m.write("y.npy", npy(labels, "<i4"))
    m.write("ys.npy", strings([NAMES[k] for k in labels]))
    m.write("y.csv", lines(["id,class", *(f'{i},"{NAMES[k]}"' for i, k in enumerate(labels))]))
    m.write("x.csv", lines(["photo,x" + ",x".join(map(str, range(DIM))) + ",kind",
                            *(f'p{i},{",".join(map(str, row))},"{NAMES[k]}"' for i, (row, k) in enumerate(zip(rows, labels)))]))
    m.write("y.tsv", lines(NAMES[k] for k in labels))
    members = {"embeddings.npy": npy(rows), "labels.npy": npy(labels, "<i4")}
    m.write("stored.npz", npz(members, zipfile.ZIP_STORED))
    m.write("packed.npz", npz(members, zipfile.ZIP_DEFLATED))
    m.write("names.txt", lines(NAMES))
    m.write("two.txt", lines(["cat", "dog"]))
    m.write("some.txt", lines(NAMES[:2]))
    m.write("ids.txt", lines(f"photos/{i}.png" for i in range(len(rows))))
    m.write("more-ids.txt", lines(f"more/{i}.png" for i in range(len(test))))
    m.write("truth.txt", lines(",".join(NAMES[j] for j in {k, (k + i) % CLASSES} if "," not in NAMES[j]) for i, k in enumerate(labels)))
    m.write("real.json", json.dumps([[k, (k + 1) % CLASSES] for k in labels]))
    m.write("clean.csv", "proposed_labels,id\n" + "".join(f'"{k}",x_val_{i + 1:08d}.JPEG\n' for i, k in enumerate(labels)))
    m.write("clean-ids.txt", lines(f"val/x_val_{i + 1:08d}.JPEG" for i in range(len(rows))))
    m.write("groups.txt", lines(i // 3 for i in range(len(rows))))
    m.write("set.safetensors", data_set(rows, labels, [f"photos/{i} ä.png" for i in range(len(rows))]))
    for i in range(4):  # what several processes add at the same time
        m.write(f"w{i}.safetensors", data_set(*rows_of(8, 10 + i), [f"w{i}/{j}.png" for j in range(8)]))
    m.write("q.npy", npy(test))
    m.write("one.npy", npy(test[:1]))
    m.write("test.safetensors", data_set(test, [i % CLASSES for i in range(len(test))]))
    m.write("okapi.txt", "okapi\n")
    m.write("tree.txt", "r a\nr b\na ant\na bee\nb cät\nb x\n")
    m.write("tree-set.txt", "ant\nbee\n")
    m.write("tree-all.txt", "ant\nbee\ncät\nx\n")


def make_models(m):
    m.koofu("stats", "set.safetensors", "-o", "stats.safetensors")
    m.koofu("stats", "test.safetensors", "-o", "stats-2.safetensors")
    m.koofu("stats", "set.safetensors", "--no-normalize", "-o", "stats-raw.safetensors")
    m.write("text-rows.npy", npy(rows_of(CLASSES * 2, 5)[0]))
    m.koofu("text-prototypes", "text-rows.npy", "--classes", "names.txt", "-o", "text.safetensors")
    m.koofu("fit", "set.safetensors", "--method", "paper", "--lambda", "0.3x", "--dim", 5, "-o", "paper.safetensors")
    m.koofu("fit", "set.safetensors", "--reject", "0.9", "-o", "shrunk.safetensors")
    m.koofu("fit", "set.safetensors", "--text", "text.safetensors", "-o", "fused.safetensors")
    m.koofu("fit", "set.safetensors", "--no-normalize", "-o", "raw.safetensors")
    m.koofu("index", "set.safetensors", "-o", "plain.safetensors")
    m.koofu("index", "set.safetensors", "--model", "shrunk.safetensors", "-k", 3, "-o", "gallery.safetensors")
    m.koofu("index", "x.npy", "--metric", "euclidean", "-o", "bare.safetensors")
    m.koofu("index", "set.safetensors", "--dtype", "f16", "-o", "compact.safetensors")
    make_living(m)
    make_many(m)


def make_living(m):
    """living.safetensors, a gallery with two changes; base.safetensors is its file, change.safetensors the first of them."""
    more = read(os.path.join(m.folder, "more-ids.txt")).decode().splitlines()
    m.write("some-ids.txt", "\n".join(["photos/2 ä.png", *more[1:]]) + "\n")
    m.write("gone.txt", "photos/0 ä.png\nphotos/9 ä.png\nno row\n")
    m.write("two-ids.txt", "photos/3 ä.png\nphotos/5 ä.png\n")
    m.koofu("index", "set.safetensors", "--model", "shrunk.safetensors", "-o", "living.safetensors")
    m.write("base.safetensors", read(os.path.join(m.folder, "living.safetensors")))
    m.koofu("index", "test.safetensors", "--ids", "some-ids.txt", "--append", "living.safetensors", "--replace")
    folder = os.path.join(m.folder, "living.safetensors.changes")
    m.write("change.safetensors", read(os.path.join(folder, os.listdir(folder)[0])))
    m.koofu("index", "living.safetensors", "--remove", "gone.txt")


LIVING_BASE = list(range(1, 13))
LIVING = [number for number in LIVING_BASE if number not in (3, 7)] + list(range(100, 134))


def living_row(number):
    """The values and the class of a row that can be identified by either."""
    return [float(number), float(number * number % 31), 1.0], f"class {number % 5}"


def living_rows(numbers):
    """These rows as a data set with ids."""
    rows, names = zip(*map(living_row, numbers))
    ids = [f"r{number}".encode() for number in numbers]
    classes = sorted(set(names))
    ends = [sum(map(len, ids[:i + 1])) for i in range(len(ids))]
    tensors = {"embeddings": ("F32", [len(rows), 3], f32(rows)), "labels": ("I32", [len(rows)], i32([classes.index(name) for name in names])),
               "id_ends": ("I64", [len(ids)], struct.pack(f"<{len(ids)}q", *ends)), "id_bytes": ("U8", [ends[-1]], b"".join(ids))}
    return safetensors(tensors, metadata={"format": "koofu.dataset", "version": "1", "classes": json.dumps(classes)})


def make_many(m):
    """living-many.safetensors, a gallery with more changes than stay open, whose rows are those of LIVING."""
    m.write("living-base.safetensors", living_rows(LIVING_BASE))
    m.write("living-one.safetensors", living_rows([0]))
    m.write("living-gone.txt", "r3\nr7\n")
    m.koofu("index", "living-base.safetensors", "--metric", "euclidean", "-o", "living-many.safetensors")
    for number in range(100, 134):
        m.write("living-new.safetensors", living_rows([number]))
        m.koofu("index", "living-new.safetensors", "--append", "living-many.safetensors")
    m.koofu("index", "living-many.safetensors", "--remove", "living-gone.txt")


def make_pictures(m):
    rng = random.Random(3)
    for name in ("cat", "dog"):
        for i in range(4):
            m.write(f"photos/{name}/{i}.png", noise_png(rng, 8))
    m.write("shard.tar", tar([member for i, name in enumerate(("cat", "dog", "cat")) for member in (
        (f"{i:03d}.png", noise_png(rng, 8)), (f"{i:03d}.cls", name.encode()), (f"{i:03d}.txt", b"a picture"), (f"{i:03d}.json", b'{"kind": "k"}'))]))
    m.write("far.tsv", "../../../in/photos/cat/0.png\tcat\n../../../in/photos/dog/1.png\tdog\n")
    m.write("photos.csv", b"no,image,class\n" + lines(f"{i},{'cat' if i < 4 else 'dog'}/{i % 4},{'dog' if i % 2 else 'cat'}" for i in range(8)))
    m.write("list.tsv", "photos/cat/0.png\tcat\nphotos/dog/1.png\tdog\n")
    for name in ("q75-s2.jpg", "progressive-420.jpg", "cmyk.jpg", "exif6-be.jpg", "restart.jpg", "rgb8-13x19.png", "palette4-i-13x19.png",
                 "la16-13x19.png", "exif6.png", "grey-trns.png", "q50.webp", "lossless-alpha.webp", "exif6.webp", "animated.webp"):
        shutil.copy(os.path.join(GOLDEN, "images", name), os.path.join(m.folder, "photos", ".."))
    m.write("pictures/a.png", noise_png(rng, 8))


def make_words(m):
    for name, source in (("clip", "clip-f32"), ("vision", "clip-vision"), ("words", "clip-text"), ("siglip", "siglip"), ("shards", "clip-bf16")):
        shutil.copytree(os.path.join(GOLDEN, "models", source), os.path.join(m.folder, name), ignore=shutil.ignore_patterns("expected*"))
    make_tokenizers(m)
    m.write("templates.txt", "a photo of a {}.\nthe {}\n")
    m.write("prompts.txt", "a cat\na photo of two dogs\n")
    m.write("wordnet.txt", "cat\tcat, Felis\ndog\tdog\n")


def make_tokenizers(m):
    """Folders 'tokens' and 'packed': the words of 'clip' as a tokenizer.json, and as a packed list of merges."""
    merges = read(os.path.join(m.folder, "clip", "merges.txt"))
    vocabulary = json.loads(read(os.path.join(m.folder, "clip", "vocab.json")))
    whole = json.loads(read(os.path.join(GOLDEN, "tokenizer", "json", "tokenizer.json")))
    start, end = vocabulary["<|startoftext|>"], vocabulary["<|endoftext|>"]
    whole["model"] |= {"vocab": vocabulary, "merges": [line.split() for line in merges.decode().splitlines()[1:]]}
    whole["post_processor"] |= {"cls": ["<|startoftext|>", start], "sep": ["<|endoftext|>", end]}
    for token, number in zip(whole["added_tokens"], (start, end)):
        token["id"] = number
    for name, file, content in (("tokens", "tokenizer.json", json.dumps(whole).encode()),
                                ("packed", "bpe_simple_vocab_16e6.txt.gz", gzip.compress(merges, mtime=0))):
        shutil.copytree(os.path.join(m.folder, "words"), os.path.join(m.folder, name), ignore=shutil.ignore_patterns("vocab.json", "merges.txt"))
        m.write(f"{name}/{file}", content)
