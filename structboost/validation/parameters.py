"""Checks of parameters, which are numbers, flags, texts, choices and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from structboost.validation.messages import shown


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
    if not is_whole(value):
        raise TypeError(f"{name} is {shown(value)}; give {wanted}.")
    if value < least or (largest is not None and value > largest):
        raise ValueError(f"{name} is {shown(value)}; give {wanted}.")
    return int(value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number, as an int of Python or NumPy and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def checked_seed(value: Any, name: str, more: str = "") -> int:
    """Return ``value`` as a seed of NumPy's generators."""
    wanted = f"a whole number from 0 below 2**32{more}"
    if not is_whole(value):
        raise TypeError(f"{name} is {shown(value)}; give {wanted}.")
    if not 0 <= value < 2**32:
        raise ValueError(f"{name} is {shown(value)}; give {wanted}.")
    return int(value)


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
    if not is_whole(value):
        raise TypeError(f"{name} is {shown(value)}; give {wanted}.")
    if value == 0 or abs(int(value)) >= 2**31:
        raise ValueError(f"{name} is {shown(value)}; give {wanted}.")
    return int(value)


def checked_verbose(value: Any, name: str = "verbose") -> int:
    """Return ``verbose`` as a whole number, not negative, or raise."""
    if not isinstance(value, int | np.integer | np.bool_):
        raise TypeError(f"{name} is {shown(value)}; give 0, or 1 to report progress.")
    if value < 0:
        raise ValueError(f"{name} is {shown(value)}; give 0, or 1 to report progress.")
    return int(value)


def check_flag_or_none(value: Any, name: str) -> None:
    """Raise TypeError unless ``value`` is True, False or None."""
    if value is not None and not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {shown(value)}; give True, False or None.")


# Parameters that many estimators and trainers have, and the checks of their values.
_COMMON_PARAMETERS: dict[str, Callable[[Any, str], Any]] = {
    "n_jobs": checked_n_jobs,
    "random_state": checked_random_state,
    "verbose": checked_verbose,
    "exact": check_flag_or_none,
    **dict.fromkeys(
        ("average", "early_stopping", "passthrough", "spare_solves", "stabilize"),
        checked_flag,
    ),
}


def check_common_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError if a parameter that many classes have is out of its range."""
    for name, check in _COMMON_PARAMETERS.items():
        if name in parameters:
            check(parameters[name], name)


def checked_text_or_none(value: Any, name: str) -> str | None:
    """Return ``value``, or raise TypeError unless it is a text or None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; give a text, or None.")
    return value


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


def checked_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` as one of ``choices``."""
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


def checked_records(
    value: Any, name: str, example: str, keys: Sequence[str]
) -> Sequence[Mapping[str, Any]]:
    """Return ``value``, or raise unless it is a list of dicts with ``keys``, as in ``example``."""
    for i, record in enumerate(checked_list(value, name, example)):
        if not isinstance(record, Mapping):
            raise TypeError(f"{name}[{i}] is {shown(record)}; give a dict, as in {example}.")
        missing = [key for key in keys if key not in record]
        if missing:
            raise ValueError(f"{name}[{i}] has no {missing[0]!r}; give records as in {example}.")
    records: Sequence[Mapping[str, Any]] = value
    return records


def check_axes(value: Any, n: int | None = None) -> None:
    """Raise TypeError unless ``ax`` is None or the right number of axes of matplotlib."""
    if value is None:
        return
    listed: Any = [value] if n is None else value
    is_list = isinstance(listed, list | tuple) or (
        isinstance(listed, np.ndarray) and listed.ndim == 1
    )
    if not is_list or len(listed) != (n or 1) or not all(hasattr(ax, "plot") for ax in listed):
        wanted = "axes" if n is None else f"a tuple of {n} axes"
        raise TypeError(f"ax is {shown(value)}; give {wanted} of matplotlib, or None.")


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
