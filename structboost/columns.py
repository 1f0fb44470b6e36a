"""The columns of a run: which are in the master, and the model they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structboost.ensemble import Ensemble, KindEnsemble
from structboost.masters.base import RestrictedMaster
from structboost.masters.kind_columns import Terms
from structboost.task import PartKind
from structboost.weak.base import Column, Term, WeakLearnerFamily


class ColumnWeights(NamedTuple):
    """Weights of columns by their number, zeros left out: what is kept of a round."""

    numbers: NDArray[np.int32]
    weights: NDArray[np.float64]


class ColumnRegistry:
    """All columns ever added, numbered for good, and the places of the live ones in the master.

    A column is made of weak learners on channels of one kind of part.

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
        self._numbers: dict[tuple[str, tuple[Term, ...]], int] = {}
        self._learners: dict[str, dict[Any, int]] = {kind: {} for kind in families}
        self._live = np.zeros(0, np.int64)
        self._idle = np.zeros(0, np.int64)

    def add(self, priced: Mapping[str, Sequence[Column]]) -> int:
        """Add the columns that the master does not hold; returns how many."""
        live = {number: place for place, number in enumerate(self._live.tolist())}
        terms: dict[str, Terms] = {}
        added: list[int] = []
        selected: list[int] = []
        for kind, of_kind in priced.items():
            fresh = []
            for column in of_kind:
                number = self._numbers.setdefault((kind, column.terms), len(self._numbers))
                if number not in live:
                    live[number] = len(live)
                    added.append(number)
                    fresh.append(column)
                selected.append(live[number])
            if fresh:
                terms[kind] = self._terms(kind, fresh, len(added) - len(fresh))
        self.selected = np.array(selected, np.int64)
        if added:
            self._master.add_columns(terms, len(added))
            self._live = np.concatenate((self._live, np.array(added, np.int64)))
            self._idle = np.concatenate((self._idle, np.zeros(len(added), np.int64)))
        return len(added)

    def drop_idle(self, max_idle: int) -> None:
        """Drop from the master what had no weight for more than ``max_idle`` rounds."""
        self._idle = np.where(self._master.weights != 0, 0, self._idle + 1)
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
            own = [(place[number], term) for number in place if keys[number][0] == kind for term in keys[number][1]]
            learners = list(dict.fromkeys(term.learner for _, term in own))
            index = {learner: i for i, learner in enumerate(learners)}
            members[kind] = KindEnsemble(
                family=family.name,
                learners=family.table(learners),
                columns=np.array([column for column, _ in own], np.int64),
                term_learners=np.array([index[term.learner] for _, term in own], np.int64),
                channels=np.array([term.channel for _, term in own], np.int64),
                coefficients=np.array([term.coefficient for _, term in own], np.float64),
                n_features=family.n_features,
            )
        return Ensemble(kinds, members, weights, stage_weights, metadata)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Every column ever added, by its learners, plain JSON, and arrays; and which are live."""
        kinds = list(self.families)
        keys = sorted(self._numbers, key=self._numbers.__getitem__)
        terms = [(number, kinds.index(kind), term) for number, (kind, of_key) in enumerate(keys) for term in of_key]
        known = self._learners
        arrays = {
            "live": self._live,
            "idle": self._idle,
            "term_columns": np.array([number for number, _, _ in terms], np.int64),
            "term_kinds": np.array([kind for _, kind, _ in terms], np.int64),
            "term_learners": np.array([known[kinds[kind]][term.learner] for _, kind, term in terms], np.int64),
            "term_channels": np.array([term.channel for _, _, term in terms], np.int64),
            "term_coefficients": np.array([term.coefficient for _, _, term in terms], np.float64),
        }
        return {"learners": {kind: list(learners) for kind, learners in known.items()}}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go to a state, in a registry and a master without columns."""
        learners = {
            kind: [_frozen(family.learner_type, learner) for learner in header["learners"][kind]]
            for kind, family in self.families.items()
        }
        kinds = list(self.families)
        of_column: dict[int, tuple[str, list[Term]]] = {}
        for column, kind, learner, channel, coefficient in zip(
            *(arrays[f"term_{name}"].tolist() for name in ("columns", "kinds", "learners", "channels", "coefficients")),
            strict=True,
        ):
            terms = of_column.setdefault(column, (kinds[kind], []))[1]
            terms.append(Term(learners[kinds[kind]][learner], channel, coefficient))
        self._numbers = {(kind, tuple(terms)): number for number, (kind, terms) in sorted(of_column.items())}
        for kind, of_kind in learners.items():
            if of_kind:
                self._master.add_responses(kind, self.families[kind].responses(of_kind))
            self._learners[kind] = {learner: i for i, learner in enumerate(of_kind)}
        self._live, self._idle = arrays["live"], arrays["idle"]
        added: dict[str, list[tuple[int, Term]]] = {}
        for place, number in enumerate(self._live.tolist()):
            kind, terms = of_column[number]
            added.setdefault(kind, []).extend((place, term) for term in terms)
        if len(self._live):
            self._master.add_columns({kind: self._arrays(kind, own) for kind, own in added.items()}, len(self._live))

    def _terms(self, kind: str, fresh: Sequence[Column], first: int) -> Terms:
        """Terms of new columns, numbered from ``first``; learners not seen before give the master their responses."""
        known = self._learners[kind]
        own = [(first + i, term) for i, column in enumerate(fresh) for term in column.terms]
        new = [learner for learner in dict.fromkeys(term.learner for _, term in own) if learner not in known]
        if new:
            start = self._master.add_responses(kind, self.families[kind].responses(new))
            known.update({learner: start + i for i, learner in enumerate(new)})
        return self._arrays(kind, own)

    def _arrays(self, kind: str, own: Sequence[tuple[int, Term]]) -> Terms:
        """Terms, each with the place of its column, as arrays."""
        known = self._learners[kind]
        return (
            np.array([column for column, _ in own], np.int64),
            np.array([known[term.learner] for _, term in own], np.int64),
            np.array([term.channel for _, term in own], np.int64),
            np.array([term.coefficient for _, term in own], np.float64),
        )


def _frozen(learner_type: type | None, values: Sequence[Any]) -> Any:
    """A learner from its values, which JSON has made lists."""
    assert learner_type is not None
    return learner_type(*(tuple(value) if isinstance(value, list) else value for value in values))
