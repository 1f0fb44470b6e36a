"""Contract of families of weak learners.

A learner h responds with ``h(p)`` to every part p of a kind.  Under duals D, the signed weights of
all parts and channels, its edge on channel c is::

    edge(h, c) = sum over p of D[p, c] h(p)

Calls of a run, in this order::

    family = Family(features, response, exact=..., n_threads=...)
    family.resample(rng)                     if weight is to be shared by many learners
    family.skip_rounds(n)                    if a checkpoint has n rounds behind it
    repeat
        family.price(D, per_channel)         by the pricing rule, or price_groups
        family.refine(learner, D)            by rules that share learners
        family.left_out()                    by masters that look at the parts left out
        family.responses(new learners)
    family.widest_edges(D)                   at the end, unless family.searches_all
    family.table(learners)                   for the model
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from structboost._typing import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    LeafArray,
    Range,
    WordArray,
    override,
)
from structboost.errors import TaskError
from structboost.runtime.called_class import Described

if TYPE_CHECKING:
    from structboost.learners.binning import Thresholds
    from structboost.learners.responses import ShardFeatures
    from structboost.learners.standardisation import Standardisation
    from structboost.learners.table import LearnerTable
    from structboost.learners.terms import Term

# Relative difference of edges up to which a constant learner is as good as a split.
TIE = 1e-6
# Part of the largest edge by which equal edges may differ, since processors add in other orders.
ROUNDING = 1e-9


class Candidate(NamedTuple):
    """Weak learner that pricing found, with its channel.

    Parameters
    ----------
    learner : hashable
        The weak learner, as its family describes it.
    channel : int
        Index of the channel.
    edge : float
        ``<duals, response>`` of the learner on the channel.
    """

    learner: Any
    channel: int
    edge: float


class Column(NamedTuple):
    """Result of pricing, terms under one weight and their edge.

    Parameters
    ----------
    terms : tuple of Term
        The response of the column is the sum of the responses of its terms.
    edge : float
        ``<duals, response>``; a column above the rule's ``min_edge`` lowers the objective.
    """

    terms: tuple[Term, ...]
    edge: float


# Learners that are chosen together, each with its edge on every channel.
Group = Sequence[tuple[Any, FloatArray]]


class TrainingFeatures(Protocol):
    """Training set whose features stay in shards, as families see it.

    Attributes
    ----------
    rows : dict of str to ndarray, shape (n_parts, n_features), or None
        Features of each kind, where they are in this process.
    """

    rows: Mapping[str, AnyArray] | None

    def bins(self, kind: str, *, exact: bool | None) -> Thresholds:
        """Thresholds of the features of a kind.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        exact : bool or None
            Whether to bin at all distinct values, or at no more than 255 thresholds per feature.
            None leaves it to the number of rows
            (:func:`structboost.learners.binning.bin_thresholds`).

        Returns
        -------
        thresholds : Thresholds
            One entry or column for each feature of the kind.
        """

    def standardisation(self, kind: str, response: Range) -> Standardisation:
        """Means and scales of the features of a kind.

        Parameters
        ----------
        kind : str
            Kind of the parts.
        response : (float, float)
            The two responses of discrete weak learners of this kind.

        Returns
        -------
        standardisation : Standardisation
            One entry or column for each feature of the kind.
        """


class Growth(NamedTuple):
    """Data from which compiled code grows the trees of rounds, and room for them.

    Parameters
    ----------
    setup : tuple
        Arguments of :func:`.tree_growth.grow` that no round changes: ``table``, ``columns``,
        ``room``, ``limits``, ``draw`` without the seed, and ``counts``.
    is_drawn : ndarray of bool, shape (n_rounds, n_rows)
        Rows that the trees of each round are grown on.
    seeds : ndarray of int64, shape (n_rounds,)
    trees : tuple of ndarray, shapes (n_rounds, n_channels, n_nodes) twice and \
            (n_rounds, 2, n_channels, n_leaves)
        Filled with features, bins, and the responses of leaves of all and of the drawn rows.
    sets : ndarray of uint64, shape (n_rounds * n_channels, n_nodes, n_words), optional
    sums : ndarray, shape (n_rounds, 4, n_channels, n_leaves)
        Filled by :func:`structboost.learners.tree_growth.sum_leaves`.
    leaf_of_rows : ndarray of int16, shape (n_channels, n_rows)
        Work array for the leaf of each row.
    fractions : (float, float)
        As for :func:`structboost.learners.tree_growth.confident_leaves`.
    """

    setup: tuple[Any, ...]
    is_drawn: BoolArray
    seeds: IntArray
    trees: tuple[IntArray, IntArray, FloatArray]
    sets: WordArray | None
    sums: FloatArray
    leaf_of_rows: LeafArray
    fractions: tuple[float, float]


class WeakLearnerFamily(Described, ABC):
    """Family of weak learners on the parts of one kind, bound to its training features.

    The trainer makes it as ``Family(features, response, exact=..., n_threads=...)``; it may then
    precompute what every round needs.  Learners are hashable.  Two further keywords are optional:
    ``directions`` (1, -1 or 0 for each feature, with which responses rise, fall, or are
    unconstrained) and ``categorical`` (indices of the features that are split by sets of
    categories).  A family with such a keyword is used for tables that need it.

    Attributes
    ----------
    name : str
        The name in ``StructBoost(weak_learner=...)`` and in model files.
    exact_pricing : bool
        Whether :meth:`price` finds the learner of largest edge in the whole family.  If not, there
        is no lower bound over the family, which the certificate reports.
    cross_fitted : bool
        Whether a learner has other responses on training parts than the one that is saved.
        Objective and bound then refer to the training responses, and the saved model has no
        certificate.
    can_resume : bool
        Whether learners are tuples of plain values that :meth:`restored` restores, as a checkpoint
        needs.
    takes_missing : bool
        Whether features may be missing (NaN).  Other families only receive features without.
    takes_sparse : bool
        Whether features may be a sparse array.
    reads_bins : bool
        Whether features are read by :func:`structboost.learners.binning.bin_features` only, which
        also takes rows in another order than that of their table.  Other families receive arrays.
    in_threads : bool
        Whether :meth:`price` works in ``n_threads`` threads.
    sets_of_categories : type, optional
        Second family for categorical features, if this one does not take ``categorical``.
    ridge : float
        The best ridge of :class:`structboost.objectives.OneSlack` for these learners.
    shard_features : ShardFeatures, optional
        Plain data from which shards compute the responses, if they do.
    """

    name: str
    exact_pricing: bool
    cross_fitted: bool = False
    can_resume: bool = False
    takes_missing: bool = False
    takes_sparse: bool = False
    reads_bins: bool = False
    in_threads: bool = False
    sets_of_categories: ClassVar[type[WeakLearnerFamily] | None] = None
    ridge: float = 0.0
    shard_features: ShardFeatures | None = None
    n_features: int

    @abstractmethod
    def price(self, duals: FloatArray, per_channel: int) -> Sequence[Candidate]:
        """Learners of largest edge for given duals.

        Parameters
        ----------
        duals : ndarray, shape (n_parts, n_channels)
            Signed weights of the training parts, or the return value of
            :meth:`structboost.CutOracle.combine` if they stay in shards.
        per_channel : int
            Largest number of different learners per channel, at least 1.

        Returns
        -------
        candidates : sequence of Candidate
            At least the best learner of each channel, in descending order of edge, with ties in a
            fixed order.
        """

    def resample(self, rng: Any) -> None:
        """Prepare to find learners that differ more from round to round.

        Called at most once, before the first round, for masters with a ridge, which
        spreads the weight over many learners.  By default nothing changes.

        Parameters
        ----------
        rng : int, RandomState or None
            Source of all random draws of the family.
        """
        return

    def skip_rounds(self, n_rounds: int) -> None:
        """Pass over the random draws of :meth:`price` in rounds that were run.

        They are the rounds before a checkpoint, or those of the last :meth:`growth`.

        Parameters
        ----------
        n_rounds : int
            Number of these rounds.
        """
        return

    def growth(self, n_rounds: int, n_channels: int) -> Growth | None:
        """Return data from which a booster grows the learners of rounds in compiled code.

        It takes the place of :meth:`price` in rounds that nobody watches.

        Parameters
        ----------
        n_rounds, n_channels : int
            Largest number of rounds, and channels of the kind.

        Returns
        -------
        growth : Growth or None
            None if learners are only found by :meth:`price`, as by default.
        """
        return None

    def grown(self, growth: Growth, n_rounds: int) -> list[list[Candidate]]:
        """Return the candidates of each of the first rounds of a growth, best first.

        Parameters
        ----------
        growth : Growth
            The result of :meth:`growth`, filled by the booster.
        n_rounds : int
            Number of rounds that were grown.
        """
        raise NotImplementedError

    def part(self) -> WeakLearnerFamily | None:
        """Smaller family of these learners, which is priced faster.

        The learners that it returns belong to this family.  Rounds price the part first, and the
        whole family only where the part has no edge that keeps the gap open.

        Returns
        -------
        part : WeakLearnerFamily or None
            None if there is no faster search, as by default.
        """
        return None

    @property
    def identity(self) -> str:
        """Text by which checkpoints tell families of one name apart."""
        return self.name

    @property
    def searches_all(self) -> bool:
        """Whether :meth:`price` searches all learners of the kind, not only quantiles."""
        return True

    def widest_edges(self, duals: Any) -> FloatArray | None:
        """Largest edge of each channel over all learners of the kind.

        Called once, when training ends, if the family searches only a part of its learners.

        Parameters
        ----------
        duals : ndarray, shape (n_parts, n_channels)
            As for :meth:`price`.

        Returns
        -------
        edges : ndarray, shape (n_channels,), or None
            None if they cannot be searched.
        """
        if not (self.exact_pricing and self.searches_all):
            return None
        return best_edges(self.price(duals, 1), duals.shape[1])

    def ways(self, learner: Any) -> Sequence[Any]:
        """Orientations of a learner that the family holds, by default itself alone.

        Parameters
        ----------
        learner : hashable
            A learner that this family returned.
        """
        return [learner]

    def edges(self, learners: Sequence[Any], duals: Any) -> FloatArray:
        """Edges of learners on all channels, shape (n_learners, n_channels).

        Parameters
        ----------
        learners : sequence
            Learners that this family returned.
        duals : ndarray, shape (n_parts, n_channels)
            As for :meth:`price`.
        """
        return np.asarray(self.responses(learners) @ duals)

    def refine(self, learner: Any, duals: Any) -> Sequence[Candidate]:
        """Turn a learner into the form that each channel prefers (rule ``best``).

        Parameters
        ----------
        learner : hashable
            A learner that :meth:`price` returned.
        duals : ndarray, shape (n_parts, n_channels)
            As for :meth:`price`.

        Returns
        -------
        candidates : sequence of Candidate
            One per channel, in the order of the channels.
        """
        ways = self.ways(learner)
        edges = self.edges(ways, duals)
        return [
            Candidate(ways[int(way)], channel, float(edges[way, channel]))
            for channel, way in enumerate(np.argmax(edges, axis=0))
        ]

    def price_groups(self, duals: FloatArray, n_groups: int) -> Sequence[Group]:
        """List the groups of learners of largest summed l1 norm of edges, best first.

        By default each of the learners of the largest edges on a channel, if pricing is not exact.

        Parameters
        ----------
        duals : ndarray, shape (n_parts, n_channels)
            Signed weights of the training parts.
        n_groups : int
            Largest number of groups.

        Returns
        -------
        groups : sequence of sequence of (learner, ndarray of shape (n_channels,))
            At least one group of at least one learner, each with its edge on every channel.

        Raises
        ------
        NotImplementedError
            If the family has no search for it.
        """
        if self.exact_pricing:
            raise NotImplementedError(
                f"The family {self.name!r} has no price_groups, which this pricing rule needs; "
                "take 'stump' or 'feature'."
            )
        learners = list(dict.fromkeys(candidate.learner for candidate in self.price(duals, 1)))
        return largest_norms(learners, self.edges(learners, duals), n_groups)

    def left_out(self) -> BoolArray | None:
        """Training parts that the learners of the last :meth:`price` were not grown on.

        Returns
        -------
        parts : ndarray of bool, shape (n_parts,), or None
            None if learners are grown on all parts, as by default.
        """
        return None

    def held_out_response(self, learner: Any, channel: int) -> FloatArray | None:
        """Responses of a learner to the parts left out, as if it had been fitted without them.

        Parameters
        ----------
        learner : hashable
            A learner that the last :meth:`price` returned.
        channel : int
            The channel it was returned for.

        Returns
        -------
        responses : ndarray, shape (n_parts,), or None
            0 on the parts that it was grown on.  None if :meth:`left_out` is None, or if the last
            :meth:`price` did not return the learner for this channel.
        """
        return None

    def restored(self, values: Sequence[Any]) -> Any:
        """Restore a learner from the fields in a checkpoint, where tuples are lists.

        Parameters
        ----------
        values : sequence
            Plain values, as JSON holds them.

        Returns
        -------
        learner : hashable
            Equal to the one that was written.

        Raises
        ------
        DamagedFileError
            If it is not a learner of this family on these features.
        NotImplementedError
            If the family does not declare ``can_resume``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement restored().")

    @abstractmethod
    def responses(self, learners: Sequence[Any]) -> Any:
        """Responses of learners to the training parts.

        Parameters
        ----------
        learners : sequence
            Learners that this family returned.

        Returns
        -------
        responses : ndarray or scipy.sparse.csr_array, shape (n_learners, n_parts)
            int8 if they are discrete.  Sparse, with sorted rows, where most are 0.
        """

    @abstractmethod
    def table(self, learners: Sequence[Any]) -> LearnerTable:
        """Table of the learners, which gives their responses to any features.

        Parameters
        ----------
        learners : sequence
            Learners that this family returned.

        Returns
        -------
        table : LearnerTable
            One entry per learner, in their order.
        """


