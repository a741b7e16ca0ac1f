"""tools/abi.py --compatible takes new members from `reserved` and refuses those in padding.

usage: abi_growth.py CC
"""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLD = "int a; uint64_t reserved[3];"
LATER = {  # members of the same struct in a later version: what is said of them
    OLD: "as they were",
    "int a; int64_t b; uint64_t reserved[2];": "as they were",
    "int a; int b; uint64_t reserved[3];": "has '4 4 b: int' in what was padding",
    "int a; int64_t b; uint64_t reserved[3];": "formerly 32 bytes",
}


def header(folder, members):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "koofu.h")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"#include <stddef.h>\n#include <stdint.h>\ntypedef struct kf_x_options {{ {members} }} kf_x_options;\n")
    return path


def main():
    failures = []
    with tempfile.TemporaryDirectory() as work:
        old = header(os.path.join(work, "old"), OLD)
        for members, wanted in LATER.items():
            folder = os.path.dirname(header(os.path.join(work, "new"), members))
            result = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "abi.py"), "--cc", sys.argv[1],
                                     "--include", folder, "--compatible", old], stdout=subprocess.PIPE, check=False)
            said = result.stdout.decode()
            if result.returncode == 77:
                return 77
            if wanted not in said or (result.returncode == 0) != (wanted == "as they were"):
                failures.append(f"'{members}': status {result.returncode}, {said}")
    for failure in failures:
        print(f"FAIL {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
