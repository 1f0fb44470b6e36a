"""Segmentation as in Table 6 of StructBoost, on other data: superpixels alone, and CRFs."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.ours.methods import certified_gap
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import lookup, mean, pick, std
from structboost import AdaBoostMHClassifier
from structboost.segmentation.crf import (
    CRFModel,
    CRFSettings,
    PotentialScale,
    fit_crf,
    superpixel_graph,
    superpixel_scores,
    tuned,
    unary_potentials,
)
from structboost.segmentation.descriptors import (
    DescribedImage,
    describe,
    label_counts,
    word_histograms,
)
from structboost.segmentation.masks import read_folder, read_split
from structboost.segmentation.scribbles import (
    scribble_features,
    scribble_log_probabilities,
    scribbled_labels,
)
from structboost.segmentation.unaries import combine, fit_unaries
from structboost.vision.images import ReadWhenUsed, read_mask, resized_mask, shrink_to

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


SETS = {
    "weizmann_horse": Photographs("weizmann_horse"),
    "human_graz": Photographs("human_graz"),
    "grabcut_bsds": Photographs("grabcut_bsds", scribbles=("scribbles1", "scribbles2")),
    "msrc_bicycle": Photographs("msrc21", foreground=10),
    "msrc_car": Photographs("msrc21", foreground=9),
    "msrc_cow": Photographs("msrc21", foreground=3),
    "msrc21": Photographs("msrc21"),
}


@dataclass(frozen=True)
class Images:
    """Described images of a part of a set, and the pixels of each class in each superpixel.

    ``drawn`` are labels that scribbles give, which all methods take as they are, else None. A
    photograph with two sets of scribbles comes twice, under one index in ``photographs``.
    """

    described: list[DescribedImage]
    counts: list[np.ndarray]
    drawn: list[np.ndarray | None]
    photographs: list[int]


@lru_cache(maxsize=4)
def images(photographs, root, part):
    """A part of a set, described."""
    parts = read_split(root / "split.txt")
    folders = (root / "images", root / "masks")
    whole, meaning = read_folder(*folders, foreground=photographs.foreground)
    n_labels = meaning.n_labels(set().union(*(np.unique(image.values).tolist() for image in whole)))
    read = [image for image in whole if parts.get(image.name) == part]
    shrunk = ReadWhenUsed(read, lambda image: shrink_to(image.image, LONGEST))
    described = [describe(image, N_SEGMENTS) for image in shrunk]
    counts = [
        label_counts(d.labels, resized_mask(image.mask, d.labels.shape), n_labels)
        for d, image in zip(described, read, strict=True)
    ]
    drawn = [
        scribbled_labels(one, read_mask(root / folder / f"{image.name}.png"))
        for folder in photographs.scribbles
        for one, image in zip(described, read, strict=True)
    ]
    n = max(1, len(photographs.scribbles))
    return Images(described * n, counts * n, drawn or [None] * len(read), [*range(len(read))] * n)


def compare(source, photographs, *, seed):
    """Measure all methods on the same potentials, a row for each."""
    root = source.folder / source.files[0]
    train, test = (images(photographs, root, part) for part in ("train", "test"))
    (graphs, codebook, responses), seconds = cpu_timed(potentials, train, test, seed)
    seen = "scribbles" if codebook is None else "words"
    rows = [
        {"method": f"{method}_{seen}", **_alone(method, train, test, codebook, seed)}
        for method in ("adaboost", "svm")
    ]
    if codebook is not None:
        p = [combine(response) for response in responses]
        scores = _scores(test, [own.argmax(axis=1) for own in p], map(_signed, p))
        rows.append({"method": "unaries", **scores})
    for method, settings in CRFS.items():
        rows.append({"method": method, **_crf(settings, *graphs, train, test, seed)})
    return {"unary_seconds": seconds, "rows": rows}


def potentials(train, test, seed):
    """Graphs of the training images, cross-fitted, and of the test images, for all CRFs of a seed.

    Also the codebook of visual words, None where there are scribbles, and the classifiers'
    responses for the test images.
    """
    codebook, has_words = None, train.drawn[0] is None
    if has_words:
        classifiers, responses = fit_unaries(train.described, train.counts, random_state=seed)
        at_test = [classifiers.log_probabilities(image) for image in test.described]
        codebook = classifiers.codebook
    else:
        responses, at_test = (
            list(map(scribble_log_probabilities, part.described, part.drawn))
            for part in (train, test)
        )
    pairs = list(zip(train.described, responses, strict=True))
    scale = PotentialScale.of([unary_potentials(*pair, appearance=has_words) for pair in pairs])
    graphs = [
        [superpixel_graph(*pair, scale, appearance=has_words) for pair in of_part]
        for of_part in (pairs, zip(test.described, at_test, strict=True))
    ]
    return graphs, codebook, at_test


def _crf(settings, graphs, test_graphs, train, test, seed):
    """A CRF at the C of the best mean IoU in a cross-validation on the training images."""
    data = (graphs, train.counts)
    chosen, C, _ = tuned(*data, settings, CANDIDATES, seed, train.photographs)
    trainer, seconds = cpu_timed(fit_crf, *data, chosen, C, train.photographs)
    model = CRFModel(trainer.model_)
    model.labels_and_costs(test_graphs[0])  # compiled before the clock
    pairs = list(zip(test_graphs, test.drawn, strict=True))
    labels, argmax_seconds = cpu_timed(lambda: [model.labels_and_costs(*p)[0] for p in pairs])
    last = trainer.history_[-1]
    return {
        **_scores(test, labels, (-_signed(model.labels_and_costs(one)[1]) for one in test_graphs)),
        **{"C": C, "seconds": seconds, "argmax_ms": 1e3 * argmax_seconds / len(labels)},
        **{"gap": certified_gap(last), "rounds": last["round"]},
    }


def _alone(method, train, test, codebook, seed):
    """A classifier of single superpixels on their visual words or their relation to scribbles.

    ``adaboost`` or ``svm``, on at most 10,000 superpixels; C is chosen on every third image.
    """
    rows, at_test = (_rows_alone(part, codebook) for part in (train, test))
    X, counted = np.concatenate(rows), np.concatenate(train.counts)
    y = counted.argmax(axis=1)
    of_image = np.repeat(np.arange(len(rows)), [len(block) for block in rows])
    usable = np.flatnonzero(counted.sum(axis=1) > 0)
    used = np.sort(np.random.default_rng(seed).permutation(usable)[:BOOSTING_ROWS])
    if method == "adaboost":
        model = AdaBoostMHClassifier(max_rounds=BOOSTING_ROUNDS, random_state=seed)
    else:
        fold = PredefinedSplit(np.where(of_image[used] % HELD_OUT == 0, 0, -1))
        svm = make_pipeline(StandardScaler(), LinearSVC(dual="auto", random_state=seed))
        model = GridSearchCV(svm, {"linearsvc__C": SVM_CANDIDATES}, cv=fold)
    _, seconds = cpu_timed(model.fit, X[used], y[used])
    labels = [
        own if drawn is None else np.where(drawn < 0, own, drawn)
        for own, drawn in zip(map(model.predict, at_test), test.drawn, strict=True)
    ]
    margins = (_signed(model.decision_function(own)) for own in at_test)
    return {**_scores(test, labels, margins), "seconds": seconds}


def _rows_alone(part, codebook):
    """Features of the superpixels of each image for a classifier of single ones."""
    if codebook is not None:
        return [word_histograms(image, codebook) for image in part.described]
    return list(map(scribble_features, part.described, part.drawn))


def _signed(decision):
    """The foreground's margin, of one column or of two."""
    return decision if decision.ndim == 1 else decision[:, 1] - decision[:, 0]


