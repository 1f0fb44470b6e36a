"""Names of families of learners, and the families that they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, Protocol

from scipy import sparse

from structboost._typing import IntArray
from structboost.contract.calls import check_nothing_missing
from structboost.contract.parts import Kinds, StackedParts
from structboost.files.archive import Array
from structboost.learners.base import TrainingFeatures, WeakLearnerFamily
from structboost.learners.table import LearnerTable
from structboost.learners.union import UNION, UnionFamily, UnionTable
from structboost.runtime.registry import Registry
from structboost.validation import check_takes_arguments, copied_in_order, shown

_BASE = "structboost.learners"
FAMILIES = Registry(
    "weak_learner",
    {
        "stump": f"{_BASE}.stump:StumpFamily",
        "tree": f"{_BASE}.tree:TreeFamily",
        "pair_tree": f"{_BASE}.pair_tree:PairTreeFamily",
        "perceptron": f"{_BASE}.linear:PerceptronFamily",
        "svm": f"{_BASE}.linear:SVMFamily",
        "lda": f"{_BASE}.linear:LDAFamily",
        "feature": f"{_BASE}.feature:FeatureFamily",
        "active_feature": f"{_BASE}.feature:ActiveFeatureFamily",
        "linear": f"{_BASE}.linear_function:LinearFunctionFamily",
    },
)
# Families that leave the features in shards.
IN_SHARDS = Registry(
    "weak_learner",
    {
        "stump": f"{_BASE}.stump:ShardedStumps",
        "linear": f"{_BASE}.linear_function:ShardedLinearFunctions",
    },
)
# Families of sparse features, where another one takes arrays.
_SPARSE = Registry("weak_learner", {"stump": f"{_BASE}.stump:SparseStumpFamily"})
_TABLES = Registry(
    "family",
    {
        "stump": f"{_BASE}.table:StumpTable",
        "tree": f"{_BASE}.tree_table:TreeTable",
        "pair_tree": f"{_BASE}.tree_table:TreeTable",
        "category": f"{_BASE}.stump:CategoryTable",
        "perceptron": f"{_BASE}.linear:HyperplaneTable",
        "svm": f"{_BASE}.linear:HyperplaneTable",
        "lda": f"{_BASE}.linear:HyperplaneTable",
        "feature": f"{_BASE}.feature:FeatureTable",
        "active_feature": f"{_BASE}.feature:ActiveFeatureTable",
        "linear": f"{_BASE}.linear_function:LinearFunctionTable",
        # Patches need the shape of the images, and are made by hand: partial(PatchFamily, ...).
        "patch": f"{_BASE}.patch:PatchTable",
    },
)


def register_weak_learner(family: type[WeakLearnerFamily], table: type[LearnerTable]) -> None:
    """Register another family under ``family.name``.

    ``weak_learner=family.name`` then makes it, and files that hold its learners load.  Call this
    where the family is defined: files never import code, so the module must be imported before
    such a file is loaded.

    Parameters
    ----------
    family : subclass of WeakLearnerFamily
        Made as ``family(features, response)``, with ``exact`` and ``n_threads`` if it takes them.
    table : subclass of LearnerTable
        Return type of ``family.table``, restored as ``table(**arrays)``.

    Raises
    ------
    ValueError
        If the name is not an identifier, or belongs to another family.
    """
    if not re.fullmatch(r"[A-Za-z]\w{0,39}", family.name):
        raise ValueError(f"{family.__name__}.name is {family.name!r}; give a short identifier.")
    _TABLES.add(family.name, table)
    FAMILIES.add(family.name, family)


def table_schema(family: str) -> dict[str, Mapping[str, Array]]:
    """Names, types and shapes of the arrays of a family's learners.

    Names of several families are joined by ``+``.  KeyError if no family has a name.
    """
    if UNION not in family:
        return {"": _table_class(family).schema}
    members = {f"{i}/": _table_class(name).schema for i, name in enumerate(family.split(UNION))}
    return {"": UnionTable.schema, **members}


def table(family: str, arrays: Mapping[str, Any]) -> LearnerTable:
    """Table of the learners in a model file, whose arrays fit :func:`table_schema`."""
    if UNION not in family:
        learners: LearnerTable = _table_class(family)(**arrays)
        return learners
    return UnionTable.of_arrays([_table_class(name) for name in family.split(UNION)], arrays)


def _table_class(name: str) -> Any:
    if name not in _TABLES:
        raise KeyError(
            f"no family of weak learners is called {name!r:.40}; those known are "
            f"{', '.join(_TABLES)}. Import the module that registers it first"
        )
    return _TABLES[name]


WeakLearner = str | Callable[..., WeakLearnerFamily]
# One family, or the union of several.
Members = WeakLearner | Sequence[WeakLearner]
# The same for each kind, or one for all.
WeakLearners = Members | Mapping[str, Members]
# Keywords that a family is given if it takes them.
_OPTIONS = ("exact", "n_threads")


class FeaturesOfKinds(TrainingFeatures, Protocol):
    """Training set with the inputs that errors name."""

    X: Any
    offsets: Mapping[str, IntArray]


def checked_members(weak_learner: Any, kinds: Kinds) -> dict[str, list[Any]]:
    """Families to learn each kind of part with, as a union.

    ValueError if a name or a kind does not exist, or a family is named twice.  TypeError if a
    callable does not take features and responses.
    """
    if not isinstance(weak_learner, Mapping):
        weak_learner = dict.fromkeys(kinds, weak_learner)
    elif set(weak_learner) != set(kinds):
        raise ValueError(
            f"weak_learner is for the kinds {list(weak_learner)}, but the task has the kinds "
            f"{list(kinds)}; give weak learners for each of them."
        )
    members = {kind: _listed(weak_learner[kind]) for kind in kinds}
    for union in members.values():
        names = [member for member in union if isinstance(member, str)]
        if not union or len(set(names)) < len(names):
            raise ValueError(
                f"weak_learner is {shown(union)}; name at least one family, and none twice."
            )
        for member in union:
            if callable(member):
                options = {name: None for name in _OPTIONS if _takes(member, name)}
                call = "weak_learner(parts, response, exact=..., n_threads=...)"
                check_takes_arguments(member, "weak_learner", call, None, None, **options)
            else:
                FAMILIES.check(member)
    return members


def _listed(members: Any) -> list[Any]:
    return list(members) if isinstance(members, list | tuple) else [members]


def alternatives(weak_learner: WeakLearners) -> list[WeakLearners]:
    """Alternatives to a union, first the union itself and then each of its families alone.

    Kinds that do not learn with a family keep their families.  Sets of categories stay with the
    stumps that they complement.
    """
    is_mapping = isinstance(weak_learner, Mapping)
    by_kind: Mapping[str, Any] = weak_learner if is_mapping else {"": weak_learner}  # type: ignore[assignment]
    groups = {kind: _inseparable(_listed(members)) for kind, members in by_kind.items()}
    families: list[Any] = []
    for of_kind in groups.values():
        if len(of_kind) > 1:
            families.extend(group for group in of_kind if group not in families)
    alternatives_by_kind: list[Any] = [by_kind] + [
        {kind: family if family in groups[kind] else default for kind, default in by_kind.items()}
        for family in families
    ]
    if is_mapping:
        return alternatives_by_kind
    return [alternative[""] for alternative in alternatives_by_kind]


def _inseparable(members: Sequence[Any]) -> list[list[WeakLearner]]:
    """Families of a union, each with the families that depend on it."""
    groups: list[list[WeakLearner]] = []
    for member in members:
        beside = _declared(groups[-1][0], "sets_of_categories") if groups else None
        if beside is not None and isinstance(member, partial) and member.func is beside:
            groups[-1].append(member)
        else:
            groups.append([member])
    return groups


def members_of(weak_learner: Any) -> list[Any]:
    """Return all families that ``weak_learner`` names, of all kinds."""
    if isinstance(weak_learner, Mapping):
        return [member for members in weak_learner.values() for member in _listed(members)]
    return _listed(weak_learner)


def takes_missing(weak_learner: Any) -> bool:
    """Whether all families that ``weak_learner`` names take missing features (NaN)."""
    return all(_declared(member, "takes_missing") for member in members_of(weak_learner))


def works_in_threads(weak_learner: Any) -> bool:
    """Whether one of the families that ``weak_learner`` names searches in several threads."""
    return any(_declared(member, "in_threads") for member in members_of(weak_learner))


def takes_sparse(weak_learner: Any) -> bool:
    """Whether all families that ``weak_learner`` names take sparse features."""
    members = members_of(weak_learner)
    return all(member in _SPARSE or _declared(member, "takes_sparse") for member in members)


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
    if not callable(maker) or keyword in getattr(weak_learner, "keywords", ()):
        return False
    parameters = signature(maker).parameters
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _called(weak_learner: WeakLearner) -> Any:
    """Class of a name, or the callable that a user passed."""
    return FAMILIES[weak_learner] if isinstance(weak_learner, str) else weak_learner


def _with(weak_learner: WeakLearner, **options: Any) -> partial[Any]:
    return partial(_called(weak_learner), **options)


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
    makers = []
    for member in _listed(weak_learner):
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
    members: Mapping[str, Sequence[Any]],
    kinds: Kinds,
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
    by_kind = {}
    for kind, union in members.items():
        rows = None if features.rows is None else features.rows[kind]
        for member in union:
            if features.rows is not None and not takes_missing(member):
                stack = StackedParts(features.rows, features.offsets)
                check_nothing_missing(stack, kind, f"weak_learner={shown(member)}")
        is_sparse = sparse.issparse(rows)
        if is_sparse:
            check_takes_sparse(union[0] if len(union) == 1 else union)
        stays = in_shards and not is_sparse and all(member in IN_SHARDS for member in union)
        if rows is None and not stays:
            raise ValueError(
                f"X stays in shards ({type(features.X).__name__}), which needs "
                f"formulation='one_slack', weak_learner={' or '.join(map(repr, IN_SHARDS))} (or a "
                "list of them), and a pricing by name; give X as arrays to use others."
            )
        families = []
        for member in union:
            response = kinds[kind].response
            if stays:
                family = IN_SHARDS[member].of_kind(features, kind, response, exact=exact)
            else:
                maker = _SPARSE[member] if is_sparse and member in _SPARSE else _called(member)
                table = rows if _declared(member, "reads_bins") else copied_in_order(rows)
                options = {"exact": exact, "n_threads": n_threads}
                taken = {name: options[name] for name in _OPTIONS if _takes(maker, name)}
                family = maker(table, response, **taken)
            if not isinstance(family, WeakLearnerFamily):
                raise TypeError(
                    f"weak_learner made {shown(family)}; it must return a WeakLearnerFamily, as "
                    "StumpFamily does."
                )
            families.append(family)
        by_kind[kind] = families[0] if len(families) == 1 else UnionFamily(families)
    return by_kind
