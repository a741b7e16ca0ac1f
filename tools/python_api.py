#!/usr/bin/env python3
"""Prints the reference of the Python package in Markdown, from its docstrings; fails if a public name has none. Nothing is
imported, so this needs neither the package nor what it works with.

usage: python_api.py > FILE   (`make python-api`)
"""

import ast
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PACKAGE = os.path.join(ROOT, "python", "koofu")
HEAD = """# Python reference

Made from the docstrings by `make python-api`. The manual is docs/python.md.
"""


def parse(module):
    with open(os.path.join(PACKAGE, module + ".py"), encoding="utf-8") as file:
        source = file.read()
    tree = ast.parse(source)
    tree.lines = source.splitlines()
    return tree


def documented(node):
    return isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None


def public():
    """(heading, module, names), in page order."""
    exported = {}
    for node in parse("__init__").body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("koofu._"):
            for name in node.names:
                exported.setdefault(node.module.split(".")[1], []).append(name.asname or name.name)
    yield "The estimator", "estimator", ["KooFu"]
    for heading, module in (("Fitting and models", "_model"), ("Statistics", "_stats"), ("Data sets", "_data"),
                            ("Text", "_text"), ("Galleries", "_gallery"), ("Encoders", "_encoder"),
                            ("Files", "_files"), ("Judging", "_judge"), ("Settings", "_config"), ("Errors", "_errors")):
        yield heading, module, exported.pop(module, [])
    exported.pop("_koofu", None)
    if exported:
        sys.exit(f"python_api.py does not know where to put {exported}")
    for engine in ("dask", "ray", "spark"):
        names = [node.name for node in parse(engine).body
                 if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
        yield f"koofu.{engine}", engine, names


def signature(node, prefix, method):
    """A signature on one line, or on one line per argument."""
    arguments = node.args
    drop = method and not any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    parts = []
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for i, (argument, default) in enumerate(zip(positional, defaults)):
        if not (drop and i == 0):
            parts.append(argument.arg + (f"={ast.unparse(default)}" if default is not None else ""))
    if arguments.vararg:
        parts.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        parts.append("*")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        if not argument.arg.startswith("_"):
            parts.append(argument.arg + (f"={ast.unparse(default)}" if default is not None else ""))
    if arguments.kwarg:
        parts.append("**" + arguments.kwarg.arg)
    line = f"{prefix}({', '.join(parts)})"
    return line if len(line) < 100 else f"{prefix}(" + "".join(f"\n    {part}," for part in parts) + "\n)"


def text(docstring):
    """A docstring as Markdown: roles, parameters and sessions."""
    out, session = [], False
    for line in docstring.splitlines():
        code = line.startswith((">>> ", "... ")) or (session and line.strip() != "")
        if code != session:
            out += ["```python"] if code else ["```"]
            session = code
        if not code:
            line = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", line).replace("``", "`")
            line = re.sub(r"^:param ([^:]+):", lambda m: "- " + ", ".join(f"`{n.strip()}`" for n in m[1].split(",")) + ":",
                          line)
            line = re.sub(r"^    (?=\S)", "  ", line)
        out.append(line)
    return "\n".join(out + (["```"] if session else []))


def fields(node, tree):
    """(names, comment) of the members of a class that have a comment "#:" above them, and of its bases."""
    for base in node.bases:
        yield from (field for other in tree.body if isinstance(other, ast.ClassDef) and
                    isinstance(base, ast.Name) and other.name == base.id for field in fields(other, tree))
    names, comment = [], ""
    for member in node.body:
        if not isinstance(member, ast.AnnAssign) or member.target.id.startswith("_"):
            continue
        above = member.lineno - 2
        while tree.lines[above].lstrip().startswith("#:"):
            above -= 1
        found = " ".join(line.strip()[2:].strip() for line in tree.lines[above + 1 : member.lineno - 1])
        if found:
            if names:
                yield names, comment
            names, comment = [], found
        if comment:
            names.append(member.target.id)
    if names:
        yield names, comment


def describe_class(node, name, tree):
    first = next((m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    made = first is not None and "capsule" not in [a.arg for a in first.args.args]
    errors = any(isinstance(base, ast.Name) and base.id.endswith(("Exception", "Error")) for base in node.bases)
    yield f"### {name}\n"
    if made and not errors:
        yield f"```python\n{signature(first, name, True)}\n```\n"
    yield text(ast.get_docstring(node)) + "\n"
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and not m.name.startswith("_")]
    for method in methods:
        if not documented(method):
            sys.exit(f"python_api.py: {name}.{method.name} has no docstring")
    values = [m for m in methods if any(isinstance(d, ast.Name) and d.id in ("property", "cached_property")
                                        for d in m.decorator_list)]
    known = list(fields(node, tree))
    for names, comment in known:
        yield f"- {', '.join(f'`{n}`' for n in names)}: {text(comment)}"
    for value in values:
        yield f"- `{value.name}`: {text(ast.get_docstring(value))}".replace("\n", "\n  ")
    if values or known:
        yield ""
    for method in methods:
        if method not in values:
            short = name.rsplit(".", 1)[-1]
            yield f"#### {short}.{method.name}\n\n```python\n{signature(method, method.name, True)}\n```\n"
            yield text(ast.get_docstring(method)) + "\n"


def page():
    yield HEAD
    for heading, module, names in public():
        yield f"## {heading}\n"
        tree = parse(module)
        prefix = f"koofu.{module}" if module in ("dask", "ray", "spark") else "koofu"
        if prefix != "koofu" or module == "_judge":
            yield text(ast.get_docstring(tree)) + "\n"
        nodes = {node.name: node for node in tree.body if documented(node)}
        for name in names:
            if name not in nodes:
                sys.exit(f"python_api.py: {module}.{name} has no docstring")
            node = nodes[name]
            if isinstance(node, ast.ClassDef):
                yield from describe_class(node, f"{prefix}.{name}", tree)
            else:
                yield f"### {prefix}.{name}\n\n```python\n{signature(node, name, False)}\n```\n"
                yield text(ast.get_docstring(node)) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    print(re.sub(r"\n{3,}", "\n\n", "\n".join(page())).strip())
