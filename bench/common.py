"""Shared by all groups of rows: the machine, data, sides, turns."""

import json
import os
import platform
import re
import struct
import subprocess
import sys
import time

import numpy as np

from side import Missing, Side
from table import FASTER, Sample

HERE = os.path.dirname(os.path.abspath(__file__))
CLOCKS = ("wall", "processor")  # in the order in which sides answer
ISAS = ("amx", "avx512", "avx2")
REST = 0.3  # seconds before a turn: threads of OpenMP wait busily for work for up to 0.2 after theirs
PATIENCE = 20  # seconds: what takes longer has two rounds and no more


def cpu():
    with open("/proc/cpuinfo") as f:
        names = re.findall(r"model name\s*: (.*)", f.read())
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} processors"


def cpu_has(flag):
    with open("/proc/cpuinfo") as f:
        return re.search(rf"^flags\s*:.* {flag}( |$)", f.read(), re.M) is not None


def blas_environment(threads, level="avx512"):
    """Environment for programs with a BLAS: the number of threads, and the kernels of OpenBLAS, since some releases
    take new CPUs for old ones and are several times slower. level: "avx2" holds all of them to AVX2; None: free."""
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("OPENBLAS_", "OMP_", "MKL_", "FAISS_", "PYTHON")) and k != "LD_PRELOAD"}
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = str(threads)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if level == "avx2":
        environment.update(OPENBLAS_CORETYPE="HASWELL", MKL_ENABLE_INSTRUCTIONS="AVX2", FAISS_SIMD_LEVEL="AVX2",
                           FAISS_OPT_LEVEL="AVX2")
    elif level is not None:
        environment["OPENBLAS_CORETYPE"] = "SKYLAKEX" if cpu_has("avx512bw") else "HASWELL"
    return environment


def tensors(path):
    """The tensors of a data set of koofu, memory-mapped."""
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
    types = {"F32": "<f4", "F16": "<f2", "I32": "<i4"}
    return {name: np.memmap(path, types[t["dtype"]], "r", 8 + length + t["data_offsets"][0], tuple(t["shape"]))
            for name, t in header.items() if isinstance(t, dict) and t.get("dtype") in types}


def read_once(path):
    """Reads a file into the page cache."""
    with open(path, "rb") as f:
        while f.read(1 << 24):
            pass


def on_disk(path):
    """Whether the file is on a disk, not in a file system in memory."""
    with open("/proc/mounts") as f:
        mounts = [line.split()[1:3] for line in f]
    path = os.path.realpath(path)
    _, kind = max((m for m in mounts if os.path.commonpath([path, m[0]]) == m[0]), key=lambda m: len(m[0]))
    return kind not in ("tmpfs", "ramfs")


def forget(path):
    """Drops a file from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    """A run: options, folder, table."""

    def __init__(self, options, table, work):
        self.o, self.table, self.work = options, table, work
        self.sides, self.absent = [], {}
        self.binary = os.path.join(options.build, "koofu")
        self.library = os.path.abspath(os.path.join(options.build, "libkoofu.so"))
        self.isas = [isa for isa in options.isa if self.works(isa)]
        if not self.isas:
            raise SystemExit(f"bench: this machine has none of {', '.join(options.isa)}")

    def works(self, isa):
        return subprocess.run([self.binary, "demo", "--isa", isa, "--classes", "3", "--dim", "8", "--per-class", "3",
                               "--test-per-class", "1", "-q"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def size(self, full, quick):
        return quick if self.o.quick else full

    # --- data -------------------------------------------------------------------------------------

    def path(self, name):
        return os.path.join(self.work, name)

    def world(self, classes, dim, per_class, dtype="f32", split=0):
        """A synthetic data set, created once, in the page cache."""
        path = self.path(f"{classes}-{dim}-{per_class}-{dtype}-{split}.safetensors")
        if not os.path.exists(path):
            self.run("synth", "--classes", classes, "--dim", dim, "--per-class", per_class, "--dtype", dtype,
                     "--split", split, "-o", path)
            read_once(path)
        return path

    # --- sides ------------------------------------------------------------------------------------

    def pick(self, times):
        """The time that counts in this run."""
        return times[CLOCKS.index(self.o.clock)]

    def run(self, *words):
        """Runs one command of koofu."""
        start = time.perf_counter()
        process = subprocess.Popen([self.binary, *map(str, words), "-q"], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"koofu {' '.join(map(str, words))} failed")
        return wall, used.ru_utime + used.ru_stime

    def command(self, isa, *words):
        """A turn of koofu with one instruction set."""
        return lambda: self.run(*words, "--isa", isa, "--threads", self.o.threads)

    def cold(self, path, turn):
        """A turn with the file on disk, not in the page cache."""
        def with_a_cold_file():
            forget(path)
            return turn()
        return with_a_cold_file

    def side(self, name, command, environment=None):
        """A side that runs until stop_sides."""
        self.sides.append(Side(name, command, environment))
        return self.sides[-1]

    def c_side(self, name, *words):
        return self.side(name, [os.path.join(self.o.build, "bench", f"bench_{name}"), *map(str, words)])

    def python_side(self, file, environment=None, python=sys.executable, **request):
        request.update(threads=self.o.threads, clock=CLOCKS.index(self.o.clock))
        return self.side(request["kind"], [python, os.path.join(HERE, file), json.dumps(request)],
                         environment or blas_environment(self.o.threads))

    def peer(self, start, *names):
        """The side that `start` makes, or None if it is not installed. names: its names in rows."""
        try:
            side = start()
        except Missing as missing:
            self.absent.update(dict.fromkeys(names, str(missing)))
            return None
        say(side.what)
        return side

    def stop_sides(self):
        for side in self.sides:
            side.stop()
        self.sides = []

    def turns(self, sides):
        """Runs the sides in turn, round by round, so that noise affects all alike: {name: Sample}."""
        times = {name: [] for name in sides}
        for number in range(self.o.repeat):
            for name, turn in sides.items():
                if number < 2 or times[name][0] <= PATIENCE:
                    time.sleep(0 if self.o.quick else REST)
                    times[name].append(self.pick(turn()))
        return {name: Sample(t) for name, t in times.items()}

    # --- rows -------------------------------------------------------------------------------------

    def compare(self, group, what, isa, ours, against, other, sense=FASTER):
        """A row beside a peer; other None: the peer is not installed."""
        if other is None:
            self.table.skip(group, what, isa, against, self.absent[against])
        else:
            self.table.compare(group, what, isa, ours, against, other, sense)

    def limit(self, group, what, isa, ours, against, seconds, sense):
        """A row with a limit, which is for the wall clock and two threads."""
        if self.o.clock == "wall" and self.o.threads == 2:
            self.table.compare(group, what, isa, ours, against, Sample([seconds]), sense)
        else:
            self.table.skip(group, what, isa, against, "a limit of the wall clock with two threads")
