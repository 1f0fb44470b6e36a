"""Choice of the object among the candidate boxes of an image (StructBoost, section 3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from structboost._typing import AnyArray, FloatArray, override
from structboost.contract.parts import PartKind, SparseFeature, StackedParts, starts_of
from structboost.contract.separation import Separation
from structboost.contract.task import Decomposes, Lists, Searches, Separates, Task
from structboost.errors import TaskError, on_example
from structboost.inference.arguments import check_has
from structboost.inference.boxes import checked_boxes, most_violated, overlaps
from structboost.tasks.base import exchange, indicator
from structboost.validation import shown


class BoxCandidates(Protocol):
    """Candidate boxes of one image, the input of :class:`BoxOverlapTask`."""

    @property
    def boxes(self) -> FloatArray:
        """Boxes as x, y, width and height, shape (n_boxes, 4)."""

    def features(self) -> AnyArray:
        """Return the features of the boxes, shape (n_boxes, n_features)."""


@dataclass(frozen=True)
class BoxTable:
    """Candidates with a table of features.

    Parameters
    ----------
    boxes : ndarray, shape (n_boxes, 4)
        x, y, width, height.
    table : ndarray, shape (n_boxes, n_features)
        Features of the boxes.

    Raises
    ------
    TypeError, ValueError
        If a box has no area, or the two differ in length.
    """

    boxes: FloatArray
    table: AnyArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "boxes", checked_boxes(self.boxes))
        if len(self.boxes) != len(self.table):
            raise ValueError(
                f"There are {len(self.boxes)} boxes and {len(self.table)} rows of features."
            )

    def features(self) -> AnyArray:
        """Return the table."""
        return self.table


class BoxChoice(NamedTuple):
    """Output that is one of the candidates.

    Parameters
    ----------
    place : int
        Place among the candidates.
    box : tuple of float
        x, y, width, height.
    """

    place: int
    box: tuple[float, float, float, float]


def chosen(x: BoxCandidates, place: int) -> BoxChoice:
    """Make an output of a candidate of an input."""
    a, b, width, height = x.boxes[place].tolist()
    return BoxChoice(int(place), (a, b, width, height))


class BoxOverlapTask(Task, Searches, Decomposes, Lists, Separates):
    """Choice of one of the candidate boxes, which are the parts of an input.

    The loss is 1 minus the intersection over the union of the two boxes, the Pascal criterion
    (21).  The score of an output is that of its box, ``Psi(x, y) = Phi(x_y)``.  Inputs may differ
    in their candidates.  Of equally good boxes the argmax takes the first.  In training the true
    box is among them; :func:`chosen` makes it an output.

    Examples
    --------
    >>> from structboost.tasks import BoxOverlapTask
    >>> from structboost.tasks import BoxChoice
    >>> task = BoxOverlapTask()
    >>> task.loss(BoxChoice(0, (0, 0, 10, 10)), BoxChoice(1, (5, 0, 10, 10)))
    0.6666666666666667
    """

    separates_in_batches = True

    def __init__(self) -> None:
        self.kinds = {"x": PartKind(n_channels=1, response=(-1.0, 1.0))}

    @override
    def parts(self, x: BoxCandidates) -> AnyArray:
        check_has(x, ("boxes", "features"), "candidates such as a BoxTable")
        return x.features()

    @override
    def joint_feature(self, x: BoxCandidates, y: BoxChoice) -> SparseFeature:
        self._check_choice(x, y)
        return indicator(np.array([y.place]))

    @override
    def loss(self, y: BoxChoice, y_pred: BoxChoice) -> float:
        true, predicted = self._checked(y), self._checked(y_pred)
        return 1.0 - float(overlaps(np.array(true.box), np.array([predicted.box]))[0])

    @override
    def loss_scores(self, x: BoxCandidates, y: BoxChoice) -> FloatArray:
        return 1.0 - overlaps(np.array(y.box), x.boxes)[:, None]

    @override
    def argmax(self, x: BoxCandidates, scores: FloatArray) -> BoxChoice:
        return chosen(x, int(np.argmax(scores[:, 0])))

    @override
    def outputs(self, x: BoxCandidates) -> list[BoxChoice]:
        return [chosen(x, place) for place in range(len(x.boxes))]

    @override
    def separate(
        self, X: Sequence[BoxCandidates], Y: Sequence[BoxChoice], scores: StackedParts
    ) -> Separation:
        offsets, values = scores.offsets["x"], scores.rows["x"][:, 0]
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            on_example("joint_feature", i, self._check_choice, x, y)
        true = np.array([y.place for y in Y], np.int64)
        boxes = np.concatenate([np.empty((0, 4)), *(x.boxes for x in X)])
        best, losses = most_violated(true, boxes, offsets, values)
        differ = np.flatnonzero(best != true)
        first = offsets[differ]
        difference = exchange((true[differ] + first, best[differ] + first))
        indptr = starts_of(2 * (best != true))
        return Separation(losses, {"x": difference}, {"x": indptr})

    def _check_choice(self, x: BoxCandidates, y: Any) -> None:
        """Raise TaskError unless an output is one of the candidates of an input."""
        place = self._checked(y).place
        if not 0 <= place < len(x.boxes) or tuple(x.boxes[place].tolist()) != tuple(y.box):
            raise TaskError(
                f"{shown(y)} is not among the {len(x.boxes)} candidates; make outputs by "
                "chosen(x, place)."
            )

    def _checked(self, y: Any) -> BoxChoice:
        """Return an output, after a check of its type."""
        if not isinstance(y, BoxChoice) or not isinstance(y.place, int | np.integer):
            raise TaskError(f"An output is {shown(y)}; make outputs by chosen(x, place).")
        return y
