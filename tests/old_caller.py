"""A program that was compiled with the headers of an earlier version runs with the library of today.

usage: old_caller.py CC LIBKOOFU.so SOVERSION PROGRAM SOURCE [ARGUMENT ...]

For each frozen header of this soname (tests/abi/koofu_VERSION.h): SOURCE, an example, compiled with it, prints what
PROGRAM prints, which was compiled with the headers of today. An example that needs more than the header has is left out.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def compile_old(cc, header, library, source, work):
    """The program, by an include path on which every public header is the frozen one."""
    include, program = os.path.join(work, "include"), os.path.join(work, "old")
    os.makedirs(include, exist_ok=True)
    for name in os.listdir(os.path.join(ROOT, "include")):
        with open(os.path.join(include, name), "w", encoding="utf-8") as out:
            out.write(f'#include "{header}"\n')
    subprocess.run([cc, "-I", include, source, library, "-lm", "-o", program], check=True)
    return program


def said(program, arguments, library):
    """Status and output, without the random part of the names of temporary files."""
    result = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                            env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(library)})
    return result.returncode, re.sub(r"(koofu-\w+-)\w{6}", r"\1XXXXXX", result.stdout.decode("utf-8", "replace"))


def missing(header, source):
    """Names of the library in the source that the header does not have."""
    used, known = (set(re.findall(r"\b(?:kf|KF)_\w+", open(path, encoding="utf-8").read())) for path in (source, header))
    return sorted(used - known)


def main(cc, library, soversion, program, source, *arguments):
    headers = sorted(glob.glob(os.path.join(ROOT, "tests", "abi", f"koofu_{soversion}.*.h")))
    if not headers:
        print(f"FAIL: no tests/abi/koofu_{soversion}.*.h; write it with tools/abi.py --freeze")
        return 1
    status, ran = 0, 0
    for header in headers:
        absent = missing(header, source)
        if absent:
            print(f"left out: {os.path.basename(header)} has no {', '.join(absent)}")
            continue
        ran += 1
        with tempfile.TemporaryDirectory() as work:
            old = said(compile_old(cc, header, library, source, work), arguments, library)
        now = said(program, arguments, library)
        if old == now and now[0] == 0:
            print(f"the same with {os.path.basename(header)}")
        else:
            print(f"FAIL with {os.path.basename(header)}: status {old[0]}, not {now[0]}\n{old[1]}instead of\n{now[1]}")
            status = 1
    return status or (0 if ran else 77)


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
