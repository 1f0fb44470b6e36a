"""Built-in tasks, a module each."""

from structboost.tasks.binary import BinaryTask
from structboost.tasks.boxes import BoxOverlapTask
from structboost.tasks.chain import ChainTask
from structboost.tasks.coded import CodedTask
from structboost.tasks.enumerated import EnumeratedTask
from structboost.tasks.graph import GraphTask
from structboost.tasks.hierarchical import HierarchicalMultiLabelTask
from structboost.tasks.matching import MatchingTask
from structboost.tasks.multi_label import MultiLabelTask
from structboost.tasks.multiclass import MulticlassTask
from structboost.tasks.ranking import RankingTask
from structboost.tasks.segments import SegmentTask
from structboost.tasks.spanning_tree import SpanningTreeTask
from structboost.tasks.superpixel_crf import SuperpixelCRFTask
from structboost.tasks.taxonomy import TaxonomyTask

__all__ = [
    "BinaryTask",
    "BoxOverlapTask",
    "ChainTask",
    "CodedTask",
    "EnumeratedTask",
    "GraphTask",
    "HierarchicalMultiLabelTask",
    "MatchingTask",
    "MultiLabelTask",
    "MulticlassTask",
    "RankingTask",
    "SegmentTask",
    "SpanningTreeTask",
    "SuperpixelCRFTask",
    "TaxonomyTask",
]
