"""Checks of arguments, outputs, containers and plug-ins, and the words of their errors."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, MappingView, Sequence, Set
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
from scipy import sparse

from structboost._typing import AnyArray, FloatArray, IntArray

# Value of a parameter that the fit chooses.
Auto = Literal["auto"]
AUTO: Auto = "auto"
# Largest number of characters of a value in an error.
_LONGEST_SHOWN = 100


def shown(value: Any) -> str:
    """Format ``value`` for an error, on one line."""
    try:
        is_scalar = isinstance(value, np.generic) and value.dtype.kind not in "mM"
        text = repr(value.item() if is_scalar else value)
    except Exception:  # whole numbers of many thousand digits raise, and deeply nested lists
        text = f"a value of type {type(value).__name__}"
    text = re.sub(r"\s*\n\s*", " ", text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def lacks_and_has(missing: Any, unknown: Any, what: str = "") -> str:
    """Return the end of a sentence about names that are missing, and names that are unknown."""
    lacks = [f"lacks {what}{shown(missing)}"] if missing else []
    # The second verb needs no noun if the first has one.
    has = [f"has {'' if missing else what}{shown(unknown)} besides"] if unknown else []
    return " and ".join(lacks + has)


def checked_number(
    value: Any,
    name: str,
    wanted: str = "a number",
    is_inside: Callable[[float], bool] = lambda amount: True,
) -> float:
    """Return ``value`` as a float, or raise if it is a bool, not a number, or not inside."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} is {shown(value)}; give {wanted}.")
    try:
        amount = float(value)
    except OverflowError:
        raise ValueError(
            f"{name} is {shown(value)}, beyond the largest float (1.8e308); give {wanted}."
        ) from None
    if not is_inside(amount):
        raise ValueError(f"{name} is {shown(value)}; give {wanted}.")
    return amount


def checked_flag(value: Any, name: str) -> bool:
    """Return ``value`` as a bool, or raise TypeError unless it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {shown(value)}; give True or False.")
    return bool(value)


def checked_positive(value: Any, name: str) -> float:
    """Return ``value`` as a finite number above 0."""
    return checked_number(value, name, "a finite number above 0", lambda x: 0 < x < np.inf)


def checked_regularisation(value: Any, name: str) -> float:
    """Return ``value`` as a number above 0, including infinity."""
    return checked_number(value, name, "a number above 0", lambda x: x > 0)


def checked_not_negative(value: Any, name: str) -> float:
    """Return ``value`` as a finite number from 0."""
    return checked_number(value, name, "a finite number from 0", lambda x: 0 <= x < np.inf)


def checked_relative_gap(value: Any, name: str) -> float:
    """Return ``value`` as a number from 0 to below 1."""
    wanted = "a relative gap from 0 to below 1, such as 0.01"
    return checked_number(value, name, wanted, lambda x: 0 <= x < 1)


def checked_fraction(value: Any, name: str) -> float:
    """Return ``value`` as a number between 0 and 1."""
    wanted = "a fraction between 0 and 1, such as 0.1"
    return checked_number(value, name, wanted, lambda x: 0 < x < 1)


def checked_whole_number(value: Any, name: str, largest: int | None = None, least: int = 1) -> int:
    """Return ``value`` as an int from ``least``, refusing floats as scikit-learn does."""
    wanted = f"a whole number from {least}" + ("" if largest is None else f" to {largest}")
    if isinstance(value, (float, np.floating)):
        suggestion = f", such as {int(value)}" if np.isfinite(value) and value >= least else ""
        raise ValueError(f"{name} is {shown(value)}; give {wanted}, as an int{suggestion}.")
    return _checked_int(
        value, name, wanted, lambda x: x >= least and (largest is None or x <= largest)
    )


def _checked_int(value: Any, name: str, wanted: str, is_inside: Callable[[int], bool]) -> int:
    """Return ``value`` as an int, or raise if it is no whole number or not inside."""
    if not is_whole(value):
        raise TypeError(f"{name} is {shown(value)}; give {wanted}.")
    if not is_inside(int(value)):
        raise ValueError(f"{name} is {shown(value)}; give {wanted}.")
    return int(value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number, as an int of Python or NumPy and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def checked_seed(value: Any, name: str, more: str = "") -> int:
    """Return ``value`` as a seed of NumPy's generators."""
    wanted = f"a whole number from 0 below 2**32{more}"
    return _checked_int(value, name, wanted, lambda x: 0 <= x < 2**32)