def ranked(values: FloatArray, most: int | None = None) -> IntArray:
    """Rank the largest values, or all, by index where they differ by rounding only."""
    rounding = ROUNDING * (float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0)
    index = np.arange(len(values))
    if most is not None and most < len(values):
        # Sorting all would cost more than the search that found the values.
        least = np.partition(values, len(values) - most)[len(values) - most]
        index = np.flatnonzero(values >= least - rounding)
    order = np.argsort(-np.round(values[index] / rounding), kind="stable")[:most]
    return index[order]


def best_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in the order of :func:`ranked` edges."""
    return [candidates[int(k)] for k in ranked(np.array([c.edge for c in candidates]))]


def best_on_channels(
    edges: FloatArray, per_channel: int, learner: Callable[[int, int], Any]
) -> list[Candidate]:
    """Candidates of largest edge on each channel, best first.

    ``learner(k, channel)`` is the learner of edge ``edges[k, channel]``.
    """
    candidates = [
        Candidate(learner(int(k), channel), channel, float(edges[k, channel]))
        for channel in range(edges.shape[1])
        for k in ranked(edges[:, channel], per_channel)
    ]
    return best_first(candidates)


def best_edges(candidates: Sequence[Candidate], n_channels: int) -> FloatArray:
    """Largest edge of the candidates of each channel."""
    edges = np.full(n_channels, -np.inf)
    for _, channel, edge in candidates:
        edges[channel] = max(edges[channel], edge)
    return edges


def largest_norms(learners: Sequence[Any], edges: FloatArray, n_groups: int) -> list[Group]:
    """Learners of largest l1 norm of edges over the channels, best first, each as a group."""
    order = ranked(np.abs(edges).sum(axis=1), n_groups)
    return [[(learners[int(k)], edges[k])] for k in order]


def with_constant(
    splits: Sequence[Candidate], constant: Candidate, per_channel: int
) -> list[Candidate]:
    """Best splits of a channel, best first, and the constant learner, or the constant alone.

    The simplest learner enters alone if it is as good as any split.  Its edge then stands for
    theirs, so that the bound holds for the whole family.
    """
    best_split = max((split.edge for split in splits), default=-np.inf)
    if constant.edge > 0 and constant.edge >= (1 - TIE) * best_split:
        return [constant._replace(edge=max(constant.edge, best_split))]
    return [*splits] if per_channel == 1 and splits else [*splits, constant]


def response_type(low: float, high: float) -> type[np.signedinteger[Any] | np.floating[Any]]:
    """Smallest type for two responses, int8 if both are small integers."""
    return np.int8 if float(low).is_integer() and float(high).is_integer() else np.float32


class ListedFamily(WeakLearnerFamily):
    """Family whose search compares a list of learners.

    Attributes
    ----------
    both_signs : bool
        Whether :meth:`ways` are a learner and the same times -1.
    group_size : int
        Number of neighbours in the list that are chosen together.
    """

    both_signs: bool = False
    group_size: int = 1

    @abstractmethod
    def listed(self, duals: FloatArray) -> tuple[Callable[[int], Any], FloatArray]:
        """List the learners to compare under given duals, shape (n_parts, n_channels).

        Returns a function that makes the k-th learner, and the edges of all, shape (n_learners,
        n_channels).
        """

    @override
    def price(self, duals: FloatArray, per_channel: int) -> list[Candidate]:
        learner, edges = self.listed(duals)

        def way(k: int, channel: int) -> Any:
            is_turned = self.both_signs and bool(edges[k, channel] < 0)
            return self.ways(learner(k))[int(is_turned)]

        sizes = np.abs(edges) if self.both_signs else edges
        return best_on_channels(sizes, per_channel, way)

    @override
    def price_groups(self, duals: FloatArray, n_groups: int) -> list[Group]:
        learner, edges = self.listed(duals)
        starts, places = np.arange(0, len(edges), self.group_size), range(len(edges))
        norms = np.add.reduceat(np.abs(edges).sum(axis=1), starts)
        return [
            [(learner(k), edges[k]) for k in places[start : start + self.group_size]]
            for start in starts[ranked(norms, n_groups)].tolist()
        ]


def check_has_rows(features: AnyArray, family: str) -> None:
    """Raise TaskError if there is no part to learn from."""
    if not len(features):
        raise TaskError(
            "features has no rows. "
            f"No example has a part of a kind that weak_learner={family!r} is to learn on; use "
            "'stump' or 'tree', which need none, or leave the kind out of the task."
        )


def check_signed(response: Range, family: str) -> None:
    """Raise TaskError unless responses may be negative."""
    if min(response) >= 0:
        raise TaskError(
            f"weak_learner={family!r} has responses of both signs, and those of this kind are in "
            f"{response}; take 'stump', 'tree' or 'linear'."
        )
