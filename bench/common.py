"""What the benchmarks share: the machine, times and data."""

import json
import os
import platform
import re
import shutil
import statistics
import struct
import subprocess
import time

import numpy as np

ISAS = ("amx", "avx512", "avx2", "plain")


def cpu():
    with open("/proc/cpuinfo") as f:
        names = re.findall(r"model name\s*: (.*)", f.read())
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} processors"


def cpu_has(flag):
    with open("/proc/cpuinfo") as f:
        return re.search(rf"^flags\s*:.* {flag}( |$)", f.read(), re.M) is not None


def timed(command):
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def clock(work):
    """How long work() takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def summary(seconds):
    runs = f"{len(seconds)} runs" if len(seconds) > 1 else "1 run"
    return f"{statistics.median(seconds):.3f} s ({min(seconds):.3f} – {max(seconds):.3f}, {runs})"


def tensors(path):
    """The tensors of a native data set, mapped."""
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
    types = {"F32": "<f4", "F16": "<f2", "I32": "<i4"}
    return {name: np.memmap(path, types[t["dtype"]], "r", 8 + length + t["data_offsets"][0], tuple(t["shape"]))
            for name, t in header.items() if isinstance(t, dict) and t.get("dtype") in types}


def synth(koofu, path, dim, classes, per_class, *options):
    subprocess.run([koofu, "synth", "--dim", str(dim), "--classes", str(classes), "--per-class", str(per_class),
                    "-q", "-o", path, *options], check=True)


def tool(given, work, name, *flags):
    """A given binary, or one built here; None where there is no compiler."""
    if given:
        return given
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        print(f"({name} is left out: no compiler, and no binary was given)\n")
        return None
    path = os.path.join(work, name)
    subprocess.run([compiler, *flags, "-pthread", os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.c"), "-o", path], check=True)
    return path
