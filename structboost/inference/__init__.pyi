"""Public searches, and where each is defined: read by type checkers and by ``__init__.py``."""

from .boxes import candidate_boxes as candidate_boxes
from .boxes import intersection_over_union as intersection_over_union
from .boxes import most_violated_box as most_violated_box
from .chain import forward_backward as forward_backward
from .chain import viterbi as viterbi
from .graph import graph_marginals as graph_marginals
from .graph import map_labels as map_labels
from .hierarchical import closure_marginals as closure_marginals
from .hierarchical import maximum_closure as maximum_closure
from .knapsack import solve_knapsack as solve_knapsack
from .matching import linear_assignment as linear_assignment
from .matching import sparse_assignment as sparse_assignment
from .multi_label import max_expected_f1 as max_expected_f1
from .multi_label import most_violated_label_set as most_violated_label_set
from .paths import dag_shortest_path as dag_shortest_path
from .ranking import most_violated_ranking as most_violated_ranking
from .ranking import ranking_value as ranking_value
from .ranking import violated_pairs as violated_pairs
from .segments import semi_markov_viterbi as semi_markov_viterbi
from .spanning_tree import arborescence_marginals as arborescence_marginals
from .spanning_tree import maximum_spanning_arborescence as maximum_spanning_arborescence
from .superpixel_crf import alpha_expansion_labels as alpha_expansion_labels
from .superpixel_crf import min_cut_labels as min_cut_labels
from .tours import traveling_salesman as traveling_salesman
