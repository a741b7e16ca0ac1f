"""The table of `make bench`: errors that would not show in it. Nothing is timed.

usage: bench_table.py
"""

import contextlib
import io
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench")
sys.path.insert(0, BENCH)

from floors import FLOORS, Floor  # noqa: E402
from side import Missing  # noqa: E402
from table import COST, FASTER, Sample, Skipped, Table, write_block  # noqa: E402

PEER = "a peer"
FAST = Floor("fit", "a fit", PEER, FASTER, {"avx512": 5, "amx": 10})
CHEAP = Floor("fit", "a fit", "a plain fit", COST, {"all": 2.5})
PAGE = "a\n<!-- make bench: avx512 -->\nold\n<!-- end -->\nb\n"


def import_bench(test):
    try:
        import bench
        import common
    except ImportError as reason:  # numpy
        test.skipTest(str(reason))
    common.REST = 0  # nothing runs that could disturb the next
    return bench


class Figures(unittest.TestCase):
    def test_samples(self):
        self.assertEqual([Sample(x).median for x in ([9, 1, 2], [4, 1, 2, 9], [7])], [2, 3, 7])
        self.assertEqual((Sample([1, 2, 3]) + Sample([10, 20, 30])).seconds, [11, 22, 33])
        self.assertEqual((Sample([1, 2]) * 65).seconds, [65, 130])
        self.assertEqual(Sample([1, 5, 3]).larger(Sample([2, 4, 3])).seconds, [2, 5, 3])
        for seconds in ([], [1, 0], [-1]):
            with self.assertRaises(ValueError):
                Sample(seconds)

    def test_ratios(self):
        """FASTER is the other's time over koofu's, COST the inverse; rounds are paired, and one figure goes with all."""
        for koofu, other, sense, ratio in (([2, 1, 4], [20, 12, 16], FASTER, (8, 4, 12)), ([4, 6], [2, 2], COST, (2.5, 2, 3)),
                                           ([1, 2, 4], [8], COST, (0.25, 0.125, 0.5)), ([1, 2, 3, 4, 5], [30, 60], FASTER, (15, 30, 30))):
            row = Table([]).compare("fit", "a fit", "avx2", Sample(koofu), PEER, Sample(other), sense)
            self.assertEqual((row.ratio, row.low, row.high), ratio)

    def test_lines(self):
        told = []
        t = Table([FAST], tell=told.append)
        t.compare("fit", "a fit", "avx512", Sample([1, 2, 3]), PEER, Sample([10, 20, 60]))
        t.skip("fit", "a fit", "avx2", PEER, "none")
        self.assertEqual(told[1], "fit  a fit  avx2  a peer  skipped: none")
        self.assertEqual(t.markdown().splitlines()[2], "| fit | a fit | avx512 | 2.00 s (1.00 – 3.00) | a peer | 20.0 s (10.0 – 60.0) | "
                                                       "10.0 (10.0 – 20.0) | ≥ 5 | kept |")

    def test_pages(self):
        page = write_block(PAGE, "avx512", "new")
        self.assertEqual(page, PAGE.replace("old", "new"))
        self.assertEqual(write_block(PAGE, "amx", "tiles"),
                         PAGE.replace("<!-- end -->", "<!-- end -->\n\n<!-- make bench: amx -->\ntiles\n<!-- end -->"))
        with open(os.path.join(BENCH, "..", "docs", "performance.md"), encoding="utf-8") as file:
            self.assertIn("tiles", write_block(file.read(), "amx", "tiles"))


class Floors(unittest.TestCase):
    def test_floors_fail(self):
        for isa, floor, koofu, other, fails in (("avx512", FAST, 1, 5, 0), ("avx512", FAST, 1, 4.99, 1), ("amx", FAST, 1, 9, 1), ("amx", FAST, 1, 10, 0),
                                                ("avx2", FAST, 1, 0.1, 0), ("avx2", CHEAP, 2.5, 1, 0), ("avx2", CHEAP, 2.51, 1, 1)):
            for checked in (True, False):
                t = Table([floor], checked=checked)
                t.compare("fit", "a fit", isa, Sample([koofu]), floor.against, Sample([other]), floor.sense)
                self.assertEqual(len(t.failures()), fails * checked, (isa, koofu, other))
        t = Table([FAST], checked=False)
        t.fail("search: wrong")
        self.assertEqual(t.failures(), ["search: wrong"])

    def test_floors_without_rows(self):
        t = Table([FAST, CHEAP])
        t.skip("fit", "a fit", "avx512", PEER, "no module named peer")
        self.assertEqual([line.split(": ")[1] for line in t.unused(["fit"], ["avx512"])], ["a fit (avx512) against a plain fit"])
        with self.assertRaises(ValueError):
            Table([FAST, FAST])

    def test_every_floor_is_known(self):
        Table(FLOORS)
        for floor in FLOORS:
            self.assertTrue(floor.bounds and set(floor.bounds) <= {"all", "amx", "avx512", "avx2"}, floor)


