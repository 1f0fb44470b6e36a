"""Public searches, and where each is defined: read by type checkers and by ``__init__.py``."""

from .chain import forward_backward as forward_backward
from .chain import viterbi as viterbi
from .graph import graph_marginals as graph_marginals
from .graph import map_labels as map_labels
from .knapsack import solve_knapsack as solve_knapsack
from .matching import linear_assignment as linear_assignment
from .matching import sparse_assignment as sparse_assignment
from .segments import semi_markov_viterbi as semi_markov_viterbi
from .spanning_tree import arborescence_marginals as arborescence_marginals
from .spanning_tree import maximum_spanning_arborescence as maximum_spanning_arborescence
from .superpixel_crf import alpha_expansion_labels as alpha_expansion_labels
from .superpixel_crf import min_cut_labels as min_cut_labels
