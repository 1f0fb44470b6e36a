"""Segmentation of photographs (StructBoost, Table 6): superpixels alone, and CRFs, linear and boosted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.imports import imported_sources
from benchmarks.segmentation_table import records, show
from benchmarks.units import Result, Unit, source_hash
from structboost import AdaBoostMHClassifier
from structboost.segmentation.codebook import word_histograms
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import CRFSettings, fit_crf, superpixel_scores, tuned
from structboost.segmentation.descriptors import DescribedImage
from structboost.segmentation.feature_cache import FeatureCache, describe_all
from structboost.segmentation.image_files import ReadWhenUsed, fitted, read_mask, resized_mask
from structboost.segmentation.labelled_folder import n_labels_of, read_folder, read_split
from structboost.segmentation.potentials import PotentialScale, superpixel_graph, unary_potentials
from structboost.segmentation.scores import break_even
from structboost.segmentation.scribbles import scribble_answers, scribble_features, scribbled_labels
from structboost.segmentation.superpixels import label_counts
from structboost.segmentation.unaries import combined, fit_unaries
from structboost.tasks.superpixel_crf import SuperpixelGraph

__all__ = ["DATASETS", "QUICK_DATASETS", "compare", "records", "show", "units"]

Counts = list[np.ndarray]


class Source(NamedTuple):
    """A set of the data folder, the class taken for foreground, and the folders of scribbles on its images, if any."""

    folder: str
    foreground: int | None = None
    scribbles: tuple[str, ...] = ()


SOURCES = {
    "weizmann_horse": Source("weizmann_horse"),
    "human_graz": Source("human_graz"),
    "grabcut_bsds": Source("grabcut_bsds", scribbles=("scribbles1", "scribbles2")),
    "msrc_bicycle": Source("msrc21", foreground=10),
    "msrc_car": Source("msrc21", foreground=9),
    "msrc_cow": Source("msrc21", foreground=3),
    "msrc21": Source("msrc21"),
    "camvid": Source("camvid"),
}
DATASETS = tuple(SOURCES)
QUICK_DATASETS = ("grabcut_bsds",)
SEEDS = 3
SEEDS_OF_MANY = 1  # sets of more than two classes
N_SEGMENTS = 300
LONGEST = 512
BOOSTING_ROUNDS = 1000  # of AdaBoost alone; section 4.5
BOOSTING_ROWS = 10_000
SVM_CANDIDATES = (1e-3, 1e-2, 1e-1, 1.0)  # on standardised histograms; the paper has 1e2..1e7 on its own scale
HELD_OUT = 3

CANDIDATES = None  # the default ones
CRFS = {
    "ssvm": CRFSettings(learner="ssvm"),
    "structboost": CRFSettings(),
    "structboost_stumps": CRFSettings(weak_learner="stump"),
    "structboost_trees": CRFSettings(weak_learner="tree"),
    "structboost_no_edges": CRFSettings(pairwise=False),
}
# Dear, and no better: of the first seed, and of sets that are no part of another (docs/decisions/superpixel-crf.md).
ON_THE_SIDE = ("structboost_stumps", "structboost_trees")
ALONE = ("adaboost", "svm")
UNARIES = "unaries"
METHODS = (*ALONE, UNARIES, *CRFS)


class Images(NamedTuple):
    """Described images of a part of a set, and the pixels of each class in each superpixel.

    A photograph with two sets of scribbles comes twice, under one number in ``photographs``.
    """

    names: list[str]
    described: list[DescribedImage]
    counts: Counts
    strokes: list[np.ndarray] | None
    photographs: list[int]


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    """One unit a seed: the classifiers are shared by all methods."""
    seeds = 1 if quick else SEEDS_OF_MANY if name in ("msrc21", "camvid") else SEEDS
    root = Path(data_dir) / "segmentation" / SOURCES[name].folder
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing; --data must name a directory that has segmentation/NAME.")
    return [
        Unit(
            *("segmentation", name, "all"),
            {"seed": seed},
            f"{_content(root)} {_code()}",
            lambda seed=seed: compare(name, data_dir, seed),
        )
        for seed in range(seeds)
    ]


def compare(name: str, data_dir: Path, seed: int) -> Result:
    """All methods on the same potentials; a result by method."""
    with threadpool_limits(1):
        train, test = (images(name, Path(data_dir), part) for part in ("train", "test"))
        started = time.perf_counter()
        graphs, test_graphs, codebook, test_answers = potentials(train, test, seed)
        found: Result = {"unary_seconds": time.perf_counter() - started, "n_test": len(test.names), "methods": {}}
        for method in ALONE:
            found["methods"][method] = _alone(method, train, test, codebook, seed)
        if test_answers is not None:
            found["methods"][UNARIES] = _unaries(test, test_answers)
        for method, settings in CRFS.items():
            if method in ON_THE_SIDE and (seed or SOURCES[name].folder != name or train.counts[0].shape[1] > 2):
                continue
            found["methods"][method] = _crf(settings, graphs, train, test_graphs, test, seed)
    return found


class Potentials(NamedTuple):
    """CRFs of the training images, cross-fitted, and of the test images.

    The codebook of visual words and the classifiers' answers on the test images: None where there are scribbles.
    """

    train: list[SuperpixelGraph]
    test: list[SuperpixelGraph]
    codebook: np.ndarray | None
    test_answers: list[np.ndarray] | None


def potentials(train: Images, test: Images, seed: int) -> Potentials:
    """What all CRFs of a seed have in common."""
    codebook = None
    if train.strokes is None:
        classifiers, answers = fit_unaries(train.described, train.counts, random_state=seed)
        test_answers = [classifiers.log_probabilities(image) for image in test.described]
        codebook = classifiers.codebook
    else:
        answers, test_answers = (_stroke_answers(images) for images in (train, test))
    pairs = list(zip(train.described, answers, strict=True))
    appearance = train.strokes is None
    scale = PotentialScale.of([unary_potentials(*pair, appearance=appearance) for pair in pairs])
    test_pairs = list(zip(test.described, test_answers, strict=True))
    graphs, test_graphs = (
        [superpixel_graph(*pair, scale, appearance=appearance) for pair in of_part] for of_part in (pairs, test_pairs)
    )
    return Potentials(graphs, test_graphs, codebook, test_answers if appearance else None)


def _stroke_answers(images: Images) -> list[np.ndarray]:
    pairs = zip(images.described, images.strokes, strict=True)
    return [scribble_answers(image, scribbled_labels(image, strokes)) for image, strokes in pairs]


def _crf(
    settings: CRFSettings,
    graphs: list[SuperpixelGraph],
    train: Images,
    test_graphs: list[SuperpixelGraph],
    test: Images,
    seed: int,
) -> Result:
    """A CRF at the C of the best mean IoU in a cross-validation on the training images."""
    started = time.perf_counter()
    counts = train.counts
    settings, C, validation = tuned(graphs, counts, settings, CANDIDATES, seed, train.photographs)
    chosen = time.perf_counter()
    trainer = fit_crf(graphs, counts, settings, C, train.photographs)
    seconds = time.perf_counter() - chosen
    model = CRFModel.of(trainer)
    model.labels(test_graphs[0])  # compiled before the clock
    started_argmax = time.perf_counter()
    given_labels = known(test)
    labels = [model.labels(graph, given) for graph, given in zip(test_graphs, given_labels, strict=True)]
    argmax_ms = 1e3 * (time.perf_counter() - started_argmax) / len(labels)
    margins = None
    if counts[0].shape[1] == 2:
        margins = [
            _certain(model.margins(graph), given) for graph, given in zip(test_graphs, given_labels, strict=True)
        ]
    last = trainer.history_[-1]
    return {
        **_scores(test.counts, labels, margins),
        "C": C,
        "linear_C": settings.linear_C,
        "validation": sorted(validation.items()),
        "tuning_seconds": chosen - started,
        "seconds": seconds,
        "argmax_ms": argmax_ms,
        "gap": last["gap"],
        "certified": last["certified"],
        "rounds": last["round"],
    }


def _alone(method: str, train: Images, test: Images, codebook: np.ndarray | None, seed: int) -> Result:
    """A classifier of single superpixels on their visual words, or on their relation to the scribbles."""
    started = time.perf_counter()
    model, C = fit_alone(method, train, codebook, seed)
    seconds = time.perf_counter() - started
    given_labels = known(test)
    rows = [rows_alone(test, codebook, i) for i in range(len(test.names))]
    labels = [
        model.predict(block) if given is None else np.where(given < 0, model.predict(block), given)
        for block, given in zip(rows, given_labels, strict=True)
    ]
    margins = None
    if test.counts[0].shape[1] == 2:
        found = (_signed(model.decision_function(block)) for block in rows)
        margins = [_certain(*pair) for pair in zip(found, given_labels, strict=True)]
    return {**_scores(test.counts, labels, margins), "C": C, "seconds": seconds, "gap": None, "rounds": None}


def _unaries(test: Images, answers: list[np.ndarray]) -> Result:
    """All classifiers together, of the groups of features and of all of them, and no CRF."""
    probabilities = [combined(answer) for answer in answers]
    margins = [p[:, 1] - p[:, 0] for p in probabilities] if test.counts[0].shape[1] == 2 else None
    labels = [p.argmax(axis=1) for p in probabilities]
    return {**_scores(test.counts, labels, margins), "C": None, "seconds": None, "gap": None, "rounds": None}


def fit_alone(method: str, train: Images, codebook: np.ndarray | None, seed: int) -> tuple[Any, float | None]:
    """``adaboost`` or ``svm`` on at most 10,000 superpixels; the SVM's C is chosen on every third image."""
    rows = [rows_alone(train, codebook, i) for i in range(len(train.names))]
    X = np.concatenate(rows)
    counted = np.concatenate(train.counts)
    y = counted.argmax(axis=1)
    of_image = np.repeat(np.arange(len(rows)), [len(block) for block in rows])
    usable = np.flatnonzero(counted.sum(axis=1) > 0)
    drawn = np.sort(np.random.default_rng(seed).permutation(usable)[:BOOSTING_ROWS])
    if method == "adaboost":
        return AdaBoostMHClassifier(max_rounds=BOOSTING_ROUNDS, random_state=seed).fit(X[drawn], y[drawn]), None
    held_out = drawn[of_image[drawn] % HELD_OUT == 0]
    kept = drawn[of_image[drawn] % HELD_OUT > 0]

    def svm(C: float) -> Any:
        return make_pipeline(StandardScaler(), LinearSVC(C=C, dual="auto", random_state=seed))

    accuracies = [svm(C).fit(X[kept], y[kept]).score(X[held_out], y[held_out]) for C in SVM_CANDIDATES]
    C = SVM_CANDIDATES[int(np.argmax(accuracies))]
    return svm(C).fit(X[drawn], y[drawn]), C


