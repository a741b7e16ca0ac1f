"""Every public function that hands out an object first sets the caller's pointer to NULL.

usage: out_parameters.py

So a caller may free the pointer after a failed call (KF_NOTHING in base.h).
"""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def read(pattern):
    return "\n".join(COMMENT.sub("", open(path, encoding="utf-8").read()) for path in sorted(glob.glob(os.path.join(ROOT, pattern))))


def main():
    sources, failures, found = read("src/*/*.c"), [], 0
    for name, parameters in re.findall(r"KF_API\s+kf_status\s+(kf_\w+)\(([^;]*?)\);", read("include/*.h"), re.S):
        outs = re.findall(r"(?<!const )\bkf_\w+ \*\*(\w+)", parameters)
        if not outs:
            continue
        found += 1
        body = re.search(rf"^kf_status {name}\([^;{{]*?\) \{{\n(.*?)\bKF_ENTER\b|^kf_status {name}\([^;{{]*?\) \{{\n(.*?)^\}}", sources,
                         re.S | re.M)
        beginning = (body.group(1) or body.group(2) or "") if body else ""
        failures += [f"{name}: KF_NOTHING({out}) is missing" for out in outs if f"KF_NOTHING({out}" not in beginning]
    if found < 40:
        failures.append(f"only {found} such functions were found in include/")
    print("\n".join(f"FAIL: {failure}" for failure in failures) or f"{found} functions")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
