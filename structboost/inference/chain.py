"""Best tags of a sequence (Viterbi), and the probabilities of its tags (forward-backward).

All sequences of a batch are searched in one compiled call, which releases the interpreter's lock.
A sequence is a run of rows of ``emissions``.  All its steps read one row of ``transitions``.
Arrays to work in come from Python: numba compiles ``np.empty`` for each function that allocates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structboost._typing import FloatArray, IntArray
from structboost.inference.arguments import check_sum, real_array
from structboost.runtime.compiled import compiled


def viterbi(emissions: ArrayLike, transitions: ArrayLike) -> IntArray:
    """Find the best tags of a sequence by the Viterbi algorithm.

    Tags ``y`` score ``sum_t emissions[t, y_t] + sum_t transitions[y_t, y_{t+1}]``.

    Parameters
    ----------
    emissions : array-like, shape (n_tokens, n_tags)
        Score of each tag of each token; minus infinity forbids a tag.
    transitions : array-like, shape (n_tags, n_tags)
        Score of each tag (row) followed by each tag (column); minus infinity forbids a pair.

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
    tags, impossible = best_tags(_one_sequence(emissions, transitions))
    if impossible >= 0:
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
    transitions : array-like, shape (n_tags, n_tags)
        Score of each tag followed by each tag.

    Returns
    -------
    of_tags : ndarray, shape (n_tokens, n_tags)
        Probability of each tag of each token.
    of_pairs : ndarray, shape (n_tags, n_tags)
        Expected number of each pair of tags, the sum of its probabilities over the steps.
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
    of_tags, of_pairs, log_sums = sums_of_tags(_one_sequence(emissions, transitions))
    if log_sums[0] == -np.inf:
        raise _all_forbidden()
    return of_tags, of_pairs.reshape(np.shape(transitions)), float(log_sums[0])


def _one_sequence(emissions: ArrayLike, transitions: ArrayLike) -> Sequences:
    """Check a sequence, and return it as a batch of one."""
    of_tokens = real_array(emissions, "emissions", ("n_tokens", "n_tags"), forbids=True)
    n, n_tags = of_tokens.shape
    of_steps = real_array(transitions, "transitions", (n_tags, n_tags), forbids=True)
    check_sum(of_tokens, "emissions")
    check_sum(of_steps, "transitions")
    starts, row = np.array([0, n]), np.zeros(1, np.int64)
    return of_tokens, of_steps.reshape(1, -1), np.zeros(n_tags**2), starts, row


def _all_forbidden() -> ValueError:
    return ValueError(
        "emissions and transitions forbid every sequence of tags by minus infinity; forbid less."
    )


# First row of one that all sequences share.  numba compiles once more for a literal 0.
ONE_ROW: Any = np.int64(0)
# Scores of tags and of pairs, allowed pairs, and first token and row of each sequence.
Sequences = tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]


def best_tags(sequences: Sequences) -> tuple[IntArray, int]:
    """Return the best tags of all sequences, and the first without allowed tags, or -1."""
    n_tokens, n_tags = sequences[0].shape
    tags, best = np.empty(n_tokens, np.int64), np.empty((longest(sequences[3]), n_tags))
    ends = np.empty((2, n_tags)) if n_tags >= MANY_TAGS else None
    return tags, best_sequences(*sequences, tags, best, np.empty((n_tags, n_tags)), ends)


