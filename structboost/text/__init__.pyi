"""Public names, and where each is defined, for type checkers."""

from .chunk_scores import ChunkScorer as ChunkScorer
from .chunk_scores import ChunkScores as ChunkScores
from .chunk_scores import KindScores as KindScores
from .chunk_scores import chunk_scores as chunk_scores
from .schemes import Chunk as Chunk
from .schemes import convert_tags as convert_tags
from .schemes import list_chunks as list_chunks
from .tagged_file import read_tagged as read_tagged
from .token_features import TokenFeatures as TokenFeatures
from .two_stage_tagger import TwoStageTagger as TwoStageTagger
