"""The learned model: weak learners and a weight for each column made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.lookup_table import LookupTable
from structboost.task import PartKind
from structboost.validation import checked_features
from structboost.weak.base import LearnerTable
from structboost.weak.stump import StumpTable


@dataclass(frozen=True)
class KindEnsemble:
    """Weak learners of one kind of part, and the terms of the columns made of them.

    Parameters
    ----------
    family : str
        Name of the weak-learner family.
    learners : LearnerTable
    columns, term_learners, channels : ndarray of int64, shape (n_terms,)
        Term t puts learner ``term_learners[t]`` on channel ``channels[t]`` in column ``columns[t]``.
    coefficients : ndarray of float64, shape (n_terms,)
    n_features : int
        Features of a part.
    """

    family: str
    learners: LearnerTable
    columns: NDArray[np.int64]
    term_learners: NDArray[np.int64]
    channels: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    n_features: int


@dataclass(frozen=True)
class Ensemble:
    """``F(x, y) = <M(x, y), Phi(x) W>``: whatever trained it, it scores with this.

    Parameters
    ----------
    kinds : dict of str to PartKind
    members : dict of str to KindEnsemble
    weights : ndarray, shape (n_columns,)
        Weight of each column, not negative for hinge masters.
    stages : ndarray, shape (n_stages, n_columns)
        The weights after each round, for staged prediction; the last one equals ``weights``.
    metadata : dict
        Plain values that are saved with the model (classes, objective, parameters).
    """

    kinds: Mapping[str, PartKind]
    members: Mapping[str, KindEnsemble]
    weights: NDArray[np.float64]
    stages: NDArray[np.float64]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_learners(self) -> int:
        """Weak learners with a weight."""
        return sum(int(self.matrix(kind).any(axis=1).sum()) for kind in self.members)

    @property
    def n_stages(self) -> int:
        """Rounds of boosting that :meth:`at_stage` can go back to."""
        return len(self.stages)

    def matrix(self, kind: str = "x") -> NDArray[np.float64]:
        """W of a kind, shape (n_learners, n_channels)."""
        member = self.members[kind]
        out = np.zeros((len(member.learners), self.kinds[kind].n_channels))
        np.add.at(out, (member.term_learners, member.channels), member.coefficients * self.weights[member.columns])
        return out

    def at_stage(self, stage: int) -> Ensemble:
        """The model after round ``stage`` (from 0), with the weights it had then."""
        return Ensemble(self.kinds, self.members, self.stages[stage], self.stages[: stage + 1], self.metadata)

    def staged(self) -> Iterator[Ensemble]:
        """The models after each round."""
        return (self.at_stage(stage) for stage in range(self.n_stages))

    def scores(self, features: Any, kind: str | None = None) -> NDArray[np.float64]:
        """Scores of parts, shape (n_parts, n_channels).

        Parameters
        ----------
        features : array-like, shape (n_parts, n_features)
        kind : str, optional
            Needed where the model has several kinds of parts.
        """
        kind = self._kind(kind)
        member = self.members[kind]
        rows = checked_features(features, member.n_features)
        weights = self.matrix(kind)
        used = np.flatnonzero(weights.any(axis=1))
        if not len(used):
            return np.zeros((len(rows), self.kinds[kind].n_channels))
        return np.asarray(member.learners.select(used).responses(rows).T @ weights[used], np.float64)

    def feature_importances(self, kind: str | None = None) -> NDArray[np.float64]:
        """Share of the total absolute weight that falls on learners of each feature, shape (n_features,)."""
        kind = self._kind(kind)
        member = self.members[kind]
        out = np.zeros(member.n_features)
        shares = member.learners.feature_shares(member.n_features)
        out += np.abs(self.matrix(kind)).sum(axis=1) @ shares
        return out / out.sum() if out.sum() > 0 else out

    def compile(self, kind: str | None = None) -> LookupTable:
        """Additive look-up tables with the same scores: a look-up per used feature.

        Raises
        ------
        TypeError
            If the weak learners are not stumps.
        """
        kind = self._kind(kind)
        member = self.members[kind]
        if not isinstance(member.learners, StumpTable):
            raise TypeError(f"Only stumps compile to look-up tables; the learners of {kind!r} are {member.family}s.")
        return LookupTable.of_stumps(member.learners, self.matrix(kind), member.n_features)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file (:mod:`structboost.model_file`), atomically."""
        from structboost.model_file import save_model

        save_model(self, path)

    def _kind(self, kind: str | None) -> str:
        if kind is None:
            if len(self.members) != 1:
                raise ValueError(f"The model has the kinds {sorted(self.members)}; say which with kind=.")
            return next(iter(self.members))
        if kind not in self.members:
            raise ValueError(f"kind is {kind!r}; the model has {sorted(self.members)}.")
        return kind
