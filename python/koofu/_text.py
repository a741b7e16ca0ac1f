"""Text prototypes: one embedding per class, made from words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from koofu import _koofu
from koofu._data import open_data
from koofu._labels import check_names
from koofu._encoder import Encoder
from koofu._types import F32, F64, Labels, Path, Rows, fs, one_of, taken

if TYPE_CHECKING:
    from koofu._model import Model

_REPEATS = {"none": 0, "names": 1, "all": 2}


class Text:
    """Text prototypes of classes, for ``fit(..., text=)``, zero-shot and fused models.

    >>> import numpy as np, koofu
    >>> text = koofu.Text.of(np.eye(3, 8, dtype="f4"), ["cat", "dog", "eel"])
    >>> text.class_names, text.rows.shape
    (['cat', 'dog', 'eel'], (3, 8))
    """

    __slots__ = ("_capsule", "_info", "__weakref__")

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule
        self._info = _koofu.text_info(capsule)

    @classmethod
    def of(
        cls,
        X: Rows,
        y: Labels = None,
        *,
        per_class: Optional[int] = None,
        classes: Optional[Sequence[str]] = None,
        unit_rows: bool = True,
        unit_mean: bool = True,
    ) -> Text:
        """Averages embedded prompts by class.

        :param X: embeddings of prompts: an array, a path, or a :class:`koofu.Data`.
        :param y: the class of each row.
        :param per_class: instead of labels: the number of rows per class, one class after another.
        :param classes: with ``per_class``, the names of the classes.
        :param unit_rows, unit_mean: scale rows, and their means, to unit length.
        """
        if per_class is not None and per_class < 1:
            raise ValueError(f"per_class is {per_class}; it must be at least 1")
        names = check_names(classes)
        with_rows = y is not None and names is not None
        data = open_data(X, y, classes=names) if with_rows else open_data(X, y)
        options = {
            "per_class": per_class,
            "unit_rows": 0 if unit_rows else 2,
            "unit_mean": 0 if unit_mean else 2,
        }
        return cls(_koofu.text_of(data._capsule, None if with_rows else names, options))

    @classmethod
    def of_prompts(
        cls,
        encoder: Encoder,
        classes: Sequence[str] = (),
        *,
        file: Optional[Path] = None,
        templates: Optional[str] = None,
        folders: bool = False,
        spoken: Optional[Path] = None,
        all_names: bool = False,
        repeats: str = "none",
    ) -> Text:
        """Embeds class names in templates such as ``"a photo of a {}."``.

        :param classes: the names; or ``file``, a text file with one class per line.
        :param templates: ``"builtin1"``, ``"builtin7"`` (the default), ``"builtin80"``, or a text
            file.
        :param folders: the names are those of folders, such as ``"017.Cardinal"``.
        :param spoken: a text file with lines ``CLASS<tab>NAME``: the words to use for each class.
        :param all_names: use every name of a class, not just the first.
        :param repeats: whether classes may share prompts: ``"none"``, ``"names"`` or ``"all"``.
        """
        names = check_names(list(classes))
        if (file is None) == (not names):
            raise ValueError("give either classes or file")
        options = {
            "classes": None if file is None else fs(file),
            "templates": None if templates is None else fs(templates),
            "folders": int(folders),
            "spoken": None if spoken is None else fs(spoken),
            "all_names": int(all_names),
            "repeats": one_of(repeats, _REPEATS, "repeats"),
        }
        return cls(_koofu.text_of_prompts(taken(encoder, Encoder, "encoder")._capsule, names or None, options))

    @classmethod
    def of_model(cls, model: Union[Model, Path]) -> Text:
        """The text of a model that has text."""
        from koofu._model import Model

        return cls(_koofu.text_of_model(taken(model, Model, "model")._capsule))

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self._info[0])

    @property
    def dim(self) -> int:
        """Columns of a row."""
        return int(self._info[1])

    @property
    def class_names(self) -> Optional[list[str]]:
        """The names of the classes; None if they have none."""
        names: Optional[list[str]] = self._info[2]
        return names

    @property
    def rows(self) -> F32:
        """The prototypes, ``(n_classes, dim)``."""
        return np.frombuffer(self._info[3], dtype="f4").reshape(self.n_classes, self.dim)

    @property
    def checksum(self) -> str:
        """A checksum of rows and class names, 16 hexadecimal digits, which models with this text
        store."""
        return f"{self._info[4]:016x}"

    def save(self, path: Path) -> None:
        """Writes a ``.safetensors`` data set with a row for each class."""
        _koofu.text_save(self._capsule, fs(path))

    @classmethod
    def load(cls, path: Path) -> Text:
        """Reads a file written by :meth:`save` or the command line."""
        return cls.of(path, unit_rows=False, unit_mean=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (np.array(self.rows), self.class_names)

    def __repr__(self) -> str:
        return f"<koofu.Text: {self.n_classes} classes of {self.dim} columns>"


def _unpickle(rows: F32, names: Optional[list[str]]) -> Text:
    return Text.of(rows, np.arange(len(rows)), classes=names, unit_rows=False, unit_mean=False)


def text_mean(X: Rows) -> F64:
    """The mean of embedded texts, each scaled to unit length, for
    ``Gallery.search(text_mean=)``."""
    data = open_data(X)
    out = np.empty(data.shape[1])
    _koofu.text_mean(data._capsule, out)
    return out
