"""Tags that a first tagger gives to a word elsewhere in its document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.estimators.sequence_forms import dicts_of_frame, listed_sequences, sequence_of
from structboost.validation import group_indices, shown

# Least mean probability of a tag that becomes a feature, and lower bounds of its bins.
_LEAST = 0.1
_BOUNDS = np.array([_LEAST, 0.25, 0.5, 0.75])
# Sums are rounded, so that bins do not depend on the order of the additions.
_DIGITS = 9


def read_tokens(X: Any, word: str) -> tuple[list[Any], list[str], IntArray]:
    """Return the sequences as lists of dicts, the words of all tokens, and the lengths.

    Parameters
    ----------
    X : sequence of sequences
        Tokens as dicts, or data frames of a row for each token.
    word : str
        Name of the feature that holds the word.

    Raises
    ------
    TypeError, ValueError
        If a token is no dict, or has no word.
    """
    sequences, words = [], []
    for i, sequence in enumerate(listed_sequences(X)):
        tokens = sequence_of(sequence, i)
        if isinstance(tokens, nw.DataFrame):
            tokens = dicts_of_frame(tokens)
        if not isinstance(tokens, list | tuple):
            raise TypeError(f"X[{i}] is {shown(sequence)}; give a list of dicts.")
        for t, token in enumerate(tokens):
            value = token.get(word)
            if not isinstance(value, str):
                raise ValueError(
                    f"X[{i}][{t}] has {shown(value)} for the feature {word!r}; give a string, or "
                    "name the feature that holds the word by word=."
                )
            words.append(value)
        sequences.append(tokens)
    return sequences, words, np.array(list(map(len, sequences)), np.int64)


def document_indices(documents: Any, n_sequences: int) -> IntArray | None:
    """Return the index of the document of each sequence, after a check.

    Raises
    ------
    ValueError
        If there is not one for each sequence.
    """
    if documents is None:
        return None
    return group_indices(documents, "documents", n_sequences)


def nearby_means(
    words: Sequence[str],
    lengths: IntArray,
    probabilities: FloatArray,
    radius: int,
    documents: IntArray | None,
) -> FloatArray:
    """Return the mean probabilities of the tags of each token's word in sequences nearby.

    Parameters
    ----------
    words : sequence of str, shape (n_tokens,)
        Words of all tokens.
    lengths : ndarray of int, shape (n_sequences,)
        Number of tokens of each sequence.
    probabilities : ndarray, shape (n_tokens, n_tags)
        Probabilities of the tags of each token.
    radius : int
        Number of sequences on each side that are nearby, where no documents are given.
    documents : ndarray of int, shape (n_sequences,), or None
        Document of each sequence; those of one document are nearby.

    Returns
    -------
    means : ndarray, shape (n_tokens, n_tags)
        Means over the tokens of the same word in the other sequences nearby; NaN without any.
    """
    n = len(lengths)
    radius = min(radius, n)
    of_token = np.repeat(np.arange(n), lengths)
    ids = np.unique(np.array(words, dtype=object), return_inverse=True)[1] if words else of_token
    if documents is None:
        base = ids * n
        low, high = np.maximum(of_token - radius, 0), np.minimum(of_token + radius, n - 1)
    else:
        base = (ids * (int(documents.max(initial=0)) + 1) + documents[of_token]) * n
        low, high = np.zeros_like(of_token), np.full_like(of_token, n - 1)
    keys = base + of_token
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    sums = np.zeros((len(words) + 1, probabilities.shape[1]))
    np.cumsum(probabilities[order], axis=0, out=sums[1:])
    first, last = np.searchsorted(ordered, base + low), np.searchsorted(ordered, base + high + 1)
    here, after = np.searchsorted(ordered, keys), np.searchsorted(ordered, keys, side="right")
    totals = sums[last] - sums[first] - (sums[after] - sums[here])
    counts = (last - first - (after - here)).astype(np.float64)
    counts[counts == 0] = np.nan
    return np.asarray(np.round(totals / counts[:, None], _DIGITS))


def with_nearby_tags(
    X: Sequence[Any], means: FloatArray, classes: Sequence[Any]
) -> list[list[dict[str, Any]]]:
    """Return the tokens with the likely tags of their words nearby as further features.

    Parameters
    ----------
    X : sequence of sequences of dicts
        Features of the tokens.
    means : ndarray, shape (n_tokens, n_tags)
        Mean probabilities of the tags nearby, NaN where the word is not nearby.
    classes : sequence
        The tags.
    """
    names = [f"nearby:{tag}" for tag in classes]
    bins = np.searchsorted(_BOUNDS, means, side="right")
    bins[np.isnan(means)] = 0
    bounds = [f"{bound:g}" for bound in _BOUNDS]
    features: list[dict[str, Any]] = [{} for _ in range(len(means))]
    for row, tag in zip(*(index.tolist() for index in np.nonzero(bins)), strict=True):
        features[row][names[tag]] = bounds[bins[row, tag] - 1]
    rows = iter(features)
    return [[{**token, **next(rows)} for token in tokens] for tokens in X]
