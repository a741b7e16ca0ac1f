"""Statistics: exact integer moments, which add up over any number of machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from koofu import _koofu
from koofu._data import open_data
from koofu._types import F64, I64, Labels, Path, Rows, fs


class Stats:
    """Exact sums over rows: all that a fit needs.

    Statistics add up exactly, in any order: those of all rows are the sum of those of the parts, to
    the bit. They are pickled as the bytes of their file, so any engine can reduce them. ``+`` makes
    a new object; :meth:`merge` adds to this one.

    >>> import numpy as np, koofu
    >>> X = np.random.default_rng(0).normal(size=(100, 8)).astype("f4")
    >>> y = np.arange(100) % 4
    >>> parts = koofu.Stats.of(X[:50], y[:50]) + koofu.Stats.of(X[50:], y[50:])
    >>> parts == koofu.Stats.of(X, y)
    True
    >>> parts.rows, parts.dim, parts.n_classes
    (100, 8, 4)
    """

    __slots__ = ("_capsule", "__weakref__")

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    @classmethod
    def of(
        cls,
        X: Rows,
        y: Labels = None,
        *,
        classes: Union[Sequence[str], Path, None] = None,
        normalize: bool = True,
        exponent: Optional[int] = None,
        zero_rows: Optional[str] = None,
        unlabelled: Optional[str] = None,
        unknown: Optional[str] = None,
    ) -> Stats:
        """The statistics of rows, in one pass.

        :param X, y, classes, zero_rows, unlabelled, unknown: as in :class:`koofu.Data`. Parts of
            one data set need class names, or class numbers with the same meaning; names that only
            some parts have are allowed.
        :param normalize: scale each row to unit length first.
        :param exponent: with ``normalize=False``, values are rounded to multiples of
            ``2**-exponent`` and must not exceed ``2**(22 - exponent)``. Parts to be added need the
            same exponent. None: the largest that fits.
        """
        data = open_data(X, y, classes=classes, zero_rows=zero_rows or "error",
                         unlabelled=unlabelled or "error", unknown=unknown or "error")
        return cls(_koofu.stats_of(data._capsule, stats_options(normalize, exponent)))

    def __add__(self, other: object) -> Stats:
        if not isinstance(other, Stats):
            return NotImplemented
        return Stats(_koofu.stats_merged([self._capsule, other._capsule]))

    def __radd__(self, other: object) -> Stats:
        # sum() starts with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> Stats:
        """Removes rows that are in the statistics, exactly."""
        if not isinstance(other, Stats):
            return NotImplemented
        return Stats(_koofu.stats_less(self._capsule, other._capsule))

    def merge(self, *others: Stats) -> Stats:
        """Adds others to these statistics, and returns these.

        Other threads may read them during the call; they see the old ones.
        """
        for other in others:
            if not isinstance(other, Stats):
                raise TypeError(f"a {type(other).__name__} cannot be merged into Stats")
        if others:
            self._capsule = _koofu.stats_merged([self._capsule, *(o._capsule for o in others)])
        return self

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(_koofu.stats_info(self._capsule)[0])

    @property
    def dim(self) -> int:
        """Columns of a row."""
        return int(_koofu.stats_info(self._capsule)[1])

    @property
    def n_classes(self) -> int:
        """The number of classes, with or without rows."""
        return int(_koofu.stats_info(self._capsule)[2])

    @property
    def normalized(self) -> bool:
        """Whether rows were scaled to unit length."""
        return bool(_koofu.stats_info(self._capsule)[3])

    @property
    def exponent(self) -> int:
        """Values are multiples of ``2**-exponent``."""
        return int(_koofu.stats_info(self._capsule)[4])

    @property
    def class_names(self) -> Optional[list[str]]:
        """The names of the classes; None if they have none."""
        return _koofu.stats_names(self._capsule)

    @property
    def counts(self) -> I64:
        """The number of rows of each class."""
        out = np.empty(self.n_classes, dtype=np.int64)
        _koofu.stats_counts(self._capsule, out)
        return out

    def scatter(self) -> tuple[F64, F64, F64]:
        """The scatter within classes and between them, ``(dim, dim)``, and the mean, ``(dim,)``."""
        dim = self.dim
        within, between, mean = np.empty((dim, dim)), np.empty((dim, dim)), np.empty(dim)
        _koofu.stats_scatter(self._capsule, within, between, mean)
        return within, between, mean

    def save(self, path: Path) -> None:
        """Writes a ``.safetensors`` file."""
        _koofu.stats_save(self._capsule, fs(path))

    @classmethod
    def load(cls, path: Path) -> Stats:
        """Reads a file written by :meth:`save` or the command line."""
        return cls(_koofu.stats_load(fs(path)))

    def to_bytes(self) -> bytes:
        """The bytes of the file."""
        return _koofu.stats_to_bytes(self._capsule)

    @classmethod
    def from_bytes(cls, data: Union[bytes, bytearray, memoryview]) -> Stats:
        """Statistics from the bytes of a file."""
        return cls(_koofu.stats_from_bytes(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return Stats.from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stats):
            return NotImplemented
        return self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<koofu.Stats: {self.rows} rows of {self.dim} columns, {self.n_classes} classes>"


def stats_options(normalize: bool, exponent: Optional[int]) -> dict[str, Any]:
    """``kf_stats_options``."""
    if exponent is None:
        return {"normalize": 1 if normalize else 2}
    if normalize:
        raise ValueError("exponent needs normalize=False")
    return {"normalize": 2, "exponent": exponent, "fixed_exponent": 1}
