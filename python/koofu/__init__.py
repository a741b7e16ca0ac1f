"""koofu: a better, smaller space for CLIP embeddings, in closed form.

>>> import numpy as np, koofu
>>> y = np.arange(200) % 4
>>> X = np.random.default_rng(0).normal(size=(200, 16)).astype("f4") + 4 * np.eye(4, 16)[y]
>>> model = koofu.fit(X, y)
>>> model.predict(X[:4])
array([0, 1, 2, 3])

Data sets are arrays, which are not copied, or paths, which are read in C. Models, statistics,
galleries and encoders are thread-safe.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from koofu._config import configure, threads
from koofu._data import Data
from koofu._encoder import Encoder
from koofu._errors import KooFuError, KooFuMemoryError, KooFuOSError, KooFuValueError
from koofu._files import Info, info, verify
from koofu._gallery import Change, Filter, Gallery, Hits, Ranges, Unique
from koofu._judge import (
    Comparison,
    Evaluation,
    Truth,
    compare,
    evaluate,
    interval95,
    report,
    sweep,
)
from koofu._koofu import version as __version__
from koofu._model import FitReport, Model, fit
from koofu._stats import Stats
from koofu._text import Text, text_mean

__all__ = [
    "Change",
    "Comparison",
    "Data",
    "Encoder",
    "Evaluation",
    "Filter",
    "FitReport",
    "Gallery",
    "Hits",
    "Info",
    "KooFuError",
    "KooFuMemoryError",
    "KooFuOSError",
    "KooFuValueError",
    "Model",
    "Ranges",
    "Stats",
    "Text",
    "Truth",
    "Unique",
    "__version__",
    "compare",
    "configure",
    "evaluate",
    "fit",
    "info",
    "interval95",
    "report",
    "sweep",
    "text_mean",
    "threads",
    "verify",
]

if TYPE_CHECKING:
    from koofu.estimator import KooFu

    __all__ += ["KooFu"]


def __getattr__(name: str) -> Any:
    """Imports ``KooFu`` on first use: it needs scikit-learn, which nothing else here does."""
    if name == "KooFu":
        return importlib.import_module("koofu.estimator").KooFu
    raise AttributeError(f"module 'koofu' has no attribute {name!r}")
