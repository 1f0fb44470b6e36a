"""Classes that have codes, such as labels and words, and outputs of any kind that are listed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from structboost._typing import Examples, FloatArray, IntArray, SignArray, override
from structboost.contract.parts import Marginals, OutputCodes, PartKind, SparseFeature, StackedParts
from structboost.contract.separation import Separation
from structboost.contract.task import Lists, Separates, Validates
from structboost.errors import TaskError
from structboost.inference.arguments import as_array, check_pairs_fit, not_negative, real_array
from structboost.runtime.compiled import compiled
from structboost.tasks.base import TableTask
from structboost.validation import array_of, check_sequence, checked_whole_number, shown

CODINGS = ("ecoc", "one_vs_all", "random")
# Classes up to which all 2^(K-1) - 1 distinct columns are used (Dietterich and Bakiri, 1995).
_MAX_EXHAUSTIVE = 7
_MAX_DRAWS = 200


def coding_matrix(coding: Any, n_classes: int, random_state: np.random.RandomState) -> SignArray:
    """Make a coding matrix of ``n_classes`` words.

    Parameters
    ----------
    coding : {"ecoc", "one_vs_all", "random"} or array-like, shape (n_classes, n_bits)
        ``ecoc``: all distinct columns for up to 7 classes; beyond, random columns whose words are
        farthest apart of 200 draws (Dietterich and Bakiri).  ``random``: as many distinct columns,
        one draw.
    n_classes : int
        Number of classes.
    random_state : RandomState
        Source of the random columns.

    Returns
    -------
    code : ndarray of int8, shape (n_classes, n_bits)
        A word of -1 and 1 for each class.

    Raises
    ------
    ValueError
        If a matrix has other entries than -1 and 1, two equal words, or a column that separates no
        classes apart.
    """
    check_pairs_fit(n_classes, "classes")
    if isinstance(coding, str):
        if coding == "one_vs_all":
            return (2 * np.eye(n_classes) - 1).astype(np.int8)
        if coding == "ecoc":
            return (
                exhaustive_code(n_classes)
                if n_classes <= _MAX_EXHAUSTIVE
                else _far_apart(n_classes, random_state)
            )
        if coding == "random":
            return _distinct_columns(n_classes, random_state)
        raise ValueError(
            f"coding is {coding!r}; choose one of {', '.join(map(repr, CODINGS))}, or give a "
            "matrix."
        )
    words = array_of(coding)
    if words.ndim != 2 or len(words) != n_classes or not np.isin(words, (-1, 1)).all():
        raise ValueError(
            f"coding has shape {words.shape}; give a row of -1 and 1 for each of the {n_classes} "
            "classes."
        )
    if len(np.unique(words, axis=0)) < n_classes or (words == words[0]).all(axis=0).any():
        raise ValueError(
            "coding has the same word for two classes, or a column of one sign, which tells no "
            "classes apart."
        )
    return words.astype(np.int8)


def exhaustive_code(n_classes: int) -> SignArray:
    """List all 2^(n_classes - 1) - 1 columns that differ in more than sign."""
    splits = np.arange(1, 2 ** (n_classes - 1))
    bits = (splits[None, :] >> np.arange(n_classes - 1)[:, None]) & 1
    return np.vstack((np.full(len(splits), -1), 2 * bits - 1)).astype(np.int8)


def random_column(n_classes: int, random_state: np.random.RandomState) -> FloatArray:
    """Split the classes at random in two parts that are not empty, as AdaBoost.ECC does."""
    while True:
        column = random_state.choice((-1.0, 1.0), n_classes)
        if abs(column.sum()) < n_classes:
            return column


def _distinct_columns(n_classes: int, random_state: np.random.RandomState) -> SignArray:
    """Draw columns, no two equal or opposite, about 15 log2 of the classes if they are many."""
    is_small = n_classes <= _MAX_EXHAUSTIVE
    n_bits = 2 ** (n_classes - 1) - 1 if is_small else int(np.ceil(15 * np.log2(n_classes)))
    seen: dict[tuple[float, ...], None] = {}
    while len(seen) < n_bits:
        column = random_column(n_classes, random_state)
        seen.setdefault(tuple(column * column[0]))
    matrix = np.array(list(seen)).T.astype(np.int8)
    return (
        matrix
        if len(np.unique(matrix, axis=0)) == n_classes
        else _distinct_columns(n_classes, random_state)
    )


def _far_apart(n_classes: int, random_state: np.random.RandomState) -> SignArray:
    """Choose the draw whose two nearest words are farthest apart."""
    draws = [_distinct_columns(n_classes, random_state) for _ in range(_MAX_DRAWS)]
    products = [
        matrix.astype(int) @ matrix.astype(int).T - 2 * matrix.shape[1] * np.eye(n_classes)
        for matrix in draws
    ]
    return draws[int(np.argmin([product.max() for product in products]))]


# Codes by rows: where each begins, channels and values of the entries that are not 0.
_Codes = tuple[IntArray, IntArray, FloatArray]


class CodeTask(TableTask, Separates):
    """Classes 0..n_classes-1, each a row of a code matrix, with the score ``<code[c], F(x)>``.

    An input is a feature vector; its one part is the input itself.  Of equally good classes
    the argmax takes the first, and in training another one than the truth, if there is one.

    Parameters
    ----------
    code : ndarray of int8, shape (n_classes, n_channels)
        Label codes of the classes.
    losses : ndarray of float64, shape (n_classes, n_classes), optional
        Loss of each (true, predicted) pair of classes.  Default: 0 on the diagonal, else 1.
    """

    separates_in_batches = True
    # Label of the first class, and from each label to the next.
    _first, _step = 0, 1

    def __init__(self, code: SignArray, losses: FloatArray | None = None) -> None:
        self.code = code
        self.n_classes = len(code)
        check_pairs_fit(self.n_classes, "classes")
        self.losses = 1.0 - np.eye(self.n_classes) if losses is None else losses
        self.kinds = {"x": PartKind(n_channels=code.shape[1], response=(-1.0, 1.0))}

    @override
    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        return self.code[[self._class(y)]].astype(np.float64)

    @override
    def loss(self, y: Any, y_pred: Any) -> float:
        return float(self.losses[self._class(y), self._class(y_pred)])

    @override
    def argmax_batch(
        self, X: Examples, scores: StackedParts, Y: Examples | None = None
    ) -> list[Any]:
        by_class = self.class_scores(scores.rows["x"])
        if Y is not None:
            by_class = by_class + self.losses[self.labels(Y)]
        rows: list[Any] = np.argmax(by_class, axis=1).tolist()
        return rows

    def _class(self, y: Any, sample: int | None = None) -> int:
        """Return the row of an output in the code, after a check."""
        is_number = isinstance(y, int | float | np.integer | np.floating | np.ndarray | np.bool_)
        row = (float(y) - self._first) / self._step if is_number and not np.ndim(y) else np.nan
        if not (0 <= row < self.n_classes and row % 1 == 0):
            name = "A label" if sample is None else "Y[{sample}]"
            labels = (self._first + self._step * k for k in (0, self.n_classes - 1))
            raise TaskError(
                f"{name} is {shown(y)}; this {type(self).__name__} takes the labels "
                f"{'..'.join(map(str, labels))}. Number other labels, as "
                "sklearn.preprocessing.LabelEncoder does.",
                sample,
            )
        return int(row)

    def class_scores(self, scores: FloatArray) -> FloatArray:
        """Compute the scores of the classes from those of the channels.

        Parameters
        ----------
        scores : ndarray, shape (n_parts, n_channels)
            Scores of the channels.

        Returns
        -------
        by_class : ndarray, shape (n_parts, n_classes)
            Scores of the classes.
        """
        return np.asarray(scores @ self.code.T.astype(np.float64), np.float64)

    @override
    def separate(self, X: Examples, Y: Examples, scores: StackedParts) -> Separation:
        losses, rows, channels, values, indptr = _separated(
            self.class_scores(scores.rows["x"]), self.losses, self.labels(Y), self._entries
        )
        return Separation(losses, {"x": SparseFeature(rows, channels, values)}, {"x": indptr})

    @cached_property
    def _entries(self) -> _Codes:
        classes, channels = np.nonzero(self.code)
        starts = np.searchsorted(classes, np.arange(self.n_classes + 1)).astype(np.int64)
        values = self.code[classes, channels].astype(np.float64)
        return starts, np.ascontiguousarray(channels), values

    @override
    def marginals_batch(self, X: Examples, scores: StackedParts) -> Marginals:
        by_class = self.class_scores(scores.rows["x"])
        log_sums = logsumexp(by_class, axis=1)
        expected = np.exp(by_class - log_sums[:, None]) @ self.code.astype(np.float64)
        return Marginals({"x": expected}, log_sums)

    @override
    def codes(self, Y: Examples) -> OutputCodes:
        return OutputCodes(self.code, self.labels(Y), self.losses)

    def labels(self, Y: Examples) -> IntArray:
        """Return the row of each true output in the code.

        Parameters
        ----------
        Y : sequence, shape (n_examples,)
            True outputs.

        Returns
        -------
        labels : ndarray of int64, shape (n_examples,)
            Rows of the code.

        Raises
        ------
        TaskError
            If one is no class; the message names the example.
        """
        table = as_array(Y)
        if table.ndim > 1 and table.dtype.kind != "O":
            raise TaskError(f"Y has shape {table.shape}; give one label for each example.")
        if table.ndim == 1 and table.dtype.kind in "fiub":
            is_row = self._step == 1
            rows = table if is_row else (table.astype(np.float64) - self._first) / self._step
            if ((0 <= rows) & (rows < self.n_classes) & (np.floor(rows) == rows)).all():
                return rows.astype(np.int64)
        return np.array([self._class(y, i) for i, y in enumerate(Y)], np.int64)


def _separated(
    scores: FloatArray, losses: FloatArray, labels: IntArray, codes: _Codes
) -> tuple[FloatArray, IntArray, IntArray, FloatArray, IntArray]:
    """Return the losses of the best classes with their loss added, and where the codes differ.

    The differences are entries: rows, channels and values, and where those of each row begin.
    """
    # Python allocates, because numba compiles each kind of allocation anew.
    n = len(labels)
    rivals, best, of_rivals = labels.copy(), np.empty(n), np.empty(n)
    room = _find_rivals(scores, losses, labels, codes[0], rivals, best, of_rivals)
    rows, channels, values = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    indptr = np.zeros(n + 1, np.int64)
    _write_differences(codes, labels, rivals, rows, channels, values, indptr)
    end = indptr[-1]
    return of_rivals, rows[:end], channels[:end], values[:end], indptr


@compiled
def _find_rivals(
    scores: FloatArray,
    losses: FloatArray,
    labels: IntArray,
    starts: IntArray,
    rivals: IntArray,
    best: FloatArray,
    of_rivals: FloatArray,
) -> int:
    """Find the best class of each row with its loss added, the other one in a tie with the truth.

    The rivals begin as the truth.  Returns the most entries of differences of their codes, and two
    more, which do not count.  Class after class and without branches: no processor could predict
    them, and each would cost as much as the rest.
    """
    for i in range(len(labels)):
        best[i] = scores[i, labels[i]]
    for c in range(scores.shape[1]):
        for i in range(len(labels)):
            true, rival, before = labels[i], rivals[i], best[i]
            value = scores[i, c] + losses[true, c]
            ties = (value == before) & (rival == true)
            is_better = (c != true) & ((value > before) | ties)
            best[i] = value if is_better else before
            rivals[i] = c if is_better else rival
    room = 2
    for i in range(len(labels)):
        true, rival = labels[i], rivals[i]
        of_rivals[i] = losses[true, rival]
        size = starts[true + 1] - starts[true] + starts[rival + 1] - starts[rival]
        room += size if true != rival else 0
    return room


@compiled
def _write_differences(
    codes: _Codes,
    labels: IntArray,
    rivals: IntArray,
    rows: IntArray,
    channels: IntArray,
    values: FloatArray,
    indptr: IntArray,
) -> None:
    """Write the code of the true class less that of the rival, row by row."""
    starts, code_channels, code_values = codes
    end = indptr[0]
    for i in range(len(labels)):
        a, b = starts[labels[i]], starts[rivals[i]]
        a_end, b_end = starts[labels[i] + 1], starts[rivals[i] + 1]
        if a_end - a == 1 and b_end - b == 1:
            # Where classes are channels; without a branch, as above.
            left, right = code_channels[a], code_channels[b]
            value, other = code_values[a], -code_values[b]
            is_one, in_order = left == right, left < right
            rows[end] = rows[end + 1] = i
            channels[end], channels[end + 1] = (left, right) if in_order else (right, left)
            values[end] = value + other if is_one else value if in_order else other
            values[end + 1] = other if in_order else value
            end += (1 if value + other != 0.0 else 0) if is_one else 2
        elif labels[i] != rivals[i]:
            while a < a_end or b < b_end:
                from_a = b == b_end or (a < a_end and code_channels[a] <= code_channels[b])
                from_b = a == a_end or (b < b_end and code_channels[b] <= code_channels[a])
                value = 0.0
                if from_a:
                    channels[end] = code_channels[a]
                    value += code_values[a]
                    a += 1
                if from_b:
                    channels[end] = code_channels[b]
                    value -= code_values[b]
                    b += 1
                if value != 0.0:
                    rows[end], values[end] = i, value
                    end += 1
        indptr[i + 1] = end


class MulticlassTask(CodeTask):
    """Classes 0..n_classes-1 with the orthogonal label code (15) and the 0/1 loss.

    An input is a feature vector; its one part is the input itself, its channels are the classes.
    Of equally good classes the argmax takes the first.

    Parameters
    ----------
    n_classes : int
        At least 2.

    Raises
    ------
    ValueError, TypeError
        If ``n_classes`` is out of its range.
    MemoryError
        If the losses of all pairs of classes do not fit into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import MulticlassTask
    >>> task = MulticlassTask(3)
    >>> task.loss(0, 2)
    1.0
    >>> task.argmax([0.0], np.array([[0.2, 0.5, 0.1]]))
    1
    """

    separates_in_batches = True

    def __init__(self, n_classes: int) -> None:
        n = checked_whole_number(n_classes, "n_classes", least=2)
        check_pairs_fit(n, "classes")
        super().__init__(np.eye(n, dtype=np.int8))

    @override
    def class_scores(self, scores: FloatArray) -> FloatArray:
        return scores


class BinaryTask(CodeTask):
    """Two labels, -1 and 1, with the joint feature ``y / 2`` and the 0/1 loss.

    An input is a feature vector; its one part is the input itself.  Of equally good labels the
    argmax takes 1, and in training the wrong one.

    Notes
    -----
    StructBoost, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import BinaryTask
    >>> task = BinaryTask()
    >>> task.argmax([0.0], np.array([[0.7]]))
    1
    """

    separates_in_batches = True
    _first, _step = -1, 2

    def __init__(self) -> None:
        super().__init__(np.array([[0], [1]], np.int8))

    @override
    def joint_feature(self, x: Any, y: Any) -> FloatArray:
        return np.array([[self._class(y) - 0.5]])

    @override
    def argmax_batch(
        self, X: Examples, scores: StackedParts, Y: Examples | None = None
    ) -> list[int]:
        score = scores.rows["x"][:, 0]
        # A tie goes to the wrong label.
        true = -1 if Y is None else 2 * self.labels(Y) - 1
        best: list[int] = np.where((Y is not None) - true * score >= 0, -true, true).tolist()
        return best

    @override
    def marginals_batch(self, X: Examples, scores: StackedParts) -> Marginals:
        # The joint feature is the code less a half.
        expected, log_sums = super().marginals_batch(X, scores)
        return Marginals({"x": expected["x"] - 0.5}, log_sums - 0.5 * scores.rows["x"][:, 0])


class CodedTask(CodeTask):
    """Classes 0..n_classes-1, each a word of -1 and 1, with the 0/1 loss.

    A channel is a bit; class c scores ``M(c, :) F(x)`` (1).  Of equally good classes the argmax
    takes the first.

    Parameters
    ----------
    code : array-like, shape (n_classes, n_bits)
        The words.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost.tasks import CodedTask
    >>> task = CodedTask([[1, 1], [1, -1], [-1, 1]])
    >>> task.argmax([0.0], np.array([[0.3, -0.9]]))
    1
    """

    separates_in_batches = True

    def __init__(self, code: Any) -> None:
        words = real_array(code, "code", ("n_classes", "n_bits"))
        if len(words) < 2 or not np.isin(words, (-1, 1)).all():
            raise TaskError(
                f"code has shape {words.shape}; give a row of -1 and 1 for each of at least 2 "
                "classes."
            )
        super().__init__(words.astype(np.int8))


class EnumeratedTask(CodeTask, Lists, Validates):
    """Outputs of any kind that can be listed, each with a row of a code matrix.

    An input is a feature vector; its one part is the input itself.  Output k scores ``<codes[k],
    F(x)>``, so outputs that share a channel learn from each other's examples.  The argmax tries all
    outputs, so any loss is exact.  Of equally good outputs it takes the first of the list.

    Parameters
    ----------
    outputs : sequence of hashable, shape (n_outputs,)
        At least two different outputs: strings, tuples, frozensets; not arrays or lists.
    codes : array-like of int, shape (n_outputs, n_channels)
        Whole numbers in -127..127.
    losses : array-like, shape (n_outputs, n_outputs), optional
        Loss of each (true, predicted) pair: finite, not negative, 0 on the diagonal.  Default: 1
        off the diagonal.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not fit the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import EnumeratedTask
    >>> task = EnumeratedTask(["red", "blue"], [[1, 0], [0, 1]])
    >>> task.argmax([0.0], np.array([[0.2, 0.7]]))
    'blue'
    """

    separates_in_batches = True

    def __init__(self, outputs: Sequence[Hashable], codes: Any, losses: Any = None) -> None:
        check_sequence(outputs, "outputs", "give a list of at least two outputs")
        self.listed = list(outputs)
        self._rows = _rows(self.listed)
        n = len(self.listed)
        code = real_array(codes, "codes", (n, "n_channels"))
        if (np.abs(code) > 127).any() or (code % 1).any():
            raise TaskError("codes has other entries than whole numbers in -127..127; scale them.")
        if losses is not None:
            losses = not_negative(losses, "losses", (n, n))
            if np.diag(losses).any():
                raise TaskError("losses must be 0 on the diagonal.")
        super().__init__(code.astype(np.int8), losses)

    @override
    def argmax_batch(
        self, X: Examples, scores: StackedParts, Y: Examples | None = None
    ) -> list[Any]:
        return [self.listed[k] for k in super().argmax_batch(X, scores, Y)]

    @override
    def outputs(self, x: Any) -> Iterator[Any]:
        return iter(self.listed)

    @override
    def is_valid(self, x: Any, y: Any) -> bool:
        return isinstance(y, Hashable) and y in self._rows

    @override
    def labels(self, Y: Examples) -> IntArray:
        return np.array([self._class(y, i) for i, y in enumerate(Y)], np.int64)

    @override
    def _class(self, y: Any, sample: int | None = None) -> int:
        try:
            return self._rows[y]
        except (KeyError, TypeError):
            name = "An output" if sample is None else "Y[{sample}]"
            raise TaskError(
                f"{name} is {shown(y)}, which is none of the {len(self.listed)} outputs of this "
                "task; list it, or drop the example.",
                sample,
            ) from None


def _rows(outputs: Examples) -> dict[Any, int]:
    """Return the row of each output, after a check that they are different."""
    rows = {output: k for k, output in enumerate(outputs)}
    if not 2 <= len(outputs) == len(rows):
        raise TaskError(f"outputs is {shown(outputs)}; list at least 2 outputs, each once.")
    return rows
