"""One-to-one matchings: points of the CMU house, and records of febrl4."""

import csv
import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks.runner.records import Record, by
from benchmarks.runner.targets import Target, reach
from benchmarks.runner.units import Unit
from benchmarks.structures.rows import Row, Run, content_of, cpu_seconds, unit
from structboost import CrossFitted, MatchingTask, StructBoost, StructuredSVM
from structboost.tasks import CandidatePairs

# The frames of a part are three apart, so no pair of them is 40 apart.
NEAR, FAR, RECORDS = "house, 39 frames apart", "house, 90 frames apart", "febrl4"
APART = {NEAR: 39, FAR: 90}
DATASETS = (NEAR, FAR, RECORDS)
QUICK_DATASETS = (FAR,)
# All points are matched: then this is the share of wrong points.
ERROR = "1 - F1, %"
FIELDS = (
    "given_name", "surname", "street_number", "address_1", "address_2", "suburb", "postcode",
    "state", "date_of_birth", "soc_sec_id",
)  # fmt: skip
KEYS: tuple[Callable[[dict[str, str]], str], ...] = (
    *(itemgetter(name) for name in ("soc_sec_id", "date_of_birth", "postcode")),
    lambda row: row["given_name"][:2] + row["surname"][:2],
)
FIT_ON, CHOOSE_ON = 800, 200  # records; the others are for the test


class Pairs(NamedTuple):
    """Inputs and matchings."""

    X: list[Any]
    Y: list[np.ndarray]


class Split(NamedTuple):
    """Parts to fit on, to choose settings on, and to measure on."""

    fit: Pairs
    choose: Pairs
    test: Pairs


def houses(folder: Path, apart: int) -> Split:
    """Squared differences of the shape contexts of two frames, the second one shuffled."""
    with np.load(folder / "house.npz") as file:
        contexts, split = file["shape_context"].astype(np.float32), file["split"]
    rng = np.random.default_rng(0)

    def part(number: int) -> Pairs:
        made = Pairs([], [])
        for first in np.flatnonzero(split == number):
            if first + apart < len(split):
                order = rng.permutation(contexts.shape[1])
                second = contexts[first + apart][order]
                made.X.append((contexts[first][:, None] - second) ** 2)
                made.Y.append(np.argsort(order))
        return made

    return Split(*map(part, range(3)))


def records(folder: Path) -> Split:
    """Records of both tables; each has its partner in the same part of the other table."""
    tables = []
    for name in ("a", "b"):
        with gzip.open(folder / f"febrl4{name}.csv.gz", "rt", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines, skipinitialspace=True))
        tables.append({int(row["rec_id"].split("-")[1]): row for row in rows})
    rng = np.random.default_rng(0)
    numbers = rng.permutation(sorted(tables[0]))
    made = []
    for own in np.split(numbers, [FIT_ON, FIT_ON + CHOOSE_ON]):
        order = rng.permutation(len(own))
        sides = [tables[0][k] for k in own], [tables[1][k] for k in own[order]]
        made.append(Pairs([candidates(*sides)], [np.argsort(order)]))
    return Split(*(Pairs(p.X, [known(x, y) for x, y in zip(*p, strict=True)]) for p in made))


def candidates(left: list[dict[str, str]], right: list[dict[str, str]]) -> CandidatePairs:
    """Records that agree in a key, with how alike their fields are."""
    found = set()
    for key in KEYS:
        members: dict[str, list[int]] = {}
        for j, row in enumerate(right):
            members.setdefault(key(row), []).append(j)
        keys = map(key, left)
        found.update((i, j) for i, own in enumerate(keys) if own for j in members.get(own, []))
    pairs = np.array(sorted(found))
    sides = (left, right)
    grams = [[[letter_pairs(row[name]) for name in FIELDS] for row in side] for side in sides]
    rows = [list(chain.from_iterable(map(compared, grams[0][i], grams[1][j]))) for i, j in pairs]
    return CandidatePairs(len(left), len(right), pairs, np.array(rows))


def letter_pairs(text: str) -> Counter[str]:
    padded = f" {text} " if text else ""
    return Counter(padded[k : k + 2] for k in range(len(padded) - 1))


def compared(a: Counter[str], b: Counter[str]) -> tuple[float, float]:
    """Dice coefficient of two fields, and whether one is empty."""
    if not a or not b:
        return 0.0, 1.0
    return 2.0 * (a & b).total() / (a.total() + b.total()), 0.0


def known(x: CandidatePairs, y: np.ndarray) -> np.ndarray:
    """The matching without the pairs that are no candidates."""
    there = x.rows_of(np.arange(len(y)) * x.n_right + y)[1]
    return np.where(there, y, -1)


class Way(NamedTuple):
    """A method, its settings to choose from, and a fit that gives its prediction.

    The prediction of an input is an array of 0 and 1, one for each of its pairs.
    """

    label: str
    candidates: Callable[[], Sequence[Any]]
    fitted: Callable[[MatchingTask, Any, Pairs], Callable[[Any], np.ndarray]]


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    folder = Path(data_dir) / "structures" / "matching"
    is_house = name in APART
    files = ("house.npz",) if is_house else ("febrl4a.csv.gz", "febrl4b.csv.gz")
    content = " ".join(content_of(folder / file) for file in files)
    data = partial(houses, folder, APART[name]) if is_house else partial(records, folder)
    task = MatchingTask(unmatched=not is_house)
    runs = [Run(way.label, partial(tuned, way, task), PACKAGES) for way in WAYS[is_house]]
    return [unit(__name__, name, content, data, run, quick) for run in runs]


