"""The table of `make bench`: medians, spreads, ratios, floors, failing. Nothing is timed.

usage: bench_table.py
"""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench")
sys.path.insert(0, BENCH)

from floors import FLOORS, Floor, limit  # noqa: E402
from side import MISSING, Missing, Side  # noqa: E402
from table import COST, FASTER, Sample, Skipped, Table, figure, spread, write_block  # noqa: E402

PEER, TIGHT = "a peer", Floor("fit", "a fit", "a peer", FASTER, {"avx512": 5, "amx": 10})
CHEAP = Floor("fit", "a fit", "a plain fit", COST, {"all": 2.5})


def table(*floors, **options):
    return Table(floors, **options)


def import_bench(test):
    try:
        import bench
        import common
    except ImportError as reason:  # numpy
        test.skipTest(str(reason))
    common.REST = 0  # nothing runs that could disturb the next
    return bench


class Figures(unittest.TestCase):
    def test_median_is_of_the_middle(self):
        self.assertEqual(Sample([9, 1, 2]).median, 2)
        self.assertEqual(Sample([4, 1, 2, 9]).median, 3)
        self.assertEqual(Sample([7]).median, 7)

    def test_samples_that_are_none_are_refused(self):
        for seconds in ([], [1, 0], [-1]):
            with self.assertRaises(ValueError):
                Sample(seconds)

    def test_arithmetic_goes_round_by_round(self):
        self.assertEqual((Sample([1, 2, 3]) + Sample([10, 20, 30])).seconds, [11, 22, 33])
        self.assertEqual((Sample([1, 2]) * 65).seconds, [65, 130])
        self.assertEqual(Sample([1, 5, 3]).larger(Sample([2, 4, 3])).seconds, [2, 5, 3])

    def test_three_digits(self):
        for x, text in ((0.01234, "0.012"), (0.5, "0.500"), (1, "1.00"), (12.345, "12.3"), (123.4, "123"), (12345, "12,345")):
            self.assertEqual(figure(x), text)

    def test_spread_has_the_unit_of_its_median(self):
        self.assertEqual(spread(Sample([2, 1, 3])), "2.00 s (1.00 – 3.00)")
        self.assertEqual(spread(Sample([0.02, 0.01, 1.5])), "20.0 ms (10.0 – 1,500)")
        self.assertEqual(spread(Sample([0.12])), "120 ms")


class Ratios(unittest.TestCase):
    def test_faster_is_the_others_time_over_ours(self):
        row = table().compare("fit", "a fit", "avx2", Sample([2, 1, 4]), PEER, Sample([20, 12, 16]))
        self.assertEqual((row.ratio, row.low, row.high), (8, 4, 12))

    def test_cost_is_ours_over_the_others(self):
        row = table().compare("fit", "a fit", "avx2", Sample([4, 6]), PEER, Sample([2, 2]), COST)
        self.assertEqual((row.ratio, row.low, row.high), (2.5, 2, 3))

    def test_one_figure_is_paired_with_all(self):
        row = table().compare("fit", "a fit", "avx2", Sample([1, 2, 4]), limit("8 s"), Sample([8]), COST)
        self.assertEqual((row.ratio, row.low, row.high), (0.25, 0.125, 0.5))

    def test_rounds_without_a_partner_count_in_the_median_alone(self):
        row = table().compare("fit", "a fit", "avx2", Sample([1, 2, 3, 4, 5]), PEER, Sample([30, 60]))
        self.assertEqual((row.ratio, row.low, row.high), (15, 30, 30))


