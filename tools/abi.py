#!/usr/bin/env python3
"""The binary interface of the public headers: a snapshot, the growth rule, exported names.

usage: abi.py [--include FOLDER] [--cc COMPILER] WHAT...

  --check            compares the interface with tests/abi/koofu.abi and shows the difference
  --write            writes tests/abi/koofu.abi
  --growth-rule      every struct that a caller allocates must end in a member `reserved`
  --exports LIB      the shared library exports the functions of the headers, under one version node, and nothing else

The headers are all of the folder but koofu_mpi.h, with what is experimental. Sizes, offsets and values come from a C program, which
the compiler builds from the declarations and this script runs.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SNAPSHOT = os.path.join(ROOT, "tests", "abi", "koofu.abi")
ATTRIBUTE = '__attribute__((visibility("default")))'  # what KF_API expands to
VERSIONS = re.compile(r"KF_VERSION\w*")  # macros that change with every release
# Structs that callers allocate but that will never grow.
COMPLETE = {"kf_lambda": "a number and its unit", "kf_hits": "an element of the caller's array"}


class NotUnderstood(Exception):
    pass


# --- reading ---------------------------------------------------------------------------------------


def all_headers(folder):
    """#include lines for the headers of libkoofu in a folder. An installed one may also have koofu_mpi.h, which is of
    another library and needs mpi.h."""
    names = sorted(name for name in os.listdir(folder) if name != "koofu_mpi.h")
    return "#define KF_EXPERIMENTAL\n" + "".join(f'#include "{name}"\n' for name in names)


def preprocess(folder, cc):
    """(code, defines) of the headers of a folder."""
    text = subprocess.run([cc, "-E", "-dD", "-I", folder, "-x", "c", "-"], check=True, input=all_headers(folder).encode(),
                          stdout=subprocess.PIPE).stdout.decode()
    ours, code, defines = False, [], {}
    for line in text.splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            ours = os.path.dirname(os.path.abspath(marker.group(1))) == folder
        elif ours and line.startswith("#define "):
            name, body = re.match(r"#define (\w+(?:\([^)]*\))?)\s*(.*)", line).groups()
            defines[name] = body
        elif ours and not line.startswith("#"):
            code.append(line)
    return "\n".join(code), defines


def words(text):
    return re.findall(r'"(?:\\.|[^"])*"|[A-Za-z_]\w*|\d[\w.]*|\.\.\.|\S', text)


def spell(tokens):
    """Joins tokens with the usual spaces: 'const char *const *'."""
    text = " ".join(tokens)
    text = re.sub(r" ([,)\]\[])", r"\1", text)
    text = re.sub(r"([(\[*]) ", r"\1", text)
    return re.sub(r"(\w) \(", r"\1(", text)


def split(tokens, at):
    """Splits at a token outside of brackets."""
    parts, depth = [[]], 0
    for token in tokens:
        depth += (token in "([{") - (token in ")]}")
        if token == at and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


KEYWORDS = {"const", "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "struct", "enum"}


def declarator(tokens):
    """(type, name) of one declaration; the name of a parameter may be missing ('')."""
    if ":" in tokens or "{" in tokens:
        raise NotUnderstood(spell(tokens))
    for i, token in enumerate(tokens[:-3]):
        if token == "(" and tokens[i + 1] == "*":  # a pointer to a function: result (*name)(parameters)
            return f"{spell(tokens[:i])} (*)({parameters(tokens[i + 5:-1])})", tokens[i + 2]
    array = tokens.index("[") if "[" in tokens else len(tokens)
    head, tail = tokens[:array], tokens[array:]
    named = len(head) > 1 and re.match(r"[A-Za-z_]", head[-1]) and head[-1] not in KEYWORDS
    if named and head[-2] in ("struct", "enum"):
        named = False
    return (spell(head[:-1] + tail), head[-1]) if named else (spell(tokens), "")


def parameters(tokens):
    """The types of parameters; an array is a pointer."""
    return ", ".join(re.sub(r"\[\w*\]$", " *", declarator(part)[0]) for part in split(tokens, ","))


def members(tokens):
    """[(type, name)] of the members of a struct, 'double low, high;' as two."""
    found = []
    for line in split(tokens, ";"):
        if not line:
            continue
        parts = split(line, ",")
        first = parts[0]
        ends = [i for i, token in enumerate(first) if token in "*(["]
        base = first[:ends[0]] if ends and first[ends[0]] != "[" else first[:(ends or [len(first)])[0] - 1]
        found += [declarator(part if i == 0 else base + part) for i, part in enumerate(parts)]
    return found


def prototype(tokens):
    """(name, text without the names of parameters)."""
    open_at = tokens.index("(")
    result, name = declarator(tokens[:open_at])
    return name, f"{result} ({parameters(tokens[open_at + 1:-1])})".replace("* (", "*(")


def parse(code):
    """The declarations: dicts of functions, structs, enums, function types, and a list of opaque types."""
    found = {"function": {}, "struct": {}, "enum": {}, "type": {}, "opaque": []}
    for tokens in split(words(code.replace(ATTRIBUTE, "KF_API")), ";"):
        if not tokens or tokens in (["}"], ["extern", '"C"', "{"]):
            continue
        if tokens[0] == "KF_API":
            name, text = prototype(tokens[1:])
            found["function"][name] = text
        elif tokens[0] == "typedef" and "{" in tokens and tokens[1] in ("struct", "enum"):
            body = tokens[tokens.index("{") + 1:len(tokens) - 1 - tokens[::-1].index("}")]
            kind, name = tokens[1], tokens[-1]
            found[kind][name] = members(body) if kind == "struct" else [part[0] for part in split(body, ",") if part]
        elif tokens[0] == "struct" and "{" in tokens:
            found["struct"][tokens[1]] = members(tokens[3:-1])
        elif tokens[0] == "typedef" and tokens[1] == "struct" and len(tokens) == 4:
            found["opaque"].append(tokens[-1])
        elif tokens[0] == "typedef" and "(" in tokens:
            kind, name = declarator(tokens[1:])
            found["type"][name] = kind
        elif not (tokens[0] == "struct" and len(tokens) == 2):
            raise NotUnderstood(spell(tokens))
    return found


# --- measuring -------------------------------------------------------------------------------------

PROGRAM = r"""
#include <stdio.h>
#define TYPE(x) _Generic((x), char *: "string", const char *: "string", int: "int", unsigned: "unsigned", \
  long: "long", unsigned long: "unsigned long", float: "float", double: "double", default: "?")