class Rows(unittest.TestCase):
    """Every group with sides that answer at once: the rows are those that the floors are for."""

    def run_groups(self, isas, **options):
        main, t = import_bench(self), Table(FLOORS)
        o = types.SimpleNamespace(build="", isa=isas, threads=2, repeat=3, clock="wall", quick=False, dims=None,
                                  metric="cosine", data=["gaussian", "synth"], precision=["f32", "bf16"],
                                  torch="python3", work=None)
        with contextlib.ExitStack() as stack:
            for name in ("common.Bench.works", "common.Bench.world", "common.Bench.run", "common.say",
                         "common.forget", "rows_fit.on_disk", "rows_fit.read_once", "rows_fit.tensors", "rows_fit.unequal",
                         "common.Bench.c_side", "common.Bench.python_side", "rows_fit.as_arrays", "rows_search.make_rows",
                         "rows_search.fastest_faiss", "rows_search.check", "rows_encoder.make_model", "rows_encoder.check",
                         "numpy.save", "numpy.random.default_rng"):
                stack.enter_context(mock.patch(name, side_effect=options.get(name), **self.ANSWERS.get(name, {})))
            b = main.Bench(o, t, "")
            for group in main.USUAL:
                main.GROUPS[group](b)
        self.assertEqual(list(t.unused(main.USUAL, isas)), [])
        return t.rows

    ANSWERS = {"common.Bench.run": {"return_value": (1, 2)}, "rows_fit.as_arrays": {"return_value": ("", "x", "y")},
               **{name: {"return_value": mock.MagicMock(ask=lambda *_: (1, 2))}
                  for name in ("common.Bench.c_side", "common.Bench.python_side", "rows_search.fastest_faiss")}}

    def test_every_floor_has_its_row(self):
        self.run_groups(["amx", "avx512", "avx2"])

    def test_rows_are_skipped_without_their_peers(self):
        rows = self.run_groups(["avx512"], **{"common.Bench.python_side": lambda file, *_, **o: self.without_peers(o),
                                              "rows_search.fastest_faiss": Missing("not installed")})
        self.assertEqual({r.group for r in rows if isinstance(r, Skipped)}, {"fit", "solver", "search", "latency", "encoder"})

    def without_peers(self, request):
        if request["kind"] != "koofu":
            raise Missing("not installed")
        return mock.MagicMock(ask=lambda *_: (1, 2))


class Status(unittest.TestCase):
    """What the program prints and returns, with a group that measures nothing."""

    def run_main(self, theirs, **options):
        bench = import_bench(self)
        o = types.SimpleNamespace(only=["fit"], isa=["avx512"], repeat=3, threads=2, clock="wall", quick=False,
                                  markdown=False, write=None, dims=None, metric="cosine", data=["gaussian", "synth"],
                                  precision=["f32", "bf16"], work=None)
        o.__dict__.update(options)

        def group(b):
            if theirs is KeyboardInterrupt:
                raise theirs
            if theirs:
                b.table.compare("fit", "a fit", "avx512", Sample([1, 1, 1]), PEER, Sample([theirs] * 3))

        def make(_, t, __):
            return types.SimpleNamespace(table=t, isas=["avx512"], stop_sides=lambda: None)
        with mock.patch.object(bench, "arguments", lambda: o), mock.patch.object(bench, "Bench", make), \
             mock.patch.object(bench, "FLOORS", [FAST]), mock.patch.dict(bench.GROUPS, fit=group), \
             contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()) as out:
            return bench.main(), out.getvalue()

    def test_status(self):
        for theirs, options, status, text in ((6, {}, 0, "kept"), (4, {}, 1, "FAILED: fit: a fit (avx512) against a peer: 4.00, the floor is ≥ 5"),
                                              (None, {}, 1, "there is a floor, and no such row"), (KeyboardInterrupt, {}, 1, "FAILED: interrupted"),
                                              (4, {"quick": True}, 0, "the figures mean nothing")):
            got, out = self.run_main(theirs, **options)
            self.assertEqual(got, status)
            self.assertIn(text, out)

    def test_the_page_is_written(self):
        with tempfile.NamedTemporaryFile("w+", suffix=".md") as page:
            page.write(PAGE)
            page.flush()
            self.run_main(6, write=page.name)
            page.seek(0)
            text = page.read()
        self.assertIn("| 6.00 | ≥ 5 | kept |", text)
        self.assertNotIn("old", text)


if __name__ == "__main__":
    unittest.main()
