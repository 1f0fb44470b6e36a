"""Sample of outputs for the check of a task, within a time limit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from structboost._typing import FloatArray
from structboost.errors import SampledOutputsWarning, TaskError

# Random mixtures tried for an example, as a fraction of the outputs that may be listed.
_MIXED_FRACTION = 0.25
# Fraction of the time of an example for its listing, if mixtures follow.
_LISTING_FRACTION = 0.5
TOLERANCE = 1e-8


class Rated(NamedTuple):
    """Output of one example, with its loss and its scores under each of the random scores."""

    name: str
    loss: float
    scores: FloatArray
    sizes: FloatArray


class OutputListing:
    """Outputs of one example after the other, bounded in number and time.

    Later examples may use the part of ``max_seconds`` that an example leaves.

    Attributes
    ----------
    left_out : bool
        Whether outputs of this example were left out.
    """

    def __init__(self, n_examples: int, max_outputs: int, max_seconds: float) -> None:
        self._n_examples = n_examples
        self._n_left = n_examples
        self._max_outputs = max_outputs
        self._seconds_left = max_seconds
        self._cut_short: list[int] = []
        self._began = self._seconds = 0.0
        self.left_out = False

    def start_example(self) -> None:
        """Start the time of the next example."""
        self._began = time.monotonic()
        self._seconds = self._seconds_left / self._n_left
        self.left_out = False

    def end_example(self, i: int) -> None:
        """End the time of example ``i``."""
        self._seconds_left = max(0.0, self._seconds_left - self._spent())
        self._n_left -= 1
        if self.left_out:
            self._cut_short.append(i)

    def first_of(self, outputs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Iterate over the first outputs with their indices."""
        for k, output in enumerate(outputs):
            if k >= self._max_outputs or self._spent() > _LISTING_FRACTION * self._seconds:
                self.left_out = True
                return
            yield k, output

    def mixtures_of(self, pool: Sequence[Any], random: np.random.Generator) -> Iterator[Any]:
        """Iterate over random mixtures of two outputs in ``pool``, if outputs were left out.

        They may be invalid.
        """
        if not self.left_out:
            return
        for _ in range(max(1, int(_MIXED_FRACTION * self._max_outputs))):
            first, second = (pool[k] for k in random.integers(len(pool), size=2))
            output = mixture(first, second, random)
            if output is not None:
                yield output
            if self._spent() > self._seconds:
                return

    def warn(self) -> None:
        """Warn if outputs of any example were left out."""
        if self._cut_short:
            warnings.warn(
                f"For {len(self._cut_short)} of {self._n_examples} examples, the first of which is "
                f"X[{self._cut_short[0]}], the argmax was compared with a sample of the outputs "
                "only: the first ones, and mixtures where the task defines is_valid. Give smaller "
                "examples, or raise max_outputs and max_seconds.",
                SampledOutputsWarning,
                stacklevel=3,
            )

    def _spent(self) -> float:
        return time.monotonic() - self._began


def mixture(first: Any, second: Any, random: np.random.Generator) -> Any:
    """Return ``first`` with some entries of ``second``, often just one.

    Return None unless both are arrays, lists or tuples of one length.  Few outputs beat an argmax
    that is wrong at one part only, and they differ little from it.
    """
    if type(first) is not type(second) or not isinstance(first, (np.ndarray, list, tuple)):
        return None
    if isinstance(first, np.ndarray) and (
        first.shape != second.shape or first.dtype != second.dtype or not first.ndim
    ):
        return None
    n = len(first)
    if n != len(second) or n == 0 or type(first) not in (np.ndarray, list, tuple):
        return None
    taken = random.random(n) < random.random()
    if random.random() < 0.5 or not taken.any():
        taken = np.arange(n) == random.integers(n)
    if isinstance(first, np.ndarray):
        mixed = first.copy()
        mixed[taken] = second[taken]
        return mixed
    return type(first)(b if take else a for a, b, take in zip(first, second, taken, strict=True))


def check_not_beaten(call: str, best: list[Rated], rivals: list[Rated], loss_weight: int) -> None:
    """Raise TaskError unless ``best[k]`` maximises ``loss_weight * loss + score`` at scores k."""
    losses = np.array([rival.loss for rival in rivals])
    scores, sizes = (
        np.array([getattr(rival, name) for rival in rivals]) for name in ("scores", "sizes")
    )
    for k, output in enumerate(best):
        value = loss_weight * output.loss + output.scores[k]
        others = loss_weight * losses + scores[:, k]
        better = np.flatnonzero(
            others > value + TOLERANCE * (1.0 + output.sizes[k] + sizes[:, k] + losses)
        )
        if len(better):
            rival = better[0]
            terms = "loss plus score" if loss_weight else "score"
            raise TaskError(
                f"{call} is beaten: its output has {terms} {value:.6g}, {rivals[rival].name} has "
                f"{others[rival]:.6g}. "
                "Search all outputs, and add the loss as it is; or set exact_argmax = False. If "
                "the true output scales the joint feature, as grades of relevance that tie do, "
                "give check_task comparable_outputs=False."
            )
