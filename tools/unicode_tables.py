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

import collections
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
STABLE = 0x300  # KF_UNICODE_STABLE

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


def check(classes, decomposed, pairs):
    """Checks the assumptions of unicode.c."""
    for c, to in decomposed.items():
        assert len(to) <= 2 * len(chr(c).encode()), hex(c)
    lower = {c: lowercase(chr(c)) for c in POINTS}
    longer = [c for c in POINTS if len(lower[c]) != 1]
    assert longer == [0x130] and lower[0x130] == "i\u0307", longer
    assert not any(c in classes for c in decomposed)
    assert all(nfc(chr(c)) == chr(c) for c in range(STABLE))
    assert min(classes) >= STABLE and min(second for _, second in pairs) >= STABLE


def versions(letters, lower, decomposed):
    """Code points added in a version of Unicode, with their data."""
    signs = {"regular expressions": [("15.1", 0x2EBF0 in letters), ("16.0", 0xA7DA in letters), ("17.0", 0xA7CE in letters)],
             "lower case": [("15.1", True), ("16.0", lower[0xA7CB] != 0xA7CB), ("17.0", lower[0xA7CE] != 0xA7CE)],
             "normalisation": [("9.0", True), ("10.0", moved(0x1DF6)), ("13.0", 0x11938 in decomposed)]}
    return {what: max((float(v) for v, holds in known if holds)) for what, known in signs.items()}


def moved(c):
    return nfd("a" + chr(c) + "\u0334") != "a" + chr(c) + "\u0334"


def numbers(kind, name, values, comment):
    """Prints an array; tuples are elements of structs."""
    lines = [""]
    for v in values:
        text = ("{" + ",".join(map(str, v)) + "}" if isinstance(v, tuple) else str(v)) + ","
        if len(lines[-1] + text) > 100:
            lines.append("")
        lines[-1] += text
    print(f"\n/* {comment} */\n{kind} {name}[{len(values)}] = {{", *lines, "};", sep="\n")


def ranges(values, step=1):
    """{c: value} as [(first, number, value)]: equal values of code points that are `step` apart."""
    found = []
    for c in sorted(values):
        first, n, value = found[-1] if found else (0, 0, None)
        if value == values[c] and c == first + n * step:
            found[-1] = (first, n + 1, value)
        else:
            found.append((c, 1, values[c]))
    return found


def lower_ranges(lower):
    """Two lists: of neighbours, and of code points two apart, as most capitals of later alphabets are."""
    apart = [r for r in ranges(lower, 2) if r[1] > 2]
    taken = {first + 2 * i for first, n, _ in apart for i in range(n)}
    return ranges({c: to for c, to in lower.items() if c not in taken}), apart


def numbered(keys):
    """The ranges of sorted code points, each with the number of its first one."""
    return [(c, n, keys.index(c)) for c, n, _ in ranges(dict.fromkeys(keys))]


def write_list(name, values, comment):
    """A kf_unicode_list."""
    numbers("static const kf_unicode_range", name, values, f"first code point, how many, {comment}")
    print(f"const kf_unicode_list kf_unicode_{name} = {{{len(values)}, {name}}};")


def write(kinds, classes, lower, found, pairs, agreed, version):
    singles = sorted(c for c, (_, second) in found.items() if second == 0)
    doubles = sorted(set(found) - set(singles))
    neighbours, apart = lower_ranges(lower)
    marks = collections.Counter(found[c][1] for c in doubles)
    marks = sorted(marks, key=lambda mark: (-marks[mark], mark))
    print("/* unicode_tables.c - generated by tools/unicode_tables.py; do not edit.")
    print(" *")
    print(f" * The results of tokenizers {version} for every code point. They agree with Unicode")
    for what, of in agreed.items():
        print(f" *   {of} in its {what},")
    print(" * as far as code points added in later versions tell. unicode.h says how to read them. */")
    print('#include "encode/unicode.h"')
    print("\n/* clang-format off */")
    write_list("kinds", ranges(kinds), "kf_unicode_kind")
    write_list("classes", ranges(classes), "combining class")
    write_list("lower", neighbours, "lower case - c")
    write_list("lower_apart", apart, "lower case - c; of code points two apart")
    write_list("singles", numbered(singles), "number in kf_unicode_single of the first")
    write_list("doubles", numbered(doubles), "number in kf_unicode_first and _second of the first")
    numbers("const uint32_t", "kf_unicode_single", [found[c][0] for c in singles], "what singles become")
    numbers("const uint32_t", "kf_unicode_first", [found[c][0] for c in doubles], "the first half of doubles")
    numbers("const uint8_t", "kf_unicode_second", [marks.index(found[c][1]) for c in doubles],
            "the second half, in kf_unicode_mark")
    numbers("const uint32_t", "kf_unicode_mark", marks, "second halves")
    numbers("const uint16_t", "kf_unicode_pairs", [doubles.index(pairs[key]) for key in sorted(pairs)],
            "doubles that form C composes, by first and second half")
    print(f"const uint32_t kf_unicode_n_pairs = {len(pairs)};")


def main():
    patterns = {1: r"\s", 2: r"\p{L}", 3: r"\p{N}"}  # kf_unicode_kind
    kinds = {c: kind for kind, pattern in patterns.items() for c in matching(pattern)}
    classes, decomposed = combining_classes(), decompositions()
    found = steps(decomposed)
    pairs = compositions(found)
    check(classes, decomposed, pairs)
    lower = {c: ord(lowercase(chr(c))[0]) for c in POINTS}
    lower[0x130] = 0x130  # becomes two, which unicode.c knows
    agreed = versions({c for c in kinds if kinds[c] == 2}, lower, decomposed)
    print(agreed, file=sys.stderr)
    lower = {c: to - c for c, to in lower.items() if to != c}
    write(kinds, classes, lower, found, pairs, agreed, tokenizers.__version__)


if __name__ == "__main__":
    main()
