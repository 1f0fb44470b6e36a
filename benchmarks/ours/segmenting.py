"""Segmentation of photographs: superpixels alone, and CRFs, linear and boosted, on one split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.ours.methods import certified_gap
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.units import Result
from structboost import AdaBoostMHClassifier
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import CRFSettings, fit_crf, superpixel_scores, tuned
from structboost.segmentation.descriptors import DescribedImage, word_histograms
from structboost.segmentation.feature_cache import Describing, FeatureCache, describe_in_turn
from structboost.segmentation.image_files import ReadWhenUsed, fitted, read_mask, resized_mask
from structboost.segmentation.label_map import n_labels_of
from structboost.segmentation.labelled_folder import read_folder, read_split
from structboost.segmentation.potentials import PotentialScale, superpixel_graph, unary_potentials
from structboost.segmentation.scores import break_even
from structboost.segmentation.scribbles import scribble_answers, scribble_features, scribbled_labels
from structboost.segmentation.superpixels import label_counts
from structboost.segmentation.unaries import combined
from structboost.segmentation.unary_training import fit_unaries
from structboost.tasks.superpixel_crf import SuperpixelGraph

N_SEGMENTS = 300
LONGEST = 512
BOOSTING_ROUNDS = 1000  # of AdaBoost alone; section 4.5
BOOSTING_ROWS = 10_000
# On standardised histograms; the paper has 1e2..1e7 on its own scale.
SVM_CANDIDATES = (1e-3, 1e-2, 1e-1, 1.0)
HELD_OUT = 3
CANDIDATES = None  # the default ones
BASELINE, OURS, UNARIES = "ssvm", "structboost_linear_and_stumps", "unaries"
CRFS = {
    BASELINE: CRFSettings(learner="ssvm"),
    OURS: CRFSettings(),
    "structboost_stumps": CRFSettings(weak_learner="stump"),
    "structboost_trees": CRFSettings(weak_learner="tree"),
    f"{OURS}_no_edges": CRFSettings(pairwise=False),
}
# Expensive and no better: only for the first seed, two labels, and sets that are no part of
# another (docs/decisions/superpixel-crf.md).
ON_THE_SIDE = ("structboost_stumps", "structboost_trees")
ALONE = ("adaboost", "svm")


class Source(NamedTuple):
    """A set of the data folder, the class taken for foreground, and the folders of scribbles."""

    folder: str
    foreground: int | None = None
    scribbles: tuple[str, ...] = ()

    def root(self, data_dir: Path) -> Path:
        """Where the set lies."""
        return Path(data_dir) / "segmentation" / self.folder


@dataclass(frozen=True)
class Images:
    """Described images of a part of a set, and the pixels of each class in each superpixel.

    A photograph with two sets of scribbles comes twice, under one number in ``photographs``.
    """

    names: list[str]
    described: list[DescribedImage]
    counts: list[np.ndarray]
    strokes: list[np.ndarray] | None
    photographs: list[int]

    @property
    def n_labels(self) -> int:
        """Number of classes."""
        return self.counts[0].shape[1]

    def known(self) -> list[np.ndarray | None]:
        """Labels that the scribbles give; all methods take them as they are."""
        if self.strokes is None:
            return [None] * len(self.names)
        return [scribbled_labels(*pair) for pair in zip(self.described, self.strokes, strict=True)]


class Potentials(NamedTuple):
    """CRFs of the training images, cross-fitted, and of the test images.

    The codebook of visual words and the classifiers' answers on the test images are None where
    there are scribbles.
    """

    train: list[SuperpixelGraph]
    test: list[SuperpixelGraph]
    codebook: np.ndarray | None
    test_answers: list[np.ndarray] | None


def compare(source: Source, data_dir: Path, seed: int, *, on_the_side: bool) -> Result:
    """All methods on the same potentials; a result by method."""
    with threadpool_limits(1):
        train, test = (images(source, Path(data_dir), part) for part in ("train", "test"))
        shared, seconds = cpu_timed(potentials, train, test, seed)
        seen = "scribbles" if shared.codebook is None else "words"
        methods = {f"{m}_{seen}": _alone(m, train, test, shared.codebook, seed) for m in ALONE}
        if shared.test_answers is not None:
            methods[UNARIES] = _unaries(test, shared.test_answers)
        for method, settings in CRFS.items():
            if method not in ON_THE_SIDE or (on_the_side and train.n_labels == 2):
                methods[method] = _crf(settings, shared, train, test, seed)
    return {"unary_seconds": seconds, "n_test": len(test.names), "methods": methods}


def potentials(train: Images, test: Images, seed: int) -> Potentials:
    """What all CRFs of a seed have in common."""
    has_words = train.strokes is None
    codebook = None
    if has_words:
        classifiers, answers = fit_unaries(train.described, train.counts, random_state=seed)
        test_answers = [classifiers.log_probabilities(image) for image in test.described]
        codebook = classifiers.codebook
    else:
        answers, test_answers = (
            [scribble_answers(*pair) for pair in zip(part.described, part.known(), strict=True)]
            for part in (train, test)
        )
    pairs = list(zip(train.described, answers, strict=True))
    test_pairs = list(zip(test.described, test_answers, strict=True))
    scale = PotentialScale.of([unary_potentials(*pair, appearance=has_words) for pair in pairs])
    graphs, test_graphs = (
        [superpixel_graph(*pair, scale, appearance=has_words) for pair in of_part]
        for of_part in (pairs, test_pairs)
    )
    return Potentials(graphs, test_graphs, codebook, test_answers if has_words else None)


def _crf(
    settings: CRFSettings, shared: Potentials, train: Images, test: Images, seed: int
) -> Result:
    """A CRF at the C of the best mean IoU in a cross-validation on the training images."""
    data = (shared.train, train.counts)
    found, tuning_seconds = cpu_timed(tuned, *data, settings, CANDIDATES, seed, train.photographs)
    settings, C, validation = found.settings, found.C, found.scores
    trainer, seconds = cpu_timed(fit_crf, *data, settings, C, train.photographs)
    model = CRFModel.of(trainer)
    model.labels(shared.test[0])  # compiled before the clock
    pairs = list(zip(shared.test, test.known(), strict=True))
    labels, argmax_seconds = cpu_timed(lambda: [model.labels(*pair) for pair in pairs])
    last = trainer.history_[-1]
    return {
        **_scores(test, labels, lambda i: model.margins(shared.test[i])),
        "C": C,
        "linear_C": settings.linear_C,
        "validation": sorted(validation.items()),
        "tuning_seconds": tuning_seconds,
        "seconds": seconds,
        "argmax_ms": 1e3 * argmax_seconds / len(labels),
        "gap": certified_gap(last),
        "certified": last["certified"],
        "rounds": last["round"],
    }


def _alone(
    method: str, train: Images, test: Images, codebook: np.ndarray | None, seed: int
) -> Result:
    """A classifier of single superpixels on their visual words or their relation to scribbles."""
    (model, C), seconds = cpu_timed(fit_alone, method, train, codebook, seed)
    rows = [rows_alone(test, codebook, i) for i in range(len(test.names))]
    given = test.known()
    answers = [(model.predict(block), own) for block, own in zip(rows, given, strict=True)]
    labels = [own if given is None else np.where(given < 0, own, given) for own, given in answers]
    scores = _scores(test, labels, lambda i: _signed(model.decision_function(rows[i])))
    return {**scores, "C": C, "seconds": seconds}


def _unaries(test: Images, answers: list[np.ndarray]) -> Result:
    """All classifiers together, of the groups of features and of all of them, and no CRF."""
    probabilities = [combined(answer) for answer in answers]
    labels = [p.argmax(axis=1) for p in probabilities]
    return _scores(test, labels, lambda i: _signed(probabilities[i]))


def fit_alone(
    method: str, train: Images, codebook: np.ndarray | None, seed: int
) -> tuple[Any, float | None]:
    """``adaboost`` or ``svm`` on at most 10,000 superpixels; C is chosen on every third image."""
    rows = [rows_alone(train, codebook, i) for i in range(len(train.names))]
    X, counted = np.concatenate(rows), np.concatenate(train.counts)
    y = counted.argmax(axis=1)
    of_image = np.repeat(np.arange(len(rows)), [len(block) for block in rows])
    usable = np.flatnonzero(counted.sum(axis=1) > 0)
    drawn = np.sort(np.random.default_rng(seed).permutation(usable)[:BOOSTING_ROWS])
    if method == "adaboost":
        boosted = AdaBoostMHClassifier(max_rounds=BOOSTING_ROUNDS, random_state=seed)
        return boosted.fit(X[drawn], y[drawn]), None
    is_held_out = of_image[drawn] % HELD_OUT == 0
    held_out, kept = drawn[is_held_out], drawn[~is_held_out]

    def svm(C: float) -> Any:
        return make_pipeline(StandardScaler(), LinearSVC(C=C, dual="auto", random_state=seed))

    fits = [svm(C).fit(X[kept], y[kept]) for C in SVM_CANDIDATES]
    accuracies = [model.score(X[held_out], y[held_out]) for model in fits]
    C = SVM_CANDIDATES[int(np.argmax(accuracies))]
    return svm(C).fit(X[drawn], y[drawn]), C


def rows_alone(part: Images, codebook: np.ndarray | None, i: int) -> np.ndarray:
    """What a classifier of single superpixels sees of image ``i``."""
    described = part.described[i]
    if codebook is not None:
        return word_histograms(described, codebook)
    return scribble_features(described, scribbled_labels(described, part.strokes[i]))


def _signed(decision: np.ndarray) -> np.ndarray:
    """The foreground's margin, of one column or of two."""
    return decision if decision.ndim == 1 else decision[:, 1] - decision[:, 0]


