"""Docstrings run, and types are right."""

import doctest
import importlib
import os
import pathlib
import pkgutil
import subprocess
import sys

import pytest

import koofu

# Modules that need what may not be there.
OPTIONAL = {"estimator", "dask", "ray", "spark"}
MODULES = sorted({name for _, name, _ in pkgutil.iter_modules(koofu.__path__)} - OPTIONAL - {"_koofu"})


@pytest.mark.parametrize("name", MODULES + ["__init__"])
def test_docstrings_run(name):
    module = importlib.import_module("koofu" if name == "__init__" else f"koofu.{name}")
    assert doctest.testmod(module).failed == 0


def test_there_are_docstrings_that_run():
    tried = [doctest.testmod(importlib.import_module(f"koofu.{name}")).attempted for name in MODULES]
    assert sum(count > 0 for count in tried) >= 7


@pytest.mark.parametrize("name", [name for name in koofu.__all__ if name not in ("KooFu",
                                                                                 "__version__")])
def test_everything_is_documented(name):
    thing = getattr(koofu, name)
    assert thing.__doc__
    members = vars(thing).items() if isinstance(thing, type) else ()
    for member, value in members:
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            assert value.__doc__, f"{name}.{member} has no docstring"


def test_types(tmp_path):
    pytest.importorskip("mypy")
    folder = pathlib.Path(koofu.__file__).parent
    settings = pathlib.Path(__file__).parents[2] / "pyproject.toml"
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path,
                           "--config-file", settings, "-p", "koofu"], cwd=folder.parent, capture_output=True, text=True, check=False,
                          env={**os.environ, "MYPYPATH": str(folder.parent)})
    assert done.returncode == 0, done.stdout
