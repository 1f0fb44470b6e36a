"""Tasks of the library, a module each."""

from structboost.tasks.binary import BinaryTask as BinaryTask
from structboost.tasks.boxes import BoxOverlapTask as BoxOverlapTask
from structboost.tasks.chain import ChainTask as ChainTask
from structboost.tasks.coded import CodedTask as CodedTask
from structboost.tasks.enumerated import EnumeratedTask as EnumeratedTask
from structboost.tasks.graph import GraphTask as GraphTask
from structboost.tasks.hierarchical import HierarchicalMultiLabelTask as HierarchicalMultiLabelTask
from structboost.tasks.matching import MatchingTask as MatchingTask
from structboost.tasks.multi_label import MultiLabelTask as MultiLabelTask
from structboost.tasks.multiclass import MulticlassTask as MulticlassTask
from structboost.tasks.ranking import RankingTask as RankingTask
from structboost.tasks.segments import SegmentTask as SegmentTask
from structboost.tasks.spanning_tree import SpanningTreeTask as SpanningTreeTask
from structboost.tasks.superpixel_crf import SuperpixelCRFTask as SuperpixelCRFTask
from structboost.tasks.taxonomy import TaxonomyTask as TaxonomyTask
