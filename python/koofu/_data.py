"""Data sets: arrays, which are not copied, or files, which are read in C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from koofu import _koofu
from koofu._labels import take_labels
from koofu._types import F32, I32, Labels, Path, Rows, fs, is_path, one_of

_SKIP = {"error": 0, "skip": 1}
_ORDER = {None: 0, "number": 1, "name": 2, "given": 3}
DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
_INTERFACES = ("__arrow_c_stream__", "__arrow_c_array__", "__dlpack__")


def as_rows(X: Rows, what: str = "X") -> Any:
    """Rows for the extension: a numpy array or a capsule."""
    X = _as_array(X, what)
    return X if isinstance(X, np.ndarray) else _koofu.rows(X, what)


def _is_table(X: Any) -> bool:
    """Whether X is a table of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def stack(column: Any, what: str = "X") -> Any:
    """A column of arrays or lists, as pandas and other engines have them, as a matrix. Returns
    anything else as it is."""
    if getattr(column, "dtype", None) != np.dtype(object) or getattr(column, "ndim", 1) != 1:
        return column
    rows = [np.asarray(row) for row in column]
    for i, row in enumerate(rows):
        if row.ndim != 1 or row.dtype == object:
            raise TypeError(f"{what}: row {i} is {row.tolist()!r:.60}, not a list of numbers")
        if len(row) != len(rows[0]):
            raise ValueError(f"{what}: row 0 has {len(rows[0])} columns, and row {i} has {len(row)}")
    return np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)


def _as_array(X: Rows, what: str) -> Any:
    """An object with rows; copies only lists, columns of arrays, and tables with several
    columns."""
    if isinstance(X, (list, tuple)):
        return np.asarray(X, dtype=np.float64)
    if _is_table(X):
        X = X[X.columns[0]] if len(X.columns) == 1 else np.asarray(X.to_numpy())
    X = stack(X, what)
    if isinstance(X, np.ndarray) or any(hasattr(X, name) for name in _INTERFACES):
        return X
    try:
        return memoryview(X)
    except TypeError:
        return np.asarray(X) if hasattr(X, "__array__") else X


def as_matrix(X: Rows) -> Any:
    """Rows for scikit-learn. What it would refuse, but :func:`koofu.fit` takes, becomes a float32
    matrix: columns of arrays or lists (pandas, polars, pyarrow) and tensors in bfloat16."""
    column = X[X.columns[0]] if _is_table(X) and len(X.columns) == 1 else X
    if isinstance(column, np.ndarray):
        return stack(column)
    arrays = getattr(column, "ndim", 1) == 2 and "bfloat16" not in str(getattr(column, "dtype", ""))
    if arrays or not (hasattr(column, "to_numpy") or
                      any(hasattr(column, name) for name in _INTERFACES)):
        return X
    column = stack(column)
    return column if isinstance(column, np.ndarray) else Data(column).rows()


def _paths(value: Any, what: str) -> Optional[list[bytes]]:
    """Paths, from one path or a list of them; None if the value is neither."""
    if is_path(value):
        return [fs(value)]
    if isinstance(value, (list, tuple)) and value and all(is_path(v) for v in value):
        return [fs(v) for v in value]
    return None


