"""Features of tokens, as dicts for a tagger, from windows of words and columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from hashlib import sha256
from itertools import groupby
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from structboost._typing import IntArray, override
from structboost.errors import ModelFileError
from structboost.faces.sequence_forms import listed_sequences
from structboost.files.archive import ArchiveFormat
from structboost.files.saved import LoadedFromFile
from structboost.files.schema import Array, Part, Schema
from structboost.runtime.documentation import Documented
from structboost.runtime.fitted_state import committed
from structboost.text.schemes import check_ordered
from structboost.text.tagged_file import WORD
from structboost.validation import (
    checked_flag,
    checked_list,
    checked_whole_number,
    is_text,
    shown,
)

# Lower bounds of the bins of counts, and of fractions of capitals.
_COUNTS = np.array([1, 2, 4, 8, 32])
_FRACTIONS = np.array([0.05, 0.35, 0.65, 0.95])


class WordCounts:
    """Counts of lower-cased words in a text, inside its sentences, and there with a capital.

    The first word of a sentence is not inside it, because its capital is no hint.

    Parameters
    ----------
    table : dict of str to tuple of int, optional
        The three numbers of each word.
    """

    def __init__(self, table: Mapping[str, tuple[int, int, int]] | None = None) -> None:
        self.table = {} if table is None else dict(table)

    def plus(self, sentences: Iterable[Sequence[str]]) -> WordCounts:
        """Return the counts of the words of these sentences, with those of this text added."""
        table: dict[str, tuple[int, int, int]] = {}
        for sentence in sentences:
            for t, word in enumerate(sentence):
                lower = word.lower()
                n, inside, capital = table.get(lower) or self.table.get(lower, (0, 0, 0))
                table[lower] = (n + 1, inside + (t > 0), capital + (t > 0 and _is_capital(word)))
        return WordCounts(table)

    def elsewhere(self, sentence: Sequence[str]) -> list[tuple[str, str]]:
        """Return the bins of each word of a sentence of this text, without that occurrence.

        They are those of the number of occurrences, and of the fraction of those inside sentences
        that begins with a capital letter, ``"none"`` without any.
        """
        bins = []
        for t, word in enumerate(sentence):
            n, inside, capital = self.table[word.lower()]
            inside -= t > 0
            capital -= t > 0 and _is_capital(word)
            fraction = _bin(_FRACTIONS, capital / inside) if inside else "none"
            bins.append((_bin(_COUNTS, n - 1), fraction))
        return bins


def _is_capital(word: str) -> bool:
    return word[:1].isupper()


def _bin(bounds: IntArray, value: float) -> str:
    return str(int(np.searchsorted(bounds, value, side="right")))


AUTO = "auto"
# Words and columns before the first and after the last token.
_START, _END = "<start>", "<end>"
_JOIN = "|"
# Sign of a character that was lost when a file was decoded, and the letter that replaces all that
# can be lost.  It is a lower-case one, as most of them are.
_LOST, _LETTER = "\ufffd", "\u00f8"
_CAN_BE_LOST = re.compile(r"[^\x00-\x7f]")


def _schema(header: Mapping[str, Any], names: Collection[str]) -> Schema:
    return {"": Part({"counts": Array("int64", (len(header["words"]), 3), low=0)})}


_FORMAT = ArchiveFormat(
    name="structboost-token-features",
    version=1,
    what="file of TokenFeatures of structboost",
    error=ModelFileError,
    remedy="fit the features again, or take another copy of the file",
    schema=_schema,
)


@dataclass(eq=False, repr=False)
class TokenFeatures(
    LoadedFromFile,
    TransformerMixin,
    Documented,
    BaseEstimator,
    # Tokens are no data frame, whatever the output of other transformers is set to.
    auto_wrap_output_keys=None,
):
    """Transformer of sentences to features of their tokens, for a tagger in a pipeline.

    A token gets a dict of features that :class:`structboost.StructBoostTagger`, CRFsuite and
    scikit-learn's ``DictVectorizer`` take.  Their names give the template and, in brackets, the
    place relative to the token:

    ====================  ========================================================================
    ``word[-1]``          lower-cased word, in the window
    ``word[-1:1]``        lower-cased words from place -1 to 0, before place 1, joined by ``|``
    ``prefix[3]``         first 3 characters, lower-cased; ``suffix[3]`` the last ones
    ``shape[0]``          kinds of characters, repeated ones once, as ``Aa-0`` for ``Boeing-747``
    ``is_title[0]``       one capital letter at the beginning; ``is_upper[0]`` only capitals
    ``has_digit[0]``      a digit in the word; ``is_digit[0]`` digits alone
    ``count[0]``          number of occurrences of the word elsewhere in the text, in bins
    ``capitals[0]``       fraction of those inside sentences that begin with a capital, in bins
    ``case[0]``           that, whether the token begins with one, and whether the sentence does
    ``pos[-1:1]``         values of the column ``pos``, from place -1 to 0
    ``word[0]+pos[-1]``   word and value of the column before it, if ``column_pairs``
    ====================  ========================================================================

    The text is that of training, and that of the sentences of a call of :meth:`transform`, which
    need no tags.  So give it all sentences of a document in one call.  Rare words, and words with
    a capital inside sentences, are often names.

    If most characters outside ASCII in training are U+FFFD, its letters were lost in decoding.
    Then all such characters are replaced by one letter, in training and later.

    Parameters
    ----------
    window : int
        Number of tokens on each side whose words and columns are features.
    prefixes, suffixes : int
        Length of the longest prefix and of the longest suffix.
    shape : bool
        Whether to describe the kinds of characters of the token and of its neighbours.
    case : bool
        Whether to describe capital letters and digits.
    counts : bool
        Whether to describe where else the word and its neighbours occur in the text.
    word_ngrams : int
        Length of the longest sequence of words that contains the token and is one feature.
    column_ngrams : int
        Length of the longest sequence of values of a column in the window that is one feature.
    column_pairs : bool
        Whether pairs of the token's word and a value of a column at places -1 to 1, and pairs of
        its own value and a word beside it, are features.  They help to find phrases by parts of
        speech, and not to find names.
    columns : sequence of str or "auto"
        Columns beside the word that are features.  ``"auto"`` means all columns of the first token
        in training.
    word : str
        Column of the word, where tokens are dicts.

    Attributes
    ----------
    columns_ : list of str
        Columns beside the word.
    has_lost_letters_ : bool
        Whether characters outside ASCII are replaced by one letter.

    Examples
    --------
    >>> from structboost.text import TokenFeatures
    >>> features = TokenFeatures(1, prefixes=0, suffixes=2, counts=False, word_ngrams=1)
    >>> for token in features.fit_transform([["Ada", "sleeps"]])[0]:
    ...     print(token)
    {'word[0]': 'ada', 'suffix[1]': 'a', 'suffix[2]': 'da', 'shape[0]': 'Aa', 'is_title[0]': True, \
'word[-1]': '<start>', 'word[1]': 'sleeps', 'shape[1]': 'a'}
    {'word[0]': 'sleeps', 'suffix[1]': 's', 'suffix[2]': 'ps', 'shape[0]': 'a', 'word[-1]': 'ada', \
'shape[-1]': 'Aa', 'is_title[-1]': True, 'word[1]': '<end>'}

    A pipeline that tags sentences:

    >>> from sklearn.pipeline import make_pipeline
    >>> from structboost import StructBoostTagger
    >>> X = [["Ada", "sleeps"], ["Bo", "reads", "Cy"]] * 5
    >>> y = [["B-PER", "O"], ["B-PER", "O", "B-PER"]] * 5
    >>> make_pipeline(TokenFeatures(), StructBoostTagger()).fit(X, y).predict([["Di", "reads"]])
    [['B-PER', 'O']]
    """

    window: int = 2
    _: KW_ONLY
    prefixes: int = 4
    suffixes: int = 4
    shape: bool = True
    case: bool = True
    counts: bool = True
    word_ngrams: int = 2
    column_ngrams: int = 3
    column_pairs: bool = False
    columns: Any = AUTO
    word: str = WORD

    @committed
    def fit(self, X: Sequence[Any], y: Any = None) -> Self:
        """Learn the columns of the tokens, and count the words.

        Parameters
        ----------
        X : sequence
            Sentences.  A sentence is a list of words, or of dicts of columns.
        y : object, optional
            Ignored.

        Returns
        -------
        self : TokenFeatures
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter or a token cannot be used.
        """
        self._check_parameters()
        sentences = listed_sequences(X)
        columns = self.columns
        if is_text(columns, AUTO):
            first = next((token for sentence in sentences for token in _tokens(sentence)), None)
            names = list(first) if isinstance(first, Mapping) else []
            columns = [name for name in names if name != self.word]
        self.columns_ = list(columns)
        words = [self._read(sentence, i)[0] for i, sentence in enumerate(sentences)]
        characters = [_CAN_BE_LOST.findall(word) for sentence in words for word in sentence]
        lost = [c == _LOST for of_word in characters for c in of_word]
        self.has_lost_letters_ = sum(lost) * 2 > len(lost)
        mended = [self._mended(sentence) for sentence in words] if self.counts else []
        self._counts, self._digest = WordCounts().plus(mended), _digest(mended)
        self._parameters = self.get_params()
        return self

    def transform(self, X: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """Return the features of all tokens.

        The words of ``X`` are counted with those of training.  If ``X`` is the text of training, as
        a whole, they are not counted twice.

        Parameters
        ----------
        X : sequence
            Sentences, as for :meth:`fit`.

        Returns
        -------
        features : list of list of dict
            Features of each token of each sentence, by name.

        Raises
        ------
        TypeError, ValueError
            If a token has no word, lacks a column, or is neither a string nor a dict.  The message
            names it.
        """
        return self._as_fitted()._transformed(X)

    def _transformed(self, X: Sequence[Any]) -> list[list[dict[str, Any]]]:
        read = [self._read(sentence, i) for i, sentence in enumerate(listed_sequences(X))]
        sentences = [self._mended(words) for words, _ in read]
        counts = self._counts
        # The text of training is counted already.
        if self.counts and _digest(sentences) != self._digest:
            counts = counts.plus(sentences)
        # Features of each word and place, which are equal wherever the word stands.
        caches: dict[int, dict[str, dict[str, Any]]] = {
            k: {} for k in range(-self.window, self.window + 1)
        }
        return [
            self._sentence(words, columns, counts, caches)
            for words, (_, columns) in zip(sentences, read, strict=True)
        ]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the features that tokens can have.

        Parameters
        ----------
        input_features : object, optional
            Ignored.

        Returns
        -------
        names : ndarray of object, shape (n_names,)
            Keys of the dicts.
        """
        fitted = self._as_fitted()
        # A sentence whose words have all features at all places.
        size = max(fitted.prefixes, fitted.suffixes, 1)
        words = ("X" + "x" * size, "X" * size, "9" * size)
        token = dict.fromkeys(fitted.columns_, "")
        n = 2 * fitted.window + 3
        tokens = [token | {fitted.word: word} for word in words for _ in range(n)]
        names = dict.fromkeys(name for token in fitted._transformed([tokens])[0] for name in token)
        return np.array(list(names), dtype=object)

    @override
    def save(self, path: str | PathLike[str]) -> None:
        fitted = self._as_fitted()
        words, parameters = fitted._counts.table, dict(self._parameters)
        if not isinstance(self._parameters["columns"], str):
            parameters["columns"] = fitted.columns_
        header = {
            "parameters": parameters,
            "columns": fitted.columns_,
            "has_lost_letters": bool(fitted.has_lost_letters_),
            "digest": fitted._digest,
            "words": list(words),
        }
        counts = np.array(list(words.values()), np.int64).reshape(-1, 3)
        _FORMAT.write(path, header, {"counts": counts})

    @override
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        with _FORMAT.opened(path) as (header, arrays):
            loaded = cls(**header["parameters"])
            loaded._check_parameters()
            loaded.columns_ = [str(name) for name in header["columns"]]
            loaded.has_lost_letters_ = bool(header["has_lost_letters"])
            loaded._digest = str(header["digest"])
            rows = map(tuple, arrays["counts"].tolist())
            loaded._counts = WordCounts(dict(zip(header["words"], rows, strict=True)))
            loaded._parameters = loaded.get_params()
        return loaded

    def _as_fitted(self) -> Self:
        """Return the transformer with the parameters of the fit, whatever was set later."""
        check_is_fitted(self)
        return copy(self).set_params(**self._parameters)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_parameters")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _check_parameters(self) -> None:
        """Raise TypeError or ValueError if a parameter is out of its range."""
        for name in ("window", "prefixes", "suffixes", "column_ngrams", "word_ngrams"):
            checked_whole_number(getattr(self, name), name, least=int(name == "word_ngrams"))
        for name in ("shape", "case", "counts", "column_pairs"):
            checked_flag(getattr(self, name), name)
        if not is_text(self.columns, AUTO):
            for name in checked_list(self.columns, "columns", "['pos'], or 'auto'"):
                if not isinstance(name, str):
                    raise TypeError(f"columns has {shown(name)}; give names, as strings.")
        if not isinstance(self.word, str):
            raise TypeError(f"word is {shown(self.word)}; give the name of a column.")

    def _places(self) -> list[int]:
        """Return the places of the window, the token first."""
        return [0, *(k for k in range(-self.window, self.window + 1) if k)]

    def _spans(self) -> list[tuple[int, int]]:
        """Return the spans of the values of a column that are one feature."""
        low, high = -self.window, self.window + 1
        sizes = range(1, self.column_ngrams + 1)
        return [(a, a + n) for n in sizes for a in range(low, high - n + 1)]

    def _spans_of_words(self) -> list[tuple[int, int]]:
        sizes = range(2, self.word_ngrams + 1)
        return [(a, a + n) for n in sizes for a in range(1 - n, 1)]

    def _mended(self, words: list[str]) -> list[str]:
        """Return words with one letter in place of all those that were lost in training."""
        if not self.has_lost_letters_:
            return words
        return [_CAN_BE_LOST.sub(_LETTER, word) for word in words]

    def _pairs(self, column: str) -> list[tuple[tuple[int, int], str]]:
        """Return the places of a word and a value that are one feature, and its name."""
        near = self._near_places() if self.column_pairs else []
        places = [*((0, k) for k in near), *((k, 0) for k in near if k)]
        return [((i, j), f"word[{i}]+{column}[{j}]") for i, j in places]

    def _sentence(
        self, words: list[str], columns: dict[str, list[str]], counts: WordCounts, caches: Any
    ) -> list[dict[str, Any]]:
        n = len(words)
        places = self._places()
        tokens: list[dict[str, Any]] = []
        for t in range(n):
            token: dict[str, Any] = {}
            for k in places:
                at = t + k
                if 0 <= at < n:
                    cache = caches[k]
                    of_word = cache.get(words[at])
                    if of_word is None:
                        of_word = cache[words[at]] = self._of_word(words[at], k)
                    token.update(of_word)
                else:
                    token[f"word[{k}]"] = _START if at < 0 else _END
            tokens.append(token)
        if self.counts:
            self._add_counts(tokens, words, counts)
        lower = [word.lower() for word in words]
        _add_spans(tokens, "word", lower, self._spans_of_words())
        for name, values in columns.items():
            _add_spans(tokens, name, values, self._spans())
            around = [[_START, *texts, _END] for texts in (lower, values)]
            for (i, j), pair in self._pairs(name):
                ofs = (texts[1 + k : n + 1 + k] for texts, k in zip(around, (i, j), strict=True))
                for token, both in zip(tokens, zip(*ofs, strict=True), strict=True):
                    token[pair] = _JOIN.join(both)
        return tokens

    def _add_counts(
        self, tokens: list[dict[str, Any]], words: list[str], counts: WordCounts
    ) -> None:
        bins = counts.elsewhere(words)
        for t, (token, word, (_, capitals)) in enumerate(zip(tokens, words, bins, strict=True)):
            first = "first" if t == 0 else "inside"
            token["case[0]"] = _JOIN.join([capitals, shape_of(word[:1]), first])
            for k in self._near_places():
                if 0 <= t + k < len(words):
                    token[f"count[{k}]"], token[f"capitals[{k}]"] = bins[t + k]

    def _near_places(self) -> list[int]:
        """Return the places of the token and its neighbours in the window."""
        return [k for k in self._places() if abs(k) <= 1]

    def _read(self, sentence: Any, i: int) -> tuple[list[str], dict[str, list[str]]]:
        """Return the words of a sentence, and the values of its columns."""
        check_ordered(sentence, f"X[{i}]", "give a list of words or of dicts", is_read_twice=True)
        words: list[str] = []
        columns: dict[str, list[str]] = {name: [] for name in self.columns_}
        for t, token in enumerate(sentence):
            is_dict = isinstance(token, Mapping)
            word = token.get(self.word) if is_dict else token
            if not isinstance(word, str):
                remedy = f"give it a string {self.word!r}" if is_dict else "give words or dicts"
                raise TypeError(f"X[{i}][{t}] is {shown(token)}; {remedy}.")
            words.append(str(word))
            for name, values in columns.items():
                value = token.get(name) if is_dict else None
                if not isinstance(value, str | int | float | np.generic):
                    raise ValueError(
                        f"X[{i}][{t}] is {shown(token)}, without text or a number in the column "
                        f"{name!r} of fit; give each token as a dict with {self.word!r} and text "
                        f"for {name!r}, or fit {type(self).__name__}(columns=[]) and the tagger "
                        "without this column.  Vectors are added to what transform returns."
                    )
                values.append(str(value))
        return words, columns

    def _of_word(self, word: str, k: int) -> dict[str, Any]:
        """Return the features of a word at a place."""
        lower = word.lower()
        features: dict[str, Any] = {f"word[{k}]": lower}
        if k == 0:
            for n in range(1, min(self.prefixes, len(lower)) + 1):
                features[f"prefix[{n}]"] = lower[:n]
            for n in range(1, min(self.suffixes, len(lower)) + 1):
                features[f"suffix[{n}]"] = lower[-n:]
        if self.shape and abs(k) <= 1:
            features[f"shape[{k}]"] = shape_of(word)
        if self.case:
            if word.istitle():
                features[f"is_title[{k}]"] = True
            if word.isupper():
                features[f"is_upper[{k}]"] = True
            if k == 0 and any(map(str.isdigit, word)):
                features["has_digit[0]"] = True
                if word.isdigit():
                    features["is_digit[0]"] = True
        return features


