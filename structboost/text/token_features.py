"""Features of tokens, as dicts for a tagger, from windows of words and columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import chain, groupby
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from structboost._typing import Examples, Facts, FloatArray, PathName, override
from structboost.faces.forms import listed_sequences
from structboost.files.archive import ArchiveFormat, Array, LoadedFromFile, Part, Schema
from structboost.runtime.called_class import names_calls
from structboost.runtime.fitted_state import committed
from structboost.text.tagged_file import WORD
from structboost.validation import (
    AUTO,
    check_parameters,
    check_sequence,
    checked_list,
    is_text,
    shown,
)

# Lower bounds of the bins of counts, and of fractions of capitals.
_COUNTS = np.array([1.0, 2.0, 4.0, 8.0, 32.0])
_FRACTIONS = np.array([0.05, 0.35, 0.65, 0.95])


# Features of a token, by their names.
Token = dict[str, Any]
# For each lower-cased word, its numbers of occurrences in a text, inside its sentences, and there
# with a capital.  The first word of a sentence is not inside it, because its capital is no hint.
WordCounts = dict[str, tuple[int, int, int]]


def counted(counts: WordCounts, sentences: Sequence[Sequence[str]]) -> WordCounts:
    """Return the counts of the words of these sentences, with those of another text added."""
    table: WordCounts = {}
    for sentence in sentences:
        for t, word in enumerate(sentence):
            lower = word.lower()
            n, inside, capital = table.get(lower) or counts.get(lower, (0, 0, 0))
            table[lower] = (n + 1, inside + (t > 0), capital + (t > 0 and word[:1].isupper()))
    return table


def _bins_elsewhere(counts: WordCounts, sentence: Sequence[str]) -> list[tuple[str, str]]:
    """Return the bins of each word of a sentence of the text, without that occurrence.

    They are those of the number of occurrences, and of the fraction of those inside sentences that
    begins with a capital letter, ``"none"`` without any.
    """
    bins = []
    for t, word in enumerate(sentence):
        n, inside, capital = counts[word.lower()]
        inside -= t > 0
        capital -= t > 0 and word[:1].isupper()
        fraction = _bin(_FRACTIONS, capital / inside) if inside else "none"
        bins.append((_bin(_COUNTS, n - 1), fraction))
    return bins


def _bin(bounds: FloatArray, value: float) -> str:
    return str(int(np.searchsorted(bounds, value, side="right")))


# Words and columns before the first and after the last token.
_START, _END = "<start>", "<end>"
_JOIN = "|"
# Longest prefix and suffix, and longest span of values of a column.
_LONGEST, _VALUES = 4, 3


def _schema(header: Facts, names: Collection[str]) -> Schema:
    return {"": Part({"counts": Array("int64", (len(header["words"]), 3), low=0)})}


_FORMAT = ArchiveFormat(
    name="structboost-token-features",
    what="file of TokenFeatures of structboost",
    remedy="fit the features again, or take another copy of the file",
    schema=_schema,
)


@names_calls
@dataclass(eq=False, repr=False)
class TokenFeatures(  # type: ignore[call-arg]
    LoadedFromFile,
    TransformerMixin,
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
    ``prefix[3]``         first 3 of up to 4 characters, lower-cased; ``suffix[3]`` the last ones
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

    Parameters
    ----------
    window : int
        Number of tokens on each side whose words and columns are features, at most 1,000.
    counts : bool
        Whether to describe where else the word and its neighbours occur in the text.
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

    Examples
    --------
    >>> from structboost.text import TokenFeatures
    >>> features = TokenFeatures(0, counts=False).fit_transform([["Bo", "reads"]])
    >>> features[0][0]
    {'word[0]': 'bo', 'prefix[1]': 'b', 'suffix[1]': 'o', 'prefix[2]': 'bo', 'suffix[2]': 'bo', \
'shape[0]': 'Aa', 'is_title[0]': True, 'word[-1:1]': '<start>|bo', 'word[0:2]': 'bo|reads'}

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
    counts: bool = True
    column_pairs: bool = False
    columns: Any = AUTO
    word: str = WORD

    @committed
    def fit(self, X: Examples, y: Any = None) -> Self:
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
            tokens = chain.from_iterable(s for s in sentences if isinstance(s, list | tuple))
            first = next(tokens, None)
            names = first if isinstance(first, Mapping) else ()
            columns = [name for name in names if name != self.word]
        self.columns_ = list(columns)
        words = [self._read(sentence, i)[0] for i, sentence in enumerate(sentences)]
        text = words if self.counts else []
        self._counts = counted({}, text)
        self._parameters = self.get_params()
        return self

    def transform(self, X: Examples) -> list[list[Token]]:
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
        check_is_fitted(self)
        # The parameters are those of the fit, whatever was set later.
        fitted = copy(self).set_params(**self._parameters)
        read = [fitted._read(sentence, i) for i, sentence in enumerate(listed_sequences(X))]
        text, counts = [words for words, _ in read], self._counts
        # The text of training is counted already.
        if fitted.counts and counted({}, text) != counts:
            counts = counted(counts, text)
        # Features of each word and place are equal wherever the word stands.
        of_word = cache(_features_of_word)
        return [fitted._sentence(words, columns, counts, of_word) for words, columns in read]

    @override
    def save(self, path: PathName) -> None:
        check_is_fitted(self)
        parameters = dict(self._parameters)
        if not isinstance(parameters["columns"], str):
            parameters["columns"] = self.columns_
        header = {
            "parameters": parameters,
            "columns": self.columns_,
            "words": list(self._counts),
        }
        counts = np.array(list(self._counts.values()), np.int64).reshape(-1, 3)
        _FORMAT.write(path, header, {"counts": counts})

    @override
    @classmethod
    def load(cls, path: PathName) -> Self:
        with _FORMAT.opened(path) as (header, arrays):
            loaded = cls(**header["parameters"])
            loaded._check_parameters()
            loaded.columns_ = [str(name) for name in header["columns"]]
            rows = map(tuple, arrays["counts"].tolist())
            loaded._counts = dict(zip(header["words"], rows, strict=True))
            loaded._parameters = loaded.get_params()
        return loaded

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_parameters")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _check_parameters(self) -> None:
        """Raise TypeError or ValueError if a parameter is out of its range."""
        check_parameters(self, self.get_params(deep=False))
        if not is_text(self.columns, AUTO):
            for name in checked_list(self.columns, "columns", "['pos'], or 'auto'"):
                if not isinstance(name, str):
                    raise TypeError(f"columns has {shown(name)}; give names, as strings.")
        if not isinstance(self.word, str):
            raise TypeError(f"word is {shown(self.word)}; give the name of a column.")

    def _sentence(
        self,
        words: list[str],
        columns: dict[str, list[str]],
        counts: WordCounts,
        of_word: Callable[[str, int], Token],
    ) -> list[Token]:
        n, low, high = len(words), -self.window, self.window + 1
        places = [0, *(k for k in range(low, high) if k)]
        near = [k for k in places if abs(k) <= 1]
        tokens = []
        for t in range(n):
            token = {}
            for k in places:
                if 0 <= t + k < n:
                    token.update(of_word(words[t + k], k))
                else:
                    token[f"word[{k}]"] = _START if k < 0 else _END
            tokens.append(token)
        bins = _bins_elsewhere(counts, words) if self.counts else []
        for t, (_, capitals) in enumerate(bins):
            first = "first" if t == 0 else "inside"
            tokens[t]["case[0]"] = _JOIN.join([capitals, shape_of(words[t][:1]), first])
            for k in near:
                if 0 <= t + k < n:
                    tokens[t][f"count[{k}]"], tokens[t][f"capitals[{k}]"] = bins[t + k]
        before, after = [_START] * high, [_END] * high
        lower = [*before, *map(str.lower, words), *after]
        for a in (-1, 0):
            _add_span(tokens, "word", lower, high, a, 2)
        for name, inside in columns.items():
            values = [*before, *inside, *after]
            for size in range(1, _VALUES + 1):
                for a in range(low, high - size + 1):
                    _add_span(tokens, name, values, high, a, size)
            pairs = [*((0, k) for k in near), *((k, 0) for k in near if k)]
            for i, j in pairs if self.column_pairs else ():
                for t, token in enumerate(tokens, high):
                    token[f"word[{i}]+{name}[{j}]"] = _JOIN.join((lower[t + i], values[t + j]))
        return tokens

    def _read(self, sentence: Any, i: int) -> tuple[list[str], dict[str, list[str]]]:
        """Return the words of a sentence, and the values of its columns."""
        if hasattr(sentence, "columns"):
            raise TypeError(f"X[{i}] is {shown(sentence)}; give a list of words or of dicts.")
        check_sequence(sentence, f"X[{i}]", "give a list of words or of dicts")
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


def _features_of_word(word: str, k: int) -> Token:
    """Return the features of a word at a place."""
    lower = word.lower()
    features: Token = {f"word[{k}]": lower}
    if k == 0:
        for n in range(1, min(_LONGEST, len(lower)) + 1):
            features[f"prefix[{n}]"], features[f"suffix[{n}]"] = lower[:n], lower[-n:]
    if abs(k) <= 1:
        features[f"shape[{k}]"] = shape_of(word)
    if word.istitle():
        features[f"is_title[{k}]"] = True
    if word.isupper():
        features[f"is_upper[{k}]"] = True
    if k == 0 and any(map(str.isdigit, word)):
        features["has_digit[0]"] = True
        if word.isdigit():
            features["is_digit[0]"] = True
    return features


def shape_of(word: str) -> str:
    """Return the kinds of characters of a word, repeated ones once, as ``Aa-0``."""
    kinds = (
        "A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word
    )
    return "".join(kind for kind, _ in groupby(kinds))


def _add_span(
    tokens: list[Token], name: str, values: list[str], place: int, first: int, size: int
) -> None:
    """Add the values of a column in a span around each token, the first of which has a place."""
    end = first + size
    key = f"{name}[{first}]" if size == 1 else f"{name}[{first}:{end}]"
    for t, token in enumerate(tokens, place):
        token[key] = _JOIN.join(values[t + first : t + end])
