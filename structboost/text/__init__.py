"""Tagged files, features of tokens, and scores of chunks, around :class:`StructBoostTagger`."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "chunks": [
        "Chunk",
        "ChunkScorer",
        "ChunkScores",
        "KindScores",
        "chunk_scores",
        "convert_tags",
        "list_chunks",
    ],
    "tagged_file": ["read_tagged"],
    "token_features": ["TokenFeatures"],
    "two_stage_tagger": ["TwoStageTagger"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
