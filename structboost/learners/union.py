"""Union of families, whose best learners are the best of all members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.files.archive import Array, DamagedFileError, below, prefixed, whole_number
from structboost.learners.base import Candidate, Group, WeakLearnerFamily, best_first
from structboost.learners.responses import (
    BlockMeasure,
    DualsInShards,
    FeaturesOfRows,
    ResponsesInShard,
    ShardFeatures,
)
from structboost.learners.table import LearnerTable, Scorer, sum_of
from structboost.learners.terms import Terms

# Between the names of the families in the name of a union.
UNION = "+"


class OfMember(NamedTuple):
    """Learner of the family with index ``member``."""

    member: int
    learner: Any


@dataclass(frozen=True)
class UnionCodes:
    """Learners in the form that is sent to shards, by member."""

    member: IntArray
    parts: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.member)


@dataclass(frozen=True)
class UnionTable(LearnerTable):
    """Table of learners of several families, with the index of the family of each learner."""

    schema = {"member": Array("int64", ("n_learners",), low=0)}

    member: IntArray
    tables: tuple[LearnerTable, ...]

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        """Whether all families take missing features."""
        return all(table.takes_missing for table in self.tables)

    @classmethod
    def of_arrays(
        cls, classes: Sequence[type[LearnerTable]], arrays: Mapping[str, AnyArray]
    ) -> UnionTable:
        """Restore a table from the arrays of :meth:`to_arrays`, given the classes of the tables.

        DamagedFileError if a table has more or fewer learners than it should.
        """
        member = arrays["member"]
        tables = tuple(of(**below(f"{i}/", arrays)) for i, of in enumerate(classes))
        counts = np.bincount(member, minlength=len(tables)).tolist()
        if counts != [len(table) for table in tables]:
            raise DamagedFileError("its families have more or fewer learners than they should")
        return cls(member, tables)

    @override
    def to_arrays(self) -> dict[str, AnyArray]:
        arrays = {"member": self.member}
        for i, table in enumerate(self.tables):
            arrays |= prefixed(f"{i}/", table.to_arrays())
        return arrays

    @override
    def select(self, index: AnyArray) -> UnionTable:
        chosen, place = self.member[index], places(self.member)[index]
        tables = [table.select(place[chosen == i]) for i, table in enumerate(self.tables)]
        return UnionTable(chosen, tuple(tables))

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        return self._joined(lambda table: table.responses(features), len(features))

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        return self._joined(lambda table: table.feature_shares(n_features), n_features)

    @override
    def scorer(self, weights: FloatArray, n_features: int) -> Scorer:
        return sum_of(
            [
                table.scorer(weights[self.member == i], n_features)
                for i, table in enumerate(self.tables)
            ]
        )

    def _joined(self, rows: Callable[[LearnerTable], AnyArray], width: int) -> FloatArray:
        """Join rows of the tables into one row for each learner."""
        out = np.empty((len(self.member), width))
        for i, table in enumerate(self.tables):
            out[self.member == i] = rows(table)
        return out


class UnionResponses(ResponsesInShard):
    """Responses of learners of several families.

    Parameters
    ----------
    members : sequence of ResponsesInShard
        Responses of the families, on the same rows.
    """

    def __init__(self, members: Sequence[ResponsesInShard]) -> None:
        super().__init__(members[0].features, members[0].starts)
        self._members = members
        self._member, self._place = np.zeros(0, np.int64), np.zeros(0, np.int64)

    @override
    def add(self, new: UnionCodes) -> int:
        first = len(self._member)
        starts = np.array([of.add(part) for of, part in zip(self._members, new.parts, strict=True)])
        self._member = np.concatenate((self._member, new.member))
        self._place = np.concatenate((self._place, starts[new.member] + places(new.member)))
        return first

    @override
    def sums(self, duals: FloatArray, member: int, *arguments: Any) -> FloatArray:
        return self._members[member].sums(duals, *arguments)

    @override
    def features_sum(self, first_row: int) -> int:
        return sum(of.features_sum(first_row) for of in self._members)

    @override
    def add_scores(self, terms: Terms, first: int, out: FloatArray) -> None:
        for of, _, of_member in self._of_members(terms):
            of.add_scores(of_member, first, out)

    @override
    def add_products(
        self, terms: Terms, measure: BlockMeasure, first: int, out: FloatArray
    ) -> None:
        for of, at, of_member in self._of_members(terms):
            products = np.zeros(len(at))
            of.add_products(of_member, measure, first, products)
            out[at] += products

    def _of_members(self, terms: Terms) -> Iterator[tuple[ResponsesInShard, IntArray, Terms]]:
        """Terms of each member with the member's own indices, and their positions."""
        member = self._member[terms.learners]
        for i, of in enumerate(self._members):
            at = np.flatnonzero(member == i)
            of_member = terms.take(at)
            yield of, at, of_member._replace(learners=self._place[of_member.learners])


class UnionInShards(NamedTuple):
    """Features of several families, made by each of them in a shard."""

    members: tuple[ShardFeatures, ...]

    @property
    def identity(self) -> tuple[AnyArray, ...]:
        """Arrays of all members, one after the other."""
        return tuple(array for member in self.members for array in member.identity)

    def in_shard(self, features: FeaturesOfRows, starts: IntArray) -> UnionResponses:
        """Responses of each member on the rows of a shard."""
        return UnionResponses([member.in_shard(features, starts) for member in self.members])


