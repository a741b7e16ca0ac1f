"""Galleries: the nearest rows, exactly."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from koofu import _koofu
from koofu._data import DTYPES, Data, count_rows, open_data, rows_or_data
from koofu._html import cell, table
from koofu._model import Model
from koofu._types import (
    F64,
    I32,
    I64,
    AnyArray,
    Labels,
    Path,
    Rows,
    capsule_of,
    fs,
    is_path,
    one_of,
)

_METRICS = {None: 0, "cosine": 1, "euclidean": 2, "inner": 3}
_MAX_K = 1024
_SHOWN = 10  # queries, and answers of each, in a notebook


class _Answers(NamedTuple):
    #: Row numbers of the gallery, ``(n, k)``.
    rows: I64
    #: Cosines, inner products or Euclidean distances, ``(n, k)``.
    scores: F64


class Hits(_Answers):
    """Answers of a search, best first: ``rows, scores = hits``, and what the gallery says of these
    rows, for which they keep it in memory."""

    # The gallery as it was searched, and what is known of it.
    _gallery: Optional[tuple[Any, tuple[Any, ...]]] = None

    @classmethod
    def _of(cls, rows: I64, scores: F64, gallery: Any) -> Hits:
        hits = cls(rows, scores)
        hits._gallery = gallery
        return hits

    def _part(self, at: slice) -> Hits:
        """Some of the answers, with what is known of them already."""
        part = Hits._of(self.rows[at], self.scores[at], self._gallery)
        for name in self.__dict__.keys() & {"labels", "ids"}:
            all_of_them = self.__dict__[name]
            part.__dict__[name] = None if all_of_them is None else all_of_them[at]
        return part

    @cached_property
    def labels(self) -> Optional[AnyArray]:
        """The class of each answer, ``(n, k)``: its name, or its number if classes have no names.
        None for answers without a label; None at all if the gallery has no labels."""
        if self._gallery is None or not self._gallery[1][6]:
            return None
        capsule, info = self._gallery
        numbers = np.empty(info[0], dtype=np.int32)
        _koofu.gallery_labels(capsule, numbers)
        names = range(info[7]) if info[8] is None else info[8]
        return np.array([*names, None], dtype=object)[numbers[self.rows]]

    @cached_property
    def ids(self) -> Optional[AnyArray]:
        """The id of each answer, ``(n, k)``; None if the gallery has no ids."""
        if self._gallery is None or _koofu.gallery_id(self._gallery[0], 0) is None:
            return None
        rows, at = np.unique(self.rows, return_inverse=True)
        ids = [_koofu.gallery_id(self._gallery[0], row) for row in rows.tolist()]
        return np.array(ids, dtype=object)[at].reshape(self.rows.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return _hits_again, (self.rows, self.scores, self.labels, self.ids)

    def _repr_html_(self) -> str:
        """For notebooks."""
        first = self._part(slice(_SHOWN))
        rows = np.atleast_2d(first.rows)[:, :_SHOWN]
        parts = [None if part is None else np.atleast_2d(part)
                 for part in (first.labels, first.ids, first.scores)]

        def answer(i: int, j: int) -> str:
            label, name, score = (None if part is None else part[i, j] for part in parts)
            name = f"row {rows[i, j]:,}" if name is None else cell(name)
            return (name if label is None else f"{cell(label)}, {name}") + f": {score:.4f}"

        n, k = np.atleast_2d(self.rows).shape
        table_rows = [[i, *(answer(i, j) for j in range(rows.shape[1]))] for i in range(len(rows))]
        return table("koofu.Hits", table_rows, ["query", *range(1, rows.shape[1] + 1)],
                     f"queries: {n:,}; answers of each: {k:,}")


def _hits_again(rows: I64, scores: F64, labels: Optional[AnyArray],
                ids: Optional[AnyArray]) -> Hits:
    """Unpickles answers, without their gallery."""
    hits = Hits(rows, scores)
    hits.__dict__.update(labels=labels, ids=ids)
    return hits


@dataclass(frozen=True, eq=False)
class Ranges:
    """All rows near enough to each query, best first: those of query ``i`` are
    ``rows[indptr[i]:indptr[i + 1]]``.

    This is the layout of sparse matrices:
    ``scipy.sparse.csr_array((r.scores, r.rows, r.indptr), shape=(len(r), len(gallery)))``.
    """

    #: Start of the answers of each query, and the end of the last, ``(n + 1,)``.
    indptr: I64
    #: Row numbers of the gallery.
    rows: I64
    #: Cosines, inner products or Euclidean distances.
    scores: F64
    _hits: Hits = field(repr=False)  # all of them

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.indptr) - 1

    def __getitem__(self, query: int) -> Hits:
        """The answers of one query."""
        n = len(self)
        if not -n <= query < n:
            raise IndexError(f"query {query} of {n}")
        at = slice(*self.indptr[query % n : query % n + 2].tolist())
        return self._hits._part(at)

    @property
    def labels(self) -> Optional[AnyArray]:
        """The class of each answer, as in :class:`koofu.Hits`."""
        return self._hits.labels

    @property
    def ids(self) -> Optional[AnyArray]:
        """The id of each answer, as in :class:`koofu.Hits`."""
        return self._hits.ids

    def __iter__(self) -> Iterator[Hits]:
        """Iterates over the answers of each query."""
        return (self[i] for i in range(len(self)))


class Unique(NamedTuple):
    """Groups of near-duplicates."""

    #: The lowest row of the group of each row, ``(n,)``; itself if it is alone or the first.
    first: I64
    #: Groups of two or more rows.
    groups: int
    #: Rows that are not the first of their group.
    copies: int
    #: Pairs of rows that are near enough.
    pairs: int

    @property
    def keep(self) -> I64:
        """The first row of each group, and the rows without duplicates."""
        return np.flatnonzero(self.first == np.arange(len(self.first)))


class Change(NamedTuple):
    """What was done to a gallery."""

    #: Rows of the gallery afterwards.
    rows: int
    added: int
    removed: int
    #: Ids to remove that no row has.
    missing: int
    #: Bytes written.
    bytes: int
    #: Files of changes afterwards; :meth:`Gallery.compact` merges them.
    changes: int


class Filter:
    """Which rows of a gallery take part in a search; made by :meth:`Gallery.filter`."""

    __slots__ = ("_capsule", "_gallery", "_rows", "__weakref__")

    def __init__(self, capsule: Any, gallery: Any, rows: int) -> None:
        self._capsule = capsule
        self._gallery = gallery
        self._rows = rows

    def __len__(self) -> int:
        """The number of rows that take part."""
        return self._rows

    def __repr__(self) -> str:
        return f"<koofu.Filter: {self._rows} rows>"


class Gallery:
    """Rows to search, with labels and ids, and a map for the queries.

    Answers are exact: those of comparing with every row without any rounding. Galleries are
    thread-safe; a search that is under way does not see changes.

    >>> import numpy as np, koofu
    >>> X = np.random.default_rng(0).normal(size=(1000, 32)).astype("f4")
    >>> gallery = koofu.Gallery.build(X)
    >>> hits = gallery.search(X[:3], k=5)
    >>> hits.rows[:, 0], hits.rows.shape
    (array([0, 1, 2]), (3, 5))
    >>> bool((gallery.itself(k=1).rows[:, 0] != np.arange(1000)).all())
    True
    """

    __slots__ = ("_now", "_paths", "_from_disk", "_parts", "__weakref__")

    def __init__(self, capsule: Any, paths: Sequence[Path] = (), from_disk: bool = False,
                 parts: Optional[tuple[Data, Optional[Model], dict[str, Any]]] = None) -> None:
        self._paths = list(paths)
        self._from_disk = from_disk
        self._parts = parts
        # One tuple, so that no thread sees half of a change.
        self._now: tuple[Any, tuple[Any, ...]] = (capsule, _koofu.gallery_info(capsule))

    @property
    def _capsule(self) -> Any:
        return self._now[0]

    @property
    def _info(self) -> tuple[Any, ...]:
        return self._now[1]

    def _reload(self) -> None:
        capsule = _koofu.gallery_load([fs(p) for p in self._paths], int(self._from_disk))
        self._now = (capsule, _koofu.gallery_info(capsule))

    def _file(self) -> bytes:
        """The file to change."""
        if not self._paths:
            raise ValueError("this gallery is in memory and cannot change; build it with path=, "
                             "or save it and load it")
        if len(self._paths) > 1:
            raise ValueError(f"this gallery is {len(self._paths)} files; to change one, load "
                             "it alone")
        return fs(self._paths[0])

    # --- building and changing ---

    @classmethod
    def build(
        cls,
        X: Rows,
        y: Labels = None,
        *,
        model: Union[Model, Path, None] = None,
        metric: Optional[str] = None,
        k: Union[int, str, None] = None,
        ids: Optional[Sequence[str]] = None,
        path: Optional[Path] = None,
        classes: Optional[Sequence[str]] = None,
        zero_rows: str = "error",
        unlabelled: str = "error",
        dtype: str = "float32",
    ) -> Gallery:
        """A gallery of rows, in memory or in a file.

        :param X, y, classes, ids, zero_rows, unlabelled: as in :class:`koofu.Data`.
        :param model: maps the rows; queries are still given in the original space.
        :param metric: ``"cosine"``, ``"euclidean"`` or ``"inner"``; None: cosine, or Euclidean for
            a model fitted without normalising.
        :param k: the number of neighbours that vote in :meth:`classify`; ``"auto"``: chosen.
        :param path: a ``.safetensors`` file to write; rows are streamed to it. Only a gallery with
            a file can change (:meth:`append`, :meth:`replace`, :meth:`remove`). None: in memory,
            keeping ``X`` for :meth:`save`.
        :param dtype: ``"float32"``, or ``"float16"`` or ``"bfloat16"``, which halve the file and
            need three bytes of memory per value instead of five. Rows are rounded to nearest even,
            and all answers are those of the rounded rows.
        """
        data = open_data(X, y, classes=classes, zero_rows=zero_rows, unlabelled=unlabelled,
                         ids=None if ids is None else list(ids))
        mapping = capsule_of(model, Model, "model")
        options: dict[str, Any] = {"metric": one_of(metric, _METRICS, "metric"),
                                   "dtype": one_of(dtype, DTYPES, "dtype")}
        if isinstance(k, str):
            one_of(k, {"auto": 1}, "k")
            options["k"] = _koofu.choose_k(data._capsule, mapping)
        elif k is not None:
            options["k"] = _check_k(k)
        if path is not None:
            _koofu.gallery_save(data._capsule, mapping, options, fs(path))
            return cls.load(path)
        return cls(_koofu.gallery_new(data._capsule, mapping, options), (), False,
                   (data, mapping, options))

    @classmethod
    def load(cls, path: Path, *, also: Union[Path, Sequence[Path]] = (),
             rerank_from_disk: bool = False) -> Gallery:
        """Reads a file written by :meth:`save` or the command line.

        :param also: further galleries, whose rows follow: answers are those of one gallery with all
            rows. Metric and map must be the same; all have labels or none has, and the same holds
            for ids. Classes are matched by name. :meth:`file_of` tells which file has a row.
        :param rerank_from_disk: keep float32 rows in the file: a fifth of the memory.
        """
        more = [also] if is_path(also) else list(also)  # type: ignore[arg-type]
        paths: list[Path] = [path, *more]
        return cls(_koofu.gallery_load([fs(p) for p in paths], int(rerank_from_disk)), paths,
                   rerank_from_disk)

    def save(self, path: Path) -> None:
        """Writes a gallery that is in memory to a ``.safetensors`` file."""
        if self._parts is None:
            raise ValueError(f"this gallery already is a file, {self._paths[0]!s}; copy that")
        data, mapping, options = self._parts
        _koofu.gallery_save(data._capsule, mapping, options, fs(path))

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
        """Adds rows to the file of the gallery, and reloads it.

        A batch that is one of the last 64 is not added twice: then the result is False, unless
        ``again`` is set.
        """
        return not self._add(X, y, ids, classes, zero_rows, unlabelled, {"again": int(again)})[0]

    def replace(
        self,
        X: Rows,
        y: Labels = None,
        *,
        ids: Optional[Sequence[str]] = None,
        classes: Optional[Sequence[str]] = None,
        zero_rows: str = "error",
        unlabelled: str = "error",
    ) -> Change:
        """Adds rows and, in the same change, removes older rows with the same ids.

        Rows are numbered in the order in which they were added, so a row that replaces another has
        a new number.
        """
        return self._add(X, y, ids, classes, zero_rows, unlabelled, {"replace": 1})[1]

    def _add(self, X: Rows, y: Labels, ids: Optional[Sequence[str]],
             classes: Optional[Sequence[str]], zero_rows: str, unlabelled: str,
             options: dict[str, Any]) -> tuple[bool, Change]:
        path = self._file()
        data = open_data(X, y, classes=classes, zero_rows=zero_rows, unlabelled=unlabelled,
                         ids=None if ids is None else list(ids))
        repeated, change = _koofu.gallery_save(data._capsule, None,
                                               {"append_to": path, **options}, path)
        self._reload()
        return repeated, Change(*change)

    def remove(self, ids: Iterable[str]) -> Change:
        """Removes all rows with these ids from the gallery, and reloads it.

        The change is written next to the file, so its cost does not depend on the size of the
        gallery. Ids that no row has are counted (:attr:`Change.missing`), not an error, so a
        removal can be repeated. The last row cannot be removed.
        """
        path = self._file()
        change = Change(*_koofu.gallery_remove(path, _strings(ids, "ids")))
        if change.removed:
            self._reload()
        return change

    def compact(self) -> Change:
        """Merges the gallery and its changes into one file, and reloads it. Readers may go on
        reading."""
        change = Change(*_koofu.gallery_compact(self._file()))
        self._reload()
        return change

    # --- contents ---

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
        """Whether it has a map for its queries."""
        return bool(self._info[4])

    @property
    def k(self) -> Optional[int]:
        """The number of neighbours that should vote; None: not known."""
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
        capsule, info = self._now
        if not info[6]:
            return None
        out = np.empty(info[0], dtype=np.int32)
        _koofu.gallery_labels(capsule, out)
        return out

    def id(self, row: int) -> Optional[str]:
        """The id of a row; None if rows have none."""
        capsule, info = self._now
        if not 0 <= row < info[0]:
            raise IndexError(f"row {row} of a gallery of {info[0]} rows")
        return _koofu.gallery_id(capsule, row)

    @property
    def ids(self) -> Optional[list[str]]:
        """The ids of all rows; None if they have none."""
        return _koofu.gallery_ids(self._capsule)

    @property
    def dtype(self) -> str:
        """The type of its rows: ``"float32"``, ``"float16"`` or ``"bfloat16"``."""
        return next(name for name, number in DTYPES.items() if number == self._info[11])

    @property
    def files(self) -> list[str]:
        """The files it was loaded from; empty for a gallery in memory."""
        return [os.fsdecode(p) for p in self._paths]

    def file_of(self, rows: Union[int, AnyArray]) -> tuple[I64, I64]:
        """For several galleries loaded as one: which of :attr:`files` has each row, and the number
        of the row in it. Both have the shape of ``rows``; -1 for numbers that are not rows."""
        wanted = np.ascontiguousarray(rows, dtype=np.int64)
        files, own = np.empty_like(wanted), np.empty_like(wanted)
        _koofu.gallery_files(self._capsule, wanted, files, own)
        shape = np.shape(rows)
        return files.reshape(shape), own.reshape(shape)

    @property
    def nbytes(self) -> int:
        """Memory of the index in bytes."""
        return int(self._info[10])

    # --- searching ---

    def filter(self, *, classes: Optional[Iterable[Union[str, int]]] = None,
               ids: Optional[Iterable[str]] = None) -> Filter:
        """A filter: only rows with these classes, these ids, or both take part in a search.

        Answers are those of a gallery of these rows alone, with the row numbers of this one.
        Classes and ids that no row has are allowed, but at least one row must remain. When the
        gallery changes, a new filter is needed.

        :param classes: names or numbers of classes.
        :param ids: ids of rows.
        """
        capsule, info = self._now
        names = None if classes is None else _class_list(classes, info[8], info[7])
        listed = None if ids is None else _strings(ids, "ids")
        made, rows = _koofu.filter_new(capsule, names, listed)
        return Filter(made, capsule, rows)

    def search(self, X: Rows, k: int = 10, *, leave_out: Optional[AnyArray] = None,
               text_mean: Optional[F64] = None, only: Optional[Filter] = None) -> Hits:
        """The k nearest rows of each query, best first.

        :param X: queries in the original space, ``(n, dim_in)``: an array, a path or a
            :class:`koofu.Data`.
        :param leave_out: for each query the number of a row to leave out, or -1.
        :param text_mean: the queries are embeddings of text, and this is the mean of such (see
            :func:`koofu.text_mean` and :meth:`koofu.Encoder.text_mean`).
        :param only: search these rows alone (:meth:`filter`).
        """
        capsule, info = self._now
        rows = rows_or_data(X)
        out = self._outputs(count_rows(rows), _check_k(k), np.int64)
        _koofu.gallery_search(capsule, rows, k, _check_left_out(leave_out, rows),
                              _check_mean(text_mean, info[1]), _check_filter(only, capsule), *out)
        return Hits._of(*out, (capsule, info))

    def itself(self, k: int = 10, *, first: int = 0, n: Optional[int] = None) -> Hits:
        """For each of the rows ``first`` to ``first + n - 1`` of the gallery, the k nearest
        others."""
        capsule, info = self._now
        count = _check_stretch(first, n, info[0])
        out = self._outputs(count, _check_k(k), np.int64)
        _koofu.gallery_itself(capsule, first, count, k, *out)
        return Hits._of(*out, (capsule, info))

    def within(self, X: Rows, limit: float, *, leave_out: Optional[AnyArray] = None,
               text_mean: Optional[F64] = None, only: Optional[Filter] = None) -> Ranges:
        """All rows whose score for a query, as :meth:`search` gives it, is at least ``limit`` or,
        for distances, at most ``limit``.

        Memory: 16 bytes per answer, and up to twice that while they are collected.

        :param X, leave_out, text_mean, only: as in :meth:`search`.

        >>> import numpy as np, koofu
        >>> X = np.random.default_rng(0).normal(size=(1000, 8)).astype("f4")
        >>> near = koofu.Gallery.build(X).within(X[:3], 0.8)
        >>> len(near), int(near[0].rows[0]), bool((near.scores >= 0.8).all())
        (3, 0, True)
        """
        capsule, info = self._now
        rows = rows_or_data(X)
        return _ranges(_koofu.gallery_within(capsule, rows, _check_limit(limit),
                                             _check_left_out(leave_out, rows),
                                             _check_mean(text_mean, info[1]),
                                             _check_filter(only, capsule)), (capsule, info))

    def within_itself(self, limit: float, *, first: int = 0, n: Optional[int] = None,
                      only: Optional[Filter] = None) -> Ranges:
        """:meth:`within` for rows ``first`` to ``first + n - 1`` of the gallery, each left out of
        its own answer.

        :param only: which rows may be found.
        """
        capsule, info = self._now
        count = _check_stretch(first, n, info[0])
        return _ranges(_koofu.gallery_within_itself(capsule, first, count, _check_limit(limit),
                                                    _check_filter(only, capsule)), (capsule, info))

    def unique(self, limit: float) -> Unique:
        """Groups of near-duplicates: rows within ``limit`` of each other (as in :meth:`within`) are
        in one group, and so are rows connected by a chain of such pairs.

        >>> import numpy as np, koofu
        >>> X = np.random.default_rng(0).normal(size=(100, 32)).astype("f4")
        >>> found = koofu.Gallery.build(np.concatenate([X, 1.01 * X[:7]])).unique(0.999)
        >>> found.groups, found.copies, len(found.keep), found.first[100:103]
        (7, 7, 100, array([0, 1, 2]))
        """
        capsule, info = self._now
        first = np.empty(info[0], dtype=np.int64)
        return Unique(first, *_koofu.gallery_unique(capsule, _check_limit(limit), first))

    def classify(self, X: Rows, k: Optional[int] = None, *, top: int = 1, weighted: bool = False,
                 temperature: Optional[float] = None,
                 only: Optional[Filter] = None) -> tuple[I32, F64]:
        """The classes with the most votes among the k nearest rows, and their votes, both
        ``(n, top)``. If fewer classes have votes, the rest is -1.

        :param k: None: that of the gallery, or 15; at most the number of rows.
        :param weighted: nearer neighbours count more, by ``temperature``.
        :param only: which rows vote (:meth:`filter`).
        """
        if top < 1:
            raise ValueError(f"top is {top}; it must be at least 1")
        capsule, info = self._now
        voting = _check_filter(only, capsule)
        most = info[0] if only is None else len(only)
        chosen = _check_k(k) if k is not None else min(info[5] or 15, most)
        rows = rows_or_data(X)
        out = self._outputs(count_rows(rows), top, np.int32)
        options = {"k": chosen, "top": top, "weighted": int(weighted), "temperature": temperature}
        _koofu.gallery_vote(capsule, rows, options, voting, *out)
        return out[0], out[1]

    def predict(self, X: Rows, k: Optional[int] = None, *,
                only: Optional[Filter] = None) -> AnyArray:
        """The class with the most votes: its name, or its number if classes have no names."""
        classes = self.classify(X, k, only=only)[0][:, 0]
        names = self.class_names
        return classes.astype(np.int64) if names is None else np.array(names)[classes]

    @staticmethod
    def _outputs(n: int, k: int, dtype: Any) -> tuple[AnyArray, F64]:
        return np.empty((n, k), dtype=dtype), np.empty((n, k), dtype=np.float64)

    def __repr__(self) -> str:
        return f"<koofu.Gallery: {len(self)} rows of {self.dim} columns, {self.metric}>"


def _ranges(made: tuple[bytearray, bytearray, bytearray], gallery: Any) -> Ranges:
    rows, scores = np.frombuffer(made[1], np.int64), np.frombuffer(made[2], np.float64)
    return Ranges(np.frombuffer(made[0], np.int64), rows, scores, Hits._of(rows, scores, gallery))


def _strings(values: Iterable[str], what: str) -> list[str]:
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{what} is {values!r}; it must be a list")
    listed = [str(v) if isinstance(v, np.str_) else v for v in values]
    for value in listed:
        if not isinstance(value, str):
            raise TypeError(f"{what} holds {value!r}; it must hold strings")
    return listed


def _class_list(values: Iterable[Union[str, int]], names: Optional[list[str]], n: int) -> list[str]:
    """Names of classes or, if they have none, numbers as strings."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"classes is {values!r}; it must be a list")
    listed = []
    for value in values:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if not 0 <= value < n:
                raise ValueError(f"classes holds {value!r}, but there are {n} classes")
            listed.append(str(int(value)) if names is None else names[int(value)])
        else:
            listed += _strings([value], "classes")  # type: ignore[list-item]
    return listed


