"""Fitting to Spark data frames: statistics of each partition, added up by treeReduce.

Rows go from Spark to koofu as Arrow record batches (``mapInArrow``), without Python objects. This
needs a classic session (not Spark Connect), pyspark 3.4 or newer, and pyarrow.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, Optional, Union

import numpy as np
import pyarrow as pa

from koofu import _parts
from koofu._model import Model
from koofu._stats import Stats
from koofu._types import Path, taken

__all__ = ["fit", "predict", "transform"]

_COUNTED = "part int, labels binary, stats binary"


def _matrix(column: Any) -> Any:
    """A column of lists, or of Spark's vectors, as a matrix."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_struct(column.type):  # vectors of pyspark.ml, dense only
        column = column.field("values")
    if len(column) == 0:
        return np.empty((0, 0), dtype=np.float32)
    if column.null_count:
        raise ValueError("a row is null")
    values = column.flatten().to_numpy(zero_copy_only=False)
    if len(values) % len(column):
        raise ValueError("rows have different numbers of columns")
    rows = values.reshape(len(column), -1)
    offsets = getattr(column, "offsets", None)
    if offsets is not None and (np.diff(offsets.to_numpy()) != rows.shape[1]).any():
        raise ValueError("rows have different numbers of columns")
    return rows


def _labels(column: Any) -> Any:
    return np.asarray(column.to_pylist()) if pa.types.is_string(column.type) else column.to_numpy()


def _table(batches: Iterator[Any]) -> Optional[Any]:
    there = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(there) if there else None


def _count(normalize: bool, exponent: Optional[int], zero_rows: str) -> Callable[[Any], Any]:
    """A function from a partition to one record: number, labels and statistics."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        table = _table(batches)
        if table is None:
            return
        stats, labels = _parts.count_part(_matrix(table.column(0)), _labels(table.column(1)),
                                          normalize, exponent, zero_rows)
        assert stats is not None
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([TaskContext.get().partitionId()], type=pa.int32()),
                pa.array([pickle.dumps(labels)], type=pa.binary()),
                pa.array([stats.to_bytes()], type=pa.binary()),
            ],
            names=["part", "labels", "stats"],
        )

    return count


def _rows(batches: Iterator[Any]) -> Iterator[Any]:
    table = _table(batches)
    if table is not None:
        rows = pickle.dumps(np.ascontiguousarray(_matrix(table.column(0)), dtype=np.float32))
        yield pa.RecordBatch.from_arrays([pa.array([rows], type=pa.binary())], names=["rows"])


def _largest(batches: Iterator[Any]) -> Iterator[Any]:
    table = _table(batches)
    if table is not None:
        value = _parts.largest_value(_matrix(table.column(0)))
        yield pa.RecordBatch.from_arrays([pa.array([value], type=pa.float64())], names=["largest"])


def _add(a: bytes, b: bytes) -> bytes:
    return (Stats.from_bytes(a) + Stats.from_bytes(b)).to_bytes()


def fit(
    frame: Any,
    *,
    features: str = "features",
    label: str = "label",
    normalize: bool = True,
    zero_rows: str = "error",
    choose: bool = True,
    depth: int = 2,
    **options: Any,
) -> Model:
    """Fits a model to a data frame. It has the same bytes as that of :func:`koofu.fit` on all rows,
    in the order of the partitions.

    The statistics of each partition are computed where it is; only these and the labels are sent.
    With ``choose``, a few thousand rows are then left out in turn; their partitions are computed
    again and fetched one at a time. Cache what is expensive to compute or has no fixed order.

    :param features: the column of rows: arrays of numbers, or dense vectors of ``pyspark.ml``.
    :param label: the column of labels: class numbers or strings.
    :param choose: choose settings that are not given from the rows, as :func:`koofu.fit` does.
        False: from the statistics alone: lambda is ``"0.3x"`` unless given, and there is no
        temperature, or both are those of an earlier model (``like``).
    :param depth: of the tree that adds statistics up.
    :param options: those of :func:`koofu.fit`.
    """
    frame = frame.select(features, label)
    context = frame.sparkSession.sparkContext
    exponent: Optional[int] = None
    if not normalize:
        values = frame.select(features).mapInArrow(_largest, "largest double").collect()
        exponent = _parts.exponent_of(max((row.largest for row in values), default=0.0))
    counted = frame.mapInArrow(_count(normalize, exponent, zero_rows), _COUNTED).persist()
    try:
        known = sorted(counted.select("part", "labels").collect(), key=lambda row: row.part)
        if not known:
            raise ValueError("there are no rows")
        sums = counted.select("stats").rdd.map(lambda row: bytes(row.stats))
        stats = Stats.from_bytes(sums.treeReduce(_add, depth=depth))
    finally:
        counted.unpersist()
    partitions = frame.select(features).mapInArrow(_rows, "rows binary").rdd

    def fetch(i: int) -> Any:
        found = context.runJob(partitions, lambda rows: [bytes(row.rows) for row in rows],
                               [known[i].part])
        return pickle.loads(found[0])

    labels = [pickle.loads(bytes(row.labels)) for row in known]
    return _parts.fit_parts(stats, labels, fetch, choose, zero_rows,
                            {**options, "normalize": normalize})


def _apply(frame: Any, features: str, to: str, kind: Any, by_row: Callable[[Any], Any]) -> Any:
    def add_column(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                found = by_row(_matrix(batch.column(batch.schema.names.index(features))))
                values = pa.array(found.tolist(), type=kind)
                yield pa.RecordBatch.from_arrays([*batch.columns, values],
                                                 names=[*batch.schema.names, to])

    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    more = StructField(to, from_arrow_type(kind))
    return frame.mapInArrow(add_column, StructType([*frame.schema.fields, more]))


def transform(model: Union[Model, Path], frame: Any, *, features: str = "features", to: str = "mapped") -> Any:
    """The data frame with mapped rows as one more column of arrays, ``to``."""
    mapped = pa.list_(pa.float32())
    return _apply(frame, features, to, mapped, taken(model, Model, "model").transform)


def predict(model: Union[Model, Path], frame: Any, *, features: str = "features", to: str = "class") -> Any:
    """The data frame with the class of each row as one more column, ``to``."""
    model = taken(model, Model, "model")
    kind = pa.int64() if model.class_names is None else pa.string()
    return _apply(frame, features, to, kind, model.predict)
