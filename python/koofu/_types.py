"""Types of arguments."""

from __future__ import annotations

import os
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

Path = Union[str, "os.PathLike[str]"]
#: Rows: a 2-D array of float16, float32 or float64 (numpy, or anything with the buffer protocol,
#: DLPack or Arrow), a path, a list of paths, or a :class:`koofu.Data`.
Rows = Any
#: Labels: integers, strings or categories, one for each row; or paths of label files.
Labels = Any

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
AnyArray = NDArray[Any]


def fs(path: Path) -> bytes:
    """A path as bytes, for the library."""
    return os.fsencode(path)


def is_path(value: object) -> bool:
    """Whether a value is a path."""
    return isinstance(value, (str, bytes, os.PathLike))


def taken(value: Any, kind: Any, what: str) -> Any:
    """A model, statistics, text and so on as they are; from the path of their file, loaded."""
    if is_path(value):
        value = getattr(kind, "load", kind)(value)
    if not isinstance(value, kind):
        raise TypeError(f"{what} is of type {type(value).__name__}; it must be a "
                        f"koofu.{kind.__name__} or the path of its file")
    return value


def capsule_of(value: Any, kind: Any, what: str) -> Any:
    """The capsule of what :func:`taken` returns; None: not given."""
    return None if value is None else taken(value, kind, what)._capsule


def one_of(value: Any, choices: dict[Any, int], what: str) -> int:
    """The number of a choice, or a ValueError that lists all of them."""
    try:
        if value in choices:
            return choices[value]
    except TypeError:
        pass
    names = ", ".join(repr(name) for name in choices)
    raise ValueError(f"{what} is {value!r}; it must be one of {names}")
