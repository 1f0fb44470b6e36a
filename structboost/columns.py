"""The columns of a run: which are in the master, and the model they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.ensemble import Ensemble, KindEnsemble
from structboost.masters.base import RestrictedMaster
from structboost.masters.cuts import Terms
from structboost.task import PartKind
from structboost.weak.base import Candidate, WeakLearnerFamily


class ColumnWeights(NamedTuple):
    """Weights of columns by their number, zeros left out: what is kept of a round."""

    numbers: NDArray[np.int32]
    weights: NDArray[np.float64]


class ColumnRegistry:
    """All columns ever added, numbered for good, and the places of the live ones in the master.

    A column is a weak learner on one channel of one kind of part.

    Parameters
    ----------
    master : RestrictedMaster
        Holds the responses of the learners and the weights.
    families : dict of str to WeakLearnerFamily

    Attributes
    ----------
    selected : ndarray of int64
        Places in the master of the candidates added last, those that it held already included.
    """

    def __init__(self, master: RestrictedMaster, families: Mapping[str, WeakLearnerFamily]) -> None:
        self.families = families
        self.selected = np.zeros(0, np.int64)
        self._master = master
        self._numbers: dict[tuple[str, Any, int], int] = {}
        self._learners: dict[str, dict[Any, int]] = {kind: {} for kind in families}
        self._live = np.zeros(0, np.int64)
        self._idle = np.zeros(0, np.int64)

    def add(self, candidates: Mapping[str, Sequence[Candidate]]) -> int:
        """Add the candidates that the master does not hold; returns how many."""
        live = {number: place for place, number in enumerate(self._live.tolist())}
        terms: dict[str, Terms] = {}
        added: list[int] = []
        selected: list[int] = []
        for kind, of_kind in candidates.items():
            fresh = []
            for candidate in of_kind:
                key = (kind, candidate.learner, candidate.channel)
                number = self._numbers.setdefault(key, len(self._numbers))
                if number not in live:
                    live[number] = len(live)
                    added.append(number)
                    fresh.append(candidate)
                selected.append(live[number])
            if fresh:
                columns = np.arange(len(added) - len(fresh), len(added))
                terms[kind] = self._terms(kind, fresh, columns)
        self.selected = np.array(selected, np.int64)
        if added:
            self._master.add_columns(terms, len(added))
            self._live = np.concatenate((self._live, np.array(added, np.int64)))
            self._idle = np.concatenate((self._idle, np.zeros(len(added), np.int64)))
        return len(added)

    def drop_idle(self, max_idle: int) -> None:
        """Drop from the master what had no weight for more than ``max_idle`` rounds."""
        self._idle = np.where(self._master.weights > 0, 0, self._idle + 1)
        kept = self._idle <= max_idle
        if not kept.all():
            self._master.keep_columns(kept)
            self._live, self._idle = self._live[kept], self._idle[kept]

    def weights(self) -> ColumnWeights:
        """The live columns with a weight, by their number."""
        weights = self._master.weights
        used = np.flatnonzero(weights)
        return ColumnWeights(self._live[used].astype(np.int32), weights[used])

    def ensemble(
        self,
        kinds: Mapping[str, PartKind],
        final: ColumnWeights,
        stages: Sequence[ColumnWeights],
        metadata: Mapping[str, Any],
    ) -> Ensemble:
        """The model: every column that had a weight in a stage or has one now."""
        used = np.unique(np.concatenate([final.numbers, *(stage.numbers for stage in stages)]))
        place = {number: i for i, number in enumerate(used.tolist())}
        stage_weights = np.zeros((len(stages), len(used)))
        for row, stage in zip(stage_weights, stages, strict=True):
            row[np.searchsorted(used, stage.numbers)] = stage.weights
        weights = np.zeros(len(used))
        weights[np.searchsorted(used, final.numbers)] = final.weights
        keys = {number: key for key, number in self._numbers.items() if number in place}
        members = {}
        for kind, family in self.families.items():
            own = [number for number in place if keys[number][0] == kind]
            learners = list(dict.fromkeys(keys[number][1] for number in own))
            index = {learner: i for i, learner in enumerate(learners)}
            members[kind] = KindEnsemble(
                family=family.name,
                learners=family.table(learners),
                columns=np.array([place[number] for number in own], np.int64),
                term_learners=np.array([index[keys[number][1]] for number in own], np.int64),
                channels=np.array([keys[number][2] for number in own], np.int64),
                coefficients=np.ones(len(own)),
                n_features=family.n_features,
            )
        return Ensemble(kinds, members, weights, stage_weights, metadata)

    def _terms(self, kind: str, fresh: Sequence[Candidate], columns: NDArray[np.int64]) -> Terms:
        """Terms of new columns; learners not seen before give their responses to the oracle."""
        known = self._learners[kind]
        new = [learner for learner in dict.fromkeys(c.learner for c in fresh) if learner not in known]
        if new:
            first = self._master.add_responses(kind, self.families[kind].responses(new))
            known.update({learner: first + i for i, learner in enumerate(new)})
        learners = np.array([known[c.learner] for c in fresh], np.int64)
        channels = np.array([c.channel for c in fresh], np.int64)
        return columns.astype(np.int64), learners, channels, np.ones(len(fresh))
