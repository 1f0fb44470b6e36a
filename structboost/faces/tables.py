"""Reading of tables, the same for all estimators of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, override
from structboost.contract.task import Task
from structboost.faces.base import BoostedEstimator
from structboost.faces.columns import (
    FROM_DTYPE,
    ColumnEncoding,
    Columns,
    by_name,
    categorical_columns,
    categories_of,
    codes_of,
    labels_of,
)
from structboost.faces.parameters import estimator
from structboost.faces.table_forms import checked_form, frame_of, is_sparse, shape_of
from structboost.faces.table_numbers import empty_rows, numbers_of, warn_of_empty_rows
from structboost.faces.validated_table import check_width, validated_numbers
from structboost.learners.families import (
    takes_missing,
    takes_sparse,
    with_categories,
    with_directions,
)
from structboost.model.ensemble import Ensemble
from structboost.training.boosting import StructBoost
from structboost.validation import TABLE_TYPES, array_of, shown


@estimator
class TableReader:
    """Mixin of estimators of tables, which reads the tables of all their methods.

    Parameters
    ----------
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Columns that hold categories, as a mask, indices or names.  By default, these are the
        columns of a data frame with categories or strings.  Stumps and trees split them by sets of
        categories; other weak learners have a column of 0 and 1 for each category.  In prediction,
        categories that training did not have count as missing.  Of more than 255 categories, the
        rarest count as one, with a warning.

    Attributes
    ----------
    categories_ : dict of int to list
        Categories of each categorical column, by its index.
    encoded_feature_names_ : list of str
        Names of the columns that the model has.  They differ from the columns of the table where
        categories or missing values became columns of 0 and 1.
    """

    categorical_features: Any = FROM_DTYPE

    def _table(
        self, X: Any, y: Any = "no_validation", *, reset: bool = True, **options: Any
    ) -> Any:
        """Return a table as numbers that the weak learners take, and ``y``, checked.

        ``reset`` is True in a fit, which stores names, categories and the encoding of the columns.
        """
        X, name = checked_form(X), type(self).__name__
        if reset:
            categories = self._categories_of(X)
            columns = Columns(shape_of(X)[-1], labels_of(X), categories)
            self._directions = self._checked_directions(X, categories)
        else:
            columns = self._columns
            X = by_name(X, columns.labels, "X", name)
            check_width(name, columns.n_features, X)
        if columns.categories and is_sparse(X):
            raise ValueError(
                f"X is sparse, and columns {shown(list(columns.categories))} of the training set "
                "hold categories; give a data frame or an array that is not sparse."
            )
        options.setdefault("dtype", TABLE_TYPES)
        table = numbers_of(X, codes_of(X, columns.categories, warn=not reset))
        if reset:
            has_empty_rows = not sparse.issparse(table) or len(empty_rows(table)) > 0
        elif sparse.issparse(table) and not self._has_empty_rows:
            warn_of_empty_rows(table)
        checked = validated_numbers(
            self,
            table,
            y,
            reset=reset,
            allow_missing=self._fits_missing() if reset else self._predicts_missing(),
            reads_sparse=self._reads_sparse() if reset else self._predicts_sparse(),
            **options,
        )
        table, *rest = checked if isinstance(checked, tuple) else (checked,)
        is_dense = not sparse.issparse(table)
        if reset:
            if is_dense:
                as_columns = {} if self._splits_categories() else columns.categories
                fills = self._fills_missing()
                encoding = ColumnEncoding.of_training(table, as_columns, fills=fills)
                columns = replace(columns, encoding=encoding)
            self._keep_columns(columns, has_empty_rows=has_empty_rows)
        if columns.encoding is not None and is_dense:
            table = columns.encoding.encode(table)
        return (table, *rest) if rest else table

    def _categories_of(self, X: Any) -> dict[int, list[Any]]:
        if len(shape_of(X)) != 2:
            return {}  # the shape is checked later
        if is_sparse(X):
            if not isinstance(self.categorical_features, str | None):
                raise ValueError(
                    "X is sparse, with which categorical_features is not supported; leave it out, "
                    "or give an array that is not sparse."
                )
            return {}
        columns = categorical_columns(X, self.categorical_features)
        if columns and not (self._splits_categories() or self._encodes()):
            self._raise_for_categories(X, columns)
        return categories_of(X, columns)

    def _checked_directions(
        self, X: Any, categories: Mapping[int, Sequence[Any]]
    ) -> tuple[int, ...] | None:
        """Return the directions of all features, or None if there are no constraints."""
        return None

    def _keep_columns(self, columns: Columns, *, has_empty_rows: bool) -> None:
        """Store the columns, by which later tables are read."""
        self._columns, self._has_empty_rows = columns, has_empty_rows
        self.n_features_in_ = columns.n_features
        self.categories_ = dict(columns.categories)
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def encoded_feature_names_(self) -> list[str]:
        """Names of the columns that the model has."""
        check_is_fitted(self)
        return self._columns.encoded_names

    def _takes_missing(self) -> bool:
        """Whether the weak learners take missing numbers as they are."""
        return False

    def _encodes(self) -> bool:
        """Whether columns of 0 and 1 may replace categories and missing values."""
        return True

    def _fills_missing(self) -> bool:
        """Whether a fit replaces missing numbers by means."""
        return self._encodes() and not self._takes_missing()

    def _fits_missing(self) -> bool:
        """Whether tables of a fit may have missing numbers."""
        return self._fills_missing() or self._takes_missing()

    def _predicts_missing(self) -> bool:
        """Whether tables may have missing numbers after the fit, whatever the parameters are."""
        encoding = self._columns.encoding
        if encoding is not None and encoding.means is not None:
            return True
        model: Ensemble = self.model_  # type: ignore[attr-defined]
        return all(member.learners.takes_missing for member in model.members.values())

    def _predicts_sparse(self) -> bool:
        """Whether sparse tables stay sparse after the fit."""
        encoding = self._columns.encoding
        return encoding is None or not encoding.adds_columns

    def _splits_categories(self) -> bool:
        """Whether the weak learners split columns by sets of categories."""
        return False

    def _reads_sparse(self) -> bool:
        """Whether the weak learners take sparse tables as they are."""
        return True

    def _raise_for_categories(self, X: Any, columns: Sequence[int]) -> NoReturn:
        """Raise ValueError, with the columns and the parameter that cannot take them."""
        frame = frame_of(X)
        names = [f if frame is None else frame.columns[f] for f in columns]
        weak_learner = shown(getattr(self, "weak_learner", None))
        raise ValueError(
            f"X has the categorical columns {shown(names)}, which weak_learner={weak_learner} "
            "cannot take; write weak_learner='stump' or 'tree', or encode them as numbers, such as "
            "by sklearn.preprocessing.OneHotEncoder."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self._fits_missing()
        tags.input_tags.sparse = True
        return tags

    def _facts_of_columns(self) -> dict[str, Any]:
        """Return names, categories and encoding for a model file."""
        return {"columns": self._columns.to_plain(), "has_empty_rows": self._has_empty_rows}

    def _read_columns(self, facts: Mapping[str, Any], width: int) -> None:
        """Set the attributes of columns from facts of a file and the width of its model."""
        saved = facts.get("columns")
        columns = Columns(width) if saved is None else Columns.from_plain(saved, width)
        # Tables that were not read in memory may have some.
        self._keep_columns(columns, has_empty_rows=facts.get("has_empty_rows", True) is not False)


@estimator
class TableEstimator(TableReader, BoostedEstimator):
    """Base of boosted estimators of tables, whose columns may be monotonic.

    Parameters
    ----------
    monotonic_cst : array-like of int, or dict of str to int, optional
        Direction of the score as each feature grows: 1 (must not fall), -1 (must not rise) or 0
        (unconstrained).  Data frames may give it by name.  It is for two classes and rankers, with
        stumps or trees.  Missing values are unconstrained.
    """

    monotonic_cst: Any = None

    @override
    def _takes_missing(self) -> bool:
        return takes_missing(self._weak_learners())

    @override
    def _encodes(self) -> bool:
        members = self._weak_learners()
        return all(isinstance(one, str) for one in _as_list(members))

    @override
    def _splits_categories(self) -> bool:
        return self._takes_missing()

    @override
    def _reads_sparse(self) -> bool:
        return takes_sparse(self._weak_learners())

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return self.model_.scores(self._table(X, reset=False))

    def _staged_scores(self, X: Any) -> Iterator[FloatArray]:
        """Iterate over the scores after each round."""
        check_is_fitted(self)
        rows = self._table(X, reset=False)
        return (model.scores(rows) for model in self.model_.staged())

    @property
    @override
    def feature_importances_(self) -> FloatArray:
        importances = super().feature_importances_
        encoding = self._columns.encoding
        return importances if encoding is None else encoding.summed(importances)

    def _trainer(self, task: Task, **settings: Any) -> StructBoost:
        trainer = super()._trainer(task, **settings)
        directions = getattr(self, "_directions", None)
        if self.monotonic_cst is not None and directions is None:
            raise ValueError(
                "monotonic_cst is not supported if X is a table on disk or a Dask collection; give "
                "X as an array or a data frame."
            )
        if directions is not None:
            self._check_one_score(task)
            trainer.weak_learner = with_directions(trainer.weak_learner, directions)
        if getattr(self, "categories_", None) and self._splits_categories():
            trainer.weak_learner = with_categories(trainer.weak_learner, tuple(self.categories_))
        return trainer

    def _check_one_score(self, task: Task) -> None:
        """Raise ValueError unless the task has one score, which can rise or fall."""
        if [kind.n_channels for kind in task.kinds.values()] == [1]:
            return
        if len(getattr(self, "classes_", ())) == 2:
            raise ValueError(
                f"monotonic_cst needs one score for two classes, and {type(self).__name__} has a "
                "score for each class or bit of a code; write StructBoostClassifier or "
                "MultiBoostCWClassifier."
            )
        raise ValueError(
            "monotonic_cst is for two classes and for rankers; scores of several classes have no "
            "common direction. Leave it out."
        )

    @override
    def _checked_directions(
        self, X: Any, categories: Mapping[int, Sequence[Any]]
    ) -> tuple[int, ...] | None:
        constraints = self.monotonic_cst
        if constraints is None:
            return None
        if is_sparse(X):
            raise ValueError(
                "X is sparse, with which monotonic_cst is not supported; leave it out, or give an "
                "array that is not sparse."
            )
        n_columns = shape_of(X)[1]
        if isinstance(constraints, Mapping):
            names = [] if (frame := frame_of(X)) is None else frame.columns
            unknown = [name for name in constraints if name not in names]
            if unknown:
                raise ValueError(
                    f"monotonic_cst names {unknown[0]!r}, which is no column of X; it has "
                    f"{shown(names)}."
                )
            constraints = [constraints.get(name, 0) for name in names]
        directions = array_of(constraints)
        if directions.shape != (n_columns,) or not np.isin(directions, (-1, 0, 1)).all():
            raise ValueError(
                f"monotonic_cst is {shown(self.monotonic_cst)}; give -1, 0 or 1 for each of the "
                f"{n_columns} features."
            )
        bad = [f for f in categories if directions[f]]
        if bad:
            raise ValueError(
                f"monotonic_cst gives feature {bad[0]} a direction, which is categorical; give 0."
            )
        return tuple(int(direction) for direction in directions)

    @override
    def _facts(self) -> dict[str, Any]:
        return super()._facts() | self._facts_of_columns()


def _as_list(weak_learner: Any) -> list[Any]:
    if isinstance(weak_learner, Mapping):
        return [one for of_kind in weak_learner.values() for one in _as_list(of_kind)]
    return list(weak_learner) if isinstance(weak_learner, list | tuple) else [weak_learner]