def tuned(way: Way, task: MatchingTask, data: Split, quick: bool) -> list[Row]:
    """The first of the best settings on the part to choose on, fitted on the part to fit on."""
    candidates = way.candidates()[: 1 if quick else None]
    trials = [error(task, way.fitted(task, own, data.fit), data.choose) for own in candidates]
    chosen = candidates[int(np.argmin(trials))]
    facts: dict[str, Any] = {"chosen": str(chosen), "validation": trials}
    with cpu_seconds(facts):
        predict = way.fitted(task, chosen, data.fit)
    return [Row(way.label, ERROR, error(task, predict, data.test), facts)]


def error(task: MatchingTask, predict: Callable[[Any], np.ndarray], part: Pairs) -> float:
    """1 - F1 of the pairs, in percent; each member of the left sides has a partner."""
    right = n_found = 0
    for x, y in zip(*part, strict=True):
        found = predict(x)
        right += int(found @ task.part_labels(x, y))
        n_found += int(found.sum())
    return 100.0 - 200.0 * right / (n_found + sum(map(len, part.Y)))


def nothing(task: MatchingTask, setting: Any, part: Pairs) -> Any:
    """The least sum of squared differences, without learning."""
    return partial(matched, task, lambda rows: -rows.sum(axis=1, keepdims=True))


def matched(task: MatchingTask, scores: Callable[[Any], np.ndarray], x: Any) -> np.ndarray:
    return task.part_labels(x, task.argmax(x, scores(task.parts(x))))


def linear(task: MatchingTask, C: float, part: Pairs, classifier: Any = None) -> Any:
    """A linear model of the pairs' features, or of the cross-fitted answers of a classifier."""
    svm = StructuredSVM(task, C=C, tol=0.05, max_epochs=60, random_state=0)
    model = svm
    if classifier is not None:
        model = make_pipeline(CrossFitted(classifier, task=task, random_state=0), svm)
    return predicted(task, model.fit(part.X, part.Y))


def trees(task: MatchingTask, C: float, part: Pairs) -> Any:
    settings = {"tol": 0.05, "max_rounds": 60, "spread": 0.1}
    model = StructBoost(task, C=C, weak_learner="tree", random_state=0, **settings)
    return predicted(task, model.fit(part.X, part.Y))


def predicted(task: MatchingTask, model: Any) -> Callable[[Any], np.ndarray]:
    return lambda x: task.part_labels(x, model.predict([x])[0])


def alone(task: MatchingTask, classifier: Any, part: Pairs) -> Any:
    """Every pair that a classifier takes for one, be they one-to-one or not."""
    model = clone(classifier).fit(*table_of(task, part))
    return lambda x: model.predict(task.parts(x))


def two_stages(task: MatchingTask, classifier: Any, part: Pairs) -> Any:
    """A classifier of pairs, then the matching of the highest sum of log-odds."""
    model = clone(classifier).fit(*table_of(task, part))

    def log_odds(rows: np.ndarray) -> np.ndarray:
        shares = np.clip(model.predict_proba(rows)[:, 1:], 1e-9, 1 - 1e-9)
        return np.log(shares) - np.log1p(-shares)

    return partial(matched, task, log_odds)


def table_of(task: MatchingTask, part: Pairs) -> tuple[np.ndarray, np.ndarray]:
    labels = [task.part_labels(x, y) for x, y in zip(*part, strict=True)]
    return np.concatenate([task.parts(x) for x in part.X]), np.concatenate(labels)


def lightgbm() -> list[Any]:
    from lightgbm import LGBMClassifier

    fixed = {"n_estimators": 100, "random_state": 0, "n_jobs": 1, "verbose": -1}
    sizes = ((15, 0.1), (4, 0.1), (15, 0.03))
    return [LGBMClassifier(num_leaves=n, learning_rate=rate, **fixed) for n, rate in sizes]


def logistic() -> list[Any]:
    """recordlinkage's logistic classifier; its releases exclude the pandas that others need."""
    return [LogisticRegression(C=C, max_iter=1000) for C in (1.0, 10.0, 100.0)]


def on_lightgbm(task: MatchingTask, C: float, part: Pairs) -> Any:
    return linear(task, C, part, lightgbm()[0])


LOGISTIC = "logistic regression, as recordlinkage"
TWO_STAGES, CROSS_FITTED = "lightgbm, two stages", "lightgbm, cross-fitted"
LINEAR, TREES = "linear", "trees"
PACKAGES = ("lightgbm", "sklearn")
SHARED = (
    Way(TWO_STAGES, lightgbm, two_stages),
    Way(LINEAR, lambda: (1.0, 10.0, 100.0), linear),
    Way(TREES, lambda: (10.0, 100.0), trees),
)
WAYS = {
    True: (
        Way("nearest contexts", lambda: (None,), nothing),
        *SHARED,
        Way(CROSS_FITTED, lambda: (1.0, 10.0, 100.0), on_lightgbm),
    ),
    False: (
        Way(LOGISTIC, logistic, alone),
        Way("logistic regression, two stages", logistic, two_stages),
        *SHARED,
    ),
}


def targets(made: Sequence[Record]) -> list[Target]:
    values = {key: r["value"] for key, r in by(made, "dataset", "method").items()}
    rival = values.get((RECORDS, LOGISTIC))
    return [
        reach(NEAR, values.get((NEAR, TREES)), "<=", 0.7, "{:.2f}"),
        reach(FAR, values.get((FAR, TREES)), "<=", 8.0, "{:.2f}"),
        reach(
            "febrl4, below recordlinkage's logistic regression"
            + (f", {rival:.4f}" if rival else ""),
            values.get((RECORDS, LINEAR)) if rival is not None else None,
            "<",
            rival or 0.0,
            "{:.4f}",
        ),
    ]
