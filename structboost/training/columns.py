"""Columns of a run, and the model that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import FloatArray, IntArray
from structboost.contract.parts import PartKind
from structboost.files.schema import (
    Array,
    DamagedFileError,
    damaged_content,
    finite_number,
    whole_number,
)
from structboost.learners.base import Column, WeakLearnerFamily
from structboost.learners.terms import Term, Terms
from structboost.model.ensemble import Ensemble, KindEnsemble
from structboost.objectives.held_out import HeldOut
from structboost.objectives.master import GrowsRounds, LearnsFromHeldOut, WeightedColumns


class ColumnWeights(NamedTuple):
    """Weights of the columns of a round by their indices, without zeros."""

    columns: NDArray[np.int32]
    weights: FloatArray


# What a checkpoint holds about the columns and the rounds.
COLUMNS_SCHEMA = {name: Array("int64", ("n_live",), low=0) for name in ("live", "idle")}
STAGES_SCHEMA: Mapping[str, Array] = {
    "stage_sizes": Array("int64", ("n_rounds",), low=0),
    "stage_numbers": Array("int32", ("n_staged",), low=0),
    "stage_weights": Array("float64", ("n_staged",)),
}


def stage_arrays(stages: Sequence[ColumnWeights]) -> dict[str, NDArray[Any]]:
    """Weights after each round as the arrays of a checkpoint."""
    return {
        "stage_sizes": np.array([len(stage.columns) for stage in stages], np.int64),
        "stage_numbers": np.concatenate([stage.columns for stage in stages]),
        "stage_weights": np.concatenate([stage.weights for stage in stages]),
    }


def stages_of(arrays: Mapping[str, NDArray[Any]], n_columns: int) -> list[ColumnWeights]:
    """The stages that :func:`stage_arrays` was given, in a run of ``n_columns`` columns.

    DamagedFileError if the arrays do not fit together.
    """
    sizes, indices = arrays["stage_sizes"], arrays["stage_numbers"]
    if sizes.sum() != len(indices) or indices.max(initial=-1) >= n_columns:
        raise DamagedFileError("its rounds refer to columns that it does not hold")
    by_stage = (
        np.split(array, np.cumsum(sizes)[:-1]) for array in (indices, arrays["stage_weights"])
    )
    return [ColumnWeights(*stage) for stage in zip(*by_stage, strict=True)]


class _Places:
    """Places in the master of columns that are priced, old and new.

    Parameters
    ----------
    indices : dict
        Index of each column, to which new ones are added.
    live : ndarray of int64
        Indices of the columns in the master.

    Attributes
    ----------
    added, selected : list of int
        Indices of the new columns, and places of all.
    """

    def __init__(self, indices: dict[tuple[str, tuple[Term, ...]], int], live: IntArray) -> None:
        self.added: list[int] = []
        self.selected: list[int] = []
        self._indices, self._live = indices, live
        # Places of the live columns, found when one of them is priced again.
        self._places: dict[int, int] | None = None

    def split(self, kind: str, columns: Sequence[Column]) -> tuple[list[Column], list[Column]]:
        """Split columns into those that the master lacks, which get a place, and the others."""
        fresh, again = [], []
        for column in columns:
            n_known = len(self._indices)
            index = self._indices.setdefault((kind, column.terms), n_known)
            if index < n_known and self._places is None:
                in_order = [*self._live.tolist(), *self.added]
                self._places = {index: place for place, index in enumerate(in_order)}
            place = None
            if index < n_known and self._places is not None:
                place = self._places.get(index)
            if place is None:
                place = len(self._live) + len(self.added)
                self.added.append(index)
                fresh.append(column)
                if self._places is not None:
                    self._places[index] = place
            else:
                again.append(column)
            self.selected.append(place)
        return fresh, again


class ColumnRegistry:
    """All columns ever added, numbered for good, and the places of the live ones in the master.

    A column is made of weak learners on channels of one kind of part.

    Parameters
    ----------
    master : WeightedColumns
        Holds the responses of the learners and the weights.
    families : dict of str to WeakLearnerFamily

    Attributes
    ----------
    selected : ndarray of int64
        Places in the master of the candidates of the last :meth:`add`, old and new.
    """

    def __init__(self, master: WeightedColumns, families: Mapping[str, WeakLearnerFamily]) -> None:
        self.families = families
        self.selected = np.zeros(0, np.int64)
        self._master = master
        self._learning = master if isinstance(master, LearnsFromHeldOut) else None
        self._indices: dict[tuple[str, tuple[Term, ...]], int] = {}
        self._learners: dict[str, dict[Any, int]] = {kind: {} for kind in families}
        self._live = np.zeros(0, np.int64)
        self._idle = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._indices)

    def add(self, priced: Mapping[str, Sequence[Column]]) -> int:
        """Add the columns that the master does not hold, and return how many they are."""
        places = _Places(self._indices, self._live)
        terms: dict[str, Terms] = {}
        for kind, of_kind in priced.items():
            first = len(places.added)
            fresh, again = places.split(kind, of_kind)
            if again and self._master.recalls_responses:
                learners = (term.learner for column in again for term in column.terms)
                self._recall(kind, list(dict.fromkeys(learners)))
            if fresh:
                terms[kind] = self._terms(kind, fresh, first)
        self._append(terms, places)
        if self._learning is not None:
            self._add_held_out(priced, self._learning)
        return len(places.added)

    def add_grown(
        self, kind: str, rounds: Sequence[Sequence[Column]], booster: GrowsRounds
    ) -> list[IntArray]:
        """Add the columns of rounds that a booster ran ahead, and return the places of each."""
        places = _Places(self._indices, self._live)
        fresh = [column for columns in rounds for column in places.split(kind, columns)[0]]
        if fresh:
            self._append({kind: self._terms(kind, fresh, 0, booster)}, places)
        ends = np.cumsum([len(columns) for columns in rounds])[:-1]
        return np.split(np.array(places.selected, np.int64), ends)

    def _append(self, terms: Mapping[str, Terms], places: _Places) -> None:
        """Give the master the new columns of these places."""
        self.selected = np.array(places.selected, np.int64)
        n_added = len(places.added)
        if n_added:
            self._master.add_columns(terms, n_added)
            self._live = np.concatenate((self._live, np.array(places.added, np.int64)))
            self._idle = np.concatenate((self._idle, np.zeros(n_added, np.int64)))

    def _add_held_out(
        self, priced: Mapping[str, Sequence[Column]], learning: LearnsFromHeldOut
    ) -> None:
        """Give the master the responses of selected columns on parts they were not fitted to."""
        places = iter(self.selected.tolist())
        for kind, of_kind in priced.items():
            family, of_kind_places = self.families[kind], [next(places) for _ in of_kind]
            parts = family.left_out()
            terms = [
                (at, term)
                for at, column in zip(of_kind_places, of_kind, strict=True)
                for term in column.terms
            ]
            of_terms = [family.held_out_response(term.learner, term.channel) for _, term in terms]
            responses = [
                term.coefficient * response
                for (_, term), response in zip(terms, of_terms, strict=True)
                if response is not None
            ]
            if parts is None or len(responses) < len(terms):
                continue
            channels = [term.channel for _, term in terms]
            held_out = HeldOut(parts, [at for at, _ in terms], channels, responses)
            learning.add_held_out(kind, held_out)

    def drop_idle(self, max_idle: int) -> None:
        """Drop columns that had no weight for more than ``max_idle`` rounds."""
        self._idle = np.where(self._master.weights != 0, 0, self._idle + 1)
        is_live = self._idle <= max_idle
        if not is_live.all():
            self._master.keep_columns(is_live)
            self._live, self._idle = self._live[is_live], self._idle[is_live]

    def weights(self) -> ColumnWeights:
        """The live columns with a weight, by their number."""
        weights = self._master.weights
        used = weights.nonzero()[0]
        return ColumnWeights(self._live[used].astype(np.int32), weights[used])

    def ensemble(
        self,
        kinds: Mapping[str, PartKind],
        final: ColumnWeights,
        stages: Sequence[ColumnWeights],
        metadata: Mapping[str, Any],
    ) -> Ensemble:
        """Return the model of every column that had a weight in a stage or has one now."""
        is_used = np.zeros(len(self._indices), np.bool_)
        for stage in (final, *stages):
            is_used[stage.columns] = True
        used, places = is_used.nonzero()[0], np.cumsum(is_used) - 1
        place = {index: i for i, index in enumerate(used.tolist())}
        stage_weights = np.zeros((len(stages), len(used)))
        for row, stage in zip(stage_weights, stages, strict=True):
            row[places[stage.columns]] = stage.weights
        weights = np.zeros(len(used))
        weights[places[final.columns]] = final.weights
        keys = {index: key for key, index in self._indices.items() if index in place}
        members = {}
        for kind, family in self.families.items():
            placed = [
                (place[index], term)
                for index in place
                if keys[index][0] == kind
                for term in keys[index][1]
            ]
            learners = list(dict.fromkeys(term.learner for _, term in placed))
            columns, of_terms, channels, coefficients = Terms.of(
                placed, {learner: i for i, learner in enumerate(learners)}
            )
            members[kind] = KindEnsemble(
                family=family.name,
                learners=family.table(learners),
                columns=columns,
                term_learners=of_terms,
                channels=channels,
                coefficients=coefficients,
                n_features=family.n_features,
            )
        return Ensemble(kinds, members, weights, stage_weights, metadata)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return every column ever added and which are live, as plain JSON and arrays."""
        columns = [
            (
                kind,
                [(self._learners[kind][t.learner], int(t.channel), t.coefficient) for t in terms],
            )
            for kind, terms in self._indices
        ]
        learners = {kind: list(indices) for kind, indices in self._learners.items()}
        return {"learners": learners, "columns": columns}, {"live": self._live, "idle": self._idle}

    def restore(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        kinds: Mapping[str, PartKind],
    ) -> None:
        """Go to a state from a registry and a master without columns.

        DamagedFileError if it is no state of a run on these features.
        """
        live = arrays["live"]
        with damaged_content():
            learners = {
                kind: [family.restored(learner) for learner in header["learners"][kind]]
                for kind, family in self.families.items()
            }
            columns = [
                (kind, tuple(_restored_term(term, learners[kind], kinds[kind]) for term in terms))
                for kind, terms in header["columns"]
            ]
            self._indices = {column: index for index, column in enumerate(columns)}
            if len(self._indices) != len(columns) or len(np.unique(live)) != len(live):
                raise DamagedFileError("it has a column twice")
            if live.max(initial=-1) >= len(columns):
                raise DamagedFileError("it uses columns that it does not have")
        for kind, of_kind in learners.items():
            if of_kind:
                self._add_learners(kind, of_kind)
            self._learners[kind] = {learner: i for i, learner in enumerate(of_kind)}
        self._live, self._idle = live, arrays["idle"]
        added: dict[str, list[tuple[int, Term]]] = {}
        for place, index in enumerate(self._live.tolist()):
            kind, terms = columns[index]
            added.setdefault(kind, []).extend((place, term) for term in terms)
        if len(self._live):
            self._master.add_columns(
                {
                    kind: Terms.of(terms_of_kind, self._learners[kind])
                    for kind, terms_of_kind in added.items()
                },
                len(self._live),
            )

    def _terms(
        self, kind: str, fresh: Sequence[Column], first: int, grower: GrowsRounds | None = None
    ) -> Terms:
        """Return the terms of columns from index ``first``, and give learners to the master.

        ``grower`` is a booster that needs no responses.
        """
        indices = self._learners[kind]
        numbered = [(first + i, term) for i, column in enumerate(fresh) for term in column.terms]
        learners = list(dict.fromkeys(term.learner for _, term in numbered))
        new = [learner for learner in learners if learner not in indices]
        if len(new) < len(learners) and self._master.recalls_responses and grower is None:
            # Learners of earlier rounds, on other channels now.
            self._recall(kind, [learner for learner in learners if learner in indices])
        if new:
            if grower is None:
                start = self._add_learners(kind, new)
            else:
                start = grower.add_grown(kind, len(new))
            indices.update({learner: start + i for i, learner in enumerate(new)})
        return Terms.of(numbered, indices)

    def _recall(self, kind: str, learners: Sequence[Any]) -> None:
        """Give the master the responses of learners that it had before."""
        indices = np.array([self._learners[kind][learner] for learner in learners], np.int64)
        self._master.hold_responses(kind, indices, _dense(self._responses(kind, learners)))

    def _add_learners(self, kind: str, learners: Sequence[Any]) -> int:
        """Give the master new learners, and return the index of the first."""
        responses = self._responses(kind, learners)
        if not self._master.takes_sparse_responses:
            responses = _dense(responses)
        return self._master.add_responses(kind, responses)

    def _responses(self, kind: str, learners: Sequence[Any]) -> Any:
        return self.families[kind].responses(learners)


def _restored_term(term: Any, learners: Sequence[Any], part: PartKind) -> Term:
    """Make a term of a column from the values in a header."""
    learner, channel, coefficient = term
    return Term(
        learners[whole_number(learner, "learner", high=len(learners) - 1)],
        whole_number(channel, "channel", high=part.n_channels - 1),
        finite_number(coefficient, "coefficient"),
    )


def _dense(responses: Any) -> Any:
    return responses.toarray() if sparse.issparse(responses) else responses