def checked_random_state(value: Any, name: str = "random_state") -> Any:
    """Return ``value``, or raise unless scikit-learn takes it as a seed."""
    # The module of NumPy is its global generator.
    if value is None or value is np.random or isinstance(value, np.random.RandomState):
        return value
    return checked_seed(value, name, ", a numpy.random.RandomState, or None")


def checked_n_jobs(value: Any, name: str = "n_jobs") -> int | None:
    """Return ``value`` as joblib takes it, None or a whole number other than 0."""
    if value is None:
        return None
    wanted = "None, a whole number from 1, or -1 for all cores"
    return _checked_int(value, name, wanted, lambda x: 0 < abs(x) < 2**31)


def checked_verbose(value: Any, name: str = "verbose") -> int:
    """Return ``verbose`` as a whole number, not negative, or raise."""
    level = int(value) if isinstance(value, bool | np.bool_) else value
    return _checked_int(level, name, "0, or 1 to report progress", lambda x: x >= 0)


def check_patience(value: Any, name: str) -> None:
    """Raise TypeError or ValueError unless ``value`` is None or a whole number from 1."""
    if value is not None:
        checked_whole_number(value, name)


def check_flag_or_none(value: Any, name: str) -> None:
    """Raise TypeError unless ``value`` is True, False or None."""
    if value is not None and not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {shown(value)}; give True, False or None.")


# Parameters of estimators, trainers and plug-ins, each with the check of its values.  A range that
# depends on other arguments is checked where these are read.
PARAMETERS: dict[str, Callable[[Any, str], Any]] = {
    "n_jobs": checked_n_jobs,
    "random_state": checked_random_state,
    "verbose": checked_verbose,
    "exact": check_flag_or_none,
    "validation_fraction": checked_fraction,
    "patience": check_patience,
    "window": functools.partial(checked_whole_number, largest=1000, least=0),
    **dict.fromkeys(
        (
            "average", "early_stopping", "passthrough", "spare_solves", "counts", "column_pairs",
            "pairwise", "stabilize",
        ),
        checked_flag,
    ),
    **dict.fromkeys(("tol", "spread"), checked_relative_gap),
    **dict.fromkeys(("folds", "n_folds"), functools.partial(checked_whole_number, least=2)),
    **dict.fromkeys(
        (
            "max_rounds", "max_iter", "columns_per_channel", "n_iter_no_change", "tau_max",
            "group_rounds", "n_segments", "longest", "min_freq",
        ),
        checked_whole_number,
    ),
    **dict.fromkeys(
        ("linear_C", "gradient_tolerance", "shrinkage", "largest_step"), checked_positive
    ),
    **dict.fromkeys(("ridge", "epsilon", "enough"), checked_not_negative),
}  # fmt: skip


