"""Examples of faces whose inputs are sequences of tokens."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from tests.battery.examples_of_tasks import (
    BAD,
    Examples,
    Kind,
    columns,
    containers,
    spoilt,
)

_WORDS = ("Ada", "Bo", "Cy", "reads", "sees", "sleeps", "and", "42")


class Tags(Kind):
    """Faces of sequences that predict a tag for each token, here a row of numbers.

    Forms of sequences and tags are those of ``tests/faces/test_sequence_forms.py``.
    """

    lacks = {"probabilities", "class weights"}

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

    def sequence(self, random, n):
        words = random.integers(0, len(_WORDS), n)
        tokens = [
            {"word[0]": word, "is_title": word.istitle(), "length": 1.0}
            for word in (_WORDS[k] for k in words)
        ]
        return tokens, 3.5 - words + random.normal(size=n)

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
