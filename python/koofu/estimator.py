"""koofu for scikit-learn: :class:`KooFu`, a transformer and classifier in one.

This is the only module of the package that imports scikit-learn.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets

from koofu._data import Data, as_matrix
from koofu._model import Model
from koofu._model import fit as fit_model
from koofu._stats import Stats
from koofu._text import Text
from koofu._types import F32, F64, I32, I64, AnyArray, Path, one_of
from koofu._weights import repeated, stats_of_weighted, whole_weights

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before scikit-learn 1.6 it was a method

    def validate_data(estimator: Any, /, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        return estimator._validate_data(X, y, **options)


__all__ = ["KooFu"]

_FLOATS = (np.float64, np.float32, np.float16)
_ZERO_ROWS = {"skip": 0, "error": 1}

# Integers are class numbers unless they are much larger than the number of classes.
_MAX_CLASSES = 1 << 22
_SPARE_CLASSES = 1024

# The temperature of cosines where none was chosen by leaving rows out (docs/python.md).
_TEMPERATURE = 16.0

_log = logging.getLogger("koofu")

# Without normalising, values of later batches may be larger by this power of two.
_HEADROOM = 4


def _without_zeros(X: AnyArray) -> AnyArray:
    """Replaces a value of each zero row by a tiny one, since the library refuses zero rows."""
    zero = ~X.any(axis=1)
    if zero.any():
        X = X.copy()
        X[zero, 0] = max(1e-30, float(np.finfo(X.dtype).tiny))
    return X


class _Classes:
    """Labels of the user, with the class numbers and names of the library.

    Small integers are class numbers, as on the command line. All other labels become class names,
    as strings.
    """

    def __init__(self, labels: AnyArray, numbers: Optional[bool] = None) -> None:
        self.labels = labels  # sorted, each once
        integers = labels.dtype.kind in "iu" and bool(labels[0] >= 0)
        if numbers is None:
            most = min(_MAX_CLASSES, 4 * len(labels) + _SPARE_CLASSES)
            numbers = integers and bool(labels[-1] < most)
        elif numbers and not (integers and labels[-1] < _MAX_CLASSES):
            raise ValueError(
                f"y holds {labels[0]!r} to {labels[-1]!r}, but earlier labels were class numbers"
            )
        self.numbers = numbers
        self.names = None if numbers else [str(label) for label in labels.tolist()]
        if self.names is not None and len(set(self.names)) < len(self.names):
            raise ValueError("y holds two labels that are the same as strings")

    def codes(self, y: AnyArray) -> I32:
        """The class numbers of known labels."""
        codes = y if self.numbers else np.searchsorted(self.labels, y)
        return np.ascontiguousarray(codes, dtype=np.int32)

    def positions(self, n_classes: int, names: Optional[list[str]]) -> AnyArray:
        """The class number of each label in a model with these classes; -1: not in it."""
        if self.names is None or names is None:
            return np.where(self.labels < n_classes, self.labels, -1).astype(np.intp)
        position = {name: k for k, name in enumerate(names)}
        return np.array([position.get(name, -1) for name in self.names], dtype=np.intp)

    def union(self, other: _Classes) -> _Classes:
        """The labels of both."""
        if self.numbers != other.numbers:
            raise ValueError("class numbers and other labels cannot be merged")
        return _Classes(np.union1d(self.labels, other.labels), self.numbers)


def _chosen_by(model: Model) -> Optional[Model]:
    """The model, if rows could be left out to choose its settings."""
    assert model.fit_report is not None
    return None if model.fit_report.by_all_rows else model


def _of_most_rows(models: list[Optional[Model]]) -> Optional[Model]:
    """The model of the most rows, whatever the order of the models; None: there is none."""
    known = [model for model in models if model is not None]
    most = max((model.counts.sum() for model in known), default=0)
    return max((model for model in known if model.counts.sum() == most), key=Model.to_bytes,
               default=None)


def _text_of(text: Any, labels: _Classes) -> tuple[Text, _Classes]:
    """Text prototypes, and all labels: those of the rows and those that only the text has."""
    if isinstance(text, Mapping):
        keys, blocks = list(text), [np.atleast_2d(np.asarray(text[key])) for key in text]
        order = np.argsort(np.array(keys), kind="stable")
        own = _Classes(np.array(keys)[order], labels.numbers)
        labels = labels.union(own)
        codes = np.repeat(own.labels if own.numbers else np.arange(len(keys)),
                          [len(blocks[i]) for i in order])
        return Text.of(np.concatenate([blocks[i] for i in order]), codes, classes=own.names), labels
    rows = np.asarray(text)
    if rows.ndim != 2 or len(rows) != len(labels.labels):
        raise ValueError(f"text has {len(rows)} rows, but there are {len(labels.labels)} classes")
    return Text.of(rows, labels.codes(labels.labels), classes=labels.names), labels


class KooFu(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Koo-Fu as a scikit-learn estimator: a supervised map and a nearest-class-mean classifier.

    A replacement for ``LinearDiscriminantAnalysis``. The map whitens the scatter within classes and
    rotates to the directions that separate classes best; ``transform`` applies it, ``predict``
    compares mapped rows with mapped class means. Unlike LDA it learns batch by batch
    (``partial_fit``), merges (``+``), chooses its regulariser by exact leave-one-out, and can use
    embeddings of the class names (``text``).

    ``fit`` chooses ``lambda_``, the temperature and all else that is ``"auto"`` from the rows.
    ``partial_fit``, ``merge`` and ``+`` add to statistics, which have no rows to choose from: they
    keep what was chosen, until ``choose`` or ``fit`` chooses again. If nothing was,
    ``lambda_="auto"`` is 0.3 times the mean eigenvalue of the scatter within classes, with a
    warning.

    :param lambda_: the regulariser: ``"auto"``; a number, in units of the scatter matrix;
        ``"0.3x"``, relative to its mean eigenvalue; ``"gda"`` or ``"ledoit-wolf"``.
    :param n_components: dimensions to keep; None: all; ``"auto"``: the fewest shown to lose less
        than half a point.
    :param metric: ``"cosine"`` or ``"euclidean"``; None: cosine, or Euclidean without
        ``normalize``.
    :param normalize: scale rows to unit length first, which suits embeddings. False keeps their
        lengths, as LDA does.
    :param zero_rows: with ``normalize``, how to treat zero rows: ``"skip"``: they are left out of
        the fit, map to zeros, and have the same score in all classes; ``"error"``: ValueError.
        Without ``normalize`` they are ordinary rows.
    :param text: embeddings of the class names: an array with a row per class, in the order of
        ``classes_``, or a mapping from labels to a row or several (one per prompt). Labels without
        rows in X take part by their text alone.
    :param alpha: with ``text``, the weight of class means relative to it; ``"auto"``: chosen by
        ``fit``.
    :param method: ``"shrunk"``, or ``"paper"`` for the unchanged method of the paper.
    :param priors: how likely classes are: ``"equal"``, or ``"training"``: in proportion to their
        rows (with ``normalize``, only after ``fit``). None: equal, or training without
        ``normalize``.

    Attributes as in ``LinearDiscriminantAnalysis``: ``classes_``, ``means_``, ``priors_``,
    ``xbar_``, ``scalings_``, ``explained_variance_ratio_``, ``n_features_in_``,
    ``feature_names_in_``. Also ``model_`` (:class:`koofu.Model`), ``stats_``
    (:class:`koofu.Stats`), ``counts_`` (training rows of each class), ``n_components_`` and
    ``chosen_lambda_``.

    >>> import numpy as np, koofu
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["cat", "dog"], 20)
    >>> X = rng.normal(size=(40, 8)) + (y == "cat")[:, None]
    >>> estimator = koofu.KooFu().fit(X, y)
    >>> estimator.predict(X[:2]).tolist(), estimator.transform(X).shape
    (['cat', 'cat'], (40, 8))
    >>> batches = koofu.KooFu("1x").partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    >>> parts = [koofu.KooFu("1x").partial_fit(X[i::2], y[i::2]) for i in range(2)]
    >>> batches.model_ == sum(parts).model_ == (parts[1] + parts[0]).model_
    True
    """

    classes_: AnyArray
    n_features_in_: int
    _stats: Optional[Stats]
    _model: Optional[Model]
    _chosen: Optional[Model]  # the model whose settings were chosen from rows
    _labels: _Classes
    _closed: bool  # no new labels are allowed

    def __init__(
        self,
        lambda_: Union[str, float] = "auto",
        n_components: Union[int, str, None] = None,
        *,
        metric: Optional[str] = None,
        normalize: bool = True,
        zero_rows: str = "skip",
        text: Any = None,
        alpha: Union[str, float] = "auto",
        method: str = "shrunk",
        priors: Optional[str] = None,
    ) -> None:
        self.lambda_ = lambda_
        self.n_components = n_components
        self.metric = metric
        self.normalize = normalize
        self.zero_rows = zero_rows
        self.text = text
        self.alpha = alpha
        self.method = method
        self.priors = priors

    # --- fitting ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KooFu:
        """Fits to rows and labels, choosing all that is ``"auto"``.

        :param X: rows, [n_samples, n_features]: what scikit-learn takes, and columns of arrays
            (pandas, polars, pyarrow) and bfloat16 tensors, which become float32; float16, float32
            and float64 arrays are not copied.
        :param y: labels of any kind.
        :param sample_weight: a whole number for each row: how often it counts. The result is the
            same, to the bit, as with repeated rows, which are not made.
        """
        X, y, weights = self._check(X, y, sample_weight, reset=True)
        classes = self._check_classes(np.unique(y))
        self._closed = False
        data = self._data(X, y, weights, classes)
        stats = self._sums(X, y, weights, classes)
        options, classes = self._options(classes)
        model = fit_model(data, stats=stats, **options)
        self._take(stats, model, classes)
        self._chosen = _chosen_by(model)
        return self

    def choose(self, X: Any, y: Any, sample_weight: Any = None) -> KooFu:
        """Chooses ``lambda_``, the temperature and all else that is ``"auto"`` again, as ``fit``
        does, from these rows, and keeps it for the rows added so far.

        :param X, y: all rows added so far, or a good sample of them: some thousand are enough. They
            are not added.
        :param sample_weight: as in ``fit``.
        """
        stats = self.stats_
        X, y, weights = self._check(X, y, sample_weight, reset=False)
        new = np.setdiff1d(y, self.classes_)
        if len(new):
            raise ValueError(f"y holds {new!r}, of which no row was added")
        options, labels = self._options(self._labels)
        data = self._data(X, y, weights, self._labels)
        model = fit_model(data, normalize=self.normalize, **options)
        self._take(stats, None, labels)
        self._chosen = _chosen_by(model)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> KooFu:
        """Adds rows to those of earlier calls and of ``fit``, exactly: batches may have any order
        and size.

        The model is computed when it is next used, with what was chosen by ``fit`` or ``choose``.

        :param classes: in the first call, all labels there will be; None: each call may add labels.
        :param sample_weight: as in ``fit``.
        """
        first = not hasattr(self, "_labels")
        X, y, weights = self._check(X, y, sample_weight, reset=first)
        if not first and self._stats is None:
            raise ValueError("a loaded model has no statistics to add rows to")
        labels = np.unique(y)
        if classes is not None:
            given = np.unique(np.asarray(classes))
            if not first and not np.array_equal(given, self.classes_):
                raise ValueError(f"classes is {given!r}; earlier calls had {self.classes_!r}")
            if not np.isin(labels, given).all():
                new = np.setdiff1d(labels, given)
                raise ValueError(f"y holds {new!r}, which is not in classes")
            labels = given
            self._closed = True
        elif first:
            self._closed = False
        all_labels = _Classes(labels) if first else self._labels.union(
            _Classes(labels, self._labels.numbers))
        if self._closed and not first and len(all_labels.labels) > len(self.classes_):
            new = np.setdiff1d(labels, self.classes_)
            raise ValueError(f"y holds {new!r}, which is not in classes")
        stats = self._batch(X, y, weights, all_labels, first)
        if first:
            self._chosen = None
        self._take(stats if first or self._stats is None else self._stats + stats, None, all_labels)
        return self

    def merge(self, *others: KooFu) -> KooFu:
        """Adds the rows of other fitted estimators, exactly and in any order. Of what they chose,
        that from the most rows is kept."""
        stats, labels, chosen = self.stats_, self._labels, [self._chosen]
        for other in others:
            if not isinstance(other, KooFu):
                raise TypeError(f"cannot merge a KooFu and a {type(other).__name__}")
            other._check_fitted()
            if other.n_features_in_ != self.n_features_in_:
                raise ValueError(
                    f"one has {self.n_features_in_} features and the other {other.n_features_in_}"
                )
            labels = labels.union(other._labels)
            stats = stats + other.stats_
            chosen.append(other._chosen)
        self._closed = False
        self._take(stats, None, labels)
        self._chosen = _of_most_rows(chosen)
        return self

    def __add__(self, other: object) -> KooFu:
        if not isinstance(other, KooFu):
            return NotImplemented
        both = type(self)(**self.get_params(deep=False))
        both._stats, both._labels, both._chosen = self.stats_, self._labels, self._chosen
        both.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            both.feature_names_in_ = self.feature_names_in_
        return both.merge(other)

    def __radd__(self, other: object) -> KooFu:
        return self if other == 0 else NotImplemented  # for sum()

    # --- use --------------------------------------------------------------------------------------

    def transform(self, X: Any) -> F32:
        """Maps rows to float32 [n_samples, n_components_], at unit length if ``normalize``."""
        X, zero = self._rows(X)
        out = self.model_.transform(X)
        if zero is not None:
            out[zero] = 0
        return out

    def predict(self, X: Any) -> AnyArray:
        """The label of each row."""
        X, zero = self._rows(X)
        model = self.model_
        answers = model.classify(X, metric=self.metric)[0][:, 0]
        positions = self._positions()
        index = np.zeros(model.n_classes, dtype=np.intp)
        index[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
        chosen = index[answers]
        if zero is not None:
            chosen[zero] = 0
        return np.asarray(self.classes_[chosen])

    def decision_function(self, X: Any) -> F64:
        """The score of each class: a cosine, a fused score with ``text``, or minus half the squared
        distance. [n_samples, n_classes]; for two classes the difference, [n_samples]."""
        X, zero = self._rows(X)
        scores = self._by_label(self.model_.scores(X, metric=self.metric), -np.inf)
        if (self.metric or self._default_metric()) == "euclidean":
            scores = -0.5 * scores**2
        if zero is not None:
            scores[zero] = 0
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> F64:
        """The probability of each class, [n_samples, n_classes]: the softmax of the scores times a
        temperature, which ``fit`` or ``choose`` chooses by leaving rows out. If neither did, it is
        16 for cosines, and that of LDA for distances."""
        X, zero = self._rows(X)
        table = self.model_.probabilities(
            X, metric=self.metric, temperature=self._fallback_temperature())
        out = self._by_label(table, 0)
        if zero is not None:
            out[zero] = 1 / out.shape[1]
        return out

    def predict_log_proba(self, X: Any) -> F64:
        """The logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    # --- files ------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Writes the model to a file for the command line and :meth:`koofu.Model.load`. To keep
        parameters and statistics as well, pickle the estimator."""
        self.model_.save(path)

    @classmethod
    def load(cls, path: Path) -> KooFu:
        """An estimator from a model file. Labels are class names (str) or class numbers. It has no
        statistics, so no rows can be added."""
        model = Model.load(path)
        kept = None if model.dim_out == model.dim_in else model.dim_out
        out = cls(model.lambda_, kept, normalize=model.normalized, method=model.method,
                  priors=model.priors)
        out.n_features_in_ = model.dim_in
        if model.class_names is not None:
            labels = _Classes(np.unique(np.array(model.class_names)))
        else:
            labels = _Classes(np.arange(model.n_classes), True)
        out._take(None, model, labels)
        out._chosen = None
        return out

    # --- what was fitted --------------------------------------------------------------------------

    @property
    def model_(self) -> Model:
        """The model, computed from the statistics if rows were added since its last use."""
        self._check_fitted()
        if self._model is None:
            self._check_classes(self._labels.labels)
            options, labels = self._options(self._labels)
            model = fit_model(self._stats, **self._kept(options))
            self._take(self._stats, model, labels)
        assert self._model is not None
        return self._model

    @property
    def stats_(self) -> Stats:
        """The exact statistics of all rows so far."""
        self._check_fitted()
        if self._stats is None:
            raise ValueError("a loaded model has no statistics")
        return self._stats

    @property
    def means_(self) -> F32:
        """Class means in the original space, of rows scaled to unit length if ``normalize``."""
        return np.asarray(self._by_class(self.model_.class_means))

    @property
    def counts_(self) -> AnyArray:
        """Training rows of each class."""
        return np.asarray(self._by_class(self.model_.counts))

    @property
    def priors_(self) -> F64:
        """The share of each class in the training rows."""
        counts = self.counts_
        return np.asarray(counts / counts.sum())

    @property
    def xbar_(self) -> F64:
        """The mean of the training rows."""
        return self.model_.mean

    @property
    def scalings_(self) -> F64:
        """The map: ``transform`` is ``(X - xbar_) @ scalings_``, with rows scaled to unit length
        before and after if ``normalize``. (Method ``"paper"`` does not subtract the mean.)"""
        return self.model_.matrix.T

    @property
    def explained_variance_ratio_(self) -> F64:
        """The share of the scatter between classes, after whitening, in each dimension kept."""
        between = self.model_.between_eigenvalues
        return np.asarray(between[: self.n_components_] / between.sum())

    @property
    def n_components_(self) -> int:
        """The number of columns that ``transform`` returns."""
        return self.model_.dim_out

    @property
    def chosen_lambda_(self) -> float:
        """The regulariser that was used, in units of the scatter matrix."""
        return self.model_.lambda_

    # --- for scikit-learn -------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_labels")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _more_tags(self) -> dict[str, Any]:  # before scikit-learn 1.6
        return {"preserves_dtype": [np.float32]}

    # --- inside -----------------------------------------------------------------------------------

    def _check_fitted(self) -> None:
        if not hasattr(self, "_labels"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' or "
                "'partial_fit' before using it."
            )

    def _check(self, X: Any, y: Any, sample_weight: Any,
               reset: bool) -> tuple[AnyArray, AnyArray, Optional[I64]]:
        """Rows, labels and weights; rows of weight 0 are left out. No weights: all are 1."""
        one_of(self.zero_rows, _ZERO_ROWS, "zero_rows")
        X, y = validate_data(self, as_matrix(X), y, dtype=_FLOATS, reset=reset)
        with warnings.catch_warnings():  # few rows per class are fine here
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(y)
        if self.normalize and X.shape[1] == 1:
            raise ValueError("X has n_features = 1; scaling to unit length would leave only "
                             "the sign; normalize=False keeps the lengths")
        y, weights = np.asarray(y), whole_weights(sample_weight, len(X))
        if weights is None or weights.all():
            return X, y, weights
        there = weights > 0
        return X[there], y[there], weights[there]

    def _check_classes(self, labels: AnyArray) -> _Classes:
        if len(labels) < 2:
            raise ValueError("there must be at least two classes, but y has 1 class: "
                             f"{labels[0]!r}")
        return _Classes(labels)

    def _data(self, X: AnyArray, y: AnyArray, weights: Optional[I64], classes: _Classes) -> Data:
        if not self.normalize:
            X = _without_zeros(X)
        if weights is not None:
            return repeated(X, classes.codes(y), weights, classes.names, self.zero_rows)
        return Data(X, classes.codes(y), classes=classes.names, zero_rows=self.zero_rows)

    def _sums(self, X: AnyArray, y: AnyArray, weights: Optional[I64], classes: _Classes,
              exponent: Optional[int] = None) -> Stats:
        if weights is None:
            data = self._data(X, y, None, classes)
            return Stats.of(data, normalize=self.normalize, exponent=exponent)
        if not self.normalize:
            X = _without_zeros(X)
            if exponent is None:
                exponent = self._sums(X, y, None, classes).exponent
        return stats_of_weighted(X, classes.codes(y), weights, classes.names, self.zero_rows,
                                 normalize=self.normalize, exponent=exponent)

    def _batch(self, X: AnyArray, y: AnyArray, weights: Optional[I64], classes: _Classes,
               first: bool) -> Stats:
        """The statistics of a batch, in units that leave room for later batches."""
        if self.normalize:
            return self._sums(X, y, weights, classes)
        if not first and self._stats is not None:
            return self._sums(X, y, weights, classes, self._stats.exponent)
        fits = self._sums(X, y, None, classes).exponent
        return self._sums(X, y, weights, classes, fits - _HEADROOM)

    def _take(self, stats: Optional[Stats], model: Optional[Model], labels: _Classes) -> None:
        self._stats, self._model, self._labels = stats, model, labels
        self.classes_ = labels.labels

    def _options(self, labels: _Classes) -> tuple[dict[str, Any], _Classes]:
        """Options of a fit, and all labels: those of the rows and those that only the text has."""
        text, alpha = None, None
        if self.text is not None:
            text, labels = _text_of(self.text, labels)
            alpha = None if self.alpha == "auto" else float(self.alpha)
        options = {
            "lambda_": self.lambda_,
            "n_components": self.n_components,
            "metric": self.metric,
            "method": self.method,
            "priors": self.priors,
            "text": text,
            "alpha": alpha,
        }
        return options, labels

    def _kept(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of a fit to statistics: what is ``"auto"`` is as it was chosen."""
        like = self._chosen
        if like is None or like.method != self.method or like.fused != (self.text is not None):
            if self.lambda_ == "auto":
                warnings.warn("lambda_ is 0.3 times the mean eigenvalue, and probabilities are not "
                              "calibrated: there are no rows to choose from. choose(X, y) or an "
                              "earlier fit chooses; lambda_='0.3x' accepts this", stacklevel=4)
            return options
        kept: dict[str, Any] = {"like": like}
        if self.lambda_ in ("auto", "ledoit-wolf"):
            kept["lambda_"] = "auto"
            _log.info("lambda %g and temperature %g are kept, as chosen from %d rows", like.lambda_,
                      like.temperature or 0, like.counts.sum())
        if self.n_components in ("auto", None):
            kept["n_components"] = None if self.n_components else like.dim_in
        return {**options, **kept}

    def _rows(self, X: Any) -> tuple[AnyArray, Optional[AnyArray]]:
        """Checked rows, with zero rows replaced by ones, and a mask of these or None."""
        self._check_fitted()
        X = validate_data(self, as_matrix(X), dtype=_FLOATS, reset=False)
        if not self.normalize:
            return _without_zeros(X), None
        zero = None if self.zero_rows == "error" else ~X.any(axis=1)
        if zero is None or not zero.any():
            return X, None
        X = X.copy()
        X[zero] = 1
        return X, zero

    def _positions(self) -> AnyArray:
        model = self.model_
        return self._labels.positions(model.n_classes, model.class_names)

    def _by_class(self, array: Any) -> Any:
        """Reorders values by class to values by label; 0 for labels that the model lacks."""
        positions = self._positions()
        out = np.asarray(array)[positions]
        out[positions < 0] = 0
        return out

    def _by_label(self, table: F64, missing: float) -> F64:
        """Reorders columns by class to columns by label; `missing` for labels the model lacks."""
        positions = self._positions()
        if np.array_equal(positions, np.arange(table.shape[1])):
            return table
        out = table[:, positions]
        out[:, positions < 0] = missing
        return out

    def _default_metric(self) -> str:
        return "cosine" if self.model_.normalized else "euclidean"

    def _fallback_temperature(self) -> Optional[float]:
        """A temperature where the model has none for the metric; None: it has one."""
        model = self.model_
        metric = self.metric or self._default_metric()
        if model.temperature is not None and metric == self._default_metric():
            return None
        counts = model.counts
        return _TEMPERATURE if metric == "cosine" else float(counts.sum() - (counts > 0).sum())
