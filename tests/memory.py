"""Memory is bounded by the model, not by the data: the peak of `koofu stats`.

usage: memory.py KOOFU

1,281,000 x 768 f16 in 1,000 classes (2 GB) must stay below 400 MiB, and within 4 MiB of what a tenth
of the rows takes.
"""

import os
import shutil
import subprocess
import sys
import tempfile

LIMIT_MIB, GROWTH_MIB = 400, 4


def peak_mib(*command):
    """Runs a command; the peak of its resident memory."""
    pid = os.spawnv(os.P_NOWAIT, command[0], list(command))
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise SystemExit(f"FAIL: {' '.join(command)} gave status {status}")
    return usage.ru_maxrss / 1024


def main():
    koofu = sys.argv[1]
    work = tempfile.mkdtemp()
    try:
        if shutil.disk_usage(work).free < 3 << 30:
            print("left out: less than 3 GiB of disk are free")
            return 77
        peaks = []
        for per_class in (128, 1281):
            data = os.path.join(work, "data.safetensors")
            subprocess.run([koofu, "synth", "--dim", "768", "--classes", "1000", "--per-class", str(per_class),
                            "--dtype", "f16", "-q", "-o", data], check=True)
            peaks.append(peak_mib(koofu, "stats", data, "-q", "-o", os.path.join(work, "s.safetensors")))
            print(f"stats on {per_class * 1000:,} x 768 f16, 1,000 classes: peak {peaks[-1]:.1f} MiB")
        failed = (peaks[1] > LIMIT_MIB) + (peaks[1] > peaks[0] + GROWTH_MIB)
        print(f"{2 - failed} passed, {failed} failed")
        return 1 if failed else 0
    finally:
        shutil.rmtree(work)


sys.exit(main())
