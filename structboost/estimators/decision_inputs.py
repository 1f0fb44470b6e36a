"""What the trainer of a decision sees: standardised features, and predictions to start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import check_array
from threadpoolctl import threadpool_limits

from structboost._typing import FloatArray, IntArray
from structboost.exceptions import TaskError
from structboost.files.schema import Array, DamagedFileError, Part
from structboost.selection.folds import shuffled_parts
from structboost.tasks.predict_then_optimize import DecisionInput
from structboost.validation import shown

# Standard deviation of the start: its weight is hardly regularised.
_SPREAD_OF_START = 10.0
_CROSS_FITTED = 3


class FeatureTables:
    """Features of instances and of their items, as two tables; either may be missing."""

    def __init__(self, instance: FloatArray | None, items: FloatArray | None) -> None:
        self.instance, self.items = instance, items

    @classmethod
    def of(cls, X: Any) -> FeatureTables:
        """From what :meth:`PredictThenOptimize.fit` takes."""
        if isinstance(X, Sequence) and len(X) and isinstance(X[0], DecisionInput):
            own = next((i for i, x in enumerate(X) if x.problem is not None), None)
            if own is not None:
                raise ValueError(
                    f"X[{own}] has a problem of its own; PredictThenOptimize has one problem for "
                    "all, train StructuredSVM(PredictThenOptimizeTask(None, ...)) instead."
                )
            tables = [_stacked(X, name) for name in ("instance", "items")]
        else:
            # Rows of NaN are named below.
            table = check_array(
                X, dtype=np.float64, order="C", allow_nd=True, ensure_all_finite=False,
                estimator="PredictThenOptimize",
            )  # fmt: skip
            tables = [table, None] if table.ndim == 2 else [None, table]
        for values, ndim in zip(tables, (2, 3), strict=True):
            if values is not None:
                _check_features(values, ndim)
        if tables[0] is None and tables[1] is None:
            raise ValueError("X[0] has features neither of the instance nor of the items.")
        return cls(*tables)

    def __len__(self) -> int:
        return len(self.items if self.instance is None else self.instance)  # type: ignore[arg-type]

    @property
    def features(self) -> str:
        """The name of what there is, for the task."""
        return "items" if self.instance is None else "instance" if self.items is None else "both"

    @property
    def n_features(self) -> int:
        """Numbers of features, added up."""
        return sum(t.shape[-1] for t in (self.instance, self.items) if t is not None)

    def take(self, rows: IntArray) -> FeatureTables:
        """Some of the instances."""
        return FeatureTables(*(None if t is None else t[rows] for t in (self.instance, self.items)))

    def inputs(self) -> Any:
        """Inputs of the task."""
        if self.items is None:
            return self.instance
        if self.instance is None:
            return self.items
        return [DecisionInput(*row) for row in zip(self.instance, self.items, strict=True)]


def _stacked(X: Sequence[DecisionInput], name: str) -> FloatArray | None:
    """Features of one sort of all inputs; None if the first input has none."""
    given = [getattr(x, name) for x in X]
    shape = np.shape(given[0])
    for i, values in enumerate(given):
        if np.shape(values) != shape or (values is None) != (given[0] is None):
            raise ValueError(
                f"X[{i}].{name} is {shown(values)}, and X[0].{name} has the shape {shape}; give "
                "all inputs features of one shape."
            )
    return None if given[0] is None else np.asarray(given, np.float64)


def _check_features(table: FloatArray, ndim: int) -> None:
    if table.ndim != ndim or not table.size:
        raise ValueError(
            f"X has shape {table.shape}; give (n, n_features) for features of instances, "
            "(n, n_items, n_features) for features of items."
        )
    bad = np.flatnonzero(~np.isfinite(table).all(axis=tuple(range(1, ndim))))
    if len(bad):
        raise TaskError("X[{sample}] has NaN or infinite features; impute them.", int(bad[0]))


class Start:
    """A prediction of the costs by squared error: of least squares, or of boosted trees.

    The items have one function together; each item has a function of the instance's features for
    what that leaves.

    Parameters
    ----------
    name : {"least_squares", "boosted"}
    scaled : FeatureTables
        Training instances.
    costs : ndarray, shape (n, n_items)
    """

    def __init__(self, name: str, scaled: FeatureTables, costs: FloatArray) -> None:
        is_boosted = name == "boosted"
        self._n_items = costs.shape[1]
        self._of_items: Any = None
        self._of_instance: Any = None
        left = costs
        with threadpool_limits(limits=1):
            if scaled.items is not None:
                model = _trees() if is_boosted else LinearRegression()
                self._of_items = model.fit(_rows(scaled.items), costs.ravel())
                left = costs - self._of_items.predict(_rows(scaled.items)).reshape(costs.shape)
            if scaled.instance is not None:
                of_each = MultiOutputRegressor(_trees()) if is_boosted else LinearRegression()
                self._of_instance = of_each.fit(scaled.instance, left)

    def to_arrays(self) -> dict[str, FloatArray]:
        """Coefficients of least squares, each row with its intercept last.

        Raises
        ------
        ValueError
            If it is one of boosted trees.
        """
        models = {"of_items": self._of_items, "of_instance": self._of_instance}
        arrays = {}
        for name, model in models.items():
            if model is None:
                continue
            if not isinstance(model, LinearRegression):
                raise ValueError(
                    "A model with start='boosted' holds scikit-learn's trees, which no file of "
                    "this library holds; fit it with start='least_squares', or pickle it."
                )
            intercept = np.reshape(model.intercept_, (-1, 1))
            arrays[name] = np.hstack((np.atleast_2d(model.coef_), intercept))
        return arrays

    @classmethod
    def from_arrays(cls, n_items: int, arrays: Mapping[str, FloatArray]) -> Start:
        """What :meth:`to_arrays` took apart."""
        made = cls.__new__(cls)
        made._n_items = n_items
        made._of_items = made._of_instance = None
        if "of_items" in arrays:
            made._of_items = _least_squares(arrays["of_items"][0, :-1], arrays["of_items"][0, -1])
        if "of_instance" in arrays:
            table = arrays["of_instance"]
            made._of_instance = _least_squares(table[:, :-1], table[:, -1])
        return made

    def predict(self, scaled: FeatureTables) -> FloatArray:
        """Predicted costs, shape (n, n_items)."""
        out = np.zeros((len(scaled), self._n_items))
        with threadpool_limits(limits=1):
            if self._of_items is not None:
                out += self._of_items.predict(_rows(scaled.items)).reshape(out.shape)
            if self._of_instance is not None:
                out += self._of_instance.predict(scaled.instance)
        return out


class Preparation:
    """Standardised features, and perhaps a prediction by squared error as one more of each item.

    Parameters
    ----------
    given : FeatureTables
        Training instances.
    costs : ndarray, shape (n, n_items)
    start : {"none", "least_squares", "boosted"}
        Which prediction.

    Attributes
    ----------
    training_inputs : sequence
        Inputs of the task for the training instances.  Boosted trees know what they were trained
        on, so each third is predicted by trees of the others.  None if it was read from a file.
    """

    schema: ClassVar[Part] = Part(
        {
            "instance_mean": Array("float64", ("n_instance",), optional=True),
            "instance_spread": Array(
                "float64", ("n_instance",), low=0.0, nonzero=True, optional=True
            ),
            "items_mean": Array("float64", ("n_item",), optional=True),
            "items_spread": Array("float64", ("n_item",), low=0.0, nonzero=True, optional=True),
            "start": Array("float64", (2,), optional=True),
            "of_items": Array("float64", (1, "n_item + 1"), optional=True),
            "of_instance": Array("float64", ("n_items", "n_instance + 1"), optional=True),
        }
    )

    def __init__(self, given: FeatureTables, costs: FloatArray, start: str = "none") -> None:
        self._moments = [_moments(t) for t in (given.instance, given.items)]
        scaled = self._scaled(given)
        self._start: Start | None = None
        self.features = given.features
        self.training_inputs: Any = scaled.inputs()
        if start == "none":
            return
        self.features = "items" if given.instance is None else "both"
        self._start = Start(start, scaled, costs)
        predicted = self._start.predict(scaled)
        if start == "boosted":
            if len(given) < _CROSS_FITTED:
                raise ValueError(
                    f"start is 'boosted', which needs {_CROSS_FITTED} instances; X has "
                    f"{len(given)}. Give start='least_squares'."
                )
            for others, own in shuffled_parts(len(costs), _CROSS_FITTED, 0):
                fitted = Start(start, scaled.take(others), costs[others])
                predicted[own] = fitted.predict(scaled.take(own))
        self._center, self._spread = predicted.mean(), predicted.std() or 1.0
        self.training_inputs = self._with_start(scaled, predicted)

    def to_arrays(self) -> dict[str, FloatArray]:
        """The arrays that a file holds.

        Raises
        ------
        ValueError
            If the start is one of boosted trees.
        """
        arrays: dict[str, FloatArray] = {}
        for name, (mean, spread) in zip(("instance", "items"), self._moments, strict=True):
            if np.ndim(mean):
                arrays |= {f"{name}_mean": mean, f"{name}_spread": spread}
        if self._start is not None:
            arrays["start"] = np.array([self._center, self._spread], np.float64)
            arrays |= self._start.to_arrays()
        return arrays

    @classmethod
    def from_arrays(
        cls, features: str, n_items: int, arrays: Mapping[str, FloatArray]
    ) -> Preparation:
        """What :meth:`to_arrays` took apart, for tasks of these features and so many items.

        Raises
        ------
        DamagedFileError
            If the arrays do not fit each other.
        """
        made = cls.__new__(cls)
        made.training_inputs = None
        given = {name for name in ("instance", "items") if f"{name}_mean" in arrays}
        if given != {name for name in ("instance", "items") if f"{name}_spread" in arrays}:
            raise DamagedFileError("a mean of features has no spread")
        made._moments = [
            (arrays[f"{name}_mean"], arrays[f"{name}_spread"]) if name in given else (0.0, 1.0)
            for name in ("instance", "items")
        ]
        made._start = None
        known = {name.removeprefix("of_") for name in arrays if name.startswith("of_")}
        if "start" in arrays:
            made._center, made._spread = arrays["start"].tolist()
            made._start = Start.from_arrays(n_items, arrays)
        if known != (given if "start" in arrays else set()):
            raise DamagedFileError("its start is not that of its features")
        shown = given | {"items"} if "start" in arrays else given
        made.features = "both" if len(shown) == 2 else next(iter(shown), "")
        if made.features != features:
            raise DamagedFileError(f"its features are not {features!r:.20}")
        return made

    def points(self, n_items: int) -> tuple[FeatureTables, int]:
        """Inputs that tell a linear function: the means, then each feature one deviation higher.

        Those of the instance come first; their number is returned, too.
        """
        (of_instance, instance_spread), (of_items, items_spread) = self._moments
        n_instance, n_own = np.size(instance_spread), np.size(items_spread)
        n_instance *= np.ndim(of_instance)
        n_points = 1 + n_instance + n_own * np.ndim(of_items)
        instance = items = None
        if n_instance:
            instance = np.tile(of_instance, (n_points, 1))
            instance[1 : 1 + n_instance] += np.diag(instance_spread)
        if np.ndim(of_items):
            items = np.tile(of_items, (n_points, n_items, 1))
            items[1 + n_instance :] += np.diag(items_spread)[:, None]
        return FeatureTables(instance, items), n_instance

    def blank(self, n_items: int) -> FeatureTables:
        """Features of one instance, all of them 0."""
        (instance, _), (items, _) = self._moments
        return FeatureTables(
            np.zeros((1, len(instance))) if np.ndim(instance) else None,
            np.zeros((1, n_items, len(items))) if np.ndim(items) else None,
        )

    def inputs(self, given: FeatureTables) -> Any:
        """Inputs of the task for other instances."""
        scaled = self._scaled(given)
        if self._start is None:
            return scaled.inputs()
        return self._with_start(scaled, self._start.predict(scaled))

    def _scaled(self, given: FeatureTables) -> FeatureTables:
        tables = (given.instance, given.items)
        return FeatureTables(
            *(
                None if table is None else (table - moments[0]) / moments[1]
                for table, moments in zip(tables, self._moments, strict=True)
            )
        )

    def _with_start(self, scaled: FeatureTables, predicted: FloatArray) -> Any:
        column = (_SPREAD_OF_START / self._spread) * (predicted - self._center)[:, :, None]
        items = column if scaled.items is None else np.concatenate((scaled.items, column), axis=2)
        return FeatureTables(scaled.instance, items).inputs()


def _least_squares(coefficients: FloatArray, intercept: Any) -> LinearRegression:
    """A fitted regression of these coefficients."""
    made = LinearRegression()
    made.coef_, made.intercept_ = coefficients, intercept
    made.n_features_in_ = coefficients.shape[-1]
    return made


def _trees() -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=8, random_state=0)


def _rows(items: FloatArray | None) -> FloatArray:
    """Features of all items of all instances, one below the other."""
    assert items is not None
    return items.reshape(-1, items.shape[2])


def _moments(table: FloatArray | None) -> tuple[Any, Any]:
    """Means and standard deviations of the features; 1 where one is constant."""
    if table is None:
        return 0.0, 1.0
    rows = table.reshape(-1, table.shape[-1])
    spread = rows.std(axis=0)
    return rows.mean(axis=0), np.where(spread > 0, spread, 1.0)


def checked_costs(costs: Any, n: int) -> NDArray[np.float64]:
    """Costs as a table with a row for each of ``n`` instances."""
    if costs is None:
        raise ValueError(
            "PredictThenOptimize requires y to be passed, but the target y is None: give costs."
        )
    try:
        # The order of entries in memory is that of sums, and so of their last bits.
        table = np.asarray(costs, np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"costs is {shown(costs)} ({error}); give a row of numbers for each of {n} X."
        ) from None
    if table.ndim != 2 or len(table) != n:
        raise ValueError(f"costs has shape {table.shape}; give a row of costs for each of {n} X.")
    return table
