"""Out-of-fold responses of a classifier as features of rows, tokens or parts of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from structboost._typing import FloatArray, IntArray
from structboost.contract.task import Task
from structboost.faces.base import estimator
from structboost.faces.columns import FROM_DTYPE, categorical_columns
from structboost.faces.labelled_parts import Form, PartTable, TableForm, form_of, hstack, rows_at
from structboost.runtime.fitted_state import committed
from structboost.selection.folds import balanced_parts_of_groups, cross_fit
from structboost.validation import array_of, check_inputs, frame_of, group_indices_by_name, shown

# Lower limit of probabilities, because even a perfect classifier is not infinitely certain.
_LEAST = 1e-5


@estimator()
class CrossFitted(TransformerMixin, BaseEstimator):
    """Transformer that replaces the features of parts by the responses of a classifier.

    Put it before a structured model in a pipeline.  The classifier predicts each part, and the
    model learns how reliable these predictions are and which labels go together.  As with
    scikit-learn's ``TargetEncoder``, :meth:`fit_transform` is not ``fit`` and then
    :meth:`transform`:

    - :meth:`fit_transform`, which a pipeline calls in training, takes the response for each part
      from a classifier that was trained without its group.  A classifier trained on the part would
      be too confident, and the model would rely on it too much.
    - :meth:`transform`, which it calls in prediction, takes the mean response of these classifiers.

    Responses are log-probabilities of the classes, or log-odds for two classes and for each label
    of a set.  For a classifier without probabilities, they are its ``decision_function``.

    Inputs are those of the next model: a table and its labels or sets of labels, or sequences of
    tokens and their tags.  With ``task`` they are the inputs and outputs of a task that defines
    labels of its parts (:meth:`structboost.Task.part_labels`), such as a matching, whose pairs
    belong together or not.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Classifier of the parts.  For sets of labels there is one for each label, unless it takes
        sets itself.
    task : Task, optional
        The task whose inputs are transformed.
    folds : int
        Number of folds, at least 2.
    passthrough : bool
        Whether to append the features to the responses.
    random_state : int, RandomState or None
        Seed for the folds.  With None, the folds are the same in each fit.
    n_jobs : int or None
        Number of processes that train the folds' classifiers.

    Attributes
    ----------
    estimators_ : list
        The trained classifiers of each fold.  For sets of labels, there is a list for each fold,
        unless the classifier takes sets itself.
    classes_ : ndarray
        Classes, labels, or tags.
    feature_names_in_ : ndarray of str
        Names of the columns, where data frames have them.

    Notes
    -----
    Wolpert, Stacked generalization, Neural Networks 1992.

    See Also
    --------
    structboost.StructBoostTagger : Tagger of sequences of rows, which takes these features.
    structboost.text.TwoStageTagger : Tagger of text that is fitted out of fold, too.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from structboost import CrossFitted
    >>> X, y = load_iris(return_X_y=True)
    >>> CrossFitted(LogisticRegression(max_iter=1000)).fit_transform(X, y).shape
    (150, 3)
    """

    estimator: Any = field(kw_only=False)
    task: Task | None = None
    folds: int = 5
    passthrough: bool = False
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train the classifiers of all folds.

        Parameters
        ----------
        X, y, groups
            As for :meth:`fit_transform`.

        Returns
        -------
        self : CrossFitted
            The fitted transformer.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range.
        """
        self._fit(X, y, groups)
        return self

    def fit_transform(self, X: Any, y: Any, groups: Any = None) -> Any:
        """Train the classifiers, and return their out-of-fold responses.

        Parameters
        ----------
        X, y : array-like or sequence
            Inputs and true outputs, as the next model takes them.  Parts without a label (a tag
            None) have responses, too.
        groups : array-like, shape (n_examples,), optional
            Group of each example; a group is in one fold.  By default, each example is a group, so
            all tokens of a sequence are in one fold.

        Returns
        -------
        responses : ndarray or list
            A table of responses, sequences of tables, or inputs of the task with other features.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range.
        """
        return self._fit(X, y, groups)

    @committed
    def _fit(self, X: Any, y: Any, groups: Any) -> Any:
        """Train the classifiers, and return their out-of-fold responses."""
        # scikit-learn wraps fit_transform, and what it does afterwards must not follow the commit.
        self._appends_features = bool(self.passthrough)
        self._check_estimator()
        if self.task is not None and not isinstance(self.task, Task):
            raise TypeError(f"task is {shown(self.task)}; give a Task, or None for a table.")
        check_inputs(X)
        if not hasattr(y, "__len__") or isinstance(y, type | str | Mapping):
            raise TypeError(f"y is {shown(y)}; give an output for each entry of X.")
        form = form_of(X, self.task)
        parts = form.read(X)
        self._keep_columns(form)
        self.classes_, labels = form.labels(X, y, parts)
        self._has_sets = labels.ndim == 2
        folds = self._folds(groups, len(parts.lengths))[parts.owners]
        rows, is_known = parts.rows, labels >= 0 if labels.ndim == 1 else True
        training = []
        for fold in range(int(self.folds)):
            others = np.flatnonzero((folds != fold) & is_known)
            if not len(others):
                raise ValueError(f"No part outside fold {fold} has a label; give fewer folds.")
            training.append((self.estimator, rows_at(rows, others), labels[others]))
        self.estimators_, responses = cross_fit(
            folds,
            _fitted,
            training,
            lambda model, at: self._responses(model, rows_at(rows, at)),
            n_jobs=self.n_jobs,
        )
        self._form = form
        return self._output(X, parts, responses)

    def transform(self, X: Any) -> Any:
        """Return the mean responses of the folds' classifiers.

        Parameters
        ----------
        X : array-like or sequence
            Inputs in the form of training.

        Returns
        -------
        responses : ndarray or list
            In the form of :meth:`fit_transform`.  A table has shape (n_samples, n_responses), and
            with ``passthrough`` the features follow.

        Raises
        ------
        TypeError
            If ``X`` is no sequence or table.
        ValueError
            If the columns of a table are not those of training.
        """
        check_is_fitted(self)
        check_inputs(X)
        parts = self._form.read(X)
        of_folds = [self._responses(model, parts.rows) for model in self.estimators_]
        return self._output(X, parts, np.mean(of_folds, axis=0))

    def _may_have_names(self) -> bool:
        """Whether no sequences were fitted, of which scikit-learn can make no data frame."""
        if hasattr(self, "_form") and not self._form.is_table:
            raise AttributeError("Responses have names only if X is a table; X has sequences.")
        return True

    @available_if(_may_have_names)
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return names of the output columns, made of the names of classifier and class.

        With ``passthrough`` the names of the features follow.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the features.  By default those of training, or ``x0``, ``x1`` and so on.

        Returns
        -------
        names : ndarray of object, shape (n_responses,)
            One name per column of :meth:`transform`.

        Raises
        ------
        AttributeError
            If inputs are no table.
        """
        check_is_fitted(self)
        classes = self.classes_ if self._has_sets or len(self.classes_) > 2 else self.classes_[1:]
        names = [f"{type(self.estimator).__name__.lower()}_{label}" for label in classes]
        if self._appends_features:
            if input_features is None:
                unnamed = [f"x{i}" for i in range(self.n_features_in_ or 0)]
                input_features = getattr(self, "feature_names_in_", unnamed)
            names += list(input_features)
        return np.array(names, dtype=object)

    def _keep_columns(self, form: Form) -> None:
        """Store the number of the columns of a table, and the names of columns."""
        if isinstance(form, TableForm):
            self.n_features_in_ = form.n_features
        if form.columns is not None and isinstance(form.columns[0], str):
            self.feature_names_in_ = np.array(form.columns, dtype=object)

    def _output(self, X: Any, parts: PartTable, responses: FloatArray) -> Any:
        rows = hstack(responses, parts.rows) if self._appends_features else responses
        return self._form.with_rows(X, parts, rows)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_form")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def _check_estimator(self) -> None:
        is_able = any(hasattr(self.estimator, m) for m in ("predict_proba", "decision_function"))
        if isinstance(self.estimator, type):
            raise TypeError(
                f"estimator is the class {self.estimator.__name__}; give an instance of it."
            )
        if not is_able:
            raise TypeError(
                f"estimator is {shown(self.estimator)}, which has neither predict_proba nor "
                "decision_function; give a scikit-learn classifier."
            )

    def _folds(self, groups: Any, n_examples: int) -> IntArray:
        """Return the fold of each example."""
        groups = np.arange(n_examples) if groups is None else array_of(groups)
        if groups.shape != (n_examples,):
            raise ValueError(
                f"groups has shape {groups.shape}; give one for each of {n_examples} examples."
            )
        groups = group_indices_by_name(groups, "groups")
        n_groups = len(np.unique(groups))
        if not 2 <= self.folds <= n_groups:
            raise ValueError(
                f"folds is {self.folds!r}; give a number from 2 to that of the groups, {n_groups} "
                f"(n_samples = {n_examples})."
            )
        seed = 0 if self.random_state is None else self.random_state
        return balanced_parts_of_groups(groups, int(self.folds), seed)

    def _responses(self, model: Any, rows: Any) -> FloatArray:
        """Return the responses of the model of a fold, shape (n_parts, n_responses)."""
        if not self._has_sets:
            return _responses_of(model, rows, len(self.classes_))
        if isinstance(model, list):
            return np.hstack([_responses_of(of_label, rows, 2) for of_label in model])
        probabilities = model.predict_proba(rows)
        if isinstance(probabilities, np.ndarray):
            return _log_odds(probabilities)
        columns = [
            pair[:, 1] if pair.shape[1] > 1 else np.full(len(pair), float(classes[0]))
            for pair, classes in zip(probabilities, model.classes_, strict=True)
        ]
        return _log_odds(np.column_stack(columns))


def _fitted(estimator: Any, rows: Any, labels: IntArray) -> Any:
    """Fit a classifier of one label per row or of sets, or a list of one for each label."""
    if labels.ndim == 1:
        return _fitted_on_classes(estimator, rows, labels)
    if get_tags(estimator).classifier_tags.multi_label and hasattr(estimator, "predict_proba"):
        return _fitted_on_rows(clone(estimator), rows, labels)
    return [_fitted_on_classes(estimator, rows, column) for column in labels.T]


def _fitted_on_classes(estimator: Any, rows: Any, labels: IntArray) -> Any:
    # Few classifiers accept rows of a single class.
    is_constant = labels.min() == labels.max()
    return _fitted_on_rows(clone(DummyClassifier() if is_constant else estimator), rows, labels)


def _fitted_on_rows(model: Any, rows: Any, labels: IntArray) -> Any:
    try:
        return model.fit(rows, labels)
    except (TypeError, ValueError) as error:
        if frame_of(rows) is None:
            raise
        names = [frame_of(rows).columns[f] for f in categorical_columns(rows, FROM_DTYPE)]
        raise ValueError(
            f"X has the categorical columns {shown(names)}, with which "
            f"{type(model).__name__} cannot be trained ({error}); encode them as numbers, or "
            "take a classifier of categories, such as StructBoostClassifier."
        ) from error


def _responses_of(model: Any, rows: Any, n_classes: int) -> FloatArray:
    """Return log-probabilities or scores of the classes, in one column for two classes."""
    if hasattr(model, "predict_proba"):
        p = np.zeros((rows.shape[0], n_classes))
        p[:, model.classes_] = model.predict_proba(rows)
        return _log_odds(p[:, 1:]) if n_classes == 2 else np.log(np.maximum(p, _LEAST))
    scores = np.asarray(model.decision_function(rows), np.float64)
    if n_classes == 2:
        return scores.reshape(-1, 1)
    if scores.ndim == 1:
        scores = np.column_stack((-scores, scores))
    # A class that the other folds lack is less likely than any that they have.
    out = np.repeat(scores.min(axis=1, keepdims=True), n_classes, axis=1)
    out[:, model.classes_] = scores
    return out


def _log_odds(probabilities: FloatArray) -> FloatArray:
    p = np.clip(probabilities, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(p) - np.log1p(-p))
