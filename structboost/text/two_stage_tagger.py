"""Tagger whose second stage sees the tags of a word in training and nearby."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from structboost._typing import BoolArray, Examples, Facts, FloatArray, IntArray, PathName, override
from structboost.errors import ConstantPredictionWarning
from structboost.faces.forms import is_of_dicts, listed_sequences, listed_tags
from structboost.faces.tagger import StructBoostTagger
from structboost.faces.tokens import tag_indices
from structboost.files.archive import (
    ArchiveFormat,
    Array,
    Arrays,
    DamagedFileError,
    LoadedFromFile,
    Part,
    Schema,
    whole_number,
)
from structboost.runtime.called_class import names_calls
from structboost.runtime.fitted_state import committed
from structboost.selection.folds import cross_fit
from structboost.text.token_features import Token
from structboost.validation import checked_weights, group_indices, rows_of, shown

# Least mean probability of a tag that becomes a feature, and lower bounds of its bins.
_LEAST = 0.1
_BOUNDS = np.array([_LEAST, 0.25, 0.5, 0.75])
# Sums are rounded, so that bins do not depend on the order of the additions.
_DIGITS = 9
_DUST = 1e-9
# Number of sentences on each side that are nearby, where no documents are given.
_RADIUS = 30


def read_tokens(X: Any, word: str) -> tuple[list[Any], list[str], IntArray]:
    """Return the sequences as lists of dicts, the words of all tokens, and the lengths.

    TypeError or ValueError if a token is no dict, or has no word.
    """
    sequences, words = [], []
    for i, tokens in enumerate(listed_sequences(X)):
        if not is_of_dicts(tokens):
            raise TypeError(f"X[{i}] is {shown(tokens)}; give a list of dicts.")
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


def nearby_means(
    words: Sequence[str],
    lengths: IntArray,
    probabilities: FloatArray,
    documents: IntArray | None,
    radius: int = _RADIUS,
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
    documents : ndarray of int, shape (n_sequences,), or None
        Document of each sequence; those of one document are nearby.
    radius : int
        Number of sequences on each side that are nearby, where no documents are given.

    Returns
    -------
    means : ndarray, shape (n_tokens, n_tags)
        Means over the tokens of the same word in the other sequences nearby; NaN without any.
    """
    n = len(lengths)
    of_token = np.repeat(np.arange(n), lengths)
    groups = np.unique(np.array(words, dtype=object), return_inverse=True)[1] if words else of_token
    if documents is not None:
        groups = groups * (int(documents.max(initial=0)) + 1) + documents[of_token]
        radius = n
    keys = groups * n + of_token
    order = np.argsort(keys, kind="stable")
    ordered, sums = keys[order], np.zeros((len(words) + 1, probabilities.shape[1]))
    np.cumsum(probabilities[order], axis=0, out=sums[1:])
    first, here, after, last = (
        np.searchsorted(ordered, groups * n + sequence)
        for sequence in (
            np.maximum(of_token - radius, 0), of_token, of_token + 1,
            np.minimum(of_token + radius + 1, n),
        )
    )  # fmt: skip
    totals = sums[last] - sums[first] - (sums[after] - sums[here])
    counts = (last - first - (after - here)).astype(np.float64)
    counts[counts == 0] = np.nan
    return np.asarray(np.round(totals / counts[:, None], _DIGITS))


def fractions(weights: FloatArray, rows: IntArray) -> FloatArray:
    """Return the fraction of each tag for the words of some rows, NaN for words without weight.

    ``weights`` has the weight of the tokens of each word that have each tag.  The row -1 stands for
    words that are not there.
    """
    weights = np.vstack([weights, np.zeros(weights.shape[1])])
    totals = weights.sum(axis=1, keepdims=True)
    # Differences of sums of equal weights are 0 up to rounding.
    totals[totals < _DUST * max(1.0, totals.max(initial=0.0))] = np.nan
    return np.asarray(np.round(weights / totals, _DIGITS)[rows])


def with_tags(
    X: Examples, name: str, means: FloatArray, classes: Sequence[Any]
) -> list[list[Token]]:
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
    features: list[Token] = [{} for _ in range(len(means))]
    for row, tag in np.argwhere(bins).tolist():
        features[row][names[tag]] = bounds[bins[row, tag] - 1]
    rows = iter(features)
    return [[{**token, **next(rows)} for token in tokens] for tokens in X]