class Floors(unittest.TestCase):
    def check(self, isa, ours, other, failures, **options):
        t = table(TIGHT, **options)
        t.compare("fit", "a fit", isa, Sample([ours]), PEER, Sample([other]))
        self.assertEqual(len(t.failures()), failures)
        return t

    def test_a_floor_is_kept_at_its_number_and_missed_below(self):
        self.check("avx512", 1, 5, 0)
        t = self.check("avx512", 1, 4.99, 1)
        self.assertIn("fit: a fit (avx512) against a peer: 4.99, the floor is ≥ 5", t.failures())
        self.assertIn("MISSED", t.plain())

    def test_each_instruction_set_has_its_own(self):
        self.check("amx", 1, 9, 1)
        self.check("amx", 1, 10, 0)
        self.check("avx2", 1, 0.1, 0)

    def test_costs_are_bounded_from_above(self):
        for ours, failures in ((2.5, 0), (2.51, 1)):
            t = table(CHEAP)
            t.compare("fit", "a fit", "avx2", Sample([ours]), "a plain fit", Sample([1]), COST)
            self.assertEqual(len(t.failures()), failures)

    def test_the_median_decides_not_the_worst_round(self):
        t = table(TIGHT)
        t.compare("fit", "a fit", "avx512", Sample([1, 1, 9]), PEER, Sample([6, 6, 6]))
        self.assertEqual(t.failures(), [])

    def test_without_checking_nothing_is_missed(self):
        t = self.check("avx512", 1, 1, 0, checked=False)
        self.assertNotIn("MISSED", t.plain())

    def test_wrong_answers_always_fail(self):
        t = table(checked=False)
        t.fail("search: wrong")
        self.assertEqual(t.failures(), ["search: wrong"])

    def test_a_floor_of_the_other_sense_is_refused(self):
        with self.assertRaises(ValueError):
            table(CHEAP).compare("fit", "a fit", "avx2", Sample([1]), "a plain fit", Sample([1]), FASTER)

    def test_two_floors_for_a_row_are_refused(self):
        with self.assertRaises(ValueError):
            table(TIGHT, TIGHT)

    def test_a_skipped_row_does_not_fail_and_says_why(self):
        t = table(TIGHT)
        t.skip("fit", "a fit", "avx512", PEER, "no module named peer")
        self.assertEqual(t.failures(), [])
        self.assertEqual(list(t.unused(["fit"], ["avx512"])), [])
        self.assertIn("skipped: no module named peer", t.markdown())

    def test_a_floor_without_a_row_is_named(self):
        t = table(TIGHT, CHEAP)
        t.compare("fit", "a fit", "avx512", Sample([1]), PEER, Sample([9]))
        self.assertEqual([line.split(": ")[1] for line in t.unused(["fit"], ["avx512"])],
                         ["a fit (avx512) against a plain fit"])
        self.assertEqual(list(t.unused(["search"], ["avx512"])), [])

    def test_ours(self):
        Table(FLOORS)
        for floor in FLOORS:
            self.assertTrue(floor.bounds and set(floor.bounds) <= {"all", "amx", "avx512", "avx2"}, floor)
            self.assertTrue(all(number > 0 for number in floor.bounds.values()), floor)


class Printing(unittest.TestCase):
    def test_each_row_is_told_at_once(self):
        told = []
        t = table(TIGHT, tell=told.append)
        t.compare("fit", "a fit", "avx512", Sample([1]), PEER, Sample([4]))
        t.skip("fit", "a fit", "avx2", PEER, "none")
        self.assertEqual(told, ["fit  a fit  avx512  1.00 s  a peer  4.00 s  4.00  ≥ 5  MISSED",
                                "fit  a fit  avx2  a peer  skipped: none"])

    def test_markdown_and_plain_have_a_line_for_each_row(self):
        t = table(TIGHT)
        t.compare("fit", "a fit", "avx512", Sample([1, 2, 3]), PEER, Sample([10, 20, 60]))
        t.skip("fit", "a fit", "avx2", PEER, "none")
        lines = t.markdown().splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual({line.count("|") for line in lines}, {len(Table.HEAD) + 1})
        self.assertEqual(lines[2], "| fit | a fit | avx512 | 2.00 s (1.00 – 3.00) | a peer | 20.0 s (10.0 – 60.0) | "
                                   "10.0 (10.0 – 20.0) | ≥ 5 | kept |")
        self.assertEqual(len(t.plain().splitlines()), 3)


