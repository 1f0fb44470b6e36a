"""Routes through a grid, with costs that are far from linear in the features."""

import numpy as np
from numpy.random import default_rng

from structboost.decisions import GridPath

ROUTES = GridPath(3, 3)


def travel(n=120, seed=0):
    """PyEPO's costs, far from linear in the features."""
    rng = default_rng(seed)
    B = default_rng(99).integers(0, 2, size=(ROUTES.n_items, 3))
    x = rng.normal(size=(n, 3))
    costs = ((x @ B.T / np.sqrt(3) + 3) ** 6 + 1) / 3.5**6
    return x, costs * rng.uniform(0.8, 1.2, costs.shape)
