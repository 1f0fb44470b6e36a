"""Public names, and where each is defined, for type checkers."""

from .boxes import BoxChoice as BoxChoice
from .boxes import BoxOverlapTask as BoxOverlapTask
from .boxes import BoxTable as BoxTable
from .chain import ChainTask as ChainTask
from .chain import Stretch as Stretch
from .chain import labelled_stretches as labelled_stretches
from .classes import BinaryTask as BinaryTask
from .classes import CodedTask as CodedTask
from .classes import EnumeratedTask as EnumeratedTask
from .classes import MulticlassTask as MulticlassTask
from .graph import GraphInput as GraphInput
from .graph import GraphTask as GraphTask
from .hierarchical import HierarchicalMultiLabelTask as HierarchicalMultiLabelTask
from .hierarchical import TaxonomyTask as TaxonomyTask
from .matching import CandidatePairs as CandidatePairs
from .matching import MatchingTask as MatchingTask
from .multi_label import MultiLabelTask as MultiLabelTask
from .ranking import RankingTask as RankingTask
from .segments import SegmentTask as SegmentTask
from .spanning_tree import SpanningTreeTask as SpanningTreeTask
from .superpixel_crf import SuperpixelCRFTask as SuperpixelCRFTask
