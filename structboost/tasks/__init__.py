"""Tasks of the library, a module each."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "boxes": ["BoxChoice", "BoxOverlapTask", "BoxTable"],
    "chain": ["ChainTask", "Stretch", "labelled_stretches"],
    "classes": ["BinaryTask", "CodedTask", "EnumeratedTask", "MulticlassTask"],
    "graph": ["GraphInput", "GraphTask"],
    "hierarchical": ["HierarchicalMultiLabelTask", "TaxonomyTask"],
    "matching": ["CandidatePairs", "MatchingTask"],
    "multi_label": ["MultiLabelTask"],
    "ranking": ["RankingTask"],
    "segments": ["SegmentTask"],
    "spanning_tree": ["SpanningTreeTask"],
    "superpixel_crf": ["SuperpixelCRFTask"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
