"""Family of given functions, such as the trees of a model that another library trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from structboost._typing import AnyArray, FloatArray, IntArray, override
from structboost.files.archive import Array
from structboost.learners.base import Listed, ListedFamily, check_family_arguments
from structboost.learners.table import LearnerTable
from structboost.validation import checked_array, shown

# One function of rows, or one that returns the responses of many.
Functions = Callable[[Any], Any] | Sequence[Callable[[Any], Any]]
# Rows on which functions are called again, and the part of the largest response by which products
# of matrices of other sizes may differ.
_N_REPEATED, _REPEATED_WITHIN = 16, 1e-4
# Largest response, beyond which the solvers of the hinge refuse sums of them.
_LARGEST = 1e10


def responses_of(functions: Functions, X: Any) -> FloatArray:
    """Compute the responses of functions to rows, shape (n_functions, n_rows), and check them.

    Each function takes X and returns an array of shape (n_rows,).  A single callable returns one of
    shape (n_rows, n_functions).  TypeError or ValueError if a function is no callable, or its
    responses have another shape or are not finite.
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if callable(functions):
        table = _called(functions, X, "functions", 2)
        if table.shape[0] != n:
            raise ValueError(
                f"functions(X) has shape {table.shape} for {n} rows; return a row of responses for "
                "each row of X."
            )
        return np.ascontiguousarray(table.T)
    if not isinstance(functions, list | tuple) or not functions:
        raise TypeError(
            f"functions is {shown(functions)}; give a list of callables X -> responses, or one "
            "callable that returns a matrix of shape (n_rows, n_functions)."
        )
    out = np.empty((len(functions), n))
    for index, function in enumerate(functions):
        responses = _called(function, X, f"functions[{index}]", 1)
        if responses.shape != (n,):
            raise ValueError(
                f"functions[{index}](X) has shape {responses.shape} for {n} rows; return a number "
                "for each row of X."
            )
        out[index] = responses
    return out


def repeatable_responses_of(functions: Functions, X: Any) -> FloatArray:
    """Compute the responses of functions, and call them again on the first rows.

    ValueError if a function responds to these rows in another way, and as in :func:`responses_of`.
    """
    responses = responses_of(functions, X)
    first = responses[:, :_N_REPEATED]
    repeated = responses_of(functions, X[:_N_REPEATED])
    if repeated.shape != first.shape:
        raise ValueError(
            f"functions(X) has {len(first)} columns for all rows of X, and {len(repeated)} for "
            f"the first {first.shape[1]}; return a column for each function."
        )
    sizes = np.abs(responses).max(axis=1, initial=0.0)[:, None]
    differs = np.abs(repeated - first) > _REPEATED_WITHIN * sizes
    if differs.any():
        index, row = np.argwhere(differs)[0].tolist()
        raise ValueError(
            f"{_name(functions, index)} is {first[index, row]:.6g} for row {row} of X, and "
            f"{repeated[index, row]:.6g} when called with the first {first.shape[1]} rows only. "
            "A certificate requires the same response to a row in every call, whatever the other "
            "rows; fix the seed of a random function, and compute statistics of rows beforehand."
        )
    return responses


def _name(functions: Functions, index: int) -> str:
    """Return the expression for the responses of one function."""
    return f"functions(X)[:, {index}]" if callable(functions) else f"functions[{index}](X)"


def _called(function: Any, X: Any, name: str, n_axes: int) -> FloatArray:
    """Call a function, add its name to an error, and check that what it returns is finite."""
    if not callable(function):
        raise TypeError(f"{name} is {shown(function)}; give a callable.")
    try:
        responses = function(X)
    except Exception as error:
        error.add_note(f"Raised by {name}(X).")
        raise
    values = checked_array(responses, f"{name}(X)", n_axes).astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"{name}(X) is not finite; return finite numbers for every row of X.")
    return values


class PoolMember(NamedTuple):
    """Function of the pool, by its index, times a sign of 1 or -1."""

    function: int
    sign: float


