"""Segmentation as a tool: one photograph by strokes, and classifiers of the user's."""

import cv2
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.runner.experiment import Experiment
from benchmarks.runner.protocol import cpu_timed
from structboost import StructBoostClassifier
from structboost.segmentation import OwnUnaries, Segmenter, StrokeSegmenter, read_folder, read_split
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.scribbles import BACKGROUND, OBJECT
from structboost.segmentation.unaries import UnarySettings
from structboost.vision.images import read_mask, swapped_channels

OWN_CLASSIFIER, FOREST, BUILT_IN = "StructBoostClassifier", "forest and linear", "built in"
N_PHOTOGRAPHS = 30


def _forest(seed):
    """The classifier of the guide."""
    settings = {"min_samples_leaf": 4, "max_samples": 0.5, "bootstrap": True}
    trees = ExtraTreesClassifier(150, random_state=seed, **settings)
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=60))
    return VotingClassifier([("trees", trees), ("linear", linear)], voting="soft")


UNARIES = {
    BUILT_IN: lambda seed: UnarySettings(),
    OWN_CLASSIFIER: lambda seed: OwnUnaries(StructBoostClassifier(random_state=seed)),
    FOREST: lambda seed: OwnUnaries(_forest(seed)),
}


def with_own_unaries(source, unaries, *, case, seed):
    """Mean IoU on photographs drawn from the test part, after training on as many others."""
    root = source.folder / "segmentation" / case
    parts = [drawn(root, part, N_PHOTOGRAPHS, seed) for part in ("train", "test")]
    train, test = (([one.image for one in p], [one.mask for one in p]) for p in parts)
    segmenter = Segmenter(C=0.3, unaries=unaries(seed), random_state=seed)
    return {"value": segmenter.fit(*train).score(*test)}


GRABCUT_ROUNDS = 5
HORSES, PEOPLE, BY_HAND = "weizmann_horse", "human_graz", "grabcut_bsds"
# Part (None: all of it), and folder of the strokes.
CUT_OUT_CASES = {
    "set 1": (None, "scribbles1"),
    "set 2": (None, "scribbles2"),
    "set 1, test": ("test", "scribbles1"),
    "set 2, test": ("test", "scribbles2"),
}


def drawn(root, part, n, seed):
    """Photographs of a part of a set or of all of it; all of them, or ``n`` drawn at random."""
    parts = read_split(root / "split.txt")
    names = [name for name, own in parts.items() if part in (own, None)]
    chosen = np.random.default_rng(seed).permutation(len(names))[:n]
    sorted_names = [names[index] for index in sorted(chosen)]
    return read_folder(root / "images", root / "masks", names=sorted_names).images


def grabcut(image, strokes):
    """OpenCV's mask: pixels without a stroke are probably background."""
    labels = np.full(strokes.shape, cv2.GC_PR_BGD, np.uint8)
    for value, own in {OBJECT: cv2.GC_FGD, BACKGROUND: cv2.GC_BGD}.items():
        labels[strokes == value] = own
    cv2.setRNGSeed(0)
    models = np.zeros((1, 65)), np.zeros((1, 65))
    picture = swapped_channels(image)
    cv2.grabCut(picture, labels, None, *models, GRABCUT_ROUNDS, cv2.GC_INIT_WITH_MASK)
    return np.isin(labels, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)


def cut_out(source, method, *, case):
    """Scores over photographs, with the strokes of a folder of the set."""
    part, strokes = CUT_OUT_CASES[case]
    root, counts, seconds = source.folder / "segmentation" / BY_HAND, [], []
    for labelled in drawn(root, part, None, 0):
        by_hand = read_mask(root / strokes / f"{labelled.name}.png")
        mask, spent = cpu_timed(method, labelled.image, by_hand)
        counts.append(confusion(labelled.mask, mask, 2))
        seconds.append(spent)
    foreground = float(np.mean([SegmentationScores(count).iou[1] for count in counts]))
    value = SegmentationScores.of(counts).mean_iou
    return {"value": value, "foreground": foreground, "seconds": float(np.mean(seconds))}


CUTTERS = {"structboost": StrokeSegmenter().predict, "grabcut": grabcut}


SEEDS = 4
PHOTOGRAPHS = tuple(f"segmentation/{name}" for name in (HORSES, PEOPLE))
COMMON = {"metrics": {"mean IoU": "value", "foreground IoU": "foreground"}, "by": ("case",)}


def strokes(source, learner):
    return [{"case": case} for case in CUT_OUT_CASES]


def seeds(source, learner):
    return [{"case": case, "seed": k} for case in (HORSES, PEOPLE) for k in range(SEEDS)]


EXPERIMENTS = [
    Experiment({"strokes": (f"segmentation/{BY_HAND}",)}, CUTTERS, cut_out, strokes, **COMMON),
    Experiment({"own unaries": PHOTOGRAPHS}, UNARIES, with_own_unaries, seeds, **COMMON),
]
