"""Fitting to Ray data sets: statistics of each block, added up in a tree of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

import numpy as np
import ray

from koofu import _parts
from koofu._data import stack
from koofu._model import Model
from koofu._types import Path, taken

__all__ = ["fit", "predict", "transform"]


def _count(block: dict[str, Any], features: str, label: str, *options: Any) -> Any:
    return _parts.count_part(block[features], block[label], *options)


def _largest(block: dict[str, Any], features: str) -> float:
    return _parts.largest_value(block[features])


def _rows(block: dict[str, Any], features: str) -> Any:
    return stack(block[features])


def _blocks(dataset: Any, columns: list[str]) -> list[Any]:
    """References to the blocks of these columns as arrays, in the order of the rows."""
    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order
    context.execution_options.preserve_order = True
    try:
        return list(dataset.select_columns(columns).to_numpy_refs())
    finally:
        context.execution_options.preserve_order = before


def fit(
    dataset: Any,
    *,
    features: str = "features",
    label: str = "label",
    normalize: bool = True,
    zero_rows: str = "error",
    choose: bool = True,
    split_every: int = 8,
    **options: Any,
) -> Model:
    """Fits a model to a :class:`ray.data.Dataset`. It has the same bytes as that of
    :func:`koofu.fit` on all rows.

    The statistics of each block are computed where it is; only these and the labels are sent. With
    ``choose``, a few thousand rows are then left out in turn; their blocks are fetched one at a
    time.

    :param features: the column of rows: tensors, or lists of numbers.
    :param label: the column of labels: class numbers or strings.
    :param choose: choose settings that are not given from the rows, as :func:`koofu.fit` does.
        False: from the statistics alone: lambda is ``"0.3x"`` unless given, and there is no
        temperature, or both are those of an earlier model (``like``).
    :param split_every: the number of statistics added at a time.
    :param options: those of :func:`koofu.fit`.
    """
    if split_every < 2:
        raise ValueError(f"split_every is {split_every}; it must be at least 2")
    blocks = _blocks(dataset, [features, label])
    exponent: Optional[int] = None
    if not normalize:
        largest = ray.remote(_largest)
        exponent = _parts.exponent_of(max(ray.get([largest.remote(b, features) for b in blocks])))
    count = ray.remote(_count).options(num_returns=2)
    counted = [count.remote(b, features, label, normalize, exponent, zero_rows) for b in blocks]
    parts = [part[0] for part in counted]
    add = ray.remote(lambda *parts: _parts.add(parts))
    while len(parts) > 1:
        parts = [add.remote(*parts[i : i + split_every]) for i in range(0, len(parts), split_every)]
    stats = ray.get(parts[0]) if parts else None
    known = ray.get([part[1] for part in counted])
    rows = ray.remote(_rows)
    return _parts.fit_parts(stats, known, lambda i: ray.get(rows.remote(blocks[i], features)),
                            choose, zero_rows, {**options, "normalize": normalize})


def _apply(dataset: Any, features: str, to: str, by_row: Callable[[Any], Any]) -> Any:
    def add_column(batch: dict[str, Any]) -> dict[str, Any]:
        return {**batch, to: by_row(np.asarray(stack(batch[features])))}

    return dataset.map_batches(add_column, batch_format="numpy")


def transform(model: Union[Model, Path], dataset: Any, *, features: str = "features", to: str = "mapped") -> Any:
    """The data set with mapped rows as one more column, ``to``."""
    return _apply(dataset, features, to, taken(model, Model, "model").transform)


def predict(model: Union[Model, Path], dataset: Any, *, features: str = "features", to: str = "class") -> Any:
    """The data set with the class of each row as one more column, ``to``."""
    return _apply(dataset, features, to, taken(model, Model, "model").predict)
