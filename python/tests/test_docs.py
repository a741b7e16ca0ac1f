"""Docstrings, the reference, the examples and the manual."""

import doctest
import importlib.util
import os
import re
import subprocess
import sys

import koofu
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
NEEDS = {"dask": "dask.array", "ray": "ray", "spark": "pyspark", "estimator": "sklearn",
         **{f"_{name}": "numpy" for name in ("data", "errors", "files", "gallery", "judge", "model", "stats", "text")}}


@pytest.mark.parametrize("name", NEEDS)
def test_docstrings(name):
    pytest.importorskip(NEEDS[name])
    assert doctest.testmod(importlib.import_module(f"koofu.{name}")).failed == 0


def test_the_reference_has_every_public_name():
    made = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "python_api.py")], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr  # a name without a docstring
    for name in set(koofu.__all__) - {"__version__"}:
        assert f"### koofu.{name}\n" in made.stdout


def run_example(name, *arguments):
    path = os.path.join(HERE, "..", "examples", name)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plot(tmp_path):
    there = importlib.util.find_spec("matplotlib") is not None
    return ["--plot", str(tmp_path / "plot.png")] if there else []


def test_example_few_shot(tmp_path):
    pytest.importorskip("sklearn")
    out = run_example("few_shot.py", "--shots", "2,8", *plot(tmp_path))
    table = [[float(x) for x in re.findall(r"[\d.]+", line)] for line in out.splitlines()[2:]]
    assert [row[0] for row in table] == [2, 8]
    assert all(with_text > alone for _, alone, with_text in table)
    assert not plot(tmp_path) or os.path.getsize(tmp_path / "plot.png") > 1000


def test_example_retrieval(tmp_path):
    out = run_example("retrieval.py", "--dims", "32", *plot(tmp_path))
    raw, mapped = (float(x) for x in re.findall(r"precision ([\d.]+) %", out))
    assert mapped > raw + 20


def test_example_shards(tmp_path):
    pytest.importorskip("sklearn")
    out = run_example("shards.py", "--rows", "4000", "--shard", "1000", "--dim", "32", "--classes", "20",
                      *plot(tmp_path))
    assert "4,000 rows of 32 columns in 4 shards" in out and "the same bytes" in out



def run_blocks(path, names):
    """Runs the Python blocks of a document in order, except those that need a missing optional
    module."""
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), flags=re.M | re.S)
    left_out = 0
    for block in blocks:
        optional = re.search(r"^import (\S+)  # optional", block)
        try:
            if optional:
                importlib.import_module(optional[1])
        except ImportError:
            left_out += 1
            continue
        exec(compile(block, path, "exec"), names)
    return len(blocks) - left_out


def test_the_manual_runs(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    import numpy as np

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    classes = np.array(["ant", "bee", "cat", "dog", "emu", "fox"])
    centres = rng.normal(size=(7, 32))
    y, y_test = np.arange(300) % 6, np.arange(60) % 6
    X, X_test = (centres[k] + rng.normal(size=(len(k), 32)) for k in (y, y_test))
    names = {"X": X.astype("f4"), "y": classes[y], "X_test": X_test.astype("f4"), "y_test": classes[y_test],
             "words": centres[:6] + 0.3, "eel": centres[6] + 0.3}
    assert run_blocks(os.path.join(ROOT, "docs", "python.md"), names) >= 6
