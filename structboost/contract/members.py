"""Protocol of the members of a task that the checks of its results call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from structboost.contract.parts import PartKind, StackedParts


class TaskMembers(Protocol):
    """Members of :class:`structboost.Task` that the comparison of its outputs needs."""

    kinds: Mapping[str, PartKind]
    reads_inputs: ClassVar[bool]

    @property
    def is_enumerated(self) -> bool:
        """Whether the task lists its outputs and has no argmax."""

    def joint_feature(self, x: Any, y: Any) -> Any:
        """Return the signed weight that ``y`` puts on each (part, channel)."""

    def loss(self, y: Any, y_pred: Any) -> float:
        """Return the loss of predicting ``y_pred`` where ``y`` is true."""

    def loss_scores(self, x: Any, y: Any) -> Any:
        """Return the loss as scores of the parts, or None."""

    def outputs(self, x: Any) -> Iterable[Any] | None:
        """List all outputs, or return None."""

    def argmax_batch(
        self, X: Sequence[Any], scores: StackedParts, Y: Sequence[Any] | None = None
    ) -> Sequence[Any]:
        """Return the best output of every example."""
