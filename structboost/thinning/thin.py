"""Fewer trees with new weights for a trained classifier, with a certificate over all its trees.

The trees are weighed by a weighted cross-entropy (:mod:`structboost.solvers.priced_cross_entropy`).
Its targets mix the probabilities of the whole model, at the sharpness that suits the rows best,
with the labels.  The price of a tree is the standard deviation of its responses.  Along a path of
rising C a first fit selects trees, and a second one, in which the selected trees cost a tenth,
weighs them.  At last the leaves of these trees are fitted anew
(:mod:`structboost.thinning.leaf_refit`).  Figures: docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from structboost._typing import AnyArray, FloatArray, IntArray
from structboost.errors import NotThinnedWarning, warn_user
from structboost.selection.folds import shuffled_parts
from structboost.solvers.priced_cross_entropy import PricedCrossEntropy, PricedSolution, scores_of
from structboost.thinning.leaf_refit import HeldOutRows, LeafAdditions, added_scores, row_losses
from structboost.thinning.library_trees import LibraryTrees, softmax_of
from structboost.validation import (
    check_labels,
    checked_flag,
    checked_not_negative,
    checked_random_state,
    checked_relative_gap,
    checked_whole_number,
    shown,
)


@dataclass(frozen=True)
class ThinnedModel:
    """Result of :func:`structboost.thin`, which predicts by the trees that are left.

    Attributes
    ----------
    weights : ndarray, shape (n_trees_before,)
        Weight of each tree, before additions to its leaves; 0 for those that were dropped.
    offset : ndarray, shape (n_classes,)
        Scores without any tree.
    thinned : bool
        Whether trees were dropped.  If not, the weights are 1.
    ending : str
        Reason why the path ended where it did, as a sentence.
    objective, bound, gap : float
        Weighted cross-entropy of the weights, a lower bound over all weightings of all trees, and
        their relative gap; NaN if the model was not thinned.
    leaf_gap : float
        Relative gap of the additions to the leaves; NaN if leaves stayed as they were.
    classes_ : ndarray, shape (n_classes,)
        Labels in the order of the scores.
    additions : LeafAdditions or None
        Additions to the scores of the leaves: ``additions.trees[t]`` those of tree t, shape
        (n_leaves, n_classes).  None if leaves stayed as they were.
    C : float
        Weight of the mean cross-entropy against the prices.
    prices : ndarray, shape (n_trees_before,)
        Price of a unit of weight of each tree.
    label_weight : float
        Weight of the labels in the targets; the rest is that of the model's probabilities.
    sharpness : float
        Factor of the scores of the whole model at which its log-loss on the rows is lowest, from
        exp(-4) to exp(4).
    loss_before : float
        Log-loss of the whole model at its best sharpness.
    loss_change, loss_change_error : float
        Mean over the rows of the log-loss after thinning less that before, where the weights were
        fitted on other rows, and its standard error.
    error_before, error_change, error_change_error : float
        The same for the fraction of wrong labels.
    path : list of dict
        A record for each C: C, trees, loss_change, loss_change_error, error_change,
        error_change_error, gap, leaf_gap.
    """

    weights: FloatArray
    offset: FloatArray
    thinned: bool
    ending: str
    objective: float
    bound: float
    gap: float
    leaf_gap: float
    C: float
    prices: FloatArray
    label_weight: float
    sharpness: float
    loss_before: float
    loss_change: float
    loss_change_error: float
    error_before: float
    error_change: float
    error_change_error: float
    path: list[dict[str, float]]
    additions: LeafAdditions | None = field(repr=False)
    classes_: AnyArray
    _reader: LibraryTrees = field(repr=False)

    @property
    def trees(self) -> IntArray:
        """Indices of the trees that are left."""
        return np.flatnonzero(self.weights > 0)

    @property
    def n_trees(self) -> int:
        """Number of trees that are left."""
        return len(self.trees)

    @property
    def n_trees_before(self) -> int:
        """Number of trees of the whole model."""
        return len(self.weights)

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the classes, shape (n_rows, n_classes).

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows in a form that the whole model takes.
        """
        responses = self._reader.responses(X)
        scores = scores_of(responses.blocks, self.weights, self.offset)
        if self.additions is None or responses.leaves is None:
            return scores
        return scores + added_scores(self.additions, responses.leaves)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes by a softmax of the scores.

        If the model was not thinned, these are its own probabilities.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows in a form that the whole model takes.
        """
        if not self.thinned:
            return self._reader.probabilities(X)
        return softmax_of(self.decision_function(X))

    def predict(self, X: Any) -> AnyArray:
        """Labels of largest score, shape (n_rows,).

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows in a form that the whole model takes.
        """
        return np.asarray(self.classes_[self.decision_function(X).argmax(axis=1)])

    def report(self) -> str:
        """Text with the trees, the losses, and what is proved."""
        ending = self.ending[:1].upper() + self.ending[1:]
        lines = [f"{self.n_trees} of {self.n_trees_before} trees. {ending}."]
        if self.thinned:
            lines += [
                f"Log-loss {self.loss_before:.4g} before, at the best sharpness; change "
                f"{self.loss_change:+.4f}, standard error {self.loss_change_error:.4f}.",
                f"Error {self.error_before:.2%} before; change {self.error_change:+.2%}, standard "
                f"error {self.error_change_error:.2%}.",
                f"No weighting of the {self.n_trees_before} trees has an objective more than "
                f"{self.gap:.2%} below that of these weights, at C = {self.C:.4g} and these "
                "prices.",
            ]
        if self.additions is not None:
            lines.append(
                "Then the leaves of these trees were changed. No other additions to them have an "
                f"objective more than {self.leaf_gap:.2%} lower."
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"ThinnedModel({self.n_trees} of {self.n_trees_before} trees, gap={self.gap:.2g})"


# Price of a selected tree in the second fit.
_DISCOUNT = 0.1
_N_FOLDS = 5
_CHANGES = ("loss_change", "loss_change_error", "error_change", "error_change_error")
_FIGURES = ("C", *_CHANGES, "gap", "leaf_gap")
# Factor between neighbours of the path, its largest length, and halvings of its last step.
_FACTOR, _N_STEPS, _N_HALVINGS = 2.0, 18, 6
# Fraction of the trees at which the path ends: more of them are not worth a new model.
_MOST = 0.8
# The path also ends after so many values of C that lower the rise of the loss by less than this
# fraction of the margin.
_PATIENCE, _WORTHWHILE = 3, 0.25
# A model that is right on so many rows was probably trained on them.
_SUSPICIOUS = 50


def thin(
    model: Any,
    X: Any,
    y: Any,
    *,
    margin: float = 0.01,
    n_trees: int | None = None,
    unlabelled: Any = None,
    refit_leaves: bool = True,
    tol: float = 0.001,
    random_state: Any = None,
) -> ThinnedModel:
    """Find few trees of a trained classifier, with new weights, that predict as well.

    The result has the fewest trees along a path for which the log-loss on held-out rows rises by at
    most ``margin``, with a certificate over all weightings of all trees.  It asks the model for the
    leaves of rows, and has new scores for them.

    Trees of a boosted model fit the rows that it was trained on, so X and y must be other rows.

    Parameters
    ----------
    model : fitted classifier
        One of LightGBM, XGBoost, CatBoost or scikit-learn (RandomForest, ExtraTrees,
        HistGradientBoosting).
    X : array-like, shape (n_rows, n_features)
        Rows that the model was not trained on, in a form that it takes.
    y : array-like, shape (n_rows,)
        Their labels.
    margin : float
        Largest rise of the mean log-loss, with one standard error, in nats, against the whole model
        at its best sharpness.
    n_trees : int, optional
        Largest number of trees, in place of the margin: as many of them as the path reaches.
    unlabelled : array-like, shape (n_more_rows, n_features), optional
        Further rows, on which the trees shall score as the whole model does.  They may be those
        that it was trained on, and help where X has less than some 300 rows.
    refit_leaves : bool
        Whether the leaves of the selected trees may be fitted anew, too.  With ``n_trees`` they
        are; else where the loss then rises less.  Those of forests stay as they are.
    tol : float
        Relative gap at which each fit stops.
    random_state : int, RandomState or None
        Seed for the five parts of X that are held out in turn; None means fixed parts.

    Returns
    -------
    thinned : ThinnedModel

    Raises
    ------
    TypeError
        If the model is of another kind.
    ValueError
        If the model has another objective, X and y do not fit together, or a label is unknown.

    Warns
    -----
    NotThinnedWarning
        If no part of the path is within the margin.  The result is then the whole model.
    UserWarning
        If the model is right on all rows, as on those that it was trained on.

    Notes
    -----
    With prices p, targets q and n rows, the weights minimise ``sum_t p_t w_t + C/n sum_i
    [log sum_c exp(F_ic) - <q_i, F_i>]`` over ``w >= 0``.  ``gap`` bounds how far they are from the
    optimum over all trees.  Additions to the leaves and to the offsets then minimise a
    cross-entropy with more weight on the labels, and ``leaf_gap`` bounds how far they are from its
    optimum over all additions to these trees.  Neither bounds the loss on other rows: for this the
    log-loss is cross-validated on X, row by row against that of the whole model.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from structboost import thin
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> forest = ExtraTreesClassifier(50, random_state=0).fit(X[::2], y[::2])
    >>> thinned = thin(forest, X[1::2], y[1::2], n_trees=10)
    >>> thinned.n_trees <= 10, thinned.gap <= 0.01
    (True, True)
    >>> thinned.predict(X[1:4:2])
    array([1, 0])
    """
    margin = checked_not_negative(margin, "margin")
    most = None if n_trees is None else checked_whole_number(n_trees, "n_trees")
    tol = checked_relative_gap(tol, "tol")
    checked_random_state(random_state)
    reader = LibraryTrees(model)
    responses, probabilities = reader.responses(X), reader.probabilities(X)
    reader.check(responses, probabilities)
    classes = np.asarray(model.classes_)
    labels = _codes(y, classes, len(probabilities))
    more = None if unlabelled is None else reader.responses(unlabelled)
    rows = HeldOutRows(responses, labels, more)
    if len(labels) >= _SUSPICIOUS and not rows.is_wrong.any():
        warn_user(
            f"The model is right on all {len(labels)} rows of X. If it was trained on them, the "
            "weights suit these rows only; give rows that were held out.",
            UserWarning,
        )
    refits = checked_flag(refit_leaves, "refit_leaves") and responses.leaves is not None
    path = _Path(rows, tol, 0 if random_state is None else random_state, refits)
    trials, ending, is_within = (
        _within_margin(path, margin) if most is None else _of_size(path, most)
    )
    if is_within:
        record, fit, _ = trials[-1]
        offset = rows.offset_at(fit.second.weights, fit.additions)
    else:
        remedy = (
            "more rows, a larger margin, or unlabelled rows" if most is None else "a larger n_trees"
        )
        warn_user(
            f"The model is not thinned: with {len(labels)} rows, {ending}. Give {remedy}.",
            NotThinnedWarning,
        )
        fit, offset = _constant_fit(nan, np.ones_like(rows.prices), rows.prices), rows.offset
        record = dict.fromkeys(_FIGURES, nan) | dict.fromkeys(_CHANGES, 0.0)
    for name, gap in (("weights", fit.second.gap), ("leaves", fit.leaf_gap)):
        if gap > tol:
            warn_user(
                f"The {name} have a relative gap of {gap:.2g}, above tol={tol:g}; give a larger "
                "tol.",
                ConvergenceWarning,
            )
    return ThinnedModel(
        weights=fit.second.weights,
        offset=offset,
        thinned=is_within,
        ending=ending,
        objective=fit.second.objective,
        bound=fit.second.bound,
        prices=fit.prices,
        label_weight=rows.label_weight,
        sharpness=rows.sharpness,
        loss_before=float(rows.losses.mean()),
        error_before=float(rows.is_wrong.mean()),
        path=[trial.record for trial in trials],
        additions=fit.additions,
        classes_=classes,
        _reader=reader,
        **{name: record[name] for name in _FIGURES},
    )


class _Fit(NamedTuple):
    """Two fits at one value of C, the prices of weights in the second, and changes of leaves."""

    C: float
    first: PricedSolution
    second: PricedSolution
    prices: FloatArray
    additions: LeafAdditions | None = None

    @property
    def leaf_gap(self) -> float:
        return nan if self.additions is None else self.additions.gap

    @property
    def n_trees(self) -> int:
        return int((self.second.weights > 0).sum())


def _constant_fit(C: float, weights: FloatArray, prices: FloatArray) -> _Fit:
    solution = PricedSolution(weights, nan, nan)
    return _Fit(C, solution, solution, prices)


class _Trial(NamedTuple):
    """Value of the path, with the fit on all rows and those of the folds."""

    record: dict[str, float]
    fit: _Fit
    folds: list[_Fit]


class _Path:
    """Fits at rising values of C, on all rows and without each fold."""

    def __init__(self, rows: HeldOutRows, tol: float, seed: Any, refits_leaves: bool) -> None:
        self._rows, self._tol, self._refits_leaves = rows, tol, refits_leaves
        # Labels with fewer rows than folds are one stratum, if together they have enough.
        rare = np.bincount(rows.labels)[rows.labels] < _N_FOLDS
        strata = np.where(rare, -1, rows.labels)
        if 0 < rare.sum() < _N_FOLDS:
            strata[:] = 0
        parts = shuffled_parts(len(rows.labels), _N_FOLDS, seed, strata=strata)
        self._every = np.arange(len(rows.problem.targets))
        # Rows without a label are in no part that is held out.
        splits = [(np.setdiff1d(self._every, held), held) for _, held in parts]
        self._folds = [(used, rows.problem.of_rows(used), held) for used, held in splits]
        # No tree has weight at this C or below.
        weights = np.zeros_like(rows.prices)
        slope = float((rows.problem.edges(weights) / rows.prices).max())
        self.start = _constant_fit(1.0 / max(slope, 1e-300), weights, rows.prices)
        self.values = [self.start.C * _FACTOR**step for step in range(1, _N_STEPS + 1)]

    def measured(self, fit: _Fit, before: list[_Fit]) -> list[_Trial]:
        """Fit without each fold, too, and measure on what was left out.

        Returns the trial, and one with leaves fitted anew where they may be.
        """
        folds = [
            self.fit(fit.C, start, problem)
            for (_, problem, _), start in zip(self._folds, before, strict=True)
        ]
        trials = [self._trial(fit, folds)]
        if self._refits_leaves and fit.n_trees:
            refitted = [
                self._with_leaves(of_fold, used)
                for of_fold, (used, _, _) in zip(folds, self._folds, strict=True)
            ]
            trials.append(self._trial(self._with_leaves(fit, self._every), refitted))
        return trials

    def _trial(self, fit: _Fit, folds: list[_Fit]) -> _Trial:
        rows = self._rows
        losses, is_wrong = np.empty(len(rows.labels)), np.empty(len(rows.labels))
        for of_fold, (_, _, held) in zip(folds, self._folds, strict=True):
            scores = rows.scores(of_fold.second.weights, of_fold.additions, held)
            losses[held] = row_losses(scores, rows.labels[held])
            is_wrong[held] = scores.argmax(axis=1) != rows.labels[held]
        record = {"C": fit.C, "trees": fit.n_trees}
        for name, changes in (
            ("loss_change", losses - rows.losses),
            ("error_change", is_wrong - rows.is_wrong),
        ):
            record[name] = float(changes.mean())
            record[f"{name}_error"] = float(changes.std(ddof=1) / sqrt(len(changes)))
        return _Trial({**record, "gap": fit.second.gap, "leaf_gap": fit.leaf_gap}, fit, folds)

    def _with_leaves(self, fit: _Fit, rows: IntArray) -> _Fit:
        if not fit.n_trees:
            return fit
        return fit._replace(additions=self._rows.refitted(fit.second.weights, rows, self._tol))

    def fit(self, C: float, start: _Fit, problem: PricedCrossEntropy | None = None) -> _Fit:
        """Select trees, on all rows by default, then weigh them at a lower price."""
        problem, prices = problem or self._rows.problem, self._rows.prices
        first = problem.solve(C, prices, start.first.weights, self._tol)
        lower = np.where(first.weights > 0, _DISCOUNT * prices, prices)
        return _Fit(C, first, problem.solve(C, lower, first.weights, self._tol), lower)


def _within_margin(path: _Path, margin: float) -> tuple[list[_Trial], str, bool]:
    """Follow the path until the loss is within the margin."""
    trials = []
    fit, folds = path.start, [path.start] * _N_FOLDS
    least, reached, n_idle = np.inf, np.inf, 0

    def rise_of(trial: _Trial) -> float:
        return trial.record["loss_change"] + trial.record["loss_change_error"]

    for C in path.values:
        fit = path.fit(C, fit)
        trials.append(min(path.measured(fit, folds), key=rise_of))
        folds, rise = trials[-1].folds, rise_of(trials[-1])
        if fit.n_trees and rise <= margin:
            return trials, "these are the fewest trees on the path within the margin", True
        least = min(least, rise)
        n_idle += 1
        if least < reached - _WORTHWHILE * margin:
            reached, n_idle = least, 0
        if fit.n_trees > _MOST * len(fit.prices) or n_idle == _PATIENCE:
            break
    ending = f"no part of the path is within the margin of {margin:g}; the least rise is"
    return trials, f"{ending} {least:.4f}", False


def _of_size(path: _Path, n_trees: int) -> tuple[list[_Trial], str, bool]:
    """Find the largest C with at most so many trees."""
    best, high_C = path.start, 0.0
    for C in path.values:
        fit = path.fit(C, best)
        if fit.n_trees > n_trees:
            high_C = C
            break
        best = fit
    for _ in range(_N_HALVINGS if high_C else 0):
        if best.n_trees == n_trees:
            break
        fit = path.fit(sqrt(best.C * high_C), best)
        if fit.n_trees > n_trees:
            high_C = fit.C
        else:
            best = fit
    if not best.n_trees:
        return [], f"no part of the path has from 1 to {n_trees} trees", False
    trials = path.measured(best, [path.start] * _N_FOLDS)[-1:]
    ending = "the next model on the path has more" if high_C else "the largest C was tried"
    return trials, f"up to {n_trees} were asked for, and {ending}", True


def _codes(y: Any, classes: Any, n_rows: int) -> IntArray:
    """Places of the labels among the classes of the model."""
    check_labels(y)
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(
            f"y has shape {labels.shape}; give a label for each of {n_rows} rows of X."
        )
    if n_rows < 2 * _N_FOLDS:
        raise ValueError(f"X has {n_rows} rows; give at least {2 * _N_FOLDS}.")
    place_of = {label: place for place, label in enumerate(classes.tolist())}
    codes = np.array([place_of.get(label, -1) for label in labels.tolist()], np.int64)
    for index in np.flatnonzero(codes < 0):
        raise ValueError(
            f"y[{index}] is {shown(labels[index])}, which is no class of the model; give labels "
            f"among {shown(classes.tolist())}, or leave the row out."
        )
    return codes
