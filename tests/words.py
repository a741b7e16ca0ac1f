"""One word for one thing, in plain English: the table 'Words' of docs/architecture.md, and this list, hold throughout.

usage: words.py [ROOT]

Reads the table. A word in code type in its column 'not' may not occur, alone or as a part of a name; the other words
there are for the reader to judge, because they have good uses elsewhere. Beside the table it refuses names that say
nothing, phrases that are not English, 'rank' where it cannot be a process, and comments beyond 100 columns.
"""

import os
import re
import sys

FOLDERS = ("src", "cli", "serve", "mpi", "cuda", "include", "python", "docs")
KINDS = (".c", ".h", ".cu", ".cuh", ".py", ".js", ".html", ".md")
C_KINDS = (".c", ".h", ".cu", ".cuh")

# (pattern, what to write instead)
NAMES = [(r"\b(MUCH|SOME|TWO|ENOUGH)\b", "a name that says which quantity this is"),
         (r"\bkf_index_reaches\b", "kf_index_raise_max_length"), (r"\b\w*poll_rank\b", "kf_poll_position"),
         (r"\b(ours|much|so)\s*(=[^=]|;|\[)(?=.*;)", "a name that says what it holds")]
PHRASES = [(r"\bin fine\b", "at higher precision"),
           (r"\b(at most|at least|of|by|over|in|after) so many\b", "this many"),
           (r"\bso many (of|bytes|rows|columns|steps|scores|prototypes|queries|outputs|files)\b", "this many"),
           (r"\bwhat there is to\b", "name the thing"),
           (r"\b(of|none of|not|is|are|be|as|with) ours\b", "written by koofu, koofu's"),
           (r"\bhopeful\b", "optimistic"),
           (r"\b(is|are) no error\b", "is not an error"),
           (r"\bremarked upon\b", "noted, logged"),
           (r"\b(is|are) told (by|from)\b", "recognised by, distinguished by"),
           (r"\bwithout a word\b", "silently"),
           (r"\bsay (it|that) again\b", "retry"),
           (r"\bnot less than (any|the|\|)", "at least"),
           (r"\b(which|that) (is|are) none\b", "name the case: padding, missing, unknown"),
           (r"\bis none of (its|the|their) (choices|kinds)\b", "invalid, unknown"),
           (r"\b[Oo]ne (row|line|class|pixel|zero|byte|key|device|number|query|column|file|bit) more\b(?! than)",
            "one more ..."),
           (r"\bone less than the number of\b", "the number of ... minus one"),
           (r"\bwhat it is is\b", "its kind, its format is"),
           (r"\bthe more so\b", "especially"),
           (r"\b(nothing|something) of the kind\b", "name the thing"),
           (r"\b(by|from) (their|its) first bytes\b", "magic bytes"),
           (r"\bof no account\b", "ignored"),
           (r"\bare always right\b|\bThere (<b>)?%s(</b>)? are right|\bAsk something to see\b|\boptions on statistics, labels\b",
            "a plainer sentence: users complained about this one")]

# 'rank' is a process, or the rank of a matrix. A file where neither is mentioned means a position.
RANK = re.compile(r"\branks?\b", re.I)
SAYS_WHICH = re.compile(r"ranks\b|kf_comm|kf_ctx_rank|koofu_mpi|MPI|matrix rank|within_rank")
RANK_IS_RIGHT = re.compile(r"(this|that|each|every|one|per|a|another|own|next|other|^ *\*) rank\b"
                           r"|\brank(-files|_files| [0-9%])|(low|full)[ -]rank"
                           r"|[\"`]rank[\"`]|_id, rank|id, rank,", re.I)  # the last ones: a column of .parquet answers

COMMENT = re.compile(r"/\*|^ *\* |//")
# {beginning of a path: a pattern of what is right there}
DATA = {"src/encode/unicode_tables.c": r".*",  # tables
        "src/recipe/text_mean.c": r"\"(bench|desk)\"",  # everyday things
        "src/choose/": r"\w*finder\w*",  # a kf_position_finder finds positions; it is not memory
        "docs/architecture.md": r"^\| .*"}  # the table itself
# The benchmark is called bench: its folders, its programs and the targets of make.
BENCH = r"bench/[\w./*]*|make [\w ]*bench[\w-]*|bench[_-]\w+|build/bench-\w+|<!-- make bench"


def table(root):
    """{banned word: the word to use}, of the table 'Words'."""
    with open(os.path.join(root, "docs", "architecture.md"), encoding="utf-8") as file:
        section = file.read().split("\n## Words\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")]
    if not rows or rows[0] != ["word", "means", "not"]:
        raise SystemExit("FAIL: docs/architecture.md lacks a table 'word', 'means', 'not' under 'Words'")
    return {word: row[0] for row in rows[2:] for word in re.findall(r"`([^`]+)`", row[2])}


def rules(banned):
    """[(pattern, what to write)]"""
    return ([(re.compile(rf"(?<![A-Za-z]){word}s?(?![A-Za-z])"), use) for word, use in banned.items()]
            + [(re.compile(pattern), use) for pattern, use in NAMES]
            + [(re.compile(pattern, re.I), use) for pattern, use in PHRASES])


def faults(path, text, patterns):
    """[(line number, what is there, what to write)] of a file."""
    found = []
    right = re.compile("|".join([BENCH] + [pattern for name, pattern in DATA.items() if path.startswith(name)]))
    says_which = SAYS_WHICH.search(text)
    for number, line in enumerate(text.split("\n"), 1):
        if path.endswith(C_KINDS) and len(line) > 100 and COMMENT.search(line):
            found.append((number, f"{len(line)} columns", "at most 100 columns in a comment"))
        line = right.sub("", line)
        found += [(number, match.group(), use) for pattern, use in patterns for match in pattern.finditer(line)]
        if not says_which and RANK.search(RANK_IS_RIGHT.sub("", line)):
            found.append((number, "rank", "position, or matrix rank"))
    return found


def files(root):
    for folder in FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if f not in ("tests", "bench", "build", "__pycache__"))
            yield from (os.path.join(where, name) for name in sorted(names) if name.endswith(KINDS))


def main(root):
    patterns = rules(table(root))
    bad = "/* Of ours there are at most so many; the desk with the best rank holds them in fine. */" + " " * 40 + "/* long */"
    if len(faults("src/model/sample.c", bad, patterns)) < 6 or faults("src/a.c", "/* Each rank has a workspace. */", patterns):
        raise SystemExit("FAIL: the rules do not find what they are for")
    wrong = looked_at = 0
    for path in files(root):
        looked_at += 1
        with open(path, encoding="utf-8") as file:
            for number, what, use in faults(os.path.relpath(path, root), file.read(), patterns):
                wrong += 1
                print(f"FAIL {os.path.relpath(path, root)}:{number}: '{what.strip()}': write: {use}")
    print(f"{looked_at} files, {wrong} words to replace")
    return 1 if wrong or looked_at < 300 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
