"""The columns of a run: which are in the master, and the model they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.ensemble import Ensemble, KindEnsemble
from structboost.masters.base import HingeMaster
from structboost.masters.cuts import Terms
from structboost.masters.oracle import HingeOracle
from structboost.task import PartKind
from structboost.weak.base import Candidate, WeakLearnerFamily


class ColumnRegistry:
    """All columns ever added, numbered for good, and the places of the live ones in the master.

    A column is a weak learner on one channel of one kind of part.

    Parameters
    ----------
    oracle : HingeOracle
        Holds the responses of the learners.
    families : dict of str to WeakLearnerFamily
    """

    def __init__(self, oracle: HingeOracle, families: Mapping[str, WeakLearnerFamily]) -> None:
        self.families = families
        self._oracle = oracle
        self._numbers: dict[tuple[str, Any, int], int] = {}
        self._learners: dict[str, dict[Any, int]] = {kind: {} for kind in families}
        self._live = np.zeros(0, np.int64)
        self._idle = np.zeros(0, np.int64)

    def add(self, candidates: Mapping[str, Sequence[Candidate]], master: HingeMaster) -> int:
        """Add the candidates that the master does not hold; returns how many."""
        live = set(self._live.tolist())
        terms: dict[str, Terms] = {}
        added: list[int] = []
        for kind, of_kind in candidates.items():
            fresh = []
            for candidate in of_kind:
                key = (kind, candidate.learner, candidate.channel)
                number = self._numbers.setdefault(key, len(self._numbers))
                if number not in live:
                    live.add(number)
                    added.append(number)
                    fresh.append(candidate)
            if fresh:
                columns = np.arange(len(added) - len(fresh), len(added))
                terms[kind] = self._terms(kind, fresh, columns)
        if added:
            master.add_columns(terms, len(added))
            self._live = np.concatenate((self._live, np.array(added, np.int64)))
            self._idle = np.concatenate((self._idle, np.zeros(len(added), np.int64)))
        return len(added)

    def drop_idle(self, master: HingeMaster, max_idle: int) -> None:
        """Drop from the master what had no weight for more than ``max_idle`` rounds."""
        self._idle = np.where(master.weights > 0, 0, self._idle + 1)
        kept = self._idle <= max_idle
        if not kept.all():
            master.keep_columns(kept)
            self._live, self._idle = self._live[kept], self._idle[kept]

    def weights_of(self, weights: NDArray[np.float64]) -> dict[int, float]:
        """Weights of the live columns by their number, zeros left out."""
        used = np.flatnonzero(weights)
        return dict(zip(self._live[used].tolist(), weights[used].tolist(), strict=True))

    def ensemble(
        self,
        kinds: Mapping[str, PartKind],
        final: Mapping[int, float],
        stages: Sequence[Mapping[int, float]],
        metadata: Mapping[str, Any],
    ) -> Ensemble:
        """The model: every column that had a weight in a stage or has one now."""
        used = sorted(set(final).union(*stages))
        place = {number: i for i, number in enumerate(used)}
        stage_weights = np.zeros((len(stages), len(used)))
        for row, stage in zip(stage_weights, stages, strict=True):
            row[[place[number] for number in stage]] = list(stage.values())
        weights = np.zeros(len(used))
        weights[[place[number] for number in final]] = list(final.values())
        keys = {number: key for key, number in self._numbers.items() if number in place}
        members = {}
        for kind, family in self.families.items():
            own = [number for number in used if keys[number][0] == kind]
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
            first = self._oracle.columns[kind].add_responses(self.families[kind].responses(new))
            known.update({learner: first + i for i, learner in enumerate(new)})
        learners = np.array([known[c.learner] for c in fresh], np.int64)
        channels = np.array([c.channel for c in fresh], np.int64)
        return columns.astype(np.int64), learners, channels, np.ones(len(fresh))
