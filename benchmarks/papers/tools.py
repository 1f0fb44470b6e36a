"""Segmentation as a tool: one photograph by strokes, and classifiers of the user's."""

import operator

import cv2
import numpy as np
from scipy.ndimage import distance_transform_edt, label
from skimage.graph import route_through_array
from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import lookup, pick
from benchmarks.runner.targets import all_of, each
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
MADE = {OBJECT: 1, BACKGROUND: 3}  # as many strokes as in most sets by hand
_WIDTH = 5  # pixels
_DEEP = 0.4  # of the largest distance from the border of an object; the ends of a stroke have more
HORSES, PEOPLE, BY_HAND = "weizmann_horse", "human_graz", "grabcut_bsds"
# Set, part (None: all of it), folder of the strokes (None: made), and number of photographs.
CUT_OUT_CASES = {
    "set 1": (BY_HAND, None, "scribbles1", None),
    "set 2": (BY_HAND, None, "scribbles2", None),
    "set 1, test": (BY_HAND, "test", "scribbles1", None),
    "set 2, test": (BY_HAND, "test", "scribbles2", None),
    "made, people": (PEOPLE, "test", None, 30),
    "made, horses": (HORSES, "test", None, 30),
}


def drawn(root, part, n, seed):
    """Photographs of a part of a set or of all of it; all of them, or ``n`` drawn at random."""
    parts = read_split(root / "split.txt")
    names = [name for name, own in parts.items() if part in (own, None)]
    chosen = np.random.default_rng(seed).permutation(len(names))[:n]
    sorted_names = [names[index] for index in sorted(chosen)]
    return read_folder(root / "images", root / "masks", names=sorted_names).images


def made_strokes(mask, random):
    """Curves well inside the object and the background, between random places of one region."""
    strokes = np.zeros(mask.shape, np.uint8)
    for value, n in MADE.items():
        inside = mask == (1 if value == OBJECT else 0)
        depth = distance_transform_edt(np.pad(inside, 1))[1:-1, 1:-1]
        regions, _ = label(inside)
        costs = np.where(inside, 1 / np.maximum(depth, 1), 1e6)
        for _ in range(n):
            ends = np.argwhere(depth >= _DEEP * depth.max())
            first = random.choice(ends)
            last = random.choice(ends[regions[tuple(ends.T)] == regions[tuple(first)]])
            path, _ = route_through_array(costs, first, last)
            curve = np.zeros_like(strokes)
            cv2.polylines(curve, [np.array(path, np.int32)[:, ::-1]], False, 1, _WIDTH)
            strokes[(curve == 1) & inside] = value
    return strokes


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
    """Scores over photographs, with the strokes of a folder of the set or made ones."""
    name, part, strokes, n = CUT_OUT_CASES[case]
    root = source.folder / "segmentation" / name
    random, counts, seconds = np.random.default_rng(0), [], []
    for labelled in drawn(root, part, n, 0):
        truth, file = labelled.mask, f"{labelled.name}.png"
        by_hand = None if strokes is None else read_mask(root / strokes / file)
        own = made_strokes(truth, random) if by_hand is None else by_hand
        mask, spent = cpu_timed(method, labelled.image, own)
        counts.append(confusion(truth, mask, 2))
        seconds.append(spent)
    foreground = float(np.mean([SegmentationScores(count).iou[1] for count in counts]))
    value = SegmentationScores.of(counts).mean_iou
    return {"value": value, "foreground": foreground, "seconds": float(np.mean(seconds))}


CUTTERS = {"structboost": StrokeSegmenter().predict, "grabcut": grabcut}


OURS, GRABCUT, SEEDS = "structboost", "grabcut", 4
PHOTOGRAPHS = tuple(f"segmentation/{name}" for name in (HORSES, PEOPLE))
COMMON = {"metrics": {"value": "value"}, "by": ("case",)}


def strokes(source, learner):
    return [{"case": case} for case in CUT_OUT_CASES]


def seeds(source, learner):
    return [{"case": case, "seed": k} for case in (HORSES, PEOPLE) for k in range(SEEDS)]


EXPERIMENTS = [
    Experiment(
        {"strokes": (*PHOTOGRAPHS, f"segmentation/{BY_HAND}")}, CUTTERS, cut_out, strokes, **COMMON
    ),
    Experiment({"own unaries": PHOTOGRAPHS}, UNARIES, with_own_unaries, seeds, **COMMON),
]


def show(made):
    of_strokes, unaries = (pick(made, dataset=name) for name in ("strokes", "own unaries"))
    rows = ("case",)
    return blocks(
        across("One photograph by strokes: mean IoU", of_strokes, form="{:.1%}", rows=rows),
        across("Foreground IoU", of_strokes, "foreground", "{:.1%}", rows=rows),
        across("CPU seconds of a photograph", of_strokes, "seconds", "{:.2f}", rows=rows),
        across("Segmenter(unaries=...): mean IoU", unaries, form="{:.1%}", rows=rows),
    )


def targets(made):
    at = lookup(made, "case", "method")

    def above(wanted, *cases):
        """Ours is above GrabCut in both measures."""
        heads = {"foreground": "foreground IoU", "value": "mean IoU"}
        both = [
            (f"{case}, {head}", holds)
            for name, head in heads.items()
            for case, holds in each(at, cases, operator.gt, OURS, GRABCUT, name=name)
        ]
        return all_of(wanted, both, 4)

    def near(method, title):
        beside = (lambda own, other: own >= other - 0.01), method, BUILT_IN
        holds = each(at, (HORSES, PEOPLE), *beside)
        return all_of(f"{title} within 1 point of the built in", holds, 2)

    return [
        above("strokes by hand, 18 photographs: above GrabCut", "set 1", "set 2"),
        above("strokes by hand, the nine test photographs", "set 1, test", "set 2, test"),
        above("made strokes: above GrabCut", "made, people", "made, horses"),
        near(OWN_CLASSIFIER, "StructBoostClassifier"),
        near(FOREST, "forest and linear"),
    ]
