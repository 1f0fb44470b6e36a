"""Built-in tasks, a module each."""

from structboost.tasks.binary import BinaryTask
from structboost.tasks.coded import CodedTask
from structboost.tasks.multiclass import MulticlassTask
from structboost.tasks.ranking import RankingTask
from structboost.tasks.taxonomy import TaxonomyTask

__all__ = ["BinaryTask", "CodedTask", "MulticlassTask", "RankingTask", "TaxonomyTask"]
