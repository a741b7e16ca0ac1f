"""The library does not speak of the command line: neither its messages nor its headers' comments.

usage: messages.py KOOFU

Checks every string of src/ (except src/report, whose page may say how it was made) and every
comment of include/. None may contain an option ('--' and a letter, or a short one such as -o),
'koofu' and the name of a command, or such a name in quotes. The program itself lists commands and
short options.
"""

import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STRING = r'"(?:\\.|[^"\\\n])*"'
COMMENT = r"/\*.*?\*/|//[^\n]*"
# Names of commands that are also names of something in the library.
OTHER_THINGS = {"classes"}  # metadata of files, and a member of options
TOKEN = re.compile(rf"""(?P<comment>{COMMENT})|(?P<string>{STRING})|'(?:\\.|[^'\\])'""", re.S)


def rules(program):
    """[(what is wrong, pattern)]"""
    script = subprocess.run([program, "help", "--completion", "bash"], check=True, stdout=subprocess.PIPE).stdout.decode()
    listed = re.search(r'COMP_CWORD" -eq 1 .*?compgen -W "([^"]+)"', script, re.S)
    commands = listed.group(1).split() if listed else []
    short = sorted(set(re.findall(r"(?<=[\s\":|])-([A-Za-z])(?=[\s\")|])", script)))
    if len(commands) < 10 or "o" not in short:
        raise SystemExit(f"FAIL: the completion of {program} was not understood: commands {commands}, options {short}")
    name, alone = ("|".join(sorted(names, key=len, reverse=True)) for names in (commands, set(commands) - OTHER_THINGS))
    return [("an option", re.compile(r"(?<![\w-])--[a-z]")),
            ("a short option", re.compile(rf"(?<![\w-])-[{''.join(short)}](?![\w.-])")),
            ("a command", re.compile(rf"\bkoofu[ -](?:{name})\b")),
            ("a command in quotes", re.compile(rf"(['`])(?:{alone})\1"))]


def strings(text):
    """(line, content) of every string outside of comments and of #include; neighbours are one."""
    found, end = [], None
    for token in TOKEN.finditer(text):
        if not token.group("string") or re.search(r"^\s*#\s*include[^\n]*\Z", text[:token.start()], re.M):
            continue
        line, content = text.count("\n", 0, token.start()) + 1, token.group()[1:-1]
        between = text[end:token.start()] if end is not None else ";"
        if re.fullmatch(r"\s*(?:PRI\w+\s*)?", between):
            found[-1] = (found[-1][0], found[-1][1] + content)
        else:
            found.append((line, content))
        end = token.end()
    return found


def comments(text):
    """(line, content) of every line of a comment."""
    return [(text.count("\n", 0, token.start()) + 1 + i, line) for token in TOKEN.finditer(text) if token.group("comment")
            for i, line in enumerate(token.group().split("\n"))]


def main(program):
    patterns = rules(program)
    report = os.path.join(ROOT, "src", "report")
    sources = [p for p in sorted(glob.glob(os.path.join(ROOT, "src", "**", "*.[ch]"), recursive=True))
               if not p.startswith(report + os.sep)]
    headers = sorted(glob.glob(os.path.join(ROOT, "include", "*.h")))
    looked_at = wrong = 0
    for path in sources + headers:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for line, content in (comments if path in headers else strings)(text):
            looked_at += 1
            for what, pattern in patterns:
                if pattern.search(content):
                    wrong += 1
                    print(f"FAIL {os.path.relpath(path, ROOT)}:{line}: {what}: {content.strip()}")
                    break
    print(f"{looked_at} strings and lines of comments, {wrong} with words of the command line")
    return 1 if wrong or looked_at < 1000 else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1])))
