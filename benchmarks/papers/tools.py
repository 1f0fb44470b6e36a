"""Segmentation and tracking as tools: strokes, own classifiers, lost objects, encoded video."""

from benchmarks.ours import absences, segmenters, strokes, trackers
from benchmarks.ours.strokes import BY_HAND, HORSES, PEOPLE
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.records import grouped, less, lookup, pick, record
from benchmarks.runner.targets import all_of, reach

OURS, GRABCUT, SEQUENCES = "structboost", "grabcut", trackers.NAMES
SEEDS, OWN_SEEDS = 3, 4
VIDEOS = {"images": False, absences.ENCODED: True}
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
VIDEO = tuple(file for files in trackers.FILES.values() for file in files)
COMMON = {"metrics": {"value": "value"}, "by": ("case",)}
EXPERIMENTS = [
    Experiment(
        *(STROKES, strokes.METHODS, strokes.cut_out, _each(strokes.CASES)),
        **COMMON,
        small=("strokes",),
    ),
    Experiment(
        *({"own unaries": PHOTOGRAPHS}, segmenters.UNARIES, segmenters.with_own_unaries),
        _each((HORSES, PEOPLE), OWN_SEEDS),
        **COMMON,
    ),
    Experiment(
        *({"absences": VIDEO}, {name: name for name in SEQUENCES}, absences.found_again),
        _each(absences.KINDS),
        {"counts": "clips"},
        by=("case",),
    ),
    Experiment(*({"video": VIDEO}, VIDEOS, absences.overlap, _each(SEQUENCES, SEEDS)), **COMMON),
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
    own = {segmenters.OURS: "StructBoostClassifier", segmenters.FOREST: "forest and linear"}
    encoded = (absences.ENCODED, "images")
    return [
        cut_out("strokes by hand, 18 photographs: above GrabCut", by_hand),
        cut_out("strokes by hand, the nine test photographs", of_tests),
        cut_out("made strokes: above GrabCut", made_cases),
        *(
            near(
                f"{title} within 1 point of the built in",
                *("own unaries", (HORSES, PEOPLE), (method, segmenters.BUILT_IN), 0.01),
            )
            for method, title in own.items()
        ),
        reach("found again within 25 frames, 9 of 10", in_time, ">=", 0.9, "{:.0%}"),
        reach("clips with another object: false returns", false, "<=", 0.0),
        near("video at most .02 below the images", "video", SEQUENCES, encoded, 0.02),
    ]
