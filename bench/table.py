"""The table of the benchmarks: medians, spreads, ratios, and the floors they must keep.

A row compares koofu with one other figure of the same run: a peer, a ceiling of the machine, koofu doing
something else, or a limit in seconds. All times are in seconds.
"""

import math
import statistics
from collections import namedtuple

FASTER, COST = "faster", "cost"

Row = namedtuple("Row", "group what isa ours against other ratio low high floor kept")
Skipped = namedtuple("Skipped", "group what isa against why")


BLOCK = "<!-- make bench: {} -->", "<!-- end -->"


def write_block(page, name, text):
    """The page with the block of that name replaced; a new block goes after the last one."""
    begin, end = BLOCK[0].format(name), BLOCK[1]
    block = f"{begin}\n{text}\n{end}"
    if begin in page:
        before, rest = page.split(begin, 1)
        return before + block + rest.split(end, 1)[1]
    if end not in page:
        raise ValueError("no block of make bench on this page")
    before, after = page.rsplit(end, 1)
    return f"{before}{end}\n\n{block}{after}"


class Sample:
    """The times of one side, by round."""

    def __init__(self, seconds):
        if not seconds or min(seconds) <= 0:
            raise ValueError(f"not a sample of times: {seconds}")
        self.seconds = list(seconds)

    @property
    def median(self):
        return statistics.median(self.seconds)

    def __add__(self, other):
        return Sample([a + b for a, b in zip(self.seconds, other.seconds)])

    def larger(self, other):
        """The ratio of the two in each round."""
        return Sample([max(a, b) for a, b in zip(self.seconds, other.seconds)])

    def __mul__(self, factor):
        return Sample([factor * s for s in self.seconds])


def figure(x):
    """Three digits, without an exponent."""
    return f"{x:,.{min(max(2 - math.floor(math.log10(x)), 0), 3)}f}"


def duration(seconds):
    return f"{figure(seconds)} s" if seconds >= 0.9995 else f"{figure(1e3 * seconds)} ms"


def spread(sample):
    """The median, and the range if there are several."""
    if len(sample.seconds) == 1:
        return duration(sample.median)
    scale, unit = (1, "s") if sample.median >= 0.9995 else (1e3, "ms")
    low, high = figure(scale * min(sample.seconds)), figure(scale * max(sample.seconds))
    return f"{figure(scale * sample.median)} {unit} ({low} – {high})"


class Table:
    """floors: as in floors.py; without `checked` they are shown but never fail. Rows are printed as they come."""

    def __init__(self, floors=(), checked=True, tell=lambda line: None):
        self.floors = {(f.group, f.what, f.against): f for f in floors}
        if len(self.floors) != len(floors):
            raise ValueError("two floors for one row")
        self.checked, self.tell, self.rows, self.wrong = checked, tell, [], []

    # --- filling --------------------------------------------------------------------------------

    def compare(self, group, what, isa, ours, against, other, sense=FASTER):
        """FASTER: the other's time divided by koofu's, with a floor as lower bound. COST: koofu's time divided by the
        other's, with an upper bound. The range is over rounds."""
        over, under = (other, ours) if sense == FASTER else (ours, other)
        rounds = [a / b for a, b in zip(over.seconds, under.seconds)]
        if len(over.seconds) == 1 or len(under.seconds) == 1:
            rounds = [a / b for a in over.seconds for b in under.seconds]
        ratio = over.median / under.median
        floor, kept = self.floors.get((group, what, against)), None
        if floor and floor.sense != sense:
            raise ValueError(f"the floor of {what} against {against} is of another sense")
        number = floor.bounds.get(isa, floor.bounds.get("all")) if floor else None
        if number is not None:
            kept = ratio >= number if sense == FASTER else ratio <= number
        bound = "" if number is None else f"{'≥' if sense == FASTER else '≤'} {number:g}"
        row = Row(group, what, isa, ours, against, other, ratio, min(rounds), max(rounds), bound, kept)
        return self.add(row)

    def skip(self, group, what, isa, against, why):
        self.add(Skipped(group, what, isa, against, why))

    def add(self, row):
        self.rows.append(row)
        self.tell("  ".join(filter(None, self.cells(row, self.checked))))
        return row

    def fail(self, message):
        """A failure other than a time."""
        self.wrong.append(message)

    # --- judging --------------------------------------------------------------------------------

    def unused(self, groups, isas):
        """Floors of these groups that no row used: a row was renamed or removed."""
        seen = {(r.group, r.what, r.against, r.isa) for r in self.rows}
        for (group, what, against), floor in self.floors.items():
            for isa in isas if "all" in floor.bounds else [i for i in floor.bounds if i in isas]:
                if group in groups and (group, what, against, isa) not in seen:
                    yield f"{group}: {what} ({isa}) against {against}: there is a floor, and no such row"

    def failures(self):
        missed = [f"{r.group}: {r.what} ({r.isa}) against {r.against}: {figure(r.ratio)}, the floor is {r.floor}"
                  for r in self.rows if isinstance(r, Row) and r.kept is False] if self.checked else []
        return missed + self.wrong

    # --- printing -------------------------------------------------------------------------------

    HEAD = ("group", "what", "isa", "koofu", "against", "its time", "ratio", "floor", "")

    @staticmethod
    def cells(row, checked=True):
        if isinstance(row, Skipped):
            return row.group, row.what, row.isa, "", row.against, "", "", "", f"skipped: {row.why}"
        ratio = figure(row.ratio)
        if (row.low, row.high) != (row.ratio, row.ratio):
            ratio += f" ({figure(row.low)} – {figure(row.high)})"
        verdict = {None: "", True: "kept", False: "MISSED"}[row.kept if checked else None]
        return row.group, row.what, row.isa, spread(row.ours), row.against, spread(row.other), ratio, row.floor, verdict

    def lines(self):
        return [self.cells(row, self.checked) for row in self.rows]

    def markdown(self):
        lines = ["| " + " | ".join(c) + " |" for c in [self.HEAD, ("---",) * len(self.HEAD)] + self.lines()]
        return "\n".join(lines)

    def plain(self):
        lines = [self.HEAD] + self.lines()
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.HEAD))]
        return "\n".join("  ".join(f"{c:{w}}" for c, w in zip(line, widths)).rstrip() for line in lines)