def check_parameters(owner: Any, values: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError if a parameter of ``owner`` is out of its range.

    The default of its class, such as None or ``"auto"``, is in it.  A parameter that only a class
    of the user has may mean something else.
    """
    kind = type(owner)
    for name, check in PARAMETERS.items():
        if name in values and not is_same(values[name], getattr(kind, name, owner)):
            declared = [of for of in kind.__mro__ if name in vars(of)] or [kind]
            if declared[-1].__module__.startswith("structboost."):
                check(values[name], name)


def is_text(value: Any, text: str) -> bool:
    """Whether ``value`` is this string, which an array, compared entry by entry, never is."""
    return isinstance(value, str) and value == text


def is_same(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same object or equal plain values."""
    plain = (str, int, float)
    value, other = _unboxed(value), _unboxed(other)
    return value is other or (
        isinstance(value, plain) and type(value) is type(other) and value == other
    )


def _unboxed(value: Any) -> Any:
    """Convert a scalar of numpy to one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def checked_choice(value: Any, name: str, choices: Any) -> str:
    """Return ``value`` as one of ``choices``, a tuple or a ``Literal`` type."""
    choices = get_args(choices) or choices
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"{name} is {shown(value)}; choose one of {', '.join(map(repr, choices))}."
        )
    return str(value)


def checked_list(value: Any, name: str, example: str) -> Sequence[Any]:
    """Return ``value``, or raise TypeError unless it is a sequence, such as ``example``."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if not is_list and not (isinstance(value, np.ndarray) and value.ndim):
        raise TypeError(f"{name} is {shown(value)}; give a list, such as {example}.")
    listed: Sequence[Any] = value
    return listed


def check_class_weight(class_weight: Any) -> None:
    """Raise unless the value is None, ``"balanced"`` or a dict of labels to weights from 0."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise TypeError(
            f"class_weight is {shown(class_weight)}; give a dict of labels to weights, 'balanced' "
            "or None."
        )
    for label, weight in class_weight.items():
        checked_not_negative(weight, f"class_weight[{label!r}]")


def checked_callbacks(value: Any) -> list[Callable[..., Any]]:
    """Return ``value``, None or a sequence of callables, as a list."""
    if value is None:
        return []
    if not isinstance(value, Sequence):
        raise TypeError(
            f"callbacks is {shown(value)}; give a list of callables, such as [callback], or None."
        )
    for i, callback in enumerate(value):
        if not callable(callback):
            raise TypeError(
                f"callbacks[{i}] is {shown(callback)}; give a callable(record, trainer)."
            )
        # What a callback raises itself stays as it is.
        check_takes_arguments(callback, f"callbacks[{i}]", "callback(record, trainer)", {}, None)
    return list(value)


def check_declares(plug_in: Any, flag: str, argument: str, remedy: str) -> None:
    """Raise ValueError unless a plug-in has the ``flag`` that an argument of the trainer needs."""
    if not getattr(plug_in, flag):
        raise ValueError(
            f"{argument} needs {flag}, which {type(plug_in).__name__} does not declare; {remedy}."
        )


@functools.lru_cache(maxsize=256)
def _signature_of_class(value: type) -> inspect.Signature:
    return inspect.signature(value)


def check_takes_arguments(
    value: Callable[..., Any], name: str, call: str, *arguments: Any, **named: Any
) -> None:
    """Raise TypeError unless ``value`` takes the arguments, shown as ``call`` in the error."""
    called = value
    while isinstance(called, functools.partial):
        arguments, named = (*called.args, *arguments), {**called.keywords, **named}
        called = called.func
    try:
        is_class = isinstance(called, type)
        signature = (_signature_of_class if is_class else inspect.signature)(called)
    except ValueError:  # some compiled functions have no signature
        return
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise TypeError(
            f"{name} is {shown(value)}, which cannot be called as {call}: {error}.  Give a "
            "callable that takes these arguments."
        ) from None


# Types of tables.
TABLE_TYPES = (np.float64, np.float32, np.uint8)


class SparseRows(sparse.csr_array):
    """Sparse table with a length, like sequences of inputs."""

    def __len__(self) -> int:
        return int(self.shape[0])

    @classmethod
    def of(cls, table: Any) -> SparseRows:
        """Copy a sparse table, with sorted entries that are not 0."""
        rows = cls(table, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return rows


class OrderedRows:
    """Rows of a table in another order, of which only the rows that are read are copied.

    Parameters
    ----------
    table : ndarray, shape (n, n_columns)
    order : ndarray of int64, shape (n_rows,)
        Row ``i`` is ``table[order[i]]``.
    """

    ndim = 2

    def __init__(self, table: AnyArray, order: IntArray) -> None:
        self.table, self.order = table, order
        self.shape, self.dtype = (len(order), table.shape[1]), table.dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.shape[0]} rows and {self.shape[1]} columns"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> AnyArray:
        rows, columns = index if isinstance(index, tuple) else (index, ...)
        return np.asarray(self.table[:, columns][self.order[rows]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        if copy is False:
            raise ValueError("Rows in another order cannot be an array without a copy.")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


def copied_in_order(rows: Any) -> Any:
    """Return rows in another order as a copy, and any other table unchanged."""
    return rows[:] if isinstance(rows, OrderedRows) else rows


def checked_features(features: Any, n_features: int, *, missing: bool = False) -> AnyArray:
    """Return features as a matrix of the model's width, with NaN only if ``missing``."""
    rows = SparseRows(features) if sparse.issparse(features) else np.asarray(features)
    if rows.dtype.kind not in "fiub":
        rows = rows.astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(
            f"features has shape {rows.shape}; the model was trained on {n_features} features per "
            "part."
        )
    bad = first_unusable(rows, missing=missing)
    if bad is not None:
        raise ValueError(f"features[{bad}] has {unusable(missing)} entries; impute or drop them.")
    return rows


def first_unusable(rows: Any, *, missing: bool) -> int | None:
    """Return the first row with infinite or, unless ``missing``, NaN entries, or None.

    Parameters
    ----------
    rows : ndarray, OrderedRows, or sparse array by rows, shape (n_rows, n_features)
    """
    if sparse.issparse(rows):
        bad_entries = ~np.isfinite(rows.data)
        if not bad_entries.any():
            return None
        return int(np.searchsorted(rows.indptr, int(bad_entries.argmax()), side="right")) - 1
    if isinstance(rows, OrderedRows):
        is_good = first_unusable(rows.table, missing=missing) is None
        return None if is_good else first_unusable(rows[:], missing=missing)
    if rows.dtype.kind != "f" or (good := np.isfinite(rows)).all():
        return None
    bad = ~good & ~np.isnan(rows) if missing else ~good
    return int(np.flatnonzero(bad.any(axis=1))[0]) if bad.any() else None


def unusable(missing: bool) -> str:
    """Describe in words the values that features must not have."""
    return "infinite" if missing else "NaN or infinite"


def check_examples(X: Any, Y: Any) -> None:
    """Raise unless ``X`` and ``Y`` are sequences, equally long, and not empty."""
    check_inputs(X)
    check_sequence(Y, "Y", "give a list of outputs, or [y] for one example")
    n = X.shape[0] if sparse.issparse(X) else len(X)
    if n != len(Y):
        raise ValueError(f"X has {n} examples and Y {len(Y)}; they must be equally many.")
    if not n:
        raise ValueError("X is empty; give at least one example.")


def frame_of(X: Any, name: str = "X") -> Any:
    """Return a narwhals data frame for a frame of any supported library, or else None.

    ValueError if two columns have one name.
    """
    if isinstance(X, np.ndarray | list | tuple) or sparse.issparse(X):
        return None
    import narwhals as nw  # processes of engines start without it

    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            f"{name} has columns of one name; rename one of them ({error})."
        ) from error
    return frame if isinstance(frame, nw.DataFrame) else None


