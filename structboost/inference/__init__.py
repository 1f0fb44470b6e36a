"""Searches for the best output of a structure, and sums over all outputs."""

import lazy_loader

# Names are imported when they are first used.  ``__init__.pyi`` has the same for type checkers.
_NAMES = {
    "acyclic_paths": ["dag_shortest_path"],
    "alpha_expansion": ["alpha_expansion_labels"],
    "arborescence_sums": ["arborescence_marginals"],
    "arborescences": ["maximum_spanning_arborescence"],
    "assignment": ["linear_assignment", "sparse_assignment"],
    "box_search": ["candidate_boxes", "intersection_over_union", "most_violated_box"],
    "chains": ["forward_backward", "viterbi"],
    "closures": ["closure_marginals", "maximum_closure"],
    "graph_cut": ["min_cut_labels"],
    "graph_sums": ["graph_marginals"],
    "knapsack": ["solve_knapsack"],
    "label_sets": ["max_expected_f1", "most_violated_label_set"],
    "pair_sorting": ["violated_pairs"],
    "pairwise_graphs": ["map_labels"],
    "rankings": ["most_violated_ranking", "ranking_value"],
    "segments": ["semi_markov_viterbi"],
    "tours": ["traveling_salesman"],
}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
