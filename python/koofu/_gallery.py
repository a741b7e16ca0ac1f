"""Galleries: the nearest rows, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from koofu import _koofu
from koofu._data import Data, count_rows, open_data, rows_or_data
from koofu._model import Model
from koofu._types import F64, I32, I64, AnyArray, Labels, Path, Rows, fs, one_of

_METRICS = {None: 0, "cosine": 1, "euclidean": 2, "inner": 3}
_MOST = 1024


class Hits(NamedTuple):
    """Answers of a search, best first."""

    #: Row numbers of the gallery, ``(n, k)``.
    rows: I64
    #: Cosines, inner products or Euclidean distances, ``(n, k)``.
    scores: F64


class Gallery:
    """Rows to search among, with their labels and ids, and the map for queries.

    Answers are exact: those of a comparison with every row, without any rounding. A gallery never
    changes while it is searched, and any number of threads may search it at once.

    >>> import numpy as np, koofu
    >>> X = np.random.default_rng(0).normal(size=(1000, 32)).astype("f4")
    >>> gallery = koofu.Gallery.build(X)
    >>> hits = gallery.search(X[:3], k=5)
    >>> hits.rows[:, 0], hits.rows.shape
    (array([0, 1, 2]), (3, 5))
    >>> bool((gallery.itself(k=1).rows[:, 0] != np.arange(1000)).all())
    True
    """

    __slots__ = ("_capsule", "_info", "_path", "_parts", "_ids", "_labels", "__weakref__")

    def __init__(self, capsule: Any, path: Optional[Path] = None,
                 parts: Optional[tuple[Data, Optional[Model], dict[str, Any]]] = None,
                 ids: Optional[list[str]] = None) -> None:
        self._path = path
        self._parts = parts
        self._ids = ids
        self._take(capsule)

    def _take(self, capsule: Any) -> None:
        self._capsule = capsule
        self._info = _koofu.gallery_info(capsule)
        self._labels: Optional[I32] = None

    # --- making one ---

    @classmethod
    def build(
        cls,
        X: Rows,
        y: Labels = None,
        *,
        model: Optional[Model] = None,
        metric: Optional[str] = None,
        k: Union[int, str, None] = None,
        ids: Optional[Sequence[str]] = None,
        path: Optional[Path] = None,
        classes: Optional[Sequence[str]] = None,
        zero_rows: str = "error",
        unlabelled: str = "error",
    ) -> Gallery:
        """A gallery of rows, in memory or in a file.

        :param X, y, classes, ids, zero_rows, unlabelled: as in :class:`koofu.Data`.
        :param model: maps the rows; queries are still given in the original space.
        :param metric: ``"cosine"``, ``"euclidean"`` or ``"inner"``; None: cosine, or Euclidean for
            a model fitted without normalising.
        :param k: neighbours that should vote in :meth:`classify`; ``"auto"``: chosen.
        :param path: a ``.safetensors`` file to write; rows are streamed to it. Only a gallery with
            a file can grow (:meth:`append`). None: in memory, where it refers to ``X`` for
            :meth:`save`.
        """
        data = open_data(X, y, classes=classes, zero_rows=zero_rows, unlabelled=unlabelled,
                         ids=None if ids is None else list(ids))
        mapping = None if model is None else model._capsule
        options: dict[str, Any] = {"metric": one_of(metric, _METRICS, "metric")}
        if isinstance(k, str):
            one_of(k, {"auto": 1}, "k")
            options["k"] = _koofu.choose_k(data._capsule, mapping)
        elif k is not None:
            options["k"] = _check_k(k)
        if path is not None:
            _koofu.gallery_save(data._capsule, mapping, options, fs(path))
            return cls.load(path)
        return cls(_koofu.gallery_new(data._capsule, mapping, options), None,
                   (data, model, options), None if ids is None else list(ids))

    @classmethod
    def load(cls, path: Path, *, rerank_from_disk: bool = False) -> Gallery:
        """Reads a file that :meth:`save` or the command line has written.

        :param rerank_from_disk: leave float32 rows in the file, which takes a fifth of the memory.
        """
        return cls(_koofu.gallery_load(fs(path), int(rerank_from_disk)), path)

    def save(self, path: Path) -> None:
        """Writes a gallery that is in memory to a ``.safetensors`` file."""
        if self._parts is None:
            raise ValueError(f"this gallery is a file already, {self._path!s}; copy that")
        data, model, options = self._parts
        _koofu.gallery_save(data._capsule, None if model is None else model._capsule, options,
                            fs(path))

    def append(
        self,
        X: Rows,
        y: Labels = None,
        *,
        ids: Optional[Sequence[str]] = None,
        classes: Optional[Sequence[str]] = None,
        zero_rows: str = "error",
        unlabelled: str = "error",
        again: bool = False,
    ) -> bool:
        """Adds rows to the file of the gallery, and reads it again.

        Rows of the last 64 batches are not added twice: False if these were there already, unless
        ``again`` is set. Searches that are under way see the gallery as it was.
        """
        if self._path is None:
            raise ValueError("this gallery is in memory, and cannot grow; build it with path=, "
                             "or save it and load it")
        data = open_data(X, y, classes=classes, zero_rows=zero_rows, unlabelled=unlabelled,
                         ids=None if ids is None else list(ids))
        options = {"append_to": fs(self._path), "again": int(again)}
        repeated = bool(_koofu.gallery_save(data._capsule, None, options, fs(self._path)))
        self._take(_koofu.gallery_load(fs(self._path), 0))
        return not repeated

    # --- what is in it ---

    def __len__(self) -> int:
        return int(self._info[0])

    @property
    def dim_in(self) -> int:
        """Columns of queries."""
        return int(self._info[1])

    @property
    def dim(self) -> int:
        """Columns of its own rows."""
        return int(self._info[2])

    @property
    def metric(self) -> str:
        """``"cosine"``, ``"euclidean"`` or ``"inner"``."""
        return str(self._info[3])

    @property
    def mapped(self) -> bool:
        """Whether it carries a map."""
        return bool(self._info[4])

    @property
    def k(self) -> Optional[int]:
        """Neighbours that should vote; None: not known."""
        return int(self._info[5]) or None

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 without labels."""
        return int(self._info[7])

    @property
    def class_names(self) -> Optional[list[str]]:
        """The names of the classes; None if they have none."""
        names: Optional[list[str]] = self._info[8]
        return names

    @property
    def labels(self) -> Optional[I32]:
        """The class number of each row, -1 for none; None if rows have no labels."""
        if not self._info[6]:
            return None
        if self._labels is None:
            out = np.empty(len(self), dtype=np.int32)
            _koofu.gallery_labels(self._capsule, out)
            self._labels = out
        return self._labels

    def id(self, row: int) -> Optional[str]:
        """The id of a row; None if rows have none."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a gallery of {len(self)} rows")
        if self._ids is not None:
            return self._ids[row]
        name: Optional[str] = _koofu.gallery_id(self._capsule, row)
        return name

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the index takes."""
        return int(self._info[10])

    # --- searching ---

    def search(self, X: Rows, k: int = 10, *, leave_out: Optional[AnyArray] = None,
               text_mean: Optional[F64] = None) -> Hits:
        """The k nearest rows of each query, best first.

        :param X: queries in the original space, ``(n, dim_in)``: an array, a path or a
            :class:`koofu.Data`.
        :param leave_out: for each query a row to leave out, or -1.
        :param text_mean: the queries are embeddings of text, whose mean this is (see
            :func:`koofu.text_mean` and :meth:`koofu.Encoder.text_mean`).
        """
        rows = rows_or_data(X)
        n = count_rows(rows)
        out = self._room(n, _check_k(k), np.int64)
        without = None
        if leave_out is not None:
            without = np.ascontiguousarray(leave_out, dtype=np.int64)
            if without.shape != (n,):
                raise ValueError(f"X has {n} rows, but leave_out has the shape {without.shape}")
        mean = None
        if text_mean is not None:
            mean = np.ascontiguousarray(text_mean, dtype=np.float64)
            if mean.shape != (self.dim_in,):
                raise ValueError(f"text_mean has the shape {mean.shape}; it must be "
                                 f"({self.dim_in},)")
        _koofu.gallery_search(self._capsule, rows, k, without, mean, *out)
        return Hits(*out)

    def itself(self, k: int = 10, *, first: int = 0, n: Optional[int] = None) -> Hits:
        """The k nearest others of rows ``first`` to ``first + n - 1`` of the gallery."""
        count = len(self) - first if n is None else n
        if first < 0 or count < 0 or first + count > len(self):
            raise ValueError(f"rows {first} to {first + count - 1} of a gallery of {len(self)} rows")
        out = self._room(count, _check_k(k), np.int64)
        _koofu.gallery_itself(self._capsule, first, count, k, *out)
        return Hits(*out)

    def classify(self, X: Rows, k: Optional[int] = None, *, top: int = 1, weighted: bool = False,
                 temperature: Optional[float] = None) -> tuple[I32, F64]:
        """The classes with most votes among the k nearest rows: numbers and votes, ``(n, top)``.
        Where fewer classes have votes, the rest is -1.

        :param k: None: that of the gallery, or 15.
        :param weighted: nearer neighbours count more, by ``temperature``.
        """
        if top < 1:
            raise ValueError(f"top is {top}; it must be at least 1")
        chosen = _check_k(k) if k is not None else self.k or min(15, len(self))
        rows = rows_or_data(X)
        out = self._room(count_rows(rows), top, np.int32)
        options = {"k": chosen, "top": top, "weighted": int(weighted), "temperature": temperature}
        _koofu.gallery_vote(self._capsule, rows, options, *out)
        return out[0], out[1]

    def predict(self, X: Rows, k: Optional[int] = None) -> AnyArray:
        """The class with most votes: its name, or its number if classes have no names."""
        classes = self.classify(X, k)[0][:, 0]
        names = self.class_names
        return classes.astype(np.int64) if names is None else np.array(names)[classes]

    @staticmethod
    def _room(n: int, k: int, dtype: Any) -> tuple[AnyArray, F64]:
        return np.empty((n, k), dtype=dtype), np.empty((n, k), dtype=np.float64)

    def __repr__(self) -> str:
        return f"<koofu.Gallery: {len(self)} rows of {self.dim} columns, {self.metric}>"


def _check_k(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"k is {k!r}; it must be an integer")
    if not 1 <= k <= _MOST:
        raise ValueError(f"k is {k}; it must be 1 to {_MOST}")
    return int(k)
