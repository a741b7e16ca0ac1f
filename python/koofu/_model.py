"""Models: fitting and using them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np

from koofu import _koofu
from koofu._data import DTYPES, count_rows, open_data, rows_or_data
from koofu._html import percent, table
from koofu._stats import Stats, stats_options
from koofu._text import Text
from koofu._types import (
    F32,
    F64,
    I32,
    I64,
    AnyArray,
    Labels,
    Path,
    Rows,
    capsule_of,
    fs,
    one_of,
    taken,
)

METRICS = {None: 0, "cosine": 1, "euclidean": 2}
CENTRES = {None: 0, "none": 1, "mean": 2}
METHODS = {None: 0, "shrunk": 1, "paper": 2}
CRITERIA = {None: 0, "likelihood": 1, "accuracy": 2}
PRIORS = {None: 0, "equal": 1, "training": 2}
_SHOWN = 6  # class names in a notebook
PARTS = {None: 0, "images": 1, "text": 2, "fused": 3}


@dataclass(frozen=True)
class FitReport:
    """What a fit chose and how good it is, judged on the training rows alone."""

    #: Rows in the model, and rows left out: unlabelled, or zero (skipped).
    rows: int
    unlabelled: int
    bad: int
    #: The regulariser, absolute, and the mean eigenvalue of the scatter within classes.
    lambda_: float
    mean_eigenvalue: float
    #: The weight of prototypes relative to the text; 0 without text.
    alpha: float
    dim: int
    #: Leave-one-out: ``right`` of ``n`` rows; n is 0 if nothing was left out.
    n: int
    right: int
    standard_error: float
    #: Of ``compared`` rows, those with a near-duplicate; many make leave-one-out optimistic.
    compared: int
    near: int
    many_near: int
    #: 1: no class has two different rows, so the scatter of all rows was used.
    by_all_rows: int

    @property
    def accuracy(self) -> Optional[float]:
        """Leave-one-out accuracy; None if nothing was left out."""
        return self.right / self.n if self.n else None


def lambda_options(value: Union[str, float]) -> dict[str, Any]:
    """``kf_lambda`` for ``"auto"``, ``"0.3x"``, ``"gda"``, ``"ledoit-wolf"`` or a number."""
    if isinstance(value, str):
        number, unit = _koofu.parse_lambda(value)
        return {"lambda": number, "lambda_unit": unit}
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"lambda_ is {value!r}; it must be a number, 'auto', 'gda', 'ledoit-wolf', "
                        "or a multiple of the mean eigenvalue such as '0.3x'") from None
    if not 0 <= number < float("inf"):
        raise ValueError(f"lambda_ is {value!r}; it must be finite and not negative")
    return {"lambda": number, "lambda_unit": 1}


def component_options(value: Union[int, str, None]) -> dict[str, Any]:
    """``dim`` or ``choose_dim`` of a fit."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"choose_dim": one_of(value, {"auto": 1}, "n_components")}
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"n_components is {value!r}; it must be None, an integer or 'auto'")
    if value < 1:
        raise ValueError(f"n_components is {value}; it must be at least 1")
    return {"dim": int(value)}