def _digest(sentences: list[list[str]]) -> str:
    """Return a digest of a text, which recognises that of training."""
    digest = sha256()
    for words in sentences:
        digest.update("\n".join([*words, "\n"]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def shape_of(word: str) -> str:
    """Return the kinds of characters of a word, repeated ones once, as ``Aa-0``."""
    kinds = (
        "A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word
    )
    return "".join(kind for kind, _ in groupby(kinds))


def _named(name: str, a: int, b: int) -> str:
    return f"{name}[{a}]" if b - a == 1 else f"{name}[{a}:{b}]"


def _add_spans(
    tokens: list[dict[str, Any]], name: str, values: list[str], spans: list[tuple[int, int]]
) -> None:
    """Add the values of a column in spans around each token."""
    if not spans:
        return
    low, high = min(a for a, _ in spans), max(b for _, b in spans)
    padded = [*[_START] * -low, *values, *[_END] * (high - 1)]
    for a, b in spans:
        key, n = _named(name, a, b), b - a
        start = a - low
        if n == 1:
            for t, token in enumerate(tokens):
                token[key] = padded[start + t]
        else:
            for t, token in enumerate(tokens):
                token[key] = _JOIN.join(padded[start + t : start + t + n])


def _tokens(sentence: Any) -> Iterable[Any]:
    return () if isinstance(sentence, str) or not isinstance(sentence, Iterable) else sentence
