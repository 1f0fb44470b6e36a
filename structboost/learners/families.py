"""Families for each kind of part from the ``weak_learner`` argument of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, Protocol

from scipy import sparse

from structboost._typing import IntArray
from structboost.contract.calls import check_nothing_missing
from structboost.contract.parts import PartKind, StackedParts
from structboost.learners.base import TrainingFeatures, WeakLearnerFamily
from structboost.learners.registry import FAMILIES, IN_SHARDS, SPARSE, family_maker
from structboost.learners.union import UnionFamily
from structboost.runtime.elsewhere import hint
from structboost.validation import copied_in_order, shown

WeakLearner = str | Callable[..., WeakLearnerFamily]
# One family, or the union of several.
Members = WeakLearner | Sequence[WeakLearner]
# The same for each kind, or one for all.
WeakLearners = Members | Mapping[str, Members]


class FeaturesOfKinds(TrainingFeatures, Protocol):
    """Training set with the inputs that errors name."""

    X: Any
    offsets: Mapping[str, IntArray]


def checked_members(
    weak_learner: Any, kinds: Mapping[str, PartKind], *, exact: bool | None
) -> dict[str, list[WeakLearner]]:
    """Families to learn each kind of part with, as a union.

    ValueError if a name or a kind does not exist, or a family is named twice.  TypeError if a
    callable does not take the arguments, ``exact`` among them.
    """
    if isinstance(weak_learner, Mapping):
        if set(weak_learner) != set(kinds):
            other = next((kind for kind in weak_learner if kind not in kinds), None)
            remedy = (
                "" if other is None else f" About {shown(other)}: {hint(str(other), list(kinds))}"
            )
            raise ValueError(
                f"weak_learner is for the kinds {list(weak_learner)}, but the task has the kinds "
                f"{list(kinds)}; give weak learners for each of them.{remedy}"
            )
        of_kinds = {kind: weak_learner[kind] for kind in kinds}
    else:
        of_kinds = dict.fromkeys(kinds, weak_learner)
    members = {
        kind: list(union) if isinstance(union, list | tuple) else [union]
        for kind, union in of_kinds.items()
    }
    for of_kind in members.values():
        names = [member for member in of_kind if isinstance(member, str)]
        if not of_kind or len(set(names)) < len(names):
            raise ValueError(
                f"weak_learner is {shown(weak_learner)}; name at least one family, and none twice."
            )
        for member in of_kind:
            family_maker(member, exact=exact)
    return members


def alternatives(weak_learner: WeakLearners) -> list[WeakLearners]:
    """Alternatives to a union, first the union itself and then each of its families alone.

    Kinds that do not learn with a family keep their families.  Sets of categories stay with the
    stumps that they complement.
    """
    if not isinstance(weak_learner, Mapping):
        return [one[""] for one in _alternatives({"": weak_learner})]
    return list(_alternatives(weak_learner))


def _alternatives(of_kinds: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    groups = {kind: _inseparable(members) for kind, members in of_kinds.items()}
    families: list[list[WeakLearner]] = []
    for of_kind in groups.values():
        if len(of_kind) > 1:
            families.extend(group for group in of_kind if group not in families)
    alone = [
        {kind: family if family in groups[kind] else default for kind, default in of_kinds.items()}
        for family in families
    ]
    return [of_kinds, *alone]


def _inseparable(members: Any) -> list[list[WeakLearner]]:
    """Families of a union, each with the families that depend on it."""
    groups: list[list[WeakLearner]] = []
    for member in members if isinstance(members, list | tuple) else [members]:
        beside = _declared(groups[-1][0], "sets_of_categories") if groups else None
        if beside is not None and isinstance(member, partial) and member.func is beside:
            groups[-1].append(member)
        else:
            groups.append([member])
    return groups


def takes_missing(weak_learner: Any) -> bool:
    """Whether all families that ``weak_learner`` names take missing features (NaN)."""
    if isinstance(weak_learner, Mapping):
        return all(map(takes_missing, weak_learner.values()))
    if isinstance(weak_learner, list | tuple):
        return all(map(takes_missing, weak_learner))
    return bool(_declared(weak_learner, "takes_missing"))


def works_in_threads(weak_learner: Any) -> bool:
    """Whether one of the families that ``weak_learner`` names searches in several threads."""
    if isinstance(weak_learner, Mapping):
        return any(map(works_in_threads, weak_learner.values()))
    if isinstance(weak_learner, list | tuple):
        return any(map(works_in_threads, weak_learner))
    return bool(_declared(weak_learner, "in_threads"))


def takes_sparse(weak_learner: Any) -> bool:
    """Whether all families that ``weak_learner`` names take sparse features."""
    if isinstance(weak_learner, list | tuple):
        return all(map(takes_sparse, weak_learner))
    if isinstance(weak_learner, str):
        return weak_learner in SPARSE
    family = _maker(weak_learner)
    name = getattr(family, "name", None)
    return name in SPARSE and isinstance(family, type) and issubclass(family, SPARSE[name])


def check_takes_sparse(weak_learner: Any) -> None:
    """Raise ValueError, with a list of those that do, unless all take sparse features."""
    if not takes_sparse(weak_learner):
        raise ValueError(
            f"X is sparse, which weak_learner={shown(weak_learner)} cannot take; write X.toarray() "
            "in place of X, or take weak_learner='tree', 'stump' or 'linear', which read sparse "
            "rows."
        )


def _maker(weak_learner: Any) -> Any:
    """Class of a name, or the callable behind partial ones, or None."""
    while isinstance(weak_learner, partial):
        weak_learner = weak_learner.func
    if isinstance(weak_learner, str):
        return FAMILIES[weak_learner] if weak_learner in FAMILIES else None
    return weak_learner


def _declared(weak_learner: Any, name: str) -> Any:
    """Attribute of the family that a name or a callable makes, or None."""
    return getattr(_maker(weak_learner), name, None)


def _takes(weak_learner: Any, keyword: str) -> bool:
    """Whether a family takes a keyword that is not set yet."""
    maker = _maker(weak_learner)
    is_given = keyword in getattr(weak_learner, "keywords", ())
    return callable(maker) and not is_given and keyword in signature(maker).parameters


def _with(weak_learner: WeakLearner, **options: Any) -> partial[Any]:
    maker = FAMILIES[weak_learner] if isinstance(weak_learner, str) else weak_learner
    return partial(maker, **options)


def with_directions(weak_learner: Any, directions: Sequence[int]) -> Any:
    """Make weak learners whose responses rise or fall with features as in ``directions``."""
    if isinstance(weak_learner, list | tuple):
        return [with_directions(member, directions) for member in weak_learner]
    if not _takes(weak_learner, "directions"):
        raise ValueError(
            f"monotonic_cst needs stumps or trees, and weak_learner is {shown(weak_learner)}; take "
            "weak_learner='stump' or 'tree'."
        )
    return _with(weak_learner, directions=directions)


def with_categories(weak_learner: Any, categorical: Sequence[int]) -> Any:
    """Make weak learners that split these features by sets of categories.

    Trees do so in their nodes.  Stumps get a second family, of sets.
    """
    members = list(weak_learner) if isinstance(weak_learner, list | tuple) else [weak_learner]
    makers: list[Any] = []
    for member in members:
        if _takes(member, "categorical"):
            makers.append(_with(member, categorical=categorical))
        else:
            makers.append(member)
            beside = _declared(member, "sets_of_categories")
            if beside is not None:
                makers.append(_with(beside, categorical=categorical))
    if not any("categorical" in getattr(member, "keywords", ()) for member in makers):
        raise ValueError(
            f"X has categorical columns, {shown(categorical)}, and weak_learner is "
            f"{shown(weak_learner)}; take 'stump' or 'tree', or encode them as numbers."
        )
    return makers[0] if len(makers) == 1 else makers


def families_of(
    members: Mapping[str, Sequence[WeakLearner]],
    kinds: Mapping[str, PartKind],
    features: FeaturesOfKinds,
    *,
    in_shards: bool,
    exact: bool | None,
    n_threads: int,
) -> dict[str, WeakLearnerFamily]:
    """Make the families of weak learners of each kind, from what :func:`checked_members` returned.

    ``in_shards`` is whether features may stay in shards, and ``n_threads`` are those of families
    that search features in memory.  ValueError if a family needs features in memory that are only
    in shards.  TypeError if a callable does not return a family.
    """
    of_kinds = {}
    for kind, of_kind in members.items():
        response = kinds[kind].response
        for member in of_kind:
            if features.rows is not None and not takes_missing(member):
                stack = StackedParts(features.rows, features.offsets)
                check_nothing_missing(stack, kind, f"weak_learner={shown(member)}")
        is_sparse = features.rows is not None and sparse.issparse(features.rows[kind])
        if is_sparse:
            check_takes_sparse(of_kind[0] if len(of_kind) == 1 else of_kind)
        families: list[Any]
        if in_shards and not is_sparse and all(member in IN_SHARDS for member in of_kind):
            families = [
                IN_SHARDS[member].of_kind(features, kind, response, exact=exact)
                for member in of_kind
            ]
        elif features.rows is None:
            raise ValueError(
                f"X stays in shards ({type(features.X).__name__}), which needs "
                f"formulation='one_slack', weak_learner={' or '.join(map(repr, IN_SHARDS))} (or a "
                "list of them), and a pricing by name; give X as arrays to use others."
            )
        else:
            rows = features.rows[kind]
            makers = [
                SPARSE[member]
                if is_sparse and member in SPARSE
                else family_maker(member, exact=exact)
                for member in of_kind
            ]
            families = [
                maker(
                    rows if _declared(member, "reads_bins") else copied_in_order(rows), response,
                    exact=exact, n_threads=n_threads,
                )
                for member, maker in zip(of_kind, makers, strict=True)
            ]  # fmt: skip
        for family in families:
            if not isinstance(family, WeakLearnerFamily):
                raise TypeError(
                    f"weak_learner made {shown(family)}; it must return a WeakLearnerFamily, as "
                    "StumpFamily does."
                )
        of_kinds[kind] = families[0] if len(families) == 1 else UnionFamily(families)
    return of_kinds
