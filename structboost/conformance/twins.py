"""Equal values in many types and containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structboost.conformance.examples import Named, optional


def arrays(array: NDArray[Any], *dtypes: str) -> Named:
    """Iterate over an array as lists, in these types, and in other layouts of memory."""
    yield "nested lists", array.tolist()
    for dtype in dtypes:
        yield f"array of {dtype}", array.astype(dtype)
    yield "read-only array", read_only(array)
    yield "Fortran array", np.asfortranarray(array)
    yield "strided array", np.repeat(array, 2, axis=-1)[..., ::2]
    yield "masked array", np.ma.masked_array(array)


def containers(values: Sequence[Any]) -> Named:
    """Iterate over a list in other containers of the same objects."""
    yield "tuple", tuple(values)
    yield "array of objects", array_of(values)
    if pandas := optional("pandas"):
        yield "Series", pandas.Series(list(values), index=range(100, 100 + len(values)))


def labels_of_types(codes: NDArray[Any]) -> Named:
    """Iterate over labels of many types, in the ascending order of codes."""
    for dtype in ("int8", "uint64", "float64", "float16", ">i4", "U5", "S5"):
        yield f"array of {dtype}", codes.astype(dtype)
    yield "bool", (codes > 0).astype(bool)
    yield "large whole numbers", codes.astype(np.int64) + 2**53
    yield "Python's large whole numbers", array_of([2**70 + int(k) for k in codes])
    yield "negative numbers", -codes - 1
    yield "fractions", codes / 3
    yield "dates", np.datetime64("2020-01-01") + codes
    yield "tuples", array_of([(int(k), "a") for k in codes])
    yield "bytes", array_of([b"%d" % k for k in codes])
    yield "None and strings", array_of([None if k == 0 else str(k) for k in codes])
    yield "numbers and strings", array_of([0 if k == 0 else str(k) for k in codes])
    yield "empty and other strings", array_of(["", "\u00e4", "a\nb"])[codes]
    yield "infinite numbers", np.array([-np.inf, 0.0, np.inf])[codes]
    yield "complex numbers", codes * 1j
    if pandas := optional("pandas"):
        yield "Timestamps", array_of([pandas.Timestamp(2020, 1, 1 + int(k)) for k in codes])


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy that cannot be written to."""
    array = array.copy()
    array.flags.writeable = False
    return array


def with_infinity(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy whose first entry is infinite, if it has numbers."""
    if array.dtype.kind != "f" or not array.size:
        return array
    array = array.copy()
    array.flat[0] = np.inf
    return array


def array_of(values: Sequence[Any]) -> NDArray[Any]:
    """Return an array of objects."""
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def each_array(change: Callable[[NDArray[Any]], NDArray[Any]], value: Any) -> Any:
    """Change every array of an example."""
    if isinstance(value, np.ndarray):
        return change(value) if value.ndim else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(each_array(change, one) for one in value))
    if isinstance(value, list | tuple):
        return type(value)(each_array(change, one) for one in value)
    if hasattr(value, "__dataclass_fields__"):
        changed = {name: each_array(change, getattr(value, name)) for name in vars(value)}
        return replace(value, **changed)
    return value


def frames(X: Any, names: Sequence[str] = ("a", "b", "c", "d")) -> Named:
    """Iterate over data frames of a table of whole numbers."""
    names = list(names)[: X.shape[1]]
    if pandas := optional("pandas"):
        frame = pandas.DataFrame(X, columns=names, index=range(100, 100 + len(X)))
        yield "pandas frame", frame
        for dtype in ("Int64", "Float32", "int8", "object"):
            yield f"pandas frame of {dtype}", frame.astype(dtype)
        if optional("pyarrow"):
            yield "pandas frame of Arrow", frame.astype("double[pyarrow]")
        yield "pandas frame, sparse", frame.astype(pandas.SparseDtype(float, 0.0))
    columns_by_name = dict(zip(names, np.asarray(X).T, strict=True))
    if polars := optional("polars"):
        yield "polars frame", polars.DataFrame({k: v.copy() for k, v in columns_by_name.items()})
    if arrow := optional("pyarrow"):
        yield "Arrow table", arrow.table({k: v.copy() for k, v in columns_by_name.items()})


def columns(y: NDArray[Any]) -> Named:
    """Iterate over columns of data frames."""
    if pandas := optional("pandas"):
        column = pandas.Series(y, index=range(100, 100 + len(y)))
        yield "pandas Series", column
        yield "pandas Series of objects", column.astype(object)
        yield "pandas categories", column.astype("category")
        yield "pandas frame of one column", column.to_frame("label")
        if y.dtype.kind == "U":
            yield "pandas strings", column.astype("string")
    if polars := optional("polars"):
        yield "polars Series", polars.Series(y.tolist())
    if arrow := optional("pyarrow"):
        yield "Arrow array", arrow.array(y.tolist())
