"""Tags of sequences: a first-order chain, searched by Viterbi."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost._typing import FloatArray, IntArray
from structboost.contract.listed_outputs import Marginals
from structboost.contract.measures import Measure
from structboost.contract.parts import PartKind, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Task
from structboost.exceptions import TaskError
from structboost.inference.chains import best_sequences, tag_probabilities
from structboost.validation import shown


@dataclass(frozen=True, eq=False)
class Stretch:
    """An input of :class:`ChainTask` that is a piece of a longer sequence.

    Parameters
    ----------
    x : ndarray or (ndarray, ndarray)
        The tokens of the piece, and the steps between them where the task has step features.
    begins, ends : bool
        Whether the piece begins or ends where the sequence does: only there a forbidden first or
        last tag is forbidden.
    """

    x: Any
    begins: bool
    ends: bool


def labelled_stretches(X: Sequence[Any], Y: Sequence[Any]) -> tuple[list[Any], list[IntArray]]:
    """Partially labelled sequences as their fully labelled pieces, to train on.

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
    """
    inputs: list[Any] = []
    outputs: list[IntArray] = []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        tags = np.asarray(y)
        n_tokens = len(_tokens(x))
        if tags.shape != (n_tokens,):
            raise TaskError(
                f"Y[{{sample}}] has shape {tags.shape} for {n_tokens} tokens; give a tag for each.",
                i,
            )
        if len(tags) and tags.dtype.kind not in "iu":
            raise TaskError(
                f"Y[{{sample}}] is {shown(y)}; give whole numbers, -1 where a tag is unknown.", i
            )
        known = np.concatenate(([False], tags >= 0, [False]))
        if known[1:-1].all():
            inputs.append(x)
            outputs.append(tags)
            continue
        borders = np.flatnonzero(known[1:] != known[:-1])
        for first, last in zip(borders[::2], borders[1::2], strict=True):
            inputs.append(Stretch(_piece(x, first, last), first == 0, last == n_tokens))
            outputs.append(tags[first:last])
    return inputs, outputs


class ChainTask(Task):
    """Tags 0..n_tags-1 of the tokens of a sequence, with a score for each pair of neighbours.

    A token has a channel for each tag, a step from a token to the next one for each pair of tags
    (``tag * n_tags + next_tag``).  The loss is the number of wrong tags.  The argmax is Viterbi,
    compiled, for all sequences at once.

    An input is an array (n_tokens, n_features): then pairs of tags score the same at every step.
    With ``step_features`` it is a pair of arrays, of the tokens and of the n_tokens - 1 steps, and
    the scores of pairs depend on the features of the step.

    Parameters
    ----------
    n_tags : int
        At least 2.
    step_features : bool
        Whether inputs bring features of the steps.
    forbidden : iterable of (int or None, int or None)
        Pairs of tags that never follow each other; ``(None, tag)`` forbids a first tag, ``(tag,
        None)`` a last one.

    Raises
    ------
    TaskError
        If a parameter is out of its range.

    Notes
    -----
    Altun, Tsochantaridis and Hofmann, Hidden Markov support vector machines, ICML 2003.
    """

    labelled_kind = "token"

    def __init__(
        self,
        n_tags: int,
        *,
        step_features: bool = False,
        forbidden: Iterable[tuple[int | None, int | None]] = (),
    ) -> None:
        if isinstance(n_tags, bool) or int(n_tags) != n_tags or n_tags < 2:
            raise TaskError(f"n_tags is {n_tags!r}; a chain needs at least 2 tags.")
        self.n_tags = int(n_tags)
        self.step_features = step_features
        self._pairs, self._first, self._last = _penalties(self.n_tags, forbidden)
        self.reads_inputs = bool(self._first.any() or self._last.any())  # type: ignore[misc]
        self.kinds = {"token": PartKind(self.n_tags), "step": PartKind(self.n_tags**2)}

    def parts(self, x: Any) -> dict[str, NDArray[Any]]:
        """Features of the tokens and of the steps; without step features one constant row."""
        if isinstance(_content(x), tuple) != self.step_features:
            raise TaskError(
                f"An input is {'no tuple' if self.step_features else 'a tuple'}; give a tuple of "
                "tokens and steps with step_features=True, otherwise an array of tokens."
            )
        tokens = _tokens(x)
        if not self.step_features:
            return {"token": tokens, "step": np.ones((1, 1))}
        steps = np.asarray(_content(x)[1])
        if len(steps) != max(0, len(tokens) - 1):
            raise TaskError(
                f"An input has {len(tokens)} tokens and {len(steps)} steps; give a step from each "
                "token to the next one."
            )
        return {"token": tokens, "step": steps}

    def joint_feature(self, x: Any, y: Any) -> dict[str, Measure]:
        """One on the tag of each token, and on each pair of neighbouring tags.

        Raises
        ------
        TaskError
            If ``y`` is no allowed sequence of tags for ``x``.
        """
        tags = self._checked(y, None if x is None else len(_tokens(x)))
        self._check_allowed(tags, x)
        pairs = tags[:-1] * self.n_tags + tags[1:]
        steps = np.arange(len(pairs)) * self.step_features
        return {
            "token": Measure(np.arange(len(tags)), tags, np.ones(len(tags))),
            "step": Measure(steps, pairs, np.ones(len(pairs))),
        }

    def loss(self, y: Any, y_pred: Any) -> float:
        """Number of tokens whose tags differ."""
        true = self._checked(y)
        return float(np.sum(true != self._checked(y_pred, len(true))))

    def loss_scores(self, x: Any, y: Any) -> dict[str, NDArray[np.bool_]]:
        """One on each wrong tag."""
        return {"token": np.arange(self.n_tags) != self._checked(y)[:, None]}

    def argmax(self, x: Any, scores: Any) -> IntArray:
        """Tags of the highest score, by Viterbi."""
        return self._best([x], _stacked(scores))

    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> list[IntArray]:
        """Tags of every sequence, in one compiled pass."""
        return np.split(self._best(X, scores), scores.offsets["token"][1:-1])

    def outputs(self, x: Any) -> Iterator[IntArray]:
        """All allowed sequences of tags."""
        for tags in product(range(self.n_tags), repeat=len(_tokens(x))):
            output = np.array(tags, np.int64)
            if self._is_allowed(output, x):
                yield output

    def is_valid(self, x: Any, y: Any) -> bool:
        """Whether ``y`` has an allowed tag for each token."""
        try:
            return self._is_allowed(self._checked(y, len(_tokens(x))), x)
        except TaskError:
            return False

    def separate(self, X: Sequence[Any], Y: Sequence[Any], scores: StackedParts) -> Separation:
        """Most violated tags of every sequence, in one compiled pass.

        Raises
        ------
        TaskError
            If a true output is no allowed sequence of tags; the message names the example.
        """
        starts = scores.offsets["token"]
        true = self.checked_tags(X, Y, np.diff(starts))
        augmented = scores.rows["token"] + 1.0
        augmented[np.arange(len(true)), true] -= 1.0
        found = self._best(X, StackedParts({**scores.rows, "token": augmented}, scores.offsets))
        wrong = np.flatnonzero(found != true)
        tokens = Measure(
            np.repeat(wrong, 2),
            np.column_stack((true[wrong], found[wrong])).ravel(),
            np.tile([1.0, -1.0], len(wrong)),
        )
        owners = np.repeat(np.arange(len(Y)), np.diff(starts))
        inner = np.flatnonzero(owners[1:] == owners[:-1])
        true_pairs = true[inner] * self.n_tags + true[inner + 1]
        found_pairs = found[inner] * self.n_tags + found[inner + 1]
        changed = np.flatnonzero(true_pairs != found_pairs)
        owner = owners[inner[changed]]
        rows = scores.offsets["step"][owner]
        if self.step_features:
            rows = rows + inner[changed] - starts[owner]
        steps = Measure(
            np.repeat(rows, 2),
            np.column_stack((true_pairs[changed], found_pairs[changed])).ravel(),
            np.tile([1.0, -1.0], len(changed)),
        )
        numbers = np.arange(len(Y) + 1)
        indptr = {
            "token": 2 * np.searchsorted(wrong, starts),
            "step": 2 * np.searchsorted(owner, numbers),
        }
        losses = np.bincount(owners[wrong], minlength=len(Y)).astype(np.float64)
        return Separation(losses, {"token": tokens, "step": steps}, indptr)

    def part_labels(self, x: Any, y: Any) -> IntArray:
        """The tags."""
        return np.asarray(y)

    def with_features(self, x: Any, features: Any) -> Any:
        """The same sequence with other features of its tokens."""
        if isinstance(x, Stretch):
            return replace(x, x=self.with_features(x.x, features))
        return (features, x[1]) if isinstance(x, tuple) else features

    def marginals(self, x: Any, scores: Any) -> dict[str, FloatArray]:
        """Probabilities of tags and pairs where sequences have probability ``~ exp(score)``.

        Parameters
        ----------
        x : array or pair of arrays
            One input.
        scores : dict of str to ndarray, shape (n_parts, n_channels)
            Scores of its parts.

        Returns
        -------
        marginals : dict of str to ndarray
            The expected joint feature, of the shape of the scores: of each token the
            probability of each tag, and of each step that of each pair; without step features the
            sum over the steps.

        Raises
        ------
        TaskError
            If no sequence of tags is allowed.
        """
        return self.marginals_batch([x], _stacked(scores)).expected

    def log_sum(self, x: Any, scores: Any) -> float:
        """Logarithm of the sum of ``exp(score)`` over all allowed sequences of tags."""
        return float(self.marginals_batch([x], _stacked(scores)).log_sums[0])

    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        """Marginals of every sequence, in one compiled pass.

        Raises
        ------
        TaskError
            If no sequence of tags is allowed; the message names the example.
        """
        inputs = self._search_inputs(X, scores)
        expected = {kind: np.zeros(rows.shape) for kind, rows in scores.rows.items()}
        log_sums = np.zeros(len(X))
        tag_probabilities(*inputs, expected["token"], expected["step"], log_sums)
        impossible = np.flatnonzero(log_sums == -np.inf)
        if len(impossible):
            i = int(impossible[0])
            starts = scores.offsets["token"]
            raise _impossible(int(starts[i + 1] - starts[i]), i if len(X) > 1 else None)
        return Marginals(expected, log_sums)

    def _best(self, X: Sequence[Any], scores: StackedParts) -> IntArray:
        """Best tags of all tokens of all sequences."""
        inputs = self._search_inputs(X, scores)
        tags = np.empty(len(inputs[0]), np.int64)
        i = best_sequences(*inputs, tags)
        if i >= 0:
            starts = scores.offsets["token"]
            raise _impossible(int(starts[i + 1] - starts[i]), i)
        return tags

    def _search_inputs(
        self, X: Sequence[Any], scores: StackedParts
    ) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray, int]:
        """What both searches take: scores with forbidden ends, and where each sequence is."""
        emissions = np.array(scores.rows["token"], np.float64, order="C")
        starts = scores.offsets["token"]
        if self._first.any() or self._last.any():
            for i, x in enumerate(X):
                if starts[i] < starts[i + 1]:
                    if not isinstance(x, Stretch) or x.begins:
                        emissions[starts[i]] += self._first
                    if not isinstance(x, Stretch) or x.ends:
                        emissions[starts[i + 1] - 1] += self._last
        steps = np.ascontiguousarray(scores.rows["step"], np.float64)
        rows = np.ascontiguousarray(scores.offsets["step"][:-1], np.int64)
        starts = np.ascontiguousarray(starts, np.int64)
        return emissions, steps, self._pairs, starts, rows, int(self.step_features)

    def _checked(self, y: Any, n_tokens: int | None = None) -> IntArray:
        """Tags as an array; TaskError unless they are tags, one for each token."""
        tags = np.asarray(y)
        if tags.ndim != 1 or (len(tags) and tags.dtype.kind not in "iu"):
            raise TaskError(
                f"An output is {shown(y)}; give an array of whole numbers, a tag for each token."
            )
        if n_tokens is not None and len(tags) != n_tokens:
            raise TaskError(f"An output has {len(tags)} tags for {n_tokens} tokens.")
        if len(tags) and not 0 <= tags.min() <= tags.max() < self.n_tags:
            raise TaskError(
                f"An output has tags from {tags.min()} to {tags.max()}; the task has "
                f"0..{self.n_tags - 1}. Take labelled_stretches(X, Y) for sequences with unknown "
                "tags."
            )
        return tags.astype(np.int64, copy=False)

    @property
    def penalties(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """0, or minus infinity where a pair of tags, a first tag or a last tag is forbidden."""
        return self._pairs, self._first, self._last

    def checked_tags(self, X: Sequence[Any] | None, Y: Sequence[Any], sizes: IntArray) -> IntArray:
        """Return the true tags of all tokens of sequences, after a check.

        Parameters
        ----------
        X : sequence or None
            Inputs, where forbidden first and last tags are to be checked.
        Y : sequence of array-like of int
            Tags of each sequence.
        sizes : ndarray of int, shape (n_sequences,)
            Number of tokens of each.

        Raises
        ------
        TaskError
            If a sequence has other tags or is forbidden; the message names it.
        """
        given = [np.asarray(y) for y in Y]
        good = [y.shape for y in given] == [(n,) for n in sizes.tolist()]
        tags = np.concatenate(given) if good else np.zeros(0)
        good = good and tags.dtype.kind in "iu"
        good = good and (not len(tags) or 0 <= tags.min() <= tags.max() < self.n_tags)
        if not good or self._forbids:
            for i, y in enumerate(Y):
                try:
                    own = self._checked(y, int(sizes[i]))
                    self._check_allowed(own, X[i] if X is not None else None)
                except TaskError as error:
                    raise TaskError(f"Y[{{sample}}]: {error}", i) from None
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
        """Whether no first tag, last tag or pair of tags is forbidden."""
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


def _tokens(x: Any) -> NDArray[Any]:
    """Features of the tokens of an input."""
    content = _content(x)
    return np.asarray(content[0] if isinstance(content, tuple) else content)


def _piece(x: Any, first: int, last: int) -> Any:
    """The tokens ``first <= t < last`` of an input, and the steps between them."""
    content = _content(x)
    if isinstance(content, tuple):
        return content[0][first:last], content[1][first : last - 1]
    return content[first:last]


def _stacked(scores: Any) -> StackedParts:
    """Scores of one sequence as a stack of one."""
    return StackedParts(
        scores, {kind: np.array([0, len(rows)], np.int64) for kind, rows in scores.items()}
    )


def _penalties(
    n_tags: int, forbidden: Iterable[tuple[int | None, int | None]]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Minus infinity on forbidden pairs, first tags and last tags."""
    pairs, first, last = np.zeros(n_tags**2), np.zeros(n_tags), np.zeros(n_tags)
    for pair in forbidden:
        if len(pair) != 2 or not all(tag is None or 0 <= tag < n_tags for tag in pair):
            raise TaskError(
                f"forbidden has {shown(pair)}; give pairs of tags in 0..{n_tags - 1}, None for "
                "the outside."
            )
        tag, following = pair
        if tag is None and following is None:
            raise TaskError("forbidden has (None, None); name a tag.")
        if tag is None:
            first[following] = -np.inf
        elif following is None:
            last[tag] = -np.inf
        else:
            pairs[tag * n_tags + following] = -np.inf
    return pairs, first, last


def _impossible(n_tokens: int, sample: int | None) -> TaskError:
    return TaskError(
        f"No sequence of {n_tokens} tags is allowed for "
        f"{'this input' if sample is None else 'X[{sample}]'}; forbid less.",
        sample,
    )
