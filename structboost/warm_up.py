"""Command ``structboost warmup``, which compiles the code of training and prediction.

The command trains on small synthetic problems through the public classes, so it compiles the code
that they use.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, get_args

import joblib
import numpy as np
from scipy.sparse import csr_array

from structboost import (
    GraphTask,
    HierarchicalMultiLabelTask,
    MulticlassTask,
    RankingTask,
    SegmentTask,
    SpanningTreeTask,
    StructBoost,
    faces,
)
from structboost.decisions import Knapsack
from structboost.errors import InterruptedFitWarning
from structboost.learners.feature import active_features
from structboost.learners.registry import FAMILIES
from structboost.objectives.base import FormulationName
from structboost.progress import ProgressLine
from structboost.runtime.interrupts import raise_if_interrupted
from structboost.runtime.registry import EXTRAS, is_installed
from structboost.tasks import GraphInput

_rng = np.random.default_rng(0)
_X = _rng.normal(size=(60, 3))
_CLASSES = _rng.permutation(np.arange(60) % 3)
_LABELS = np.split(_CLASSES, 20)
_TAGS = [labels.astype(str).tolist() for labels in _LABELS]
_DICTS = [[{"word": word, "length": 1.0} for word in words] for words in _TAGS]
# Training data of an estimator, where it is not one class per row.
_DATA = {
    "StructBoostTagger": (np.split(_X, 20), _TAGS),
    "StructBoostMultiLabelClassifier": (_X, (_X > 0).astype(int)),
    "PredictThenOptimize": (_X, _X**2),
}
_FIRST_ARGUMENT = {
    "PredictThenOptimize": (Knapsack([1.0, 2.0, 3.0], 3.0),),
    "CrossFitted": (faces.StructuredSVMClassifier(),),
}
_ROWS = np.split(_X, 20)
# Tasks that no estimator has, with a formulation and examples.
_TASKS: dict[str, tuple[Any, ...]] = {
    "graphs": (
        GraphTask(3), "log", [GraphInput(x, np.array([[0, 1], [1, 2]])) for x in _ROWS], _LABELS
    ),
    "hierarchies": (
        HierarchicalMultiLabelTask(3, [(0, 1), (1, 2)]), "log", _X, np.tri(3)[_CLASSES]
    ),
    "orders": (RankingTask("ndcg"), "one_slack", _ROWS, _LABELS),
    "segments": (
        SegmentTask(3, 3), "one_slack", _ROWS, [[(0, 3, labels[0])] for labels in _LABELS]
    ),
    "trees": (
        SpanningTreeTask(), "log", [x[:, None] - x for x in _ROWS], [[-1, 0, 1]] * len(_ROWS)
    ),
}  # fmt: skip


def steps() -> dict[str, Callable[[], object]]:
    """Return the steps by name, for faces, weak learners, formulations and commands."""
    classifier: Any = faces.StructBoostClassifier
    hinge = {"objective": "hinge", "C": 10.0}
    many = _rng.normal(size=(600, 1))  # more values than bins: a pass over all thresholds follows
    active = active_features(csr_array(_X > 0))
    models: dict[str, tuple[Any, Any, Any]] = {
        # Other processes do not know what was registered beside the families of the package.
        f"weak_learner={family!r}": (
            classifier(weak_learner=family, max_iter=5, **hinge),
            active if family == "active_feature" else _X,
            _CLASSES,
        )
        for family in FAMILIES
        if FAMILIES[family].__module__.startswith("structboost.")
    }
    union = classifier(weak_learner=["linear", "stump"], spread=0.1, max_iter=5, **hinge)
    categories = classifier(max_iter=5, categorical_features=[3])
    models |= {
        "a union": (union, _X, _CLASSES),
        "categories": (categories, np.column_stack((_X, _CLASSES)), _CLASSES),
        "directions": (classifier(max_iter=5, monotonic_cst=[1, 0, -1]), _X, _CLASSES > 0),
        "many values": (classifier(max_iter=2, **hinge), many, many[:, 0] > 0),
    }
    for formulation in get_args(FormulationName):
        trainer = StructBoost(MulticlassTask(3), C=10.0, max_rounds=5, formulation=formulation)
        models[f"formulation={formulation!r}"] = trainer, _X, _CLASSES
    for name, (task, formulation, X, Y) in _TASKS.items():
        trainer = StructBoost(task, C=10.0, max_rounds=5, formulation=formulation)
        models[name] = trainer, X, Y
    for objective in ("log_loss", "l1_log_loss"):
        tagger: Any = faces.StructBoostTagger(objective, C=10.0, max_iter=5)
        models[f"dicts, {objective!r}"] = tagger, _DICTS, _TAGS
    actions: dict[str, Callable[[], object]] = {
        **{name: partial(_face, name) for name in dir(faces)},
        **{name: partial(_fit, *model) for name, model in models.items()},
    }
    if all(map(is_installed, EXTRAS["vision"])):
        actions |= {"track": _tracker, "segment": _segmenter}
    return actions


def add_arguments(subparsers: Any) -> None:
    """Add the command ``warmup`` to a parser's sub-commands."""
    parser = subparsers.add_parser(
        "warmup",
        help="compile what training and prediction need",
        description="Train on small synthetic problems, so that numba compiles what training and "
        "prediction need. Its cache is in NUMBA_CACHE_DIR, or beside the package.",
    )
    parser.add_argument(
        "--jobs", type=int, default=-1, help="processes; by default one for each processor"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> bool:
    """Take all steps, with a line of progress."""
    todo = steps()
    parallel = joblib.Parallel(options.jobs, return_as="generator_unordered")
    try:
        with ProgressLine("compiled for", len(todo)) as line:
            for name in parallel(joblib.delayed(_take)(name) for name in todo):
                raise_if_interrupted()
                line.step(name)
    except (KeyboardInterrupt, InterruptedFitWarning):
        raise KeyboardInterrupt("interrupted; code compiled by now stays in the cache.") from None
    return True


def _take(name: str) -> str:
    """Take a step, perhaps in a process of its own, and return its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such problems are too small to learn much
        warnings.simplefilter("error", InterruptedFitWarning)  # after Ctrl-C a fit would return
        steps()[name]()
    return name


def _face(name: str) -> None:
    """Fit and predict at a fixed C, and with the defaults where these have no C."""
    estimator = getattr(faces, name)(*_FIRST_ARGUMENT.get(name, ()))
    data, parameters = _DATA.get(name, (_X, _CLASSES)), estimator.get_params()
    limits = {"max_iter", "max_rounds"} & parameters.keys()
    estimator.set_params(**dict.fromkeys(limits, 5))
    if "objective" in parameters:
        estimator.set_params(**{"loss": "f1"} if "outputs" in parameters else {})
        _fit(estimator, *data)
        estimator.set_params(objective="hinge", C=10.0)
    _fit(estimator, *data)


def _fit(estimator: Any, X: Any, Y: Any) -> None:
    estimator.fit(X, Y)
    if not hasattr(estimator, "predict"):
        return
    # Few rows and single precision have code of their own.
    for rows in (X, X[:1]):
        estimator.predict(rows)
        if isinstance(rows, np.ndarray):
            estimator.predict(rows.astype(np.float32))
    if hasattr(estimator, "contributions"):
        with suppress(TypeError):  # some weak learners have none
            estimator.contributions(X, X)


def _tracker() -> None:
    from structboost.tracking import StructBoostTracker
    from structboost.tracking.tracks import warm_up

    warm_up(StructBoostTracker())


def _segmenter() -> None:
    from structboost.segmentation.segmenter import Segmenter

    noise = np.random.default_rng(0).integers(0, 255, (4, 48, 64)).astype(np.uint8)
    halves = np.tile(np.arange(64) // 32, (48, 1)).astype(np.uint8)
    Segmenter(n_segments=40, C=1.0).fit(list(noise), [halves] * 4).predict(noise[0])
