"""Gradient boosting of others, with their defaults, on one thread."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

PACKAGES = {
    "lightgbm": "lightgbm",
    "xgboost": "xgboost",
    "catboost": "catboost",
    "histgb": "sklearn",
    "chimeraboost": "chimeraboost",
}


def frame_of(X: np.ndarray, categorical: Sequence[int]) -> Any:
    """The table as it is given to all: a frame whose category columns have that type."""
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    for j in categorical:
        frame[f"x{j}"] = pd.Categorical(frame[f"x{j}"].astype(int).astype(str))
    return frame


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1)


def _xgboost() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, enable_categorical=True)


def _catboost() -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(thread_count=1, verbose=0, allow_writing_files=False)


def _histgb() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier()


def _chimeraboost() -> Any:
    from chimeraboost import ChimeraBoostClassifier

    return ChimeraBoostClassifier(thread_count=1, ensemble_n_jobs=1)


MAKERS: dict[str, Callable[[], Any]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
    "histgb": _histgb,
    "chimeraboost": _chimeraboost,
}


def fitted(name: str, frame: Any, y: np.ndarray, categorical: Sequence[int]) -> Any:
    """A fitted model of a peer."""
    named = [f"x{j}" for j in categorical]
    given = {"cat_features": named} if named and name in ("catboost", "chimeraboost") else {}
    return MAKERS[name]().fit(frame, y, **given)
