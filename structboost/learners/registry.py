"""Families of weak learners by name, and their tables in files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from structboost.files.schema import Array
from structboost.learners.base import WeakLearnerFamily
from structboost.learners.table import LearnerTable
from structboost.learners.union import UNION, UnionTable
from structboost.runtime.registry import Registry
from structboost.validation import shown

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
        "active_feature": f"{_BASE}.active_feature:ActiveFeatureFamily",
        "piecewise": f"{_BASE}.piecewise:PiecewiseFamily",
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
# Families of sparse features.
SPARSE = Registry(
    "weak_learner",
    {
        "stump": f"{_BASE}.stump:SparseStumpFamily",
        "linear": f"{_BASE}.linear_function:LinearFunctionFamily",
        "tree": f"{_BASE}.tree:TreeFamily",
        "pair_tree": f"{_BASE}.pair_tree:PairTreeFamily",
    },
)
_TABLES = Registry(
    "family",
    {
        "stump": f"{_BASE}.stump:StumpTable",
        "tree": f"{_BASE}.tree_table:TreeTable",
        "pair_tree": f"{_BASE}.tree_table:TreeTable",
        "category": f"{_BASE}.category:CategoryTable",
        "perceptron": f"{_BASE}.linear:HyperplaneTable",
        "svm": f"{_BASE}.linear:HyperplaneTable",
        "lda": f"{_BASE}.linear:HyperplaneTable",
        "feature": f"{_BASE}.feature:FeatureTable",
        "active_feature": f"{_BASE}.active_feature:ActiveFeatureTable",
        "piecewise": f"{_BASE}.piecewise:PiecewiseTable",
        "linear": f"{_BASE}.linear_function:LinearFunctionTable",
        # Patches need the shape of the images, and are made by hand: partial(PatchFamily, ...).
        "patch": f"{_BASE}.patch:PatchTable",
    },
)


def register_weak_learner(
    family: type[WeakLearnerFamily],
    table: type[LearnerTable],
    *,
    in_shards: type[WeakLearnerFamily] | None = None,
    sparse: type[WeakLearnerFamily] | None = None,
) -> None:
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
    in_shards : subclass of WeakLearnerFamily, optional
        The same learners with features that stay in shards, where the formulation and the pricing
        rule allow it.  Made as ``in_shards.of_kind(features, kind, response, exact=...)`` of
        :class:`structboost.learners.base.TrainingFeatures`, with ``shard_features``.
    sparse : subclass of WeakLearnerFamily, optional
        The same learners on a sparse array of features, made as ``family`` is; it may be
        ``family`` itself.

    Raises
    ------
    TypeError
        If they are not such classes.
    ValueError
        If the name is not an identifier, or belongs to another family.
    """
    if not (isinstance(family, type) and issubclass(family, WeakLearnerFamily)):
        raise TypeError(f"family is {shown(family)}; give a subclass of WeakLearnerFamily.")
    if not (isinstance(table, type) and issubclass(table, LearnerTable)):
        raise TypeError(f"table is {shown(table)}; give a subclass of LearnerTable.")
    if not re.fullmatch(r"[A-Za-z]\w{0,39}", family.name):
        raise ValueError(f"{family.__name__}.name is {family.name!r}; give a short identifier.")
    if in_shards is not None and not callable(getattr(in_shards, "of_kind", None)):
        raise TypeError(
            f"in_shards is {shown(in_shards)}, which has no of_kind; give a subclass of "
            "WeakLearnerFamily with a class method of_kind(features, kind, response, *, exact)."
        )
    _TABLES.add(family.name, table)
    FAMILIES.add(family.name, family)
    if in_shards is not None:
        IN_SHARDS.add(family.name, in_shards)
    if sparse is not None:
        SPARSE.add(family.name, sparse)


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
