"""Tracking as in Tables 4 and 5 of StructBoost, on four of its sequences and three others."""

import cv2
import numpy as np

from benchmarks.papers import PRINTED
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.records import mean, median, pick, record
from structboost.tracking import StructBoostTracker, open_frames
from structboost.tracking.tracks import evaluate, read_boxes, track_objects, warm_up

NAMES = ("coke", "tiger1", "girl", "sylv", "couple", "deer", "motorrolling")
FILES = {name: (f"tracking/{name}",) for name in NAMES}
PRECISION = "precision at 20 pixels"


def on_sequence(source, make, *, seed):
    """Measure overlaps from the true first box on, and the time of the frames, on one thread."""
    folder, tracker = source.folder / source.files[0], make(random_state=seed)
    truth = read_boxes(folder / "groundtruth.txt")  # NaN where it is unknown
    frames = [image for _, image in open_frames(folder)]
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        warm_up(tracker)
        (tracked,) = track_objects([tracker], enumerate(frames), [truth[0]])
    finally:
        cv2.setNumThreads(threads)
    if tracked.interrupted:
        raise KeyboardInterrupt
    # Over the frames after the first whose truth is known.
    measures, updates = evaluate(np.array(tracked.boxes)[1:], truth[1:]), tracked.latencies[1:]
    return {
        **{"value": measures.mean_overlap, "centre_error": measures.mean_centre_error},
        **{"success AUC": measures.success_auc, PRECISION: measures.precision_at_20},
        **{"fps": tracked.fps, "seconds": sum(tracked.latencies)},
        **{"init_seconds": tracked.latencies[0], "largest_latency": max(updates)},
        "lost_frames": sum(tracked.lost),
        **{f"{part}_ms": 1000 * spent / len(updates) for part, spent in tracker.seconds.items()},
    }


OURS = "structboost"
# Mean overlaps that others printed: OpenCV 4's CSRT, and Table 4.
CSRT, TABLE_4 = PRINTED["tracking"]["csrt"], PRINTED["tracking"]["table_4"]
PAPER = ("StructBoost", "AdaBoost", "Struck", "MIL")
MEANS = {"mean overlap": "value", "success AUC": "success AUC", PRECISION: PRECISION}


def cases(source, learner):
    return [{"seed": seed} for seed in range(3)]


EXPERIMENTS = [
    Experiment(
        *(FILES, {OURS: StructBoostTracker}, on_sequence, cases),
        metrics={"overlap": "value", "centre_error": "centre_error"},
        more=lambda rows: {"value": median(row["value"] for row in rows)},
    )
]


def derived(made):
    """Records with the printed overlaps, and means over all sequences."""
    overlaps, more = pick(made, metric="overlap"), []
    for metric, name in MEANS.items():
        more.append(record("all", OURS, metric, mean(r[name] for r in overlaps)))
    for r in overlaps:
        name = r["dataset"]
        r["slowest"] = max(r["largest_latency"], r["init_seconds"])
        printed = {"CSRT": CSRT[name]}
        printed |= {f"{k}, Table 4": v for k, v in zip(PAPER, TABLE_4.get(name, ()), strict=False)}
        more += [record(name, method, "overlap", value) for method, value in printed.items()]
    return [*made, *more]
