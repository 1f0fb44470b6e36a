"""Examples of faces whose inputs are tables of numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from tests.battery.examples import (
    BAD,
    Examples,
    Kind,
    arrays,
    columns,
    frames,
    labels_of_types,
    optional,
    spoilt,
)


class Tables(Kind):
    """Faces whose inputs are tables of numbers."""

    n_rows, n_columns = 48, 4

    def outputs(self, X, random):
        """Draw outputs of the rows of a table."""
        raise NotImplementedError

    def draw(self, random, times=1):
        # Whole numbers are the same in every type.
        X = random.integers(-6, 7, (times * self.n_rows, self.n_columns)).astype(np.float64)
        return Examples(X, self.outputs(X, random))

    def named(self, X, names):
        pandas = optional("pandas")
        return None if pandas is None else pandas.DataFrame(X, columns=list(names))

    def twins_of_inputs(self, X):
        types = ("float32", "float16", "int64", "int8", ">f8", ">i4", "object", "longdouble")
        yield from arrays(X, *types)
        yield "list of arrays", list(X)
        for name in ("csr_matrix", "csr_array", "csc_array", "coo_array", "lil_array", "dok_array"):
            yield f"scipy {name}", getattr(sparse, name)(X)
        yield from frames(X)

    def odd_inputs(self, X):
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

    def spoilt_inputs(self, X):
        row = X[BAD].copy()
        row[1] = np.inf
        yield from spoilt(X, {"an infinite value": row})
        rows = {"a word": "word", "an object": {}}
        objects = {name: np.array([1, 2, value, 3], object) for name, value in rows.items()}
        yield from spoilt(X.astype(object), objects)
        yield from spoilt(X.tolist(), {"a short row": [1.0]})


class Classes(Tables):
    """Faces of tables that predict a class."""

    scorers = ("accuracy", "f1_macro")

    def named_outputs(self, y):
        yield "array", y, ["ash", "birch", "cedar"]
        if pandas := optional("pandas"):
            yield "categories", pandas.Series(y).astype("category"), ["ash", "birch", "cedar"]

    def other_labels(self, y):
        yield from labels_of_types(np.unique(y, return_inverse=True)[1])

    def outputs(self, X, random):
        noisy = X[:, 0] + random.normal(size=len(X))
        return np.array(["ash", "birch", "cedar"])[np.digitize(noisy, [-2.0, 2.0])]

    def two_outputs(self, examples):
        return np.where(examples.X[:, 0] > 0, "ash", "birch")

    def twins_of_outputs(self, y):
        yield "list", y.tolist()
        yield "list of numpy strings", list(y)
        yield "objects", y.astype(object)
        yield from columns(y)

    def spoilt_outputs(self, y):
        values = {"None": None, "NaN": np.nan, "a number among strings": 3}
        yield from spoilt(y.astype(object), values)
        yield from spoilt(y.tolist(), {"a list": ["ash"]})

    def measure(self, y, responses, more):
        return np.mean(np.asarray(y) == np.asarray(responses["predict"]))


class Grades(Tables):
    """Faces of tables that rank the items of queries."""

    lacks = {
        "names of outputs": "relevance is a number",
        "class weights": "there are no classes",
        "probabilities": "scores order items",
    }

    def draw(self, random, times=1):
        examples = super().draw(random, times)
        return replace(examples, more={"qid": np.repeat(np.arange(times * self.n_rows // 6), 6)})

    def outputs(self, X, random):
        return np.digitize(X[:, 0] + random.normal(size=len(X)), [-2.0, 2.0])

    def twins_of_outputs(self, y):
        yield from arrays(y, "float64", "float16", "int8", ">i4", "uint8")
        yield from columns(y)

    def spoilt_outputs(self, y):
        yield from spoilt(y.astype(float), {"NaN": np.nan, "infinite": np.inf})
        yield from spoilt(y.astype(object), {"a word": "word", "None": None})


class LabelSets(Tables):
    """Faces of tables that predict sets of labels."""

    lacks = {
        "class weights": "label_costs weighs labels",
        "probabilities": "probabilities are those of labels, and need not sum to 1",
    }
    scorers = ("f1_micro", "accuracy")

    def named_outputs(self, y):
        names = ["wet", "dry", "hot"]
        lists = [[names[k] for k in np.flatnonzero(row)] for row in y]
        yield "lists of labels", lists, sorted(names)
        yield "sets of labels", [set(one) for one in lists], sorted(names)
        if pandas := optional("pandas"):
            yield "pandas frame", pandas.DataFrame(y, columns=names), names
        if polars := optional("polars"):
            yield "polars frame", polars.DataFrame(dict(zip(names, y.T, strict=True))), names

    def other_labels(self, y):
        for name, labels in labels_of_types(np.arange(3)):
            yield name, [[labels[k] for k in np.flatnonzero(row)] for row in y]

    def outputs(self, X, random):
        return (X[:, :3] + 2 * random.normal(size=(len(X), 3)) > 0).astype(int)

    def twins_of_outputs(self, y):
        yield from arrays(y, "bool", "float64", "int8", ">i4")
        yield "scipy csr_matrix", sparse.csr_matrix(y)
        yield from frames(y, names=("0", "1", "2"))

    def spoilt_outputs(self, y):
        yield from spoilt(y.astype(float), {"NaN": np.array([0, np.nan, 1])})
        yield from spoilt(y, {"two": np.array([0, 2, 1])})
        yield from spoilt(y.astype(object), {"a word": np.array([0, "x", 1], object)})
        yield from spoilt(y.tolist(), {"a short row": [1]})


class Costs(Tables):
    """Faces of tables that predict the costs of a decision among three items."""

    lacks = {
        "names of outputs": "decisions are rows of numbers",
        "class weights": "there are no classes",
        "probabilities": "decisions have costs",
        "monotone constraints": "decisions are not monotone in a cost",
    }

    def outputs(self, X, random):
        costs = np.column_stack((X[:, 0], -X[:, 1], X[:, 2] / 2))
        return np.round(2 * (costs + random.normal(size=costs.shape))) + 20.0

    def twins_of_outputs(self, y):
        yield from arrays(y, "float32", "float16", "int8", ">f8", "object")
        yield from frames(y)

    def spoilt_outputs(self, y):
        values = {"NaN": np.nan, "infinite": -np.inf}
        yield from spoilt(y, {name: np.array([1.0, v, 2.0]) for name, v in values.items()})
        yield from spoilt(y.astype(object), {"a word": np.array([0, "x", 1], object)})
        yield from spoilt(y.tolist(), {"a short row": [1.0]})
