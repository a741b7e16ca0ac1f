"""Whole weights of rows: a row of weight w counts as w rows, without copies of it in memory.

Statistics are sums of integers, so those of repeated rows are w times those of the row. They are
found in a pass for each bit of the largest weight. What reads rows sees them repeated.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from koofu import _koofu
from koofu._data import Data
from koofu._stats import Stats
from koofu._types import I32, I64, AnyArray

_ZERO_ROWS = {"error": 0, "skip": 2}


def whole_weights(weights: Any, n: int) -> Optional[I64]:
    """The weights of n rows as integers; None: all are 1."""
    if weights is None:
        return None
    array = np.asarray(weights)
    if array.shape != (n,):
        raise ValueError(f"X has {n} rows, but sample_weight has the shape {array.shape}")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"sample_weight has the dtype {array.dtype}; weights must be whole numbers")
    odd = ~((array >= 0) & (array < 1 << 40) & (array == np.floor(array)))
    if odd.any():
        row = int(np.argmax(odd))
        raise ValueError(f"sample_weight[{row}] is {array[row]}; weights must be whole numbers, "
                         "since a row of weight 2 counts as the same row twice")
    if not array.any():
        raise ValueError("sample_weight is zero for all rows")
    return None if (array == 1).all() else array.astype(np.int64)


def stats_of_weighted(X: AnyArray, codes: I32, weights: I64, classes: Optional[list[str]],
                      zero_rows: str, **options: Any) -> Stats:
    """The statistics of the rows as often as their weights, which are above 0."""
    total: Optional[Stats] = None
    for bit in reversed(range(int(weights.max()).bit_length())):
        now = np.where(weights >> bit & 1, codes, -1)
        total = None if total is None else total + total
        if (now >= 0).any():
            part = Stats.of(X, now, classes=classes, zero_rows=zero_rows, unlabelled="skip",
                            **options)
            total = part if total is None else total + part
    assert total is not None
    return total


class _Repeats:
    """Fetches rows by their number among the repeated ones."""

    def __init__(self, X: AnyArray, weights: I64) -> None:
        self.X = X
        self.ends = np.cumsum(weights)

    def __call__(self, first: int, n: int, view: memoryview) -> bool:
        at = np.searchsorted(self.ends, np.arange(first, first + n), side="right")
        # No variable for this array: a traceback would keep it, and it is library memory.
        np.frombuffer(view, dtype=np.float32).reshape(n, -1)[:] = self.X[at]
        return True


def repeated(X: AnyArray, codes: I32, weights: I64, classes: Optional[list[str]],
             zero_rows: str) -> Data:
    """The rows as often as their weights, one after the other. Takes 4 bytes for each."""
    data = Data.__new__(Data)
    labels = np.repeat(codes, weights)
    n_classes = int(codes.max()) + 1 if classes is None else len(classes)
    data._capsule = _koofu.data_callback(_Repeats(X, weights), len(labels), X.shape[1], labels,
                                         classes, n_classes, _ZERO_ROWS[zero_rows])
    return data
