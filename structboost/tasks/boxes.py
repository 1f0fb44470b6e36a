"""Which of the candidate boxes of an image is the object (StructBoost, section 3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from structboost.exceptions import TaskError
from structboost.inference.box_search import checked_boxes, overlaps
from structboost.task import Measure, PartKind, Separation, StackedParts, Task


class BoxCandidates(Protocol):
    """An input of :class:`BoxOverlapTask`: the candidate boxes of one image."""

    @property
    def boxes(self) -> NDArray[np.float64]:
        """Shape (n_boxes, 4): x, y, width, height."""

    def features(self, selected: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Features of the boxes, shape (n_boxes, n_features), or only the ``selected`` ones, in that order."""


@dataclass(frozen=True)
class BoxTable:
    """Candidates whose features are at hand.

    Parameters
    ----------
    boxes : ndarray, shape (n_boxes, 4)
        x, y, width, height.
    table : ndarray, shape (n_boxes, n_features)

    Raises
    ------
    ValueError
        If a box has no area, or the two are not equally long.
    """

    boxes: NDArray[np.float64]
    table: NDArray[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "boxes", checked_boxes(self.boxes))
        if len(self.boxes) != len(self.table):
            raise ValueError(f"There are {len(self.boxes)} boxes and {len(self.table)} rows of features.")

    def features(self, selected: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Rows of the table."""
        return self.table if selected is None else self.table[:, selected]


class BoxChoice(NamedTuple):
    """An output: one of the candidates.

    Parameters
    ----------
    number : int
        Its place among the candidates.
    box : tuple of float
        x, y, width, height.
    """

    number: int
    box: tuple[float, float, float, float]


def chosen(x: BoxCandidates, number: int) -> BoxChoice:
    """Candidate ``number`` of an input."""
    a, b, width, height = x.boxes[number].tolist()
    return BoxChoice(int(number), (a, b, width, height))


class BoxOverlapTask(Task):
    """The parts are the candidate boxes; an output is one of them.

    The loss is one less the intersection over the union of the two boxes, the Pascal criterion (21); the score of an
    output is that of its box, ``Psi(x, y) = Phi(x_y)``.  Every input has candidates of its own, any number of them, and
    in training the true box is among them (:func:`chosen` makes it the output).
    """

    selects_features: ClassVar[bool] = True

    def __init__(self) -> None:
        self.kinds = {"x": PartKind(n_channels=1, response=(-1.0, 1.0))}

    def parts(self, x: BoxCandidates, features: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Features of the boxes, all or the selected ones."""
        return x.features(features)

    def joint_feature(self, x: BoxCandidates, y: BoxChoice) -> tuple[list[int], list[int], list[float]]:
        """One on the chosen box.

        Raises
        ------
        TaskError
            If ``y`` is not among the candidates.
        """
        if not 0 <= y.number < len(x.boxes) or tuple(x.boxes[y.number].tolist()) != tuple(y.box):
            raise TaskError(f"{y} is not among the {len(x.boxes)} candidates; make outputs by chosen(x, number).")
        return [y.number], [0], [1.0]

    def loss(self, y: BoxChoice, y_pred: BoxChoice) -> float:
        """1 - intersection / union of the two boxes (21)."""
        return 1.0 - float(overlaps(np.array(y.box), np.array([y_pred.box]))[0])

    def argmax(self, x: BoxCandidates, scores: NDArray[np.float64], y: BoxChoice | None = None) -> BoxChoice:
        """Candidate of the highest score; with ``y`` every one gains its loss.  All are looked at."""
        values = scores[:, 0]
        if y is not None:
            values = values + 1.0 - overlaps(np.array(y.box), x.boxes)
        return chosen(x, int(np.argmax(values)))

    def outputs(self, x: BoxCandidates) -> list[BoxChoice]:
        """All of them."""
        return [chosen(x, number) for number in range(len(x.boxes))]

    def separate(self, X: Sequence[BoxCandidates], Y: Sequence[BoxChoice], scores: StackedParts) -> Separation:
        """Candidate of the largest loss plus score of every frame."""
        offsets, values = scores.offsets["x"], scores.rows["x"][:, 0]
        losses = np.zeros(len(Y))
        found = np.zeros(len(Y), np.int64)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            of_frame = 1.0 - overlaps(np.array(y.box), x.boxes)
            found[i] = np.argmax(values[offsets[i] : offsets[i + 1]] + of_frame)
            losses[i] = of_frame[found[i]]
        true = np.array([y.number for y in Y], np.int64)
        differ = np.flatnonzero(found != true)
        parts = np.column_stack((true[differ], found[differ])) + offsets[differ, None]
        signs = np.tile([1.0, -1.0], len(differ))
        indptr = np.concatenate(([0], np.cumsum(2 * (found != true)))).astype(np.int64)
        measure = Measure(parts.ravel().astype(np.int64), np.zeros(2 * len(differ), np.int64), signs)
        return Separation(losses, {"x": measure}, {"x": indptr})
