"""Files: what is in one, and whether it is valid."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Optional

from koofu import _koofu
from koofu._types import Path, fs

_METHODS = {0: None, 1: "shrunk", 2: "paper"}
_PRIORS = {0: None, 1: "equal", 2: "training"}


@dataclass(frozen=True)
class Info:
    """What is in a file. None: not known, or not applicable to this kind of file."""

    path: str
    #: ``"npy"``, ``"npz"``, ``"safetensors"``, ``"parquet"``, ``"fvecs"``, ``"fbin"``, ``"tar"``,
    #: ``"csv"``, ``"tsv"`` or ``"text"``.
    format: str
    #: ``"embeddings"``, ``"labels"``, ``"data set"``, ``"statistics"``, ``"model"``, ``"gallery"``,
    #: ``"answers"``, ``"tensors"``, ``"table"``, ``"archive"`` or ``"lines"``.
    kind: str
    #: Size of the file.
    bytes: int
    rows: int
    dim: Optional[int]
    classes: Optional[int]
    #: Columns of mapped rows (models) or of its own rows (galleries).
    dim_out: Optional[int]
    #: Whether rows have ids.
    ids: bool
    normalized: Optional[bool]
    lambda_: Optional[float]
    temperature: Optional[float]
    reject: Optional[float]
    method: Optional[str]
    priors: Optional[str]
    metric: Optional[str]
    #: The encoder that made the embeddings.
    encoder: Optional[str]
    #: A checksum of the contents, 16 hexadecimal digits.
    checksum: Optional[str]
    #: The version that fitted the map, such as ``"koofu 0.2.0"``.
    fitted_by: Optional[str]
    #: The checksum of the statistics the map was fitted to.
    fitted_from: Optional[str]
    #: Models with text: the checksum of the text (:attr:`koofu.Text.checksum`).
    text_from: Optional[str]
    #: The checksum of the encoder, prompts and classes that the text was made from.
    text_made_with: Optional[str]
    #: ``(name, dtype, shape)`` of each array or, in tables, each column.
    tensors: list[tuple[str, str, tuple[int, ...]]]
    #: The metadata of the file, as strings.
    metadata: dict[str, str]


def _describe(path: Path, verify: bool) -> Info:
    found: dict[str, Any] = _koofu.file_info(fs(path), int(verify))
    said: dict[str, str] = found["metadata"]
    model = found["kind"] == "model"
    return Info(
        path=os.fsdecode(path),
        format=found["format"],
        kind=found["kind"],
        bytes=found["bytes"],
        rows=found["rows"],
        dim=found["dim"] or None,
        classes=found["classes"] or None,
        dim_out=found["dim_out"] or None,
        ids=bool(found["ids"]),
        normalized=None if found["normalized"] < 0 else bool(found["normalized"]),
        lambda_=found["lambda_"] if model else None,
        temperature=found["temperature"] or None,
        reject=found["reject"] if found["reject_share"] > 0 else None,
        method=_METHODS[found["method"]],
        priors=_PRIORS[found["priors"]],
        metric=said.get("metric") if found["kind"] == "gallery" else None,
        encoder=found["encoder"],
        checksum=said.get("checksum"),
        fitted_by=said.get("fitted_by"),
        fitted_from=said.get("fitted_from"),
        text_from=said.get("text_from"),
        text_made_with=said.get("text_made_with"),
        tensors=found["tensors"],
        metadata=said,
    )


def info(path: Path) -> Info:
    """Describes any file that koofu reads or writes, from its header.

    Statistics and models are read whole, so a description also means that the file is valid.

    >>> import numpy as np, koofu, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "rows.npy")
    >>> np.save(path, np.eye(4, 8, dtype="f4"))
    >>> found = koofu.info(path)
    >>> found.kind, found.rows, found.dim, found.tensors
    ('embeddings', 4, 8, [('array', '<f4', (4, 8))])
    """
    return _describe(path, False)


def verify(path: Path) -> Info:
    """Reads all of a file, and raises a :class:`koofu.KooFuValueError` for the first fault.

    Beyond :func:`info`, all rows must be finite and non-zero, all labels be classes, all ids be
    UTF-8; arrays of an ``.npz`` must match their checksums, and archives be complete.
    """
    return _describe(path, True)
