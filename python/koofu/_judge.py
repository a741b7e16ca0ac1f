"""Judging models: accuracy, sweeps, comparisons, the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np

from koofu import _koofu
from koofu._data import open_data
from koofu._files import info
from koofu._gallery import Gallery
from koofu._html import percent, table
from koofu._labels import check_names
from koofu._model import CENTRES, METHODS, METRICS, PARTS, PRIORS, Model, lambda_options
from koofu._stats import Stats
from koofu._text import Text
from koofu._types import AnyArray, Labels, Path, Rows, capsule_of, fs, is_path, one_of, taken


class Truth:
    """The right classes of each row, where a single label is not enough.

    :param path: ``.json`` (such as ReaL's), ``.csv`` or text.
    :param classes: a text file with the names that class numbers stand for.
    :param ids: a text file with the id of each row.
    """

    __slots__ = ("_capsule",)

    def __init__(self, path: Path, *, classes: Optional[Path] = None,
                 ids: Optional[Path] = None) -> None:
        options = {"classes": None if classes is None else fs(classes),
                   "ids": None if ids is None else fs(ids)}
        self._capsule = _koofu.truth_load(fs(path), options)

    def __len__(self) -> int:
        return int(_koofu.truth_info(self._capsule)[0])


@dataclass(frozen=True)
class Evaluation:
    """Accuracy on rows, and why some were left out."""

    #: Rows in the data set, and how many of them were scored.
    rows: int
    n: int
    #: Rows left out: no label, a class the model lacks, zero, no entry in the truth.
    unlabelled: int
    absent: int
    bad: int
    excluded: int
    absent_classes: int
    #: The share of the n rows whose class is first, and among the first five.
    top1: float
    top5: float
    #: The same in the original space; None if that was not judged.
    raw_top1: Optional[float]
    raw_top5: Optional[float]

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of ``top1``."""
        return self._interval(self.top1)

    def _interval(self, share: float) -> tuple[float, float]:
        return interval95(round(share * self.n), self.n)

    def _repr_html_(self) -> str:
        """For notebooks."""
        mapped = "" if self.raw_top1 is None else "Koo-Fu"
        spaces = [("raw", self.raw_top1, self.raw_top5), (mapped, self.top1, self.top5)]
        rows = [[space] + [f"{percent(share)} [{100 * low:.2f}, {100 * high:.2f}]"
                           for share in (top1, top5) for low, high in [self._interval(share)]]
                for space, top1, top5 in spaces if top1 is not None and top5 is not None]
        left_out = ", ".join(f"{count:,} {why}" for count, why in (
            (self.unlabelled, "without a label"), (self.absent, "of classes that the model lacks"),
            (self.bad, "zero or bad"), (self.excluded, "without an entry in the truth")) if count)
        note = f"{self.n:,} rows" + (f"; left out: {left_out}" if left_out else "")
        return table("koofu.Evaluation", rows, ("", "top-1 [95 %]", "top-5 [95 %]"), note)


def _evaluation(counts: dict[str, int], raw: bool) -> Evaluation:
    """From hits to shares."""
    hits = {name: counts.pop(name) / counts["n"]
            for name in ("top1", "top5", "raw_top1", "raw_top5")}
    return Evaluation(**counts, top1=hits["top1"], top5=hits["top5"],
                      raw_top1=hits["raw_top1"] if raw else None,
                      raw_top5=hits["raw_top5"] if raw else None)


def interval95(hits: int, n: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a proportion of hits among n.

    >>> low, high = interval95(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    low, high = _koofu.interval95(hits, n)
    return low, high


def _truth(truth: Union[Truth, Path, None]) -> Any:
    return capsule_of(truth, Truth, "truth")


def _class_set(only: Optional[Sequence[str]]) -> Any:
    names = check_names(only)
    return None if names is None else _koofu.class_set(names)


def evaluate(
    model: Union[Model, Gallery, Path],
    X: Rows = None,
    y: Labels = None,
    *,
    metric: Optional[str] = None,
    raw: bool = True,
    part: Optional[str] = None,
    k: Optional[int] = None,
    weighted: bool = False,
    truth: Union[Truth, Path, None] = None,
    only: Optional[Sequence[str]] = None,
    classes: Optional[Sequence[str]] = None,
    zero_rows: str = "error",
    unlabelled: str = "error",
    unknown: str = "error",
) -> Evaluation:
    """Accuracy of a model by nearest prototypes, or of a gallery by votes of neighbours.

    :param model: a model, a gallery, or the path of either.
    :param X, y, classes, zero_rows, unlabelled, unknown: as in :class:`koofu.Data`. For a gallery X
        may be None: then each of its rows is left out in turn.
    :param raw: also in the original space (models).
    :param part: for a model with text: ``"images"``, ``"text"`` or ``"fused"``.
    :param k, weighted: for a gallery, as in :meth:`koofu.Gallery.classify`.
    :param truth: right classes instead of labels.
    :param only: only these classes take part.

    >>> import numpy as np, koofu
    >>> y = np.arange(200) % 4
    >>> X = np.random.default_rng(0).normal(size=(200, 16)) + 4 * np.eye(4, 16)[y]
    >>> koofu.evaluate(koofu.fit(X[:100], y[:100]), X[100:], y[100:]).top1 > 0.9
    True
    """
    options: dict[str, Any] = {"classes": classes, "zero_rows": zero_rows,
                               "unlabelled": unlabelled, "unknown": unknown}
    if is_path(model) and info(model).kind == "gallery":  # type: ignore[arg-type]
        model = Gallery.load(model)  # type: ignore[arg-type]
    if isinstance(model, Gallery):
        data = None if X is None else open_data(X, y, **options)._capsule
        chosen = k if k is not None else model.k or min(15, max(1, len(model) - 1))
        counts = _koofu.gallery_evaluate(model._capsule, data, chosen, int(weighted), 0.0,
                                         _truth(truth), _class_set(only))
        return _evaluation(counts, False)
    capsule = taken(model, Model, "model")._capsule
    data = open_data(X, y, **options)._capsule
    numbers = {
        "metric": one_of(metric, METRICS, "metric"),
        "include_raw": 1 if raw else 2,
        "part": one_of(part, PARTS, "part"),
    }
    return _evaluation(_koofu.evaluate(capsule, data, numbers, _truth(truth), _class_set(only)), raw)


@dataclass(frozen=True)
class Comparison:
    """Two models on the same rows."""

    rows: int
    #: Rows judged by both; right in both, in neither, in one only.
    n: int
    both: int
    neither: int
    only_a: int
    only_b: int
    #: Accuracy of a minus that of b, and its 95 % interval.
    difference: float
    low: float
    high: float
    #: The p-value of McNemar's exact test.
    p: float


def compare(
    a: Union[Model, Path],
    b: Union[Model, Path],
    X: Rows,
    y: Labels = None,
    *,
    raw_b: bool = False,
    truth: Union[Truth, Path, None] = None,
    only: Optional[Sequence[str]] = None,
    **options: Any,
) -> Comparison:
    """Compares two models row by row: how often one is right where the other is wrong, and whether
    that could be chance.

    :param raw_b: judge b in the original space (b may be a itself).
    :param options: of :class:`koofu.Data`.
    """
    models = [taken(model, Model, name)._capsule for name, model in (("a", a), ("b", b))]
    data = open_data(X, y, **options)._capsule
    verdicts = [
        _koofu.verdicts(capsule, data, {"raw": raw}, _truth(truth), _class_set(only))
        for capsule, raw in zip(models, (0, int(raw_b)))
    ]
    return Comparison(**_koofu.compare(*verdicts))


_CELLS = ("kind", "raw", "lambda", "relative", "dim", "k", "metric", "alpha", "n", "top1", "top5")


def sweep(
    X: Rows,
    y: Labels = None,
    *,
    test: Any = None,
    lambdas: Optional[Sequence[Union[str, float]]] = None,
    dims: Optional[Sequence[int]] = None,
    k: Optional[Sequence[int]] = None,
    metrics: Optional[Sequence[str]] = None,
    centre: Optional[str] = None,
    method: Optional[str] = None,
    priors: Optional[str] = None,
    raw: bool = True,
    prototypes: bool = True,
    folds: Optional[int] = None,
    leave_one_out: bool = False,
    sample: Optional[int] = None,
    text: Union[Text, Path, None] = None,
    fuse: bool = False,
    truth: Union[Truth, Path, None] = None,
    stats: Union[Stats, Path, None] = None,
    normalize: bool = True,
    **options: Any,
) -> dict[str, AnyArray]:
    """Accuracy for every combination of settings, with shared work done once.

    Returns columns for ``pandas.DataFrame`` or ``polars.DataFrame``: ``kind``
    (``"prototypes"``, ``"neighbours"``, ``"text"``, ``"fused"``), ``raw``, ``lambda``,
    ``relative``, ``dim``, ``k``, ``metric``, ``alpha``, ``n``, ``top1``, ``top5`` (shares of n).

    :param X, y, options: as in :class:`koofu.Data`.
    :param test: test rows: a :class:`koofu.Data`, a path, or ``(X, y)``; None: folds of X.
    :param lambdas: as ``lambda_`` of :func:`koofu.fit`; None: ``"0.3x"``.
    :param dims: numbers of dimensions; None: all.
    :param k: numbers of neighbours, rising; None: prototypes alone.
    :param metrics: metrics of prototypes and neighbours; None: the default one.
    :param priors: as in :func:`koofu.fit`; ``"training"`` only without ``normalize``.
    :param raw, prototypes: include the original space, and nearest prototypes.
    :param folds: number of folds, without test rows; None: 5.
    :param leave_one_out: leave rows out in turn instead of in folds.
    :param sample: judge at most this many rows, the same share of each class; None: all, or 50,000
        with ``leave_one_out``.
    :param text, fuse: include zero-shot, and text and prototypes together.
    :param stats: the statistics of X, if already computed.

    >>> import numpy as np, koofu
    >>> y = np.arange(200) % 4
    >>> X = np.random.default_rng(0).normal(size=(200, 16)) + 4 * np.eye(4, 16)[y]
    >>> table = koofu.sweep(X, y, lambdas=["0.1x", "1x"], dims=[16, 3], raw=False)
    >>> table["dim"], table["n"]
    (array([16,  3, 16,  3]), array([200, 200, 200, 200]))
    """
    data = open_data(X, y, **options)
    if stats is None:
        stats = Stats.of(data, normalize=normalize)
    judged = _test_rows(test)
    numbers = {
        "centre": one_of(centre, CENTRES, "centre"),
        "method": one_of(method, METHODS, "method"),
        "priors": one_of(priors, PRIORS, "priors"),
        "include_raw": 1 if raw else 2,
        "include_prototypes": 1 if prototypes else 2,
        "folds": folds,
        "leave_one_out": int(leave_one_out),
        "sample": sample,
        "fuse": int(fuse),
    }
    steps = None
    if lambdas is not None:
        wanted = [lambda_options(value) for value in _listed(lambdas, "lambdas")]
        steps = [(options["lambda"], options["lambda_unit"]) for options in wanted]
    spaces = None if metrics is None else [one_of(m, METRICS, "metrics") for m in metrics]
    cells = _koofu.sweep(
        capsule_of(stats, Stats, "stats"), data._capsule, judged, numbers, _truth(truth),
        capsule_of(text, Text, "text"), steps, _numbers(dims, "dims"), _numbers(k, "k"),
        spaces,
    )
    columns = {name: np.array([cell[i] for cell in cells]) for i, name in enumerate(_CELLS)}
    for name in ("top1", "top5"):
        columns[name] = columns[name] / np.maximum(columns["n"], 1)
    return columns


def _test_rows(test: Any) -> Any:
    """The data set of test rows; None if there are none."""
    if test is None:
        return None
    X, y = test if isinstance(test, tuple) and len(test) == 2 else (test, None)
    return open_data(X, y, "test")._capsule


def _listed(value: Any, what: str) -> list[Any]:
    if isinstance(value, (str, int, float)):
        raise TypeError(f"{what} is {value!r}; it must be a list")
    return list(value)


def _numbers(value: Optional[Sequence[int]], what: str) -> Optional[list[int]]:
    if value is None:
        return None
    return [int(number) for number in _listed(value, what)]


def report(
    path: Path,
    X: Rows,
    y: Labels = None,
    *,
    test: Any = None,
    model: Union[Model, Path, None] = None,
    text: Union[Text, Path, None] = None,
    truth: Union[Truth, Path, None] = None,
    title: Optional[str] = None,
    train_name: Optional[str] = None,
    test_name: Optional[str] = None,
    dims: Optional[Sequence[int]] = None,
    k: Optional[Sequence[int]] = None,
    shots: Optional[Sequence[int]] = None,
    seeds: Optional[int] = None,
    neighbours: bool = True,
    sample: Optional[int] = None,
    **options: Any,
) -> dict[str, Any]:
    """Writes one HTML page about training rows and their model, choosing settings that are not
    given.

    The page is self-contained and has no scripts. Returns the main figures; those of the test rows
    are shares of ``test_n``, None without test rows.

    :param X, y, options: training rows, as in :class:`koofu.Data`.
    :param test: test rows: a :class:`koofu.Data`, a path, or ``(X, y)``; None: folds of X.
    :param model: of the training rows; None: one is fitted.
    :param text: text prototypes to fit together with the rows.
    :param dims, k, shots: dimensions, neighbours and numbers of shots to compare.
    :param seeds: draws for each number of shots; None: 3.
    :param neighbours: include figures about neighbours, which take most of the time.
    :param sample: judge at most this many rows in curves and by neighbours; None: 50,000, or fewer
        with more than 170,000 training rows. ``n_judged`` and ``n_to_judge`` say what was done.
    """
    data = open_data(X, y, **options)
    judged = _test_rows(test)
    words = {
        "title": title,
        "train_name": train_name or (str(X) if is_path(X) else "training rows"),
        "test_name": test_name or (None if judged is None
                                   else str(test) if is_path(test) else "test rows"),
        "seeds": seeds,
        "neighbours": 1 if neighbours else 2,
        "sample": sample,
    }
    result: dict[str, Any] = _koofu.report(
        data._capsule, fs(path), words, {}, judged, _truth(truth),
        capsule_of(model, Model, "model"), capsule_of(text, Text, "text"),
        _numbers(dims, "dims"), _numbers(k, "k"), _numbers(shots, "shots"),
    )
    for name in ("test_top1", "test_top5", "test_raw_top1"):
        result[name] = result[name] / result["test_n"] if result["test_n"] else None
    return result
