"""Base class of estimators of tables, with categorical and monotonic columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NoReturn, Self

import numpy as np

from structboost.contract.task import Task
from structboost.estimators.base import BoostedEstimator
from structboost.estimators.parameters import estimator, is_same
from structboost.estimators.table_columns import (
    FROM_DTYPE,
    categorical_columns,
    categories_of,
    frame_of,
    is_sparse,
    with_numbers,
)
from structboost.estimators.validated_table import check_names_and_width
from structboost.model.ensemble import FORMAT as MODEL_FORMAT
from structboost.training.boosting import StructBoost
from structboost.validation import shown
from structboost.weak.families import takes_missing, with_categories, with_directions


@estimator
class TableEstimator(BoostedEstimator):
    """Base of estimators of tables whose columns may be categorical or monotonic.

    Parameters
    ----------
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Columns that hold categories, as a mask, indices or names.  By default, these are the
        columns of a data frame with categories or strings.  Stumps and trees split them by sets of
        categories.  In prediction, categories that training did not have count as missing.
    monotonic_cst : array-like of int, or dict of str to int, optional
        Direction of the score as each feature grows: 1 (must not fall), -1 (must not rise) or 0
        (unconstrained).  Data frames may give it by name.  It is for two classes and rankers, with
        stumps or trees.  Missing values are unconstrained.

    Attributes
    ----------
    categories_ : dict of int to list
        Categories of each categorical column, by its index.
    """

    categorical_features: Any = FROM_DTYPE
    monotonic_cst: Any = None

    def _table(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        is_fit = options.get("reset", True)
        if is_fit:
            self._is_sparse = is_sparse(X)
        if is_fit and self._is_sparse:
            if self.monotonic_cst is not None or not isinstance(
                self.categorical_features, str | None
            ):
                raise ValueError(
                    "X is sparse, with which categorical_features and monotonic_cst are not "
                    "supported; leave them out, or give a dense array."
                )
            self.categories_, self._directions = {}, None
        elif is_fit:
            columns = categorical_columns(X, self.categorical_features)
            if columns and not takes_missing(self._weak_learners()):
                self._raise_for_categories(X, columns)
            self.categories_ = categories_of(X, columns)
            self._directions = self._checked_directions(X)
        elif getattr(self, "categories_", None):
            if is_sparse(X):
                raise ValueError(
                    f"X is sparse, and columns {shown(list(self.categories_))} of the training set "
                    "hold categories; give a data frame or an array that is not sparse."
                )
            check_names_and_width(self, X)
        return super()._table(with_numbers(X, getattr(self, "categories_", {})), y, **options)

    def _trainer(self, task: Task, **settings: Any) -> StructBoost:
        trainer = super()._trainer(task, **settings)
        directions = getattr(self, "_directions", None)
        if self.monotonic_cst is not None and directions is None:
            raise ValueError(
                "monotonic_cst is not supported if X is a table on disk or a Dask collection; give "
                "X as an array or a data frame."
            )
        if directions is not None:
            if [kind.n_channels for kind in task.kinds.values()] != [1]:
                raise ValueError(
                    "monotonic_cst is for two classes and for rankers; scores of several classes "
                    "have no common direction. Leave it out."
                )
            trainer.weak_learner = with_directions(trainer.weak_learner, directions)
        if getattr(self, "categories_", None):
            trainer.weak_learner = with_categories(trainer.weak_learner, tuple(self.categories_))
        return trainer

    def _raise_for_categories(self, X: Any, columns: Sequence[int]) -> NoReturn:
        """Raise ValueError, with the columns and the parameter that cannot take them."""
        frame = frame_of(X)
        names = [f if frame is None else frame.columns[f] for f in columns]
        objective = getattr(self, "objective", None)
        reader = f"weak_learner={shown(self.weak_learner)} cannot take"
        other = "write weak_learner='stump' or 'tree'"
        if is_same(objective, "svm"):
            reader = "objective='svm' cannot take, because it fits one linear function"
            other = "write objective='hinge', whose stumps split them"
        raise ValueError(
            f"X has the categorical columns {shown(names)}, which {reader}; {other}, or encode "
            "them as numbers, such as by sklearn.preprocessing.OneHotEncoder."
        )

    def _checked_directions(self, X: Any) -> tuple[int, ...] | None:
        """Return the directions of all features, or None if there are no constraints."""
        constraints = self.monotonic_cst
        if constraints is None:
            return None
        n_columns = np.shape(X)[1]
        if isinstance(constraints, Mapping):
            names = [] if (frame := frame_of(X)) is None else frame.columns
            unknown = [name for name in constraints if name not in names]
            if unknown:
                raise ValueError(
                    f"monotonic_cst names {unknown[0]!r}, which is no column of X; it has "
                    f"{shown(names)}."
                )
            constraints = [constraints.get(name, 0) for name in names]
        directions = np.asarray(constraints)
        if directions.shape != (n_columns,) or not np.isin(directions, (-1, 0, 1)).all():
            raise ValueError(
                f"monotonic_cst is {shown(self.monotonic_cst)}; give -1, 0 or 1 for each of the "
                f"{n_columns} features."
            )
        bad = [f for f in self.categories_ if directions[f]]
        if bad:
            raise ValueError(
                f"monotonic_cst gives feature {bad[0]} a direction, which is categorical; give 0."
            )
        return tuple(int(direction) for direction in directions)

    def _save(self, path: str | PathLike[str], **facts: Any) -> None:
        if getattr(self, "categories_", None):
            _check_plain(self.categories_)
            facts["categories"] = [[f, values] for f, values in self.categories_.items()]
        super()._save(path, **facts)

    @classmethod
    def _load(cls, path: str | PathLike[str]) -> tuple[Self, Mapping[str, Any]]:
        loaded, metadata = super()._load(path)
        with MODEL_FORMAT.damage(path):
            loaded.categories_ = {
                int(f): list(values) for f, values in metadata.get("categories", [])
            }
        return loaded, metadata


def _check_plain(categories: Mapping[int, Sequence[Any]]) -> None:
    """Raise TypeError if a file cannot hold the categories."""
    for f, values in categories.items():
        for value in values:
            if not isinstance(value, (str, int, float)):
                raise TypeError(
                    f"Column {f} of X has the category {shown(value)} of type "
                    f"{type(value).__name__}; files of models hold strings and numbers. Convert "
                    "it to strings before the fit, or keep this model with joblib.dump."
                )
