"""Decision problems whose costs are predicted, a module each."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "choices": ["Assignment", "Choose", "Knapsack", "Tour"],
    "inputs": ["Decision", "DecisionInput"],
    "paths": ["AcyclicPath", "GridPath", "ShortestPath"],
    "problem": ["DecisionProblem", "LinearProgram", "SolvedBy"],
    "task": ["PredictThenOptimizeTask"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
