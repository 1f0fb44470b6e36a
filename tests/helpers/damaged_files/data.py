"""What the files are trained on."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

X, Y = load_iris(return_X_y=True)
X, Y = X[::5], Y[::5]
PIXELS = np.random.default_rng(0).random((30, 64))


def mixed_table():
    """Flowers as a frame: two columns of numbers with gaps, and one of categories."""
    length = pd.cut(X[:, 0], 4, labels=["tiny", "short", "long", "huge"])
    width = np.where(np.arange(len(X)) % 7 == 0, np.nan, X[:, 2])
    return pd.DataFrame({"length": length, "width": width, "petal": X[:, 3]})
