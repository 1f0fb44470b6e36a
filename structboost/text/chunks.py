"""Chunks in tags such as B-PER, I-PER and O, conversions between schemes, and scores of chunks.

Precision, recall and F1 are those that ``conlleval`` counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Literal, NamedTuple

import numpy as np

from structboost._typing import Examples
from structboost.faces.forms import is_missing_tag
from structboost.tasks.chunk_tags import ChunkTags, Scheme, converted, is_chunk_tag
from structboost.validation import check_sequence, checked_choice, shown


class Chunk(NamedTuple):
    """Chunk of a sequence.

    Attributes
    ----------
    start, end : int
        First token, and the one after the last.
    kind : str
        Kind, such as ``"PER"``, or an empty string if tags are prefixes alone.
    """

    start: int
    end: int
    kind: str


def list_chunks(tags: Sequence[str]) -> list[Chunk]:
    """Return the chunks of a sequence of tags, as ``conlleval`` finds them.

    A chunk begins at the prefixes B, S and U, after O, at another kind, and after the prefixes E, S
    and L.  So tags of all schemes can be read, even where they break their scheme.

    Parameters
    ----------
    tags : sequence of str
        Tags of one sequence, such as ``["B-PER", "I-PER", "O"]``.

    Returns
    -------
    chunks : list of Chunk
        The chunks in their order.

    Raises
    ------
    TypeError, ValueError
        If a tag is not O, nor a prefix of B, I, E, S, L or U with a kind.

    Examples
    --------
    >>> from structboost.text import list_chunks
    >>> list_chunks(["B-PER", "I-PER", "O", "I-LOC"])
    [Chunk(start=0, end=2, kind='PER'), Chunk(start=3, end=4, kind='LOC')]
    """
    (listed,) = checked_tags([tags], "tags", unknown=False)
    if not listed:
        return []
    classes, indices = np.unique(np.array(listed, dtype=object), return_inverse=True)
    coder = ChunkTags(classes)
    chunks = coder.find(indices.astype(np.int64), np.zeros(1, np.int64))
    ends, kinds = chunks.first + chunks.sizes, np.array(coder.kinds)[chunks.kinds]
    return list(map(Chunk, chunks.first.tolist(), ends.tolist(), kinds.tolist()))


def convert_tags(tags: Examples, to: Scheme) -> list[list[str]]:
    """Convert tags to another scheme.

    Chunks are read as ``conlleval`` reads them, whatever the scheme.

    Parameters
    ----------
    tags : sequence of sequences of str
        Tags of each sequence.
    to : {"iob1", "iob2", "bioes", "bilou"}
        The scheme to convert to.

    Returns
    -------
    tags : list of list of str
        Tags with the same chunks.

    Raises
    ------
    TypeError, ValueError
        If there is no such scheme, or tags are not those of chunks.

    Examples
    --------
    >>> from structboost.text import convert_tags
    >>> convert_tags([["B-PER", "I-PER", "O", "B-LOC"]], "bioes")
    [['B-PER', 'E-PER', 'O', 'S-LOC']]
    """
    checked_choice(to, "to", Scheme)
    sequences = checked_tags(tags, "tags", unknown=False)
    return [converted(list_chunks(sequence), len(sequence), to) for sequence in sequences]


def checked_tags(y: Any, name: str, *, unknown: bool = True) -> list[list[Any]]:
    """Return tags of chunks as lists, None where they are missing.

    TypeError or ValueError, which names the tag, if ``y`` has other tags than those of chunks, or
    one is missing without ``unknown``.
    """
    out = []
    check_sequence(y, name, "give a list of tags for each sequence")
    for i, tags in enumerate(y):
        check_sequence(tags, f"{name}[{i}]", "give a list of tags for each sequence")
        out.append([None if is_missing_tag(tag) else tag for tag in tags])
        for t, tag in enumerate(out[-1]):
            if not (is_chunk_tag(tag) or (unknown and tag is None)):
                raise ValueError(
                    f"{name}[{i}][{t}] is {shown(tag)}; give O, or B, I, E, S, L or U with a kind, "
                    "as B-PER."
                )
    return out


Metric = Literal["f1", "precision", "recall"]


class KindScores(NamedTuple):
    """Counts of the chunks of a kind, and their scores from 0 to 1.

    As in ``conlleval``, a score whose denominator is 0 is 0.

    Attributes
    ----------
    n_true, n_predicted, n_correct : int
        Numbers of chunks.  A correct one has the borders and the kind of a true one.
    """

    n_true: int
    n_predicted: int
    n_correct: int

    @property
    def precision(self) -> float:
        """Fraction of the predicted chunks that are correct."""
        return self.n_correct / max(self.n_predicted, 1)

    @property
    def recall(self) -> float:
        """Fraction of the true chunks that are predicted."""
        return self.n_correct / max(self.n_true, 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2.0 * self.n_correct / max(self.n_true + self.n_predicted, 1)


@dataclass(frozen=True, eq=False, repr=False)
class ChunkScores:
    """Scores of chunks, for each kind and for all.

    Its text is a table of precision, recall and F1.

    Attributes
    ----------
    by_kind : dict of str to KindScores
        Counts and scores of each kind, in ascending order.
    total : KindScores
        Counts and scores of all chunks, whose mean is called micro.
    accuracy : float
        Fraction of correct tags.
    """

    by_kind: Mapping[str, KindScores]
    total: KindScores
    accuracy: float

    def __repr__(self) -> str:
        width = max(len("micro"), *map(len, self.by_kind), 0)
        lines = [f"{'kind':{width}}  precision  recall     f1   true  predicted"]
        for kind, scores in [*self.by_kind.items(), ("micro", self.total)]:
            lines.append(
                f"{kind:{width}}  {scores.precision:9.4f}  {scores.recall:6.4f} {scores.f1:6.4f} "
                f"{scores.n_true:6d}  {scores.n_predicted:9d}"
            )
        return "\n".join([*lines, "", f"accuracy of the tags: {self.accuracy:.4f}"])


def chunk_scores(y_true: Examples, y_pred: Examples) -> ChunkScores:
    """Return precision, recall and F1 of chunks, as ``conlleval`` counts them.

    A predicted chunk is correct if a true one has the same tokens and the same kind.  Chunks begin
    at the prefixes B, S and U, after O, at another kind, and after E, S and L, so all schemes can
    be scored, and the two arguments may be of different ones.

    Parameters
    ----------
    y_true : sequence of sequences of str
        True tags of each sequence.  Tokens whose tag is None or NaN are left out.
    y_pred : sequence of sequences of str
        Predicted tags.

    Returns
    -------
    scores : ChunkScores
        Scores from 0 to 1, for each kind and for all.

    Raises
    ------
    TypeError, ValueError
        If tags are not O or a prefix with a kind, or the two arguments do not have equal lengths.

    Notes
    -----
    Tjong Kim Sang and Buchholz, Introduction to the CoNLL-2000 shared task: chunking, 2000.

    Examples
    --------
    >>> from structboost.text import chunk_scores
    >>> y_true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> y_pred = [["B-PER", "I-PER", "O", "B-PER"]]
    >>> scores = chunk_scores(y_true, y_pred)
    >>> scores.by_kind["PER"].precision, scores.total.f1
    (0.5, 0.5)
    >>> scores
    kind   precision  recall     f1   true  predicted
    LOC       0.0000  0.0000 0.0000      1          0
    PER       0.5000  1.0000 0.6667      1          2
    micro     0.5000  0.5000 0.5000      2          2
    <BLANKLINE>
    accuracy of the tags: 0.7500
    """
    of_true = checked_tags(y_true, "y_true")
    of_predicted = checked_tags(y_pred, "y_pred", unknown=False)
    lengths, others = (list(map(len, side)) for side in (of_true, of_predicted))
    if lengths != others:
        pairs = enumerate(zip_longest(lengths, others))
        i = next(i for i, (n, m) in pairs if n != m)
        raise ValueError(
            f"y_true has {len(lengths)} sequences and y_pred {len(others)}, of which those at "
            f"index {i} differ in length; give a predicted tag for each token."
        )
    true, predicted = (list(chain.from_iterable(side)) for side in (of_true, of_predicted))
    classes = sorted({*true, *predicted} - {None})
    place = {tag: k for k, tag in enumerate(classes)} | {None: -1}
    a, b = (np.array([place[tag] for tag in tags], np.int64) for tags in (true, predicted))
    # Chunks do not go on after the end of a sequence, nor after a token of unknown tag.
    is_known, is_first = a >= 0, np.zeros(len(a) + 1, bool)
    is_first[np.cumsum([0, *lengths])] = True
    is_first[1:] |= ~is_known
    a, b, starts = a[is_known], b[is_known], np.flatnonzero(is_first[:-1][is_known])
    coder = ChunkTags(np.array(classes, dtype=object))
    in_true, in_predicted = (coder.find(tags, starts) for tags in (a, b))
    is_correct = np.isin(coder.codes(in_true, len(a)), coder.codes(in_predicted, len(a)))
    kinds = (in_true.kinds, in_predicted.kinds, in_true.kinds[is_correct])
    counts = np.array([np.bincount(of, minlength=len(coder.kinds)) for of in kinds])
    return ChunkScores(
        {
            kind: KindScores(*row)
            for kind, row in zip(coder.kinds, counts.T.tolist(), strict=True)
            if any(row)
        },
        KindScores(*counts.sum(axis=1).tolist()),
        float(np.mean(a == b)) if len(a) else 0.0,
    )


@dataclass(frozen=True)
class ChunkScorer:
    """Scorer of taggers by their chunks, ``scorer(tagger, X, y)``.

    ``scoring=`` of scikit-learn's ``GridSearchCV`` and ``cross_val_score`` takes it, and so does
    that of :class:`structboost.StructBoostTagger`.

    Parameters
    ----------
    metric : {"f1", "precision", "recall"}
        The score.
    kind : str, optional
        Kind whose chunks are counted, by default all.

    Raises
    ------
    ValueError
        If there is no such score.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from structboost import StructBoostTagger
    >>> from structboost.text import ChunkScorer
    >>> X = [[{"word": "Ada"}, {"word": "sleeps"}], [{"word": "Bo"}, {"word": "reads"}]] * 4
    >>> y = [["B-PER", "O"]] * 8
    >>> cross_val_score(StructBoostTagger(), X, y, scoring=ChunkScorer(), cv=2).tolist()
    [1.0, 1.0]
    """

    metric: Metric = "f1"
    kind: str | None = None

    def __post_init__(self) -> None:
        checked_choice(self.metric, "metric", Metric)

    def __call__(self, estimator: Any, X: Examples, y: Examples) -> float:
        """Return the score of the predictions of a tagger.

        Parameters
        ----------
        estimator : tagger
            A fitted tagger or a pipeline that ends with one.
        X, y : sequences
            Sequences, and their true tags.

        Returns
        -------
        score : float
            From 0 to 1; 0 if there is no chunk of this kind.

        Raises
        ------
        TypeError, ValueError
            As for :func:`chunk_scores`.
        """
        scores = chunk_scores(y, estimator.predict(X))
        none = KindScores(0, 0, 0)
        counts = scores.total if self.kind is None else scores.by_kind.get(self.kind, none)
        return float(getattr(counts, self.metric))