def known(images: Images) -> list[np.ndarray | None]:
    """Labels that the scribbles give; all methods take them as they are."""
    if images.strokes is None:
        return [None] * len(images.names)
    return [scribbled_labels(*pair) for pair in zip(images.described, images.strokes, strict=True)]


def _certain(margins: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    """Margins, beyond all others where the label is given."""
    return margins if known is None else np.where(known < 0, margins, 1e9 * (2 * known - 1))


def _signed(decision: np.ndarray) -> np.ndarray:
    """Foreground's margin, of one column or of two."""
    return decision if decision.ndim == 1 else decision[:, 1] - decision[:, 0]


def rows_alone(images: Images, codebook: np.ndarray | None, i: int) -> np.ndarray:
    """What a classifier of single superpixels sees of image ``i``."""
    if codebook is not None:
        return word_histograms(images.described[i], codebook)
    return scribble_features(images.described[i], scribbled_labels(images.described[i], images.strokes[i]))


def _scores(counts: Counts, labels: Sequence[np.ndarray], margins: Sequence[np.ndarray] | None) -> Result:
    scores = superpixel_scores(counts, labels)
    found: Result = {"mean_iou": scores.mean_iou, **scores.as_record()}
    if margins is not None:
        stacked = np.concatenate(counts)
        found["precision_recall"] = break_even(stacked, np.concatenate(margins), stacked.sum(axis=1))
        found["by_image"] = [
            superpixel_scores([c], [found_labels]).mean_iou for c, found_labels in zip(counts, labels, strict=True)
        ]
    return found


@lru_cache(maxsize=4)
def images(name: str, data_dir: Path, part: str) -> Images:
    """A part of a set, described; features are kept in ``.bench/features`` beside where the benchmark runs."""
    source = SOURCES[name]
    root = data_dir / "segmentation" / source.folder
    wanted = {image for image, of_image in read_split(root / "split.txt").items() if of_image == part}
    whole = read_folder(root / "images", root / "masks", foreground=source.foreground, strict=True).images
    n_labels = n_labels_of(whole)
    read = [image for image in whole if image.name in wanted]
    cache = FeatureCache(Path(".bench") / "features")
    photographs = ReadWhenUsed(read, lambda image: fitted(image.image, LONGEST))
    described = describe_all(photographs, N_SEGMENTS, cache=cache, n_jobs=1)
    counts = [
        label_counts(d.labels, resized_mask(image.mask, d.labels.shape), n_labels)
        for d, image in zip(described, read, strict=True)
    ]
    names = [image.name for image in read]
    if not source.scribbles:
        return Images(names, described, counts, None, list(range(len(names))))
    n = len(source.scribbles)
    strokes = [read_mask(root / folder / f"{name}.png") for folder in source.scribbles for name in names]
    return Images(names * n, described * n, counts * n, strokes, list(range(len(names))) * n)


@lru_cache(maxsize=8)
def _content(root: Path) -> str:
    """Hash of a set's split and of the sizes and names of its files."""
    digest = hashlib.sha256((root / "split.txt").read_bytes())
    for path in sorted(root.rglob("*.*")):
        digest.update(f"{path.relative_to(root)} {path.stat().st_size}".encode())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def _code() -> str:
    """Hash of what the results depend on."""
    modules = ("structboost.segmentation.segmenter", "structboost.estimators.coded")
    return source_hash([*imported_sources(*modules), Path(__file__)])
