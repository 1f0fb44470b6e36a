"""Searches for the best output of a structure, and sums over all outputs."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "chain": ["forward_backward", "viterbi"],
    "graph": ["graph_marginals", "map_labels"],
    "knapsack": ["solve_knapsack"],
    "matching": ["linear_assignment", "sparse_assignment"],
    "segments": ["semi_markov_viterbi"],
    "spanning_tree": ["arborescence_marginals", "maximum_spanning_arborescence"],
    "superpixel_crf": ["alpha_expansion_labels", "min_cut_labels"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