_STAGES = ("first", "second")


@names_calls
@dataclass(eq=False, repr=False)
class TwoStageTagger(LoadedFromFile, BaseEstimator):
    """Tagger whose second stage sees the tags of the same word in other sentences.

    A name is often clear in one sentence and not in the next.  A first tagger tags all sentences.
    The second one has further features for each token, in bins: the mean probabilities of the tags
    that the first one gives to the same word in other sentences nearby (``nearby:TAG``), and the
    fractions of the tags that the word has in training (``lexicon:TAG``).

    - In training the first stage tags each fold of the sentences by a tagger that was trained on
      the other folds, and the fractions are those of the other folds.  Folds are runs of sentences
      or of documents.
    - In prediction a first tagger that was trained on all sentences tags them.  The tags of a
      sentence depend on the others in the same call, so keep the sentences of a document together
      and in their order.  A sentence alone has no such features.

    Parameters
    ----------
    estimator : StructBoostTagger, optional
        Tagger of dict tokens.  Both stages are copies of it.
    folds : int
        Number of folds, at least 2.
    word : str
        Name of the feature that holds the word.  The default is that of
        :class:`structboost.text.TokenFeatures`.

    Attributes
    ----------
    first_, second_ : StructBoostTagger
        The trained taggers of the two stages.
    classes_ : ndarray
        The tags, in ascending order.

    Notes
    -----
    Ratinov and Roth, Design challenges and misconceptions in named entity recognition, CoNLL 2009.

    See Also
    --------
    structboost.StructBoostTagger : Tagger of sequences of any features.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from structboost.text import TokenFeatures, TwoStageTagger
    >>> X = [["Ada", "sleeps"], ["Bo", "reads", "Cy"]] * 5
    >>> y = [["B-PER", "O"], ["B-PER", "O", "B-PER"]] * 5
    >>> pipeline = make_pipeline(TokenFeatures(), TwoStageTagger(folds=2)).fit(X, y)
    >>> pipeline.predict([["Di", "reads"], ["Di", "sleeps"]])
    [['B-PER', 'O'], ['B-PER', 'O']]
    """

    estimator: Any = None
    _: KW_ONLY
    folds: int = 5
    word: str = "word[0]"

    @committed
    def fit(
        self, X: Examples, y: Examples, sample_weight: Any = None, documents: Any = None
    ) -> Self:
        """Train both stages.

        Parameters
        ----------
        X : sequence
            Sequences of tokens, each a dict of features.
        y : sequence of sequences
            Tags of each sequence, with None if a tag is unknown.
        sample_weight : array-like, shape (n_sequences,), optional
            Weight of each sequence in the mean loss.
        documents : array-like, shape (n_sequences,), optional
            Document of each sequence.  The sequences of a document are nearby, and in one fold.
            Where a stage chooses C or stops early, it holds out whole documents.  Without
            documents, the 30 sentences on each side are nearby.

        Returns
        -------
        self : TwoStageTagger
            The fitted tagger.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range; the message names the sequence.
        """
        estimator = StructBoostTagger() if self.estimator is None else self.estimator
        if not isinstance(estimator, StructBoostTagger):
            raise TypeError(f"estimator is {shown(estimator)}; give a StructBoostTagger.")
        if not isinstance(self.word, str):
            raise TypeError(f"word is {shown(self.word)}; give the name of a feature.")
        X, words, lengths = read_tokens(X, self.word)
        y = listed_tags(y, lengths.tolist())
        of_documents = _document_indices(documents, len(lengths))
        folds = self._folds(of_documents, len(lengths))
        weights = checked_weights(sample_weight, len(lengths))
        held_out = {}
        if of_documents is not None and estimator._holds_out():
            held_out["groups"] = of_documents
        first = clone(estimator).fit(X, y, sample_weight=sample_weight, **held_out)
        self.classes_ = first.classes_

        with warnings.catch_warnings():
            if len(self.classes_) == 1:  # the first stage has warned
                warnings.simplefilter("ignore", ConstantPredictionWarning)
            training, n_weighted = [], max(1, int(np.count_nonzero(weights)))
            for fold in range(self.folds):
                rest = np.flatnonzero((folds != fold) & (weights > 0))
                tagger = _for_fold(estimator, first, len(rest) / n_weighted)
                training.append((tagger, rows_of(X, rest), rows_of(y, rest), weights[rest]))
            place = np.repeat(np.arange(len(lengths)), lengths)
            of_token = folds[place]
            _, probabilities = cross_fit(
                of_token,
                lambda tagger, X, y, weights: tagger.fit(X, y, sample_weight=weights),
                training,
                lambda tagger, inside: self._probabilities(
                    tagger, rows_of(X, np.unique(place[inside]))
                ),
            )
            tags = np.concatenate(tag_indices(y, lengths.tolist(), self.classes_)[1])
            # Other tags have sequences without weight alone.
            is_known = (tags >= 0) & (tags < len(self.classes_))
            self._rows = {word: row for row, word in enumerate(dict.fromkeys(words))}
            rows = self._rows_of(words)

            def tag_weights(inside: BoolArray) -> FloatArray:
                at, table = inside & is_known, np.zeros((len(self._rows), len(self.classes_)))
                np.add.at(table, (rows[at], tags[at]), weights[place][at])
                return table

            self._weights = tag_weights(of_token >= 0)
            lexicon = np.empty((len(words), len(self.classes_)))
            for fold in range(self.folds):
                inside = of_token == fold
                lexicon[inside] = fractions(self._weights - tag_weights(inside), rows[inside])
            inputs = self._with_tags(X, words, lengths, probabilities, lexicon, of_documents)
            self.second_ = clone(estimator).fit(inputs, y, sample_weight=sample_weight, **held_out)
        self.first_, self._word = first, self.word
        return self

    def predict(self, X: Examples, documents: Any = None) -> list[list[Any]]:
        """Return the tags of each sequence.

        Parameters
        ----------
        X : sequence
            Sequences of tokens, those of a document together and in their order.
        documents : array-like, shape (n_sequences,), optional
            Document of each sequence.

        Returns
        -------
        tags : list of list, shape (n_sequences,)
            A tag for each token.

        Raises
        ------
        TypeError, ValueError
            If ``X`` is not in the form of training.
        """
        inputs = self._inputs(X, documents)
        tags: list[list[Any]] = self.second_.predict(inputs)
        return tags

    def predict_marginals(self, X: Examples, documents: Any = None) -> list[list[dict[Any, float]]]:
        """Return the probability of each tag of each token, as a dict per token.

        Parameters
        ----------
        X, documents
            As for :meth:`predict`.

        Returns
        -------
        probabilities : list of list of dict, shape (n_sequences,)
            The probability of each tag for each token.

        Raises
        ------
        TypeError, ValueError
            If ``X`` is not in the form of training.
        """
        inputs = self._inputs(X, documents)
        probabilities: list[list[dict[Any, float]]] = self.second_.predict_marginals(inputs)
        return probabilities

    def score(
        self, X: Examples, y: Examples, sample_weight: Any = None, documents: Any = None
    ) -> float:
        """Return the fraction of correct tags, without tokens whose true tag is None.

        Parameters
        ----------
        X, y : sequences
            Sequences, and their tags.
        sample_weight : array-like, shape (n_sequences,), optional
            Weight of the tokens of each sequence.
        documents : array-like, shape (n_sequences,), optional
            Document of each sequence.

        Returns
        -------
        score : float
            From 0 to 1.

        Raises
        ------
        TypeError, ValueError
            If the tags do not fit the tokens.
        """
        inputs = self._inputs(X, documents)
        return float(self.second_.score(inputs, y, sample_weight=sample_weight))

    @override
    def save(self, path: PathName) -> None:
        check_is_fitted(self)
        arrays: Arrays = {}
        with TemporaryDirectory() as folder:
            for name in _STAGES:
                getattr(self, f"{name}_").save(Path(folder) / name)
                arrays[name] = np.frombuffer((Path(folder) / name).read_bytes(), np.uint8)
        header = {"folds": self.folds, "word": self.word, "words": list(self._rows)}
        arrays["lexicon"] = self._weights
        _FORMAT.write(path, header, arrays)

    @override
    @classmethod
    def load(cls, path: PathName) -> Self:
        with _FORMAT.opened(path) as (header, arrays), TemporaryDirectory() as folder:
            stages = []
            for name in _STAGES:
                place = Path(folder) / name
                place.write_bytes(arrays[name].tobytes())
                stages.append(StructBoostTagger.load(place))
            first, second = stages
            if first.classes_.tolist() != second.classes_.tolist():
                raise DamagedFileError("its stages have different tags")
            loaded = cls(
                clone(first),
                folds=whole_number(header["folds"], "number of folds", low=2),
                word=str(header["word"]),
            )
            if arrays["lexicon"].shape[1] != len(first.classes_):
                raise DamagedFileError("its lexicon has other tags")
            loaded._rows = {str(word): row for row, word in enumerate(header["words"])}
            loaded._weights = arrays["lexicon"]
            loaded.first_, loaded.second_, loaded.classes_ = first, second, first.classes_
            loaded._word = loaded.word
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "second_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _folds(self, documents: IntArray | None, n_sequences: int) -> IntArray:
        """Return the fold of each sequence, such that folds are runs of documents."""
        of_documents = np.arange(n_sequences) if documents is None else documents
        n_documents = int(of_documents.max(initial=-1)) + 1
        if not 2 <= self.folds <= n_documents:
            kind = "sequences" if documents is None else "documents"
            raise ValueError(
                f"folds is {self.folds!r}; give a number from 2 to that of the {kind}, "
                f"{n_documents}."
            )
        runs = np.arange(n_documents, dtype=np.int64) * int(self.folds) // n_documents
        return np.asarray(runs[of_documents])

    def _inputs(self, X: Examples, documents: Any) -> list[list[Token]]:
        """Return the tokens with the features of the second stage."""
        check_is_fitted(self)
        X, words, lengths = read_tokens(X, self._word)
        of_documents = _document_indices(documents, len(lengths))
        probabilities = self._probabilities(self.first_, X)
        lexicon = fractions(self._weights, self._rows_of(words))
        return self._with_tags(X, words, lengths, probabilities, lexicon, of_documents)

    def _rows_of(self, words: Sequence[str]) -> IntArray:
        """Return the row of each word in the lexicon, -1 for words that are not there."""
        return np.array([self._rows.get(word, -1) for word in words], np.int64)

    def _with_tags(
        self,
        X: Examples,
        words: list[str],
        lengths: IntArray,
        probabilities: FloatArray,
        lexicon: FloatArray,
        documents: IntArray | None,
    ) -> list[list[Token]]:
        """Return the tokens with the tags of their words nearby and in training."""
        means = nearby_means(words, lengths, probabilities, documents)
        tags = self.classes_.tolist()
        return with_tags(with_tags(X, "nearby", means, tags), "lexicon", lexicon, tags)

    def _probabilities(self, tagger: Any, X: Examples) -> FloatArray:
        """Return the probabilities of the tags of all tokens, 0 for tags unseen in training."""
        tags = self.classes_.tolist()
        rows = [
            [token.get(tag, 0.0) for tag in tags]
            for tokens in tagger.predict_marginals(X)
            for token in tokens
        ]
        return np.array(rows, np.float64).reshape(-1, len(tags))


def _document_indices(documents: Any, n_sequences: int) -> IntArray | None:
    return None if documents is None else group_indices(documents, "documents", n_sequences)


def _for_fold(estimator: Any, fitted: Any, fraction: float) -> Any:
    """Return the tagger of a fold, with the C that was chosen on all sequences, scaled."""
    tagger = clone(estimator)
    if (tagger.C is None or isinstance(tagger.C, str)) and np.isfinite(fitted.C_):
        # Without a choice of C only early stopping reads the scorer.
        scoring = tagger.scoring if tagger.early_stopping else None
        tagger.set_params(C=float(fitted.C_) * fraction, scoring=scoring)
    return tagger.set_params(outside_offset=0.0)  # probabilities do not depend on it


def _schema(header: Facts, names: Collection[str]) -> Schema:
    stages = {name: Array("uint8", (f"n_{name}",)) for name in _STAGES}
    lexicon = Array("float64", (len(header["words"]), "n_tags"), low=0)
    return {"": Part({**stages, "lexicon": lexicon})}


_FORMAT = ArchiveFormat(
    name="structboost-two-stage-tagger", what="two-stage tagger of structboost", schema=_schema
)
