"""Fitted models of predict-then-optimise with their prepared features, and their files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.linalg import svd
from sklearn import config_context
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from threadpoolctl import threadpool_limits

from structboost._typing import Facts, FloatArray, PathName
from structboost.decisions.inputs import DecisionInputs, FeatureReader
from structboost.decisions.problem import DecisionProblem
from structboost.decisions.task import PredictThenOptimizeTask, flat_costs
from structboost.errors import TaskError
from structboost.faces.columns import Columns
from structboost.files.archive import (
    ArchiveFormat,
    Array,
    DamagedFileError,
    Header,
    NamedArrays,
    Part,
    Schema,
    below,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.linear.structured_svm import StructuredSVM
from structboost.model.ensemble import FORMAT as MODEL_FORMAT
from structboost.model.ensemble import Ensemble
from structboost.runtime.column_names import plain_labels
from structboost.selection.folds import shuffled_parts
from structboost.training.boosting import StructBoost
from structboost.training.trainer import Trainer

# Standard deviation of the start: its weight is hardly regularised.
STD_OF_START = 10.0
_CROSS_FITTED = 3
# Penalties of the ridge regression, of which leaving out one row chooses.
_PENALTIES = np.logspace(-3, 3, 13)
# Part of the variance of linear costs: orders had .84 or more, routes and knapsacks up to .69.
_NEARLY_ALL = 0.75
_RECORDS = ("history", "passes", "path")
# Trainers by the names that their models store.
_TRAINERS = {"StructBoost": StructBoost, "StructuredSVM": StructuredSVM}


class Preparation:
    """Standardised features, and perhaps a prediction by squared error as one more of each item.

    The prediction, called the start, is one function of all items, and a function of the instance
    for each item, which predicts what the first leaves.  With the start ``"index"``, one linear
    function takes the place of all features of the instance.  ``arrays`` are those of a file: means
    and standard deviations of the features and of the start, and coefficients of ridge regression,
    intercepts last.  ``trees`` are boosted ones of each kind of features, in their place.  Whether
    the index has nearly all the variance of linear costs is ``has_one_index``.
    """

    has_one_index = False

    def __init__(self, arrays: NamedArrays) -> None:
        self.arrays, self.trees = dict(arrays), dict[str, Any]()
        self.sizes = {
            kind: len(arrays[f"{kind}_mean"])
            for kind in ("instance", "items")
            if f"{kind}_mean" in arrays
        }

    @classmethod
    def fit(
        cls, inputs: DecisionInputs, costs: FloatArray, start: str = "none"
    ) -> tuple[Preparation, DecisionInputs]:
        """Learn the preparation of training inputs, and prepare them.

        Boosted trees know what they were trained on, so each third of the training inputs is
        predicted by trees of the others.
        """
        if start == "boosted" and len(inputs) < _CROSS_FITTED:
            raise ValueError(
                f"start is 'boosted', which needs {_CROSS_FITTED} instances; X has {len(inputs)}. "
                "Give start='least_squares'."
            )
        arrays = {}
        for kind, table in inputs.tables.items():
            arrays[f"{kind}_mean"], std = moments(_rows(table))
            arrays[f"{kind}_spread"] = np.where(std > 0, std, 1.0)
        plain = cls(arrays)
        scaled = plain._scaled(inputs)
        if start == "none":
            return plain, scaled
        fitted = plain._with_models(start, scaled, costs)
        if start == "index":
            # The first principal component of linear costs, at std 1.
            slopes = fitted.arrays.pop("of_instance")[:, :-1]
            features = scaled.tables["instance"]
            with threadpool_limits(limits=1):
                _, sizes, axes = svd(features @ slopes.T, full_matrices=False)
                weights = slopes.T @ axes[0]
                fitted.arrays["index"] = weights / ((features @ weights).std() or 1.0)
            fitted.has_one_index = bool(sizes[0] ** 2 > _NEARLY_ALL * (sizes @ sizes))
            return fitted, _in_single_precision(fitted.inputs(inputs))
        predicted = fitted._predicted(scaled)
        if start == "boosted":
            for others, rows in shuffled_parts(len(costs), _CROSS_FITTED, 0):
                part = fitted._with_models(start, scaled[others], costs[others])
                predicted[rows] = part._predicted(scaled[rows])
        fitted.arrays["start"] = np.array([predicted.mean(), predicted.std() or 1.0])
        return fitted, _in_single_precision(fitted._with_start(scaled, predicted))

    def task(self, problem: Any, n_items: int | None) -> PredictThenOptimizeTask:
        """Return the task of prepared inputs."""
        kinds = {*self.sizes, "items"} if "start" in self.arrays else set(self.sizes)
        features: Any = "both" if len(kinds) == 2 else next(iter(kinds))
        return PredictThenOptimizeTask(problem, features, n_items=n_items)

    def inputs(self, inputs: DecisionInputs) -> DecisionInputs:
        """Prepare other inputs."""
        scaled = self._scaled(inputs)
        if "index" in self.arrays:
            return DecisionInputs(
                instance=scaled.tables["instance"] @ self.arrays["index"][:, None]
            )
        if "start" not in self.arrays:
            return scaled
        return self._with_start(scaled, self._predicted(scaled))

    def basis(self, n_items: int) -> DecisionInputs:
        """Inputs that determine a linear function of the features.

        The first has the mean features; in each further one, a feature is higher by its standard
        deviation, those of the instance first.
        """
        steps = {kind: np.diag(self.arrays[f"{kind}_spread"]) for kind in self.sizes}
        n_points, first, tables = 1 + sum(map(len, steps.values())), 1, {}
        for kind, step in steps.items():
            shape = (n_points, 1) if kind == "instance" else (n_points, n_items, 1)
            tables[kind] = np.tile(self.arrays[f"{kind}_mean"], shape)
            tables[kind][first : first + len(step)] += step.reshape(len(step), *shape[2:], -1)
            first += len(step)
        return DecisionInputs(**tables)

    def _scaled(self, inputs: DecisionInputs) -> DecisionInputs:
        return DecisionInputs(
            **{
                kind: (table - self.arrays[f"{kind}_mean"]) / self.arrays[f"{kind}_spread"]
                for kind, table in inputs.tables.items()
            }
        )

    def _with_models(self, start: str, scaled: DecisionInputs, costs: FloatArray) -> Preparation:
        """Train the start on inputs that are standardised already."""
        fitted = Preparation(self.arrays)
        # One row, which cannot be left out, has its costs as the intercept.
        one_row = np.errstate(invalid="ignore")
        with one_row, threadpool_limits(limits=1), config_context(assume_finite=True):
            for kind in reversed(self.sizes):
                is_of_items, rows = kind == "items", _rows(scaled.tables[kind])
                y = costs.ravel() if is_of_items else costs
                if start == "boosted":
                    each = HistGradientBoostingRegressor(
                        max_iter=60, max_leaf_nodes=8, random_state=0
                    )
                    model = each if is_of_items else MultiOutputRegressor(each)
                    fitted.trees[kind] = model.fit(rows, y)
                else:
                    # Standardised scales are noisy in few rows: features of one unit do without.
                    spread = fitted.arrays[f"{kind}_spread"]
                    fits = [
                        (RidgeCV(_PENALTIES).fit(rows * scale, y), scale)
                        for scale in (1.0, spread / spread.mean())
                    ]
                    ridge, scale = max(fits, key=lambda fit: fit[0].best_score_)
                    fitted.arrays[f"of_{kind}"] = np.column_stack(
                        (np.atleast_2d(ridge.coef_ * scale), ridge.intercept_)
                    )
                costs = costs - fitted._predicted_by(kind, scaled)
        return fitted

    def _predicted(self, scaled: DecisionInputs) -> FloatArray:
        """Predicted costs, shape (n, n_items)."""
        with threadpool_limits(limits=1), config_context(assume_finite=True):
            return np.asarray(
                np.sum([self._predicted_by(kind, scaled) for kind in reversed(self.sizes)], axis=0)
            )

    def _predicted_by(self, kind: str, scaled: DecisionInputs) -> FloatArray:
        rows = _rows(scaled.tables[kind])
        if kind in self.trees:
            predicted = self.trees[kind].predict(rows)
        else:
            table = self.arrays[f"of_{kind}"]
            coefficients, intercept = table[:, :-1], table[:, -1]
            # A product with a matrix of one column differs in its last bits.
            weights = coefficients[0] if kind == "items" else coefficients.T
            predicted = rows @ weights + intercept
        # The order of entries in memory is that of sums, and so of their last bits.
        return np.ascontiguousarray(predicted.reshape(len(scaled), -1))

    def _with_start(self, scaled: DecisionInputs, predicted: FloatArray) -> DecisionInputs:
        center, std = self.arrays["start"].tolist()
        items = (STD_OF_START / std) * (predicted - center)[:, :, None]
        if "items" in scaled.tables:
            items = np.concatenate((scaled.tables["items"], items), axis=2)
        return DecisionInputs(**{**scaled.tables, "items": items})


def costs_of(trainer: Trainer, X: DecisionInputs) -> FloatArray:
    """Return the costs that a fitted trainer predicts for prepared inputs, shape (n, n_items)."""
    # The features are finite: no other check.
    rows, model = trainer.task.stack(X).rows, trainer.model_
    scores = {kind: model.scorer(kind).raw_scores(rows[kind]) for kind in rows}
    return flat_costs(scores).reshape(len(X), -1)


@dataclass(frozen=True)
class DecisionModel:
    """A trainer that was fitted to prepared features and to costs in units of ``scale``.

    ``facts`` are ``C``, ``history``, ``passes``, ``path`` and ``path_end``, as attributes of
    :class:`PredictThenOptimize` with an underscore behind.
    """

    trainer: Trainer
    preparation: Preparation
    reader: FeatureReader
    item_names: list[Any] | None
    scale: float
    facts: Facts

    def costs(self, inputs: DecisionInputs) -> FloatArray:
        """Predict the costs of all inputs, shape (n, n_items)."""
        return self.scale * costs_of(self.trainer, self.preparation.inputs(inputs))

    def save(self, path: PathName, parameters: Facts) -> None:
        """Write the model to a file, all of it or nothing, and refuse boosted trees."""
        if self.preparation.trees:
            raise ValueError(
                "A model with start='boosted' holds scikit-learn's trees, which no file of this "
                "library holds; fit it with start='least_squares', or pickle it."
            )
        task: Any = self.trainer.task
        inner = MODEL_FORMAT.to_bytes(*self.trainer.model_.to_arrays())
        header = {
            "parameters": parameters,
            "scale": self.scale,
            **dict(sorted(self.facts.items())),
            "n_items": task.n_items,
            "maximize": bool(task.problem.maximize),
            "columns": {kind: one.to_plain() for kind, one in self.reader.columns.items()},
            "item_names": plain_labels(self.item_names),
        }
        arrays = {"model": np.frombuffer(inner, np.uint8)}
        FORMAT.write(path, header, arrays | prefixed("preparation/", self.preparation.arrays))

    @classmethod
    def load(cls, path: PathName, problem: DecisionProblem) -> tuple[DecisionModel, Header]:
        """Read the model and the parameters that :meth:`save` wrote.

        TaskError if the problem is not that of training: items or sense differ.
        """
        with FORMAT.opened(path) as (header, arrays):
            content = arrays["model"].tobytes()
            model = Ensemble.from_arrays(*MODEL_FORMAT.from_bytes(content, "model"))
            n_items = whole_number(header["n_items"], "number of items", 1)
            maximizes = header["maximize"]
        if problem.n_items not in (n_items, None):
            raise TaskError(
                f"The model in {path} is of {n_items} items, and the problem has "
                f"{problem.n_items}; give the problem that it was trained on."
            )
        if maximizes != bool(problem.maximize):
            raise TaskError(
                f"The model in {path} predicts {'costs' if problem.maximize else 'values'}, and "
                f"the problem has maximize={problem.maximize}; give the problem that it was "
                "trained on."
            )
        with FORMAT.damage(path):
            preparation = Preparation(below("preparation/", arrays))
            task = preparation.task(problem, n_items)
            if dict(task.kinds) != dict(model.kinds):
                raise DamagedFileError("its model is of other items or features")
            facts = {name: header[name] for name in _RECORDS}
            if not all(isinstance(value, list) for value in facts.values()):
                raise DamagedFileError("its records are not lists")
            facts["C"] = finite_number(header["C"], "C")
            facts["path_end"] = str(header["path_end"])
            basis = preparation.basis(n_items)
            columns, sizes = header["columns"], preparation.sizes
            reader = FeatureReader(
                {kind: Columns.from_plain(columns[kind], n) for kind, n in sizes.items()}
            )
            item_names = header["item_names"]
            if item_names is not None and len(item_names) != n_items:
                raise DamagedFileError("its items have other names")
            trainer = _TRAINERS[model.metadata["trainer"]].from_model(model, task)
            scale = finite_number(header["scale"], "scale")
            loaded = cls(trainer, preparation, reader, item_names, scale, facts)
            # Parts that do not fit together raise here, not at the first prediction.
            loaded.costs(basis)
        return loaded, header["parameters"]


def moments(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation of each column, whatever its size."""
    # Squares of large numbers overflow, and powers of 2 change no other bit.
    powers = np.frexp(np.abs(rows).max(axis=0))[1]
    scaled = np.ldexp(rows, -powers)
    return np.ldexp(scaled.mean(axis=0), powers), np.ldexp(scaled.std(axis=0), powers)