#define NUMBER(x) _Generic((x), char *: 0, const char *: 0, default: (x))
#define STRING(x) _Generic((x), char *: (x), const char *: (x), default: "")
int main(void) {
"""


def measure(folder, cc):
    """{key: (line, [lines of members])} of everything that the headers declare."""
    code, defines = preprocess(folder, cc)
    found = parse(code)
    lines = []
    for name, body in found["struct"].items():
        lines.append(f'printf("struct {name}\\t%zu\\t%zu\\n", sizeof({name}), _Alignof({name}));')
        lines += [f'printf("member {name} {m}\\t%zu\\t%zu\\n", offsetof({name}, {m}), sizeof((({name} *)0)->{m}));'
                  for _, m in body]
    for name, constants in found["enum"].items():
        lines.append(f'printf("enum {name}\\t%zu\\n", sizeof({name}));')
        lines += [f'printf("constant {c}\\t%lld\\n", (long long){c});' for c in constants]
    macros = [n for n, body in defines.items() if body and "(" not in n and n != "KF_API" and not VERSIONS.fullmatch(n)]
    for name in macros:
        lines.append(f'printf("macro {name}\\t%s\\t%.17g\\t%s\\n", TYPE({name}), (double)NUMBER({name}), STRING({name}));')
    output = run_program(folder, cc, PROGRAM + "\n".join(lines) + "\nreturn 0; }\n")
    known = dict(line.split("\t", 1) for line in output.splitlines())
    result = {}
    for name, body in found["struct"].items():
        size, align = known[f"struct {name}"].split("\t")
        inner = [(m, *map(int, known[f"member {name} {m}"].split("\t")), kind) for kind, m in body]
        result[f"struct {name}"] = (f"{size} bytes, aligned to {align}", [f"{at:5} {n:5}  {m}: {kind}" for m, at, n, kind in inner])
    for name, constants in found["enum"].items():
        result[f"enum {name}"] = (f"{known[f'enum {name}']} bytes", [f"{c} = {known[f'constant {c}']}" for c in constants])
    for name in macros:
        kind, number, string = known[f"macro {name}"].split("\t")
        result[f"macro {name}"] = (string if kind == "string" else f"{number} ({kind})", [])
    for name, body in defines.items():
        if "(" in name:
            result[f"macro {name}"] = (body, [])
    for kind in ("function", "type"):
        for name, text in found[kind].items():
            result[f"{kind} {name}"] = (text, [])
    for name in found["opaque"]:
        if name not in found["struct"]:
            result[f"opaque {name}"] = ("", [])
    return found, result


def run_program(folder, cc, source):
    with tempfile.TemporaryDirectory() as work:
        program, file = os.path.join(work, "abi"), os.path.join(work, "abi.c")
        with open(file, "w", encoding="utf-8") as out:
            out.write(all_headers(folder) + source)
        subprocess.run([cc, "-std=c11", "-w", "-I", folder, file, "-o", program], check=True)
        return subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout.decode()


def text_of(measured):
    lines = ["# The binary interface of the public headers on 64-bit systems, by tools/abi.py --write.",
             "# Members: offset, size, name, type.", ""]
    for key, (head, inner) in sorted(measured.items()):
        lines.append(f"{key}: {head}".rstrip(": "))
        lines += [f"  {line}" for line in inner]
    return [line + "\n" for line in lines]


# --- checking --------------------------------------------------------------------------------------


def check_snapshot(measured):
    with open(SNAPSHOT, encoding="utf-8") as file:
        wanted = file.readlines()
    difference = list(difflib.unified_diff(wanted, text_of(measured), "tests/abi/koofu.abi", "include"))
    if difference:
        return ["".join(difference) + "The interface has changed. If that is meant: tools/abi.py --write, "
                                      "and give the reason in CHANGELOG.md."]
    print(f"the interface matches the snapshot ({len(measured)} declarations)")
    return []


def allocated_by_callers(found):
    """Structs whose name ends in _options, and those passed by pointer that no function returns."""
    taken, handed_out = set(), set()
    for text in found["function"].values():
        taken |= set(re.findall(r"(\w+) \*(?!\*)", text[text.index("("):]))
        handed_out |= set(re.findall(r"(\w+) \*\*", text))
    return sorted(name for name in found["struct"]
                  if name.endswith("_options") or name in taken and name not in handed_out)


def check_growth(found):
    wrong = [name for name in allocated_by_callers(found)
             if name not in COMPLETE and found["struct"][name][-1][1] != "reserved"]
    if not wrong:
        print(f"{len(allocated_by_callers(found))} structs can grow")
    return [f"{name} is allocated by callers and does not end in a member `reserved`" for name in wrong]


def check_exports(found, library):
    output = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                            stdout=subprocess.PIPE).stdout.decode()
    symbols = [line.split()[-2:] for line in output.splitlines()]
    nodes = {name for kind, name in symbols if kind == "A"}
    exported = dict(name.partition("@")[::2] for kind, name in symbols if kind != "A")
    declared = set(found["function"])
    failures = [f"{name} is declared, but not exported" for name in sorted(declared - set(exported))]
    failures += [f"{name} is exported, but not declared" for name in sorted(set(exported) - declared)]
    failures += [f"{name} has the version '{at.strip('@')}', not that of the library, {sorted(nodes)}"
                 for name, at in sorted(exported.items()) if len(nodes) != 1 or at.strip("@") not in nodes]
    if not failures:
        print(f"{len(exported)} functions are exported as {nodes.pop()}, those of the headers")
    return failures


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--include", default=os.path.join(ROOT, "include"))
    parser.add_argument("--cc", default="cc")
    for option in ("--check", "--write", "--growth-rule"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--exports")
    todo = parser.parse_args()
    if sys.maxsize < 2**63 - 1:
        print("skipped: the snapshot is for 64-bit systems")
        return 77
    try:
        found, measured = measure(os.path.abspath(todo.include), todo.cc)
        failures = []
        if todo.write:
            with open(SNAPSHOT, "w", encoding="utf-8") as file:
                file.writelines(text_of(measured))
        if todo.check:
            failures += check_snapshot(measured)
        if todo.growth_rule:
            failures += check_growth(found)
        if todo.exports:
            failures += check_exports(found, todo.exports)
    except NotUnderstood as reason:
        failures = [f"not understood: {reason}"]
    for failure in failures:
        print(f"FAIL {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
