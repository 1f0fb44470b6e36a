"""Reading of tables, the same for all estimators of tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, override
from structboost.errors import warn_user
from structboost.faces.base import BoostedFace, estimator
from structboost.faces.columns import (
    FROM_DTYPE,
    ColumnEncoding,
    Columns,
    categorical_columns,
    categories_of,
    codes_of,
)
from structboost.faces.forms import checked_form, shape_of
from structboost.faces.recipe import Recipe
from structboost.faces.table_numbers import check_width, empty_rows, numbers_of, validated_numbers
from structboost.learners.contributions import Contributions, contributions_of
from structboost.learners.registry import members_of, takes_missing, takes_sparse
from structboost.model.ensemble import Ensemble
from structboost.runtime.column_names import by_name, labels_of
from structboost.training.engines import Engine
from structboost.validation import TABLE_TYPES, array_of, frame_of, shown


class TrainingTable(NamedTuple):
    """Table of a fit, as its weak learners take it.

    Attributes
    ----------
    X, y : ndarray or sparse array
    directions : tuple of int or None
        Directions of the columns, if there are any.
    categorical : tuple of int
        Columns that weak learners split by sets of categories.
    """

    X: Any
    y: Any
    directions: tuple[int, ...] | None
    categorical: tuple[int, ...]


def training_table(
    face: Any,
    X: Any,
    y: Any,
    weak_learner: Any,
    directions: Any = None,
    *,
    are_shared: bool = False,
    **options: Any,
) -> TrainingTable:
    """Read the table of a fit, and ``y``, checked, and keep its columns, as later tables have them.

    Parameters
    ----------
    face : estimator
        With the parameter ``categorical_features``.
    X, y : array-like
    weak_learner : str, callable, list or dict
        What takes the table.
    directions : array-like of int or dict, optional
        As ``monotonic_cst``.
    are_shared : bool
        Whether all classes share weak learners.  No search for the best set of all classes is
        exact, and no family of sparse features has learners that classes share.
    **options
        For scikit-learn's ``validate_data``.
    """
    X, takes_nan = checked_form(X), takes_missing(weak_learner)
    encodes, splits = _encodes(weak_learner), takes_nan and not are_shared
    categories = {}
    if columns := _categorical(X, face.categorical_features):
        if not (splits or encodes):
            frame = frame_of(X)
            names = [f if frame is None else frame.columns[f] for f in columns]
            raise ValueError(
                f"X has the categorical columns {shown(names)}, which weak_learner="
                f"{shown(weak_learner)} cannot take; write weak_learner='stump' or 'tree', or "
                "encode them as numbers, such as by sklearn.preprocessing.OneHotEncoder."
            )
        categories = categories_of(X, columns)
    n_features, labels = shape_of(X)[-1], labels_of(X)
    of_columns = None if directions is None else _directions(X, directions, categories)
    checked = validated_numbers(
        face,
        numbers_of(X, codes_of(X, categories)),
        y,
        allow_missing=encodes or takes_nan,
        reads_sparse=not are_shared and takes_sparse(weak_learner),
        **{"dtype": TABLE_TYPES, **options},
    )
    table, y = checked if isinstance(checked, tuple) else (checked, None)
    has_empty_rows = not sparse.issparse(X) or len(empty_rows(X)) > 0
    encoding = None
    if not sparse.issparse(table):
        as_columns = {} if splits else categories
        encoding = ColumnEncoding.of_training(table, as_columns, fills=encodes and not takes_nan)
        table = table if encoding is None else encoding.encode(table)
    keep_columns(face, Columns(n_features, labels, categories, encoding, has_empty_rows))
    return TrainingTable(table, y, of_columns, tuple(categories) if splits else ())


def later_table(face: Any, X: Any, weak_learner: Any = None, **options: Any) -> Any:
    """Read a table with the columns of training, as the model takes it.

    During a fit, ``weak_learner`` takes the table.
    """
    columns, name = face._columns, type(face).__name__
    X = by_name(checked_form(X), columns.labels, "X", name)
    check_width(name, columns.n_features, X)
    if columns.categories and sparse.issparse(X):
        raise ValueError(
            f"X is sparse, and columns {shown(list(columns.categories))} of the training set "
            "hold categories; give a data frame or an array that is not sparse."
        )
    if sparse.issparse(X) and not columns.has_empty_rows and len(rows := empty_rows(X)):
        warn_user(
            f"X has {len(rows)} of {X.shape[0]} rows that are 0 everywhere, such as row {rows[0]}, "
            "and training had none; make X as in training, with the same vocabulary.",
            UserWarning,
        )
    encoding = columns.encoding
    table = validated_numbers(
        face,
        numbers_of(X, codes_of(X, columns.categories, warn=True)),
        reset=False,
        allow_missing=_reads_missing(face, weak_learner),
        reads_sparse=encoding is None or not encoding.adds_columns,
        **{"dtype": TABLE_TYPES, **options},
    )
    return table if encoding is None or sparse.issparse(table) else encoding.encode(table)


@estimator()
class TableFace(BoostedFace):
    """Base of boosted estimators of tables.

    Parameters
    ----------
    categorical_features : "from_dtype", None, or array-like of bool, int or str
        Columns that hold categories, as a mask, indices or names.  By default, these are the
        columns of a data frame with categories or strings.  Stumps and trees split them by sets of
        categories; other weak learners have a column of 0 and 1 for each category.  In prediction,
        categories that training did not have count as missing.  Of more than 255 categories, the
        rarest count as one, with a warning.
    monotonic_cst : array-like of int, or dict of str to int, optional
        Direction of the score as each feature grows: 1 (must not fall), -1 (must not rise) or 0
        (unconstrained).  Data frames may give it by name.  It is for two classes and rankers, with
        stumps or trees.  Missing values are unconstrained.

    Attributes
    ----------
    categories_ : dict of int to list
        Categories of each categorical column, by its index.
    encoded_feature_names_ : list of str
        Names of the columns that the model has.  They differ from the columns of the table where
        categories or missing values became columns of 0 and 1.
    """

    categorical_features: Any = FROM_DTYPE

    # A parameter of some classes.
    monotonic_cst = None

    _columns: Columns = field(init=False)

    @abstractmethod
    def _recipe(self) -> Recipe:
        """Return the fit that the parameters describe, or raise if they are out of their range.

        Classifiers draw codes of the classes from a seed.
        """

    def _read(self, X: Any, y: Any, recipe: Recipe, **options: Any) -> tuple[Any, Any, Recipe]:
        """Read the table of a fit, and return it, y, and the recipe for its columns."""
        table = training_table(
            self,
            X,
            y,
            recipe.weak_learner,
            self.monotonic_cst,
            are_shared=recipe.shares_learners,
            **options,
        )
        return table.X, table.y, recipe.of_table(table.directions, table.categorical)

    @contextmanager
    def _held_table(self, eval_set: Any, recipe: Recipe, wanted: str = "(X, y)") -> Iterator[Any]:
        """Yield held-out examples of the user as :meth:`_own_held_out`, with a table as read."""
        with self._own_held_out(eval_set, wanted) as (X, *rest):
            yield later_table(self, X, recipe.weak_learner), *rest

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if "model_" in vars(self):  # each predict asks for the tags
            tags.input_tags.allow_nan = _reads_missing(self)
            return tags
        with suppress(TypeError, ValueError):  # fit names the parameter that is out of its range
            weak_learner = self._recipe().weak_learner
            tags.input_tags.allow_nan = _encodes(weak_learner) or takes_missing(weak_learner)
        return tags

    @property
    def encoded_feature_names_(self) -> list[str]:
        """Names of the columns that the model has."""
        check_is_fitted(self)
        return self._columns.encoded_names

    @property
    @override
    def feature_importances_(self) -> FloatArray:
        importances = super().feature_importances_
        encoding = self._columns.encoding
        return importances if encoding is None else encoding.summed(importances)

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        n_threads = Engine("threads", self.n_jobs).n_workers
        return self.model_.scores(later_table(self, X), n_threads=n_threads)

    def _staged_scores(self, X: Any) -> Iterator[FloatArray]:
        """Iterate over the scores after each round."""
        check_is_fitted(self)
        rows = later_table(self, X)
        return (model.scores(rows) for model in self.model_.staged())

    @abstractmethod
    def _decision(self, scores: FloatArray) -> FloatArray:
        """Convert scores of the model to those of ``decision_function`` by a linear function."""

    def contributions(self, X: Any, background: Any = None) -> Contributions:
        """Return the contribution of each feature to each score.

        ``base + values.sum(axis=1)`` equals ``decision_function(X)`` up to rounding.  Models of
        stumps, linear functions and single features are sums of functions of one feature each,
        whose values these are.  Trees of two levels add functions of two features, each of which
        gets a half, or its Shapley value with a background.  Deeper trees, as those of the default,
        have Shapley values with a background only.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.
        background : array-like, shape (n_background, n_features), optional
            Samples, such as the training set, over which the values of each feature have the mean
            0.  The base is then the mean score of these samples, and the values are the
            interventional SHAP values with this background (Lundberg and Lee, NIPS 2017): what a
            feature changes, in the mean over all orders of the features and all rows of the
            background.  For an additive model, this is its function at the sample minus the mean
            over the background.  By default nothing is subtracted, so that only differences
            between samples have a meaning.

        Returns
        -------
        contributions : Contributions
            ``values``, shape (n_samples, n_features, n_scores), or (n_samples, n_features) if the
            decision function has one score for each sample, and ``base``.

        Raises
        ------
        TypeError
            If the weak learners depend on more than two features, and are no trees with a
            background.
        """
        check_is_fitted(self)
        return table_contributions(self, X, background)


def table_contributions(face: Any, X: Any, background: Any) -> Contributions:
    """Return the contributions of the columns of a table to the scores of a fitted estimator."""
    rows = later_table(face, X)
    if background is not None:
        try:
            background = later_table(face, background)
        except (TypeError, ValueError) as error:
            error.add_note("This X is the background.")
            raise
    values, base = contributions_of(face.model_.scorer(), rows, background)
    if (encoding := face._columns.encoding) is not None:
        values = encoding.summed(values, axis=1)
    n, n_features, n_channels = values.shape
    flat = face._decision(values.reshape(n * n_features, n_channels))
    return Contributions(
        flat.reshape(n, n_features, *flat.shape[1:]), face._decision(base[None])[0]
    )


def column_attributes(columns: Columns) -> dict[str, Any]:
    """Return the fitted attributes of columns by their names."""
    attributes = {
        "_columns": columns,
        "n_features_in_": columns.n_features,
        "categories_": dict(columns.categories),
    }
    if columns.names is not None:
        attributes["feature_names_in_"] = np.array(columns.names, dtype=object)
    return attributes


def keep_columns(face: Any, columns: Columns) -> None:
    """Set the fitted attributes of columns."""
    face.__dict__.update(column_attributes(columns))


def restore_columns(face: Any, facts: Mapping[str, Any]) -> None:
    """Set the columns of a model from facts of its file."""
    width = next(iter(face.model_.members.values())).n_features
    saved = facts.get("columns")
    keep_columns(face, Columns(width) if saved is None else Columns.from_plain(saved, width))


def read_as_training(model: Ensemble) -> dict[str, Any]:
    """Return the attributes by which a model reads tables that are encoded."""
    return column_attributes(Columns(next(iter(model.members.values())).n_features))


def _reads_missing(face: Any, weak_learner: Any = None) -> bool:
    """Whether later tables may have missing numbers, whatever the parameters are by now."""
    encoding = face._columns.encoding
    if encoding and encoding.means:
        return True
    if weak_learner is not None:
        return takes_missing(weak_learner)
    return all(member.learners.takes_missing for member in face.model_.members.values())


def _encodes(weak_learner: Any) -> bool:
    """Whether columns of 0 and 1 may replace categories, and means missing values."""
    return all(isinstance(member, str) for member in members_of(weak_learner))


def _categorical(X: Any, wanted: Any) -> list[int]:
    """Return the categorical columns of a training table."""
    if sparse.issparse(X):
        if isinstance(wanted, str | None):
            return []
        raise ValueError(
            "X is sparse, with which categorical_features is not supported; leave it out, or give "
            "an array that is not sparse."
        )
    return categorical_columns(X, wanted)


def _directions(
    X: Any, constraints: Any, categories: Mapping[int, Sequence[Any]]
) -> tuple[int, ...]:
    """Return the directions of all features."""
    if sparse.issparse(X):
        raise ValueError(
            "X is sparse, with which monotonic_cst is not supported; leave it out, or give an "
            "array that is not sparse."
        )
    wanted, n_columns = constraints, shape_of(X)[1]
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
            f"monotonic_cst is {shown(wanted)}; give -1, 0 or 1 for each of the "
            f"{n_columns} features."
        )
    bad = [f for f in categories if directions[f]]
    if bad:
        raise ValueError(
            f"monotonic_cst gives feature {bad[0]} a direction, which is categorical; give 0."
        )
    return tuple(int(direction) for direction in directions)
