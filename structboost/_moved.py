"""Modules and names that moved: those of version 0.2 still work, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Modules of version 0.2, and the modules that hold the same things now.
MOVED = {
    "boosting": ["training.boosting"],
    "columns": ["training.columns", "weak.terms", "masters.held_out"],
    "ensemble": ["model.ensemble"],
    "loop": ["training.loop", "training.history", "training.settings", "training.state"],
    "task": [
        "contract.task",
        "contract.measures",
        "contract.parts",
        "contract.listed_outputs",
        "contract.separation",
    ],
}
# Names of version 0.2 by the package that had them, and the packages that have them now.
OLD_NAMES = {
    "structboost": {
        "contract": "Marginals Measure OutputCodes Separation StackedParts",
        "decisions": (
            "AcyclicPath Assignment Choose Decision DecisionInput DecisionProblem GridPath "
            "Knapsack LinearProgram MatroidBasis PredictThenOptimizeTask ShortestPath SolvedBy "
            "Tour"
        ),
        "engines": "Engine Processes Serial Threads",
        "exceptions": (
            "BinnedTableError CheckpointError ConstantPredictionWarning EmptyModelWarning "
            "EngineError InterruptedFitWarning ModelFileError SampledOutputsWarning "
            "SolverError TaskError TooManyOutputsError"
        ),
        "masters": (
            "ConditionalLikelihood Cut CutOracle Exponential Formulation Logistic MSlack "
            "NormBounded NormBoundedHinge OneSlack Problem RestrictedMaster SoftmaxLink "
            "StageWise StageWiseLikelihood StageWiseRandomField StageWiseRanking"
        ),
        "selection": "Fold",
        "tasks": (
            "BoxOverlapTask CandidatePairs CodedTask GraphInput Stretch SuperpixelCRFTask "
            "labelled_stretches"
        ),
        "thinning": "ThinnedModel",
        "weak": (
            "ActiveFeatureFamily Best BestCode Candidate CategoryFamily Code Column "
            "Contributions FeatureFamily FreeSign LDAFamily LabelAugmented LearnerTable "
            "LinearFunctionFamily Own PatchFamily PerceptronFamily PiecewiseFamily Pooling "
            "PricingRule SVMFamily StumpFamily Term Tied TreeFamily UnionFamily "
            "WeakLearnerFamily active_features register_weak_learner"
        ),
    },
    "structboost.engines": {"engines": "Answer answer_of"},
    "structboost.estimators": {"": "PredictThenOptimize"},
    "structboost.tasks": {"decisions": "PredictThenOptimizeTask"},
    "structboost.segmentation": {"segmentation": "MadeImages Meaning made_images"},
    "structboost.tracking": {"tracking": "made_clip"},
}
# Names that changed when they moved.
RENAMED = {
    "Answer": "Response",
    "Best": "BestChannel",
    "Code": "CodeWord",
    "MadeImages": "SyntheticImages",
    "Meaning": "LabelMap",
    "Measure": "SparseFeature",
    "Own": "PerChannel",
    "Tied": "SharedOverChannels",
    "answer_of": "response_of",
    "made_clip": "make_synthetic_clip",
    "made_images": "make_synthetic_images",
}


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        homes = MOVED[module.__name__.partition(".")[2]]
        warnings.warn(
            f"{module.__name__} moved to structboost.{homes[0]}, and its old name goes with the "
            "next version; import public names from structboost itself.",
            FutureWarning,
            stacklevel=2,
        )
        for home in reversed(homes):
            names = vars(import_module(f"structboost.{home}"))
            vars(module).update({n: value for n, value in names.items() if n[:2] != "__"})
        old = {old: vars(module)[new] for old, new in RENAMED.items() if new in vars(module)}
        vars(module).update(old)


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package != "structboost" or module not in MOVED:
            return None
        return ModuleSpec(name, _Loader())


def find_moved_modules() -> None:
    """Let imports by the names of version 0.2 find the modules of today."""
    sys.meta_path.append(_Finder())


def with_old_names(
    package: str, getattr_of_today: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` of a package that also returns names of version 0.2, with a warning.

    The package is a key of `OLD_NAMES`.  All other names go to ``getattr_of_today``, without which
    they raise AttributeError.
    """
    homes = {name: home for home, names in OLD_NAMES[package].items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name in homes:
            # No home is the top.
            home = f"structboost.{homes[name]}".rstrip(".")
            new = RENAMED.get(name, name)
            warnings.warn(
                f"{package}.{name} is {home}.{new} now, and its old name goes with the next "
                f"version; write from {home} import {new}.",
                FutureWarning,
                stacklevel=2,
            )
            return getattr(import_module(home), new)
        if getattr_of_today is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr_of_today(name)

    return __getattr__
