"""Coding matrices, whose rows are classes as words of -1 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray
from structboost.tasks.checks import check_pairs_fit
from structboost.validation import array_of

CODINGS = ("ecoc", "one_vs_all", "random")
# Classes up to which all 2^(K-1) - 1 distinct columns are used (Dietterich and Bakiri, 1995).
_MAX_EXHAUSTIVE = 7
_MAX_DRAWS = 200


def coding_matrix(
    coding: Any, n_classes: int, random_state: np.random.RandomState
) -> NDArray[np.int8]:
    """Make a coding matrix of ``n_classes`` words.

    Parameters
    ----------
    coding : {"ecoc", "one_vs_all", "random"} or array-like, shape (n_classes, n_bits)
        ``ecoc``: all distinct columns for up to 7 classes; beyond, random columns whose words are
        farthest apart of 200 draws (Dietterich and Bakiri).  ``random``: as many distinct columns,
        one draw.
    n_classes : int
        Number of classes.
    random_state : RandomState
        Source of the random columns.

    Returns
    -------
    code : ndarray of int8, shape (n_classes, n_bits)
        A word of -1 and 1 for each class.

    Raises
    ------
    ValueError
        If a matrix has other entries than -1 and 1, two equal words, or a column that separates no
        classes apart.
    """
    check_pairs_fit(n_classes, "classes")
    if isinstance(coding, str):
        if coding == "one_vs_all":
            return (2 * np.eye(n_classes) - 1).astype(np.int8)
        if coding == "ecoc":
            return (
                exhaustive_code(n_classes)
                if n_classes <= _MAX_EXHAUSTIVE
                else _far_apart(n_classes, random_state)
            )
        if coding == "random":
            return _distinct_columns(n_classes, _n_bits(n_classes), random_state)
        raise ValueError(
            f"coding is {coding!r}; choose one of {', '.join(map(repr, CODINGS))}, or give a "
            "matrix."
        )
    matrix = array_of(coding)
    if matrix.ndim != 2 or len(matrix) != n_classes or not np.isin(matrix, (-1, 1)).all():
        raise ValueError(
            f"coding has shape {matrix.shape}; give a row of -1 and 1 for each of the {n_classes} "
            "classes."
        )
    words = matrix.astype(np.int8)
    _, first, word = np.unique(words, axis=0, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[word.ravel()] != np.arange(n_classes))
    if len(repeated):
        raise ValueError(
            f"coding has the same word for the classes {first[word.ravel()][repeated[0]]} and "
            f"{repeated[0]}."
        )
    constant = np.flatnonzero((words == words[0]).all(axis=0))
    if len(constant):
        raise ValueError(
            f"coding has one sign only in column {constant[0]}; it tells no classes apart."
        )
    return words


def exhaustive_code(n_classes: int) -> NDArray[np.int8]:
    """List all 2^(n_classes - 1) - 1 columns that differ in more than sign."""
    splits = np.arange(1, 2 ** (n_classes - 1))
    bits = (splits[None, :] >> np.arange(n_classes - 1)[:, None]) & 1
    return np.vstack((np.full(len(splits), -1), 2 * bits - 1)).astype(np.int8)


def random_column(n_classes: int, random_state: np.random.RandomState) -> FloatArray:
    """Split the classes at random in two parts that are not empty, as AdaBoost.ECC does."""
    while True:
        column = random_state.choice((-1.0, 1.0), n_classes)
        if abs(column.sum()) < n_classes:
            return column


def _n_bits(n_classes: int) -> int:
    """Return the number of columns, which is about 15 log2 of the classes if they are many."""
    return (
        2 ** (n_classes - 1) - 1
        if n_classes <= _MAX_EXHAUSTIVE
        else int(np.ceil(15 * np.log2(n_classes)))
    )


def _distinct_columns(
    n_classes: int, n_bits: int, random_state: np.random.RandomState
) -> NDArray[np.int8]:
    """Draw columns, no two equal or opposite."""
    seen: dict[tuple[float, ...], None] = {}
    while len(seen) < n_bits:
        column = random_column(n_classes, random_state)
        seen.setdefault(tuple(column * column[0]))
    matrix = np.array(list(seen)).T.astype(np.int8)
    return (
        matrix
        if len(np.unique(matrix, axis=0)) == n_classes
        else _distinct_columns(n_classes, n_bits, random_state)
    )


def _far_apart(n_classes: int, random_state: np.random.RandomState) -> NDArray[np.int8]:
    """Choose the draw whose two nearest words are farthest apart."""
    draws = [
        _distinct_columns(n_classes, _n_bits(n_classes), random_state) for _ in range(_MAX_DRAWS)
    ]
    products = [
        matrix.astype(int) @ matrix.astype(int).T - 2 * matrix.shape[1] * np.eye(n_classes)
        for matrix in draws
    ]
    return draws[int(np.argmin([product.max() for product in products]))]