@dataclass(frozen=True)
class PoolTable(LearnerTable):
    """Table of functions of a pool by their indices, each times a sign of 1 or -1.

    No file of a model holds the pool.
    """

    schema: ClassVar[Mapping[str, Array]] = {
        "function": Array("int64", ("n_learners",), low=0),
        "sign": Array("float64", ("n_learners",), nonzero=True),
    }

    function: IntArray
    sign: FloatArray
    functions: Any = field(default=None, compare=False)

    @override
    def responses(self, features: AnyArray) -> FloatArray:
        if callable(self.functions):
            chosen = responses_of(self.functions, features)[self.function]
        else:
            needed, place = np.unique(self.function, return_inverse=True)
            chosen = responses_of([self.functions[k] for k in needed], features)[place]
        return self.sign[:, None] * chosen

    @override
    def feature_shares(self, n_features: int) -> FloatArray:
        # Nobody knows which features a function reads.
        return np.zeros((len(self.function), n_features))

    @override
    def select(self, index: AnyArray) -> PoolTable:
        return PoolTable(self.function[index], self.sign[index], self.functions)

    @override
    def to_arrays(self) -> dict[str, AnyArray]:
        raise ValueError(
            "The weak learners are functions of a pool, which no file of a model holds; pickle the "
            "model, or keep the code of the functions and train anew."
        )


class PoolFamily(ListedFamily):
    """Family of given functions of the features, priced exactly whatever they are.

    Each function is a weak learner in both orientations.  The bound of a fit, and so its
    certificate, is over all weightings of the pool.  Use it as
    ``weak_learner=partial(PoolFamily, functions=functions)``.

    Parameters
    ----------
    features : ndarray, shape (n_parts, n_features)
        Features of the training parts.
    response : (float, float)
        Ignored: functions have the responses that they have.
    functions : sequence of callables, or callable
        Each takes an array of features, shape (n_parts, n_features), and returns its responses,
        shape (n_parts,).  A single callable returns those of all functions, shape
        (n_parts, n_functions).
    both_signs : bool
        Whether a weight may be that of a function times -1.

    Raises
    ------
    ValueError
        If a function responds to the first rows in another way when it is called again with these
        rows only, as random ones and those that look at other rows do, or has responses above 1e10.

    Notes
    -----
    The model can be pickled if the functions can.  A file of a model holds no functions, so
    :meth:`structboost.Ensemble.save` raises ValueError.

    Examples
    --------
    >>>     >>> import numpy as np
    >>> from structboost import MulticlassTask, StructBoost
    >>> from structboost.learners import PoolFamily
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> pool = [lambda X: np.sin(3 * X[:, 0]), lambda X: X[:, 0] ** 2]
    >>> task = MulticlassTask(2)
    >>> family = partial(PoolFamily, functions=pool)
    >>> fitted = StructBoost(task, C=10.0, weak_learner=family).fit(X, (X[:, 0] > 0).astype(int))
    >>> fitted.history_[-1]["gap"] <= 0.01
    True
    """

    name = "pool"
    exact_pricing = True
    can_resume = True
    takes_missing = True

    def __init__(
        self,
        features: AnyArray,
        response: tuple[float, float] = (-1.0, 1.0),
        *,
        functions: Functions,
        both_signs: bool = True,
    ) -> None:
        check_family_arguments(features, response)
        self.n_features = features.shape[1]
        self.functions = functions
        self.both_signs = both_signs
        self._responses = repeatable_responses_of(functions, features)
        sizes = np.abs(self._responses).max(axis=1, initial=0.0)
        large = np.flatnonzero(sizes > _LARGEST)
        if len(large):
            raise ValueError(
                f"{_name(functions, int(large[0]))} has responses up to {sizes[large[0]]:.2g}; "
                f"scale the function, so that none is above {_LARGEST:g}."
            )

    @override
    def listed(self, duals: FloatArray) -> Listed:
        edges = self._responses @ duals
        return Listed(
            lambda k, turned: PoolMember(k, -1.0 if turned else 1.0),
            edges,
            -edges if self.both_signs else -np.inf,
        )

    @override
    def ways(self, learner: PoolMember) -> Sequence[PoolMember]:
        signs = (1.0, -1.0) if self.both_signs else (1.0,)
        return [learner._replace(sign=sign) for sign in signs]

    @override
    def responses(self, learners: Sequence[PoolMember]) -> FloatArray:
        signs = np.array([learner.sign for learner in learners])
        return signs[:, None] * self._responses[[learner.function for learner in learners]]

    @override
    def table(self, learners: Sequence[PoolMember]) -> PoolTable:
        return PoolTable.of(learners, functions=self.functions)

    @override
    def restored(self, values: Sequence[Any]) -> PoolMember:
        return PoolMember(int(values[0]), float(values[1]))
