"""koofu: a better, smaller space for CLIP embeddings, in closed form.

>>> import numpy as np, koofu
>>> y = np.arange(200) % 4
>>> X = np.random.default_rng(0).normal(size=(200, 16)).astype("f4") + 4 * np.eye(4, 16)[y]
>>> model = koofu.fit(X, y)
>>> model.predict(X[:4])
array([0, 1, 2, 3])
"""

from __future__ import annotations

from typing import Any

from koofu._data import Data
from koofu._errors import KooFuError, KooFuMemoryError, KooFuOSError, KooFuValueError
from koofu._model import FitReport, Model, fit
from koofu._stats import Stats
from koofu._koofu import version as __version__

__all__ = [
    "Data",
    "FitReport",
    "KooFu",
    "KooFuError",
    "KooFuMemoryError",
    "KooFuOSError",
    "KooFuValueError",
    "Model",
    "Stats",
    "__version__",
    "fit",
]


def __getattr__(name: str) -> Any:
    """``KooFu`` when it is first asked for: it needs scikit-learn, which nothing else does."""
    if name == "KooFu":
        from koofu.estimator import KooFu

        return KooFu
    raise AttributeError(f"module 'koofu' has no attribute {name!r}")
