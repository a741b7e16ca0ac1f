"""koofu: a better, smaller space for CLIP embeddings, in closed form.

>>> import numpy as np, koofu
>>> y = np.arange(200) % 4
>>> X = np.random.default_rng(0).normal(size=(200, 16)).astype("f4") + 4 * np.eye(4, 16)[y]
>>> model = koofu.fit(X, y)
>>> model.predict(X[:4])
array([0, 1, 2, 3])
"""

from __future__ import annotations

from koofu._data import Data
from koofu._errors import KooFuError, KooFuMemoryError, KooFuOSError, KooFuValueError
from koofu._model import FitReport, Model, fit
from koofu._stats import Stats
from koofu._koofu import version as __version__

__all__ = [
    "Data",
    "FitReport",
    "KooFuError",
    "KooFuMemoryError",
    "KooFuOSError",
    "KooFuValueError",
    "Model",
    "Stats",
    "__version__",
    "fit",
]
