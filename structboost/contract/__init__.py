"""Contract of a task, and checks of its results."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "parts": ["Marginals", "OutputCodes", "PartKind", "SparseFeature", "StackedParts"],
    "separation": ["Separation"],
    "task": [
        "Batches",
        "Decomposes",
        "Lists",
        "Predicts",
        "Searches",
        "Separates",
        "SeparatesSlacks",
        "Sums",
        "SumsBatches",
        "Task",
        "Validates",
    ],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