def by_position(examples: Any) -> Any:
    """Return examples of which ``examples[i]`` is the one at index i.

    Series of pandas become arrays, or lists of objects, and data frames arrays, because they use
    numbers as labels of rows and names of columns.  Sparse tables get a length, and masked entries
    become NaN.
    Other types are returned unchanged.
    """
    if isinstance(examples, np.ma.MaskedArray):
        return without_mask(examples)
    if isinstance(examples, list | tuple):
        return _examples_without_mask(examples)
    if sparse.issparse(examples) and not isinstance(examples, SparseRows):
        return SparseRows.of(examples)
    if (frame := frame_of(examples)) is not None:
        return frame.to_numpy()
    if not hasattr(examples, "iloc") or hasattr(examples, "__dask_graph__"):
        return examples
    values = examples.to_numpy()
    return list(values) if values.dtype == object and values.ndim == 1 else values


def without_mask(value: Any) -> Any:
    """Return a masked array as an array in which masked entries are NaN, and others unchanged."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if first_masked(value) is None:
        return np.asarray(value)
    of_type = np.float64 if value.dtype.kind in "biuf" else object
    return np.asarray(np.ma.filled(value.astype(of_type), np.nan))


def first_masked(value: Any) -> str | None:
    """Return the index of the first masked entry of an array, such as ``3, 0``, or None."""
    if not isinstance(value, np.ma.MaskedArray) or not np.ma.getmaskarray(value).any():
        return None
    return ", ".join(map(str, np.argwhere(np.ma.getmaskarray(value))[0].tolist()))


def _examples_without_mask(examples: Any) -> Any:
    """Return a list of examples without masked arrays, of which tuples may consist."""
    out = None
    for i, example in enumerate(examples):
        if isinstance(example, np.ma.MaskedArray):
            plain = without_mask(example)
        elif isinstance(example, tuple) and any(
            isinstance(part, np.ma.MaskedArray) for part in example
        ):
            parts = map(without_mask, example)
            plain = type(example)(*parts) if hasattr(example, "_fields") else tuple(parts)
        else:
            continue
        out = list(examples) if out is None else out
        out[i] = plain
    return examples if out is None else out


def rows_of(sequence: Sequence[Any], rows: IntArray) -> Any:
    """Select entries of a sequence by their indices, as a table where it is one."""
    if isinstance(sequence, np.ndarray | SparseRows | OrderedRows):
        return sequence[rows]
    return [sequence[i] for i in rows]


def check_inputs(X: Any) -> None:
    """Raise TypeError unless ``X`` is a sequence or table, which have a length."""
    check_sequence(X, "X", "give a list of inputs, or [x] for one input x")


def check_sequence(value: Any, name: str, remedy: str) -> None:
    """Raise TypeError unless ``value`` has a length and an order."""
    is_other = isinstance(value, Mapping | Set | MappingView | type | str | bytes)
    # An array of no dimensions has the method, which raises.
    if is_other or not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
        raise TypeError(f"{name} is {shown(value)}, not a sequence; {remedy}.")


def array_of(value: Any) -> AnyArray:
    """Return ``value`` as an array, of one object and no dimensions where it cannot be one."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        # Rows of different lengths, and objects whose conversion raises.
        array = np.empty((), object)
        array[()] = value
        return array