class Pages(unittest.TestCase):
    PAGE = "a\n<!-- make bench: avx512 -->\nold\n<!-- end -->\nb\n"

    def test_a_block_is_replaced_and_nothing_else(self):
        page = write_block(self.PAGE, "avx512", "new")
        self.assertEqual(page, self.PAGE.replace("old", "new"))
        self.assertEqual(write_block(page, "avx512", "old"), self.PAGE)

    def test_a_new_one_goes_after_the_last(self):
        page = write_block(self.PAGE, "amx", "tiles")
        self.assertEqual(page, self.PAGE.replace("<!-- end -->", "<!-- end -->\n\n<!-- make bench: amx -->\ntiles\n<!-- end -->"))
        self.assertEqual(write_block(page, "avx512", "new"), page.replace("old", "new"))
        third = write_block(page, "avx2", "small")
        self.assertLess(third.index("tiles"), third.index("small"))

    def test_a_page_without_blocks_is_refused(self):
        with self.assertRaises(ValueError):
            write_block("a\n", "amx", "tiles")

    def test_ours_has_blocks(self):
        with open(os.path.join(BENCH, "..", "docs", "performance.md")) as f:
            self.assertIn("tiles", write_block(f.read(), "amx", "tiles"))


class Rows(unittest.TestCase):
    """Every group with sides that answer at once: the rows are those that the floors are for."""

    def setUp(self):
        self.bench = import_bench(self)

    def run_groups(self, isas, **options):
        main, t = self.bench, Table(FLOORS)
        o = types.SimpleNamespace(build="", isa=isas, threads=2, repeat=3, clock="wall", quick=False, dims=None,
                                  metric="cosine", data=["gaussian", "synth"], precision=["f32", "bf16"],
                                  torch="python3", work=None)
        o.__dict__.update(options)
        with contextlib.ExitStack() as stack:
            for name in ("common.Bench.works", "common.Bench.world", "common.Bench.run", "common.say",
                         "common.forget", "rows_fit.on_disk", "rows_fit.read_once",
                         "common.Bench.c_side", "common.Bench.python_side", "rows_fit.as_arrays", "rows_search.make_rows",
                         "rows_search.fastest_faiss", "rows_search.check", "rows_encoder.make_model", "rows_encoder.check",
                         "numpy.save", "numpy.random.default_rng"):
                stack.enter_context(mock.patch(name, side_effect=options.get(name), **self.ANSWERS.get(name, {})))
            b = main.Bench(o, t, "")
            for group in main.USUAL:
                main.GROUPS[group](b)
        return t

    ANSWERS = {"common.Bench.run": {"return_value": (1, 2)}, "rows_fit.as_arrays": {"return_value": ("", "x", "y")},
               **{name: {"return_value": mock.MagicMock(ask=lambda *_: (1, 2))}
                  for name in ("common.Bench.c_side", "common.Bench.python_side", "rows_search.fastest_faiss")}}

    def test_every_floor_has_its_row(self):
        isas = ["amx", "avx512", "avx2"]
        t = self.run_groups(isas)
        self.assertEqual(list(t.unused(self.bench.USUAL, isas)), [])
        self.assertEqual({r.group for r in t.rows}, set(self.bench.USUAL))

    def test_rows_are_skipped_without_their_peers(self):
        gone = Missing("not installed")
        t = self.run_groups(["avx512"], **{"common.Bench.python_side": lambda file, *_, **o: self.without_peers(o)},
                            **{"rows_search.fastest_faiss": gone})
        self.assertEqual(list(t.unused(self.bench.USUAL, ["avx512"])), [])
        skipped = {(r.group, r.against) for r in t.rows if isinstance(r, Skipped)}
        self.assertEqual({group for group, _ in skipped}, {"fit", "solver", "search", "latency", "encoder"})

    def without_peers(self, request):
        if request["kind"] != "koofu":
            raise Missing("not installed")
        return mock.MagicMock(ask=lambda *_: (1, 2))

    def test_limits_are_for_the_wall_clock(self):
        t = self.run_groups(["avx512"], clock="processor")
        limits = [r for r in t.rows if r.against.startswith("limit")]
        self.assertTrue(limits and all(isinstance(r, Skipped) for r in limits))