def _check_left_out(leave_out: Optional[AnyArray], rows: Any) -> Optional[I64]:
    if leave_out is None:
        return None
    without = np.ascontiguousarray(leave_out, dtype=np.int64)
    if without.shape != (count_rows(rows),):
        raise ValueError(f"X has {count_rows(rows)} rows, but leave_out has the shape "
                         f"{without.shape}")
    return without


def _check_mean(text_mean: Optional[F64], dim: int) -> Optional[F64]:
    if text_mean is None:
        return None
    mean = np.ascontiguousarray(text_mean, dtype=np.float64)
    if mean.shape != (dim,):
        raise ValueError(f"text_mean has the shape {mean.shape}; it must be ({dim},)")
    return mean


def _check_filter(only: Optional[Filter], gallery: Any) -> Any:
    if only is None:
        return None
    if not isinstance(only, Filter):
        raise TypeError(f"only is of type {type(only).__name__}; it must be a Filter, made by "
                        "Gallery.filter")
    if only._gallery is not gallery:
        raise ValueError("only is a filter of another gallery, or of this one before it changed")
    return only._capsule


def _check_limit(limit: Any) -> float:
    try:
        number = float(limit)
    except (TypeError, ValueError):
        raise TypeError(f"limit is {limit!r}; it must be a number") from None
    if number != number:
        raise ValueError("limit is NaN; it must be a number")
    return number


def _check_stretch(first: int, n: Optional[int], rows: int) -> int:
    count = rows - first if n is None else n
    if first < 0 or count < 0 or first + count > rows:
        raise ValueError(f"rows {first} to {first + count - 1} of a gallery of {rows} rows")
    return count


def _check_k(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"k is {k!r}; it must be an integer")
    if not 1 <= k <= _MAX_K:
        raise ValueError(f"k is {k}; it must be 1 to {_MAX_K}")
    return int(k)