def checked_numbers(value: Any, name: str) -> FloatArray:
    """Return ``value`` as an array of floats."""
    try:
        return np.array(value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(value)}; give an array of numbers.") from None


def checked_table(X: Any, name: str = "X") -> AnyArray:
    """Return ``X`` as an array of real numbers with two axes, without a copy if it is one.

    TypeError or ValueError if it holds anything but real numbers, or has other axes.
    """
    array = array_of(without_mask(X))
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} is {shown(X)}; give an array of numbers with 2 axes.")
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}; give an array of numbers with 2 axes.")
    return array


def checked_weights(sample_weight: Any, n_examples: int) -> FloatArray:
    """Return the weights of the examples, scaled to a largest one from 1/2 to 1.

    The scale is a power of two, so ratios of weights stay exact, and no sum of weights overflows.
    """
    if sample_weight is None:
        return np.ones(n_examples)
    weights = numeric_weights(sample_weight).ravel()
    if len(weights) != n_examples:
        raise ValueError(
            f"sample_weight has {len(weights)} entries for {n_examples} examples; give one weight "
            "for each."
        )
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise ValueError(
            f"sample_weight[{bad[0]}] is {weights[bad[0]]}; weights must be finite and >= 0."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; at least one example must count.")
    return np.asarray(np.ldexp(weights, -np.frexp(weights.max())[1]))


def numeric_weights(sample_weight: Any) -> FloatArray:
    """Return weights in double precision, in their shape.

    ValueError if they are not numbers.
    """
    try:
        return _real_numbers(sample_weight)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight is not numeric ({error}); give a number for each example."
        ) from error


def _real_numbers(values: Any) -> FloatArray:
    """Convert numbers to double precision, but no text, dates, masked or complex numbers."""
    if np.ma.is_masked(values):
        raise ValueError(f"entry {int(np.argmax(np.ma.getmaskarray(values)))} is masked")
    array = np.asarray(values)
    texts = [one for one in array.ravel() if isinstance(one, str)] if array.dtype == object else []
    if texts or array.dtype.kind not in "biufO":
        what = next((one for one in texts or array.ravel() if not is_number(one)), "text")
        raise TypeError(f"it holds {array.dtype}, such as {shown(what)}")
    return array.astype(np.float64)


