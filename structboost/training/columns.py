"""Columns of a run, and the model that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, Facts, FloatArray, IntArray, ShortArray
from structboost.contract.parts import Kinds, PartKind
from structboost.files.archive import (
    Array,
    Arrays,
    DamagedFileError,
    Header,
    damaged_content,
    finite_number,
    whole_number,
)
from structboost.learners.base import Column, WeakLearnerFamily
from structboost.learners.terms import KindTerms, Term, Terms
from structboost.model.ensemble import Ensemble, KindEnsemble
from structboost.objectives.master import GrowsRounds, HeldOut, LearnsFromHeldOut, WeightedColumns

# What a checkpoint holds about the columns.
COLUMNS_SCHEMA = {name: Array("int64", ("n_live",), low=0) for name in ("live", "idle")}


class ColumnWeights(NamedTuple):
    """Weights of the columns of a round by their indices, without zeros."""

    columns: ShortArray
    weights: FloatArray


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
        # Indices of the columns in the master, their rounds without a weight, and their places.
        self._live = np.zeros(0, np.int64)
        self._idle = np.zeros(0, np.int64)
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._indices)

    def add(self, priced: Mapping[str, Sequence[Column]]) -> int:
        """Add the columns that the master does not hold, and return how many they are."""
        added: list[int] = []
        selected: list[int] = []
        terms: dict[str, Terms] = {}
        for kind, of_kind in priced.items():
            first = len(added)
            fresh, again = self._split(kind, of_kind, added, selected)
            if again and self._master.recalls_responses:
                learners = (term.learner for column in again for term in column.terms)
                self._recall(kind, list(dict.fromkeys(learners)))
            if fresh:
                terms[kind] = self._terms(kind, fresh, first)
        self.selected = np.array(selected, np.int64)
        self._append(terms, added)
        if self._learning is not None:
            self._add_held_out(priced, self._learning)
        return len(added)

    def add_grown(
        self, kind: str, rounds: Sequence[Sequence[Column]], booster: GrowsRounds
    ) -> list[IntArray]:
        """Add the columns of rounds that a booster ran ahead, and return the places of each."""
        added: list[int] = []
        selected: list[int] = []
        priced = [column for columns in rounds for column in columns]
        fresh, _ = self._split(kind, priced, added, selected)
        if fresh:
            self._append({kind: self._terms(kind, fresh, 0, booster)}, added)
        ends = np.cumsum([len(columns) for columns in rounds])[:-1]
        return np.split(np.array(selected, np.int64), ends)

    def _split(
        self, kind: str, columns: Sequence[Column], added: list[int], selected: list[int]
    ) -> tuple[list[Column], list[Column]]:
        """Split columns into those that the master lacks, which get a place, and the others.

        The indices of the former are added to ``added``, and the places of all to ``selected``.
        """
        fresh, again = [], []
        for column in columns:
            index = self._indices.setdefault((kind, column.terms), len(self._indices))
            place = self._places.get(index)
            if place is None:
                place = self._places[index] = len(self._live) + len(added)
                added.append(index)
                fresh.append(column)
            else:
                again.append(column)
            selected.append(place)
        return fresh, again

    def _append(self, terms: KindTerms, added: Sequence[int]) -> None:
        """Give the master the new columns of these indices."""
        if added:
            self._master.add_columns(terms, len(added))
            self._live = np.concatenate((self._live, np.array(added, np.int64)))
            self._idle = np.concatenate((self._idle, np.zeros(len(added), np.int64)))

    def _add_held_out(
        self, priced: Mapping[str, Sequence[Column]], learning: LearnsFromHeldOut
    ) -> None:
        """Give the master the responses of selected columns on parts they were not fitted to."""
        places = iter(self.selected.tolist())
        for kind, of_kind in priced.items():
            family = self.families[kind]
            parts = family.left_out()
            placed = [
                (place, term)
                for column, place in zip(of_kind, places, strict=False)
                for term in column.terms
            ]
            responses: list[Any] = [
                family.held_out_response(term.learner, term.channel) for _, term in placed
            ]
            if parts is None or any(response is None for response in responses):
                continue
            learning.add_held_out(
                kind,
                HeldOut(
                    parts,
                    [place for place, _ in placed],
                    [term.channel for _, term in placed],
                    [t.coefficient * of for (_, t), of in zip(placed, responses, strict=True)],
                ),
            )

    def drop_idle(self, max_idle: int) -> None:
        """Drop columns that had no weight for more than ``max_idle`` rounds."""
        self._idle = np.where(self._master.weights != 0, 0, self._idle + 1)
        is_live = self._idle <= max_idle
        if not is_live.all():
            self._master.keep_columns(is_live)
            self._live, self._idle = self._live[is_live], self._idle[is_live]
            self._places = {index: place for place, index in enumerate(self._live.tolist())}

    def weights(self) -> ColumnWeights:
        """The live columns with a weight, by their number."""
        (used,) = self._master.weights.nonzero()
        return ColumnWeights(self._live[used].astype(np.int32), self._master.weights[used])

    def ensemble(self, kinds: Kinds, stages: Sequence[ColumnWeights], metadata: Facts) -> Ensemble:
        """Return the model of the last stage, with every column that had a weight in any."""
        is_used = np.zeros(len(self._indices), np.bool_)
        for stage in stages:
            is_used[stage.columns] = True
        places = np.cumsum(is_used) - 1
        weights = np.zeros((len(stages), is_used.sum()))
        for row, stage in zip(weights, stages, strict=True):
            row[places[stage.columns]] = stage.weights
        used = [key for key, is_in in zip(self._indices, is_used.tolist(), strict=True) if is_in]
        members = {}
        for kind, family in self.families.items():
            placed = _placed(kind, used)
            learners = list(dict.fromkeys(term.learner for _, term in placed))
            terms = Terms.of(placed, {learner: i for i, learner in enumerate(learners)})
            table = family.table(learners)
            members[kind] = KindEnsemble(family.name, table, *terms, family.n_features)
        return Ensemble(kinds, members, weights[-1].copy(), weights, metadata)

    def state(self) -> tuple[Header, Arrays]:
        """Return every column ever added and which are live, as plain JSON and arrays."""
        learners = {kind: list(indices) for kind, indices in self._learners.items()}
        columns = [
            (kind, [(self._learners[kind][h], int(c), coefficient) for h, c, coefficient in terms])
            for kind, terms in self._indices
        ]
        return {"learners": learners, "columns": columns}, {"live": self._live, "idle": self._idle}

    def restore(self, header: Facts, arrays: Mapping[str, AnyArray], kinds: Kinds) -> None:
        """Go to a state from a registry and a master without columns.

        DamagedFileError if it is no state of a run on these features.
        """
        live = arrays["live"].tolist()
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
            self._places = {index: place for place, index in enumerate(live)}
            if len(self._indices) != len(columns) or len(self._places) != len(live):
                raise DamagedFileError("it has a column twice")
            if max(live, default=-1) >= len(columns):
                raise DamagedFileError("it uses columns that it does not have")
        terms = {}
        for kind, of_kind in learners.items():
            if of_kind:
                self._add_learners(kind, of_kind)
            self._learners[kind] = {learner: i for i, learner in enumerate(of_kind)}
            placed = _placed(kind, [columns[index] for index in live])
            terms[kind] = Terms.of(placed, self._learners[kind])
        self._live, self._idle = arrays["live"], arrays["idle"]
        if live:
            self._master.add_columns(terms, len(live))

    def _terms(
        self, kind: str, fresh: Sequence[Column], first: int, grower: GrowsRounds | None = None
    ) -> Terms:
        """Return the terms of columns from index ``first``, and give learners to the master.

        ``grower`` is a booster that needs no responses.
        """
        indices = self._learners[kind]
        numbered = [(first + i, term) for i, column in enumerate(fresh) for term in column.terms]
        learners = dict.fromkeys(term.learner for _, term in numbered)
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
        responses = _dense(self.families[kind].responses(learners))
        self._master.hold_responses(kind, indices, responses)

    def _add_learners(self, kind: str, learners: Sequence[Any]) -> int:
        """Give the master new learners, and return the index of the first."""
        responses = self.families[kind].responses(learners)
        if not self._master.takes_sparse_responses:
            responses = _dense(responses)
        return self._master.add_responses(kind, responses)


def _placed(kind: str, columns: Sequence[tuple[str, tuple[Term, ...]]]) -> list[tuple[int, Term]]:
    """Return the terms of the columns of a kind, each with the place of its column."""
    return [
        (place, term)
        for place, (of_column, terms) in enumerate(columns)
        if of_column == kind
        for term in terms
    ]


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
