#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the functions that a public call can reach, as a measure of how much code stands behind it.

usage: reach.py [--list] [--check] [FUNCTION …]

Compiles src/ without inlining, one section for each function and table, and follows the relocations: calls, and
functions whose address is taken, directly or through tables. That is an upper bound: a table of kernels brings in
the kernels of every instruction set. The second column leaves out the files that serve GPUs and ranks alone.
--list prints the functions that are counted there; --check fails if a limit below is exceeded.
"""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {"kf_fit": 1000, "kf_gallery_search": 250, "kf_classify": 280}
APART = re.compile(r"/device/|/device_|base/ranks\.c|base/out_shared\.c|file/spread\.c")
FLAGS = ("-std=c17 -D_GNU_SOURCE -DKF_EXPERIMENTAL -DKF_SIMD -O0 -fno-inline -ffunction-sections -fdata-sections -w"
         " -march=sapphirerapids -mamx-tile -mamx-int8 -mamx-bf16").split()


def compile_all(folder):
    """Objects of all files, a name for each."""
    def one(path):
        out = Path(folder) / (str(path.relative_to(ROOT)).replace("/", "+") + ".o")
        command = [os.environ.get("CC", "gcc"), *FLAGS, f"-I{ROOT}/include", f"-I{ROOT}/src", "-c", path, "-o", out]
        subprocess.run(command, check=True)
        return path.relative_to(ROOT), out
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, sorted((ROOT / "src").glob("*/*.c"))))


def read_object(path):
    """Sections by number, symbols as (name, section number, is a function, is global), relocations by section."""
    text = subprocess.run(["readelf", "-SsrW", path], check=True, capture_output=True, text=True).stdout
    sections, symbols, relocations, now = {}, [], {}, None
    for line in text.splitlines():
        if found := re.match(r"\s*\[\s*(\d+)\] (\S+)\s", line):
            sections[int(found[1])] = found[2]
        elif found := re.match(r"Relocation section '\.rela(\S+)'", line):
            now = relocations.setdefault(found[1], set())
        elif now is not None and (found := re.match(r"[0-9a-f]{12,16}\s+[0-9a-f]+\s+R_\S+\s+[0-9a-f]+\s+(\S+)", line)):
            now.add(found[1])
        elif found := re.match(r"\s*\d+: [0-9a-f]+\s+\S+\s+(\w+)\s+(\w+)\s+\w+\s+(\d+)\s+(\S+)$", line):
            symbols.append((found[4], int(found[3]), found[1] == "FUNC", found[2] == "GLOBAL"))
    return sections, symbols, relocations


def graph(objects):
    """Edges between nodes (file, section), the node of each global name, and the name of each function's node."""
    edges, places, functions, wanted = {}, {}, {}, {}
    for file, path in objects:
        sections, symbols, relocations = read_object(path)
        local = {}
        for name, section, is_function, is_global in symbols:
            node = (str(file), sections.get(section, ""))
            local[name] = node
            if is_global:
                places[name] = node
            if is_function:
                functions[node] = name
        for section, names in relocations.items():
            wanted[str(file), section] = (str(file), names, local)
    for node, (file, names, local) in wanted.items():
        edges[node] = {local.get(name) or places.get(name) or (file, name) for name in names}
    return edges, places, functions


def reached(start, edges, functions, inline, apart):
    """The functions behind a node, as names of one definition each."""
    seen, todo = {start}, [start]
    while todo:
        for node in edges.get(todo.pop(), ()):
            if node not in seen and not (apart and APART.search("/" + node[0])):
                seen.add(node)
                todo.append(node)
    return {functions[node] if functions[node] in inline else f"{node[0]}:{functions[node]}"
            for node in seen if node in functions}


def count(names):
    """How many functions and files."""
    return len(names), len({name.split(":")[0] for name in names if ":" in name})


def main():
    starts = [a for a in sys.argv[1:] if not a.startswith("--")] or list(LIMITS)
    inline = set()
    for header in ROOT.glob("src/*/*.h"):
        inline |= set(re.findall(r"static (?:inline )[^;{]*?(\w+)\(", header.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        edges, places, functions = graph(compile_all(folder))
    over = False
    print(f"{'':24}{'all':>18}   {'without GPU, ranks':>18}   {'limit':>5}")
    for start in starts:
        if start not in places:
            sys.exit(f"reach.py: no function {start}")
        everything = reached(places[start], edges, functions, inline, False)
        alone = reached(places[start], edges, functions, inline, True)
        cells = ["{:5,} in {:3} files".format(*count(names)) for names in (everything, alone)]
        limit = LIMITS.get(start, 0)
        over |= 0 < limit < len(alone)
        print(f"{start:24}{cells[0]:>18}   {cells[1]:>18}   {limit or '–':>5}")
        if "--list" in sys.argv:
            print("\n".join("  " + name for name in sorted(alone)))
    sys.exit(1 if over and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
