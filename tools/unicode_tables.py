#!/usr/bin/env python3
"""Writes src/encode/unicode_tables.c: the Unicode data that CLIP's tokenizer needs.

    python3 tools/unicode_tables.py > src/encode/unicode_tables.c

The reference tokenizer (the `tokenizers` package) does not use one version of Unicode: its regular
expressions, its lower case and its normalisation come from three libraries with tables of different
years. So this script asks the package itself about every code point, and writes down the answers:

  - letters, numbers and white space from Split(Regex(...)),
  - lower case from Lowercase, which works on single characters (no final sigma),
  - decompositions, combining classes and compositions from NFD and NFC.

Needs `tokenizers` 0.23. The version of Unicode that the answers agree with is printed to stderr, from
code points that only later versions have.
"""

import bisect
import collections
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
LEAF, BRANCH, COVERED = 8, 16, 0x32400  # as in unicode.h; the smallest tables

nfd = normalizers.NFD().normalize_str
nfc = normalizers.NFC().normalize_str
lowercase = normalizers.Lowercase().normalize_str


def matching(pattern):
    """The code points that a regular expression matches."""
    gone = normalizers.Replace(Regex(pattern), "")
    found = set()
    for i in range(0, len(POINTS), 4096):
        block = POINTS[i : i + 4096]
        found |= set(block) - set(map(ord, gone.normalize_str("".join(map(chr, block)))))
    return found


def combining_classes():
    """Combining classes, from the order in which NFD puts two marks; those of older marks are known."""
    low, high = "\u0334", "\u0345"  # classes 1 and 240

    def moves(a, b):
        return nfd("a" + a + b) != "a" + a + b

    known = {}
    for c in POINTS:
        k = unicodedata.combining(chr(c))
        if k and k not in known and nfd(chr(c)) == chr(c) and (k == 1 or moves(chr(c), low)):
            known[k] = chr(c)
    classes = {}
    for c in POINTS:
        mark = chr(c)
        if nfd(mark) != mark or not (moves(high, mark) or moves(mark, low)):
            continue
        equal = [k for k, other in known.items() if not moves(mark, other) and not moves(other, mark)]
        assert len(equal) == 1, (hex(c), equal)
        classes[c] = equal[0]
    return classes


def decompositions():
    """Decompositions, except of Hangul syllables, which have a formula."""
    found = {c: [ord(x) for x in nfd(chr(c))] for c in POINTS if not 0xAC00 <= c < 0xD7A4}
    return {c: to for c, to in found.items() if to != [c]}


def steps(decomposed):
    """{c: (first, second)}: c decomposes to these two, and the first may decompose further; second 0: to the first alone."""
    whole = {tuple(to): c for c, to in decomposed.items()}
    found = {}
    for c, to in decomposed.items():
        first = nfc("".join(map(chr, to[:-1])))
        first = ord(first) if len(first) == 1 else whole.get(tuple(to[:-1]), 0)
        found[c] = (first, to[-1]) if len(to) > 1 else (to[0], 0)
        assert first > 0 or len(to) == 1, hex(c)
    return found


def compositions(found):
    """{(first, second): c}"""
    composed = {step: c for c, step in found.items() if nfc(chr(c)) == chr(c)}
    for (first, second), c in composed.items():
        assert second > 0 and nfc(chr(first) + chr(second)) == chr(c), hex(c)
    return composed


def check(classes, decomposed):
    """Checks the assumptions of unicode.c."""
    for c, to in decomposed.items():
        assert len(to) <= 2 * len(chr(c).encode()), hex(c)
    lower = {c: lowercase(chr(c)) for c in POINTS}
    longer = [c for c in POINTS if len(lower[c]) != 1]
    assert longer == [0x130] and lower[0x130] == "i\u0307", longer
    assert not any(c in classes for c in decomposed)
    for c in range(0x80):
        assert c not in decomposed and c not in classes


def versions(letters, lower, decomposed):
    """Code points added in a version of Unicode, with their data."""
    signs = {"regular expressions": [("15.1", 0x2EBF0 in letters), ("16.0", 0xA7DA in letters), ("17.0", 0xA7CE in letters)],
             "lower case": [("15.1", True), ("16.0", lower[0xA7CB] != 0xA7CB), ("17.0", lower[0xA7CE] != 0xA7CE)],
             "normalisation": [("9.0", True), ("10.0", moved(0x1DF6)), ("13.0", 0x11938 in decomposed)]}
    return {what: max((float(v) for v, holds in known if holds)) for what, known in signs.items()}


def moved(c):
    return nfd("a" + chr(c) + "\u0334") != "a" + chr(c) + "\u0334"


