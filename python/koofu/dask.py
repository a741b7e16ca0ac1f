"""Fitting to Dask collections: statistics of each partition, added up in a tree.

>>> import dask.array as da, numpy as np, koofu, koofu.dask
>>> rng = np.random.default_rng(0)
>>> y = np.arange(400) % 4
>>> X = (rng.normal(size=(4, 16))[y] + rng.normal(size=(400, 16))).astype("f4")
>>> model = koofu.dask.fit(da.from_array(X, chunks=(100, 16)), da.from_array(y, chunks=100))
>>> model == koofu.fit(X, y)
True
>>> koofu.dask.predict(model, da.from_array(X, chunks=(100, 16))).shape
(400,)
"""

from __future__ import annotations

from typing import Any, Optional, Union

import dask
import numpy as np

from koofu import _parts
from koofu._model import Model
from koofu._types import Path, taken

__all__ = ["fit", "predict", "transform"]


def _partitions(X: Any, y: Any) -> tuple[list[Any], list[Any]]:
    """The partitions of rows and labels as delayed values, in order."""
    if hasattr(X, "rechunk"):  # an array: whole rows, and labels chunked like them
        X = X.rechunk({1: -1})
        if hasattr(y, "rechunk"):
            y = y.rechunk((X.chunks[0],))
    rows = np.ravel(np.asarray(X.to_delayed(), dtype=object)).tolist()
    labels = np.ravel(np.asarray(y.to_delayed(), dtype=object)).tolist()
    if len(rows) != len(labels):
        raise ValueError(f"X has {len(rows)} partitions, but y has {len(labels)}")
    return rows, labels


def _tree(parts: list[Any], split_every: int) -> Any:
    while len(parts) > 1:
        parts = [dask.delayed(_parts.add)(parts[i : i + split_every])
                 for i in range(0, len(parts), split_every)]
    return parts[0]


def fit(
    X: Any,
    y: Any,
    *,
    normalize: bool = True,
    zero_rows: str = "error",
    choose: bool = True,
    split_every: int = 8,
    **options: Any,
) -> Model:
    """Fits a model to rows and labels in partitions. It has the same bytes as that of
    :func:`koofu.fit` on all rows.

    The statistics of each partition are computed where it is; only these and the labels are sent.
    With ``choose``, a few thousand rows are then left out in turn; their partitions are computed
    again and fetched one at a time. Persist what is expensive to compute.

    :param X: a Dask array or data frame; columns of an array are rechunked into one chunk.
    :param y: labels: a Dask array or series partitioned like X, of class numbers or strings.
    :param choose: choose settings that are not given from the rows, as :func:`koofu.fit` does.
        False: from the statistics alone, without fetching a row: lambda is ``"0.3x"`` unless given,
        and there is no temperature, or both are those of an earlier model (``like``).
    :param split_every: the number of statistics added at a time.
    :param options: those of :func:`koofu.fit`: ``lambda_``, ``n_components``, ``text`` and so on.
    """
    if split_every < 2:
        raise ValueError(f"split_every is {split_every}; it must be at least 2")
    rows, labels = _partitions(X, y)
    exponent: Optional[int] = None
    if not normalize:
        largest = dask.compute(*[dask.delayed(_parts.largest_value)(part) for part in rows])
        exponent = _parts.exponent_of(max(largest))
    count = dask.delayed(_parts.count_part, nout=2)
    counted = [count(a, b, normalize, exponent, zero_rows) for a, b in zip(rows, labels)]
    stats, *known = dask.compute(_tree([part[0] for part in counted], split_every),
                                 *[part[1] for part in counted])
    return _parts.fit_parts(stats, known, lambda i: dask.compute(rows[i])[0], choose, zero_rows,
                            {**options, "normalize": normalize})


def _apply(X: Any, by_row: Any, dtype: Any, columns: Optional[int]) -> Any:
    if not hasattr(X, "rechunk"):
        X = X.to_dask_array()
    X = X.rechunk({1: -1})
    if columns is None:
        return X.map_blocks(by_row, dtype=dtype, drop_axis=1)
    return X.map_blocks(by_row, dtype=dtype, chunks=(X.chunks[0], (columns,)))


def transform(model: Union[Model, Path], X: Any) -> Any:
    """Maps rows lazily, partition by partition: a Dask array of float32."""
    model = taken(model, Model, "model")
    return _apply(X, model.transform, np.float32, model.dim_out)


def predict(model: Union[Model, Path], X: Any) -> Any:
    """The class of each row, lazily, partition by partition: a Dask array."""
    model = taken(model, Model, "model")
    return _apply(X, model.predict, model.classes.dtype, None)
