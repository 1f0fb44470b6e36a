"""``structboost warmup``: compile what training and prediction need, as for a container.

It trains on small made problems through the public classes, so it compiles what they use.
``--remove`` deletes what was compiled, now or by any fit: pip leaves it behind.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import structboost
from structboost import MulticlassTask, StructBoost, estimators, tracking
from structboost.decisions import Knapsack
from structboost.estimators.boosted import StructBoostEstimator
from structboost.exceptions import InterruptedFitWarning
from structboost.masters.registry import FORMULATIONS
from structboost.progress import ProgressLine
from structboost.runtime.compiled import cache_folders
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.tracking.tracked_frames import warm_up
from structboost.weak.active_feature import active_features
from structboost.weak.registry import FAMILIES

_rng = np.random.default_rng(0)
_X = _rng.normal(size=(60, 3))
_CLASSES = _rng.permutation(np.arange(60) % 3)
_TAGS = [labels.astype(str).tolist() for labels in np.split(_CLASSES, 20)]
# What an estimator learns from, where that is not one class per row.
_DATA: dict[str, tuple[Any, ...]] = {
    "StructBoostTagger": (np.split(_X, 20), _TAGS),
    "StructBoostMultiLabelClassifier": (_X, (_X > 0).astype(int)),
    "PredictThenOptimize": (_X, _X**2),
}
_FIRST_ARGUMENT: dict[str, Any] = {
    "PredictThenOptimize": Knapsack([1.0, 2.0, 3.0], 3.0),
    "CrossFitted": estimators.StructuredSVMClassifier(),
}


def steps() -> dict[str, Callable[[], object]]:
    """What is done, by name: every estimator, weak learner and formulation, and the commands."""
    found: dict[str, Callable[[], object]] = {
        name: partial(_estimator, name) for name in estimators.__all__
    }
    for family in FAMILIES:
        found[f"weak_learner={family!r}"] = partial(_classifier, weak_learner=family)
    found["a union"] = partial(_classifier, weak_learner=["linear", "stump"], spread=0.1)
    found["categories"] = _categories
    found["directions"] = _directions
    found["many values"] = _many_values
    for formulation in FORMULATIONS:
        found[f"formulation={formulation!r}"] = partial(_trainer, formulation)
    found["track"] = lambda: warm_up(tracking.StructBoostTracker())
    found["segment"] = _segmenter
    return found


def add_arguments(subparsers: Any) -> None:
    """Add the command ``warmup`` to a parser's sub-commands."""
    parser = subparsers.add_parser(
        "warmup",
        help="compile what training and prediction need",
        description="Train small made problems, so that numba compiles what training and "
        "prediction need. Its cache is in NUMBA_CACHE_DIR, or beside the package.",
    )
    parser.add_argument(
        "--remove",
        action="store_true",
        help="delete all that was compiled, as before `pip uninstall`, which leaves it",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Take all steps, with a line of progress; or delete what they and others compiled."""
    if options.remove:
        sys.stdout.write(f"removed {_remove_compiled()} files of compiled code\n")
        return True
    todo = steps()
    line = ProgressLine("compiled for", len(todo))
    try:
        for name, step in todo.items():
            raise_if_interrupted()
            _take(step)
            line.step(name)
    except (KeyboardInterrupt, InterruptedFitWarning):
        raise KeyboardInterrupt("interrupted; what is compiled by now is kept.") from None
    finally:
        line.close()
    return True


def _remove_compiled() -> int:
    """Delete the compiled code of all modules from numba's cache; the number of files."""
    n_removed = 0
    for folder in {folder for module in _modules() for folder in cache_folders(module)}:
        # Each folder of the cache is of one folder of this package.
        for path in [*folder.glob("*.nbi"), *folder.glob("*.nbc")]:
            path.unlink(missing_ok=True)
            n_removed += 1
        with contextlib.suppress(OSError):  # it holds Python's own files, or is not there
            folder.rmdir()
    return n_removed


def _modules() -> list[ModuleType]:
    found = []
    for module in pkgutil.walk_packages(structboost.__path__, "structboost."):
        with contextlib.suppress(ImportError):  # of what is not installed nothing is compiled
            found.append(importlib.import_module(module.name))
    return found


def _take(step: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such problems are too small to learn much
        warnings.simplefilter("error", InterruptedFitWarning)  # after it a fit would return
        step()


def _estimator(name: str) -> None:
    """Fit and predict at a given C, and as the defaults do where they have no C."""
    X, Y = _DATA.get(name, (_X, _CLASSES))
    first = [_FIRST_ARGUMENT[name]] if name in _FIRST_ARGUMENT else []
    made = getattr(estimators, name)(*first)
    given = made.get_params()
    if isinstance(made, StructBoostEstimator):
        small: dict[str, Any] = {"max_iter": 5}
        options: list[dict[str, Any]] = [{"objective": "hinge", "C": 10.0}]
        options.insert(0, {"loss": "f1"} if "outputs" in given else {})
    else:
        small = {"max_rounds": 5} if "max_rounds" in given else {}
        options = [{"C": 10.0}] if given.get("C") == "auto" else [{}]
    for own in options:
        made.set_params(**small, **own).fit(X, Y)
        if hasattr(made, "predict"):
            made.predict(X)


def _classifier(**parameters: Any) -> None:
    made = estimators.StructBoostClassifier(objective="hinge", C=10.0, max_iter=5, **parameters)
    is_active = parameters.get("weak_learner") == "active_feature"
    X: Any = active_features(csr_array(_X > 0)) if is_active else _X
    made.fit(X, _CLASSES).predict(X)


def _trainer(formulation: str) -> None:
    trainer = StructBoost(MulticlassTask(3), C=10.0, max_rounds=5, formulation=formulation)
    X: Any = _X
    Y: Any = _CLASSES
    trainer.fit(X, Y).predict(X)


def _categories() -> None:
    X = np.column_stack((_X, _CLASSES))
    estimators.StructBoostClassifier(max_iter=5, categorical_features=[3]).fit(X, _CLASSES)


def _directions() -> None:
    estimators.StructBoostClassifier(max_iter=5, monotonic_cst=[1, 0, -1]).fit(_X, _CLASSES > 0)


def _many_values() -> None:
    """More values than bins, so that a fit ends with a pass over all thresholds."""
    X = _rng.normal(size=(600, 1))
    estimators.StructBoostClassifier(objective="hinge", C=10.0, max_iter=2).fit(X, X[:, 0] > 0)


def _segmenter() -> None:
    made = make_synthetic_images(4)
    Segmenter(n_segments=40, C=1.0).fit(made.images, made.masks).predict(made.images[0])
