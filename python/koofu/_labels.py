"""Labels of any kind as class numbers and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from koofu._types import I32, AnyArray, Labels

_MAX_CLASSES = 1 << 22


def _from_codes(codes: Any, categories: Any) -> AnyArray:
    """Looks up categories by number, as an array of objects; None for invalid numbers."""
    numbers = np.asarray(codes).astype(np.int64, copy=False)
    names = np.array([*categories, None], dtype=object)
    numbers = np.where((numbers < 0) | (numbers >= len(names) - 1), len(names) - 1, numbers)
    return np.asarray(names[numbers], dtype=object)


def _as_array(y: Labels) -> AnyArray:
    """Any list of labels as a 1-D numpy array."""
    y = getattr(y, "cat", y) if hasattr(getattr(y, "cat", None), "codes") else y
    if hasattr(y, "codes") and hasattr(y, "categories"):  # pandas
        return _from_codes(y.codes, y.categories)
    if hasattr(y, "combine_chunks"):  # chunked array of pyarrow
        y = y.combine_chunks()
    if hasattr(y, "indices") and hasattr(y, "dictionary"):  # dictionary array of pyarrow
        indices = y.indices.fill_null(-1) if y.indices.null_count else y.indices
        return _from_codes(indices, y.dictionary.to_pylist())
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y has {array.ndim} dimensions; labels must be a list, one for each row")
    return array


def _missing(value: object) -> bool:
    return value is None or value != value  # NaN


def _objects(array: AnyArray) -> AnyArray:
    """An array of objects as strings or integers; TypeError for a mixture or other objects."""
    there = [value for value in array if not _missing(value)]
    if all(isinstance(value, str) for value in there):
        return array
    if all(isinstance(value, (int, np.integer)) for value in there):
        return np.array([-1 if _missing(value) else int(value) for value in array], dtype=np.int64)
    odd = next(v for v in there if not isinstance(v, (str, int, np.integer)) or
               isinstance(v, str) != isinstance(there[0], str))
    raise TypeError(f"y holds {odd!r}; labels must be integers, strings or categories, "
                    "all of one kind")


def _numbers(array: AnyArray, n_classes: int, unlabelled: bool) -> tuple[I32, int]:
    """Integers as class numbers."""
    low, high = int(array.min()), int(array.max())
    if low < 0 and not unlabelled:
        row = int(np.argmax(array < 0))
        raise ValueError(f"y[{row}] is {array[row]}; labels must be class numbers from 0 on "
                         "(unlabelled='skip' leaves such rows out)")
    most = n_classes if n_classes else _MAX_CLASSES
    if high >= most:
        row = int(np.argmax(array >= most))
        raise ValueError(f"y[{row}] is {array[row]}, but there are only {most} classes"
                         if n_classes else
                         f"y[{row}] is {array[row]}; class numbers are at most {most - 1}")
    if low < 0:
        array = np.maximum(array, -1)
    return np.ascontiguousarray(array, dtype=np.int32), n_classes


def _by_name(array: AnyArray, names: Sequence[str], unlabelled: bool, unknown: bool) -> I32:
    """Strings as their positions in a list of names."""
    position = {name: k for k, name in enumerate(names)}
    out = np.empty(len(array), dtype=np.int32)
    for i, value in enumerate(array):
        if _missing(value):
            if not unlabelled:
                raise ValueError(f"y[{i}] is {value!r}, not a label "
                                 "(unlabelled='skip' leaves such rows out)")
            out[i] = -1
        else:
            k = position.get(str(value), -1)
            if k < 0 and not unknown:
                raise ValueError(f"y[{i}] is {str(value)!r}, which is not in classes "
                                 "(unknown='skip' leaves such rows out)")
            out[i] = k
    return out


def _strings(array: AnyArray, unlabelled: bool) -> tuple[I32, list[str]]:
    """Class numbers of strings, and their names: the sorted strings."""
    if array.dtype.kind == "U":
        names, codes = np.unique(array, return_inverse=True)
        return codes.reshape(-1).astype(np.int32), [str(name) for name in names]
    there = sorted({str(value) for value in array if not _missing(value)})
    return _by_name(array, there, unlabelled, False), there


def take_labels(
    y: Labels, n: int, classes: Optional[Sequence[str]], unlabelled: bool, unknown: bool
) -> tuple[I32, Optional[list[str]], int]:
    """Class numbers of n rows, class names if there are any, and the number of classes."""
    array = _as_array(y)
    if len(array) != n:
        raise ValueError(f"X has {n} rows, but y has {len(array)} labels")
    names = check_names(classes)
    if n == 0:
        return np.empty(0, dtype=np.int32), names, len(names or ())
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "O":
        array = _objects(array)
    if array.dtype.kind == "T":  # numpy's variable-width strings
        array = np.asarray(array, dtype=object)
    if array.dtype.kind == "b":
        array = array.astype(np.int32)
    if array.dtype.kind in "iu":
        numbers, count = _numbers(array, len(names or ()), unlabelled)
        return numbers, names, count
    if array.dtype.kind not in "UO":
        raise TypeError(f"y has the dtype {array.dtype}; labels must be integers, strings "
                        "or categories")
    if names is None:
        numbers, names = _strings(array, unlabelled)
        return numbers, names, len(names)
    return _by_name(array, names, unlabelled, unknown), names, len(names)


def check_names(classes: Optional[Sequence[str]]) -> Optional[list[str]]:
    """Checks a list of class names: strings, each once."""
    if classes is None:
        return None
    if isinstance(classes, (str, bytes)):
        raise TypeError("classes is a string; it must be a list of class names")
    names = list(classes)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"classes holds {name!r}; class names must be strings")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"classes holds {twice!r} twice")
    return [str(name) for name in names]