class Data:
    """Rows with labels: an array, which is not copied, or files, read block by block in C.

    All functions that take rows also take a path or an array; a ``Data`` is for options.

    :param X: a 2-D array of float16, float32 or float64 (numpy, or anything with the buffer
        protocol, DLPack or Arrow), which is not copied and must not change; or a path, a folder, a
        pattern such as ``"shards/*.npy"``, or a list of paths.
    :param y: integers, strings or categories; for files, paths of label files.
    :param classes: class names. Integers index the list; strings must be in it. For files, a text
        file with one name per line.
    :param ids: a name for each row (arrays only; files may contain ids).
    :param zero_rows: ``"error"``, or ``"skip"`` to leave out zero rows (in files also rows with NaN
        or infinite values).
    :param unlabelled: ``"error"``, or ``"skip"`` for rows without a label: negative numbers, None.
    :param unknown: ``"error"``, or ``"skip"`` for rows whose label is not in ``classes``.
    :param tensor, label_tensor: the arrays with rows and labels in ``.safetensors`` and ``.npz``;
        ``tensor`` is also the column of rows in ``.parquet``.
    :param label_column: the column of labels in ``.csv`` and ``.tsv`` label files (a name or a
        number) and in ``.parquet``.
    :param id_column: the column of ids in ``.parquet``.
    :param only: a text file with class names: rows of other classes are left out.
    :param order: the order of the files: ``"number"``, ``"name"`` or ``"given"``.
    :param inner_labels: use labels inside the files.

    >>> import numpy as np, koofu
    >>> data = koofu.Data(np.eye(4, 8, dtype="f4"), ["cat", "dog", "cat", "dog"])
    >>> data.shape, data.class_names
    ((4, 8), ['cat', 'dog'])
    """

    def __init__(
        self,
        X: Rows,
        y: Labels = None,
        *,
        classes: Union[Sequence[str], Path, None] = None,
        ids: Optional[Sequence[str]] = None,
        zero_rows: str = "error",
        unlabelled: str = "error",
        unknown: str = "error",
        tensor: Optional[str] = None,
        label_tensor: Optional[str] = None,
        label_column: Union[str, int, None] = None,
        id_column: Optional[str] = None,
        only: Optional[Path] = None,
        order: Optional[str] = None,
        inner_labels: bool = True,
        _what: str = "X",
    ) -> None:
        skip = one_of(zero_rows, _SKIP, "zero_rows")
        no_label = one_of(unlabelled, _SKIP, "unlabelled")
        no_class = one_of(unknown, _SKIP, "unknown")
        number = one_of(order, _ORDER, "order")
        paths = _paths(X, _what)
        if paths is not None:
            if ids is not None:
                raise ValueError("ids are for arrays; files contain their own")
            options = {
                "classes": None if classes is None else self._class_file(classes),
                "tensor": tensor,
                "label_tensor": label_tensor,
                "inner_labels": 0 if inner_labels else 2,
                "skip_bad": skip,
                "allow_unlabelled": no_label,
                "allow_unknown": no_class,
                "only": None if only is None else fs(only),
                "label_column": None if label_column is None else str(label_column),
                "order": number,
                "id_column": id_column,
            }
            self._capsule = _koofu.data_open(paths, self._label_files(y), options)
            return
        for name, value in (("tensor", tensor), ("label_tensor", label_tensor), ("only", only),
                            ("label_column", label_column), ("id_column", id_column),
                            ("order", order)):
            if value is not None:
                raise ValueError(f"{name} is for files, but X is an array")
        if is_path(classes):
            raise TypeError("classes is a path, but X is an array; give the names as a list")
        rows = as_rows(X, _what)
        n = _koofu.shape(rows, _what)[0]
        if n == 0:
            raise ValueError(f"{_what} has no rows")
        labels, names, n_classes = None, None, 0
        if y is not None:
            if is_path(y):
                raise TypeError("y is a path, but X is an array; give the labels as a list")
            listed = None if classes is None else list(classes)  # type: ignore[arg-type]
            labels, names, n_classes = take_labels(y, n, listed, no_label == 1, no_class == 1)
        elif classes is not None:
            raise ValueError("classes are given, but no labels")
        self._capsule = _koofu.data_arrays(
            rows, labels, names, n_classes, 2 * skip, None if ids is None else list(ids), _what
        )

    @staticmethod
    def _class_file(classes: Union[Sequence[str], Path]) -> bytes:
        if not is_path(classes):
            raise TypeError("classes is a list, but X is a file; give a text file of names")
        return fs(classes)  # type: ignore[arg-type]

    @staticmethod
    def _label_files(y: Labels) -> Optional[list[bytes]]:
        if y is None:
            return None
        paths = _paths(y, "y")
        if paths is None:
            raise TypeError("y is a list, but X is a file; give a label file")
        return paths

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        info = _koofu.data_info(self._capsule)
        return info[0], info[1]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 without labels."""
        return int(_koofu.data_info(self._capsule)[2])

    @property
    def class_names(self) -> Optional[list[str]]:
        """The names of the classes; None if they have none."""
        return _koofu.data_names(self._capsule)

    @property
    def has_labels(self) -> bool:
        """Whether the rows have labels."""
        return bool(_koofu.data_info(self._capsule)[3])

    @property
    def has_ids(self) -> bool:
        """Whether the rows have ids."""
        return bool(_koofu.data_info(self._capsule)[5])

    def labels(self) -> I32:
        """The class number of each row; -1 without a label."""
        out = np.empty(len(self), dtype=np.int32)
        _koofu.data_labels(self._capsule, out)
        return out

    def rows(self, first: int = 0, n: Optional[int] = None) -> F32:
        """A copy of rows ``first`` to ``first + n - 1``, as float32."""
        total, dim = self.shape
        if not 0 <= first <= total:
            raise ValueError(f"first is {first}; there are {total} rows")
        count = total - first if n is None else n
        if not 0 <= count <= total - first:
            raise ValueError(f"n is {count}; {total - first} rows are left after row {first}")
        out = np.empty((count, dim), dtype=np.float32)
        if count:
            _koofu.data_rows(self._capsule, first, out)
        return out

    def save(self, path: Path, dtype: str = "float32") -> None:
        """Writes a ``.safetensors`` data set with labels, class names and ids or, if the path ends
        in ``.parquet``, a table with columns ``embedding``, ``label`` and ``id``.

        :param dtype: ``"float32"``, ``"float16"`` or, not in ``.parquet``, ``"bfloat16"``.
        """
        _koofu.data_save(self._capsule, one_of(dtype, DTYPES, "dtype"), fs(path))

    def __repr__(self) -> str:
        rows, dim = self.shape
        return f"<koofu.Data: {rows} rows of {dim} columns, {self.n_classes} classes>"


def open_data(X: Rows, y: Labels = None, what: str = "X", **options: Any) -> Data:
    """X itself if it is a data set; otherwise a data set of X and y."""
    if isinstance(X, Data):
        given = [name for name, value in options.items() if value not in (None, "error")]
        if y is not None or given:
            name = "y" if y is not None else given[0]
            raise ValueError(f"{what} is a Data, which has its own labels and options; "
                             f"give {name} to it")
        return X
    return Data(X, y, _what=what, **options)


def rows_or_data(X: Rows) -> Any:
    """Rows for the functions of the extension that stream: a capsule or a numpy array."""
    if isinstance(X, np.ndarray):
        return stack(X)
    if isinstance(X, Data):
        return X._capsule
    if _paths(X, "X") is not None:
        return Data(X)._capsule
    return as_rows(X)


def count_rows(rows: Any) -> int:
    """The number of rows of a result of :func:`rows_or_data`."""
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        return int(rows.shape[0])
    if isinstance(rows, np.ndarray):
        return int(_koofu.shape(rows, "X")[0])  # says what is wrong
    return int(_koofu.count(rows))


