"""Examples of faces whose inputs are sequences of tokens."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from scipy import sparse

from tests.battery.examples import (
    BAD,
    NO_TABLES,
    Examples,
    Kind,
    arrays,
    columns,
    containers,
    frames,
    labels_of_types,
    optional,
    spoilt,
)

_WORDS = ("Ada", "Bo", "Cy", "reads", "sees", "sleeps", "and", "42")


class Tags(Kind):
    """Faces of sequences that predict a tag for each token, here a row of numbers."""

    lacks = NO_TABLES

    def sequence(self, random, n):
        """Draw a sequence of ``n`` tokens, and a number for each that its tag depends on."""
        x = random.integers(-6, 7, (n, 3)).astype(float)
        return x, x[:, 0] + random.normal(size=n)

    def draw(self, random, times=1):
        lengths = random.integers(2, 5, 42 * times)
        X, scores = zip(*(self.sequence(random, n) for n in lengths), strict=True)
        return Examples(list(X), [np.where(s > 0, "N", "O").tolist() for s in scores])

    def named_outputs(self, y):
        yield "lists", y, ["N", "O"]
        yield "arrays", [np.array(tags) for tags in y], ["N", "O"]

    def other_labels(self, y):
        for name, labels in labels_of_types(np.arange(2)):
            yield name, [[labels["NO".index(tag)] for tag in tags] for tags in y]

    def named(self, X, names):
        pandas = optional("pandas")
        return None if pandas is None else [pandas.DataFrame(x, columns=list(names)) for x in X]

    def twins_of_inputs(self, X):
        yield from containers(X)
        twins = [
            dict([*arrays(x, "float32", "float16", "int8", ">f8", "object"), *frames(x)]) for x in X
        ]
        for name in twins[0]:
            yield f"sequences, each a {name}", [twin[name] for twin in twins]
        yield "scipy sparse", [sparse.csr_matrix(x) for x in X]

    def twins_of_outputs(self, y):
        yield from containers(y)
        twins = [dict([*containers(tags), *columns(np.array(tags))]) for tags in y]
        for name in twins[0]:
            yield f"sequences, each a {name}", [twin[name] for twin in twins]
        yield "arrays", [np.array(tags) for tags in y]

    def odd_inputs(self, X):
        yield from super().odd_inputs(X)
        yield "one matrix", np.ones((len(X), 3))
        yield "one sparse matrix", sparse.csr_matrix(np.ones((len(X), 3)))
        yield "one sequence", X[0]
        yield "numbers", list(range(len(X)))
        yield "a list of strings", ["some words"] * len(X)
        yield "a dict of sequences", dict(enumerate(X))
        yield "sequences that are generators", [(token for token in x) for x in X]
        yield "sequences that are sets", [{1, 2}] * len(X)
        yield "sequences that are dicts", [{"a": 1}] * len(X)
        yield "tokens without features", [np.zeros((len(x), 0)) for x in X]
        yield "sequences of strings", [["word"] * len(x) for x in X]
        if pandas := optional("pandas"):
            yield "one frame", pandas.DataFrame(np.ones((len(X), 3)), columns=list("abc"))

    def odd_outputs(self, y):
        yield from super().odd_outputs(y)
        yield "one list of tags", ["N"] * len(y)
        yield "sets of tags", [set(tags) for tags in y]
        yield "dicts of tags", [dict(enumerate(tags)) for tags in y]
        yield "generators of tags", [(tag for tag in tags) for tags in y]
        yield "strings of tags", ["".join(tags) for tags in y]

    def spoilt_inputs(self, X):
        yield from spoilt(X, {"None": None, "a number": 3.0, "a string": "ab"} | self._bad(X[BAD]))

    def _bad(self, x):
        """Return sequences that cannot be used, beside those of every form."""
        bad = {"a narrow sequence": x[:, :2], "words": np.full(x.shape, "word")}
        for value in (np.nan, np.inf):
            changed = x.copy()
            changed[1, 1] = value
            bad[f"the value {value}"] = changed
        return bad

    def spoilt_outputs(self, y):
        tags = y[BAD]
        bad = {"too short": tags[:-1], "None": None, "a number": 3}
        of_tags = {"a list of lists": [["N"]], "numbers among strings": [3]}
        yield from spoilt(y, bad | {name: len(tags) * tag for name, tag in of_tags.items()})

    def measure(self, y, responses, more):
        pairs = zip(y, responses["predict"], strict=True)
        return np.mean(np.concatenate([np.array(a) == np.array(b) for a, b in pairs]))


class TagsOfDicts(Tags):
    """Faces of sequences of dicts, with strings, bools and numbers."""

    lacks = NO_TABLES | {
        "columns by name": "a dict names its features, and may lack any",
        "early stopping": "a linear function has no rounds",
        "callbacks": "a linear function has no rounds",
    }

    def sequence(self, random, n):
        words = random.integers(0, len(_WORDS), n)
        tokens = [
            {"word[0]": word, "is_title": word.istitle(), "length": 1.0}
            for word in (_WORDS[k] for k in words)
        ]
        return tokens, 3.5 - words + random.normal(size=n)

    def twins_of_inputs(self, X):
        yield from containers(X)
        for name in dict(containers([])):
            yield f"sequences, each a {name}", [dict(containers(x))[name] for x in X]
        yield "names in another order", [[dict(reversed(token.items())) for token in x] for x in X]
        yield "read-only mappings", [[MappingProxyType(token) for token in x] for x in X]
        for name, key, change in (
            ("strings of numpy", "word[0]", np.str_),
            ("lists of one string", "word[0]", lambda word: [word]),
            ("bools of numpy", "is_title", np.bool_),
            ("numbers for bools", "is_title", float),
            ("numbers of numpy", "length", np.float16),
        ):
            yield name, [[{**token, key: change(token[key])} for token in x] for x in X]
        if pandas := optional("pandas"):
            yield "pandas frames with text", [pandas.DataFrame(x) for x in X]
        if polars := optional("polars"):
            yield "polars frames with text", [polars.DataFrame(x) for x in X]

    def odd_inputs(self, X):
        yield from super().odd_inputs(X)
        yield "tokens that are lists", [[list(token.items()) for token in x] for x in X]

    def _bad(self, x):
        values = {"None": None, "NaN": np.nan, "infinite": np.inf, "an object": object()}
        return {
            "a dict": x[0],
            "tokens of numbers": [1.0] * len(x),
            "tokens of None": [None] * len(x),
            "an array": np.ones((len(x), 3)),
            "words": ["word"] * len(x),
            "names that are numbers": [*x[1:], {**x[0], 3: "three"}],
        } | {f"{name} as a value": [*x[1:], {**x[0], "length": v}] for name, v in values.items()}


class Sentences(Tags):
    """Faces that transform sentences of words."""

    free_parameters = ("word", "name")
    reads_outputs = False
    lacks = (
        NO_TABLES
        | {"columns by name": "a dict names its columns"}
        | dict.fromkeys(
            "sample weights|early stopping|names of outputs|bad output in fit".split("|"),
            "features do not depend on outputs",
        )
        | dict.fromkeys(
            "score|cross-validation|bad output in score".split("|"),
            "a transformer predicts no outputs",
        )
    )

    def sequence(self, random, n):
        words = random.integers(0, len(_WORDS), n)
        return [_WORDS[k] for k in words], 3.5 - words

    def twins_of_inputs(self, X):
        yield from containers(X)
        twins = [dict([*containers(x), *columns(np.array(x))]) for x in X]
        for name in twins[0]:
            yield f"sequences, each a {name}", [twin[name] for twin in twins]
        yield "arrays of strings", [np.array(x) for x in X]
        yield "dicts with a word", [[{"word": word} for word in x] for x in X]
        yield "read-only mappings", [[MappingProxyType({"word": word}) for word in x] for x in X]

    def odd_inputs(self, X):
        for name, value in super().odd_inputs(X):
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
        }
