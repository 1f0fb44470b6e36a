"""Examples of trainers, whose users give examples of their task, and of photographs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from structboost._typing import override
from structboost.conformance.examples import BAD, NO_TABLES, Examples, Kind, Named, optional, spoilt
from structboost.conformance.twins import containers, each_array, read_only, with_infinity


class TaskExamples(Kind):
    """Trainers, whose inputs and outputs are those of their task, and given by the user."""

    words_of_outputs: ClassVar[tuple[str, ...]] = ("output", "X")
    lacks: ClassVar[Mapping[str, str]] = NO_TABLES | {
        "early stopping": "the callback EarlyStopping does it",
        "columns by name": "the task reads the inputs",
        "names of outputs": "the task reads the outputs",
    }

    @override
    def draw(self, random: np.random.Generator, times: int = 1) -> Examples:
        raise ValueError("X is None; give inputs and outputs of the task.")

    @override
    def twins_of_inputs(self, X: Any) -> Named:
        yield from containers(X)
        yield "Fortran arrays", [each_array(np.asfortranarray, x) for x in X]
        yield "read-only arrays", [each_array(read_only, x) for x in X]

    @override
    def twins_of_outputs(self, y: Any) -> Named:
        yield from containers(y)
        yield "read-only arrays", [each_array(read_only, one) for one in y]

    @override
    def spoilt_inputs(self, X: Any) -> Named:
        values: tuple[Any, ...] = (None, "ab", object(), {}, 3.5, [], np.nan)
        infinite = {"infinite": each_array(with_infinity, X[BAD])}
        yield from spoilt(list(X), {repr(value)[:20]: value for value in values} | infinite)

    @override
    def spoilt_outputs(self, y: Any) -> Named:
        values: tuple[Any, ...] = (None, "ab", object(), {}, 1e300, [], np.nan, 2**70, -7)
        yield from spoilt(list(y), {repr(value)[:20]: value for value in values})


class Images(Kind):
    """Faces that learn from photographs and masks."""

    lacks: ClassVar[Mapping[str, str]] = NO_TABLES | {
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
            mask = np.zeros((16, 16), np.uint8)
            top, left = random.integers(1, 7, 2)
            mask[top : top + 8, left : left + 8] = 1
            noise = random.integers(0, 40, (16, 16, 3))
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