def _scores(test, labels, margins):
    """Scores over all images, and over all margins where there are two labels.

    Where a label is drawn, its margin is beyond all others.
    """
    scores = superpixel_scores(test.counts, labels)
    result = {"mean_iou": scores.mean_iou, **scores.as_record()}
    if len(scores.confusion) == 2:
        certain = [
            own if drawn is None else np.where(drawn < 0, own, 1e9 * (2 * drawn - 1))
            for own, drawn in zip(margins, test.drawn, strict=True)
        ]
        counts = np.concatenate(test.counts)
        result["precision_recall"] = break_even(counts, np.concatenate(certain))
    return result


def break_even(counts, margins):
    """Precision where as many pixels are selected as are foreground, and so it equals recall.

    ``counts`` has the background and foreground pixels of each superpixel (Fulkerson et al., ICCV
    2009; Table 6 of StructBoost).
    """
    order = np.argsort(-margins, kind="stable")
    sums = np.cumsum(np.column_stack((counts.sum(axis=1), counts[:, 1]))[order], axis=0)
    taken, hit = np.vstack((np.zeros(2), sums)).T
    return float(np.interp(hit[-1], taken, hit) / hit[-1])


def cases(source, learner):
    return [{"seed": seed} for seed in range(1 if source.name.startswith("msrc") else 2)]


METRICS = (
    "mean_iou iou_foreground iou_background accuracy precision_recall "
    "global_accuracy class_accuracy"
).split()
EXPERIMENTS = [
    Experiment(
        {name: (f"segmentation/{own.folder}",) for name, own in SETS.items()},
        lambda source: {"all": SETS[source.name]},
        *(compare, cases, {name: name for name in METRICS}),
    )
]


def derived(made):
    """Records with the differences to the structured SVM, and to the best of those alone."""
    at = lookup(made, "dataset", "method", "metric")
    for r in made:
        name, metric = r["dataset"], r["metric"]
        baseline = at(name, BASELINE, metric, name="each")
        if r["method"] != BASELINE and baseline:
            differences = [a - b for a, b in zip(r["each"], baseline, strict=False)]
            r["difference"], r["difference_std"] = mean(differences), std(differences)
        alone = pick(made, dataset=name, metric=metric)
        best = [o["value"] for o in alone if o["method"].startswith(("adaboost", "svm"))]
        r["over_alone"] = r["value"] - max(best) if best else None
    return made
