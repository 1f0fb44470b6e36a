"""Examples of faces whose inputs are sequences of tokens."""

from copy import deepcopy
from decimal import Decimal
from types import MappingProxyType

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
    containers,
    frames,
    spoilt,
)

_WORDS = ("Ada", "Bo", "Cy", "reads", "sees", "sleeps", "and", "42")


def of_each(forms, values):
    """Iterate over lists of the forms of each value."""
    twins = [dict(forms(value)) for value in values]
    for name in twins[0]:
        yield f"each a {name}", [twin[name] for twin in twins]


class Tags(Kind):
    """Faces of sequences that predict a tag for each token, here a row of numbers."""

    lacks = {"probabilities", "class weights"}
    # Cannot be used as a sequence of any kind of token.
    bad_sequences = {
        "None": None, "a number": 3.0, "a string": "ab", "bytes": b"ab",
        "a set": {1, 2}, "an iterator": iter([[1.0, 2.0, 3.0]]), "a dict": {"a": 1},
        "a lazy frame": polars.DataFrame({"a": [1.0], "b": 2.0, "c": 3.0}).lazy(),
    }  # fmt: skip

    def sequence(self, random, n):
        """Draw a sequence of ``n`` tokens, and a number for each that its tag depends on."""
        x = random.integers(-6, 7, (n, 3)).astype(float)
        return x, x[:, 0] + random.normal(size=n)

    def draw(self, random, times=1):
        lengths = random.integers(2, 5, 42 * times)
        X, scores = zip(*(self.sequence(random, n) for n in lengths), strict=True)
        return Examples(list(X), [np.where(s > 0, "N", "O").tolist() for s in scores])

    def twins_of_inputs(self, X):
        def forms(x):
            yield from arrays(x, "float32", "float16", "longdouble", "int8", ">f8", "object")
            yield from frames(x)
            yield "decimals", np.vectorize(Decimal, [object])(x).tolist()
            yield "memoryview", memoryview(x)
            yield "rows", [pandas.Series(row) for row in x]
            for form in ("csr", "coo", "lil"):
                yield form, sparse.csr_array(x).asformat(form)

        yield from containers(X)
        yield from of_each(forms, X)
        yield "arrays and sparse arrays", [*X[:9], *map(sparse.csr_array, X[9:])]

    def twins_of_outputs(self, y):
        yield from containers(y)
        yield from of_each(lambda tags: columns(np.array(tags)), y)
        yield "strings of NumPy", [list(map(np.str_, tags)) for tags in y]

    def odd_inputs(self, X):
        yield from super().odd_inputs(X)
        yield "one sequence", X[0]
        yield "sequences by name", dict(enumerate(X))
        yield "an iterator", map(deepcopy, X)

    def odd_outputs(self, y):
        yield from super().odd_outputs(y)
        yield "tags by name", dict(enumerate(y))
        yield "a table", pandas.DataFrame(y)
        yield "a tag for each sequence", [tags[0] for tags in y]

    def named_outputs(self, y):
        yield "lists", y, ["N", "O"]
        yield "arrays", [np.array(tags) for tags in y], ["N", "O"]

    def spoilt_inputs(self, X):
        yield from spoilt(X, self.bad_sequences | self._bad(X[BAD]))

    def _bad(self, x):
        """Return sequences that cannot be used, beside those of every form."""
        bad = {
            "a narrow sequence": x[:, :2], "words": x.astype(str), "complex numbers": x + 1j,
            "words as objects": x.astype(str).astype(object), "dates": x.astype("M8[D]"),
            "lists of unequal length": [[1.0, 2.0, 3.0], [1.0]], "three axes": np.zeros((2, 2, 3)),
            "masked": np.ma.array(x, mask=x > x.min()), "dicts": [{"a": 1.0}] * len(x),
            "names twice": pandas.DataFrame(x, columns=list("aab")),
            "a null": polars.DataFrame(x).with_columns(column_1=None),
        }  # fmt: skip
        for value in (np.nan, np.inf, 10**400):
            changed = x.astype(object)
            changed[1, 1] = value
            bad[f"the value {value:.3}" if value < 9 else f"a large {type(value)}"] = changed
        return bad | {"sparse NaN": sparse.csr_array(np.where(x == x[0, 0], np.nan, x))}

    def spoilt_outputs(self, y):
        tags = y[BAD]
        bad = {"too short": tags[:-1], "None": None, "a number": 3, "a set": {*tags}}
        bad |= {
            "an iterator": iter(tags),
            "a string": "".join(tags),
            "a dict": dict(enumerate(tags)),
        }
        for tag in (["N"], 3, b"N", Decimal(1), ("N", 1), np.ones(1), {"N"}):
            bad[f"{tag} as a tag"] = [tag] * len(tags)
        yield from spoilt(y, bad)

    def measure(self, y, responses, more):
        pairs = zip(y, responses["predict"], strict=True)
        return np.mean(np.concatenate([np.array(a) == np.array(b) for a, b in pairs]))


