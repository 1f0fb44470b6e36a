"""Hinge loss with one slack or one for each example, whichever takes less time."""

from __future__ import annotations

from dataclasses import dataclass

from structboost._typing import override
from structboost.contract.optional_methods import HasSlacks
from structboost.contract.task import Task
from structboost.objectives.base import Formulation
from structboost.objectives.m_slack import MSlack
from structboost.objectives.one_slack import OneSlack
from structboost.objectives.slack_program import LARGEST_C

# From this C on, and from this multiple of the examples per channel, one slack needs so many cuts
# that a slack for each example is faster: half of ten tables decided, half checked
# (docs/decisions.md).  Larger tables were not tried.
_SMALLEST_C, _EXAMPLES_PER_CHANNEL = 100.0, 0.5
_MOST_EXAMPLES = 20_000
_FEWEST_CHANNELS = 3


@dataclass(frozen=True)
class HingeBySize(OneSlack):
    """Hinge loss by :class:`OneSlack`, or by :class:`MSlack` where that takes less time.

    A slack for each example is taken for stumps on a dense table of at most 20,000 rows, in one
    process, if the task has at least three channels, and C is at least 100 and half of the number
    of rows per channel, and at most 1e8.  Both have the same optimum (Theorem 2.1 of StructBoost).
    """

    @override
    def suited(self, task: Task, n_examples: int, C: float, *, is_plain: bool) -> Formulation:
        n_channels = sum(kind.n_channels for kind in task.kinds.values())
        smallest_C = max(_SMALLEST_C, _EXAMPLES_PER_CHANNEL * n_examples / n_channels)
        has_slack_each = task.separates_in_batches and not isinstance(task, HasSlacks)
        is_small = n_channels >= _FEWEST_CHANNELS and n_examples <= _MOST_EXAMPLES
        is_large_C = smallest_C <= C <= LARGEST_C
        if is_plain and self.stabilize and has_slack_each and is_small and is_large_C:
            return MSlack()
        return OneSlack(self.stabilize, self.ridge)
