"""Best tags of a sequence (Viterbi), and the probabilities of its tags (forward-backward).

All sequences of a batch are searched in one compiled call, which releases the interpreter's lock.
A sequence is a run of rows of ``emissions``.  Its steps read one and the same row of
``transitions``, or, if ``row_step`` is 1 and not None, consecutive rows.  Arrays to work in come
from Python: numba compiles ``np.empty`` for each function that allocates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import check_sum, n_dimensions, real_array
from structboost.inference.best_sequences import Sequences, best_sequences, space_of_search
from structboost.inference.sum_product import space_of_sums, tag_probabilities


def viterbi(emissions: ArrayLike, transitions: ArrayLike) -> IntArray:
    """Find the best tags of a sequence by the Viterbi algorithm.

    Tags ``y`` score ``sum_t emissions[t, y_t] + sum_t transitions[y_t, y_{t+1}]``.

    Parameters
    ----------
    emissions : array-like, shape (n_tokens, n_tags)
        Score of each tag of each token; minus infinity forbids a tag.
    transitions : array-like, shape (n_tags, n_tags) or (n_tokens - 1, n_tags, n_tags)
        Score of each tag (row) followed by each tag (column), for all steps or for each step; minus
        infinity forbids a pair.

    Returns
    -------
    tags : ndarray of int64, shape (n_tokens,)
        Best tags.  Of equally good ones those that come first, compared from the last token on.

    Raises
    ------
    ValueError
        If every sequence of tags is forbidden.

    Notes
    -----
    Exact, in ``O(n_tokens * n_tags^2)``.  Rabiner, A tutorial on hidden Markov models, Proceedings
    of the IEEE 1989, section III.B.

    Examples
    --------
    >>> from structboost.inference import viterbi
    >>> emissions = [[2.0, 0.0], [0.0, 0.5], [0.0, 2.0]]
    >>> viterbi(emissions, [[1.0, 0.0], [0.0, 1.0]]).tolist()
    [0, 1, 1]
    >>> viterbi(emissions, [[0.0, float("-inf")], [0.0, 0.0]]).tolist()
    [1, 1, 1]
    """
    sequence = _one_sequence(emissions, transitions)
    tags = np.zeros(len(sequence[0]), np.int64)
    if best_sequences(*sequence, tags, *space_of_search(*sequence)) >= 0:
        raise _all_forbidden()
    return tags


def forward_backward(
    emissions: ArrayLike, transitions: ArrayLike
) -> tuple[FloatArray, FloatArray, float]:
    """Compute the probabilities of the tags of a sequence by the forward-backward algorithm.

    Tags ``y`` have probability ``exp(score(y)) / Z``, with the score and the arguments of
    :func:`viterbi`, and ``Z`` the sum of ``exp(score(y))`` over all tags.

    Parameters
    ----------
    emissions : array-like, shape (n_tokens, n_tags)
        Score of each tag of each token.
    transitions : array-like, shape (n_tags, n_tags) or (n_tokens - 1, n_tags, n_tags)
        Score of each tag followed by each tag.

    Returns
    -------
    of_tags : ndarray, shape (n_tokens, n_tags)
        Probability of each tag of each token.
    of_pairs : ndarray, of the shape of ``transitions``
        Probability of each pair of tags at each step.  With one matrix for all steps, the sum over
        the steps: the expected number of each pair.
    log_sum : float
        Logarithm of ``Z``.

    Raises
    ------
    ValueError
        If every sequence of tags is forbidden.

    Notes
    -----
    Exact for scores of any size, in ``O(n_tokens * n_tags^2)``.  Rabiner 1989, sections III.A and
    V.A.

    Examples
    --------
    >>> from structboost.inference import forward_backward
    >>> of_tags, of_pairs, log_sum = forward_backward([[0.0, 0.0], [0.0, 0.0]], [[9, 0], [0, 9]])
    >>> of_pairs.round(3).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    sequence = _one_sequence(emissions, transitions)
    of_tags, of_pairs = np.zeros(sequence[0].shape), np.zeros(sequence[1].shape)
    log_sums = np.zeros(1)
    space = space_of_sums(sequence[3], sequence[0].shape[1])
    tag_probabilities(*sequence, of_tags, of_pairs, log_sums, space)
    if log_sums[0] == -np.inf:
        raise _all_forbidden()
    return of_tags, of_pairs.reshape(np.shape(transitions)), float(log_sums[0])


def _one_sequence(emissions: ArrayLike, transitions: ArrayLike) -> Sequences:
    """Check a sequence, and return it as a batch of one."""
    of_tokens = real_array(emissions, "emissions", ("n_tokens", "n_tags"), forbids=True)
    n, n_tags = of_tokens.shape
    has_steps = n_dimensions(transitions, "transitions") == 3
    shape = (max(0, n - 1), n_tags, n_tags) if has_steps else (n_tags, n_tags)
    of_steps = real_array(transitions, "transitions", shape, forbids=True)
    check_sum(of_tokens, "emissions")
    check_sum(of_steps, "transitions")
    rows = of_steps.reshape(shape[0] if has_steps else 1, n_tags**2)
    starts = np.array([0, n], np.int64)
    row_step = 1 if has_steps else None
    return of_tokens, rows, np.zeros(n_tags**2), starts, np.zeros(1, np.int64), row_step


def _all_forbidden() -> ValueError:
    return ValueError(
        "emissions and transitions forbid every sequence of tags by minus infinity; forbid less."
    )