class TagsOfDicts(Tags):
    """Faces of sequences of dicts, with strings, bools and numbers."""

    def sequence(self, random, n):
        words = random.integers(0, len(_WORDS), n)
        tokens = [
            {"word[0]": word, "is_title": word.istitle(), "length": 1.0}
            for word in (_WORDS[k] for k in words)
        ]
        return tokens, 3.5 - words + random.normal(size=n)

    def twins_of_inputs(self, X):
        yield from containers(X)
        for name, form in {
            "pandas": pandas.DataFrame, "polars": polars.DataFrame,
            "Arrow": pyarrow.Table.from_pylist,
            "categories": lambda x: pandas.DataFrame(x).astype({"word[0]": "category"}),
            "nullable": lambda x: pandas.DataFrame(x).convert_dtypes(),
            "another order": lambda x: pandas.DataFrame(x)[["length", "is_title", "word[0]"]],
        }.items():  # fmt: skip
            yield name, [form(x) for x in X]

    def _bad(self, x):
        values = {
            "None": None, "NaN": np.nan, "infinite": np.inf, "an object": object(), "bytes": b"x",
            "complex": 1j, "NA": pandas.NA, "large": 10**400, "nested": [[1]],
            "mixed": ["x", 1], "a dict": {1: "x"}, "a set": {1, 2}, "an iterator": iter("x"),
            "infinite inside": [0.5, np.inf],
            "masked inside": np.ma.masked_array([1.0, 9.0], [False, True]),
        }  # fmt: skip
        return {
            "a dict": x[0],
            "bytes as a name": [*x[1:], {**x[0], b"a": "x"}],
            "a new name without meaning": [*x[1:], {**x[0], "new": None}],
            "tokens of numbers": [1.0] * len(x),
            "tokens of None": [None] * len(x),
            "an array": np.ones((len(x), 3)),
            "words": ["word"] * len(x),
            "names that are numbers": [*x[1:], {**x[0], 3: "three"}],
        } | {f"{name} as a value": [{**x[0], "length": v}, *x[1:]] for name, v in values.items()}


class Sentences(Tags):
    """Faces that transform sentences of words."""

    free_parameters = ("word", "name")
    reads_outputs = False
    # Features do not depend on outputs, and none are predicted.
    lacks = Tags.lacks | {
        "sample weights",
        "names of outputs",
        "bad output in fit",
        "score",
        "cross-validation",
        "bad output in score",
    }

    def sequence(self, random, n):
        words = random.integers(0, len(_WORDS), n)
        return [_WORDS[k] for k in words], 3.5 - words

    def twins_of_inputs(self, X):
        yield from containers(X)
        yield from of_each(lambda x: [*containers(x), *columns(np.array(x))], X)
        yield "arrays of strings", [np.array(x) for x in X]
        yield "dicts with a word", [[{"word": word} for word in x] for x in X]
        yield "read-only mappings", [[MappingProxyType({"word": word}) for word in x] for x in X]

    def odd_inputs(self, X):
        for name, value in Kind.odd_inputs(self, X):
            # Sentences of one word each.
            if name not in ("strings", "sequences of strings"):
                yield name, value
        yield "one text for each sentence", [" ".join(x) for x in X]

    def _bad(self, x):
        bad = {"None": None, "number": 3, "bytes": b"word", "list": ["word"], "dict": {"a": "b"}}
        return {f"{name} as a word": [*x[1:], value] for name, value in bad.items()} | {
            "a dict": {"word": "Ada"},
            "dicts without a word": [{"word": None}] * len(x),
            "an array of numbers": np.ones(len(x)),
            "a frame": pandas.DataFrame({"word": x}),
        }
