"""Searches for the best output of a structure, and sums over all outputs."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "boxes": ["candidate_boxes", "intersection_over_union", "most_violated_box"],
    "chain": ["forward_backward", "viterbi"],
    "graph": ["graph_marginals", "map_labels"],
    "hierarchical": ["closure_marginals", "maximum_closure"],
    "knapsack": ["solve_knapsack"],
    "matching": ["linear_assignment", "sparse_assignment"],
    "multi_label": ["max_expected_f1", "most_violated_label_set"],
    "paths": ["dag_shortest_path"],
    "ranking": ["most_violated_ranking", "ranking_value", "violated_pairs"],
    "segments": ["semi_markov_viterbi"],
    "spanning_tree": ["arborescence_marginals", "maximum_spanning_arborescence"],
    "superpixel_crf": ["alpha_expansion_labels", "min_cut_labels"],
    "tours": ["traveling_salesman"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
