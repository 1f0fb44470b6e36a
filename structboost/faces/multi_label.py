"""Classifier of sets of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils.validation import check_is_fitted

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.contract.parts import StackedParts
from structboost.errors import warn_user
from structboost.faces.base import estimator, facts_of_fit, fit_of_facts
from structboost.faces.labels import (
    FORMS,
    check_lengths,
    check_same_sort,
    decision_of,
    indices_among,
    label_sets,
    label_vector,
    labels_of,
    saved_classes,
)
from structboost.faces.labels import score as label_score
from structboost.faces.objectives import (
    Objectives,
    checked_parameters,
    recipe_of,
)
from structboost.faces.recipe import Examples, Problem, Recipe
from structboost.faces.tables import TableFace, read_as_training, restore_columns
from structboost.objectives.base import formulation_of
from structboost.objectives.stage_wise import StageWiseRandomField
from structboost.runtime.fitted_state import committed
from structboost.selection.folds import Fold, random_folds
from structboost.tasks.hierarchical import HierarchicalMultiLabelTask, check_order, read_hierarchy
from structboost.tasks.multi_label import MultiLabelTask, SetLoss
from structboost.validation import (
    AUTO,
    Auto,
    checked_choice,
    checked_flag,
    checked_weights,
    is_same,
    is_text,
    shown,
)

Outputs = Literal["auto", "all", "seen"]
# Rounds without a lower held-out loss (docs/decisions.md).
_PATIENCE = 60
# By default, no pairs are learned with more labels, because each pair has its trees.
_MOST_PAIRED = 14


@estimator(Objectives)
class StructBoostMultiLabelClassifier(ClassifierMixin, TableFace):
    """Classifier of inputs with any number of labels (:class:`structboost.MultiLabelTask`).

    By default it boosts trees stage-wise for the likelihood of the sets
    (:class:`structboost.objectives.StageWiseRandomField`), which needs no C and has no certificate,
    and predicts the set with the least expected ``loss``.  ``objective="hinge"`` minimises the
    hinge of the loss over stumps, to a certified gap.  Engines of several processes need it.

    Parameters
    ----------
    objective : {"log_loss", "hinge", "svm", "l1_log_loss"} or Formulation
        Function that is minimised.  ``"log_loss"``: minus the mean logarithm of the probability of
        the true set, by stage-wise boosting, or with half the squared norm of one linear function.
        ``"hinge"``: C times the mean hinge of ``loss`` plus the l1 norm of the weights, to a
        certified gap.  With the subset loss, the empty model is optimal if no set has a probability
        above a half.  ``"svm"``: C times this hinge plus half the squared norm of one linear
        function.  ``"l1_log_loss"``: C times the log-loss plus the l1 norm of the weights.
    loss : {"hamming", "subset", "f1"}
        Loss of predictions: the fraction of wrong labels, the fraction of wrong sets, or 1 minus
        the F1 of each set.
    outputs : {"auto", "all", "seen"}
        Whether any set of labels may be predicted, or only sets of the training set.  ``"auto"``
        is ``"seen"`` for the subset loss with ``objective="log_loss"``, else ``"all"``.
    pairs : bool or "auto"
        Whether pairs of labels have scores, too.  With ``outputs="all"``, it requires at most 10
        labels.  ``"auto"`` is True for the subset loss with ``objective="log_loss"`` and at most
        14 labels, else False.
    hierarchy : (parent, child) pairs, nested dicts, paths or networkx.DiGraph, optional
        Pairs of labels, at least one, of which the second implies the first, or another form of
        :mod:`structboost.tasks.hierarchical`.  A label may have several parents.  Implied labels
        are added to predictions, and in a fit to ``y``, with a warning that counts the sets that
        lack some.  Pairs that ``y`` shows to be (child, parent) are refused.  Wrong labels weigh
        less further down (:class:`structboost.HierarchicalMultiLabelTask`); ``loss``, ``outputs``
        and ``pairs`` must have their defaults.
    weak_learner : str, callable or list of these
        Family of weak learners, as in :class:`structboost.StructBoost`; ``"linear"`` with
        ``objective="log_loss"`` is one linear function of the standardised features.  ``"auto"`` is
        trees for ``objective="log_loss"``, one linear function for ``"svm"``, else stumps.
    early_stopping : bool
        Whether to hold out a part of the training set, stop when its loss has not improved for
        ``n_iter_no_change`` rounds, and keep the best round.  The certificate then refers to the
        last round trained.

    Attributes
    ----------
    classes_ : ndarray, shape (n_labels,)
        The labels, including those of the hierarchy.  If ``y`` was a data frame, they are the names
        of its columns; if it was another indicator matrix, 0 to n_labels - 1.

    See Also
    --------
    structboost.MultiLabelTask : The task that it trains.
    structboost.HierarchicalMultiLabelTask : Sets of labels in a hierarchy.
    structboost.StructBoostClassifier : Classifier of one label.

    Examples
    --------
    >>> import numpy as np
    >>> from structboost import StructBoostMultiLabelClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X > 0).astype(int)
    >>> model = StructBoostMultiLabelClassifier(max_iter=20).fit(X, y)
    >>> model.predict([[1.0, -1.0]])
    array([[1, 0]])
    """

    loss: SetLoss = "hamming"
    outputs: Outputs = AUTO
    pairs: bool | Auto = AUTO
    hierarchy: Any = None

    _objectives = ("log_loss", "hinge", "svm", "l1_log_loss")

    @committed
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None) -> Self:
        """Train on a table and the labels of its rows.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Array, data frame or sparse matrix.
        y : array, data frame or sparse matrix, shape (n_samples, n_labels), or list of lists
            An indicator matrix of 0 and 1, or a list of the labels of each sample.  The columns of
            a data frame are the labels, by their names.  With one label for each sample, shape
            (n_samples,), exactly one is predicted.
        sample_weight : array-like, shape (n_samples,), optional
            Weight of each sample in the mean loss; samples of weight zero are left out.
        eval_set : (X, y), optional
            Held-out samples and their labels in the form of ``y``, which take the place of those
            that ``early_stopping`` draws, and of folds on which C is chosen.

        Raises
        ------
        ValueError
            If an argument is out of its range.
        """
        recipe = self._recipe()
        self._check_held_parameters(eval_set, recipe)
        # scikit-learn raises an error if there is no y.
        checked_y = None if y is None else "no_validation"
        X, _, recipe = self._read(X, checked_y, recipe)
        classes, indicator, form, _ = label_sets(y)
        edges = None
        if self.hierarchy is not None:
            classes, edges = self._hierarchy_edges(classes, form)
            if form == "lists":
                indicator = label_sets(y, classes).indicator
            indicator = _closed(indicator, edges, classes)
        check_lengths(len(X), len(indicator))
        weights = checked_weights(sample_weight, len(X))
        rows = np.flatnonzero(weights > 0)
        X, indicator, weights = X[rows], indicator[rows], weights[rows]
        if form == "single" and np.count_nonzero(indicator.any(axis=0)) < 2:
            raise ValueError(
                "sample_weight leaves samples of 1 class only; at least two classes must count."
            )
        examples = whole = Examples(X, indicator, weights)
        held = None
        if eval_set is not None:
            with self._held_table(eval_set, recipe) as (held_X, held_y):
                sets = label_sets(held_y, classes)
                check_lengths(held_X.shape[0], len(sets.indicator))
                if sets.form != form:
                    raise ValueError(f"y has the form {sets.form!r}, and in training {form!r}.")
                if sets.unknown.any():
                    indices_among(label_sets(held_y).classes, classes)
                Y = sets.indicator if edges is None else _closed(sets.indicator, edges, classes)
                held = Examples(held_X, Y)
        elif self.early_stopping:
            X, held_X, Y, held_Y, weights, of_held = train_test_split(
                X, indicator, weights, test_size=self.validation_fraction,
                random_state=self.random_state,
            )  # fmt: skip
            examples, held = Examples(X, Y, weights), Examples(held_X, held_Y, of_held)
        # Whole sets are learned for the subset loss.
        learns_sets = is_text(self.loss, "subset") and recipe.objective == "log_loss"
        pairs, outputs = self.pairs, self.outputs
        if is_same(pairs, AUTO):
            pairs = learns_sets and len(classes) <= _MOST_PAIRED
        if is_same(outputs, AUTO):
            outputs = "seen" if learns_sets else "all"
        seen = examples.Y if outputs == "seen" or form == "single" else None
        task = self._task(classes, seen, edges, pairs=bool(pairs))
        by_likelihood = (
            recipe.objective != "svm" and formulation_of(recipe.formulation).link is not None
        )
        read = {
            "_form": form, "_by_likelihood": by_likelihood, "_pairs": bool(pairs),
            "classes_": classes,
        }  # fmt: skip

        def as_given(Y: Any) -> Any:
            sets = np.asarray(Y)
            if form == "single":
                return classes[sets.argmax(axis=1)]
            return sets if form == "matrix" else _lists(sets, classes)

        problem = Problem(
            task,
            examples,
            self._folds,
            held,
            whole,
            self._held_out_score(task, as_given, lambda model: read | read_as_training(model)),
            self._columns.n_features,
        )
        self._keep(task, recipe.train(problem), **read)
        return self

    @override
    def _recipe(self) -> Recipe:
        objective = checked_parameters(self)
        checked_choice(self.outputs, "outputs", Outputs)
        if not is_same(self.pairs, AUTO):
            checked_flag(self.pairs, "pairs")
        return recipe_of(self, objective, StageWiseRandomField(patience=_PATIENCE))

    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores of the labels, and with ``pairs`` also of pairs of labels.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        scores : ndarray, shape (n_samples, n_channels)
            In the order of ``classes_``, followed by the pairs.  If ``y`` had one of two labels for
            each sample, the difference, shape (n_samples,).
        """
        return self._decision(self._scores(X))

    def predict(self, X: Any) -> Any:
        """Return the labels of each sample.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        labels : ndarray or list
            In the form of ``y``: an indicator matrix of shape (n_samples, n_labels), with columns
            in the order of ``classes_``, a list of tuples, or one label per sample, shape
            (n_samples,).  For a data frame it is the matrix, too:
            ``pandas.DataFrame(labels, columns=model.classes_)`` names its columns.
        """
        return self._labels(self._scores(X))

    def predict_marginals(self, X: Any) -> FloatArray:
        """Return the probability of each label of ``classes_``.

        A set of labels has the probability ``~ exp(score)``, which ``"log_loss"`` and
        ``"l1_log_loss"`` fit.  After training for the hinge, these numbers are not calibrated.
        With ``hierarchy``, no label is more probable than one that it implies.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        probabilities : ndarray, shape (n_samples, n_labels)
            In the order of ``classes_``.  Rows need not sum to 1.

        Raises
        ------
        TooManyOutputsError
            If a label has several parents in a hierarchy of more than 12 labels.
        """
        scores = self._scores(X) * (self.temperature_ or 1.0)
        task: Any = self.task_
        expected = task.marginals_batch([None] * len(scores), StackedParts({"x": scores}, {}))
        return np.array(expected.expected["x"][:, : len(self.classes_)])

    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Iterate over the labels after each round, with the weights of that round.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        stages : iterator
            One prediction per round, as :meth:`predict` returns it.
        """
        return map(self._labels, self._staged_scores(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fraction of samples whose set of labels is correct.

        A set with a label that was not in training counts as wrong, and so does one that lacks
        labels which the hierarchy implies.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.
        y : array, data frame or sparse matrix, shape (n_samples, n_labels), or list of lists
            The true labels, as in :meth:`fit`.  Columns of data frames are found by their names.
        sample_weight : array-like, shape (n_samples,), optional
            Weight of each sample in the mean.

        Returns
        -------
        score : float
            From 0 to 1.

        Raises
        ------
        ValueError
            If ``X`` and ``y`` differ in length, or ``y`` is of another form.
        """
        check_is_fitted(self)
        if self._form == "single":
            return label_score(self, X, y, sample_weight)
        true, predicted, _ = self.outputs_for_metrics(y, self.predict(X), None)
        check_lengths(len(predicted), len(true))
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, len(true))
        return float(np.average((true == predicted).all(axis=1), weights=sample_weight))

    def outputs_for_metrics(
        self, true: Any, predicted: Any, sample_weight: Any
    ) -> tuple[AnyArray, AnyArray, Any]:
        """Return indicator matrices for :func:`structboost.selection.structured_scorer`.

        True labels that were not in training have a last column, in which no prediction is 1.  With
        one label for each sample, labels are returned.
        """
        if self._form == "single":
            return label_vector(true), predicted, sample_weight
        labels = label_sets(true, self.classes_)
        indicator = labels.indicator
        if self._form == "lists":
            predicted = MultiLabelBinarizer(classes=self.classes_.tolist()).fit_transform(predicted)
        table = np.asarray(predicted, np.int64)
        if labels.unknown.any():
            indicator = np.column_stack((indicator, labels.unknown))
            table = np.pad(table, ((0, 0), (0, 1)))
        return indicator, table, sample_weight

    @override
    def _facts(self) -> dict[str, Any]:
        task: Any = self.task_
        return facts_of_fit(self) | {
            "columns": self._columns.to_plain(),
            "form": self._form,
            "by_likelihood": self._by_likelihood,
            "pairs": self._pairs,
            "sets": None if task.sets is None else task.sets.tolist(),
            "edges": None if self.hierarchy is None else task.edges.tolist(),
        }

    def _restore(self, facts: Mapping[str, Any]) -> None:
        self._form = checked_choice(facts["form"], "form", FORMS)
        self._pairs = facts.get("pairs", self.pairs) is True
        self._by_likelihood = facts.get("by_likelihood") is True
        edges = facts.get("edges")
        classes = saved_classes(facts)
        task = self._task(classes, facts["sets"], edges, pairs=self._pairs)
        labels = classes.tolist()
        if edges is not None and self.hierarchy is None:
            self.hierarchy = [(labels[a], labels[b]) for a, b in edges]
        restore_columns(self, facts)
        self._keep(task, fit_of_facts(self.model_, facts, task), classes_=classes)

    def _task(self, classes: AnyArray, sets: Any, edges: Any, *, pairs: bool) -> MultiLabelTask:
        if edges is not None:
            task = HierarchicalMultiLabelTask(len(classes), edges)
            task.label_names = classes.tolist()
            return task
        return MultiLabelTask(len(classes), self.loss, pairs=pairs, sets=sets)

    def _hierarchy_edges(self, classes: AnyArray, form: str) -> tuple[AnyArray, IntArray]:
        """Return the labels with those of the hierarchy, and its pairs as their indices."""
        read = {"loss": ("hamming",), "outputs": (AUTO, "all"), "pairs": (AUTO, False)}
        for name, values in read.items():
            value = getattr(self, name)
            if not any(is_same(value, one) for one in values):
                raise ValueError(
                    f"{name} is {shown(value)}, which a classifier with hierarchy does not read; "
                    f"leave {name} or hierarchy out, or write {name}={values[-1]!r}."
                )
        if form == "single":
            raise ValueError(
                "y has one label for each sample, and hierarchy gives a sample several; give lists "
                "of labels."
            )
        of_y = classes.tolist()
        edges = read_hierarchy(self.hierarchy, of_y, "hierarchy").named_edges()
        labels = dict.fromkeys(of_y)
        for pair in edges:
            for label in pair:
                check_same_sort(of_y[0], label, "hierarchy has", "y")
                if label not in labels and form == "matrix":
                    raise ValueError(
                        f"hierarchy has the label {shown(label)}, and y has the columns "
                        f"{shown(of_y)}; give labels of these columns."
                    )
                labels[label] = None
        if len(labels) > len(of_y):
            classes = np.asarray(label_vector(sorted(labels)))
        index = {label: i for i, label in enumerate(classes.tolist())}
        return classes, np.array([[index[above], index[below]] for above, below in edges], np.int64)

    def _folds(self, examples: Examples) -> list[Fold]:
        return random_folds(
            examples.X, examples.Y, examples.weights, random_state=self.random_state
        )

    def _sets(self, scores: FloatArray) -> IntArray:
        """Return the set with the least expected loss, or the highest score, of each sample."""
        task: Any = self.task_
        if self._by_likelihood and self.hierarchy is None:
            return np.array(task.least_expected_loss(scores * (self.temperature_ or 1.0)))
        stack = StackedParts({"x": scores}, {"x": np.arange(len(scores) + 1)})
        return np.array(task.argmax_batch([None] * len(scores), stack))

    @override
    def _decision(self, scores: FloatArray) -> FloatArray:
        return decision_of(scores[:, : len(self.classes_)]) if self._form == "single" else scores

    def _labels(self, scores: FloatArray) -> Any:
        if self._form == "single":
            return labels_of(self._decision(scores), self.classes_)
        sets = self._sets(scores)
        return sets if self._form == "matrix" else _lists(sets, self.classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags


def _closed(indicator: IntArray, edges: IntArray, classes: AnyArray) -> IntArray:
    """Return sets of labels with all labels above theirs, and warn how many have more."""
    labels = classes.tolist()
    named = [(labels[above], labels[below]) for above, below in edges]
    check_order(named, indicator, labels)
    closed = HierarchicalMultiLabelTask(len(labels), edges).closed(indicator)
    is_open = (closed != indicator).any(axis=1)
    if is_open.any():
        row = int(is_open.argmax())
        added = [labels[i] for i in np.flatnonzero(closed[row] > indicator[row])]
        warn_user(
            f"hierarchy adds labels to {is_open.sum()} of {len(closed)} sets of y, such as "
            f"{shown(added)} to y[{row}]; score compares with y as it is given, so add them "
            "there, too.",
            UserWarning,
        )
    return closed


def _lists(sets: IntArray, classes: AnyArray) -> list[tuple[Any, ...]]:
    """Return the labels of each set."""
    return [tuple(classes[labels == 1].tolist()) for labels in sets]
