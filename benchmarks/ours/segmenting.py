"""Segmentation of photographs: superpixels alone, and CRFs, linear and boosted, on one split."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.ours.methods import certified_gap
from benchmarks.runner.protocol import cpu_timed
from structboost import AdaBoostMHClassifier
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import CRFSettings, fit_crf, superpixel_scores, tuned
from structboost.segmentation.descriptors import DescribedImage, label_counts, word_histograms
from structboost.segmentation.feature_cache import Describing, FeatureCache, describe_in_turn
from structboost.segmentation.image_files import ReadWhenUsed, read_mask, resized_mask, shrink_to
from structboost.segmentation.labelled_folder import read_folder, read_split
from structboost.segmentation.masks import n_labels_of
from structboost.segmentation.potentials import PotentialScale, superpixel_graph, unary_potentials
from structboost.segmentation.scores import break_even
from structboost.segmentation.scribbles import (
    scribble_features,
    scribble_log_probabilities,
    scribbled_labels,
)
from structboost.segmentation.unaries import combine
from structboost.segmentation.unary_training import fit_unaries

CACHE = Path(".bench") / "features"
N_SEGMENTS, LONGEST = 300, 512
BOOSTING_ROUNDS, BOOSTING_ROWS = 1000, 10_000  # of AdaBoost alone; section 4.5
# On standardised histograms; the paper has 1e2..1e7 on its own scale.
SVM_CANDIDATES, HELD_OUT = (1e-3, 1e-2, 1e-1, 1.0), 3
CANDIDATES = None  # for C of the CRFs: the default ones
BASELINE, OURS = "ssvm", "structboost_linear_and_stumps"
CRFS = {
    BASELINE: CRFSettings(learner="ssvm"),
    OURS: CRFSettings(),
    f"{OURS}_no_edges": CRFSettings(pairwise=False),
}


class Photographs(NamedTuple):
    """A set of the data folder, the class taken for foreground, and the folders of scribbles."""

    folder: str
    foreground: int | None = None
    scribbles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Images:
    """Described images of a part of a set, and the pixels of each class in each superpixel.

    A photograph with two sets of scribbles comes twice, under one index in ``photographs``.
    """

    described: list[DescribedImage]
    counts: list[np.ndarray]
    strokes: list[np.ndarray] | None
    photographs: list[int]

    @property
    def is_binary(self):
        return self.counts[0].shape[1] == 2

    def labels_of_strokes(self):
        """Labels that the scribbles give; all methods take them as they are."""
        if self.strokes is None:
            return [None] * len(self.described)
        return [scribbled_labels(*pair) for pair in zip(self.described, self.strokes, strict=True)]


class Potentials(NamedTuple):
    """CRFs of the training images, cross-fitted, and of the test images.

    The codebook of visual words and the classifiers' responses for the test images are None where
    there are scribbles.
    """

    train: list[Any]
    test: list[Any]
    codebook: np.ndarray | None
    responses: list[np.ndarray] | None


def compare(source, photographs, *, seed):
    """All methods on the same potentials; a result by method."""
    root = source.folder / "segmentation" / photographs.folder
    train, test = (images(photographs, root, part) for part in ("train", "test"))
    shared, seconds = cpu_timed(potentials, train, test, seed)
    seen = "scribbles" if shared.codebook is None else "words"
    methods = {
        f"{method}_{seen}": _alone(method, train, test, shared.codebook, seed)
        for method in ("adaboost", "svm")
    }
    if shared.responses is not None:
        p = [combine(response) for response in shared.responses]
        labels = [own.argmax(axis=1) for own in p]
        methods["unaries"] = _scores(test, labels, lambda i: _signed(p[i]))
    for method, settings in CRFS.items():
        methods[method] = _crf(settings, shared, train, test, seed)
    return {"unary_seconds": seconds, "n_test": len(test.described), "methods": methods}


def potentials(train, test, seed):
    """Potentials that all CRFs of a seed have in common."""
    has_words = train.strokes is None
    codebook = None
    if has_words:
        classifiers, responses = fit_unaries(train.described, train.counts, random_state=seed)
        at_test = [classifiers.log_probabilities(image) for image in test.described]
        codebook = classifiers.codebook
    else:
        responses, at_test = (
            [
                scribble_log_probabilities(*pair)
                for pair in zip(part.described, part.labels_of_strokes(), strict=True)
            ]
            for part in (train, test)
        )
    pairs = list(zip(train.described, responses, strict=True))
    test_pairs = list(zip(test.described, at_test, strict=True))
    scale = PotentialScale.of([unary_potentials(*pair, appearance=has_words) for pair in pairs])
    graphs, test_graphs = (
        [superpixel_graph(*pair, scale, appearance=has_words) for pair in of_part]
        for of_part in (pairs, test_pairs)
    )
    return Potentials(graphs, test_graphs, codebook, at_test if has_words else None)


def _crf(settings, shared, train, test, seed):
    """A CRF at the C of the best mean IoU in a cross-validation on the training images."""
    data = (shared.train, train.counts)
    choice, tuning_seconds = cpu_timed(tuned, *data, settings, CANDIDATES, seed, train.photographs)
    settings, C = choice.settings, choice.C
    trainer, seconds = cpu_timed(fit_crf, *data, settings, C, train.photographs)
    model = CRFModel.of(trainer)
    model.labels(shared.test[0])  # compiled before the clock
    pairs = list(zip(shared.test, test.labels_of_strokes(), strict=True))
    labels, argmax_seconds = cpu_timed(lambda: [model.labels(*pair) for pair in pairs])
    last = trainer.history_[-1]
    return {
        **_scores(test, labels, lambda i: model.margins(shared.test[i])),
        **{"C": C, "linear_C": settings.linear_C, "validation": sorted(choice.scores.items())},
        **{"tuning_seconds": tuning_seconds, "seconds": seconds},
        "argmax_ms": 1e3 * argmax_seconds / len(labels),
        **{"gap": certified_gap(last), "certified": last["certified"], "rounds": last["round"]},
    }


def _alone(method, train, test, codebook, seed):
    """A classifier of single superpixels on their visual words or their relation to scribbles."""
    (model, C), seconds = cpu_timed(_fit_alone, method, train, codebook, seed)
    rows = [_rows_alone(test, codebook, i) for i in range(len(test.described))]
    pairs = zip(map(model.predict, rows), test.labels_of_strokes(), strict=True)
    labels = [own if drawn is None else np.where(drawn < 0, own, drawn) for own, drawn in pairs]
    scores = _scores(test, labels, lambda i: _signed(model.decision_function(rows[i])))
    return {**scores, "C": C, "seconds": seconds}


def _fit_alone(method, train, codebook, seed):
    """``adaboost`` or ``svm`` on at most 10,000 superpixels; C is chosen on every third image."""
    rows = [_rows_alone(train, codebook, i) for i in range(len(train.described))]
    X, counted = np.concatenate(rows), np.concatenate(train.counts)
    y = counted.argmax(axis=1)
    of_image = np.repeat(np.arange(len(rows)), [len(block) for block in rows])
    usable = np.flatnonzero(counted.sum(axis=1) > 0)
    drawn = np.sort(np.random.default_rng(seed).permutation(usable)[:BOOSTING_ROWS])
    if method == "adaboost":
        boosted = AdaBoostMHClassifier(max_rounds=BOOSTING_ROUNDS, random_state=seed)
        return boosted.fit(X[drawn], y[drawn]), None
    is_held_out = of_image[drawn] % HELD_OUT == 0
    held_out, rest = drawn[is_held_out], drawn[~is_held_out]

    def svm(C):
        return make_pipeline(StandardScaler(), LinearSVC(C=C, dual="auto", random_state=seed))

    fits = [svm(C).fit(X[rest], y[rest]) for C in SVM_CANDIDATES]
    accuracies = [model.score(X[held_out], y[held_out]) for model in fits]
    C = SVM_CANDIDATES[int(np.argmax(accuracies))]
    return svm(C).fit(X[drawn], y[drawn]), C


def _rows_alone(part, codebook, i):
    """Features of the superpixels of image ``i`` for a classifier of single ones."""
    described = part.described[i]
    if codebook is not None:
        return word_histograms(described, codebook)
    return scribble_features(described, scribbled_labels(described, part.strokes[i]))


def _signed(decision):
    """The foreground's margin, of one column or of two."""
    return decision if decision.ndim == 1 else decision[:, 1] - decision[:, 0]


