"""Small examples of a kind of face, their twins, and values that are none."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

# Named values; each name says what the value is.
Named = Iterator[tuple[str, Any]]
# Example that is spoilt, in order to see whether the message has its index.
BAD = 37
# Behaviours of tables of numbers, and of classes.
NO_TABLES = dict.fromkeys(
    "missing values|categories|sparse rows|monotone constraints|probabilities".split("|"),
    "inputs are no table",
) | {"class weights": "outputs are no classes"}


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


def spoilt(values: Any, examples: Mapping[str, Any]) -> Named:
    """Iterate over copies of a list or array, in each of which one of ``examples`` is ``BAD``."""
    for name, example in examples.items():
        changed = deepcopy(values)
        changed[BAD] = example
        yield name, changed


def _no_examples(n: int) -> Named:
    """Iterate over values that are neither inputs nor outputs of ``n`` examples."""
    yield "None", None
    yield "a number", 3.5
    yield "an object", object()
    yield "a set", {1, 2, 3}
    yield "a dict", {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    yield "a list of None", [None] * n
    yield "a list of objects", [object() for _ in range(n)]


class Kind:
    """Kind of face, with its examples.

    Attributes
    ----------
    lacks : dict of str to str
        Behaviours that no face of this kind can have, and why.
    reads_outputs : bool
        Whether ``fit`` needs outputs.
    """

    lacks: ClassVar[Mapping[str, str]] = {}
    # Parameters that any string can be a value of.
    free_parameters: ClassVar[tuple[str, ...]] = ("checkpoint", "cache")
    # Words by which messages may name an output, besides the argument.
    words_of_outputs: ClassVar[tuple[str, ...]] = ()
    # Scorers of scikit-learn for these outputs.
    scorers: ClassVar[tuple[str, ...]] = ()
    reads_outputs: ClassVar[bool] = True

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

    def odd_outputs(self, y: Any) -> Named:
        """Iterate over values that are no outputs."""
        yield from _no_examples(len(y))
        yield "a string as long as X", "a" * len(y)
        yield "a generator", (one for one in y)
        yield "too short", first(y, len(y) - 1)
        yield "complex numbers", np.ones(len(y), complex)
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
