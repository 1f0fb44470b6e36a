"""Boosters whose columns get one shrunken Newton step each."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structboost._typing import AnyArray, Facts, FloatArray, IntArray, override
from structboost.files.archive import (
    Array,
    Arrays,
    Header,
    Part,
    Schema,
    below,
    damaged_content,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.learners.terms import KindTerms, check_single_terms
from structboost.objectives.base import Boosting
from structboost.objectives.master import (
    Booster,
    HeldOut,
    LossesAt,
    Temperature,
    damped,
    fitted_temperature,
)
from structboost.runtime.compiled import compiled

TINY = float(np.finfo(np.float64).tiny)
# Rounds between two looks at the loss on the parts left out.
_LOOK = 20


@dataclass(frozen=True)
class NewtonSteps(Boosting):
    """Parameters of the Newton steps.

    Parameters
    ----------
    shrinkage : float
        Fraction of the Newton step that is taken.
    largest_step : float
        Largest change of a score by one step, before it is shrunk: since Newton steps are
        unbounded once there are no errors.
    enough : float
        Mean loss at which training ends.
    patience : int, optional
        Number of rounds without a lower loss on the parts left out after which training ends, if
        the formulation measures that loss.  None disables this check.
    """

    can_resume = True
    shrinkage: float = 0.15
    largest_step: float = 1.0
    enough: float = 0.0
    patience: int | None = None


class NewtonBooster(Booster):
    """Booster that stores the scores of all parts, from which the columns of a round step.

    A column is not used again until pricing chooses it again, so only the responses of learners
    since the last step are stored.  Subclasses call :meth:`_measure` in ``__init__``.

    Parameters
    ----------
    formulation : NewtonSteps
    shapes : dict of str to (int, int)
        Number of channels and of parts of each kind.
    """

    recalls_responses = True
    # Whether each column is one weak learner on one channel.
    takes_single_terms = True

    def __init__(self, formulation: NewtonSteps, shapes: Mapping[str, tuple[int, int]]) -> None:
        super().__init__()
        self.formulation = formulation
        # Kind, learner, channel and coefficient of the terms of each column.
        self._terms: list[list[tuple[str, int, int, float]]] = []
        self._n_learners = dict.fromkeys(shapes, 0)
        # Answers by kind and learner, and whether they have been stepped along.
        self._responses: dict[tuple[str, int], AnyArray] = {}
        self._has_stepped = False
        # Their shape is (n_channels, n_parts), as that of the derivatives by them.
        self._scores = {kind: np.zeros(shape) for kind, shape in shapes.items()}
        self._slopes: dict[str, FloatArray] = {}
        self._curvatures: dict[str, FloatArray] = {}

    @property
    @override
    def ending(self) -> str | None:
        return "loss" if self.risk <= self.formulation.enough else None

    @override
    def add_responses(self, kind: str, responses: NDArray[np.generic]) -> int:
        first = self._n_learners[kind]
        self._n_learners[kind] += len(responses)
        self.hold_responses(kind, np.arange(first, self._n_learners[kind]), responses)
        return first

    def add_grown(self, kind: str, n_learners: int) -> int:
        """Append learners without responses, and return the index of the first."""
        self._n_learners[kind] += n_learners
        return self._n_learners[kind] - n_learners

    @override
    def hold_responses(self, kind: str, learners: IntArray, responses: NDArray[np.generic]) -> None:
        # Until the next step has been made and others arrive.
        if self._has_stepped:
            self._responses.clear()
            self._has_stepped = False
        for learner, response in zip(learners.tolist(), responses, strict=True):
            self._responses[kind, learner] = response

    @override
    def add_columns(self, terms: KindTerms, n_new: int) -> None:
        first = len(self._terms)
        self._terms += [[] for _ in range(n_new)]
        for kind, of_kind in terms.items():
            if self.takes_single_terms:
                check_single_terms(of_kind, n_new, type(self.formulation).__name__)
            for column, *term in zip(*(array.tolist() for array in of_kind), strict=True):
                self._terms[first + column].append((kind, *term))
        super().add_columns(terms, n_new)

    @override
    def step(self, selected: IntArray) -> None:
        if len(selected):
            self._steps(selected)

    def _steps(self, selected: IntArray) -> dict[int, float]:
        """Step the columns chosen last, add the steps to their weights and return them."""
        self._calls += 1
        steps = {j: self._step(self._terms[j]) for j in sorted(set(selected.tolist()))}
        for column, step in steps.items():
            if step:
                self.weights[column] += step
                for kind, learner, channel, coefficient in self._terms[column]:
                    responses = self._responses[kind, learner]
                    add_scaled(responses, step * coefficient, self._scores[kind][channel])
        self._has_stepped = True
        self._measure()
        return steps

    @override
    def gradient(self) -> dict[str, FloatArray]:
        return {kind: np.ascontiguousarray(of.T) for kind, of in self._slopes.items()}

    @override
    def state(self) -> tuple[Header, Arrays]:
        # The last digits of the scores depend on the order of summation.
        arrays = {"weights": self.weights, **prefixed("scores/", self._scores)}
        return {"calls": self._calls}, arrays

    @override
    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        scores = {kind: Array("float64", of_kind.shape) for kind, of_kind in self._scores.items()}
        weights = Array("float64", ("n_live",), low=0.0)
        return {"": Part({"weights": weights, **prefixed("scores/", scores)})}

    @override
    def restore(self, scalars: Facts, arrays: Mapping[str, AnyArray]) -> None:
        with damaged_content():
            self._calls = whole_number(scalars["calls"], "number of calls", 0, 1 << 62)
        self.weights = arrays["weights"]
        self._has_stepped = True
        self._scores = below("scores/", arrays)
        self._measure()

    def _step(self, terms: Sequence[tuple[str, int, int, float]]) -> float:
        """Shrunken Newton step along the column of these terms."""
        slope, curvature, largest = 0.0, 0.0, TINY
        for kind, learner, channel, coefficient in terms:
            of_term = self._along(kind, channel, self._responses[kind, learner])
            slope += coefficient * of_term[0]
            curvature += coefficient * coefficient * of_term[1]
            largest = max(largest, abs(coefficient) * of_term[2])
        if slope <= 0.0:
            return 0.0
        longest = self.formulation.largest_step / largest
        newton = slope / curvature if curvature > 0.0 else longest
        return self.formulation.shrinkage * min(newton, longest)

    def _along(self, kind: str, channel: int, responses: AnyArray) -> tuple[float, float, float]:
        """Change of the loss with a factor of the responses.

        Returns the initial decrease of the loss, its second derivative, and the largest change of a
        score.
        """
        return along_responses(
            responses, self._slopes[kind][channel], self._curvatures[kind][channel]
        )

    @abstractmethod
    def _measure(self) -> None:
        """Compute the risk at the scores, and slopes and curvatures where they are used."""


class HeldOutBooster(NewtonBooster):
    """Booster of a likelihood that also measures the loss on the parts left out.

    This loss ends training, and gives the factor by which the scores of new parts are too large.

    Parameters
    ----------
    formulation : NewtonSteps
    shapes : dict of str to (int, int)
        Number of channels and of parts of each kind.
    example_weights : ndarray, shape (n_examples,)
    """

    def __init__(
        self,
        formulation: NewtonSteps,
        shapes: Mapping[str, tuple[int, int]],
        example_weights: FloatArray,
    ) -> None:
        super().__init__(formulation, shapes)
        self._example_weights = example_weights
        # Scores of each part by the rounds that left it out, the number of these rounds, and the
        # responses of a round whose steps are not available yet.
        self._sums = {kind: np.zeros(shape) for kind, shape in shapes.items()}
        self._counts = {kind: np.zeros(n_parts, np.int64) for kind, (_, n_parts) in shapes.items()}
        self._waiting: dict[str, HeldOut] = {}
        # Steps of the channels and risk of each round that has been run, but not been taken.
        self._ahead: deque[tuple[list[float], float]] = deque()
        # The last temperature of the parts left out, the least loss on them, and its round.
        self._factor, self._least_loss, self._best_round = 1.0, np.inf, 0
        # Mean loss of the parts left out, or None if the last round did not measure it.
        self.held_out_loss: float | None = None

    @property
    @override
    def ending(self) -> str | None:
        patience = self.formulation.patience
        is_over = patience is not None and self._calls - self._best_round >= patience
        # Scores that are to grow for new parts have not learned all yet, whatever the noise of the
        # held-out loss: so it is where features count together only.
        is_over = is_over and damped(self._factor) < 1.0 and np.isfinite(self._least_loss)
        return super().ending or ("held_out" if is_over else None)

    def add_held_out(self, kind: str, held_out: HeldOut) -> None:
        """Store the held-out responses for the next :meth:`step`."""
        self._waiting[kind] = held_out

    @override
    def step(self, selected: IntArray) -> None:
        self.held_out_loss = None
        if len(selected):
            steps = self._steps(selected)
            for kind, held_out in self._waiting.items():
                for column, channel, responses in zip(*held_out[1:], strict=True):
                    self._sums[kind][channel] += steps[column] * responses
                self._counts[kind] += held_out.parts
            self._look_if_due()
        self._waiting.clear()

    @property
    def rounds_ahead(self) -> int:
        """Number of rounds until the held-out loss is looked at."""
        return _LOOK - self._calls % _LOOK

    def take_round(self, selected: IntArray) -> None:
        """Take the next round that ran ahead, with its steps and its risk."""
        self.held_out_loss = None
        steps, self.risk = self._ahead.popleft()
        self._calls += 1
        for column in selected.tolist():
            self.weights[column] += steps[self._terms[column][0][2]]
        self._look_if_due()

    def temperature(self) -> Temperature | None:
        """Temperature of the parts left out, fitted to the current scores."""
        fitted = self._fitted(None)
        return fitted and fitted.damped()

    @property
    def last_temperature(self) -> Temperature | None:
        """Temperature of the parts left out if the last round looked at them, else None."""
        if self.held_out_loss is None:
            return None
        return Temperature(self._factor, self.held_out_loss).damped()

    def losses_of_examples(self, examples: IntArray) -> LossesAt:
        """Losses of examples at the current scores, as a function of a factor of the scores."""
        return self._losses_at(self._scores, examples)

    def _look_if_due(self) -> None:
        """Check whether the loss on the parts left out is lower than ever, every few rounds."""
        is_due = self.formulation.patience is not None and self._calls % _LOOK == 0
        if is_due and (fitted := self._fitted(self._factor)) is not None:
            self._factor, self.held_out_loss = fitted.factor, float(fitted.loss)
            if fitted.loss < self._least_loss:
                self._least_loss, self._best_round = fitted.loss, self._calls

    def _fitted(self, start: float | None) -> Temperature | None:
        """Fit the temperature with the least loss on the parts left out, near ``start``."""
        if not any(counts.any() for counts in self._counts.values()):
            return None
        # Scaled as if all rounds had left a part out; of kinds that none did, those by all columns.
        scores = {
            kind: self._sums[kind] * (self._calls / np.maximum(counts, 1))
            if counts.any()
            else self._scores[kind]
            for kind, counts in self._counts.items()
        }
        examples = np.flatnonzero(self._example_weights)
        weights = self._example_weights[examples]
        losses = self._losses_at(scores, examples)
        return fitted_temperature(
            lambda factor: float(weights @ losses(factor)), len(examples), start
        )

    @abstractmethod
    def _losses_at(self, scores: Mapping[str, FloatArray], examples: IntArray) -> LossesAt:
        """Losses of these examples as a function of a factor of the scores."""

    @override
    def state(self) -> tuple[Header, Arrays]:
        scalars, arrays = super().state()
        least = self._least_loss if np.isfinite(self._least_loss) else None
        scalars["held_out"] = [self._factor, least, self._best_round]
        held_out = {**prefixed("held_out/", self._sums), **prefixed("left_out/", self._counts)}
        return scalars, arrays | held_out

    @override
    def schema(self, n_learners: Mapping[str, int]) -> Schema:
        arrays = dict(super().schema(n_learners)[""].arrays)
        for kind, counts in self._counts.items():
            arrays[f"held_out/{kind}"] = Array("float64", self._sums[kind].shape)
            arrays[f"left_out/{kind}"] = Array("int64", counts.shape, low=0)
        return {"": Part(arrays)}

    @override
    def restore(self, scalars: Facts, arrays: Mapping[str, AnyArray]) -> None:
        super().restore(scalars, arrays)
        with damaged_content():
            self._sums, self._counts = below("held_out/", arrays), below("left_out/", arrays)
            factor, least, best = scalars["held_out"]
            self._factor = finite_number(factor, "factor of held-out scores", 0.0)
            if least is not None:
                self._least_loss = finite_number(least, "held-out loss", 0.0)
            self._best_round = whole_number(best, "best round", 0, self._calls)


@compiled
def along_responses(
    responses: AnyArray, slopes: FloatArray, curvatures: FloatArray
) -> tuple[float, float, float]:
    """Slope sums and curvature sums along responses, and the largest absolute response."""
    slope, curvature, largest = 0.0, 0.0, 0.0
    for i in range(len(responses)):
        response = float(responses[i])
        slope += response * slopes[i]
        curvature += response * response * curvatures[i]
        largest = max(largest, abs(response))
    return slope, curvature, largest


@compiled
def add_scaled(responses: AnyArray, factor: float, scores: FloatArray) -> None:
    """Add responses times a factor to scores."""
    for i in range(len(responses)):
        scores[i] += factor * float(responses[i])
