"""Vectors and classes of words, counted from a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import svds
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.extmath import svd_flip
from threadpoolctl import threadpool_limits

from structboost._typing import FloatArray, IntArray, override
from structboost.errors import ModelFileError
from structboost.faces.sequence_forms import listed_sequences
from structboost.files.archive import ArchiveFormat
from structboost.files.schema import Array, DamagedFileError, Part, Schema
from structboost.runtime.fitted_state import committed
from structboost.text.saved_transformer import Arrays, SavedTransformer
from structboost.text.sequences import words_of
from structboost.text.tagged_file import WORD
from structboost.validation import checked_whole_number, shown

# Power of the counts of contexts, by which those of rare words weigh less.
_SMOOTHING = 0.75
# Information below this is a rounding error.
_LEAST = 1e-12
# Singular values below this fraction of the largest one are rounding errors.
_DUST = 1e-7
# Class of words that are not in the vocabulary.
_UNKNOWN = "none"


def _schema(header: Mapping[str, Any], names: Collection[str]) -> Schema:
    n_words, n_classes = len(header["words"]), header["parameters"]["n_classes"]
    arrays = {"vectors": Array("float64", (n_words, header["parameters"]["n_components"]))}
    if n_classes is not None:
        arrays["classes"] = Array("int64", (n_words,), low=0, high=n_classes - 1)
    return {"": Part(arrays)}


_FORMAT = ArchiveFormat(
    name="structboost-word-vectors",
    version=1,
    what="file of WordVectors of structboost",
    error=ModelFileError,
    remedy="fit the vectors again, or take another copy of the file",
    schema=_schema,
)


@dataclass(eq=False, repr=False)
class WordVectors(SavedTransformer):
    """Transformer that adds the vector or the class of its word to each token.

    Words that have the same neighbours get similar vectors.  They are counted from the sentences
    of :meth:`fit`, which need no tags:

    1. Count the words up to ``window`` places before and after each word, apart from each other.
    2. Take the positive part of ``log(n(w, c) sum_b n(b)^.75 / (n(w) n(c)^.75))`` for each word w
       and context c.
    3. Reduce this table by a truncated singular value decomposition ``U S V'``.  The vectors are
       the rows of ``U S^(1/2)``.

    It keeps all features of a token.  So it stands between
    :class:`structboost.text.TokenFeatures` and the tagger in a pipeline.  To count another text
    than that of training, fit it alone, and wrap it in :class:`sklearn.frozen.FrozenEstimator`.

    Parameters
    ----------
    n_components : int
        Length of the vectors.
    window : int
        Number of neighbours on each side that are counted.
    min_count : int
        Least number of occurrences of a word in the vocabulary.
    n_classes : int or None
        Number of classes of words.  If given, tokens get the class of the word, a string, in place
        of its vector.  The classes are those of k-means on vectors of unit length.
    word : str
        Feature that holds the word, where tokens are dicts with it, as those of ``TokenFeatures``.
        Dicts without it hold the word as ``"word"``, as those of ``read_tagged``.
    name : str or None
        Name of the feature that is added, by default ``"vector"`` or ``"word_class"``.
    random_state : int, RandomState instance or None
        Seed of the start of the decomposition and of k-means.

    Attributes
    ----------
    vocabulary_ : dict of str to int
        Row of each lower-cased word, in ascending order of the words.
    vectors_ : ndarray, shape (n_words, n_components)
        Vectors of the words.  Components beyond the rank of the table are 0.
    word_classes_ : ndarray of int, shape (n_words,)
        Class of each word, if ``n_classes`` is given.

    Notes
    -----
    Levy, Goldberg and Dagan, Improving distributional similarity with lessons learned from word
    embeddings, TACL 2015.

    Examples
    --------
    >>> from structboost.text import WordVectors
    >>> X = [["Ada", "reads"], ["Bo", "reads"], ["Bo", "and", "Ada", "sleep"]]
    >>> vectors = WordVectors(2, min_count=1, random_state=0).fit(X)
    >>> vectors.vectors_.shape
    (5, 2)
    >>> print(vectors.transform([["Cy"]]))
    [[{'word': 'Cy', 'vector': array([0., 0.])}]]
    """

    _face_kinds = ("sentences",)
    _format = _FORMAT

    n_components: int = 50
    _: KW_ONLY
    window: int = 2
    min_count: int = 3
    n_classes: int | None = None
    word: str = "word[0]"
    name: str | None = None
    random_state: Any = None

    @committed
    def fit(self, X: Sequence[Any], y: Any = None) -> Self:
        """Count the words of sentences, and compute their vectors.

        Parameters
        ----------
        X : sequence
            Sentences.  A sentence is a list of words, or of dicts with a word.
        y : object, optional
            Ignored.

        Returns
        -------
        self : WordVectors
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter or a token cannot be used, or the text is too small.
        """
        self._check_parameters()
        sentences = self._read(X)[1]
        counts = Counter(word for words in sentences for word in words)
        vocabulary = sorted(word for word, n in counts.items() if n >= self.min_count)
        if len(vocabulary) < (self.n_classes or 1):
            raise ValueError(
                f"X has {len(vocabulary)} words that occur at least {self.min_count} times, too "
                "few for vectors; give more sentences, or a smaller min_count or n_classes."
            )
        self.vocabulary_ = {word: k for k, word in enumerate(vocabulary)}
        table = _positive_information(
            _neighbours(self._rows(sentences, self.window), len(vocabulary), self.window)
        )
        if not table.nnz:
            raise ValueError(
                "X has no words that their neighbours tell apart; give more sentences, or a "
                "smaller min_count."
            )
        random = check_random_state(self.random_state)
        with threadpool_limits(1):  # several threads would add in another order
            self.vectors_ = _reduced(table, self.n_components, random)
            if self.n_classes is not None:
                k_means = KMeans(self.n_classes, n_init=1, random_state=random)
                labels = k_means.fit(normalize(self.vectors_)).labels_
                self.word_classes_ = labels.astype(np.int64)
        self._keep_parameters()
        return self

    def transform(self, X: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """Return the tokens as dicts, with the vector or the class of the word.

        A word alone becomes ``{"word": word}`` before.  A word that is not in the vocabulary has a
        vector of zeros, or the class ``"none"``.

        Parameters
        ----------
        X : sequence
            Sentences, as for :meth:`fit`.

        Returns
        -------
        tokens : list of list of dict
            Features of each token of each sentence.  Equal words share one array.

        Raises
        ------
        TypeError, ValueError
            If a token has no word, or a feature of the name that is added.  The message names it.
        """
        return self._as_fitted()._transformed(X)

    def _transformed(self, X: Sequence[Any]) -> list[list[dict[str, Any]]]:
        sentences, words = self._read(X)
        name = self._name()
        values: list[Any]
        if self.n_classes is None:
            values = list(np.vstack([self.vectors_, np.zeros(self.n_components)]))
        else:
            values = [*map(str, self.word_classes_.tolist()), _UNKNOWN]
        tokens: list[list[dict[str, Any]]] = []
        for i, (sentence, of_sentence) in enumerate(zip(sentences, words, strict=True)):
            tokens.append([])
            for t, (token, word) in enumerate(zip(sentence, of_sentence, strict=True)):
                features = dict(token) if isinstance(token, Mapping) else {WORD: str(token)}
                if name in features:
                    raise ValueError(
                        f"X[{i}][{t}] has a feature {name!r} already; give "
                        f"{type(self).__name__} another name=."
                    )
                features[name] = values[self.vocabulary_.get(word, -1)]
                tokens[-1].append(features)
        return tokens

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the features of tokens.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names before.

        Returns
        -------
        names : ndarray of object, shape (n_names,)
            Names before, and that of the vector or class.
        """
        before = [] if input_features is None else list(input_features)
        return np.array([*before, self._as_fitted()._name()], dtype=object)

    @override
    def _contents(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {"vectors": self.vectors_}
        if self.n_classes is not None:
            arrays["classes"] = self.word_classes_
        return {"words": list(self.vocabulary_)}, arrays

    @override
    def _restore(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        self.vocabulary_ = {str(word): k for k, word in enumerate(header["words"])}
        if len(self.vocabulary_) < len(header["words"]):
            raise DamagedFileError("it has a word twice")
        self.vectors_ = arrays["vectors"]
        if self.n_classes is not None:
            self.word_classes_ = arrays["classes"]

    @override
    def _check_parameters(self) -> None:
        for name in ("n_components", "window", "min_count"):
            checked_whole_number(getattr(self, name), name)
        if self.n_classes is not None:
            checked_whole_number(self.n_classes, "n_classes")
        for name, value in (("word", self.word), ("name", self._name())):
            if not isinstance(value, str):
                raise TypeError(f"{name} is {shown(value)}; give the name of a feature.")

    def _name(self) -> str:
        if self.name is not None:
            return self.name
        return "vector" if self.n_classes is None else "word_class"

    def _read(self, X: Any) -> tuple[list[Any], list[list[str]]]:
        """Return the sentences, and their words in lower case."""
        sentences = listed_sequences(X)
        words = [words_of(sentence, i, (self.word, WORD)) for i, sentence in enumerate(sentences)]
        return sentences, [[word.lower() for word in of_sentence] for of_sentence in words]

    def _rows(self, sentences: list[list[str]], n_between: int) -> IntArray:
        """Return the row of each word, -1 if unknown, with ``n_between`` -1 after a sentence."""
        between = [-1] * n_between
        row = self.vocabulary_.get
        rows = [k for words in sentences for k in (*(row(word, -1) for word in words), *between)]
        return np.array(rows, np.int64)


def _neighbours(rows: IntArray, n_words: int, window: int) -> sparse.csr_array:
    """Return the counts of the words before each word, and beside them of those after it."""
    after = sparse.csr_array((n_words, n_words))
    for k in range(1, window + 1):
        first, second = rows[:-k], rows[k:]
        both = (first >= 0) & (second >= 0)
        at = first[both], second[both]
        after = after + sparse.csr_array((np.ones(len(at[0])), at), (n_words, n_words))
    return sparse.csr_array(sparse.hstack([after.T, after], format="csr"))


def _positive_information(counts: sparse.csr_array) -> sparse.csr_array:
    """Return the positive pointwise mutual information of words and contexts."""
    table = sparse.coo_array(counts)
    words, contexts = table.sum(axis=1), table.sum(axis=0) ** _SMOOTHING
    expected = words[table.row] * contexts[table.col] / contexts.sum()
    values = np.log(table.data / expected)
    positive = values > _LEAST
    at = table.row[positive], table.col[positive]
    return sparse.csr_array((values[positive], at), table.shape)


def _reduced(
    table: sparse.csr_array, n_components: int, random: np.random.RandomState
) -> FloatArray:
    """Return ``U S^(1/2)`` of the largest singular values, with zeros beyond the rank."""
    n_words = table.shape[0]
    if n_components < n_words:
        start = random.normal(size=n_words)
        U, s, V = svds(table, n_components, v0=start)
    else:
        U, s, V = np.linalg.svd(table.toarray(), full_matrices=False)
    order = np.argsort(-s, kind="stable")
    U = svd_flip(U[:, order], V[order])[0]
    s = np.where(s[order] > _DUST * s.max(), s[order], 0.0)
    vectors = np.zeros((n_words, n_components))
    vectors[:, : len(s)] = U * np.sqrt(s)
    return vectors
