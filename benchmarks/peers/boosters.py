"""Boosted trees with their defaults, on one thread: ours, and those of others."""

from functools import partial
from importlib import import_module

from benchmarks.runner.protocol import cpu_timed, made_classes
from structboost import StructBoostClassifier

OURS = "structboost"


def frame_of(X, categorical):
    """The table as all learners get it: a frame whose category columns have that type."""
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    for j in categorical:
        frame[f"x{j}"] = pd.Categorical(frame[f"x{j}"].astype(int).astype(str))
    return frame


def default(make, X, y, categorical=()):
    """A fitted model; columns of categories are named where a package wants their names."""
    model = make()
    names = [f"x{j}" for j in categorical]
    wants_names = type(model).__module__.startswith(("catboost", "chimeraboost"))
    return model.fit(X, y, **({"cat_features": names} if names and wants_names else {}))


def peer(module, name, **settings):
    """A classifier of another package; nothing is set but the number of threads."""
    return getattr(import_module(module), name)(**settings)


def _default(module, name, **settings):
    return partial(default, partial(peer, module, name, **settings))


MAKERS = {
    OURS: partial(default, StructBoostClassifier),
    "lightgbm": _default("lightgbm", "LGBMClassifier", n_jobs=1, verbose=-1),
    "xgboost": _default("xgboost", "XGBClassifier", n_jobs=1, enable_categorical=True),
    "catboost": _default(
        *("catboost", "CatBoostClassifier"),
        **{"thread_count": 1, "verbose": 0, "allow_writing_files": False},
    ),
    "histgb": _default("sklearn.ensemble", "HistGradientBoostingClassifier"),
    "chimeraboost": _default(
        *("chimeraboost", "ChimeraBoostClassifier"), **{"thread_count": 1, "ensemble_n_jobs": 1}
    ),
}


def timed_fit(learner, *arguments, **more):
    """A model and CPU seconds of its fit on one thread; ours is compiled before."""
    if learner is MAKERS[OURS]:
        learner(*made_classes())
    return cpu_timed(learner, *arguments, **more)
