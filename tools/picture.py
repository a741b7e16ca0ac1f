#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/architecture.svg: the rooms of src/ with the includes between them, and the walk of the data.

usage: picture.py [--check]

Rooms, levels and arrows are read from the #include lines. A room stands one level above the highest room that it sees;
the longest chain of rooms is the column on the left. An arrow that follows from others is left out. With --check the
file is compared with what would be drawn now.
"""

import re
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "architecture.svg"

# The purpose of each room, in few words.
CAPTIONS = {
    "kernel": "hot loops: plain, AVX2, AVX-512, AMX",
    "base": "errors, memory, threads, files, JSON",
    "device": "GPUs: a plug-in, its devices",
    "file": "rows, labels and names from any file",
    "stats": "exact integer moments, scatter",
    "model": "eigensolver, fit, map, prototypes",
    "search": "nearest rows, galleries, votes",
    "score": "truth, accuracy, comparisons",
    "choose": "λ, dimensions, k; sweeps, few-shot",
    "report": "one HTML page",
    "recipe": "fit, report, quickstart: one call each",
    "encode": "pictures, words → rows",
    "synth": "a synthetic world",
    "info": "what is in a file",
    "export": "models for ONNX, FAISS, C",
}
GUESTS = {"cli": "one file a command", "examples": "programs to start from"}
INSIDERS = ("tests", "fuzz")  # may look into every room
# Steps of the data, each with its room. A second line that begins with 'or' is an alternative.
WALK = [(("files",), "file"), (("rows",), "file"), (("integers",), "stats"), (("moments",), "stats"),
        (("S_w, S_b",), "stats"), (("T",), "model"), (("mapped", "rows"), "model"),
        (("neighbours", "or prototypes"), "search"), (("accuracy",), "score")]
# Rooms that join: the step above which they stand, and what they add.
JOINING = [(1, ("pictures,", "words"), "encode"), (5, ("λ, dimensions",), "choose")]

LEGEND = ("An arrow: files of the one include a header of the other.",
          "Arrows that follow from others are left out.")

# --- colours: (light, dark) --------------------------------------------------------------------------

STYLE = {
    ".paper": ("fill:#ffffff;stroke:#d0d7de", "fill:#0d1117;stroke:#30363d"),
    ".ink": ("fill:#1f2328", "fill:#e6edf3"),
    ".faint": ("fill:#59636e", "fill:#9198a1"),
    ".line": ("stroke:#6e7781", "stroke:#8b949e"),
    ".head": ("fill:#6e7781", "fill:#8b949e"),
    ".rule": ("stroke:#d8dee4", "stroke:#30363d"),
    ".box": ("fill:#f6f8fa;stroke:#afb8c1", "fill:#161b22;stroke:#484f58"),
    ".header": ("fill:#fff8e6;stroke:#c9a227", "fill:#2b2410;stroke:#9a7d1f"),
}
# Rooms of the walk have colours of their own, which the steps share.
TINTS = [("fill:#fdf1e3;stroke:#c77b2b", "fill:#2d1f10;stroke:#b5722b"), ("fill:#e6f1fc;stroke:#2f75bd", "fill:#10233a;stroke:#3d83cc"),
         ("fill:#efeafc;stroke:#7656c4", "fill:#211a38;stroke:#8467cf"), ("fill:#e6f5ea;stroke:#2e8b4f", "fill:#10291a;stroke:#3a9a5c"),
         ("fill:#fce8ec;stroke:#bf4a66", "fill:#331620;stroke:#c75873"), ("fill:#e3f4f4;stroke:#2a8686", "fill:#0f2a2b;stroke:#379494"),
         ("fill:#f7f3d9;stroke:#8a7a1d", "fill:#26230f;stroke:#948527")]

# --- the house ---------------------------------------------------------------------------------------


def included(folder):
    """The folders of all quoted headers that the C files of a folder include."""
    found = set()
    for path in sorted(folder.glob("*.[ch]")):
        found |= set(re.findall(r'^\s*#\s*include\s*["<]([^"/>]+)/[^">]*[">]', path.read_text(encoding="utf-8"), re.M))
    return found


def read_house():
    """{room: rooms that its files include}"""
    rooms = sorted(path.name for path in (ROOT / "src").iterdir() if path.is_dir())
    return {room: (included(ROOT / "src" / room) & set(rooms)) - {room} for room in rooms}


def everything_below(house, room):
    return house[room].union(*(everything_below(house, other) for other in house[room])) if house[room] else set()


def level_of(house, room):
    return 1 + max((level_of(house, other) for other in house[room]), default=-1)


def trunk_of(house):
    """The longest chain, from the top; among equals the first by name."""
    at = min(house, key=lambda room: (-level_of(house, room), room))
    chain = [at]
    while house[at]:
        at = min((r for r in house[at] if level_of(house, r) == level_of(house, at) - 1))
        chain.append(at)
    return chain


def arrows_of(house):
    """The includes that are not implied by others (transitive reduction)."""
    return [(room, other) for room in sorted(house) for other in sorted(house[room])
            if not any(other in everything_below(house, via) for via in house[room] - {other})]


# --- drawing -----------------------------------------------------------------------------------------

WIDTH, MARGIN = 1000, 30
TRUNK, SIDE, BOX, GAP = 292, 190, 44, 24
CHANNEL = 58  # between the trunk and the other rooms, for arrows
INSIDE = 108  # width of the column of tests


class Drawing:
    def __init__(self):
        self.parts = []

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, content, size=13, kind="ink", anchor="middle", bold=False):
        content = escape(content)
        content = re.sub(r"S_(\w)", r'S<tspan dy="3" font-size="75%">\1</tspan><tspan dy="-3">&#8203;</tspan>', content)
        weight = ' font-weight="bold"' if bold else ""
        self.add(f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{weight}>{content}</text>')

    def box(self, x, y, width, height, kind, radius=7):
        self.add(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"/>')

    def room(self, x, y, width, name, caption, kind):
        self.box(x, y, width, BOX, kind)
        self.text(x + width / 2, y + (19 if caption else 27), name, 15, bold=True)
        if caption:
            self.text(x + width / 2, y + 36, caption, 12, "faint")

    def arrow(self, points, radius=6):
        """A line along points, with rounded corners, and a head at its end."""
        (x, y), path = points[0], []
        path.append(f"M{x:g} {y:g}")
        for (ax, ay), (bx, by), (cx, cy) in zip(points, points[1:], points[2:]):
            r = min(radius, (abs(bx - ax) + abs(by - ay)) / 2, (abs(cx - bx) + abs(cy - by)) / 2)
            sign = lambda d: (d > 0) - (d < 0)
            path.append(f"L{bx - sign(bx - ax) * r:g} {by - sign(by - ay) * r:g}")
            path.append(f"Q{bx:g} {by:g} {bx + sign(cx - bx) * r:g} {by + sign(cy - by) * r:g}")
        (px, py), (x, y) = points[-2:]
        path.append(f"L{x:g} {y:g}")
        self.add(f'<path class="line" d="{"".join(path)}" fill="none" stroke-width="1.4"/>')
        if x == px:
            self.add(f'<path class="head" d="M{x:g} {y + 1:g}l-4.5 -8h9z"/>')
        else:
            self.add(f'<path class="head" d="M{x + 1:g} {y:g}l-8 -4.5v9z"/>')


def place(house):
    """{room: (column, level)}: the trunk in column 0, the others beside it in the order of their names."""
    trunk, places = trunk_of(house), {}
    for room in sorted(house):
        level = level_of(house, room)
        beside = sum(1 for at in places.values() if at[0] > 0 and at[1] == level)
        places[room] = (0, level) if room in trunk else (1 + beside, level)
    return places


def draw_house(d, house, top, kinds):
    places = place(house)
    levels = 1 + max(level for _, level in places.values())

    def left(room):
        column = places[room][0]
        return MARGIN if column == 0 else MARGIN + TRUNK + CHANNEL + (column - 1) * (SIDE + 18)

    def width(room):
        return TRUNK if places[room][0] == 0 else SIDE

    def above(room):
        return top + (levels - 1 - places[room][1]) * (BOX + GAP)

    # Each target has its own height in the gap above it and, for arrows from far above, its own lane beside the trunk.
    arrows = arrows_of(house)
    far = sorted({to for of, to in arrows if places[of][1] > places[to][1] + 1})
    bent = sorted({to for of, to in arrows if places[of][0] + places[to][0] > 0} | set(far))
    lane = {to: round(MARGIN + TRUNK + CHANNEL * (i + 1) / (len(far) + 1)) for i, to in enumerate(far)}
    for of, to in arrows:
        begin, end = above(of) + BOX, above(to) - 2
        if places[of][0] == places[to][0] == 0 and places[of][1] == places[to][1] + 1:
            d.arrow([(left(of) + TRUNK / 2, begin), (left(of) + TRUNK / 2, end)])
            continue
        here, there = (left(room) + (TRUNK - 46 if places[room][0] == 0 else SIDE / 2) for room in (of, to))
        same = [room for room in bent if places[room][1] == places[to][1]]
        down = end - GAP / 2 - 2 + 5 * same.index(to)
        if places[of][1] == places[to][1] + 1:
            d.arrow([(here, begin), (here, down), (there, down), (there, end)] if here != there else [(here, begin), (here, end)])
        else:
            out = begin + GAP / 2 - 4
            d.arrow([(here, begin), (here, out), (lane[to], out), (lane[to], down), (there, down), (there, end)])
    for room in house:
        d.room(left(room), above(room), width(room), room, CAPTIONS.get(room, ""), kinds.get(room, "box"))
    return levels, above


def draw_insiders(d, house, top, levels, above):
    """The column of guests that see all rooms: at each level, which rooms they include."""
    x, height = WIDTH - MARGIN - INSIDE, levels * (BOX + GAP) - GAP
    seen = set().union(*(included(ROOT / name) for name in INSIDERS)) & set(house)
    d.box(x, top, INSIDE, height, "box")
    d.text(x + INSIDE / 2, top - 10, ", ".join(INSIDERS), 15, bold=True)
    for level in range(levels):
        names = [room for room in sorted(house) if level_of(house, room) == level and room in seen]
        for i, name in enumerate(names):
            y = above(name) + BOX / 2 + 4 + 15 * (i - (len(names) - 1) / 2)
            d.text(x + INSIDE / 2, y, name, 12, "faint")


def draw_guests(d, top, right):
    """cli and examples stand on the public headers; returns where these end."""
    step = (right - MARGIN + 18) / len(GUESTS)
    for i, (name, caption) in enumerate(GUESTS.items()):
        d.room(MARGIN + i * step, top, step - 18, name, caption, "box")
        middle = MARGIN + i * step + (step - 18) / 2
        d.arrow([(middle, top + BOX), (middle, top + BOX + GAP - 2)])
        beyond = included(ROOT / name) & {path.name for path in (ROOT / "src").iterdir()}
        if beyond:
            raise SystemExit(f"picture.py: {name} sees {', '.join(sorted(beyond))}, and the picture says that it does not")
    bar = top + BOX + GAP
    names = ", ".join(sorted((path.name for path in (ROOT / "include").glob("*.h")), key=lambda n: (n != "koofu.h", n)))
    d.box(MARGIN, bar, right - MARGIN, 34, "header")
    d.text((MARGIN + right) / 2, bar + 22, f"{names}: the manual, and all that guests see", 14, bold=True)
    return bar + 34


def draw_walk(d, house, top, kinds):
    unknown = {room for _, room in WALK} | {room for *_, room in JOINING}
    if unknown - set(house):
        raise SystemExit(f"picture.py: the walk of the data names {', '.join(sorted(unknown - set(house)))}, not a room of src/")
    step = (WIDTH - 2 * MARGIN + 20) / len(WALK)
    wide, row = step - 20, top + 62

    def card(x, y, lines, room, height):
        d.box(x, y, wide, height, kinds.get(room, "box"))
        for i, line in enumerate(lines):
            size = 14 if len(line) < 10 else 12
            d.text(x + wide / 2, y + height / 2 + 5 + 16 * (i - (len(lines) - 1) / 2), line, size, bold=True)

    def cards(x, lines, room):
        if lines[-1].startswith("or "):
            card(x, row - 4, lines[:1], room, 26)
            card(x, row + 26, [lines[1][3:]], room, 26)
        else:
            card(x, row, lines, room, 48)

    for i, (lines, room) in enumerate(WALK):
        x = MARGIN + i * step
        cards(x, lines, room)
        if i > 0:
            d.arrow([(x - 20, row + 24), (x - 2, row + 24)])
        if i == 0 or WALK[i - 1][1] != room:
            last = max(j for j in range(i, len(WALK)) if all(WALK[k][1] == room for k in range(i, j + 1)))
            end = MARGIN + last * step + wide
            d.add(f'<path class="line" d="M{x:g} {row + 56:g}v5h{end - x:g}v-5" fill="none"/>')
            d.text((x + end) / 2, row + 78, room, 13, "faint")
    for i, lines, room in JOINING:
        x = MARGIN + i * step + wide / 2
        d.arrow([(x, top + 42), (x, row - 2)])
        d.text(x, top + 34 - 16 * (len(lines) - 1), lines[0], 13)
        for j, line in enumerate(lines[1:]):
            d.text(x, top + 34 - 16 * (len(lines) - 2 - j), line, 13)
        d.text(x, top + 16 - 16 * (len(lines) - 1), room, 12, "faint")
    return row + 92


def style(kinds):
    """The style sheet: light, and dark for those who prefer it."""
    rules = {**STYLE, **{f".{kind}": tint for kind, tint in zip(sorted(set(kinds.values()), key=lambda k: int(k[4:])), TINTS)}}
    light, dark = ("".join(f"{name}{{{both[i]}}}" for name, both in rules.items()) for i in (0, 1))
    return f"<style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def draw():
    house = read_house()
    rooms = [room for _, room in WALK] + [room for *_, room in JOINING]
    kinds = {room: f"tint{i}" for i, room in enumerate(dict.fromkeys(rooms)) if i < len(TINTS)}
    for room in house:
        if room not in CAPTIONS:
            print(f"picture.py: the room '{room}' has no caption", file=sys.stderr)
    d = Drawing()
    right = WIDTH - MARGIN - INSIDE - 18
    d.text(MARGIN, 40, "The rooms, and which sees which", 17, anchor="start", bold=True)
    bottom = draw_guests(d, 60, right)
    top = bottom + GAP
    levels, above = draw_house(d, house, top, kinds)
    draw_insiders(d, house, top, levels, above)
    for i, line in enumerate(LEGEND):
        d.text(MARGIN + TRUNK + CHANNEL, top + 16 + 17 * i, line, 12, "faint", anchor="start")
    below = top + levels * (BOX + GAP) - GAP
    d.add(f'<path class="rule" d="M{MARGIN} {below + 28}h{WIDTH - 2 * MARGIN}"/>')
    d.text(MARGIN, below + 62, "The walk of the data", 17, anchor="start", bold=True)
    height = round(draw_walk(d, house, below + 84, kinds) + 14)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
            'aria-labelledby="t" font-family="Helvetica, Arial, \'Liberation Sans\', sans-serif">\n'
            '<title id="t">The rooms of koofu, the includes between them, and the walk of the data</title>\n'
            f'<!-- Drawn by tools/picture.py. -->\n{style(kinds)}\n'
            f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>\n' +
            "\n".join(d.parts) + "\n</svg>\n")


def main(words):
    drawn = draw()
    if words == ["--check"]:
        if not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != drawn:
            print("FAIL: docs/architecture.svg does not match the #include lines; draw it again with tools/picture.py")
            return 1
        print("docs/architecture.svg matches the #include lines")
    elif words:
        sys.exit(__doc__)
    else:
        PICTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