class Status(unittest.TestCase):
    """What the program prints and returns, with a group that measures nothing."""

    def setUp(self):
        self.bench = import_bench(self)

    def run_main(self, theirs, **options):
        bench = self.bench
        o = types.SimpleNamespace(only=["fit"], isa=["avx512"], repeat=3, threads=2, clock="wall", quick=False,
                                  markdown=False, write=None, dims=None, metric="cosine", data=["gaussian", "synth"],
                                  precision=["f32", "bf16"], work=None)
        o.__dict__.update(options)

        def group(b):
            if theirs is KeyboardInterrupt:
                b.table.skip("fit", "a fit", "avx512", PEER, "none")
                raise theirs
            if theirs:
                b.table.compare("fit", "a fit", "avx512", Sample([1, 1, 1]), PEER, Sample([theirs] * 3))

        def make(_, t, __):
            return types.SimpleNamespace(table=t, isas=["avx512"], stop_sides=lambda: None)
        with mock.patch.object(bench, "arguments", lambda: o), mock.patch.object(bench, "Bench", make), \
             mock.patch.object(bench, "FLOORS", [TIGHT]), mock.patch.dict(bench.GROUPS, fit=group), \
             contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()) as out:
            return bench.main(), out.getvalue()

    def test_the_command_leaves_out_places(self):
        self.assertEqual(self.bench.command(["--torch", "a/python", "--only", "fit", "--write", "p.md", "--quick"]),
                         "make bench ARGS='--only fit --quick'")
        self.assertEqual(self.bench.command(["--torch", "a/python"]), "make bench")

    def test_all_is_well(self):
        status, out = self.run_main(6)
        self.assertEqual(status, 0)
        self.assertIn("kept", out)
        self.assertNotIn("FAILED", out)

    def test_a_missed_floor_is_named(self):
        status, out = self.run_main(4)
        self.assertEqual(status, 1)
        self.assertIn("FAILED: fit: a fit (avx512) against a peer: 4.00, the floor is ≥ 5", out)

    def test_a_floor_without_its_row_fails(self):
        status, out = self.run_main(None)
        self.assertEqual(status, 1)
        self.assertIn("there is a floor, and no such row", out)

    def test_one_precision_leaves_rows_out(self):
        status, out = self.run_main(None, precision=["bf16"])
        self.assertEqual(status, 0)
        self.assertNotIn("no such row", out)

    def test_what_is_there_is_printed_after_an_interruption(self):
        status, out = self.run_main(KeyboardInterrupt)
        self.assertEqual(status, 1)
        self.assertIn("FAILED: interrupted", out)
        self.assertIn("a fit", out)

    def test_quick_never_misses_a_floor(self):
        status, out = self.run_main(4, quick=True)
        self.assertEqual(status, 0)
        self.assertIn("the figures mean nothing", out)

    def test_the_page_is_written(self):
        with tempfile.NamedTemporaryFile("w+", suffix=".md") as page:
            page.write(Pages.PAGE)
            page.flush()
            self.run_main(6, write=page.name)
            page.seek(0)
            text = page.read()
        self.assertIn("| 6.00 | ≥ 5 | kept |", text)
        self.assertNotIn("old", text)


class Sides(unittest.TestCase):
    """The protocol alone, with sides that measure nothing."""

    def start(self, code):
        code = f"import sys; sys.path.insert(0, {BENCH!r}); from side import *; {code}"
        side = Side("a side", [sys.executable, "-B", "-c", code])
        self.addCleanup(side.stop)
        return side

    def test_a_side_answers_each_line(self):
        side = self.start("serve('a peer 1.0', lambda line: (float(line), 2))")
        self.assertEqual(side.what, "a peer 1.0")
        self.assertEqual([side.ask("0.5"), side.ask("0.25")], [(0.5, 2), (0.25, 2)])

    def test_one_that_is_not_there_says_why(self):
        with self.assertRaisesRegex(Missing, "no such module"):
            self.start("missing('no such module')")
        self.assertEqual(MISSING, 77)

    def test_one_that_dies_is_an_error(self):
        side = self.start("serve('a peer', lambda line: sys.exit(3))")
        with self.assertRaisesRegex(RuntimeError, "died at 'x' with 3"):
            side.ask("x")


