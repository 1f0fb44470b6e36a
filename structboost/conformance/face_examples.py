"""Small examples of each kind of face, their twins, and values that are none."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structboost._typing import override

# Named values; each name says what the value is.
Named = Iterator[tuple[str, Any]]
# Example that is spoilt, in order to see whether the message has its index.
BAD = 37


def optional(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@dataclass(frozen=True)
class Examples:
    """Inputs and outputs, and further arguments of ``fit`` and ``score``."""

    X: Any
    y: Any
    more: Mapping[str, Any] = field(default_factory=dict)

    def take(self, n: int) -> Examples:
        """Return the first examples."""
        return Examples(
            first(self.X, n), first(self.y, n), {k: first(v, n) for k, v in self.more.items()}
        )


def first(values: Any, n: int) -> Any:
    """Return the first rows or entries."""
    return values.iloc[:n] if hasattr(values, "iloc") else values[:n]


class Kind:
    """Kind of face, with its examples.

    Attributes
    ----------
    lacks : dict of str to str
        Behaviours that no face of this kind can have, and why.
    """

    lacks: ClassVar[Mapping[str, str]] = {}
    # Parameters that any string can be a value of.
    free_parameters: ClassVar[tuple[str, ...]] = ("checkpoint", "cache")
    # Words by which messages may name an output, besides the argument.
    words_of_outputs: ClassVar[tuple[str, ...]] = ()
    # Scorers of scikit-learn for these outputs.
    scorers: ClassVar[tuple[str, ...]] = ()

    def draw(self, random: np.random.Generator, times: int = 1) -> Examples:
        """Draw examples, ``times`` as many as usual."""
        raise NotImplementedError

    def twins_of_inputs(self, X: Any) -> Named:
        """Iterate over the same inputs in other types and containers."""
        yield from ()

    def twins_of_outputs(self, y: Any) -> Named:
        """Iterate over the same outputs in other types and containers."""
        yield from ()

    def named_outputs(self, y: Any) -> Iterator[tuple[str, Any, list[Any]]]:
        """Iterate over outputs in containers with names, and the classes that they have."""
        yield from ()

    def other_labels(self, y: Any) -> Named:
        """Iterate over the outputs with labels of other types."""
        yield from ()

    def odd_inputs(self, X: Any) -> Named:
        """Iterate over values that are no inputs."""
        yield "None", None
        yield "a number", 3.5
        yield "a string", "some text"
        yield "bytes", b"some bytes"
        yield "an object", object()
        yield "a generator", (x for x in X)
        yield "a set", {1, 2, 3}
        yield "a dict", {"a": [1.0, 2.0], "b": [3.0, 4.0]}
        yield "an empty list", []
        yield "a function", len
        yield "a class", dict
        yield "complex numbers", np.ones((len(X), 2), complex)
        yield "dates", np.zeros((len(X), 2), "datetime64[s]")
        yield "strings", np.full((len(X), 2), "word")
        yield "a list of None", [None] * len(X)
        yield "a list of objects", [object() for _ in range(len(X))]

    def odd_outputs(self, y: Any) -> Named:
        """Iterate over values that are no outputs."""
        yield "None", None
        yield "a number", 3.5
        yield "a string as long as X", "a" * len(y)
        yield "a generator", (one for one in y)
        yield "a set", {1, 2}
        yield "a dict", {"a": 1}
        yield "an object", object()
        yield "too short", first(y, len(y) - 1)
        yield "complex numbers", np.ones(len(y), complex)
        yield "a list of None", [None] * len(y)
        yield "a list of objects", [object() for _ in range(len(y))]
        yield "four dimensions", np.zeros((len(y), 2, 2, 2))

    def spoilt_inputs(self, X: Any) -> Named:
        """Iterate over inputs of which example ``BAD`` cannot be used."""
        yield from ()

    def spoilt_outputs(self, y: Any) -> Named:
        """Iterate over outputs of which that of example ``BAD`` cannot be used."""
        yield from ()

    def named(self, X: Any, names: Sequence[str]) -> Any:
        """Return inputs whose columns have these names."""
        return None

    def two_outputs(self, examples: Examples) -> Any:
        """Return outputs of which there are two, by the first column."""
        return examples.y

    def ask(self, method: Callable[[Any], Any], X: Any) -> Any:
        """Call a method that predicts."""
        return method(X)

    def measure(self, y: Any, responses: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
        """Return the documented score, or None if the face documents no score of its own."""
        return None


def with_example(values: Any, i: int, example: Any) -> Any:
    """Return a list or array with another example."""
    changed = deepcopy(values)
    changed[i] = example
    return changed


class Tables(Kind):
    """Faces whose inputs are tables of numbers."""

    n_rows, n_columns = 48, 4

    def outputs(self, X: NDArray[Any], random: np.random.Generator) -> Any:
        """Draw outputs of the rows of a table."""
        raise NotImplementedError

    @override
    def draw(self, random: np.random.Generator, times: int = 1) -> Examples:
        # Whole numbers are the same in every type.
        X = random.integers(-6, 7, (times * self.n_rows, self.n_columns)).astype(np.float64)
        return Examples(X, self.outputs(X, random))

    @override
    def named(self, X: Any, names: Sequence[str]) -> Any:
        pandas = optional("pandas")
        return None if pandas is None else pandas.DataFrame(X, columns=list(names))

    @override
    def twins_of_inputs(self, X: Any) -> Named:
        for dtype in ("float32", "float16", "int64", "int8", ">f8", ">i4", "object", "longdouble"):
            yield f"array of {dtype}", X.astype(dtype)
        yield "read-only array", read_only(X)
        yield "Fortran array", np.asfortranarray(X)
        yield "strided array", np.repeat(X, 2, axis=1)[:, ::2]
        yield "nested lists", X.tolist()
        yield "list of arrays", list(X)
        yield "masked array", np.ma.masked_array(X)
        for name in ("csr_matrix", "csr_array", "csc_array", "coo_array", "lil_array", "dok_array"):
            yield f"scipy {name}", getattr(sparse, name)(X)
        yield from frames(X)

    @override
    def odd_inputs(self, X: Any) -> Named:
        yield from super().odd_inputs(X)
        yield "one row", X[0]
        yield "three dimensions", np.zeros((len(X), 2, 2))
        yield "ragged lists", [[1.0, 2.0], [1.0]] * (len(X) // 2)
        yield "no columns", X[:, :0]
        yield "no rows", X[:0]
        yield "a path of a file", "table.csv"
        yield "numbers above 2**53", X.astype(np.int64) + 2**53 + 1
        yield "Python's large numbers", [[2**70 + 1, 1, 2, 3]] * len(X)
        yield "a dict of columns", {f"c{j}": column for j, column in enumerate(X.T)}
        yield "a structured array", np.zeros(len(X), [("a", float), ("b", float)])
        yield "a row that is a mapping", [dict(enumerate(row)) for row in X]
        if pandas := optional("pandas"):
            frame = self.named(X, list("abcd"))
            yield "a frame without columns", frame[[]]
            yield "one row as a Series", frame.iloc[0]
            yield "a frame with a column twice", frame[["a", "b", "b", "c"]]
            yield "a frame of dates", frame.assign(a=pandas.Timestamp("2020-01-01"))
            yield "a frame of lists", frame.assign(a=[[1, 2]] * len(frame))
            yield "a frame of complex numbers", frame.assign(a=1j)
        if networkx := optional("networkx"):
            yield "a graph", networkx.path_graph(3)

    @override
    def spoilt_inputs(self, X: Any) -> Named:
        row = X[BAD].copy()
        row[1] = np.inf
        yield "an infinite value", with_example(X, BAD, row)
        yield "a word", with_example(X.astype(object), BAD, np.array([1, 2, "word", 3], object))
        yield "an object", with_example(X.astype(object), BAD, np.array([1, 2, {}, 3], object))
        yield "a short row", with_example(X.tolist(), BAD, [1.0])


class Classes(Tables):
    """Faces of tables that predict a class."""

    scorers: ClassVar[tuple[str, ...]] = ("accuracy", "f1_macro")

    @override
    def named_outputs(self, y: Any) -> Iterator[tuple[str, Any, list[Any]]]:
        yield "array", y, ["ash", "birch", "cedar"]
        if pandas := optional("pandas"):
            yield "categories", pandas.Series(y).astype("category"), ["ash", "birch", "cedar"]

    @override
    def other_labels(self, y: Any) -> Named:
        yield from labels_of_types(np.unique(y, return_inverse=True)[1])

    @override
    def outputs(self, X: NDArray[Any], random: np.random.Generator) -> Any:
        noisy = X[:, 0] + random.normal(size=len(X))
        return np.array(["ash", "birch", "cedar"])[np.digitize(noisy, [-2.0, 2.0])]

    @override
    def two_outputs(self, examples: Examples) -> Any:
        return np.where(examples.X[:, 0] > 0, "ash", "birch")

    @override
    def twins_of_outputs(self, y: Any) -> Named:
        yield "list", y.tolist()
        yield "list of numpy strings", list(y)
        yield "objects", y.astype(object)
        yield from columns(y)

    @override
    def spoilt_outputs(self, y: Any) -> Named:
        yield "None", with_example(y.astype(object), BAD, None)
        yield "NaN", with_example(y.astype(object), BAD, np.nan)
        yield "a number among strings", with_example(y.astype(object), BAD, 3)
        yield "a list", with_example(y.tolist(), BAD, ["ash"])

    @override
    def measure(self, y: Any, responses: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
        return np.mean(np.asarray(y) == np.asarray(responses["predict"]))


class Grades(Tables):
    """Faces of tables that rank the items of queries."""

    lacks: ClassVar[Mapping[str, str]] = {
        "names of outputs": "relevance is a number",
        "class weights": "there are no classes",
        "probabilities": "scores order items",
    }

    @override
    def draw(self, random: np.random.Generator, times: int = 1) -> Examples:
        examples = super().draw(random, times)
        return replace(examples, more={"qid": np.repeat(np.arange(times * self.n_rows // 6), 6)})

    @override
    def outputs(self, X: NDArray[Any], random: np.random.Generator) -> Any:
        return np.digitize(X[:, 0] + random.normal(size=len(X)), [-2.0, 2.0])

    @override
    def twins_of_outputs(self, y: Any) -> Named:
        yield "list", y.tolist()
        for dtype in ("float64", "float16", "int8", ">i4", "uint8"):
            yield f"array of {dtype}", y.astype(dtype)
        yield from columns(y)

    @override
    def spoilt_outputs(self, y: Any) -> Named:
        yield "NaN", with_example(y.astype(float), BAD, np.nan)
        yield "infinite", with_example(y.astype(float), BAD, np.inf)
        yield "a word", with_example(y.astype(object), BAD, "word")
        yield "None", with_example(y.astype(object), BAD, None)


class LabelSets(Tables):
    """Faces of tables that predict sets of labels."""

    lacks: ClassVar[Mapping[str, str]] = {
        "class weights": "label_costs weighs labels",
        "probabilities": "probabilities are those of labels, and need not sum to 1",
    }
    scorers: ClassVar[tuple[str, ...]] = ("f1_micro", "accuracy")

    @override
    def named_outputs(self, y: Any) -> Iterator[tuple[str, Any, list[Any]]]:
        names = ["wet", "dry", "hot"]
        lists = [[names[k] for k in np.flatnonzero(row)] for row in y]
        yield "lists of labels", lists, sorted(names)
        yield "sets of labels", [set(one) for one in lists], sorted(names)
        if pandas := optional("pandas"):
            yield "pandas frame", pandas.DataFrame(y, columns=names), names
        if polars := optional("polars"):
            yield "polars frame", polars.DataFrame(dict(zip(names, y.T, strict=True))), names

    @override
    def other_labels(self, y: Any) -> Named:
        for name, labels in labels_of_types(np.arange(3)):
            yield name, [[labels[k] for k in np.flatnonzero(row)] for row in y]

    @override
    def outputs(self, X: NDArray[Any], random: np.random.Generator) -> Any:
        return (X[:, :3] + 2 * random.normal(size=(len(X), 3)) > 0).astype(int)

    @override
    def twins_of_outputs(self, y: Any) -> Named:
        yield "nested lists", y.tolist()
        for dtype in ("bool", "float64", "int8", ">i4"):
            yield f"array of {dtype}", y.astype(dtype)
        yield "read-only array", read_only(y)
        yield "scipy csr_matrix", sparse.csr_matrix(y)
        yield from frames(y, names=("0", "1", "2"))

    @override
    def spoilt_outputs(self, y: Any) -> Named:
        yield "NaN", with_example(y.astype(float), BAD, np.array([0, np.nan, 1]))
        yield "two", with_example(y, BAD, np.array([0, 2, 1]))
        yield "a word", with_example(y.astype(object), BAD, np.array([0, "x", 1], object))
        yield "a short row", with_example(y.tolist(), BAD, [1])


class Costs(Tables):
    """Faces of tables that predict the costs of a decision among three items."""

    lacks: ClassVar[Mapping[str, str]] = {
        "names of outputs": "decisions are rows of numbers",
        "class weights": "there are no classes",
        "probabilities": "decisions have costs",
        "monotone constraints": "decisions are not monotone in a cost",
    }

    @override
    def outputs(self, X: NDArray[Any], random: np.random.Generator) -> Any:
        costs = np.column_stack((X[:, 0], -X[:, 1], X[:, 2] / 2))
        return np.round(2 * (costs + random.normal(size=costs.shape))) + 20.0

    @override
    def twins_of_outputs(self, y: Any) -> Named:
        yield "nested lists", y.tolist()
        for dtype in ("float32", "float16", "int8", ">f8", "object"):
            yield f"array of {dtype}", y.astype(dtype)
        yield "read-only array", read_only(y)
        yield "Fortran array", np.asfortranarray(y)
        yield from frames(y)

    @override
    def spoilt_outputs(self, y: Any) -> Named:
        for name, value in (("NaN", np.nan), ("infinite", -np.inf)):
            yield name, with_example(y, BAD, np.array([1.0, value, 2.0]))
        yield "a word", with_example(y.astype(object), BAD, np.array([0, "x", 1], object))
        yield "a short row", with_example(y.tolist(), BAD, [1.0])


_OF_TABLES = dict.fromkeys(
    "missing values|categories|sparse rows|monotone constraints|probabilities".split("|"),
    "inputs are no table",
) | {"class weights": "outputs are no classes"}


class Tags(Kind):
    """Faces of sequences that predict a tag for each token."""

    lacks: ClassVar[Mapping[str, str]] = _OF_TABLES

    @override
    def named_outputs(self, y: Any) -> Iterator[tuple[str, Any, list[Any]]]:
        yield "lists", y, ["N", "O"]
        yield "arrays", [np.array(tags) for tags in y], ["N", "O"]

    @override
    def other_labels(self, y: Any) -> Named:
        for name, labels in labels_of_types(np.arange(2)):
            yield name, [[labels["NO".index(tag)] for tag in tags] for tags in y]

    @override
    def draw(self, random: np.random.Generator, times: int = 1) -> Examples:
        X = [
            random.integers(-6, 7, (n, 3)).astype(float) for n in random.integers(2, 5, 42 * times)
        ]
        y = [np.where(x[:, 0] + random.normal(size=len(x)) > 0, "N", "O").tolist() for x in X]
        return Examples(X, y)

    @override
    def named(self, X: Any, names: Sequence[str]) -> Any:
        pandas = optional("pandas")
        return None if pandas is None else [pandas.DataFrame(x, columns=list(names)) for x in X]

    @override
    def twins_of_inputs(self, X: Any) -> Named:
        yield "tuple", tuple(X)
        yield "array of objects", array_of(X)
        yield "nested lists", [x.tolist() for x in X]
        yield "scipy sparse", [sparse.csr_matrix(x) for x in X]
        for dtype in ("float32", "float16", "int8", ">f8", "object"):
            yield f"arrays of {dtype}", [x.astype(dtype) for x in X]
        yield "read-only arrays", [read_only(x) for x in X]
        yield "Fortran arrays", [np.asfortranarray(x) for x in X]
        for name in [name for name, _ in frames(X[0])]:
            yield f"sequences, each a {name}", [dict(frames(x))[name] for x in X]
        if pandas := optional("pandas"):
            yield "Series of arrays", pandas.Series(X, index=range(100, 100 + len(X)))

    @override
    def twins_of_outputs(self, y: Any) -> Named:
        yield "tuples", tuple(map(tuple, y))
        yield "arrays", [np.array(tags) for tags in y]
        yield "arrays of objects", [np.array(tags, object) for tags in y]
        for name in [name for name, _ in columns(np.array(y[0]))]:
            yield f"sequences, each a {name}", [dict(columns(np.array(tags)))[name] for tags in y]
        if pandas := optional("pandas"):
            yield "Series of lists", pandas.Series(y, index=range(100, 100 + len(y)))

    @override
    def odd_inputs(self, X: Any) -> Named:
        yield from super().odd_inputs(X)
        yield "one matrix", np.ones((len(X), 3))
        yield "one sparse matrix", sparse.csr_matrix(np.ones((len(X), 3)))
        yield "one sequence", X[0]
        yield "numbers", list(range(len(X)))
        yield "a list of strings", ["some words"] * len(X)
        yield "sequences of strings", [["word"] * len(x) for x in X]
        yield "a dict of sequences", dict(enumerate(X))
        yield "sequences that are generators", [(token for token in x) for x in X]
        yield "sequences that are sets", [{1, 2}] * len(X)
        yield "sequences that are dicts", [{"a": 1}] * len(X)
        yield "tokens without features", [x[:, :0] for x in X]
        if optional("pandas"):
            yield "one frame", self.named(X, "abc")[0]

    @override
    def odd_outputs(self, y: Any) -> Named:
        yield from super().odd_outputs(y)
        yield "one list of tags", ["N"] * len(y)
        yield "sets of tags", [set(tags) for tags in y]
        yield "dicts of tags", [dict(enumerate(tags)) for tags in y]
        yield "generators of tags", [(tag for tag in tags) for tags in y]
        yield "strings of tags", ["".join(tags) for tags in y]

    @override
    def spoilt_inputs(self, X: Any) -> Named:
        for value in (np.nan, np.inf):
            x = X[BAD].copy()
            x[1, 1] = value
            yield f"the value {value}", with_example(X, BAD, x)
        yield "None", with_example(X, BAD, None)
        yield "a number", with_example(X, BAD, 3.0)
        yield "a string", with_example(X, BAD, "ab")
        yield "a narrow sequence", with_example(X, BAD, X[BAD][:, :2])
        yield "words", with_example(X, BAD, np.full(X[BAD].shape, "word"))

    @override
    def spoilt_outputs(self, y: Any) -> Named:
        yield "too short", with_example(y, BAD, y[BAD][:-1])
        yield "None", with_example(y, BAD, None)
        yield "a number", with_example(y, BAD, 3)
        yield "a list of lists", with_example(y, BAD, [["N"]] * len(y[BAD]))
        yield "numbers among strings", with_example(y, BAD, [3] * len(y[BAD]))

    @override
    def measure(self, y: Any, responses: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
        pairs = zip(y, responses["predict"], strict=True)
        return np.mean(np.concatenate([np.array(a) == np.array(b) for a, b in pairs]))


class TaskExamples(Kind):
    """Trainers, whose inputs and outputs are those of their task, and given by the user."""

    words_of_outputs: ClassVar[tuple[str, ...]] = ("output", "X")
    lacks: ClassVar[Mapping[str, str]] = _OF_TABLES | {
        "early stopping": "the callback EarlyStopping does it",
        "columns by name": "the task reads the inputs",
        "names of outputs": "the task reads the outputs",
    }

    @override
    def draw(self, random: np.random.Generator, times: int = 1) -> Examples:
        raise ValueError("X is None; give inputs and outputs of the task.")

    @override
    def twins_of_inputs(self, X: Any) -> Named:
        yield "tuple", tuple(X)
        yield "array of objects", array_of(X)
        yield "Fortran arrays", [each_array(np.asfortranarray, x) for x in X]
        yield "read-only arrays", [each_array(read_only, x) for x in X]
        if pandas := optional("pandas"):
            index = range(100, 100 + len(X))
            yield "Series", pandas.Series(list(X), index=index)

    @override
    def twins_of_outputs(self, y: Any) -> Named:
        yield "tuple", tuple(y)
        yield "array of objects", array_of(y)
        yield "read-only arrays", [each_array(read_only, one) for one in y]
        if pandas := optional("pandas"):
            yield "Series", pandas.Series(list(y), index=range(100, 100 + len(y)))

    @override
    def odd_outputs(self, y: Any) -> Named:
        yield from super().odd_outputs(y)

    @override
    def spoilt_inputs(self, X: Any) -> Named:
        for value in (None, "ab", object(), {}, 3.5, [], np.nan):
            yield repr(value)[:20], with_example(list(X), BAD, value)
        yield "infinite", with_example(list(X), BAD, each_array(with_infinity, X[BAD]))

    @override
    def spoilt_outputs(self, y: Any) -> Named:
        for value in (None, "ab", object(), {}, 1e300, [], np.nan, 2**70, -7):
            yield repr(value)[:20], with_example(list(y), BAD, value)


class Images(Kind):
    """Faces that learn from photographs and masks."""

    lacks: ClassVar[Mapping[str, str]] = _OF_TABLES | {
        "columns by name": "photographs have no columns",
        "sample weights": "the pixels of an image have the same weight",
        "early stopping": "superpixels are held out by folds",
        "names of outputs": "masks hold whole numbers",
    }

    @override
    def ask(self, method: Callable[[Any], Any], X: Any) -> Any:
        # The segmenter predicts one photograph.
        is_list = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 4)
        return [method(x) for x in X] if is_list and len(X) else method(X)

    @override
    def draw(self, random: np.random.Generator, times: int = 1) -> Examples:
        images, masks = [], []
        for _ in range(4):
            mask = np.zeros((32, 32), np.uint8)
            top, left = random.integers(2, 14, 2)
            mask[top : top + 16, left : left + 16] = 1
            noise = random.integers(0, 40, (32, 32, 3))
            images.append((120 * mask[..., None] + noise).astype(np.uint8))
            masks.append(mask)
        return Examples(images, masks)

    @override
    def twins_of_inputs(self, X: Any) -> Named:
        yield "tuple", tuple(X)
        yield "one array", np.stack(X)
        yield "Fortran arrays", [np.asfortranarray(x) for x in X]
        yield "read-only arrays", [read_only(x) for x in X]
        if pictures := optional("PIL.Image"):
            yield "PIL images", [pictures.fromarray(x) for x in X]

    @override
    def twins_of_outputs(self, y: Any) -> Named:
        yield "tuple", tuple(y)
        yield "arrays of int64", [mask.astype(np.int64) for mask in y]
        yield "arrays of bool", [mask.astype(bool) for mask in y]
        if pictures := optional("PIL.Image"):
            yield "PIL images", [pictures.fromarray(mask) for mask in y]


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


KINDS: dict[str, Kind] = {
    "classes": Classes(),
    "grades": Grades(),
    "label sets": LabelSets(),
    "costs": Costs(),
    "tags": Tags(),
    "task": TaskExamples(),
    "images": Images(),
}
