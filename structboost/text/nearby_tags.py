"""Tags of a word elsewhere, in training and by a first tagger in its document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.faces.sequence_forms import dicts_of_frame, listed_sequences, sequence_of
from structboost.validation import group_indices, shown

# Least mean probability of a tag that becomes a feature, and lower bounds of its bins.
_LEAST = 0.1
_BOUNDS = np.array([_LEAST, 0.25, 0.5, 0.75])
# Sums are rounded, so that bins do not depend on the order of the additions.
_DIGITS = 9
_DUST = 1e-9


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


class TagLexicon:
    """Weights of the tags of each word in training.

    Parameters
    ----------
    words : sequence of str, shape (n_words,)
        The words.
    weights : ndarray, shape (n_words, n_tags)
        Total weight of the tokens of each word that have each tag.
    """

    def __init__(self, words: Sequence[str], weights: FloatArray) -> None:
        self.words, self.weights = list(words), weights
        self._rows = {word: k for k, word in enumerate(self.words)}

    @classmethod
    def of(
        cls, words: Sequence[str], tags: IntArray, n_tags: int, weights: FloatArray
    ) -> TagLexicon:
        """Return the lexicon of tokens, whose tags are -1 where they are unknown."""
        lexicon = cls(list(dict.fromkeys(words)), np.zeros((len(set(words)), n_tags)))
        is_known = tags >= 0
        np.add.at(
            lexicon.weights, (lexicon._indices(words)[is_known], tags[is_known]), weights[is_known]
        )
        return lexicon

    def fractions(self, words: Sequence[str], without: TagLexicon | None = None) -> FloatArray:
        """Return the fraction of each tag for each word, NaN for words that are not here.

        Parameters
        ----------
        words : sequence of str, shape (n_tokens,)
            The words.
        without : TagLexicon, optional
            Lexicon of a part of the same tokens, which is subtracted.

        Returns
        -------
        fractions : ndarray, shape (n_tokens, n_tags)
        """
        weights = np.vstack([self.weights, np.zeros(self.weights.shape[1])])
        if without is not None:
            weights[self._indices(without.words)] -= without.weights
        totals = weights.sum(axis=1, keepdims=True)
        # Differences of sums of equal weights are 0 up to rounding.
        totals[totals < _DUST * max(1.0, totals.max(initial=0.0))] = np.nan
        return np.asarray(np.round(weights / totals, _DIGITS)[self._indices(words)])

    def _indices(self, words: Sequence[str]) -> IntArray:
        """Return the row of each word, -1 for words that are not here."""
        return np.array([self._rows.get(word, -1) for word in words], np.int64)


def with_tags(
    X: Sequence[Any], name: str, means: FloatArray, classes: Sequence[Any]
) -> list[list[dict[str, Any]]]:
    """Return the tokens with the likely tags of their words elsewhere as further features.

    Parameters
    ----------
    X : sequence of sequences of dicts
        Features of the tokens.
    name : str
        Beginning of the names of these features.
    means : ndarray, shape (n_tokens, n_tags)
        Mean probabilities of the tags elsewhere, NaN where the word is nowhere else.
    classes : sequence
        The tags.
    """
    names = [f"{name}:{tag}" for tag in classes]
    bins = np.searchsorted(_BOUNDS, means, side="right")
    bins[np.isnan(means)] = 0
    bounds = [f"{bound:g}" for bound in _BOUNDS]
    features: list[dict[str, Any]] = [{} for _ in range(len(means))]
    for row, tag in zip(*(index.tolist() for index in np.nonzero(bins)), strict=True):
        features[row][names[tag]] = bounds[bins[row, tag] - 1]
    rows = iter(features)
    return [[{**token, **next(rows)} for token in tokens] for tokens in X]