class TablesOfAGpu(unittest.TestCase):
    """bench/cuda/tables.py, on a short log."""

    PEERS = "paper 2.00 s, 20.0 x; FAISS 1.000 s, 10.0 x; at most 95 ms: kept  0 wrong, 0 not nearest"
    LOG = f"""
== the paper's table: 1,281,167 rows, 50,000 queries, k = 15 (12:20:57)
 768 pinned    50000   15    100.400    99.000   101.000   1263  63.8%     259.5   5.30  {PEERS}

== queries in pageable memory and in a file (12:21:42)
 768 pageable  50000   15     80.062    78.377    80.595   1229  62.1%     259.5   5.30
 768 file      50000   15      0.997     0.992     1.002   1200  60.6%     259.5   5.30

== statistics of 1,281,000 x 768 in f16, in the page cache (12:22:00)
statistics cuda  first 0.082 s, median of 5 0.072 s (0.064 – 0.095), 17.86 million rows/s
statistics cpu   first 0.564 s, median of 5 0.564 s (0.552 – 0.632), 2.27 million rows/s
fit        cuda  first 0.934 s, median of 5 0.885 s (0.819 – 1.236), 1.45 million rows/s
fit        cpu   first 1.316 s, median of 5 1.361 s (1.316 – 1.584), 0.94 million rows/s

== the command: koofu fit, lambda chosen (12:22:20)
koofu fit --device cpu: 1.65 s, less than 1e9: kept
koofu fit --device cuda: 1.35 s, less than 2.5: kept

== clusters (12:23:00)
 768 pinned    50000   15     93.662    93.620    94.307   1051  53.1%    1654.0   5.30  0 wrong
"""
    WIDE = (
        "| columns | ms | range | of the int8 peak | survivors per query | pageable, ms | file, ms | paper, ms | FAISS, ms |"
        " times the paper | times FAISS |"
    )
    DOCUMENT = f"begin\n\n{WIDE}\n| old |\n\n| | 768 | 256 | 64 |\n| old |\n\n| | GPU | CPU |\n| old |\n\nend\n"

    def run_on(self, log):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("log", "document")]
            for path, text in zip(paths, (log, self.DOCUMENT), strict=True):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run(
                [sys.executable, "-B", os.path.join(BENCH, "cuda", "tables.py"), *paths], capture_output=True, text=True, check=False
            )
            with open(paths[1], encoding="utf-8") as file:
                return done, file.read()

    def test_tables_replace_old_ones(self):
        done, text = self.run_on(self.LOG)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("| 768 | 100 | 99.0–101 | 64 % | 260 | 80.1 | 1.00 | 2,000 | 1,000 | 20 | 10 |\n\n", text)
        self.assertIn("| rows in clusters (survivors) | 93.7 (1,654) |  |  |\n\n", text)
        self.assertIn("| statistics | 0.072 s, 17.9 million rows/s | 0.56 s |", text)
        self.assertIn("| `koofu fit`, the whole command | 1.35 s | 1.65 s |\n\nend\n", text)
        self.assertNotIn("old", text)
        self.assertTrue(text.startswith(f"begin\n\n{self.WIDE}\n| --: |"))

    def test_wrong_lists_are_not_shown(self):
        done, text = self.run_on(self.LOG.replace("0 wrong, 0 not", "3 wrong, 0 not"))
        self.assertIn("wrong lists with 768 columns", done.stderr)
        self.assertEqual((done.returncode, text), (1, self.DOCUMENT))


if __name__ == "__main__":
    unittest.main()
