"""Examples of faces whose inputs are tables of numbers."""

import datetime
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas
import polars
import pyarrow
from scipy import sparse

from tests.battery.examples_of_tasks import (
    BAD,
    Examples,
    Kind,
    arrays,
    columns,
    frames,
    other_frames,
    spoilt,
)


def bad_tables(X):
    """Iterate over tables of the size of a table, which no face takes."""
    frame, days = pandas.DataFrame(X, columns=list("abcd")), [datetime.date(2020, 1, 1)] * len(X)
    for name, column in {
        "bytes": [b"a"] * len(X), "texts and numbers": ["a", 1] * (len(X) // 2), "dates": days,
        "durations": pandas.Timedelta(1),
        "complex numbers": 1j, "lists": [[1]] * len(X),
    }.items():  # fmt: skip
        yield f"a column of {name}", frame.assign(b=column)
    yield "polars dates", polars.from_pandas(frame.assign(b=days))
    yield "Arrow lists", pyarrow.Table.from_pandas(frame.assign(b=[[1]] * len(X)))
    yield "a lazy frame", polars.from_pandas(frame).lazy()
    yield "a column", frame["a"]
    yield "a row", X[0]
    yield "three axes", X[:, :, None]
    yield "no rows", frame[:0]
    yield "no columns", frame[[]]
    yield "texts of numbers", X.astype(str)
    yield "complex sparse numbers", sparse.csr_array(X + 1j)
    yield "sparse NaN", sparse.csr_array(np.where(X == 1, np.nan, X))

    yield "fields", np.zeros(len(X), [("a", float)])
    yield "a sparse row", sparse.coo_array(X[:, 0])
    yield "dicts", [{"a": 1.0}] * len(X)
    yield "two columns of a name", frame.set_axis(list("abca"), axis=1)
    yield "two levels", frame.set_axis(pandas.MultiIndex.from_product([["a", "b"], [1, 2]]), axis=1)
    yield "names of texts and numbers", frame.set_axis(["a", 1, "c", "d"], axis=1)

    large = X.astype(np.int64)
    large[3] = 2**53 + 1
    for name, table in {
        "int64": large, "uint64": np.abs(large).astype(np.uint64), "list": large.tolist(),
        "larger": [[2**70 + 1, 1, 1, 1]] * len(X), "sparse": sparse.csr_array(large),
        "pandas": pandas.DataFrame(large), "objects": pandas.DataFrame(large).astype(object),
    }.items():  # fmt: skip
        yield f"whole numbers that floats merge, {name}", table


def with_odd_rows(y):
    """Iterate over copies of a table of numbers, with a row of words or too short."""
    yield from spoilt(y.astype(object), {"a word": np.array([0, "x", 1], object)})
    yield from spoilt(y.tolist(), {"a short row": [1]})


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

    def twins_of_inputs(self, X):
        yield from arrays(X, "float32", "float16", "longdouble", "int8", ">f8", "object")
        for number in (Decimal, Fraction):
            yield f"{number}", np.vectorize(number, [object])(X)
        yield "list of arrays", list(X)
        for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
            yield form, sparse.csr_array(X).asformat(form)
        yield from frames(X)

    def odd_inputs(self, X):
        yield from super().odd_inputs(X)
        yield from bad_tables(X)

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


class MixedColumns(Classes):
    """Faces of frames of numbers with gaps, categories with gaps, and truth values."""

    def draw(self, random, times=1):
        X, y, _ = vars(super().draw(random, times)).values()
        return Examples(
            pandas.DataFrame(
                {
                    "width": np.where(X[:, 0] % 5, X[:, 0] / 2, np.nan),
                    "colour": np.array(["red", "green", "blue", None], object)[
                        X[:, 1].astype(int) % 4
                    ],
                    "is wide": X[:, 2] > 2,
                }
            ),
            y,
        )

    def twins_of_inputs(self, X):
        yield "objects", X.to_numpy(object)
        yield "lists", X.astype(object).to_numpy().tolist()

        colour = pandas.Categorical(X["colour"], ["red", "blue", "green", "unused"], ordered=True)
        yield "ordered categories", X.assign(colour=colour)
        for dtype in ("category", "string", "string[pyarrow]", "object"):
            yield f"{dtype}", X.astype({"colour": dtype})
        for dtype in ("boolean", "bool[pyarrow]", "int8", "object"):
            yield f"{dtype}", X.astype({"is wide": dtype})
        for dtype in ("Float64", "double[pyarrow]", "float32"):
            yield f"{dtype}", X.astype({"width": dtype})
        for missing in (None, pandas.NA):
            yield f"{missing}", X.astype(object).where(X.notna(), missing)
        yield from other_frames(X)
        frame = polars.from_pandas(X)
        for dtype in (polars.Categorical, polars.Enum(["red", "green", "blue"])):
            yield f"polars {dtype}", frame.cast({"colour": dtype})
        arrow = pyarrow.table(frame.to_dict(as_series=False))
        for dtype in (pyarrow.large_string(), pyarrow.dictionary(pyarrow.int8(), pyarrow.string())):
            column = pyarrow.array(arrow["colour"].to_pylist(), dtype)
            yield f"Arrow {dtype}", arrow.set_column(1, "colour", column)

    def odd_inputs(self, X):
        yield "another column", X.rename(columns={"width": "girth"})
        yield "a column less", X[["width", "is wide"]]

    def spoilt_inputs(self, X):
        changed = X.copy()
        changed.loc[BAD, "width"] = np.inf
        yield "an infinite number", changed


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

    # Probabilities of labels need not sum to 1.
    lacks = {"class weights", "probabilities"}
    scorers = ("f1_micro", "accuracy")

    def named_outputs(self, y):
        names = ["wet", "dry", "hot"]
        lists = [[names[k] for k in np.flatnonzero(row)] for row in y]
        yield "lists of labels", lists, sorted(names)
        yield "sets of labels", [set(one) for one in lists], sorted(names)
        yield "pandas frame", pandas.DataFrame(y, columns=names), names
        yield "polars frame", polars.from_numpy(y, names), names

    def outputs(self, X, random):
        return (X[:, :3] + 2 * random.normal(size=(len(X), 3)) > 0).astype(int)

    def twins_of_outputs(self, y):
        yield from arrays(y, "bool", "float64", "int8", ">i4")
        yield "scipy csr_matrix", sparse.csr_matrix(y)
        yield from frames(y, names=("0", "1", "2"))

    def spoilt_outputs(self, y):
        yield from spoilt(y.astype(float), {"NaN": np.array([0, np.nan, 1])})
        yield from spoilt(y, {"two": np.array([0, 2, 1])})
        yield from with_odd_rows(y)


class Costs(Tables):
    """Faces of tables that predict the costs of a decision among three items."""

    # Decisions are rows of numbers.
    lacks = {"names of outputs", "class weights", "probabilities"}

    def outputs(self, X, random):
        costs = np.column_stack((X[:, 0], -X[:, 1], X[:, 2] / 2))
        return np.round(2 * (costs + random.normal(size=costs.shape))) + 20.0

    def odd_inputs(self, X):
        # Missing numbers are taken, in sparse tables, too.
        yield from (of for of in super().odd_inputs(X) if of[0] != "sparse NaN")

    def twins_of_outputs(self, y):
        yield from arrays(y, "float32", "float16", "int8", ">f8", "object")
        yield from frames(y)

    def spoilt_outputs(self, y):
        values = {"NaN": np.nan, "infinite": -np.inf}
        yield from spoilt(y, {name: np.array([1.0, v, 2.0]) for name, v in values.items()})
        yield from with_odd_rows(y)