def _scores(
    test: Images, labels: Sequence[np.ndarray], margins_of: Callable[[int], np.ndarray]
) -> Result:
    """Scores over all images; image by image and over all margins where there are two labels.

    Where a label is given, its margin is beyond all others.
    """
    counts = test.counts
    scores = superpixel_scores(counts, labels)
    found: Result = {"mean_iou": scores.mean_iou, **scores.as_record()}
    if test.n_labels == 2:
        pairs = [(margins_of(i), given) for i, given in enumerate(test.known())]
        margins = [m if g is None else np.where(g < 0, m, 1e9 * (2 * g - 1)) for m, g in pairs]
        stacked = np.concatenate(counts)
        weights = stacked.sum(axis=1)
        found["precision_recall"] = break_even(stacked, np.concatenate(margins), weights)
        each = zip(counts, labels, strict=True)
        found["by_image"] = [superpixel_scores([c], [own]).mean_iou for c, own in each]
    return found


@lru_cache(maxsize=4)
def images(source: Source, data_dir: Path, part: str) -> Images:
    """A part of a set, described; features are kept in ``.bench/features`` of this directory."""
    root = source.root(data_dir)
    parts = read_split(root / "split.txt")
    folders = (root / "images", root / "masks")
    whole = read_folder(*folders, foreground=source.foreground, strict=True).images
    n_labels = n_labels_of(set().union(*(np.unique(image.mask).tolist() for image in whole)))
    read = [image for image in whole if parts.get(image.name) == part]
    cache = FeatureCache(Path(".bench") / "features")
    photographs = ReadWhenUsed(read, lambda image: fitted(image.image, LONGEST))
    described = list(describe_in_turn(photographs, Describing(N_SEGMENTS, cache), n_jobs=1))
    counts = [
        label_counts(d.labels, resized_mask(image.mask, d.labels.shape), n_labels)
        for d, image in zip(described, read, strict=True)
    ]
    names = [image.name for image in read]
    files = [root / folder / f"{name}.png" for folder in source.scribbles for name in names]
    n = max(1, len(source.scribbles))
    strokes = [read_mask(file) for file in files] if files else None
    return Images(names * n, described * n, counts * n, strokes, list(range(len(names))) * n)
