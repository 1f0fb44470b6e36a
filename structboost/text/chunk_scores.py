"""Precision, recall and F1 of chunks, as ``conlleval`` counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import IntArray
from structboost.errors import warn_user
from structboost.tasks.chunk_tags import SCHEMES, Chunks, ChunkTags
from structboost.text.schemes import checked_tags
from structboost.validation import checked_choice, shown

MICRO, MACRO = "micro", "macro"
METRICS = ("f1", "precision", "recall")
# Fates of true chunks, in the order in which they are looked for.
_FATES = ("correct", "other kind", "other borders", "both", "missed")


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
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        """Fraction of the true chunks that are predicted."""
        return self.n_correct / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.n_true + self.n_predicted
        return 2.0 * self.n_correct / total if total else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class ChunkScores:
    """Scores of chunks, for each kind and for all, and the errors.

    Its text is a table of precision, recall and F1, a table of errors, and the confusions of kinds.

    Attributes
    ----------
    by_kind : dict of str to KindScores
        Counts and scores of each kind, in ascending order.
    total : KindScores
        Counts and scores of all chunks, whose mean is called micro.
    accuracy : float
        Fraction of correct tags.
    errors : dict of str to dict of str to int
        Numbers of true chunks of each kind, by what became of them: ``"correct"``;
        ``"other kind"``, with the right borders; ``"other borders"``, if a predicted chunk of the
        right kind overlaps it; ``"both"``, if only chunks of other kinds do; else ``"missed"``.
        ``"spurious"`` is the number of predicted chunks that overlap no true one.
    confusions : dict of (str, str) to int
        Number of chunks with the right borders for each pair of true and predicted kind that
        differ.
    """

    by_kind: Mapping[str, KindScores]
    total: KindScores
    accuracy: float
    errors: Mapping[str, Mapping[str, int]]
    confusions: Mapping[tuple[str, str], int]

    def __repr__(self) -> str:
        width = max(len("kind"), len(MICRO), *(len(kind) for kind in self.by_kind), 0)
        lines = [f"{'kind':{width}}  precision  recall     f1   true  predicted"]
        for kind, scores in [*self.by_kind.items(), (MICRO, self.total)]:
            lines.append(
                f"{kind:{width}}  {scores.precision:9.4f}  {scores.recall:6.4f} {scores.f1:6.4f} "
                f"{scores.n_true:6d}  {scores.n_predicted:9d}"
            )
        macro = (self.macro(metric) for metric in ("precision", "recall", "f1"))
        lines.append("{:{}}  {:9.4f}  {:6.4f} {:6.4f}".format(MACRO, width, *macro))
        names = [*_FATES, "spurious"]
        lines += ["", "  ".join([f"{'kind':{width}}", *names])]
        for kind, counts in self.errors.items():
            cells = [f"{counts[name]:{len(name)}d}" for name in names]
            lines.append("  ".join([f"{kind:{width}}", *cells]))
        if self.confusions:
            largest = sorted(self.confusions.items(), key=lambda item: (-item[1], item[0]))
            pairs = [f"{count} {a} as {b}" for (a, b), count in largest]
            lines += ["", f"right borders: {', '.join(pairs)}"]
        return "\n".join([*lines, "", f"accuracy of the tags: {self.accuracy:.4f}"])

    def macro(self, metric: str = "f1") -> float:
        """Return the mean of a score over the kinds that are true or predicted.

        Parameters
        ----------
        metric : {"f1", "precision", "recall"}
            The score.

        Returns
        -------
        score : float
            From 0 to 1; 0 if there are no chunks.
        """
        checked_choice(metric, "metric", METRICS)
        values = [getattr(scores, metric) for scores in self.by_kind.values()]
        return float(np.mean(values)) if values else 0.0


def chunk_scores(
    y_true: Sequence[Any], y_pred: Sequence[Any], *, scheme: str | None = None
) -> ChunkScores:
    """Return precision, recall and F1 of chunks, as ``conlleval`` counts them, and the errors.

    A predicted chunk is correct if a true one has the same tokens and the same kind.  Chunks begin
    at the prefixes B, S and U, after O, at another kind, and after E, S and L, so all schemes can
    be scored, and the two arguments may be of different ones.

    Parameters
    ----------
    y_true : sequence of sequences of str
        True tags of each sequence.  Tokens whose tag is None or NaN are left out.
    y_pred : sequence of sequences of str
        Predicted tags.
    scheme : {"iob1", "iob2", "bioes", "bilou"}, optional
        Scheme that the true tags are checked against.  It changes no score.

    Returns
    -------
    scores : ChunkScores
        Scores from 0 to 1, for each kind and for all, and the errors.

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
    macro     0.2500  0.5000 0.3333
    <BLANKLINE>
    kind   correct  other kind  other borders  both  missed  spurious
    LOC          0           1              0     0       0         0
    PER          1           0              0     0       0         0
    <BLANKLINE>
    right borders: 1 LOC as PER
    <BLANKLINE>
    accuracy of the tags: 0.7500
    """
    coder, true, predicted, starts = _read(y_true, y_pred, scheme)
    (of_true, at_true), (of_predicted, at_predicted) = (
        _kinds_of(coder.find(tags, starts), len(tags)) for tags in (true, predicted)
    )
    names = coder.kinds
    used = sorted({*of_true.values(), *of_predicted.values()})
    errors = {names[k]: dict.fromkeys((*_FATES, "spurious"), 0) for k in used}
    confusions: Counter[tuple[str, str]] = Counter()
    for (first, end), kind in of_true.items():
        partner, near = of_predicted.get((first, end)), set(at_predicted[first:end].tolist()) - {-1}
        fate = "both" if near else "missed"
        if partner is not None:
            fate = "correct" if partner == kind else "other kind"
        elif kind in near:
            fate = "other borders"
        errors[names[kind]][fate] += 1
        if fate == "other kind" and partner is not None:
            confusions[names[kind], names[partner]] += 1
    for (first, end), kind in of_predicted.items():
        errors[names[kind]]["spurious"] += bool((at_true[first:end] < 0).all())
    n_true, n_predicted = (Counter(of.values()) for of in (of_true, of_predicted))
    n_correct = {k: errors[names[k]]["correct"] for k in used}
    by_kind = {names[k]: KindScores(n_true[k], n_predicted[k], n_correct[k]) for k in used}
    total = KindScores(len(of_true), len(of_predicted), sum(n_correct.values()))
    accuracy = float(np.mean(true == predicted)) if len(true) else 0.0
    return ChunkScores(by_kind, total, accuracy, errors, dict(confusions))


def chunk_f1(
    y_true: Sequence[Any],
    y_pred: Sequence[Any],
    *,
    kind: str | None = None,
    average: str = MICRO,
    scheme: str | None = None,
) -> float:
    """Return the F1 of chunks, as ``conlleval`` counts them.

    Parameters
    ----------
    y_true, y_pred, scheme
        As for :func:`chunk_scores`.
    kind : str, optional
        Kind whose chunks are counted, by default all.
    average : {"micro", "macro"}
        Whether to count the chunks of all kinds together, or to take the mean over the kinds.

    Returns
    -------
    f1 : float
        From 0 to 1; 0 if there are no chunks.

    Raises
    ------
    TypeError, ValueError
        As for :func:`chunk_scores`.

    Examples
    --------
    >>> from structboost.text import chunk_f1
    >>> chunk_f1([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "O"]])
    0.6666666666666666
    """
    return ChunkScorer("f1", kind=kind, average=average, scheme=scheme).score(y_true, y_pred)


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
    average : {"micro", "macro"}
        Whether to count the chunks of all kinds together, or to take the mean over the kinds.
    scheme : {"iob1", "iob2", "bioes", "bilou"}, optional
        Scheme that the true tags are checked against.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

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

    metric: str = "f1"
    kind: str | None = None
    average: str = MICRO
    scheme: str | None = None

    def __post_init__(self) -> None:
        checked_choice(self.metric, "metric", METRICS)
        checked_choice(self.average, "average", (MICRO, MACRO))
        if self.scheme is not None:
            checked_choice(self.scheme, "scheme", SCHEMES)
        if not isinstance(self.kind, str | None):
            raise TypeError(f"kind is {shown(self.kind)}; give the name of a kind, or None.")
        if self.kind is not None and self.average != MICRO:
            raise ValueError(f"kind is {self.kind!r}, which has no {self.average} mean; give one.")

    def __call__(self, estimator: Any, X: Sequence[Any], y: Sequence[Any]) -> float:
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
            From 0 to 1.

        Raises
        ------
        TypeError, ValueError
            As for :func:`chunk_scores`.
        """
        return self.score(y, estimator.predict(X))

    def score(self, y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
        """Return the score of predicted tags.

        Parameters
        ----------
        y_true, y_pred : sequences of sequences of str
            True and predicted tags.

        Returns
        -------
        score : float
            From 0 to 1.

        Raises
        ------
        TypeError, ValueError
            As for :func:`chunk_scores`.
        """
        scores = chunk_scores(y_true, y_pred, scheme=self.scheme)
        if self.kind is None:
            is_micro = self.average == MICRO
            return float(
                getattr(scores.total, self.metric) if is_micro else scores.macro(self.metric)
            )
        if self.kind not in scores.by_kind:
            warn_user(
                f"kind is {self.kind!r}, of which there is no chunk, so the score is 0; the kinds "
                f"are {shown(list(scores.by_kind))}.",
                UserWarning,
            )
            return 0.0
        return float(getattr(scores.by_kind[self.kind], self.metric))


def _read(
    y_true: Any, y_pred: Any, scheme: str | None
) -> tuple[ChunkTags, IntArray, IntArray, IntArray]:
    """Return indices of the known tags of all sequences, and where chunks cannot go on."""
    true = checked_tags(y_true, "y_true", scheme)
    predicted = checked_tags(y_pred, "y_pred", unknown=False)
    if len(true) != len(predicted):
        raise ValueError(
            f"y_true has {len(true)} sequences and y_pred {len(predicted)}; give one for each."
        )
    for i, pair in enumerate(zip(true, predicted, strict=True)):
        n, m = map(len, pair)
        if n != m:
            raise ValueError(
                f"y_true[{i}] has {n} tags and y_pred[{i}] {m}; give a predicted tag for each."
            )
    flat = [[tag for tags in side for tag in tags] for side in (true, predicted)]
    classes = sorted({tag for tags in flat for tag in tags if tag is not None})
    place: dict[str | None, int] = {tag: k for k, tag in enumerate(classes)} | {None: -1}
    a, b = (np.array([place[tag] for tag in tags], np.int64) for tags in flat)
    is_first = np.zeros(len(a) + 1, bool)
    is_first[np.cumsum([0, *(len(tags) for tags in true)])] = True
    is_first[1:] |= a < 0
    is_known = a >= 0
    starts = np.flatnonzero(is_first[:-1][is_known])
    return ChunkTags(np.array(classes, dtype=object)), a[is_known], b[is_known], starts


def _kinds_of(chunks: Chunks, n_tokens: int) -> tuple[dict[tuple[int, int], int], IntArray]:
    """Return the kind of each chunk by its borders, and that of each token, -1 outside."""
    kinds = {}
    of_tokens = np.full(n_tokens, -1)
    for first, size, kind in zip(*(column.tolist() for column in chunks), strict=True):
        kinds[first, first + size] = kind
        of_tokens[first : first + size] = kind
    return kinds, of_tokens