def is_number(value: Any) -> bool:
    """Whether a value, perhaps a text, can be read as a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def checked_example_weights(sample_weight: Any, n_examples: int) -> FloatArray:
    """Return the weights of the examples in the risk, which sum to 1."""
    weights = checked_weights(sample_weight, n_examples)
    return np.asarray(weights / weights.sum())


def check_labels(y: Any, name: str = "y") -> None:
    """Raise ValueError where a label is missing, or strings and numbers are mixed."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "Of" or labels.ndim != 1:
        return
    missing = first_missing(labels)
    if missing is not None:
        label = shown(labels[missing])
        raise ValueError(
            f"{name}[{missing}] is {label}; give every sample a label, or leave it out."
        )
    if labels.dtype.kind == "f":
        return
    texts = np.array([isinstance(label, str) for label in labels])
    if texts.any() and not texts.all():
        i, j = int(np.argmax(texts)), int(np.argmin(texts))
        raise ValueError(
            f"{name}[{i}] is {shown(labels[i])} and {name}[{j}] is {shown(labels[j])}; give only "
            "strings or only numbers."
        )


def check_finite(y: Any, name: str = "y", more: str = "") -> None:
    """Raise ValueError, with the first missing or infinite entry of true outputs, if any is."""
    values = np.asarray(y).ravel()
    bad = first_missing(values)
    if bad is None and values.dtype.kind == "f" and np.isinf(values).any():
        bad = int(np.argmax(np.isinf(values)))
    if bad is not None:
        raise ValueError(
            f"{name}[{bad}] is {shown(values[bad])}; give every sample a finite number or a label, "
            f"or leave it out.{more}"
        )


def check_relevance(y: Any) -> None:
    """Raise ValueError unless relevance is numeric, since strings would be sorted by letters."""
    relevance = np.asarray(y)
    check_not_complex(relevance)
    if relevance.ndim > 2:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {relevance.shape} instead; give the "
            "relevance of each item."
        )
    if relevance.ndim and len(relevance) and relevance.dtype.kind not in "biufc":
        raise ValueError(
            f"Unknown label type: y holds {relevance.dtype}, such as {shown(relevance.flat[0])}; "
            "give relevance as numbers, larger for better, such as y.astype(float)."
        )


def check_not_complex(y: AnyArray) -> None:
    """Raise ValueError if true outputs are complex numbers."""
    if y.dtype.kind == "c":
        # The words of scikit-learn, which its checks of estimators expect.
        raise ValueError(
            f"Complex data not supported: y holds {y.dtype}; give real numbers, such as y.real."
        )


def group_indices(groups: Any, name: str, n_examples: int) -> IntArray:
    """Return the index of the group of each example, in order of their first examples.

    ValueError if there is not one group for each example, or one is missing.
    """
    try:
        ids = np.asarray(groups)
    except ValueError:  # lists of unlike lengths
        raise ValueError(
            f"{name} is {shown(groups)}; give one for each of {n_examples} examples."
        ) from None
    if ids.shape != (n_examples,):
        raise ValueError(
            f"{name} has shape {ids.shape}; give one for each of {n_examples} examples."
        )
    by_name = group_indices_by_name(ids, name)
    # Other names for the same groups change nothing.
    first = np.unique(by_name, return_index=True)[1]
    return np.asarray(np.argsort(np.argsort(first))[by_name], np.int64)


def group_indices_by_name(ids: AnyArray, name: str) -> IntArray:
    """Return the index of each entry's group, in ascending order of the names.

    ValueError if an entry is missing, or strings and numbers are mixed.
    """
    missing = first_missing(ids)
    if missing is not None:
        raise ValueError(
            f"{name}[{missing}] is {shown(ids[missing])}; give every entry a group, or leave it "
            "out."
        )
    try:
        return np.asarray(np.unique(ids, return_inverse=True)[1], np.int64)
    except TypeError:
        raise ValueError(f"{name} mixes strings and numbers; give only one of them.") from None


def first_missing(values: AnyArray) -> int | None:
    """Return the index of the first missing value (None, NaN or the like), or None."""
    if values.dtype.kind == "O":
        return next((i for i, value in enumerate(values) if is_missing(value)), None)
    missing = values != values  # noqa: PLR0124
    return int(np.argmax(missing)) if missing.any() else None


def is_missing(value: Any) -> bool:
    """Whether a value is None or unequal to itself, like NaN, NaT and pandas' NA."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124
    except TypeError:  # the comparison of pandas' NA is NA
        return True
    except ValueError:  # an array is compared entry by entry
        return False
