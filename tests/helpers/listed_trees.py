"""All trees of two levels on a small table, listed as functions of every input of a grid."""

from itertools import product

import numpy as np


def grid_of(X):
    """Every combination of the values of the features, and the place of each row among them."""
    values = [np.unique(column) for column in X.T]
    grid = np.array(list(product(*values)))
    is_equal = (X[:, None] == grid) | (np.isnan(X[:, None]) & np.isnan(grid))
    return grid, is_equal.all(axis=2).argmax(axis=1)


def splits_of(column, *, is_category, at_root):
    """Inputs that each split of a feature sends left, with missing values on either side."""
    is_missing = np.isnan(column)
    values = np.unique(column[~is_missing])
    if is_category:
        groups = [column == value for value in values] + [is_missing]
        if at_root:
            return groups
        return [np.any(np.compress(inside, groups, axis=0), axis=0) for inside in subsets(groups)]
    below = [column <= value for value in values[:-1]]
    return [*below, *(side | is_missing for side in below), is_missing]


def subsets(groups):
    return [inside for inside in product((False, True), repeat=len(groups)) if any(inside)]


def listed_trees(X, categorical, directions):
    """Whether each tree that keeps the directions is high, shape (n_trees, n_rows), each once.

    A tree keeps them if no response falls where some features move in their directions and all
    others are equal, for all inputs of the grid; missing values are equal to each other only.
    """
    grid, rows = grid_of(X)
    return np.unique(functions_of(grid, categorical, directions)[:, rows], axis=0)


def functions_of(grid, categorical, directions):
    """Trees as functions of the grid, shape (n_trees, n_inputs)."""
    everything = np.ones(len(grid), bool)
    roots, children = [everything], [everything, ~everything]
    for f, column in enumerate(grid.T):
        roots += splits_of(column, is_category=f in categorical, at_root=True)
        of_child = splits_of(column, is_category=f in categorical, at_root=False)
        children += of_child + [~side for side in of_child]
    children = np.unique(children, axis=0)
    pairs = comparable(grid, [0] * grid.shape[1] if directions is None else directions)
    found = []
    for root in np.unique(roots, axis=0):
        left, right = np.unique(children & root, axis=0), np.unique(children & ~root, axis=0)
        trees = (left[:, None] | right).reshape(-1, len(grid))
        for low, high in pairs:
            trees = trees[~trees[:, low] | trees[:, high]]
        found.append(trees)
    return np.unique(np.concatenate(found), axis=0)


def comparable(grid, directions):
    """Pairs of inputs of which the second must not have the lower response."""
    is_equal = (grid[:, None] == grid) | (np.isnan(grid[:, None]) & np.isnan(grid))
    with np.errstate(invalid="ignore"):
        moves = (grid - grid[:, None]) * np.array(directions) > 0
    return np.argwhere((is_equal | moves).all(axis=2) & ~is_equal.all(axis=2))


def drawn_table(rng, *, with_gaps, with_categories, most_inputs=40):
    """Draw a small table, its categorical features, and a direction for each other feature."""
    while True:
        n, p = int(rng.integers(4, 13)), int(rng.integers(1, 4))
        X = np.column_stack([rng.integers(0, rng.integers(2, 6), n) for _ in range(p)]).astype(
            float
        )
        if with_gaps:
            X[rng.random(X.shape) < 0.25] = np.nan
        categorical = tuple(f for f in range(p) if with_categories and rng.random() < 0.4)
        n_values = [len(np.unique(column)) for column in X.T]
        if np.prod(n_values) <= most_inputs and not np.isnan(X).all(axis=0).any():
            break
    directions = [0 if f in categorical else int(rng.choice([1, -1, 1, -1, 0])) for f in range(p)]
    return X, categorical, directions
