"""Examples of faces whose inputs are tables of numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from tests.battery.examples_of_tasks import (
    BAD,
    Examples,
    Kind,
    arrays,
    columns,
    frames,
    optional,
    spoilt,
)


class Tables(Kind):
    """Faces whose inputs are tables of numbers.

    More forms of tables are those of ``tests/faces/test_tables_of_all_faces.py``.
    """

    n_rows, n_columns = 48, 4

    def outputs(self, X, random):
        """Draw outputs of the rows of a table."""
        raise NotImplementedError

    def draw(self, random, times=1):
        # Whole numbers are the same in every type.
        X = random.integers(-6, 7, (times * self.n_rows, self.n_columns)).astype(np.float64)
        return Examples(X, self.outputs(X, random))

    def twins_of_inputs(self, X):
        yield from arrays(X, "float32", "int8", ">f8", "object")
        yield "list of arrays", list(X)
        yield "scipy csr_array", sparse.csr_array(X)
        yield from frames(X)

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

    def outputs(self, X, random):
        noisy = X[:, 0] + random.normal(size=len(X))
        return np.array(["ash", "birch", "cedar"])[np.digitize(noisy, [-2.0, 2.0])]

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

    # Relevance is a number, and there are no classes.
    lacks = {"names of outputs", "class weights", "probabilities"}

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

    # ``label_costs`` weighs labels, whose probabilities need not sum to 1.
    lacks = {"class weights", "probabilities"}
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

    # Decisions are rows of numbers.
    lacks = {"names of outputs", "class weights", "probabilities"}

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
