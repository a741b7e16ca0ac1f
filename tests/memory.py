"""Memory is bounded as promised: the peaks of `koofu stats`, `index`, `search`, `fit` and `eval`.

usage: memory.py KOOFU [PER_CLASS]

Statistics of 400,000 x 768 f16 (or PER_CLASS rows in each of the 1,000 classes) must stay below 100
MiB, and within 4 bytes a row of what a tenth of the rows takes. Writing a gallery takes the same
for any number of rows. A search that leaves the f32 rows on disk takes a byte for each value and 8
for each row (4 of them its label) more than the search of a small gallery; with the rows in memory,
four bytes more for each value. Unpacking a compressed .npz and reading a table of labels take the
same for any number of rows.

Hostile files stay within stated bounds: headers of 100 MB take their length and 128 MiB, whatever
they contain; lists of class names six times their length; the JSON files of a model folder seven
times their limit of 16 MiB; pictures 1 GiB for all threads together.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

LIMIT_MIB, GROWTH_MIB = 100, 4


def peak_mib(*command, wanted=0):
    """Runs a command that ends with a status; the peak of its resident memory."""
    quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)] if wanted else []
    pid = os.posix_spawn(command[0], list(command), os.environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) != wanted:
        raise SystemExit(f"FAIL: {' '.join(command)} gave status {status}")
    return usage.ru_maxrss / 1024


def statistics(koofu, work, most):
    peaks = []
    for per_class in (most // 10, most):
        data = os.path.join(work, "data.safetensors")
        subprocess.run([koofu, "synth", "--dim", "768", "--classes", "1000", "--per-class", str(per_class),
                        "--dtype", "f16", "-q", "-o", data], check=True)
        peaks.append(peak_mib(koofu, "stats", data, "-q", "-o", os.path.join(work, "s.safetensors")))
        print(f"stats on {per_class * 1000:,} x 768 f16, 1,000 classes: peak {peaks[-1]:.1f} MiB")
    os.remove(data)
    return [peaks[1] <= LIMIT_MIB, peaks[1] <= peaks[0] + 4 * 900 * most / 2**20]


def galleries(koofu, work):
    """Gallery sizes of 10,000 and 400,000 rows of 256: what the search of the large one takes beyond that
    of the small one is what its rows take."""
    dim, small, large, passed = 256, 10, 400, []
    data, queries, out = (os.path.join(work, name) for name in ("d.safetensors", "q.safetensors", "out.npy"))
    subprocess.run([koofu, "synth", "--dim", str(dim), "--classes", "1000", "--per-class", "1", "--split", "1",
                    "-q", "-o", queries], check=True)
    peaks = {}
    for per_class in (small, large):
        gallery = os.path.join(work, f"g{per_class}.safetensors")
        subprocess.run([koofu, "synth", "--dim", str(dim), "--classes", "1000", "--per-class", str(per_class),
                        "-q", "-o", data], check=True)
        peaks["index", per_class] = peak_mib(koofu, "index", data, "-q", "-o", gallery)
        for how in ([], ["--rerank-from-disk"]):
            peaks[len(how), per_class] = peak_mib(koofu, "search", gallery, queries, *how, "-q", "-o", out)
    rows = 1000 * (large - small)
    f32 = rows * dim * 4 / 2**20
    for what, bytes_each in (("index", 0), (1, dim + 8), (0, 5 * dim + 8)):
        grown, promised = peaks[what, large] - peaks[what, small], rows * bytes_each / 2**20
        name = {"index": "index", 0: "search", 1: "search --rerank-from-disk"}[what]
        print(f"{name}, {1000 * large:,} x {dim}: peak {peaks[what, large]:.1f} MiB; {rows:,} rows "
              f"({f32:.0f} MiB in f32) take {grown:.1f} MiB, promised {promised:.1f}")
        passed.append(grown <= 1.05 * promised + GROWTH_MIB)
    return passed


def choosing(koofu, work):
    """Lambda and dimensions are chosen, and errors counted, in memory for classes x D and a few bytes a row:
    eight times the rows must not take more than these, and rows x classes (f32: 336 MB more) not at all."""
    dim, classes, few, many = 128, 2000, 3, 24
    data, model = (os.path.join(work, name) for name in ("c.safetensors", "m.safetensors"))
    peaks = {}
    for per_class in (few, many):
        subprocess.run([koofu, "synth", "--dim", str(dim), "--classes", str(classes), "--per-class", str(per_class),
                        "-q", "-o", data], check=True)
        peaks["fit", per_class] = peak_mib(koofu, "fit", data, "--dim", "auto", "--folds", "2", "-q", "-o", model)
        peaks["eval", per_class] = peak_mib(koofu, "eval", model, data, "-q", "--per-class", os.path.join(work, "p.tsv"))
    passed = []
    for what, bytes_each in (("fit", 64), ("eval", 64)):
        grown, allowed = peaks[what, many] - peaks[what, few], 8 + classes * (many - few) * bytes_each / 2**20
        print(f"{what}, {classes * many:,} x {dim}, {classes:,} classes: peak {peaks[what, many]:.1f} MiB; "
              f"{grown:.1f} MiB more than for {classes * few:,} rows, {allowed:.1f} allowed")
        passed.append(grown <= allowed)
    return passed


def in_child(make):
    """Runs a function in a process of its own: a command's memory is measured relative to its parent's."""
    pid = os.fork()
    if pid == 0:
        make()
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit("FAIL: a file could not be made")


def write_archive(data, labels, blocks, dim):
    block = b"".join(struct.pack(f"<{dim}f", *((i * 7 + j * 3) % 11 - 5 for j in range(dim))) for i in range(1000))
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1000 * blocks}, {dim}), }}".ljust(117) + "\n"
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        member.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode())
        for _ in range(blocks):
            member.write(block)
    with open(labels, "w", encoding="utf-8") as file:
        file.write("path,label\n" + "".join(f'"{i}.jpg","class {i % 11}"\n' for i in range(1000 * blocks)))


def archives(koofu, work):
    """Ten times the rows of a compressed .npz (100 MB of f32), with labels in a .csv."""
    dim, peaks = 256, []
    data, labels, out = (os.path.join(work, name) for name in ("a.npz", "a.csv", "a.safetensors"))
    for blocks in (10, 100):
        in_child(lambda blocks=blocks: write_archive(data, labels, blocks, dim))
        peaks.append(peak_mib(koofu, "stats", data, "--labels", labels, "--label-column", "label", "-q", "-o", out))
    print(f"stats on a compressed .npz, 100,000 x {dim} f32 and a table of labels: peak {peaks[1]:.1f} MiB, "
          f"{peaks[1] - peaks[0]:.1f} more than for a tenth")
    return [peaks[1] <= peaks[0] + GROWTH_MIB]


def write_repeated(name, begin, unit, end, size, length=False):
    """begin unit(0) unit(1) ... end, filled up with spaces to `size` bytes, after them as eight bytes if `length`."""
    with open(name, "w", encoding="utf-8") as file:
        if length:
            file.buffer.write(struct.pack("<Q", size))
        n, i = file.write(begin), 0
        while True:
            text = "".join(unit(k) for k in range(i, i + 1000))
            if n + len(text) + len(end) > size:
                break
            n, i = n + file.write(text), i + 1000
        n += file.write(end)
        file.write(" " * (size - n))


def headers(koofu, work):
    """The memory of a header of 100,000,000 bytes, refused or not."""
    size, name, out = 100_000_000, os.path.join(work, "h.safetensors"), os.path.join(work, "o.safetensors")
    tensor = '"t%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    kinds = {
        "lists": ("[[]", lambda i: ",[]" * 20, "]", 1, 128),
        "keys": ('{"__metadata__":{"k":""', lambda i: f',"{i:x}":""', "}}", 1, 128),
        "objects": ('{"__metadata__":{"k":""}', lambda i: f',"{i:x}":{{}}', "}", 1, 128),
        "tensors": ("{" + tensor % 0, lambda i: "," + tensor % (i + 1), "}", 1, 128),
        "a long string": ('{"__metadata__":{"x":"', lambda i: "x" * 50, '"}}', 1, 128),
        "names": ('{"embeddings":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"labels":{"dtype":"I32","shape":[1],"data_offsets":[4,8]},"__metadata__":{"classes":"[\\"a\\"',
                  lambda i: f',\\"{i:021x}\\"', ']"}}', 6, 0),
    }
    passed = []
    for kind, (begin, unit, end, times, more) in kinds.items():
        in_child(lambda: write_repeated(name, begin, unit, end, size, True))
        if kind == "names":  # a data set of one row, which is too few for a model
            with open(name, "ab") as file:
                file.write(struct.pack("<fi", 1, 0))
        command = ["fit", name] if kind == "names" else ["transform", name, name]
        peak = peak_mib(koofu, *command, "-q", "-o", out, wanted=3)
        allowed = times * size / 2**20 + more
        print(f"a header of 100 MB, {kind}: peak {peak:.1f} MiB, {allowed:.1f} allowed")
        passed.append(peak <= allowed)
    os.remove(name)
    return passed


def model_folders(koofu, work, golden):
    """JSON files of a model folder at their limit of 16 MiB."""
    limit, passed, words = 16 << 20, [], os.path.join(work, "words.txt")
    picture, folder = os.path.join(golden, "images", "grey.jpg"), os.path.join(work, "model")
    with open(words, "w", encoding="utf-8") as file:
        file.write("a word\n")
    for name, source in (("config.json", "clip-f32"), ("model.safetensors.index.json", "clip-bf16"), ("tokenizer.json", "clip-f32"),
                         ("vocab.json", "clip-f32")):
        shutil.copytree(os.path.join(golden, "models", source), folder)
        in_child(lambda: write_repeated(os.path.join(folder, name), '{"a":[0', lambda i: ",0" * 20, "]}", limit))
        command = ["embed", folder, picture] if name[:2] in ("co", "mo") else ["embed-text", folder, "--prompts", words]
        peak = peak_mib(koofu, *command, "-q", "-o", os.path.join(work, "e.safetensors"), wanted=3)
        print(f"{name} of 16 MiB: peak {peak:.1f} MiB, {7 * 16} allowed")
        passed.append(peak <= 7 * 16)
        shutil.rmtree(folder)
    return passed


def archive_directory(koofu, work):
    """An .npz of as many members as are read, with names as long as the directory has room for."""
    name = os.path.join(work, "d.npz")

    def make():
        with zipfile.ZipFile(name, "w") as archive:
            for i in range(65534):
                archive.writestr(f"{i:0180}.npy", b"")
    in_child(make)
    peak = peak_mib(koofu, "stats", name, "-q", "-o", os.path.join(work, "s.safetensors"), wanted=3)
    print(f"an archive of 65,534 members: peak {peak:.1f} MiB, 96 allowed")
    return [peak <= 96]


def turned_png(side):
    """A white picture that must be rotated, which takes a second copy of it."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    exif = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x112, 3, 1, 6, 0, 0)
    packer = zlib.compressobj(1)
    lines = b"".join(packer.compress(b"\0" + b"\xff" * side) for _ in range(side)) + packer.flush()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) + chunk(b"eXIf", exif)
            + chunk(b"IDAT", lines) + chunk(b"IEND", b""))


