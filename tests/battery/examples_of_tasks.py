"""Small examples of a kind of face, their twins, and values that are none."""

from collections import UserList, deque
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals
import numpy as np
import pandas
import polars
import pyarrow
from PIL import Image

# Example that is spoilt, in order to see whether the message has its index.
BAD = 37


@dataclass(frozen=True)
class Examples:
    """Inputs and outputs, and further arguments of ``fit`` and ``score``."""

    X: Any
    y: Any
    more: Mapping[str, Any] = field(default_factory=dict)

    def take(self, n):
        """Return the first examples."""
        return Examples(
            first(self.X, n), first(self.y, n), {k: first(v, n) for k, v in self.more.items()}
        )


def first(values, n):
    """Return the first rows or entries."""
    return values.iloc[:n] if hasattr(values, "iloc") else values[:n]


def spoilt(values, examples):
    """Iterate over copies of a list or array, in each of which one of ``examples`` is ``BAD``."""
    for name, example in examples.items():
        changed = deepcopy(values)
        changed[BAD] = example
        yield name, changed


def _no_examples(n):
    """Iterate over values that are neither inputs nor outputs of ``n`` examples."""
    yield "None", None
    yield "a number", 3.5
    yield "an object", object()
    yield "a set", {1, 2, 3}
    yield "a dict", {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    yield "a list of None", [None] * n
    yield "a list of objects", [object() for _ in range(n)]


def arrays(array, *dtypes):
    """Iterate over an array as lists, in these types, and in other layouts of memory."""
    yield "nested lists", array.tolist()
    for dtype in dtypes:
        yield f"array of {dtype}", array.astype(dtype)
    yield "read-only array", read_only(array)
    yield "Fortran array", np.asfortranarray(array)
    yield "strided array", np.repeat(array, 2, axis=-1)[..., ::2]
    yield "reversed array", array[::-1].copy()[::-1]
    yield "masked array", np.ma.masked_array(array)
    yield "minus zero", np.where(array == 0, -0.0, array)


def containers(values):
    """Iterate over a list in other containers of the same objects."""
    yield "tuple", tuple(values)
    yield "deque", deque(values)
    yield "user list", UserList(values)
    yield "values of a dict", dict(enumerate(values)).values()
    yield "array of objects", array_of(values)
    yield "Series", pandas.Series(list(values), index=range(100, 100 + len(values)))


def read_only(array):
    """Return a copy that cannot be written to."""
    array = array.copy()
    array.flags.writeable = False
    return array


def with_infinity(array):
    """Return a copy whose first entry is infinite, if it has numbers."""
    if array.dtype.kind != "f" or not array.size:
        return array
    array = array.copy()
    array.flat[0] = np.inf
    return array


def array_of(values):
    """Return an array of objects."""
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def each_array(change, value):
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


def frames(X, names=("a", "b", "c", "d")):
    """Iterate over data frames of a table of whole numbers."""
    frame = pandas.DataFrame(X, columns=names[: X.shape[1]], index=range(100, 100 + len(X)))
    yield "pandas frame", frame
    for dtype in ("Int64", "Float32", "float16", "int8", "object", "double[pyarrow]"):
        yield f"pandas frame of {dtype}", frame.astype(dtype)
    sparse = pandas.SparseDtype(float, 0.0)
    yield "pandas frame, sparse", frame.astype(sparse)
    yield "pandas frame, one column sparse", frame.astype({frame.columns[0]: sparse})
    yield from other_frames(frame)


def other_frames(frame):
    """Iterate over a frame of pandas in other libraries."""
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    yield "polars frame", polars.from_pandas(frame)
    yield "narwhals frame", narwhals.from_native(polars.from_pandas(frame))
    yield "Arrow table", table
    yield "Arrow chunks", pyarrow.concat_tables([table[:7], table[7:]])
    yield "Arrow batch", pyarrow.RecordBatch.from_pandas(frame, preserve_index=False)


def columns(y):
    """Iterate over columns of data frames."""
    column = pandas.Series(y, index=range(100, 100 + len(y)))
    yield "pandas Series", column
    yield "pandas Series of objects", column.astype(object)
    yield "pandas categories", column.astype("category")
    yield "pandas Categorical", pandas.Categorical(y)
    yield "pandas Index", pandas.Index(y)
    yield "pandas frame of one column", column.to_frame("label")
    if y.dtype.kind == "U":
        yield "pandas strings", column.astype("string")
        yield "polars categories", polars.Series(y.tolist(), dtype=polars.Categorical)
    yield "polars Series", polars.Series(y.tolist())
    yield "Arrow array", pyarrow.array(y.tolist())
    yield "Arrow chunks", pyarrow.chunked_array([y.tolist()])


class Kind:
    """Kind of face, with its examples."""

    # Behaviours that no face of this kind can have.
    lacks = frozenset()
    # Parameters that any string can be a value of.
    free_parameters = ("checkpoint", "cache")
    # Words by which messages may name an output, besides the argument.
    words_of_outputs = ()
    # Scorers of scikit-learn for these outputs.
    scorers = ()
    # Whether ``fit`` needs outputs.
    reads_outputs = True

    def draw(self, random, times=1):
        """Draw examples, ``times`` as many as usual."""
        raise NotImplementedError

    def twins_of_inputs(self, X):
        """Iterate over the same inputs in other types and containers."""
        yield from ()

    def twins_of_outputs(self, y):
        """Iterate over the same outputs in other types and containers."""
        yield from ()

    def named_outputs(self, y):
        """Iterate over outputs in containers with names, and the classes that they have."""
        yield from ()

    def odd_inputs(self, X):
        """Iterate over values that are no inputs."""
        yield from _no_examples(len(X))
        yield "a string", "some text"
        yield "bytes", b"some bytes"
        yield "a generator", (x for x in X)
        yield "an empty list", []
        yield "a function", len
        yield "a class", dict
        yield "complex numbers", np.ones((len(X), 2), complex)
        yield "dates", np.zeros((len(X), 2), "datetime64[s]")
        yield "strings", np.full((len(X), 2), "word")

    def odd_outputs(self, y):
        """Iterate over values that are no outputs."""
        yield from _no_examples(len(y))
        yield "a string as long as X", "a" * len(y)
        yield "a generator", (one for one in y)
        yield "too short", first(y, len(y) - 1)
        yield "complex numbers", np.ones(len(y), complex)
        yield "four dimensions", np.zeros((len(y), 2, 2, 2))

    def spoilt_inputs(self, X):
        """Iterate over inputs of which example ``BAD`` cannot be used."""
        yield from ()

    def spoilt_outputs(self, y):
        """Iterate over outputs of which that of example ``BAD`` cannot be used."""
        yield from ()

    def ask(self, method, X):
        """Call a method that predicts."""
        return method(X)

    def measure(self, y, responses, more):
        """Return the documented score, or None if the face documents no score of its own."""
        return None


class TaskExamples(Kind):
    """Trainers, whose inputs and outputs are those of their task."""

    words_of_outputs = ("output", "X")
    # Outputs of tasks are neither classes nor named.
    lacks = {"probabilities", "class weights", "names of outputs"}

    def __init__(self, X, y):
        self.examples = Examples(X, y)

    def draw(self, random, times=1):
        return self.examples if times == 1 else None

    def twins_of_inputs(self, X):
        yield from containers(X)
        yield "Fortran arrays", [each_array(np.asfortranarray, x) for x in X]
        yield "read-only arrays", [each_array(read_only, x) for x in X]

    def twins_of_outputs(self, y):
        yield from containers(y)
        yield "read-only arrays", [each_array(read_only, one) for one in y]

    def spoilt_inputs(self, X):
        values = (None, "ab", object(), {}, 3.5, [], np.nan)
        infinite = {"infinite": each_array(with_infinity, X[BAD])}
        yield from spoilt(list(X), {repr(value)[:20]: value for value in values} | infinite)

    def spoilt_outputs(self, y):
        values = (None, "ab", object(), {}, 1e300, [], np.nan, 2**70, -7)
        yield from spoilt(list(y), {repr(value)[:20]: value for value in values})


class Images(Kind):
    """Faces that learn from photographs and masks."""

    # Masks hold whole numbers, and pixels of an image have the same weight.
    lacks = {"probabilities", "class weights", "names of outputs", "sample weights"}

    def ask(self, method, X):
        # The segmenter predicts one photograph.
        is_list = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 4)
        return [method(x) for x in X] if is_list and len(X) else method(X)

    def draw(self, random, times=1):
        images, masks = [], []
        for _ in range(4):
            mask = np.zeros((16, 16), np.uint8)
            top, left = random.integers(1, 7, 2)
            mask[top : top + 8, left : left + 8] = 1
            noise = random.integers(0, 40, (16, 16, 3))
            images.append((120 * mask[..., None] + noise).astype(np.uint8))
            masks.append(mask)
        return Examples(images, masks)

    def twins_of_inputs(self, X):
        yield "tuple", tuple(X)
        yield "one array", np.stack(X)
        yield "Fortran arrays", [np.asfortranarray(x) for x in X]
        yield "read-only arrays", [read_only(x) for x in X]
        yield "PIL images", [Image.fromarray(x) for x in X]

    def odd_inputs(self, X):
        yield from super().odd_inputs(X)
        yield "the name of a file", [*X[1:], "a.png"]

    def odd_outputs(self, y):
        yield from super().odd_outputs(y)
        yield "one mask", y[0]
        yield "the name of a file", [*y[1:], "a.png"]

    def twins_of_outputs(self, y):
        yield "tuple", tuple(y)
        yield "arrays of int64", [mask.astype(np.int64) for mask in y]
        yield "arrays of bool", [mask.astype(bool) for mask in y]
        yield "PIL images", [Image.fromarray(mask) for mask in y]
