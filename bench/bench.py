"""One table of koofu's speed, each figure beside a peer or a ceiling measured in the same run.

usage: bench.py BUILD [options]        (make bench ARGS='options')

Rounds are interleaved, so that noise affects all sides alike; figures are medians with the range of all rounds. The
table goes to standard output, progress to standard error. The exit status is 1 where a floor (floors.py) is
missed or an answer is wrong; rows whose peer is not installed are skipped, and say so.
"""

import argparse
import os
import sys
import tempfile

from common import CLOCKS, ISAS, Bench, cpu, say
from floors import FLOORS
from rows_choosing import choosing, many_classes
from rows_encoder import kernels, towers
from rows_fit import fits, solver, statistics
from rows_search import DATA, latency, paper, search
from table import Table, write_block

GROUPS = {"stats": statistics, "fit": fits, "solver": solver, "choosing": choosing, "classes": many_classes,
          "search": search, "latency": latency, "kernels": kernels, "encoder": towers, "paper": paper}
PRECISIONS = ["f32", "bf16"]
USUAL = [name for name in GROUPS if name != "paper"]


def words(text):
    return text.split(",")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", help="the build folder")
    p.add_argument("--only", type=words, default=USUAL, metavar="GROUP,…",
                   help=f"some groups of rows, of {', '.join(GROUPS)} (default: all but paper)")
    p.add_argument("--isa", type=words, default=ISAS, metavar="NAME,…", help="instruction sets (default: all there are)")
    p.add_argument("--repeat", type=int, default=5, help="rounds (default: %(default)s)")
    p.add_argument("--threads", type=int, default=2, help="for all sides; floors are for two (default: %(default)s)")
    p.add_argument("--clock", choices=CLOCKS, default="wall",
                   help="what is measured; for machines that others use, too: processor, with one thread")
    p.add_argument("--quick", action="store_true", help="tiny sizes, to check the benchmarks; floors are not checked")
    p.add_argument("--markdown", action="store_true", help="the table as docs/performance.md has it")
    p.add_argument("--write", metavar="PAGE.md", help="put the table into the block of PAGE.md for this machine's best "
                   "instruction set")
    p.add_argument("--dims", type=lambda text: [int(t) for t in text.split(",")], help="of search, instead of the usual")
    p.add_argument("--metric", choices=("cosine", "euclidean"), default="cosine", help="of search (default: %(default)s)")
    p.add_argument("--data", type=words, default=DATA, metavar="NAME,…",
                   help=f"rows of search, of {', '.join(DATA)} (in clusters; default: both)")
    p.add_argument("--precision", type=words, default=PRECISIONS, metavar="NAME,…",
                   help=f"of the encoder: {' or '.join(PRECISIONS)} (default: both)")
    p.add_argument("--torch", metavar="PYTHON", help="a Python with PyTorch and transformers, for the encoder")
    p.add_argument("--work", help="folder for temporary files, some gigabytes")
    o = p.parse_args()
    lists = ((o.only, GROUPS), (o.isa, ISAS), (o.data, DATA), (o.precision, PRECISIONS))
    unknown = [name for names, known in lists for name in names if name not in known]
    if unknown:
        p.error(f"unknown: {', '.join(unknown)}")
    return o


def command(words):
    """The command that makes the same table, without paths."""
    places, kept = ("--torch", "--write", "--work"), []
    for i, word in enumerate(words):
        if word not in places and (i == 0 or words[i - 1] not in places):
            kept.append(word)
    return f"make bench ARGS='{' '.join(kept)}'" if kept else "make bench"


def remarks(o, load):
    """Notes on the figures."""
    clock = "" if o.clock == "wall" else "; PROCESSOR TIME"
    busy = "; NOT QUIET: others used the machine" if load > 0.5 and o.clock == "wall" else ""
    size = "; QUICK: the figures mean nothing" if o.quick else ""
    return f"`{command(sys.argv[2:])}`: {cpu()}; threads: {o.threads}; rounds: {o.repeat}; load average at the start {load:.1f}{clock}{busy}{size}"


def write(path, name, text):
    with open(path) as f:
        page = f.read()
    with open(path, "w") as f:
        f.write(write_block(page, name, text))


def main():
    o = arguments()
    load = os.getloadavg()[0]
    usual = not o.dims and o.metric == "cosine" and o.data == DATA and len(o.precision) == 2
    table = Table(FLOORS, checked=not o.quick, tell=say)
    with tempfile.TemporaryDirectory(dir=o.work) as work:
        bench = Bench(o, table, work)
        try:
            for name in o.only:
                say(f"--- {name}")
                GROUPS[name](bench)
                bench.stop_sides()
        except KeyboardInterrupt:
            table.fail("interrupted: the table is not complete")
        bench.stop_sides()
    if not o.quick and usual and not table.wrong:
        for line in table.unused(o.only, bench.isas):
            table.fail(line)
    head = remarks(o, load)
    print(head, table.markdown() if o.markdown else table.plain(), sep="\n\n")
    if o.write:
        write(o.write, bench.isas[0], f"{head}\n\n{table.markdown()}")
    failures = table.failures()
    print("".join(f"\nFAILED: {line}" for line in failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