def pictures(koofu, work, golden):
    """Eight threads, and pictures of 36 million pixels: 216 MB each with the turned copy, 1.7 GB all at once."""
    folder, data, rows = os.path.join(work, "p"), turned_png(6000), []
    os.mkdir(folder)
    for i in range(8):
        with open(os.path.join(folder, f"{i}.png"), "wb") as file:
            file.write(data)
    for threads in ("1", "8"):
        out = os.path.join(work, f"e{threads}.safetensors")
        peak = peak_mib(koofu, "embed", os.path.join(golden, "models", "clip-f32"), folder, "--threads", threads, "-q", "-o", out)
        with open(out, "rb") as file:
            rows.append(file.read())
    shutil.rmtree(folder)
    print(f"8 pictures of 36 million pixels on 8 threads: peak {peak:.1f} MiB, {1024 + 64} allowed")
    return [peak <= 1024 + 64, rows[0] == rows[1]]


def main():
    koofu = sys.argv[1]
    work = tempfile.mkdtemp()
    try:
        if shutil.disk_usage(work).free < 2 << 30:
            print("left out: less than 2 GiB of disk are free")
            return 77
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
        passed = headers(koofu, work) + model_folders(koofu, work, golden) + archive_directory(koofu, work) + pictures(koofu, work, golden)
        passed += archives(koofu, work) + choosing(koofu, work) + statistics(koofu, work, int(sys.argv[2]) if len(sys.argv) > 2 else 400) + galleries(koofu, work)
        print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
        return 0 if all(passed) else 1
    finally:
        shutil.rmtree(work)


sys.exit(main())
