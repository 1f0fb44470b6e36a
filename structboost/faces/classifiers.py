"""Base classes of boosted classifiers, and the classifier that trains StructBoost."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d

from structboost._typing import AnyArray, FloatArray, override
from structboost.contract.task import Task
from structboost.faces.base import estimator, facts_of_fit, fit_of_facts, saved_link
from structboost.faces.columns import Columns
from structboost.faces.labels import (
    check_lengths,
    class_weights,
    classes_in_place,
    classification_examples,
    classification_task,
    decision_of,
    indices_among,
    label_vector,
    labels_of,
    outputs_of,
    saved_classes,
    score,
)
from structboost.faces.objectives import (
    Objectives,
    checked_parameters,
    recipe_of,
)
from structboost.faces.recipe import Examples, Problem, Recipe
from structboost.faces.tables import TableFace, keep_columns, read_as_training, restore_columns
from structboost.files.archive import DamagedFileError
from structboost.learners.label_augmented import LabelAugmented
from structboost.learners.pricing import Pricing, PricingRule
from structboost.model.ensemble import Ensemble
from structboost.objectives.base import SoftmaxLink, formulation_of
from structboost.objectives.stage_wise import StageWiseLikelihood
from structboost.runtime.fitted_state import committed
from structboost.selection.folds import Fold, merged_copies, random_folds
from structboost.tasks.classes import BinaryTask, CodedTask, MulticlassTask
from structboost.tasks.hierarchical import TaxonomyTask, saved_tree
from structboost.training.examples import BinnedTable
from structboost.validation import checked_choice, rows_of


@estimator()
class BoostedClassifier(ClassifierMixin, TableFace):
    """Base of boosted classifiers.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weight of the classes in the mean loss.
    taxonomy : nested dicts, edges, paths or networkx.DiGraph, optional
        Tree whose leaves are the labels, as ``{"animal": ["cat", "dog"]}`` or in another form
        of :mod:`structboost.tasks.hierarchical`.  Classes share the weak learners of their
        ancestors, and a wrong class costs the height of the first common ancestor
        (:class:`structboost.TaxonomyTask`).  If classes have probabilities, the class of least
        expected cost is predicted.

    Attributes
    ----------
    classes_ : ndarray
        The labels, in the order of the columns of :meth:`decision_function`.
    link_ : SoftmaxLink or None
        Map from scores to probabilities, or None if there are none.  Missing if the formulation
        has another method for them.
    """

    class_weight: Any = None

    # Whether a fit draws codes of the classes.
    _random_codes: ClassVar[bool] = False
    # A tree that is a parameter of some classes.
    taxonomy = None

    @committed
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: Any = None) -> Self:
        """Train on a table and its labels.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Or a :class:`structboost.BinnedTable`, or a Dask array or data frame, which are read in
            place.
        y : array-like, shape (n_samples,)
            Labels of any type.  For a Dask X, a Dask array or series.
        sample_weight : array-like, shape (n_samples,), optional
            Weight of each sample in the mean loss.  Samples of weight zero are left out.
        eval_set : (X, y), optional
            Held-out samples and their labels, which take the place of those that
            ``early_stopping`` draws, and of folds on which C is chosen.

        Raises
        ------
        ValueError, TypeError
            If a parameter or an argument is out of its range, or weights leave one of several
            classes.
        SolverError
            If a restricted master cannot be solved.

        Warns
        -----
        ConstantPredictionWarning
            If ``y`` has one class, which the model then always predicts.
        """
        seed = 0
        if self._random_codes:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        recipe = self._recipe(seed)
        self._check_held_parameters(eval_set, recipe)
        if isinstance(X, BinnedTable) or hasattr(X, "__dask_graph__"):
            problem, classes = self._problem_in_place(recipe, X, y, sample_weight, eval_set)
            keep_columns(self, Columns(int(X.shape[1])))
        else:
            y = label_vector(y)
            X, y, recipe = self._read(X, y, recipe)
            classes, X, labels, weights, counts = classification_examples(
                X, y, sample_weight, self.class_weight
            )
            if len(classes) == 1:
                if eval_set is not None:
                    with self._held_table(eval_set, recipe) as (_, held_y):
                        indices_among(np.unique(label_vector(held_y)), classes)
                state = {"classes_": classes}
                state |= recipe.choices.of_constant if recipe.choices else {}
                self._keep_constant(BinaryTask(), {"x": X.shape[1]}, recipe.objective, **state)
                self._keep_link(recipe)
                return self
            task = self._task(recipe, classes)
            examples = whole = Examples(X, outputs_of(labels, task), weights, counts=counts)
            held = None
            if eval_set is not None:
                with self._held_table(eval_set, recipe) as (held_X, held_y):
                    held_y = column_or_1d(label_vector(held_y))
                    check_lengths(held_X.shape[0], len(held_y))
                    distinct, of_held = np.unique(held_y, return_inverse=True)
                    of_held = indices_among(distinct, classes)[of_held]
                    weights = class_weights(self.class_weight, classes, of_held, labels)
                    held = Examples(held_X, outputs_of(of_held, task), weights)
            elif self.early_stopping:
                examples, held = self._split(whole, classes[labels])
            problem = Problem(task, examples, self._folds, held, whole)

        def prepared(model: Ensemble) -> dict[str, Any]:
            return read_as_training(model) | {"classes_": classes, "link_": self._link(recipe)}

        as_given = partial(_labels_given, problem.task, classes)
        score = self._held_out_score(problem.task, as_given, prepared)
        fitted = recipe.train(replace(problem, score=score, n_features=self._columns.n_features))
        self._keep(problem.task, fitted, classes_=classes)
        self._keep_link(recipe)
        return self

    def _split(self, examples: Examples, labels: AnyArray) -> tuple[Examples, Examples]:
        """Return the examples to train on and those held out, some of equal ones in both."""
        X, outputs, counts = examples.X, examples.Y, examples.counts
        assert counts is not None
        copies = np.repeat(np.arange(len(counts)), counts)
        self._check_held_out(labels[copies])
        parts = train_test_split(
            copies, test_size=self.validation_fraction, stratify=outputs[copies],
            random_state=self.random_state,
        )  # fmt: skip
        train, held = (merged_copies(part, examples.weights, counts) for part in parts)
        return (
            Examples(
                rows_of(X, train.rows), outputs[train.rows], train.weights, counts=train.counts
            ),
            Examples(rows_of(X, held.rows), outputs[held.rows], held.weights),
        )

    def _check_held_out(self, labels: AnyArray) -> None:
        """Raise ValueError unless each class can have held-out and training samples."""
        present, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            label = present[np.argmin(counts)].item()
            raise ValueError(
                f"y has only one sample of class {label!r}, and early_stopping holds out samples "
                "of each class; give at least two, or set early_stopping=False."
            )
        n_held = math.ceil(self.validation_fraction * len(labels))
        if not len(present) <= n_held <= len(labels) - len(present):
            raise ValueError(
                f"validation_fraction is {self.validation_fraction!r}, which holds out {n_held} "
                f"of {len(labels)} samples; with {len(present)} classes hold out, and leave, at "
                f"least {len(present)}."
            )

    def _problem_in_place(
        self, recipe: Recipe, X: Any, y: Any, sample_weight: Any, eval_set: Any
    ) -> tuple[Problem, AnyArray]:
        """Return the problem of a table on disk or of a Dask collection, and the classes."""
        if recipe.choices and not recipe.choices.in_place:
            raise ValueError(
                f"X is a {type(X).__name__}, on which objective={recipe.objective!r} cannot be "
                "trained; write objective='hinge', and give the C of a fit of some of the rows."
            )
        if self.early_stopping or eval_set is not None or self.class_weight is not None:
            raise ValueError(
                "early_stopping, eval_set and class_weight are not supported if X is a "
                f"{type(X).__name__}; leave them out, and give sample_weight."
            )
        if self.monotonic_cst is not None:
            raise ValueError(
                f"monotonic_cst is not supported if X is a {type(X).__name__}; give X as an array "
                "or a data frame."
            )
        classes, encode = classes_in_place(y)
        task = self._task(recipe, classes)
        return Problem(task, Examples(X, encode(y, task), sample_weight), self._folds), classes

    @abstractmethod
    @override
    def _recipe(self, seed: int = 0) -> Recipe: ...

    def _task(self, recipe: Recipe, classes: AnyArray) -> Task:
        """Return the task for these classes."""
        if recipe.task:
            return recipe.task(classes)
        return classification_task(classes.tolist(), self.taxonomy)

    def _folds(self, examples: Examples) -> list[Fold]:
        X, Y, counts = examples.X, examples.Y, examples.counts
        return random_folds(
            X, Y, examples.weights, strata=Y, counts=counts, random_state=self.random_state
        )

    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores of the classes.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        scores : ndarray, shape (n_samples, n_classes)
            In the order of ``classes_``.  For two classes, the score of the second one, shape
            (n_samples,), and 0 for one class.
        """
        return self._decision(self._scores(X))

    @override
    def _decision(self, scores: FloatArray) -> FloatArray:
        return decision_of(scores, self.task_)

    def _link(self, recipe: Recipe) -> SoftmaxLink | None:
        """Return the link to probabilities of a fit, which costs of a taxonomy leave out."""
        is_weighed = self.taxonomy is not None
        if is_weighed and recipe.objective not in ("log_loss", "l1_log_loss"):
            return None
        return formulation_of(recipe.formulation).link

    def _has_probabilities(self) -> bool:
        """Whether the last fit gave probabilities, or the next one will if there is none."""
        if hasattr(self, "link_"):
            return self.link_ is not None
        try:
            return self._link(self._recipe()) is not None
        except (TypeError, ValueError):  # fit names the parameter that is out of its range
            return False

    def _check_probabilities(self) -> bool:
        """Return True, or raise AttributeError if there are no probabilities."""
        if not self._has_probabilities():
            likelihood = "objective='log_loss', or " if self._objectives else ""
            raise AttributeError(
                f"This {type(self).__name__} minimised a loss that has no probabilities; take "
                f"{likelihood}CalibratedClassifierCV of scikit-learn on top of it."
            )
        return True

    def _keep_link(self, recipe: Recipe) -> None:
        """Store the link from scores to probabilities, because parameters may change later."""
        link, factor = self._link(recipe), self.temperature_
        self.link_ = link if link is None or factor is None else link.sharpened(factor)

    @available_if(lambda self: self._check_probabilities())
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes.

        They are the probabilities for which the scores minimise the expected loss
        (:attr:`structboost.objectives.Formulation.link`), which may be a likelihood, the
        exponential or the logistic loss.  The method is missing for the hinge loss, for losses over
        the bits of a code, and for taxonomies without a likelihood.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        probabilities : ndarray, shape (n_samples, n_classes)
            In the order of ``classes_``.  Rows sum to 1.
        """
        return self._probabilities(self.decision_function(X))

    @available_if(lambda self: self._check_probabilities())
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        logarithms : ndarray, shape (n_samples, n_classes)
            In the order of ``classes_``, minus infinity for a probability of 0.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        """Return probabilities for a result of :meth:`decision_function`."""
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        if scores.ndim == 1:
            scores = np.column_stack((np.zeros(len(scores)), scores))
        assert self.link_ is not None  # else there is no predict_proba
        return self.link_.inverse(scores)

    def predict(self, X: Any) -> AnyArray:
        """Return the label with the highest score, or with the least expected cost in a taxonomy.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        labels : ndarray, shape (n_samples,)
            Entries of ``classes_``.
        """
        return self._labels(self.decision_function(X))

    def _class_costs(self) -> FloatArray | None:
        """Return the cost of each (true, predicted) pair of classes, or None."""
        if isinstance(self.task_, TaxonomyTask) and self._has_probabilities():
            return self.task_.losses
        return None

    def _labels(self, decided: FloatArray) -> AnyArray:
        """Return labels for a result of :meth:`decision_function`."""
        costs = self._class_costs()
        if costs is None:
            return labels_of(decided, self.classes_)
        expected = self._probabilities(decided) @ costs
        return np.asarray(self.classes_[expected.argmin(axis=1)])

    score = score

    def staged_decision_function(self, X: Any) -> Iterator[FloatArray]:
        """Iterate over the scores after each round, with the weights of that round.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        stages : iterator of ndarray
            One array per round, as :meth:`decision_function` returns it.
        """
        return map(self._decision, self._staged_scores(X))

    def staged_predict(self, X: Any) -> Iterator[AnyArray]:
        """Iterate over the labels after each round, with the weights of that round.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Samples with the columns of training.

        Returns
        -------
        stages : iterator of ndarray, shape (n_samples,)
            One array per round, as :meth:`predict` returns it.
        """
        return map(self._labels, self.staged_decision_function(X))

    @override
    def _facts(self) -> dict[str, Any]:
        facts = {**facts_of_fit(self), "columns": self._columns.to_plain()}
        if isinstance(self.task_, TaxonomyTask):
            facts["tree"] = self.task_.tree.parents.tolist()
        if isinstance(self.task_, CodedTask):
            facts["code"] = self.task_.code.tolist()
        if hasattr(self, "link_"):
            facts["link"] = self.link_ and [self.link_.sharpness, self.link_.margin]
        return facts

    def _restore(self, facts: Mapping[str, Any]) -> None:
        self.classes_ = saved_classes(facts)
        task = self._saved_task(facts)
        restore_columns(self, facts)
        self._keep(task, fit_of_facts(self.model_, facts, task))
        if "link" in facts:
            self.link_ = saved_link(facts["link"])
        if "tree" in facts and self.taxonomy is None:
            parents = facts["tree"]
            names = [*self.classes_.tolist(), *map("node {}".format, range(len(parents)))]
            pairs = zip(parents, names, strict=False)
            self.set_params(taxonomy=[(names[of], name) for of, name in pairs if of >= 0])

    def _saved_task(self, metadata: Mapping[str, Any]) -> Task:
        """Return the task that the model was trained on."""
        n_classes = len(self.classes_)
        if "code" in metadata:
            task = CodedTask(metadata["code"])
            if task.n_classes != n_classes:
                raise DamagedFileError("its code is of other classes")
            return task
        if self.model_.kinds["x"].n_channels == n_classes == 2:
            return MulticlassTask(2)
        if metadata.get("tree") is not None:
            return TaxonomyTask(saved_tree(metadata["tree"], n_classes))
        return classification_task(self.classes_.tolist())


def _labels_given(task: Task, classes: AnyArray, Y: Any) -> AnyArray:
    """Return true outputs of the task as labels."""
    indices = np.asarray(Y)
    if isinstance(task, BinaryTask):
        indices = (indices > 0).astype(int)
    return np.asarray(classes[indices])


@estimator(Objectives)
class StructBoostClassifier(BoostedClassifier):
    """Binary and multi-class classifier trained by StructBoost (sections 3.1 and 3.3).

    By default it boosts trees stage-wise for the likelihood of the labels
    (:class:`structboost.objectives.StageWiseLikelihood`), each round on half of the rows, which
    needs no C and has no certificate (docs/decisions.md).  ``objective="hinge"``
    minimises the hinge loss over stumps, to a certified gap.  Engines of several processes need it.

    With a taxonomy, ``pricing="label_augmented"`` of an objective takes stumps on the input
    augmented with the label code (:class:`structboost.learners.label_augmented.LabelAugmented`;
    StructBoost, end of section 3.4).

    See Also
    --------
    structboost.StructBoostMultiLabelClassifier : Classifier of sets of labels.
    structboost.StructuredSVMClassifier : Classifier by one linear function.
    structboost.StructBoost : Trainer of the same models for any task.
    structboost.thin : Model of fewer trees.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from structboost import StructBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructBoostClassifier(max_iter=20).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.predict_proba(X[:1]).shape
    (1, 3)
    """

    taxonomy: Any = None
    monotonic_cst: Any = None

    _objectives = ("log_loss", "hinge", "svm", "exponential", "l1_log_loss")

    @override
    def _recipe(self, seed: int = 0) -> Recipe:
        objective = checked_parameters(self)
        rule = getattr(objective, "pricing", "own")

        def pricing(task: Task) -> str | PricingRule:
            if isinstance(rule, PricingRule):
                return rule
            name = checked_choice(rule, "pricing", Literal[Pricing, "label_augmented"])
            if name != "label_augmented":
                return name
            if not isinstance(task, TaxonomyTask):
                raise ValueError(
                    "pricing is 'label_augmented', which needs a taxonomy; give taxonomy=."
                )
            return LabelAugmented()

        steps = StageWiseLikelihood()
        return recipe_of(self, objective, steps, pricing=pricing, tries_long_steps=True)
