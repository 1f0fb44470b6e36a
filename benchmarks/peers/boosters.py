"""Boosted trees with their defaults, on one thread: ours, and those of others."""

from functools import partial
from importlib import import_module

from benchmarks.runner.experiment import Learner
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


def _learner(package, module, name, **settings):
    return Learner(partial(default, partial(peer, module, name, **settings)), (package,))


MAKERS = {
    OURS: Learner(partial(default, StructBoostClassifier), ("pandas",)),
    "lightgbm": _learner("lightgbm", "lightgbm", "LGBMClassifier", n_jobs=1, verbose=-1),
    "xgboost": _learner("xgboost", "xgboost", "XGBClassifier", n_jobs=1, enable_categorical=True),
    "catboost": _learner(
        *("catboost", "catboost", "CatBoostClassifier"),
        **{"thread_count": 1, "verbose": 0, "allow_writing_files": False},
    ),
    "histgb": _learner("sklearn", "sklearn.ensemble", "HistGradientBoostingClassifier"),
    "chimeraboost": _learner(
        *("chimeraboost", "chimeraboost", "ChimeraBoostClassifier"),
        **{"thread_count": 1, "ensemble_n_jobs": 1},
    ),
}


def timed_fit(learner, *arguments, **more):
    """A model and CPU seconds of its fit on one thread; ours is compiled before."""
    if learner is MAKERS[OURS]:
        learner.fit(*made_classes())
    return cpu_timed(learner.fit, *arguments, **more)