def numbers(name, kind, values, comment):
    """Prints an array; tuples are elements of structs."""
    lines = [""]
    for v in values:
        text = ("{" + ",".join(map(str, v)) + "}" if isinstance(v, tuple) else str(v)) + ","
        if len(lines[-1] + text) > 100:
            lines.append("")
        lines[-1] += text
    print(f"\n/* {comment} */\nconst {kind} {name}[{len(values)}] = {{", *lines, "};", sep="\n")


def by_frequency(lists):
    """The distinct elements, most frequent first, and {element: its index}."""
    order = [v for v, _ in collections.Counter(v for one in lists for v in one).most_common()]
    return order, {v: i for i, v in enumerate(order)}


def cut(values, n):
    """The distinct runs of n consecutive values, and the index of each run."""
    parts = [tuple(values[i : i + n]) for i in range(0, len(values), n)]
    return list(dict.fromkeys(parts)), parts


def packed(values):
    """Records, leaves of records, branches of leaves, and the trunk of branches. Frequent numbers are small."""
    leaves, at = cut(values, LEAF)
    branches, at = cut(at, BRANCH)
    records, record_of = by_frequency(leaves)
    leaves, leaf_of = by_frequency(branches)
    branches, branch_of = by_frequency([at])
    assert records[0] == (0, 0, 0, 0, 0) and len(records) <= 256 and len(branches) <= 256
    return (records, [record_of[v] for leaf in leaves for v in leaf], [leaf_of[v] for branch in branches for v in branch],
            [branch_of[v] for v in at])


def main():
    spaces, letters, digits = matching(r"\s"), matching(r"\p{L}"), matching(r"\p{N}")
    classes, decomposed = combining_classes(), decompositions()
    found = steps(decomposed)
    pairs = compositions(found)
    check(classes, decomposed)
    lower = {c: ord(lowercase(chr(c))[0]) for c in POINTS}
    lower[0x130] = 0x130  # becomes two, which unicode.c knows
    seconds = {second for _, second in pairs}

    def record(c):
        kind = 1 if c in spaces else 2 if c in letters else 3 if c in digits else 0
        hangul = 0x1161 <= c < 0x1176 or 0x11A8 <= c < 0x11C3
        unstable = c in classes or c in seconds or hangul or nfc(chr(c)) != chr(c)
        return (kind, classes.get(c, 0), int(unstable), int(c in decomposed), lower[c] - c)

    values = [(0, 0, 0, 0, 0) if 0xD800 <= c < 0xE000 else record(c) for c in range(0x110000)]
    assert not any(map(any, values[COVERED:])) and any(map(any, values[COVERED - LEAF * BRANCH:COVERED]))
    del values[COVERED:]
    records, leaves, branches, trunk = packed(values)
    keys = sorted(found)
    runs = [i for i, c in enumerate(keys) if i == 0 or keys[i - 1] != c - 1]
    marks = [0] + by_frequency([[second for _, second in pairs]])[0]
    marks += sorted({second for _, second in found.values()} - set(marks))

    agreed = versions(letters, lower, decomposed)
    print(agreed, len(records), "records", len(leaves) + 2 * len(branches) + len(trunk), "bytes", file=sys.stderr)
    print("/* unicode_tables.c - generated by tools/unicode_tables.py; do not edit.")
    print(" *")
    print(f" * The results of tokenizers {tokenizers.__version__} for every code point. They agree with Unicode")
    for what, version in agreed.items():
        print(f" *   {version} in its {what},")
    print(" * as far as code points added in later versions tell. unicode.h says how to read them. */")
    print('#include "encode/unicode.h"')
    print("\n/* clang-format off */")
    numbers("kf_unicode_record", "kf_unicode_info", records, "kind, combining class, unstable, decomposes, lower case - c")
    numbers("kf_unicode_leaf", "uint8_t", leaves, f"records of {LEAF} code points each")
    numbers("kf_unicode_branch", "uint16_t", branches, f"{BRANCH} leaves each")
    numbers("kf_unicode_trunk", "uint8_t", trunk, "branches")
    numbers("kf_unicode_runs", "kf_unicode_run", [(keys[i], i) for i in runs],
            "decompositions: runs of code points, each with the number of the first one")
    numbers("kf_unicode_first", "uint32_t", [found[c][0] for c in keys], "decompositions: the first half")
    numbers("kf_unicode_second", "uint8_t", [marks.index(found[c][1]) for c in keys], "the second half, in kf_unicode_mark")
    numbers("kf_unicode_mark", "uint32_t", marks, "0: there is none")
    numbers("kf_unicode_pairs", "uint16_t", [bisect.bisect(keys, pairs[key]) - 1 for key in sorted(pairs)],
            "decompositions that form C undoes, by first and second half")
    print(f"\nconst uint32_t kf_unicode_n_runs = {len(runs)}, kf_unicode_n_pairs = {len(pairs)};")


if __name__ == "__main__":
    main()
