"""Public searches, and where each is defined: read by type checkers and by ``__init__.py``."""

from .acyclic_paths import dag_shortest_path as dag_shortest_path
from .alpha_expansion import alpha_expansion_labels as alpha_expansion_labels
from .arborescence_sums import arborescence_marginals as arborescence_marginals
from .arborescences import maximum_spanning_arborescence as maximum_spanning_arborescence
from .assignment import linear_assignment as linear_assignment
from .assignment import sparse_assignment as sparse_assignment
from .box_search import candidate_boxes as candidate_boxes
from .box_search import intersection_over_union as intersection_over_union
from .box_search import most_violated_box as most_violated_box
from .chains import forward_backward as forward_backward
from .chains import viterbi as viterbi
from .closures import closure_marginals as closure_marginals
from .closures import maximum_closure as maximum_closure
from .graph_cut import min_cut_labels as min_cut_labels
from .graph_sums import graph_marginals as graph_marginals
from .knapsack import solve_knapsack as solve_knapsack
from .label_sets import max_expected_f1 as max_expected_f1
from .label_sets import most_violated_label_set as most_violated_label_set
from .pair_sorting import violated_pairs as violated_pairs
from .pairwise_graphs import map_labels as map_labels
from .rankings import most_violated_ranking as most_violated_ranking
from .rankings import ranking_value as ranking_value
from .segments import semi_markov_viterbi as semi_markov_viterbi
from .tours import traveling_salesman as traveling_salesman
