"""Segmentation and tracking as tools: strokes, own classifiers, lost objects, encoded video."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import cv2
import numpy as np
from scipy.ndimage import distance_transform_edt, label
from skimage.graph import route_through_array
from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.papers.segmentation import CACHE
from benchmarks.papers.tracking import FILES, NAMES, load_sequence, track
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import grouped, less, lookup, pick, record
from benchmarks.runner.targets import all_of, reach
from structboost import StructBoostClassifier
from structboost.inference.boxes import overlaps
from structboost.segmentation import OwnUnaries, Segmenter, StrokeSegmenter, read_folder, read_split
from structboost.segmentation.image_files import read_mask
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.scribbles import BACKGROUND, OBJECT
from structboost.segmentation.unaries import UnarySettings
from structboost.tracking import StructBoostTracker, VideoWriter
from structboost.tracking.object_search import size_of
from structboost.vision.images import as_rgb, swapped_channels

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
    segmenter = Segmenter(C=0.3, unaries=unaries(seed), random_state=seed, cache=CACHE)
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
    return read_folder(root / "images", root / "masks", names=sorted_names, strict=True).images


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


# "cut": frames of another sequence between two, then the frames moved around; "vanish": the object
# is painted over while the video goes on, then pasted elsewhere; "distractor": it is painted over,
# and the object of another sequence moves around.
KINDS = ("cut", "vanish", "distractor")
ENCODED = "mp4"
BEFORE, ABSENT, AFTER, IN_TIME = 40, 20, 40, 25
CLIPS = 6
_FAR = 2.0  # sizes of the object
_SAME = 0.3  # overlap


class Absence(NamedTuple):
    """Frames, and the true box in each: NaN where there is none."""

    frames: list[np.ndarray]
    truth: np.ndarray


def made_absence(sequence, other, kind, random):
    """The object for BEFORE frames, none for ABSENT, then it is back; None if there is no room."""
    frames, truth = [as_rgb(frame) for frame in sequence.frames()], sequence.truth
    strangers = [as_rgb(frame) for frame in other.frames()]
    length = BEFORE + ABSENT + AFTER
    starts = [
        start
        for start in range(len(frames) - length + 1)
        if not np.isnan(truth[start : start + length]).any()
    ]
    if not starts:
        return None
    at = int(random.choice(starts)) + np.arange(length)
    if kind == "cut":
        at[BEFORE:] -= ABSENT
    frames, truth = [frames[index] for index in at], truth[at].copy()
    last = truth[BEFORE - 1]
    shift = _far_shift(last, frames[0].shape, random)
    if shift is None:
        return None
    stranger = _cut_out(strangers[0], other.truth[0])
    end = BEFORE + ABSENT if kind != "distractor" else length
    for index in range(BEFORE, length):
        image, box, step = frames[index], truth[index].copy(), index - BEFORE
        if index < end and kind == "cut":
            size = image.shape[1::-1]
            frames[index] = cv2.resize(strangers[step % len(strangers)], size)
        elif kind == "cut":
            frames[index] = np.roll(image, shift[::-1], (0, 1))
            truth[index, :2] = box[:2] + shift
        else:
            frames[index] = _painted_over(image, box)
            place = last[:2] + shift + [0.5 * step, 0.0]
            if index >= end:
                truth[index] = _pasted(frames[index], _cut_out(image, box), place)
            elif kind == "distractor":
                same = cv2.resize(stranger, np.maximum(last[2:], 4).astype(int))
                _pasted(frames[index], same, place)
        if index < end:
            truth[index] = np.nan
    return Absence(frames, truth)


def _measured(absence, seed):
    """Whether the object was held, was seen to be lost, came back in time, or falsely."""
    tracker = StructBoostTracker(random_state=seed)
    tracker.init(absence.frames[0], absence.truth[0])
    lost, same = [False], [True]
    for frame, truth in zip(absence.frames[1:], absence.truth[1:], strict=True):
        tracker.update(frame)
        lost.append(tracker.lost)
        same.append(bool(overlaps(tracker.box, truth[None])[0] > _SAME))
    end = int(np.flatnonzero(np.isnan(absence.truth[:, 0]))[-1]) + 1
    back = [n for n in range(end, len(lost)) if same[n] and not lost[n]]
    seen = [n for n in range(BEFORE, end) if lost[n]]
    return {
        "held": same[BEFORE - 1] and not lost[BEFORE - 1],
        "noticed": bool(seen) and seen[0] < BEFORE + 5,
        "in_time": bool(back) and back[0] - end + 1 <= IN_TIME,
        "false_returns": bool(seen) and not all(lost[seen[0] : end]),
    }


def _far_shift(box, shape, random):
    """Whole pixels to a place in the frame that is far away."""
    room = np.maximum(np.array(shape[1::-1]) - box[2:], 1.0)
    for _ in range(1000):
        shift = np.floor(random.uniform(0, room) - box[:2]).astype(int)
        if np.hypot(*shift) >= _FAR * size_of(box):
            return shift
    return None


def _cut_out(image, box):
    left, top, width, height = np.rint(box).astype(int)
    return image[max(top, 0) : top + height, max(left, 0) : left + width]


def _painted_over(image, box):
    mask = np.zeros(image.shape[:2], np.uint8)
    near = np.maximum(np.floor(box[:2] - 0.12 * box[2:]), 0).astype(int)
    far = np.ceil(box[:2] + 1.12 * box[2:]).astype(int)
    mask[near[1] : far[1], near[0] : far[0]] = 255
    return cv2.inpaint(image, mask, 3, cv2.INPAINT_TELEA)


def _pasted(image, part, place):
    """Paste into ``image``; returns the box."""
    height, width = part.shape[:2]
    left, top = np.clip(place, 0, [image.shape[1] - width, image.shape[0] - height]).astype(int)
    image[top : top + height, left : left + width] = part
    return np.array([left, top, width, height], float)


def found_again(source, name, *, case):
    """Counts over the clips of a kind that are made from a sequence."""
    names = [other for other in NAMES if other != name]
    sequence, clips = load_sequence(name, source.folder), []
    for seed in range(CLIPS):
        random = np.random.default_rng([seed, NAMES.index(name), KINDS.index(case)])
        other = load_sequence(str(random.choice(names)), source.folder)
        absence = made_absence(sequence, other, case, random)
        clips += [] if absence is None else [_measured(absence, seed)]
    held = [one for one in clips if one["held"]]
    counts = {key: sum(one[key] for one in held) for key in ("noticed", "in_time", "false_returns")}
    return {"clips": len(clips), "held": len(held), **counts}


def overlap(source, is_encoded, *, case, seed):
    """Mean overlap with the truth, from the images or from the video that is made of them."""
    sequence, tracker = load_sequence(case, source.folder), StructBoostTracker
    if not is_encoded:
        return {"value": track(sequence, tracker, seed)["value"]}
    with TemporaryDirectory() as folder:
        return {
            "value": track(encoded(sequence, Path(folder) / "clip.mp4"), tracker, seed)["value"]
        }


def encoded(sequence, path):
    """The sequence as a video."""
    with VideoWriter(path) as writer:
        for frame in sequence.frames():
            writer.write(as_rgb(frame))
    return replace(sequence, folder=path)


OURS, GRABCUT, SEQUENCES = "structboost", "grabcut", NAMES
SEEDS, OWN_SEEDS = 3, 4
VIDEOS = {"images": False, ENCODED: True}
JUMPS = ("cut", "vanish")
COUNTS = ("clips", "held", "noticed", "in_time", "false_returns")


def _each(names, seeds=0):
    """Each case, and each seed if there are some."""

    def cases(source, learner):
        if seeds:
            return [{"case": case, "seed": seed} for case in names for seed in range(seeds)]
        return [{"case": case} for case in names if not source.quick or "made" not in case]

    return cases


PHOTOGRAPHS = tuple(f"segmentation/{name}" for name in (HORSES, PEOPLE))
STROKES = {"strokes": (*PHOTOGRAPHS, f"segmentation/{BY_HAND}")}
VIDEO = tuple(file for files in FILES.values() for file in files)
COMMON = {"metrics": {"value": "value"}, "by": ("case",)}
EXPERIMENTS = [
    Experiment(
        *(STROKES, CUTTERS, cut_out, _each(CUT_OUT_CASES)),
        **COMMON,
        small=("strokes",),
    ),
    Experiment(
        *({"own unaries": PHOTOGRAPHS}, UNARIES, with_own_unaries),
        _each((HORSES, PEOPLE), OWN_SEEDS),
        **COMMON,
    ),
    Experiment(
        *({"absences": VIDEO}, {name: name for name in SEQUENCES}, found_again),
        _each(KINDS),
        {"counts": "clips"},
        by=("case",),
    ),
    Experiment(*({"video": VIDEO}, VIDEOS, overlap, _each(SEQUENCES, SEEDS)), **COMMON),
]


def derived(made):
    """Records in which clips of all sequences are counted together."""
    others = [r for r in made if r["dataset"] != "absences"]
    for case, own in grouped((r["case"], r) for r in pick(made, dataset="absences")).items():
        counts = {key: sum(r[key] for r in own) for key in COUNTS}
        others.append(record("absences", OURS, "counts", None, case=case, **counts))
    return others


def show(made):
    rows = ("case",)
    of_strokes = pick(made, dataset="strokes")
    counts = [field(key.replace("_", " "), key) for key in COUNTS]
    unaries, video = (pick(made, dataset=name) for name in ("own unaries", "video"))
    return blocks(
        across("One photograph by strokes: mean IoU", of_strokes, form="{:.1%}", rows=rows),
        across("Foreground IoU", of_strokes, "foreground", "{:.1%}", rows=rows),
        across("CPU seconds of a photograph", of_strokes, "seconds", "{:.2f}", rows=rows),
        across("Segmenter(unaries=...): mean IoU", unaries, form="{:.1%}", rows=rows),
        across("Overlap in images and in a video of them", video, form="{:.3f}", rows=rows),
        listing(pick(made, dataset="absences"), field("absences", "case"), *counts),
        NOTE,
    )


NOTE = (
    "absences: clips in which the object was held before it vanished; of those, in how many it\n"
    "was seen to be lost within 5 frames, was found again within 25 frames (in time), or\n"
    "something else was taken for it (false returns)."
)


def targets(made):
    look = lookup(made, "dataset", "case", "method")

    def difference(name, case, methods, key="value"):
        return less(*(look(name, case, method, name=key) for method in methods))

    def cut_out(wanted, cases):
        """Ours is above GrabCut in both measures."""
        heads = {"foreground": "foreground IoU", "value": "mean IoU"}
        pairs = [(case, key) for case in cases for key in heads]
        above = [
            (f"{case}, {heads[key]}", d > 0)
            for case, key in pairs
            if (d := difference("strokes", case, (OURS, GRABCUT), key)) is not None
        ]
        return all_of(wanted, above, 4)

    def near(wanted, name, cases, methods, slack):
        differences = [(case, difference(name, case, methods)) for case in cases]
        near = [(case, d >= -slack) for case, d in differences if d is not None]
        return all_of(wanted, near, len(cases))

    back, held = ([look("absences", k, OURS, name=n) for k in JUMPS] for n in ("in_time", "held"))
    in_time = None if None in (*back, *held) else sum(back) / sum(held)
    false = look("absences", "distractor", OURS, name="false_returns")
    by_hand, made_cases = ["set 1", "set 2"], ["made, people", "made, horses"]
    of_tests = [f"{one}, test" for one in by_hand]
    own = {OWN_CLASSIFIER: "StructBoostClassifier", FOREST: "forest and linear"}
    encoded = (ENCODED, "images")
    return [
        cut_out("strokes by hand, 18 photographs: above GrabCut", by_hand),
        cut_out("strokes by hand, the nine test photographs", of_tests),
        cut_out("made strokes: above GrabCut", made_cases),
        *(
            near(
                f"{title} within 1 point of the built in",
                *("own unaries", (HORSES, PEOPLE), (method, BUILT_IN), 0.01),
            )
            for method, title in own.items()
        ),
        reach("found again within 25 frames, 9 of 10", in_time, ">=", 0.9, "{:.0%}"),
        reach("clips with another object: false returns", false, "<=", 0.0),
        near("video at most .02 below the images", "video", SEQUENCES, encoded, 0.02),
    ]