def _scores(test, labels, margins_of):
    """Scores over all images; image by image and over all margins where there are two labels.

    Where a label is drawn, its margin is beyond all others.
    """
    counts = test.counts
    scores = superpixel_scores(counts, labels)
    result = {"mean_iou": scores.mean_iou, **scores.as_record()}
    if test.is_binary:
        pairs = [(margins_of(i), drawn) for i, drawn in enumerate(test.labels_of_strokes())]
        margins = [m if g is None else np.where(g < 0, m, 1e9 * (2 * g - 1)) for m, g in pairs]
        stacked = np.concatenate(counts)
        weights = stacked.sum(axis=1)
        result["precision_recall"] = break_even(stacked, np.concatenate(margins), weights)
        each = zip(counts, labels, strict=True)
        result["by_image"] = [superpixel_scores([c], [own]).mean_iou for c, own in each]
    return result


@lru_cache(maxsize=4)
def images(photographs, root, part):
    """A part of a set, described; features are kept in ``.bench/features`` of this directory."""
    parts = read_split(root / "split.txt")
    folders = (root / "images", root / "masks")
    whole = read_folder(*folders, foreground=photographs.foreground, strict=True).images
    n_labels = n_labels_of(set().union(*(np.unique(image.mask).tolist() for image in whole)))
    read = [image for image in whole if parts.get(image.name) == part]
    shrunk = ReadWhenUsed(read, lambda image: shrink_to(image.image, LONGEST))
    describing = Describing(N_SEGMENTS, FeatureCache(CACHE))
    described = list(describe_in_turn(shrunk, describing, n_jobs=1))
    counts = [
        label_counts(d.labels, resized_mask(image.mask, d.labels.shape), n_labels)
        for d, image in zip(described, read, strict=True)
    ]
    files = [
        root / drawn / f"{image.name}.png" for drawn in photographs.scribbles for image in read
    ]
    n = max(1, len(photographs.scribbles))
    strokes = [read_mask(file) for file in files] if files else None
    return Images(described * n, counts * n, strokes, list(range(len(read))) * n)