def take_groups(groups: Any, n: int) -> Optional[AnyArray]:
    """The group of each row, as numbers from 0 on."""
    if groups is None:
        return None
    array = np.asarray(groups)
    if array.shape != (n,):
        raise ValueError(f"X has {n} rows, but groups has the shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].reshape(-1).astype(np.uint32)


def _callers() -> int:
    """The ``stacklevel`` of a warning in the caller of this function: outside the package."""
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").startswith("koofu."):
        level += 1
    return level


def _warn_of_copies(report: FitReport, grouped: bool) -> None:
    """As the command line does."""
    outside, left, remedy = (
        (", in another group", "groups left out", "put them into one group") if grouped else
        ("", "rows left out one by one", "leave out whole groups instead (koofu.fit(..., groups=))")
    )
    if report.many_near and report.n:
        warnings.warn(f"{report.near:,} of {report.compared:,} rows checked have a nearly equal "
                      f"row in their class{outside}, such as a copy or another frame of a video; "
                      f"figures of {left} are then optimistic, and lambda too small: {remedy}",
                      stacklevel=_callers())


def fit(
    X: Rows,
    y: Labels = None,
    *,
    lambda_: Union[str, float] = "auto",
    n_components: Union[int, str, None] = None,
    metric: Optional[str] = None,
    centre: Optional[str] = None,
    normalize: bool = True,
    exponent: Optional[int] = None,
    method: Optional[str] = None,
    criterion: Optional[str] = None,
    priors: Optional[str] = None,
    text: Union[Text, Path, None] = None,
    alpha: Optional[float] = None,
    stats: Union[Stats, Path, None] = None,
    between: Union[Stats, Path, None] = None,
    like: Union[Model, Path, None] = None,
    groups: Any = None,
    one_se: bool = False,
    sample: Optional[int] = None,
    folds: Optional[int] = None,
    margin: Optional[float] = None,
    reject: Optional[float] = None,
    classes: Union[Sequence[str], Path, None] = None,
    zero_rows: str = "error",
    unlabelled: str = "error",
    unknown: str = "error",
) -> Model:
    """Fits a model to labelled rows; settings that are not given are chosen from these rows.

    The model has the same bytes as that of ``koofu fit`` on the command line. Text, statistics and
    models may be given as the paths of their files.

    :param X: rows: a 2-D array (not copied), a path (read in C), a :class:`koofu.Data`, or
        :class:`koofu.Stats`, from which nothing can be chosen: then lambda is that of ``like``, or
        ``"0.3x"``, unless given.
    :param y, classes, zero_rows, unlabelled, unknown: as in :class:`koofu.Data`.
    :param lambda_: the regulariser: ``"auto"`` (by leave-one-out), ``"0.3x"`` (times the mean
        eigenvalue), ``"gda"``, ``"ledoit-wolf"``, or a number in absolute units.
    :param n_components: dimensions to keep; None: all; ``"auto"``: the fewest shown to lose less
        than ``margin`` of accuracy.
    :param metric: of prototypes: ``"cosine"`` or ``"euclidean"``.
    :param centre: what is subtracted first: ``"none"`` or ``"mean"``.
    :param normalize: scale each row to unit length first.
    :param method: ``"shrunk"`` (the default) or ``"paper"``.
    :param criterion: what lambda is chosen by: ``"likelihood"`` or ``"accuracy"``.
    :param priors: how likely classes are: ``"equal"``, or ``"training"``: in proportion to their
        training rows. None: equal or, without ``normalize`` and not by ``"paper"``, training.
    :param text: text prototypes (:class:`koofu.Text`) to fit together with the rows.
    :param alpha: the weight of prototypes relative to the text; None: chosen.
    :param stats: the statistics of X, if already computed.
    :param between: take class means from these statistics instead.
    :param like: an earlier model, such as one of fewer rows: settings that are not given are taken
        from it, not chosen: lambda (absolute), alpha, dimensions, method, centre, priors,
        temperature and threshold. If it has text, ``text`` must be given again.
    :param groups: a group for each row; rows of one group are left out together. A warning says
        when many rows have copies outside their group.
    :param one_se: choose the largest lambda within one standard error of the best.
    :param sample: leave out at most this many rows in turn.
    :param folds, margin: of ``n_components="auto"``.
    :param reject: also choose a threshold that this share of the rows, such as 0.95, passes.

    >>> import numpy as np, koofu
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 3
    >>> X = (rng.normal(size=(3, 16))[y] + rng.normal(size=(300, 16))).astype("f4")
    >>> model = koofu.fit(X[:150], y[:150], n_components=2)
    >>> model.transform(X[150:]).shape
    (150, 2)
    >>> float((model.predict(X[150:]) == y[150:]).mean()) > 0.9
    True
    """
    for name, share in (("margin", margin), ("reject", reject)):
        if share is not None and not 0 < share < 1:
            raise ValueError(f"{name} is {share!r}; it must be between 0 and 1")
    for name, count in (("sample", sample), ("folds", folds)):
        if count is not None and count < 1:
            raise ValueError(f"{name} is {count!r}; it must be at least 1")
    options = {
        **lambda_options(lambda_),
        **component_options(n_components),
        "metric": one_of(metric, METRICS, "metric"),
        "centre": one_of(centre, CENTRES, "centre"),
        "method": one_of(method, METHODS, "method"),
        "criterion": one_of(criterion, CRITERIA, "criterion"),
        "priors": one_of(priors, PRIORS, "priors"),
        **stats_options(normalize, exponent),
        "one_se": int(bool(one_se)),
        "sample": sample,
        "folds": folds,
        "margin": margin,
        "reject": reject,
    }
    words = capsule_of(text, Text, "text")
    weight = None if alpha is None else float(alpha)
    means = capsule_of(between, Stats, "between")
    earlier = capsule_of(like, Model, "like")
    if isinstance(X, Stats):
        if y is not None:
            raise ValueError("X is a Stats, which has its own labels; y must be None")
        if groups is not None:
            raise ValueError("X is a Stats; groups need the rows")
        if stats is not None:
            raise ValueError("X is a Stats already; stats must be None")
        options.pop("normalize")
        capsule, _ = _koofu.fit(None, options, words, weight, X._capsule, means, None,
                                 earlier)
        return Model(capsule)
    data = open_data(X, y, classes=classes, zero_rows=zero_rows, unlabelled=unlabelled,
                     unknown=unknown)
    sums = capsule_of(stats, Stats, "stats")
    if stats is not None:
        options.pop("normalize")
    capsule, chosen = _koofu.fit(data._capsule, options, words, weight, sums, means,
                                 take_groups(groups, len(data)), earlier)
    if chosen is None:
        return Model(capsule)
    report = FitReport(**chosen)
    _warn_of_copies(report, groups is not None)
    return Model(capsule, report)


class Model:
    """A map to a better space and the prototypes of its classes. :func:`koofu.fit` makes one.

    A model is immutable and thread-safe. It is pickled as the bytes of its file.
    """

    __slots__ = ("_capsule", "_info", "_names", "_labels", "fit_report", "__weakref__")

    #: What the fit chose; None for a model from a file or from statistics.
    fit_report: Optional[FitReport]

    def __init__(self, capsule: Any, report: Optional[FitReport] = None) -> None:
        self._capsule = capsule
        self.fit_report = report
        self._info: dict[str, Any] = _koofu.model_info(capsule)
        self._names: Optional[list[str]] = _koofu.model_names(capsule)
        self._labels: AnyArray = (np.arange(self._info["classes"], dtype=np.int64)
                                  if self._names is None else np.array(self._names))

    # --- files ---

    def save(self, path: Path) -> None:
        """Writes a ``.safetensors`` file."""
        _koofu.model_save(self._capsule, fs(path))

    @classmethod
    def load(cls, path: Path) -> Model:
        """Reads a file written by :meth:`save` or the command line."""
        return cls(_koofu.model_load(fs(path)))

    def export(
        self,
        path: Path,
        *,
        metric: Optional[str] = None,
        raw: bool = False,
        part: Optional[str] = None,
        temperature: Optional[float] = None,
        normalize: bool = True,
        gallery: Optional[Path] = None,
        inline_bytes: Optional[int] = None,
        single: bool = False,
        license: Optional[str] = None,
        base_model: Optional[str] = None,
    ) -> None:
        """Writes the model for other programs, by the extension of the path.

        ``.onnx``: a graph from rows to mapped rows, scores and probabilities; ``.faiss``: an index
        that maps its queries; ``.npz``: the arrays; ``.h`` and ``.c``: C99 without dependencies; a
        folder (a name without an extension, or one that ends in ``/``): for a model hub.

        :param metric, raw, part, temperature: what is computed, as in :meth:`classify`; for
            ``.faiss`` the metric may also be ``"inner"``.
        :param normalize: scale mapped rows to unit length, as in :meth:`transform`.
        :param gallery: ``.faiss``: the file of a gallery whose rows go into the index; None: the
            index is empty.
        :param inline_bytes: ``.onnx``: if the file would be larger, matrices go to a second file;
            None: 2 GiB.
        :param single: ``.onnx``: compute in f32, for runtimes without f64.
        :param license, base_model: folder: the licence and the page of the encoder for README.md,
            such as ``"mit"`` and ``"openai/clip-vit-base-patch32"``.
        """
        options: dict[str, Any] = {
            "metric": one_of(metric, {**METRICS, "inner": 3}, "metric"),
            "raw": int(bool(raw)),
            "part": one_of(part, PARTS, "part"),
            "temperature": self._temperature(temperature),
            "normalize": 0 if normalize else 2,
            "gallery": None if gallery is None else fs(gallery),
            "inline_bytes": inline_bytes,
            "single": int(bool(single)),
            "license": license,
            "base_model": base_model,
        }
        _koofu.model_export(self._capsule, options, fs(path))

    def to_bytes(self) -> bytes:
        """The bytes of the file."""
        return _koofu.model_to_bytes(self._capsule)

    @classmethod
    def from_bytes(cls, data: Union[bytes, bytearray, memoryview]) -> Model:
        """A model from the bytes of a file."""
        return cls(_koofu.model_from_bytes(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.to_bytes(), self.fit_report)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        return self is other or self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    # --- contents ---

    @property
    def dim_in(self) -> int:
        """Columns of the rows it takes."""
        return int(self._info["dim_in"])

    @property
    def dim_out(self) -> int:
        """Columns of mapped rows."""
        return int(self._info["dim_out"])

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self._info["classes"])

    @property
    def class_names(self) -> Optional[list[str]]:
        """The names of the classes; None if they have none."""
        return None if self._names is None else list(self._names)

    @property
    def classes(self) -> AnyArray:
        """The answers of :meth:`predict`: names, or numbers if classes have no names."""
        return self._labels.copy()

    @property
    def counts(self) -> I64:
        """Training rows of each class."""
        out = np.empty(self.n_classes, dtype=np.int64)
        _koofu.model_counts(self._capsule, out)
        return out

    @property
    def normalized(self) -> bool:
        """Whether rows are scaled to unit length first."""
        return bool(self._info["normalized"])

    @property
    def centre(self) -> str:
        """``"none"`` or ``"mean"``: what is subtracted first."""
        return "mean" if self._info["centre"] == 2 else "none"

    @property
    def method(self) -> str:
        """``"shrunk"`` or ``"paper"``."""
        return "paper" if self._info["method"] == 2 else "shrunk"

    @property
    def priors(self) -> str:
        """``"equal"`` or ``"training"``: how likely classes are."""
        return "training" if self._info["priors"] == 2 else "equal"

    @property
    def lambda_(self) -> float:
        """The regulariser, in absolute units."""
        return float(self._info["lambda_"])

    @property
    def mean_eigenvalue(self) -> float:
        """The mean eigenvalue of the scatter within classes."""
        return float(self._info["mean_eigenvalue"])

    @property
    def temperature(self) -> Optional[float]:
        """The temperature that turns scores into probabilities; None: not known."""
        value = float(self._info["temperature"])
        return value if value > 0 else None

    @property
    def reject(self) -> Optional[float]:
        """The score that a row of a known class should reach; None: not known."""
        return float(self._info["reject"]) if self._info["reject_share"] > 0 else None

    @property
    def fused(self) -> bool:
        """Whether the model has text."""
        return bool(self._info["fused"])

    @property
    def alpha(self) -> Optional[float]:
        """The weight of prototypes relative to the text; None without text."""
        return float(self._info["alpha"]) if self.fused else None

    @property
    def encoder(self) -> Optional[str]:
        """The encoder that made the training rows; None: not known."""
        return None if self._info["encoder"] is None else str(self._info["encoder"])

    def _array(self, name: str, dtype: str, *shape: int) -> AnyArray:
        return np.frombuffer(_koofu.model_array(self._capsule, name), dtype).reshape(shape)

    @property
    def matrix(self) -> F64:
        """The map, ``(dim_out, dim_in)``."""
        return self._array("transform", "f8", self.dim_out, self.dim_in)

    @property
    def mean(self) -> F64:
        """The mean of the training rows, ``(dim_in,)``."""
        return self._array("mean", "f8", self.dim_in)

    @property
    def within_eigenvalues(self) -> F64:
        """Eigenvalues of the scatter within classes, falling, ``(dim_in,)``."""
        return self._array("within_eigenvalues", "f8", self.dim_in)

    @property
    def between_eigenvalues(self) -> F64:
        """How well each direction separates classes, falling, ``(dim_in,)``."""
        return self._array("between_eigenvalues", "f8", self.dim_in)

    @property
    def class_means(self) -> F32:
        """The class means in the original space, ``(n_classes, dim_in)``."""
        return self._array("class_means", "f4", self.n_classes, self.dim_in)

    @property
    def prototypes(self) -> F32:
        """Mapped class means at unit length, ``(n_classes, dim_out)``; zeros without rows."""
        return self._array("prototypes", "f4", self.n_classes, self.dim_out)

    @property
    def prototype_lengths(self) -> F64:
        """The lengths of the mapped class means, ``(n_classes,)``."""
        return self._array("prototype_lengths", "f8", self.n_classes)

    # --- use ---

    def transform(self, X: Rows, *, normalize: bool = True) -> F32:
        """Maps rows, ``(n, dim_in)`` to ``(n, dim_out)``.

        :param normalize: scale mapped rows to unit length; ignored by models fitted without
            normalising.
        """
        rows = rows_or_data(X)
        out = np.empty((count_rows(rows), self._info["dim_out"]), dtype=np.float32)
        _koofu.transform(self._capsule, rows, 0 if normalize else 2, out)
        return out

    def transform_to(self, X: Rows, path: Path, *, normalize: bool = True,
                     dtype: str = "float32") -> None:
        """Maps rows to a file, block by block: ``.npy``, or ``.safetensors`` or ``.parquet`` with
        labels, class names and ids."""
        _koofu.transform_data(self._capsule, open_data(X)._capsule, 0 if normalize else 2,
                              one_of(dtype, DTYPES, "dtype"), fs(path))

    def classify(
        self,
        X: Rows,
        top: int = 1,
        *,
        metric: Optional[str] = None,
        raw: bool = False,
        part: Optional[str] = None,
    ) -> tuple[I32, F64]:
        """The ``top`` nearest classes of each row, best first: class numbers and scores, both
        ``(n, top)``. Scores are cosines, fused scores, or Euclidean distances.

        :param raw: in the original space, against class means.
        :param part: of a model with text: ``"images"``, ``"text"`` or ``"fused"``.
        """
        classes, scores, _ = self._best(X, top, metric, raw, part, None)
        return classes, scores

    def predict(self, X: Rows) -> AnyArray:
        """The class of each row: its name, or its number if classes have no names."""
        rows = rows_or_data(X)
        classes = np.empty(count_rows(rows), dtype=np.int32)
        _koofu.classify(self._capsule, rows, 1, 0, 0, 0, 0.0, classes, None, None)
        return self._labels.take(classes)

    def top_probabilities(
        self,
        X: Rows,
        top: int = 1,
        *,
        temperature: Optional[float] = None,
        metric: Optional[str] = None,
        raw: bool = False,
        part: Optional[str] = None,
    ) -> tuple[I32, F64]:
        """The ``top`` most likely classes of each row, and their probabilities, both
        ``(n, top)``."""
        classes, _, out = self._best(X, top, metric, raw, part, self._temperature(temperature))
        return classes, out

    def probabilities(
        self,
        X: Rows,
        *,
        temperature: Optional[float] = None,
        metric: Optional[str] = None,
        raw: bool = False,
        part: Optional[str] = None,
    ) -> F64:
        """The probability of each class, ``(n, n_classes)``; 0 for classes that take no part."""
        return self._table(X, metric, raw, part, self._temperature(temperature), True)

    def scores(
        self,
        X: Rows,
        *,
        metric: Optional[str] = None,
        raw: bool = False,
        part: Optional[str] = None,
    ) -> F64:
        """The score of each class, ``(n, n_classes)``, higher is better: cosines, fused scores, or
        minus Euclidean distances. -inf for classes that take no part."""
        return self._table(X, metric, raw, part, 0.0, False)

    def _table(self, X: Rows, metric: Optional[str], raw: bool, part: Optional[str],
               temperature: float, probabilities: bool) -> F64:
        number = one_of(metric, METRICS, "metric")
        distances = number == 2 or (number == 0 and not self.normalized)
        rows = rows_or_data(X)
        out = np.empty((count_rows(rows), self.n_classes))
        _koofu.score_table(self._capsule, rows, number, int(raw), one_of(part, PARTS, "part"),
                           temperature, int(probabilities),
                           -1.0 if distances and not probabilities else 1.0,
                           0.0 if probabilities else float("-inf"), out)
        return out

    def knows(self, X: Rows) -> AnyArray:
        """Whether the best score of each row reaches the threshold (:attr:`reject`); always True
        without a threshold."""
        _, scores = self.classify(X)
        if self.reject is None:
            return np.ones(len(scores), dtype=bool)
        best = scores[:, 0]
        reached = best >= self.reject if self.normalized else best <= self.reject
        return np.asarray(reached)

    def with_class(self, name: str, X: Rows) -> Model:
        """A copy of the model with one more class, whose prototype is the mean of these rows."""
        return Model(_koofu.model_with_class(self._capsule, name, open_data(X)._capsule))

    def zero_shot(self, text: Union[Text, Path], *, centre: Optional[str] = None) -> Model:
        """The map of this model with text prototypes instead of class means.

        :param centre: what is subtracted first: ``"modality"`` (the default: the mean of rows from
            rows, that of the text from text), ``"mean"`` or ``"none"``.
        """
        number = one_of(centre, {**CENTRES, "modality": 3}, "centre")
        words = taken(text, Text, "text")._capsule
        return Model(_koofu.model_with_text(self._capsule, words, 0, number))

    def with_text(self, text: Union[Text, Path], *, alpha: Optional[float] = None) -> Model:
        """A copy of the model with text: scores are cosines with the text plus ``alpha`` times
        those with the prototypes. A model that already has text gets more of it and keeps its
        alpha."""
        words = taken(text, Text, "text")._capsule
        if self.fused:
            if alpha is not None:
                raise ValueError("the model already has text and an alpha")
            return Model(_koofu.model_with_text(self._capsule, words, 2, 0.0))
        if alpha is None:
            raise ValueError("alpha must be given; fit(..., text=) chooses one")
        return Model(_koofu.model_with_text(self._capsule, words, 1, float(alpha)))

    def _best(self, X: Rows, top: int, metric: Optional[str], raw: bool, part: Optional[str],
              temperature: Optional[float]) -> tuple[I32, F64, F64]:
        """Classes, scores and, unless temperature is None, probabilities."""
        if isinstance(top, bool) or not isinstance(top, (int, np.integer)):
            raise TypeError(f"top is {top!r}; it must be an integer")
        if top < 1:
            raise ValueError(f"top is {top}; it must be at least 1")
        rows = rows_or_data(X)
        shape = (count_rows(rows), top)
        classes, scores, out = np.empty(shape, dtype=np.int32), np.empty(shape), np.empty(shape)
        _koofu.classify(self._capsule, rows, top, one_of(metric, METRICS, "metric"), int(raw),
                        one_of(part, PARTS, "part"), temperature or 0.0, classes, scores,
                        None if temperature is None else out)
        return classes, scores, out

    @staticmethod
    def _temperature(value: Optional[float]) -> float:
        if value is None:
            return 0.0
        if not 0 < value < float("inf"):
            raise ValueError(f"temperature is {value!r}; it must be positive and finite")
        return float(value)

    def __repr__(self) -> str:
        return (f"<koofu.Model: {self.dim_in} to {self.dim_out} dimensions, "
                f"{self.n_classes} classes, lambda {self.lambda_:.4g}>")

    def _repr_html_(self) -> str:
        """For notebooks."""
        names = self.class_names or []
        some = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        relative = self.lambda_ / self.mean_eigenvalue if self.mean_eigenvalue > 0 else 0.0
        rows: list[tuple[str, object]] = [
            ("dimensions", f"{self.dim_in:,} to {self.dim_out:,}"),
            ("classes", f"{self.n_classes:,}" + (f": {some}" if some else "")),
            ("training rows", int(self.counts.sum())),
            ("lambda", f"{self.lambda_:.4g}, {relative:.3g}x the mean eigenvalue"),
            ("temperature", self.temperature),
            ("leave-one-out accuracy", None if self.fit_report is None else
             self.fit_report.accuracy and percent(self.fit_report.accuracy)),
            ("unknown below" if self.normalized else "unknown above", self.reject),
            ("weight of class means beside the text", self.alpha),
            ("method", None if self.method == "shrunk" else self.method),
            ("encoder", self.encoder),
        ]
        return table("koofu.Model", [row for row in rows if row[1] is not None])


def _unpickle(data: bytes, report: Optional[FitReport]) -> Model:
    return Model(_koofu.model_from_bytes(data), report)
