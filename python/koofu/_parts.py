"""Rows in parts, on one or many machines: what koofu.dask, koofu.ray and koofu.spark share.

The statistics of each part are computed where it is, and added up in a tree. A fit needs no more if
nothing is chosen. Otherwise it gets a data set whose rows are fetched from the parts on demand, and
chooses as from a file: the model has the same bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from koofu import _koofu
from koofu._data import Data, stack
from koofu._labels import take_labels
from koofu._model import Model, fit
from koofu._stats import Stats
from koofu._types import I32, AnyArray, Labels, Rows

# Parts kept in memory while rows are fetched.
_KEPT = 4


class PartLabels(NamedTuple):
    """The labels of a part: class numbers, and names if it has any."""

    codes: I32
    names: Optional[list[str]]


def largest_value(X: Rows) -> float:
    """The largest absolute value of a part."""
    array = np.asarray(stack(X))
    return float(np.abs(array).max()) if array.size else 0.0


def exponent_of(largest: float) -> int:
    """The exponent of statistics without normalising, given the largest absolute value."""
    return Stats.of(np.array([[largest]], dtype=np.float32), [0], normalize=False).exponent


def count_part(
    X: Rows, y: Labels, normalize: bool, exponent: Optional[int], zero_rows: str
) -> tuple[Optional[Stats], PartLabels]:
    """The statistics of a part (None without rows) and its labels."""
    X = stack(X)
    n = len(X)
    codes, names, _ = take_labels(y, n, None, False, False)
    if n == 0:
        return None, PartLabels(codes, None)
    stats = Stats.of(X, codes, classes=names, normalize=normalize, exponent=exponent,
                     zero_rows=zero_rows)
    return stats, PartLabels(codes, names)


def add(parts: Sequence[Optional[Stats]]) -> Optional[Stats]:
    """The sum of statistics; None: no rows."""
    there = [part for part in parts if part is not None]
    return sum(there[1:], there[0]) if there else None


class _Fetcher:
    """Fetches rows by their number over all parts, keeping the last few parts."""

    def __init__(self, fetch: Callable[[int], Any], sizes: Sequence[int], dim: int) -> None:
        self.fetch = fetch
        self.starts = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])
        self.dim = dim
        self.kept: OrderedDict[int, AnyArray] = OrderedDict()
        self.lock = threading.Lock()
        self.error: Optional[BaseException] = None

    def part(self, i: int) -> AnyArray:
        with self.lock:
            if i in self.kept:
                self.kept.move_to_end(i)
                return self.kept[i]
            rows = np.asarray(stack(self.fetch(i)))
            size = int(self.starts[i + 1] - self.starts[i])
            if rows.shape != (size, self.dim):
                raise ValueError(f"part {i} has changed: its shape was {(size, self.dim)}, and is "
                                 f"{rows.shape}")
            self.kept[i] = rows
            if len(self.kept) > _KEPT:
                self.kept.popitem(last=False)
            return rows

    def pieces(self, first: int, n: int) -> Iterator[tuple[int, AnyArray]]:
        """The rows, part by part, each with its offset among them."""
        done = 0
        while done < n:
            i = int(np.searchsorted(self.starts, first + done, side="right")) - 1
            begin = first + done - int(self.starts[i])
            count = min(n - done, int(self.starts[i + 1]) - first - done)
            yield done, self.part(i)[begin : begin + count]
            done += count

    def __call__(self, first: int, n: int, view: memoryview) -> bool:
        try:
            for at, rows in self.pieces(first, n):
                # No variable for this array: a traceback would keep it, and it is library memory.
                to = slice(at, at + len(rows))
                np.frombuffer(view, dtype=np.float32).reshape(n, self.dim)[to] = rows
        except BaseException as error:  # raised again by fit_parts
            self.error = self.error or error
            return False
        return True


def join_labels(labels: Sequence[PartLabels], names: Optional[list[str]]) -> I32:
    """Class numbers over all parts, by the names of their merged statistics."""
    if names is None:
        return np.concatenate([part.codes for part in labels]).astype(np.int32)
    position = {name: k for k, name in enumerate(names)}
    joined = [
        np.array([position[name] for name in part.names or ()], dtype=np.int32)[part.codes]
        for part in labels
        if len(part.codes)
    ]
    return np.concatenate(joined)


def fit_parts(
    stats: Optional[Stats],
    labels: Sequence[PartLabels],
    fetch: Callable[[int], Any],
    choose: bool,
    zero_rows: str,
    options: dict[str, Any],
) -> Model:
    """Fits to the statistics of all parts alone or, with ``choose``, as to a file with all rows,
    where ``fetch(i)`` returns the rows of part i."""
    if stats is None:
        raise ValueError("there are no rows")
    if not choose:
        return fit(stats, **options)
    fetcher = _Fetcher(fetch, [len(part.codes) for part in labels], stats.dim)
    codes = join_labels(labels, stats.class_names)
    skip = 2 if zero_rows == "skip" else 0
    data = Data.__new__(Data)
    data._capsule = _koofu.data_callback(
        fetcher, len(codes), stats.dim, codes, stats.class_names, stats.n_classes, skip)
    try:
        return fit(data, stats=stats, **options)
    except Exception:
        if fetcher.error is not None:
            raise fetcher.error
        raise
