"""The rows that the golden .parquet files hold, by formula, so that nothing else needs to be stored."""

import numpy as np

DIM = 4
NAMES = ["dog", "cat", "red fox"]


def rows(n, dim=DIM):
    """Exact in f16; no row is zero."""
    i, j = np.arange(n)[:, None], np.arange(dim)[None]
    return (((i * 7 + j * 3) % 31 - 15) / 8).astype("f4")


def classes(n):
    return [NAMES[i % 3] for i in range(n)]


def numbers(n):
    return [i % 3 for i in range(n)]


def keys(n):
    return [f"k{i:03d}" if i % 5 else f"a longer key, {i}" for i in range(n)]
