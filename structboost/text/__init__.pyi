"""Public names, and where each is defined, for type checkers."""

from .chunks import Chunk as Chunk
from .chunks import ChunkScorer as ChunkScorer
from .chunks import ChunkScores as ChunkScores
from .chunks import KindScores as KindScores
from .chunks import chunk_scores as chunk_scores
from .chunks import convert_tags as convert_tags
from .chunks import list_chunks as list_chunks
from .tagged_file import read_tagged as read_tagged
from .token_features import TokenFeatures as TokenFeatures
from .two_stage_tagger import TwoStageTagger as TwoStageTagger
