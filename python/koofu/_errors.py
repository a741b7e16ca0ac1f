"""Errors of the library as exceptions, with hints in Python's words."""

from __future__ import annotations

import logging
from typing import Any

from koofu import _koofu, _progress

_log = logging.getLogger("koofu")


class KooFuError(Exception):
    """An error of the library.

    Errors about arguments, arrays and the contents of files are also :class:`ValueError`, those of
    the system :class:`OSError`, and those of memory :class:`MemoryError`.

    >>> import koofu
    >>> try:
    ...     koofu.Model.load("absent.safetensors")
    ... except koofu.KooFuError as error:
    ...     print(error.status, isinstance(error, OSError))
    input/output error True
    """

    #: The kind of error in words, such as ``"bad data"``.
    status: str
    #: The same as a number, a ``kf_status`` of the library.
    code: int
    #: The library's hint, a ``kf_hint``; 0 if there is none.
    hint: int

    def __init__(self, message: str, code: int = 0, hint: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.status = _koofu.status_name(code)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.code, self.hint)


class KooFuValueError(KooFuError, ValueError):
    """Invalid arguments, rows or files."""


class KooFuOSError(KooFuError, OSError):
    """The system refused: a file is missing, the disk is full."""


class KooFuMemoryError(KooFuError, MemoryError):
    """Out of memory."""


_CLASSES: dict[int, type[KooFuError]] = {
    1: KooFuValueError,
    2: KooFuValueError,
    3: KooFuOSError,
    4: KooFuMemoryError,
    5: KooFuValueError,
}

# What the caller can do, by kf_hint.
_HINTS: dict[int, str] = {
    1: "zero_rows='skip' leaves such rows out",
    2: "unlabelled='skip' leaves such rows out",
    3: "unknown='skip' leaves such rows out",
    4: "give labels as y",
    5: "give class names with classes=",
    6: "name the tensor with Data(..., tensor=)",
    7: "give labels as y, or name their tensor with Data(..., label_tensor=)",
    8: "embed pictures first, with Encoder.images or Encoder.embed",
    9: "say with per_class= how many rows each class has",
    10: "make both with the smaller exponent=",
    11: "give class names to Truth with classes=",
    12: "give the ids of the rows to Truth with ids=",
    13: "give the rows instead of statistics",
    14: "set it with lambda_=",
    15: "give alpha= as a number",
    16: "resume=False starts from the beginning",
    17: "skip_bad=True leaves such pictures out",
    18: "max_pixels= raises the limit",
    19: "spoken= takes a file of lines 'CLASS<tab>NAME'",
    20: "spoken= gives classes other names, and repeats= allows it",
    21: "method='paper' selects it",
    22: "give one with temperature=",
    23: "order='number' sorts them by number, order='given' keeps the order given",
    24: "label_column= says which column holds the labels",
    25: "koofu.configure(any_encoder=True) allows it",
    26: "centre='mean' centres them",
    27: "write to another file",
    28: "Gallery.compact merges the changes into the file",
    29: "id_column= says which column names the pictures",
}


def _make(code: int, message: str, hint: int) -> KooFuError:
    """The exception for a status; called by the extension."""
    if not message:
        message = _koofu.status_name(code)
    # In arrays only zero rows can be skipped.
    if hint == 1 and message.startswith("row ") and not message.endswith("zero"):
        hint = 0
    if hint in _HINTS:
        message = f"{message}; {_HINTS[hint]}"
    return _CLASSES.get(code, KooFuError)(message, code, hint)


def _note(message: str) -> None:
    """Passes a note of the library to the logger ``koofu``."""
    _log.info("%s", message)


_koofu.set_hooks(_make, _note, _progress.report)
