#!/usr/bin/env python3
"""The tables of docs/gpu.md from a log of `make bench-cuda`: tables.py BUILD/bench-cuda.log [docs/gpu.md].

Prints them; with a document, puts them there in the place of the old ones, which begin with the same line, and
renews the figures of the sentences after them.
"""

import re
import sys
from collections import namedtuple

Line = namedtuple("Line", "columns memory queries k ms least most tops peak survivors gigabytes rest")
LINE = re.compile(
    r" *(\d+) (pinned|pageable|file) +(\d+) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+) +([\d.]+)% +([\d.]+) +([\d.]+)(.*)"
)
PEERS = re.compile(r"paper ([\d.]+) s, ([\d.]+) x; FAISS ([\d.]+) s, ([\d.]+) x")
PAPER = "the paper's table: 1,281,167 rows, 50,000 queries, k = 15"
WIDTHS = ("768", "256", "64")


def read(path):
    """{title of a section, without the time: its text}"""
    with open(path, encoding="utf-8") as file:
        parts = re.split(r"\n== ", "\n" + file.read())
    return {re.sub(r" \([\d:]+\)$", "", part.split("\n")[0]): part for part in parts[1:]}


def lines_of(section):
    return [Line(*match.groups()) for match in map(LINE.fullmatch, section.split("\n")) if match]


def ms(text):
    x = float(text)
    return f"{x:.2f}" if x < 1 else f"{x:.1f}" if x < 100 else f"{x:,.0f}"


def widths(sections):
    """The paper's rows."""
    others = {(line.columns, line.memory): line.ms for line in lines_of(sections["queries in pageable memory and in a file"])}
    out = [
        "| columns | ms | range | of the int8 peak | survivors per query | pageable, ms | file, ms | paper, ms | FAISS, ms |"
        " times the paper | times FAISS |",
        "|" + " --: |" * 11,
    ]
    for line in lines_of(sections[PAPER]):
        if "0 wrong, 0 not nearest" not in line.rest:
            sys.exit(f"tables.py: wrong lists with {line.columns} columns")
        paper, of_paper, faiss, of_faiss = map(float, PEERS.search(line.rest).groups())
        cells = [
            line.columns,
            ms(line.ms),
            f"{ms(line.least)}–{ms(line.most)}",
            f"{float(line.peak):.0f} %",
            f"{float(line.survivors):.0f}",
            ms(others[line.columns, "pageable"]),
            ms(others[line.columns, "file"]),
            f"{1000 * paper:,.0f}",
            f"{1000 * faiss:,.0f}",
            f"{of_paper:.0f}",
            f"{of_faiss:.0f}",
        ]
        out.append(f"| {' | '.join(cells)} |")
    return out


def cases(sections):
    """All other searches; with the number of survivors, where that matters."""
    rows = (
        ("rows in f16", "rows in f16", False),
        ("one query; 16; 1,000", "few queries", False),
        ("k = 1; 10; 100; 1,024", "k", False),
        ("rows in clusters (survivors)", "clusters", True),
        ("some rows far longer than the others", "outliers", True),
        ("seven copies of each row", "copies", True),
        ("the synthetic world", "the synthetic world: rows as encoders make them", True),
    )
    out = ["| | 768 | 256 | 64 |", "| --- | --: | --: | --: |"]
    for name, title, told in rows:
        lines = lines_of(sections.get(title, ""))
        cells = []
        for width in WIDTHS:
            here = [line for line in lines if line.columns == width]
            cell = "; ".join(ms(line.ms) for line in here)
            cells.append(f"{cell} ({float(here[0].survivors):,.0f})" if told and here else cell)
        if lines:
            out.append(f"| {name} | {' | '.join(cells)} |")
    return out


def statistics(sections):
    part = sections["statistics of 1,281,000 x 768 in f16, in the page cache"]
    fits = sections["the command: koofu fit, lambda chosen"]
    seconds = {}
    for what, device, median in re.findall(r"^(statistics|fit) +(cuda|cpu) .* median of \d+ ([\d.]+) s", part, re.M):
        seconds[what, device] = float(median)
    rate = re.search(r"statistics cuda .* ([\d.]+) million rows/s", part)[1]
    commands = dict(re.findall(r"koofu fit --device (cuda|cpu): ([\d.]+) s", fits))
    return [
        "| | GPU | CPU |",
        "| --- | --- | --- |",
        f"| statistics | {seconds['statistics', 'cuda']:.3f} s, {float(rate):.1f} million rows/s"
        f" | {seconds['statistics', 'cpu']:.2f} s |",
        f"| `kf_fit`, λ chosen | {seconds['fit', 'cuda']:.2f} s | {seconds['fit', 'cpu']:.2f} s |",
        f"| `koofu fit`, the whole command | {commands['cuda']} s | {commands['cpu']} s |",
    ]


def sentences(text, sections):
    """The figures in the text after the tables."""
    large = lines_of(sections.get("13 million rows", ""))
    real = [lines_of(part) for title, part in sections.items() if title.startswith("real rows")]
    first = re.search(r" 768: index made in [\d.]+ s, brought to the device in ([\d.]+) s", sections[PAPER])
    if large:
        now = f"10,000 queries in {ms(large[0].ms)} ms, with {float(large[0].gigabytes):.1f} GB"
        text = re.sub(r"10,000 queries in [\d.,]+ ms, with [\d.]+ GB", now, text)
    if real and real[0]:
        text = re.sub(r"(up to 1,281,167 rows:) [\d.,]+ ms", rf"\1 {ms(real[0][0].ms)} ms", text)
    if first:
        text = re.sub(r"(also copies it:) [\d.]+ s", rf"\1 {float(first[1]):.1f} s", text)
    return text


def put(text, table):
    """The text with the table that begins with the same line replaced."""
    begin = text.index(table[0])
    end = text.index("\n\n", begin)
    return text[:begin] + "\n".join(table) + text[end:]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sections = read(sys.argv[1])
    tables = [widths(sections), cases(sections), statistics(sections)]
    if len(sys.argv) == 2:
        print("\n\n".join("\n".join(table) for table in tables))
        return
    with open(sys.argv[2], encoding="utf-8") as file:
        text = file.read()
    for table in tables:
        text = put(text, table)
    text = sentences(text, sections)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