class _DualsOfMember:
    """Duals in shards, whose sums are those of one family of a union."""

    def __init__(self, duals: DualsInShards, member: int) -> None:
        self._duals = duals
        self._member = member

    @property
    def shape(self) -> tuple[int, int]:
        """Parts and channels."""
        return self._duals.shape

    def sums(self, *arguments: Any) -> FloatArray:
        """Sum over all shards by the responses of the member."""
        return self._duals.sums(self._member, *arguments)

    def gathered(self) -> FloatArray:
        """Weights themselves, shape (n_parts, n_channels)."""
        return self._duals.gathered()


class UnionFamily(WeakLearnerFamily):
    """Family of all learners of several families on the same parts.

    Pricing searches each of them.  If each finds its largest edge, the largest of these is the
    largest edge of the union, and the certificate covers it.

    Parameters
    ----------
    members : sequence of WeakLearnerFamily
        Families on the same parts.
    """

    def __init__(self, members: Sequence[WeakLearnerFamily]) -> None:
        self.members = members
        self.name = UNION.join(family.name for family in members)
        self.n_features = members[0].n_features
        self.exact_pricing = all(family.exact_pricing for family in members)
        self.cross_fitted = any(family.cross_fitted for family in members)
        self.can_resume = all(family.can_resume for family in members)
        self.takes_missing = all(family.takes_missing for family in members)
        self.ridge = max(family.ridge for family in members)
        in_shards = [of.shard_features for of in members if of.shard_features is not None]
        if len(in_shards) == len(members):
            self.shard_features = UnionInShards(tuple(in_shards))

    @property
    @override
    def identity(self) -> str:
        return UNION.join(family.identity for family in self.members)

    @override
    def resample(self, rng: Any) -> None:
        for family in self.members:
            family.resample(rng)
        self.can_resume = all(family.can_resume for family in self.members)

    @override
    def skip_rounds(self, n_rounds: int) -> None:
        for family in self.members:
            family.skip_rounds(n_rounds)

    @property
    @override
    def searches_all(self) -> bool:
        return all(family.searches_all for family in self.members)

    @override
    def widest_edges(self, duals: Any) -> FloatArray | None:
        widest = [of.widest_edges(self._duals_of(i, duals)) for i, of in enumerate(self.members)]
        bounds = [edges for edges in widest if edges is not None]
        return np.max(bounds, axis=0) if len(bounds) == len(widest) else None

    @override
    def price(self, duals: Any, per_channel: int) -> list[Candidate]:
        candidates = [
            candidate._replace(learner=OfMember(i, candidate.learner))
            for i, family in enumerate(self.members)
            for candidate in family.price(self._duals_of(i, duals), per_channel)
        ]
        return best_first(candidates)

    @override
    def refine(self, learner: OfMember, duals: Any) -> list[Candidate]:
        member_duals = self._duals_of(learner.member, duals)
        return [
            candidate._replace(learner=OfMember(learner.member, candidate.learner))
            for candidate in self.members[learner.member].refine(learner.learner, member_duals)
        ]

    @override
    def price_groups(self, duals: FloatArray, n_groups: int) -> list[Group]:
        groups = [
            [(OfMember(i, learner), edges) for learner, edges in group]
            for i, family in enumerate(self.members)
            for group in family.price_groups(duals, n_groups)
        ]
        norms = [-sum(float(np.abs(edges).sum()) for _, edges in group) for group in groups]
        return [groups[int(k)] for k in np.argsort(norms, kind="stable")[:n_groups]]

    @override
    def restored(self, values: Sequence[Any]) -> OfMember:
        member, learner = values
        index = whole_number(member, "family", 0, len(self.members) - 1)
        return OfMember(index, self.members[index].restored(learner))

    @override
    def responses(self, learners: Sequence[OfMember]) -> Any:
        member, of_members = self._split(learners)
        parts = [of.responses(some) for of, some in zip(self.members, of_members, strict=True)]
        if self.shard_features is not None:
            return UnionCodes(member, tuple(parts))
        out = np.empty((len(learners), parts[0].shape[1]), np.float32)
        for i, part in enumerate(parts):
            out[member == i] = part.toarray() if sparse.issparse(part) else part
        return out

    @override
    def table(self, learners: Sequence[OfMember]) -> UnionTable:
        member, of_members = self._split(learners)
        tables = [of.table(some) for of, some in zip(self.members, of_members, strict=True)]
        return UnionTable(member, tuple(tables))

    def _duals_of(self, member: int, duals: Any) -> Any:
        """Duals for a member, as an array or as sums over shards."""
        return duals if self.shard_features is None else _DualsOfMember(duals, member)

    def _split(self, learners: Sequence[OfMember]) -> tuple[IntArray, list[list[Any]]]:
        """Member of each learner, and the learners of each member."""
        split: list[list[Any]] = [[] for _ in self.members]
        for member, learner in learners:
            split[member].append(learner)
        return np.array([member for member, _ in learners], np.int64), split


def places(member: IntArray) -> IntArray:
    """Index of each learner among the learners of its family."""
    out = np.empty(len(member), np.int64)
    for i in np.unique(member):
        out[member == i] = np.arange((member == i).sum())
    return out
