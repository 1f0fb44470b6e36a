"""structboost: non-linear structured predictors by boosting, with a certificate of optimality."""

import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import lazy_loader

_PACKAGES = {
    "contract", "decisions", "errors", "files", "inference", "objectives",
    "segmentation", "selection", "text", "tasks", "thinning", "tracking",
    "learners", "training",
}  # fmt: skip

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "contract.check_task": ["check_task"],
    "contract.parts": ["PartKind"],
    "contract.task": ["Task"],
    "decisions.predict_then_optimize": ["PredictThenOptimize"],
    "faces": [
        "AdaBoostECCClassifier",
        "AdaBoostMHClassifier",
        "AdaBoostMOClassifier",
        "CrossFitted",
        "MultiBoostClassifier",
        "MultiBoostCWClassifier",
        "MultiBoostECCClassifier",
        "MultiBoostMOClassifier",
        "ShareBoostClassifier",
        "StructBoostClassifier",
        "StructBoostMultiLabelClassifier",
        "StructBoostRanker",
        "StructBoostTagger",
        "StructuredSVMClassifier",
    ],
    "faces.recipe": ["EarlyStopping"],
    "export.onnx_model": ["to_onnx"],
    "linear.structured_svm": ["StructuredSVM"],
    "model.ensemble": ["Ensemble", "load_model"],
    "plotting.contributions": ["ContributionsDisplay"],
    "plotting.curves": ["ConvergenceDisplay", "CPathDisplay", "SparsityPathDisplay"],
    "plotting.shapes": ["ShapeDisplay"],
    "tasks": [
        "BinaryTask",
        "ChainTask",
        "EnumeratedTask",
        "GraphTask",
        "HierarchicalMultiLabelTask",
        "MatchingTask",
        "MulticlassTask",
        "MultiLabelTask",
        "RankingTask",
        "SegmentTask",
        "SpanningTreeTask",
        "TaxonomyTask",
    ],
    "thinning.thin": ["thin"],
    "training.boosting": ["StructBoost"],
    "training.examples": ["BinnedTable"],
}
_at_first_use, __dir__, _names = lazy_loader.attach(__name__, _PACKAGES, _NAMES)


def __getattr__(name: str) -> Any:
    from structboost.runtime.memory import collector_pause

    with collector_pause:  # an import makes objects that stay
        try:
            return _at_first_use(name)
        except AttributeError:
            of = [package for package in sorted(_PACKAGES) if name in _names_of(package, name)]
            if not of:
                raise
            # Import asks from a function of this name, and shows the text of an ImportError only.
            imported = sys._getframe(1).f_code.co_name == "_handle_fromlist"
            raise (ImportError if imported else AttributeError)(
                f"{name} is in structboost.{of[0]}; write from structboost.{of[0]} import {name}."
            ) from None


def _names_of(package: str, name: str) -> Any:
    """Return the names in a package, or none where the name sought is not that of a class."""
    if name[0].isupper():
        with suppress(ImportError):
            return getattr(_at_first_use(package), "__all__", ())
    return ()


__all__ = [name for name in _names if name not in _PACKAGES]

try:
    __version__ = version("structboost-learn")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
