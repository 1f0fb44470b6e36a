"""First-order chains of tags, searched by Viterbi."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from structboost._typing import AnyArray, BoolArray, Examples, FloatArray, IntArray, override
from structboost.contract.parts import Marginals, PartKind, SparseFeature, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Decomposes, Lists, Separates, Validates
from structboost.errors import TaskError, on_example
from structboost.inference.arguments import as_array, checked_features, labels_of, passes, penalties
from structboost.inference.chain import Sequences, best_tags, sums_of_tags
from structboost.tasks.base import BatchTask, exchange, indicator
from structboost.validation import (
    check_inputs,
    check_sequence,
    checked_flag,
    checked_whole_number,
    shown,
)

# A single sequence is cut into so many runs, of which some are held out.
_N_RUNS = 10


@dataclass(frozen=True, eq=False)
class Stretch:
    """An input of :class:`ChainTask` that is a piece of a longer sequence.

    Parameters
    ----------
    x : ndarray or tuple of ndarray
        The tokens of the piece, and the vectors of tokens where the task has these.
    begins, ends : bool
        Whether the piece begins or ends where the sequence does.  Only there are first and last
        tags forbidden.
    """

    x: Any
    begins: bool
    ends: bool


def labelled_stretches(X: Examples, Y: Examples) -> tuple[list[Any], list[IntArray]]:
    """Cut partially labelled sequences into their fully labelled pieces, to train on.

    A token without a label, -1, is left out with the steps to and from it.  The problem stays
    convex, and its certificate holds.

    Parameters
    ----------
    X : sequence
        Inputs of :class:`ChainTask`.
    Y : sequence of array-like of int
        Tags, -1 where unknown.

    Returns
    -------
    X, Y : list
        Sequences without unknown tags as they are, pieces of the others as :class:`Stretch`.

    Raises
    ------
    TaskError
        If a sequence has other tags than whole numbers, or not one for each token.
    """
    check_inputs(X)
    check_sequence(Y, "Y", "give the tags of each sequence")
    if len(X) != len(Y):
        raise TaskError(f"X has {len(X)} sequences and Y {len(Y)}; they must be equally many.")
    inputs = []
    outputs = []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        check_sequence(_tokens(x), f"X[{i}]", "give (n_tokens, n_features)")
        n_tokens = len(_tokens(x))
        tags = labels_of(
            y, "Y[{sample}]", n_tokens, low=-(2**62), more=", -1 where a tag is unknown", sample=i
        )
        has_tag = np.concatenate(([False], tags >= 0, [False]))
        if has_tag[1:-1].all():
            inputs.append(x)
            outputs.append(tags)
            continue
        borders = np.flatnonzero(has_tag[1:] != has_tag[:-1])
        for first, last in zip(borders[::2], borders[1::2], strict=True):
            inputs.append(Stretch(_piece(x, first, last), first == 0, last == n_tokens))
            outputs.append(tags[first:last])
    return inputs, outputs


def runs_of(x: Any, y: IntArray) -> tuple[list[Stretch], list[IntArray]]:
    """Cut a sequence into ten runs of about equally many tokens, or into its tokens.

    Parameters
    ----------
    x : object
        Input of :class:`ChainTask`.
    y : ndarray of int, shape (n_tokens,)

    Returns
    -------
    X : list of Stretch
    Y : list of ndarray of int
    """
    begins, ends = (x.begins, x.ends) if isinstance(x, Stretch) else (True, True)
    borders = np.linspace(0, len(y), min(_N_RUNS, len(y)) + 1).astype(int).tolist()
    runs = list(pairwise(borders))
    inputs = [Stretch(_piece(x, a, b), begins and not a, ends and b == len(y)) for a, b in runs]
    return inputs, [y[a:b] for a, b in runs]


class ChainTask(BatchTask, Decomposes, Lists, Separates, Validates):
    """Tags 0..n_tags-1 of the tokens of a sequence, with a score for each pair of neighbours.

    A token has a channel for each tag, a step from a token to the next one for each pair of tags
    (``tag * n_tags + next_tag``).  The loss is the number of wrong tags.  The argmax is
    :func:`~structboost.inference.viterbi`, and the marginals are those of
    :func:`~structboost.inference.forward_backward`, for all sequences at once.  Of equally good
    tags the argmax takes those that come first, compared from the last token on.

    An input is an array (n_tokens, n_features).  With ``vectors`` tokens have further features, of
    a kind with weak learners of its own, whose scores are added to those of the token.  An input is
    then a pair of arrays, with a row for each token in both.

    Parameters
    ----------
    n_tags : int
        At least 1; there is nothing to learn about a single tag.
    vectors : bool
        Whether inputs bring a second table of features of the tokens, such as dense ones beside
        indices of active features.
    forbidden : iterable of (int or None, int or None)
        Pairs of tags that never follow each other.  ``None`` means the start or the end of the
        sequence: ``(None, tag)`` forbids a first tag, ``(tag, None)`` a last one.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Notes
    -----
    Altun, Tsochantaridis and Hofmann, Hidden Markov support vector machines, ICML 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import ChainTask
    >>> task = ChainTask(2)
    >>> x = np.zeros((3, 1))  # three tokens with one feature
    >>> scores = {"token": np.array([[1.0, 0.0], [0.0, 0.4], [2.0, 0.0]]), "step": np.zeros((2, 4))}
    >>> task.argmax(x, scores)
    array([0, 1, 0])
    >>> task.loss([0, 1, 0], [0, 0, 0])
    1.0
    """

    labelled_kind = "token"
    separates_in_batches = True

    def __init__(
        self,
        n_tags: int,
        *,
        vectors: bool = False,
        forbidden: Iterable[tuple[int | None, int | None]] = (),
    ) -> None:
        self.n_tags = checked_whole_number(n_tags, "n_tags")
        self.vectors = checked_flag(vectors, "vectors")
        self._pairs, self._first, self._last = penalties(forbidden, self.n_tags, "tags", ends=True)
        self.reads_inputs = bool(self._first.any() or self._last.any())
        self.kinds = {"token": PartKind(self.n_tags), "step": PartKind(self.n_tags**2)}
        if self.vectors:
            self.kinds["vector"] = PartKind(self.n_tags)

    @override
    def parts(self, x: Any) -> dict[str, AnyArray]:
        content = _content(x)
        if isinstance(content, tuple) != self.vectors or (self.vectors and len(content) != 2):
            form = "a tuple" if isinstance(content, tuple) else "no tuple"
            wanted = "a pair of tokens and vectors" if self.vectors else "an array of tokens"
            raise TaskError(f"An input is {form}; give {wanted}, as vectors is {self.vectors}.")
        parts = {
            "token": checked_features(_tokens(x), "(n_tokens, n_features)"),
            "step": np.ones((1, 1)),
        }
        if self.vectors:
            parts["vector"] = checked_features(content[1], "(n_vectors, n_features) for vectors")
            if len(parts["vector"]) != len(parts["token"]):
                raise TaskError(
                    f"An input has {len(parts['token'])} tokens and {len(parts['vector'])} "
                    "vectors; give a vector for each token."
                )
        return parts

    @override
    def joint_feature(self, x: Any, y: Any) -> dict[str, SparseFeature]:
        tags = self._checked(y, None if x is None else len(_tokens(x)))
        self._check_allowed(tags, x)
        pairs = tags[:-1] * self.n_tags + tags[1:]
        steps = indicator(np.zeros(len(pairs), np.int64), pairs)
        return self._by_kind(indicator(np.arange(len(tags)), tags), steps)

    def _by_kind(self, of_tokens: Any, of_steps: Any) -> dict[str, Any]:
        """Return values by kind, where vectors have those of their tokens."""
        more = {"vector": of_tokens} if self.vectors else {}
        return {"token": of_tokens, "step": of_steps, **more}

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        true = self._checked(y)
        return float(np.sum(true != self._checked(y_pred, len(true))))

    @override
    def loss_scores(self, x: Any, y: Any) -> dict[str, BoolArray]:
        return {"token": np.arange(self.n_tags) != self._checked(y)[:, None]}

    @override
    def argmax_batch(
        self, X: Examples, scores: StackedParts, Y: Examples | None = None
    ) -> list[IntArray]:
        return np.split(self._best(X, scores), scores.offsets["token"][1:-1])

    @override
    def outputs(self, x: Any) -> Iterator[IntArray]:
        for tags in product(range(self.n_tags), repeat=len(_tokens(x))):
            output = np.array(tags, np.int64)
            if self._is_allowed(output, x):
                yield output

    @override
    def is_valid(self, x: Any, y: Any) -> bool:
        return passes(self.joint_feature, x, y)

    @override
    def separate(self, X: Examples, Y: Examples, scores: StackedParts) -> Separation:
        starts = scores.offsets["token"]
        true = self.checked_tags(X, Y, np.diff(starts))
        augmented = scores.rows["token"] + 1.0  # the scores of vectors are added later
        augmented[np.arange(len(true)), true] -= 1.0
        best = self._best(X, StackedParts({**scores.rows, "token": augmented}, scores.offsets))
        wrong = np.flatnonzero(best != true)
        owners = np.repeat(np.arange(len(Y)), np.diff(starts))
        inner = np.flatnonzero(owners[1:] == owners[:-1])
        true_pairs = true[inner] * self.n_tags + true[inner + 1]
        best_pairs = best[inner] * self.n_tags + best[inner + 1]
        changed = np.flatnonzero(true_pairs != best_pairs)
        owner = owners[inner[changed]]
        rows = scores.offsets["step"][owner]
        differences = self._by_kind(
            exchange((wrong, wrong), (true[wrong], best[wrong])),
            exchange((rows, rows), (true_pairs[changed], best_pairs[changed])),
        )
        indptr = self._by_kind(
            2 * np.searchsorted(wrong, starts), 2 * np.searchsorted(owner, np.arange(len(Y) + 1))
        )
        losses = np.bincount(owners[wrong], minlength=len(Y)).astype(np.float64)
        return Separation(losses, differences, indptr)

    @override
    def part_labels(self, x: Any, y: Any) -> IntArray:
        return np.asarray(y)

    @override
    def with_features(self, x: Any, features: Any) -> Any:
        if isinstance(x, Stretch):
            return replace(x, x=self.with_features(x.x, features))
        return (features, *x[1:]) if isinstance(x, tuple) else features

    @override
    def marginals_batch(self, X: Examples, scores: StackedParts) -> Marginals:
        of_tokens, of_steps, log_sums = self._sums(X, scores, merges_steps=False)
        return Marginals(self._by_kind(of_tokens, of_steps), log_sums)

    def tag_marginals(self, X: Examples, scores: StackedParts) -> FloatArray:
        """Compute the probability of each tag of all tokens, without those of pairs.

        Parameters
        ----------
        X : sequence
            Inputs.
        scores : StackedParts
            Scores of their parts.

        Returns
        -------
        probabilities : ndarray, shape (n_tokens, n_tags)

        Raises
        ------
        TaskError
            If no tags are allowed for a sequence.
        """
        return self._sums(X, scores)[0]

    @override
    def log_sums_batch(self, X: Examples, scores: StackedParts) -> FloatArray:
        return self._sums(X, scores)[2]

    def _sums(
        self, X: Examples, scores: StackedParts, *, merges_steps: bool = True
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the probabilities of tags and of pairs, and the logarithms of sums."""
        sums = sums_of_tags(self._search_inputs(X, scores, merges_steps=merges_steps))
        impossible = np.flatnonzero(sums[2] == -np.inf)
        if len(impossible):
            raise _impossible(scores, int(impossible[0]))
        return sums

    def _best(self, X: Examples, scores: StackedParts) -> IntArray:
        """Find the best tags of all tokens of all sequences."""
        tags, impossible = best_tags(self._search_inputs(X, scores))
        if impossible >= 0:
            raise _impossible(scores, impossible)
        return tags

    def _search_inputs(
        self, X: Examples, scores: StackedParts, *, merges_steps: bool = True
    ) -> Sequences:
        """Return the arguments of both searches, scores with forbidden ends and first rows.

        A row of steps that all sequences share in memory is not copied if ``merges_steps``.
        """
        emissions = np.array(scores.rows["token"], np.float64, order="C")
        if "vector" in scores.rows:
            emissions += scores.rows["vector"]
        starts = scores.offsets["token"]
        if self._first.any() or self._last.any():
            for i, x in enumerate(X):
                if starts[i] < starts[i + 1]:
                    if not isinstance(x, Stretch) or x.begins:
                        emissions[starts[i]] += self._first
                    if not isinstance(x, Stretch) or x.ends:
                        emissions[starts[i + 1] - 1] += self._last
        steps = scores.rows["step"]
        rows = np.ascontiguousarray(scores.offsets["step"][:-1], np.int64)
        if merges_steps and len(steps) > 1 and steps.strides[0] == 0:
            steps, rows = steps[:1], np.zeros_like(rows)
        # Views that cannot be written are another type to compile for.
        steps = np.require(steps, np.float64, ["C", "W"])
        starts = np.ascontiguousarray(starts, np.int64)
        return emissions, steps, self._pairs, starts, rows

    def _checked(self, y: Any, n_tokens: int | None = None) -> IntArray:
        """Return tags as an array, after a check that there is one for each token."""
        more = ". Take labelled_stretches(X, Y) for sequences with unknown tags"
        return labels_of(y, "An output", n_tokens, self.n_tags - 1, more=more)

    @property
    def penalties(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """0, or minus infinity where a pair of tags, a first tag or a last tag is forbidden."""
        return self._pairs, self._first, self._last

    def checked_tags(self, X: Examples | None, Y: Examples, sizes: IntArray) -> IntArray:
        """Return the true tags of all tokens of sequences, after a check.

        Parameters
        ----------
        X : sequence or None
            Inputs, where forbidden first and last tags are to be checked.
        Y : sequence of array-like of int
            Tags of each sequence.
        sizes : ndarray of int, shape (n_sequences,)
            Number of tokens of each.

        Returns
        -------
        tags : ndarray of int64, shape (n_tokens,)
            Tags of the sequences, one after the other.

        Raises
        ------
        TaskError
            If a sequence has other tags or is forbidden; the message names it.
        """
        by_sequence = [as_array(y) for y in Y]
        good = [y.shape for y in by_sequence] == [(n,) for n in sizes.tolist()]
        tags = np.concatenate(by_sequence) if good else np.zeros(0)
        good = good and tags.dtype.kind in "iu"
        good = good and (not len(tags) or 0 <= tags.min() <= tags.max() < self.n_tags)
        if not good or self._forbids:
            for i, y in enumerate(Y):
                checked = on_example("joint_feature", i, self._checked, y, int(sizes[i]))
                of_input = X[i] if X is not None else None
                on_example("joint_feature", i, self._check_allowed, checked, of_input)
        return tags.astype(np.int64, copy=False)

    @property
    def _forbids(self) -> bool:
        return bool(self._pairs.any() or self._first.any() or self._last.any())

    def _check_allowed(self, tags: IntArray, x: Any) -> None:
        if self._forbids and not self._is_allowed(tags, x):
            raise TaskError(
                f"The tags {shown(tags.tolist())} are forbidden; correct them, or allow them."
            )

    def _is_allowed(self, tags: IntArray, x: Any) -> bool:
        """Return whether no first tag, last tag or pair of tags is forbidden."""
        if not len(tags):
            return True
        pairs = tags[:-1] * self.n_tags + tags[1:]
        begins, ends = (x.begins, x.ends) if isinstance(x, Stretch) else (True, True)
        return not (
            self._pairs[pairs].any()
            or (begins and self._first[tags[0]])
            or (ends and self._last[tags[-1]])
        )


def _content(x: Any) -> Any:
    return x.x if isinstance(x, Stretch) else x


def _tokens(x: Any) -> AnyArray:
    """Return the features of the tokens of an input."""
    content = _content(x)
    return as_array(content[0] if isinstance(content, tuple) else content)


def _piece(x: Any, first: int, last: int) -> Any:
    """Cut out the tokens ``first <= t < last`` of an input."""
    content = _content(x)
    if isinstance(content, tuple):
        return tuple(table[first:last] for table in content)
    return content[first:last]


def _impossible(scores: StackedParts, sample: int) -> TaskError:
    n_tokens = np.diff(scores.offsets["token"])[sample]
    return TaskError(
        f"No sequence of {n_tokens} tags is allowed for X[{{sample}}]; forbid less.", sample
    )
