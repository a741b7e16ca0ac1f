"""Memory is bounded as promised: the peaks of `koofu stats`, `index`, `search`, `fit` and `eval`.

usage: memory.py KOOFU [PER_CLASS]

Statistics of 400,000 x 768 f16 (or PER_CLASS rows in each of the 1,000 classes) must stay below 100 MiB, and within 4
bytes a row of what a tenth of the rows takes. Writing a gallery takes the same for any number of rows. A search that leaves the
f32 rows on disk takes a byte for each value and 8 for each row (4 of them its label) beyond what the search of a small
gallery takes; with the rows in memory, four bytes more for each value. Unpacking a compressed .npz and reading a table of
labels take the same for any number of rows.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

LIMIT_MIB, GROWTH_MIB = 100, 4


def peak_mib(*command):
    """Runs a command; the peak of its resident memory."""
    pid = os.spawnv(os.P_NOWAIT, command[0], list(command))
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
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


def archives(koofu, work):
    """Ten times the rows of a compressed .npz (100 MB of f32), with labels in a .csv."""
    dim, peaks = 256, []
    data, labels, out = (os.path.join(work, name) for name in ("a.npz", "a.csv", "a.safetensors"))
    block = b"".join(struct.pack(f"<{dim}f", *((i * 7 + j * 3) % 11 - 5 for j in range(dim))) for i in range(1000))
    for blocks in (10, 100):
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1000 * blocks}, {dim}), }}".ljust(117) + "\n"
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
            member.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode())
            for _ in range(blocks):
                member.write(block)
        with open(labels, "w", encoding="utf-8") as file:
            file.write("path,label\n" + "".join(f'"{i}.jpg","class {i % 11}"\n' for i in range(1000 * blocks)))
        peaks.append(peak_mib(koofu, "stats", data, "--labels", labels, "--label-column", "label", "-q", "-o", out))
    print(f"stats on a compressed .npz, 100,000 x {dim} f32 and a table of labels: peak {peaks[1]:.1f} MiB, "
          f"{peaks[1] - peaks[0]:.1f} more than for a tenth")
    return [peaks[1] <= peaks[0] + GROWTH_MIB]


def main():
    koofu = sys.argv[1]
    work = tempfile.mkdtemp()
    try:
        if shutil.disk_usage(work).free < 2 << 30:
            print("left out: less than 2 GiB of disk are free")
            return 77
        passed = archives(koofu, work) + choosing(koofu, work) + statistics(koofu, work, int(sys.argv[2]) if len(sys.argv) > 2 else 400) + galleries(koofu, work)
        print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
        return 0 if all(passed) else 1
    finally:
        shutil.rmtree(work)


sys.exit(main())
