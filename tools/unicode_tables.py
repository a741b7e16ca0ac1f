#!/usr/bin/env python3
"""Writes src/encode/unicode_tables.c: what CLIP's tokenizer must know of Unicode.

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

import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BLOCK = 128

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
    """From the order in which NFD puts two marks. The classes of marks that are old enough are known."""
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
    """Of everything but Hangul syllables, which have a formula."""
    found = {c: [ord(x) for x in nfd(chr(c))] for c in POINTS if not 0xAC00 <= c < 0xD7A4}
    return {c: to for c, to in found.items() if to != [c]}


def compositions(decomposed):
    pairs = {}
    for c, to in decomposed.items():
        if nfc(chr(c)) != chr(c):
            continue  # never composed
        first = nfc("".join(map(chr, to[:-1])))
        assert len(first) == 1 and nfc(first + chr(to[-1])) == chr(c), hex(c)
        pairs[ord(first), to[-1]] = c
    return pairs


def check(classes, decomposed, pairs):
    """What unicode.c takes for granted."""
    for c, to in decomposed.items():
        assert len(to) <= 2 * len(chr(c).encode()), hex(c)
    lower = {c: lowercase(chr(c)) for c in POINTS}
    longer = [c for c in POINTS if len(lower[c]) != 1]
    assert longer == [0x130] and lower[0x130] == "i\u0307", longer
    assert not any(c in classes for c in decomposed)
    for c in range(0x80):
        assert c not in decomposed and c not in classes


def versions(letters, lower, decomposed):
    """Code points that came with a version of Unicode, and what it says of them."""
    signs = {"regular expressions": [("15.1", 0x2EBF0 in letters), ("16.0", 0xA7DA in letters), ("17.0", 0xA7CE in letters)],
             "lower case": [("15.1", True), ("16.0", lower[0xA7CB] != 0xA7CB), ("17.0", lower[0xA7CE] != 0xA7CE)],
             "normalisation": [("9.0", True), ("10.0", moved(0x1DF6)), ("13.0", 0x11938 in decomposed)]}
    return {what: max((float(v) for v, holds in known if holds)) for what, known in signs.items()}


def moved(c):
    return nfd("a" + chr(c) + "\u0334") != "a" + chr(c) + "\u0334"


def numbers(name, kind, values, comment, per_line, form="{}"):
    print(f"\n/* {comment} */")
    print(f"const {kind} {name}[{len(values)}] = {{")
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(form.format(v) for v in values[i : i + per_line]) + ",")
    print("};")


def main():
    spaces, letters, digits = matching(r"\s"), matching(r"\p{L}"), matching(r"\p{N}")
    classes, decomposed = combining_classes(), decompositions()
    pairs = compositions(decomposed)
    check(classes, decomposed, pairs)
    lower = {c: ord(lowercase(chr(c))[0]) for c in POINTS}
    lower[0x130] = 0x130  # becomes two, which unicode.c knows
    seconds = {second for _, second in pairs}

    def record(c):
        kind = 1 if c in spaces else 2 if c in letters else 3 if c in digits else 0
        hangul = 0x1161 <= c < 0x1176 or 0x11A8 <= c < 0x11C3
        unstable = c in classes or c in seconds or hangul or nfc(chr(c)) != chr(c)
        return (kind, classes.get(c, 0), int(unstable), int(c in decomposed), lower[c] - c)

    records, blocks, index = {}, {}, []
    for first in range(0, 0x110000, BLOCK):
        block = []
        for c in range(first, first + BLOCK):
            r = (0, 0, 0, 0, 0) if 0xD800 <= c < 0xE000 else record(c)
            block.append(records.setdefault(r, len(records)))
        index.append(blocks.setdefault(tuple(block), len(blocks)))
    assert len(records) <= 256 and len(blocks) <= 65536

    found = versions(letters, lower, decomposed)
    print(found, len(records), "records", len(blocks), "blocks", file=sys.stderr)
    print("/* unicode_tables.c - generated by tools/unicode_tables.py; do not edit.")
    print(" *")
    print(f" * The results of tokenizers {tokenizers.__version__} for every code point. They agree with Unicode")
    for what, version in found.items():
        print(f" *   {version} in its {what},")
    print(" * as far as code points added in later versions tell.")
    print(" *")
    print(f" * Code point c has the record kf_unicode_record[kf_unicode_block[kf_unicode_index[c / {BLOCK}]][c % {BLOCK}]]. */")
    print('#include "encode/unicode.h"')
    print("\n/* clang-format off */")
    numbers("kf_unicode_record", "kf_unicode_info", list(records), "kind, combining class, unstable, decomposes, lower case - c", 6, "{{{0[0]}, {0[1]}, {0[2]}, {0[3]}, {0[4]}}}")
    numbers("kf_unicode_index", "uint16_t", index, "blocks of 128 code points", 24)
    print(f"\nconst uint8_t kf_unicode_block[{len(blocks)}][{BLOCK}] = {{")
    for block in blocks:
        print("    {" + ", ".join(map(str, block)) + "},")
    print("};")
    keys = sorted(decomposed)
    pool, places = [], []
    for c in keys:
        places.append(len(pool))
        pool += decomposed[c]
    places.append(len(pool))
    numbers("kf_unicode_decomposed", "uint32_t", keys, "what decomposes, Hangul aside", 12, "0x{:x}")
    numbers("kf_unicode_place", "uint16_t", places, "where in kf_unicode_pool decomposition i begins", 20)
    numbers("kf_unicode_pool", "uint32_t", pool, "full decompositions", 12, "0x{:x}")
    composed = [(a, b, pairs[a, b]) for a, b in sorted(pairs)]
    numbers("kf_unicode_pairs", "kf_unicode_pair", composed, "first, second: together", 4, "{{0x{0[0]:x}, 0x{0[1]:x}, 0x{0[2]:x}}}")
    print(f"const uint32_t kf_unicode_decompositions = {len(keys)};")
    print(f"const uint32_t kf_unicode_compositions = {len(composed)};")


if __name__ == "__main__":
    main()
