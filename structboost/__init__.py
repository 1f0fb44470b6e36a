"""structboost: non-linear structured predictors by boosting, with a certificate of optimality."""

from importlib.metadata import PackageNotFoundError, version

from structboost.binned_table import BinnedTable
from structboost.boosting import StructBoost
from structboost.checkpoint import Checkpoint
from structboost.conformance import check_task
from structboost.convergence_display import ConvergenceDisplay
from structboost.early_stopping import EarlyStopping
from structboost.ensemble import Ensemble
from structboost.estimators import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    MultiBoostClassifier,
    MultiBoostCWClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
    ShareBoostClassifier,
    StructBoostClassifier,
    StructBoostRanker,
    StructuredSVMClassifier,
)
from structboost.exceptions import (
    BinnedTableError,
    CheckpointError,
    EngineError,
    InterruptedFitWarning,
    ModelFileError,
    SolverError,
    TaskError,
)
from structboost.masters.exponential import Exponential
from structboost.masters.logistic import Logistic
from structboost.model_file import load_model
from structboost.shape_display import ShapeDisplay
from structboost.sparsity_path_display import SparsityPathDisplay
from structboost.structured_svm import StructuredSVM
from structboost.task import Measure, OutputCodes, PartKind, Separation, StackedParts, Task
from structboost.tasks import (
    BinaryTask,
    BoxOverlapTask,
    CodedTask,
    MulticlassTask,
    RankingTask,
    SuperpixelCRFTask,
    TaxonomyTask,
)

try:
    __version__ = version("structboost-learn")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"

__all__ = [
    "AdaBoostECCClassifier",
    "AdaBoostMHClassifier",
    "AdaBoostMOClassifier",
    "BinaryTask",
    "BinnedTable",
    "BinnedTableError",
    "BoxOverlapTask",
    "Checkpoint",
    "CheckpointError",
    "CodedTask",
    "ConvergenceDisplay",
    "EarlyStopping",
    "EngineError",
    "Ensemble",
    "Exponential",
    "InterruptedFitWarning",
    "Logistic",
    "Measure",
    "ModelFileError",
    "MultiBoostCWClassifier",
    "MultiBoostClassifier",
    "MultiBoostECCClassifier",
    "MultiBoostMOClassifier",
    "MulticlassTask",
    "OutputCodes",
    "PartKind",
    "RankingTask",
    "Separation",
    "ShapeDisplay",
    "ShareBoostClassifier",
    "SolverError",
    "SparsityPathDisplay",
    "StackedParts",
    "StructBoost",
    "StructBoostClassifier",
    "StructBoostRanker",
    "StructuredSVM",
    "StructuredSVMClassifier",
    "SuperpixelCRFTask",
    "Task",
    "TaskError",
    "TaxonomyTask",
    "check_task",
    "load_model",
]
