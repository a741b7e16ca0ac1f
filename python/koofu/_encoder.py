"""Encoders: pictures and words to embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from koofu import _koofu
from koofu._data import DTYPES
from koofu._types import F32, F64, I32, Path, fs, is_path, one_of

_PRECISIONS = {None: 0, "float32": 1, "bfloat16": 2}


class Encoder:
    """A CLIP or SigLIP model as Hugging Face publishes it: a folder with ``config.json`` and
    ``model.safetensors``.

    Embeddings are the same to the bit on every machine, with any number of threads, and whatever
    else is encoded in the same call. An encoder is immutable and thread-safe. Unpickling loads the
    folder again.

    :param folder: the folder of the model.
    :param precision: ``"bfloat16"`` (the default) or ``"float32"``.
    :param images, text: which towers to load.
    :param max_pixels: refuse pictures with more pixels; None: Pillow's limit.
    """

    __slots__ = ("_capsule", "_info", "_arguments", "__weakref__")

    def __init__(self, folder: Path, *, precision: Optional[str] = None, images: bool = True,
                 text: bool = True, max_pixels: Optional[int] = None) -> None:
        if not images and not text:
            raise ValueError("images and text are both False; one tower must be loaded")
        options = {
            "precision": one_of(precision, _PRECISIONS, "precision"),
            "images": 0 if images else 2,
            "text": 0 if text else 2,
            "max_pixels": max_pixels,
        }
        self._arguments = (folder, precision, images, text, max_pixels)
        self._capsule = _koofu.encoder_load(fs(folder), options)
        self._info = _koofu.encoder_info(self._capsule)

    @property
    def dim(self) -> int:
        """Columns of an embedding."""
        return int(self._info[0])

    @property
    def image_size(self) -> Optional[int]:
        """Side of the image tower's input in pixels; None without an image tower."""
        return int(self._info[1]) or None

    @property
    def context(self) -> Optional[int]:
        """Tokens per text; None without a text tower."""
        return int(self._info[2]) or None

    @property
    def checksum(self) -> int:
        """Equal for encoders that give the same embeddings."""
        return int(self._info[5])

    @property
    def name(self) -> str:
        """The name of its folder."""
        return str(self._info[6])

    def images(self, pictures: Any, *, bad: str = "error") -> F32:
        """Embeddings of pictures, ``(n, dim)``, not of unit length.

        :param pictures: a list of paths or of pictures in memory: the bytes of JPEG, PNG or WebP
            files, PIL images, or uint8 arrays of height, width and three colours. A single picture
            gives one row.
        :param bad: ``"error"``, or ``"zero"``: a picture that cannot be read gives a row of zeros
            and a line in the log.
        """
        skip = one_of(bad, {"error": 0, "zero": 1}, "bad")
        listed = _list_of(pictures)
        out = np.empty((len(listed), self.dim), dtype=np.float32)
        if all(is_path(p) and not isinstance(p, bytes) for p in listed):
            _koofu.encode_paths(self._capsule, [fs(p) for p in listed], skip, out)
        else:
            buffers = [_in_memory(p, i) for i, p in enumerate(listed)]
            _koofu.encode_pictures(self._capsule, buffers, skip, out)
        return out

    def texts(self, texts: Union[str, Sequence[str]]) -> F32:
        """Embeddings of texts, ``(n, dim)``, not of unit length. A single text gives one row."""
        listed = [texts] if isinstance(texts, str) else list(texts)
        for i, text in enumerate(listed):
            if not isinstance(text, str):
                raise TypeError(f"text {i} is of type {type(text).__name__}; it must be a string")
        out = np.empty((len(listed), self.dim), dtype=np.float32)
        _koofu.encode_texts(self._capsule, listed, out)
        return out

    def tokens(self, text: str) -> I32:
        """The tokens of a text, without the padding."""
        out = np.empty(self.context or 0, dtype=np.int32)
        return out[: _koofu.tokenize(self._capsule, text, out)]

    def text_mean(self) -> F64:
        """The mean of embedded everyday texts, for ``Gallery.search(text_mean=)``."""
        out = np.empty(self.dim)
        _koofu.encoder_text_mean(self._capsule, out)
        return out

    def embed(self, paths: Union[Path, Sequence[Path]], out: Path, *, dtype: str = "float32",
              normalize: bool = False, skip_bad: bool = False, resume: bool = True,
              label_key: Optional[str] = None,
              metadata: Optional[Path] = None) -> dict[str, int]:
        """Embeds pictures into a ``.safetensors`` data set, shard by shard, and resumes an
        interrupted run. Paths are pictures, folders (subfolders are classes), WebDataset archives
        (``.tar``) or patterns; ``"shards/{0000..0127}.tar"`` names many archives.

        Returns how many rows were written, skipped, resumed and reused.

        :param label_key: the key of the class in the JSON of samples in archives; None: the class
            is in ``.cls``.
        :param metadata: a file that gets a line of JSON for each row: number, id, class, and the
            text and JSON of its sample in the archive.
        """
        listed = [fs(paths)] if is_path(paths) else [fs(p) for p in paths]  # type: ignore
        options = {
            "dtype": one_of(dtype, DTYPES, "dtype"),
            "normalize": 1 if normalize else 2,
            "skip_bad": int(skip_bad),
            "resume": 1 if resume else 2,
            "metadata": None if metadata is None else fs(metadata),
        }
        report: dict[str, int] = _koofu.embed(self._capsule, listed, label_key, options, fs(out))
        return report

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, self._arguments

    def __repr__(self) -> str:
        return f"<koofu.Encoder: {self.name}, {self.dim} columns>"


def _load(folder: Path, precision: Optional[str], images: bool, text: bool,
          max_pixels: Optional[int]) -> Encoder:
    return Encoder(folder, precision=precision, images=images, text=text, max_pixels=max_pixels)


def _list_of(pictures: Any) -> list[Any]:
    """A list of pictures; a single one becomes a list of one."""
    single = is_path(pictures) or hasattr(pictures, "convert") or (
        pictures.ndim in (1, 3) if isinstance(pictures, np.ndarray)
        else isinstance(pictures, (bytearray, memoryview)))
    return [pictures] if single else list(pictures)


def _in_memory(picture: Any, number: int) -> Any:
    """A picture as a contiguous buffer, for the extension."""
    if hasattr(picture, "convert"):  # PIL
        return np.ascontiguousarray(picture.convert("RGB"), dtype=np.uint8)
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8:
            raise TypeError(f"picture {number} has the dtype {picture.dtype}; pixels must be uint8")
        return np.ascontiguousarray(picture)
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return picture
    if is_path(picture):
        with open(picture, "rb") as file:
            return file.read()
    raise TypeError(f"picture {number} is of type {type(picture).__name__}; it must be a path, the "
                    "bytes of a file, a PIL image or a uint8 array")