def sums_of_tags(sequences: Sequences) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the arrays that :func:`tag_probabilities` fills."""
    of_tags, of_pairs = np.zeros(sequences[0].shape), np.zeros(sequences[1].shape)
    log_sums = np.zeros(len(sequences[4]))
    space = space_of_sums(sequences[3], sequences[0].shape[1])
    tag_probabilities(*sequences, of_tags, of_pairs, log_sums, space)
    return of_tags, of_pairs, log_sums


@compiled
def best_sequences(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    starts: IntArray,
    rows: IntArray,
    tags: IntArray,
    best: FloatArray,
    pairs: FloatArray,
    ends: FloatArray | None,
) -> int:
    """Find the tags of the highest score of every sequence, as :func:`viterbi` does of one.

    Parameters
    ----------
    emissions : ndarray, shape (n_tokens, n_tags)
        Scores of the tags of each token.
    transitions : ndarray, shape (n_rows, n_tags * n_tags)
        Scores of the pairs of tags of each step, entry ``from * n_tags + to``.
    allowed : ndarray, shape (n_tags * n_tags,)
        0 where a tag may follow a tag, else minus infinity.
    starts : ndarray of int64, shape (n_sequences + 1,)
        First token of each sequence.
    rows : ndarray of int64, shape (n_sequences,)
        Row of the steps of each sequence.
    tags : ndarray of int64, shape (n_tokens,)
        Filled with the tags.
    best, pairs, ends : ndarray, shapes (n_longest, n_tags), (n_tags, n_tags) and (2, n_tags)
        Work arrays for scores by token and tag, for scores of pairs, and for the most and the least
        of a tag and a next one, None where these are not worth their time.

    Returns
    -------
    impossible : int
        First sequence that has no allowed tags, or -1.
    """
    n_tags = emissions.shape[1]
    row_of_pairs = -1
    bound = -np.inf
    for i in range(len(rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if n <= 0:
            continue
        for k in range(n_tags):
            best[0, k] = emissions[first, k]
        for t in range(1, n):
            row = rows[i]
            if row != row_of_pairs:
                row_of_pairs = row
                for j in range(n_tags):
                    for k in range(n_tags):
                        at = j * n_tags + k
                        pairs[j, k] = transitions[row, at] + allowed[at]
                if ends is not None:
                    for j in range(n_tags):
                        ends[0, j], ends[1, j] = -np.inf, np.inf
                        for k in range(n_tags):
                            ends[0, j] = max(ends[0, j], pairs[j, k])
                            ends[1, j] = min(ends[1, j], pairs[j, k])
            if ends is not None:
                bound = -np.inf
                for j in range(n_tags):
                    bound = max(bound, best[t - 1, j] + ends[1, j])
            # Tags are left out if their sequences are below the bound with any next tag, where some
            # sequence has at least that with every next tag.
            for k in range(n_tags):
                best[t, k] = -np.inf
            for j in range(n_tags):
                start = best[t - 1, j]
                if ends is not None:
                    if bound > -np.inf and start + ends[0, j] < bound:
                        continue
                for k in range(n_tags):
                    best[t, k] = np.maximum(best[t, k], start + pairs[j, k])  # in vector registers
            for k in range(n_tags):
                best[t, k] += emissions[first + t, k]
        tag = ONE_ROW
        for k in range(1, n_tags):
            if best[n - 1, k] > best[n - 1, tag]:
                tag = k
        if best[n - 1, tag] == -np.inf:
            return i
        for t in range(n - 1, 0, -1):
            tags[first + t] = tag
            row = rows[i]
            # The tag from which the best sequence came is searched again, for one tag only.
            before, largest = ONE_ROW, -np.inf
            for j in range(n_tags):
                value = best[t - 1, j] + (
                    transitions[row, j * n_tags + tag] + allowed[j * n_tags + tag]
                )
                if value > largest:
                    before, largest = j, value
            tag = before
        tags[first] = tag
    return -1


def longest(starts: IntArray) -> int:
    """Return the number of tokens of the longest sequence, at least 1."""
    return int(np.diff(starts).max(initial=1))


# Number of tags from which on exponentials of pairs are computed several at once.
MANY_TAGS = 64
# The least exponent, parts of the logarithm of 2, and what rounds to whole numbers when added.
_LEAST_EXPONENT, _LOG2_E = -707.0, 1.4426950408889634
_LN_2_HIGH, _LN_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUNDING = 1.5 * 2.0**52

# Functions without a form for calls from Python compile faster, and must not be called from it.
INSIDE: Any = {"no_cpython_wrapper": True}


@compiled(**INSIDE)
def exponentials(
    transitions: FloatArray,
    row: int,
    allowed: FloatArray,
    following: FloatArray,
    preceding: FloatArray,
    many: FloatArray | None,
) -> float:
    """Fill in ``exp(score - largest)`` of pairs and its transpose, and return the largest score.

    The arrays are those of :func:`space_of_sums`.
    """
    n_tags = len(following)
    largest = -np.inf
    # Without many tags, numba leaves this out.
    if many is not None:
        for k in range(n_tags):
            many[k] = -np.inf
        for j in range(n_tags):
            for k in range(n_tags):
                at = j * n_tags + k
                following[j, k] = transitions[row, at] + allowed[at]
                many[k] = np.maximum(many[k], following[j, k])
        for k in range(n_tags):
            largest = max(largest, many[k])
        for j in range(n_tags):
            for k in range(n_tags):
                following[j, k] -= largest
            _exponentiate(following[j], many)
            for k in range(n_tags):
                preceding[k, j] = following[j, k]
        return largest
    for at in range(n_tags * n_tags):
        largest = max(largest, transitions[row, at] + allowed[at])
    for j in range(n_tags):
        for k in range(n_tags):
            at = j * n_tags + k
            following[j, k] = np.exp(transitions[row, at] + allowed[at] - largest)
            preceding[k, j] = following[j, k]
    return largest


@compiled(fastmath={"contract"})
def _exponentiate(values: FloatArray, space: FloatArray) -> None:
    """Replace values, none of them positive, by their exponentials, in vector registers.

    A value is ``n log 2 + r``.  Its exponential is that of r, a polynomial, times 2 to the n, which
    is set in the bits of the exponent.  Below the least exponent, it is 0.
    """
    for k in range(len(values)):
        value = np.maximum(values[k], _LEAST_EXPONENT)
        # Adding a large number rounds to n, whose bits are then the lowest ones.
        space[k] = value * _LOG2_E + _ROUNDING
        n = space[k] - _ROUNDING
        r = value - n * _LN_2_HIGH - n * _LN_2_LOW
        power = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
        power = power * r + 1.0 / 39916800.0
        power = power * r + 1.0 / 3628800.0
        power = power * r + 1.0 / 362880.0
        power = power * r + 1.0 / 40320.0
        power = power * r + 1.0 / 5040.0
        power = power * r + 1.0 / 720.0
        power = power * r + 1.0 / 120.0
        power = power * r + 1.0 / 24.0
        power = power * r + 1.0 / 6.0
        power = ((power * r + 0.5) * r + 1.0) * r + 1.0
        values[k] = 0.0 if values[k] < _LEAST_EXPONENT else power
    bits = space.view(np.int64)
    for k in range(len(values)):
        bits[k] = (bits[k] + 1023) << 52
    for k in range(len(values)):
        values[k] *= space[k]


@compiled
def log_sum_exp(values: FloatArray) -> float:
    """Compute the logarithm of a sum of exponentials, which may be minus infinity."""
    largest = -np.inf
    for k in range(len(values)):
        largest = max(largest, values[k])
    if largest == -np.inf:
        return largest
    total = 0.0
    for k in range(len(values)):
        total += np.exp(values[k] - largest)
    return float(largest + np.log(total))


@compiled
def to_fractions(logarithms: FloatArray) -> None:
    """Replace logarithms by the fractions of their sum that their exponentials are."""
    largest, total = logarithms.max(), 0.0
    for k in range(len(logarithms)):
        logarithms[k] = np.exp(logarithms[k] - largest)
        total += logarithms[k]
    for k in range(len(logarithms)):
        logarithms[k] /= total


# Beyond these, products may have lost what counts: logarithms are taken.
_SMALLEST = 1e-250
_LARGEST = 1e250
# Steps whose pairs are summed together, so that they stay in the cache of the processor.
_STEPS_TOGETHER = 256

# Scores of pairs, which of them are allowed, and the row of the steps.
_Steps = tuple[FloatArray, FloatArray, int]
# Result of space_of_sums.
Space = tuple[
    FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray,
    FloatArray, FloatArray | None,
]  # fmt: skip


@compiled
def tag_probabilities(
    emissions: FloatArray,
    transitions: FloatArray,
    allowed: FloatArray,
    starts: IntArray,
    rows: IntArray,
    of_tags: FloatArray,
    of_pairs: FloatArray,
    log_sums: FloatArray,
    space: Space,
) -> None:
    """Compute the probabilities of all sequences, as :func:`forward_backward` does of one.

    Parameters
    ----------
    emissions, transitions, allowed, starts, rows
        As :func:`best_sequences` takes them.
    of_tags : ndarray, shape (n_tokens, n_tags)
        Filled with the probability of each tag of each token.
    of_pairs : ndarray, shape (n_rows, n_tags * n_tags)
        Starts at zero; gains the probability of each pair of tags at each step.
    log_sums : ndarray, shape (n_sequences,)
        Filled with the logarithm of the sum; minus infinity if no tags are allowed.
    space : tuple
        Result of :func:`space_of_sums`.
    """
    last_row, shift = -1, 0.0
    for i in range(len(rows)):
        first, n = starts[i], starts[i + 1] - starts[i]
        if n > 1 and rows[i] != last_row:
            last_row = rows[i]
            shift = exponentials(transitions, last_row, allowed, space[3], space[4], space[8])
        steps = transitions, allowed, rows[i]
        log_sums[i] = sum_product(emissions, first, n, steps, space, shift, of_tags, of_pairs)


@compiled(**INSIDE)
def sum_product(
    emissions: FloatArray,
    first: int,
    n: int,
    steps: _Steps,
    space: Space,
    shift: float,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> float:
    """Compute the probabilities of one sequence, and return the logarithm of the sum.

    Each token is summed on its scale (Rabiner 1989, section V.A), or by logarithms where a number
    comes near the ends of the range.

    Parameters
    ----------
    emissions, of_tags, of_pairs
        As for :func:`tag_probabilities`.
    first, n : int
        First token of the sequence, and how many it has.
    steps : tuple
        Transitions and what is allowed, and the row of the steps.
    space : tuple
        Result of :func:`space_of_sums`, with the exponentials of the row of all steps.
    shift : float
        Largest score that :func:`exponentials` returned.
    """
    row = steps[2]
    forward, likely, scales, following, preceding, arrived, backward = space[:7]
    n_tags = emissions.shape[1]
    if n <= 0:
        return 0.0
    log_sum = 0.0
    for t in range(n):
        largest = -np.inf
        for k in range(n_tags):
            largest = max(largest, emissions[first + t, k])
        log_sum += largest
        for k in range(n_tags):
            likely[t, k] = np.exp(emissions[first + t, k] - largest)
    for t in range(n):
        if t == 0:
            for k in range(n_tags):
                forward[t, k] = likely[0, k]
        else:
            log_sum += shift
            for k in range(n_tags):
                forward[t, k] = 0.0
            for j in range(n_tags):
                before = forward[t - 1, j]
                for k in range(n_tags):
                    forward[t, k] += before * following[j, k]
            for k in range(n_tags):
                forward[t, k] *= likely[t, k]
        total = 0.0
        for k in range(n_tags):
            total += forward[t, k]
        if not total > _SMALLEST:
            log_sum = np.nan
            break
        for k in range(n_tags):
            forward[t, k] /= total
        scales[t] = total
        log_sum += np.log(total)
    for k in range(n_tags):
        backward[k] = 1.0
        of_tags[first + n - 1, k] = forward[n - 1, k]
    for t in range(-1 if np.isnan(log_sum) else n - 2, -1, -1):
        # A tag that nothing leads to may have a sum beyond the range, and inf * 0 is not a number.
        largest = 0.0
        for k in range(n_tags):
            arrived[k] = likely[t + 1, k] * backward[k] / scales[t + 1]
            largest = max(largest, arrived[k])
            backward[k] = 0.0
        for k in range(n_tags):
            after = arrived[k]
            for j in range(n_tags):
                backward[j] += after * preceding[k, j]
        for j in range(n_tags):
            largest = max(largest, backward[j])
            of_tags[first + t, j] = forward[t, j] * backward[j]
        if not largest < _LARGEST:
            log_sum = np.nan
            break
        for k in range(n_tags):
            likely[t + 1, k] = arrived[k]
    if np.isnan(log_sum):
        return float(_by_logarithms(emissions, first, n, steps, space, of_tags, of_pairs))
    for last in range(n - 2, -1, -_STEPS_TOGETHER):
        for j in range(n_tags):
            for k in range(n_tags):
                arrived[k] = 0.0
            for t in range(last, max(-1, last - _STEPS_TOGETHER), -1):
                for k in range(n_tags):
                    arrived[k] += forward[t, j] * likely[t + 1, k]
            for k in range(n_tags):
                of_pairs[row, j * n_tags + k] += arrived[k] * following[j, k]
    return float(log_sum)


def space_of_sums(starts: IntArray, n_tags: int) -> Space:
    """Allocate what sums over the tags of sequences are computed in.

    Parameters
    ----------
    starts : ndarray of int64, shape (n_sequences + 1,)
        First token of each sequence.
    n_tags : int

    Returns
    -------
    forward, likely, scales : ndarray
        Sums up to a token, likelihoods and scales, of the longest sequence.
    following, preceding : ndarray, shape (n_tags, n_tags)
        For :func:`exponentials`.
    arrived, backward, values : ndarray, shape (n_tags,)
    many : ndarray or None
        Numbers for each of many tags, None for few tags.
    """
    n_tokens, pairs = longest(starts), (n_tags, n_tags)
    return (
        np.empty((n_tokens, n_tags)), np.empty((n_tokens, n_tags)), np.empty(n_tokens),
        np.empty(pairs), np.empty(pairs), np.empty(n_tags), np.empty(n_tags), np.empty(n_tags),
        np.empty(n_tags) if n_tags >= MANY_TAGS else None,
    )  # fmt: skip


@compiled(**INSIDE)
def _by_logarithms(
    emissions: FloatArray,
    first: int,
    n: int,
    steps: _Steps,
    space: Space,
    of_tags: FloatArray,
    of_pairs: FloatArray,
) -> float:
    """Return the logarithm of the sum, computed by logarithms for scores of any size."""
    transitions, allowed, row = steps
    forward, arrived, backward, values = space[0], space[5], space[6], space[7]
    n_tags = emissions.shape[1]
    for t in range(n):
        for k in range(n_tags):
            forward[t, k] = emissions[first + t, k]
            if t:
                for j in range(n_tags):
                    at = j * n_tags + k
                    values[j] = forward[t - 1, j] + transitions[row, at] + allowed[at]
                forward[t, k] += log_sum_exp(values)
    for k in range(n_tags):
        values[k] = forward[n - 1, k]
    log_sum = log_sum_exp(values)
    if log_sum == -np.inf:
        return log_sum
    for t in range(n - 1, -1, -1):
        for j in range(n_tags):
            backward[j] = 0.0
            if t < n - 1:
                for k in range(n_tags):
                    at = j * n_tags + k
                    values[k] = arrived[k] + transitions[row, at] + allowed[at]
                backward[j] = log_sum_exp(values)
        for j in range(n_tags):
            values[j] = forward[t, j] + backward[j]
        # Not minus log_sum, beside which the logarithm of a few tags is lost where scores are huge.
        to_fractions(values)
        for j in range(n_tags):
            of_tags[first + t, j] = values[j]
        for j in range(n_tags if t < n - 1 else 0):
            if of_tags[first + t, j] > 0.0:
                for k in range(n_tags):
                    at = j * n_tags + k
                    values[k] = arrived[k] + transitions[row, at] + allowed[at]
                to_fractions(values)
                for k in range(n_tags):
                    of_pairs[row, j * n_tags + k] += of_tags[first + t, j] * values[k]
        for k in range(n_tags):
            arrived[k] = backward[k] + emissions[first + t, k]
    return float(log_sum)
