"""What a family of weak learners must offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Candidate(NamedTuple):
    """A weak learner that pricing found, with the channel it was found for."""

    learner: Any
    channel: int
    edge: float


class Term(NamedTuple):
    """A weak learner on one channel, times a coefficient."""

    learner: Any
    channel: int
    coefficient: float


class Column(NamedTuple):
    """Terms under one weight: what pricing adds to the master, with its edge ``<duals, response>``."""

    terms: tuple[Term, ...]
    edge: float


class LearnerTable(Protocol):
    """Fitted weak learners of one family, as plain arrays."""

    def __len__(self) -> int:
        """Number of learners."""

    def responses(self, features: NDArray[Any]) -> NDArray[Any]:
        """Answers of all learners, shape (n_learners, n_parts)."""

    def select(self, index: NDArray[np.int64]) -> LearnerTable:
        """The learners at ``index``."""

    def feature_shares(self, n_features: int) -> NDArray[np.float64]:
        """How each learner's weight is shared out to features, shape (n_learners, n_features)."""

    def to_arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays a model file holds."""


class WeakLearnerFamily(ABC):
    """A family of weak learners on the parts of one kind, bound to its training features.

    Made by the trainer as ``Family(features, response, ...)``; it may then precompute what
    every round needs (bins).  The plug-in says what it can do; the trainer asks for nothing else.

    Attributes
    ----------
    name : str
        The name in ``StructBoost(weak_learner=...)`` and in model files.
    exact_pricing : bool
        Whether :meth:`price` finds the learner of largest edge in the whole family.  If not, there is no
        lower bound over the family and the certificate says so.
    learner_type : type or None
        A named tuple of numbers and tuples of them, which a checkpoint can hold; None if learners are something else.
    """

    name: ClassVar[str]
    exact_pricing: ClassVar[bool]
    learner_type: ClassVar[type | None] = None
    n_features: int

    @abstractmethod
    def price(self, duals: NDArray[np.float64], per_channel: int) -> Sequence[Candidate]:
        """Learners of largest edge for the signed weights ``duals``, shape (n_parts, n_channels).

        Ensures at least the best learner of each channel, up to ``per_channel`` different ones, in descending
        order of edge; ties in a fixed order.
        """

    @abstractmethod
    def refine(self, learner: Any, duals: NDArray[np.float64]) -> Sequence[Candidate]:
        """``learner`` on every channel, in the orientation the channel prefers (rule ``best``)."""

    def price_shared(self, duals: NDArray[np.float64], n_learners: int) -> Sequence[tuple[Any, NDArray[np.float64]]]:
        """Learners of largest l1 norm of edges over the channels, each with its edges, best first (rule ``l1``).

        Raises
        ------
        NotImplementedError
            Where the family has no search for it.
        """
        raise NotImplementedError(
            f"The family {self.name!r} has no price_shared, which this pricing rule needs; take stumps."
        )

    def price_groups(
        self, duals: NDArray[np.float64], n_groups: int
    ) -> Sequence[Sequence[tuple[Any, NDArray[np.float64]]]]:
        """As :meth:`price_shared`, for learners that come together or not at all: by default each is alone."""
        return [[found] for found in self.price_shared(duals, n_groups)]

    @abstractmethod
    def responses(self, learners: Sequence[Any]) -> NDArray[Any]:
        """Answers on the training parts, shape (n_learners, n_parts); int8 where the answers are discrete."""

    @abstractmethod
    def table(self, learners: Sequence[Any]) -> LearnerTable:
        """The learners as a table that answers on any features."""
