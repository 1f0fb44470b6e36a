"""Rows that are drawn for each round of stochastic boosting (Friedman, 2002)."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from structboost._typing import IntArray
from structboost.learners.binning import BinnedFeatures

# Fewer distinct rows are not drawn from: a round might draw none, or none that differ.
_FEWEST_DRAWN_FROM = 50

# Flags of the rows of a round, or None for all, and the seed of its features.
Draw = tuple[NDArray[np.bool_] | None, int]


class RowDraws:
    """Rows that the trees of each round are grown on, and a seed for the features of their nodes.

    Rows of equal features are drawn together, and the draw does not depend on their order.

    Parameters
    ----------
    binned : BinnedFeatures
    fraction : float
        Fraction of the rows that a round draws; 1 for all.
    random_state : int, RandomState or None
    needs_seeds : bool
        Whether a round draws a seed, which is 0 otherwise.
    """

    def __init__(
        self, binned: BinnedFeatures, fraction: float, random_state: Any, needs_seeds: bool
    ) -> None:
        self._binned, self._needs_seeds = binned, needs_seeds
        # Rounds that are drawn ahead.
        self._ahead: deque[Draw] = deque()
        self.restart(fraction, random_state)

    def restart(self, fraction: float, random_state: Any) -> None:
        """Draw this fraction of the rows from now on."""
        self.fraction, self.seed = fraction, random_state
        self._random = check_random_state(random_state)

    @property
    def can_resume(self) -> bool:
        """Whether the rounds can be drawn again from the seed of a checkpoint.

        A checkpoint does not store the state of a generator that others use as well.
        """
        draws = self.fraction < 1 or self._needs_seeds
        return not draws or isinstance(self.seed, Integral)

    @property
    def n_distinct(self) -> int:
        """Number of rows that differ in their features."""
        return self._binned.distinct_rows[1]

    @cached_property
    def all_rows(self) -> NDArray[np.bool_]:
        """Flags that are all true."""
        return np.ones(self._binned.n_rows, np.bool_)

    @property
    def _draws(self) -> bool:
        return self.fraction < 1 and self.n_distinct >= _FEWEST_DRAWN_FROM

    def _draw(self) -> Draw:
        """Draw the rows of a round and the seed of its features, after those drawn ahead."""
        is_drawn = None
        if self._draws:
            groups, n_distinct = self._binned.distinct_rows
            drawn = self._random.random_sample(n_distinct)
            is_drawn = (drawn < self.fraction).take(groups)
        return is_drawn, int(self._random.randint(1 << 31)) if self._needs_seeds else 0

    def next_round(self) -> Draw:
        """Take the first round that was drawn ahead, or draw one."""
        return self._ahead.popleft() if self._ahead else self._draw()

    def ahead(self, n_rounds: int) -> tuple[NDArray[np.bool_], IntArray]:
        """Draw the rows of the next ``n_rounds`` rounds, and store them.

        Returns
        -------
        is_drawn : ndarray of bool, shape (n_rounds, n_rows)
        seeds : ndarray of int64, shape (n_rounds,)
        """
        while len(self._ahead) < n_rounds:
            self._ahead.append(self._draw())
        drawn, seeds = zip(*islice(self._ahead, n_rounds), strict=True)
        rows = np.array(drawn) if self._draws else np.array([self.all_rows] * n_rounds)
        return rows, np.array(seeds)