def _in_single_precision(inputs: DecisionInputs) -> DecisionInputs:
    """Round away last bits that depend on the processor, so that training goes the same way.

    Predictions take features that are not rounded, and differ by some 1e-7 of a cost.
    """
    return DecisionInputs(
        **{
            kind: table.astype(np.float32).astype(np.float64)
            for kind, table in inputs.tables.items()
        }
    )


def _rows(table: FloatArray) -> FloatArray:
    """Features of all instances, or of all items of all instances, one below the other."""
    return table.reshape(-1, table.shape[-1])


def _schema(header: Header, names: Collection[str]) -> Schema:
    """Describe the arrays of a file that holds arrays of these names."""
    # A model that lacks one that it needs cannot predict, which loading tries.
    array = partial(Array, "float64", optional=True)
    arrays = {"start": array((2,))}
    for kind, n_rows in (("instance", "n_items"), ("items", 1)):
        arrays[f"{kind}_mean"] = array((f"n_of_{kind}",))
        arrays[f"{kind}_spread"] = array((f"n_of_{kind}",), low=0.0, nonzero=True)
        arrays[f"of_{kind}"] = array((n_rows, f"n_of_{kind} + 1"))
    model = Part({"model": Array("uint8", ("n_bytes",))})
    return {"": model, "preparation/": Part(arrays, {"n_items": header["n_items"]})}


FORMAT = ArchiveFormat(
    name="structboost-decisions", what="model of PredictThenOptimize", schema=_schema
)
