"""Segmentation and tracking as tools: strokes, own classifiers, outlines, lost objects, video."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.ours import absences, outlines, segmenters, strokes
from benchmarks.ours.trackers import load_sequence
from benchmarks.papers.segmentation import content
from benchmarks.runner import tables
from benchmarks.runner.limits import limited
from benchmarks.runner.records import Record, by, grouped, pick, record, side_by_side
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import mean, most, over, summary
from benchmarks.runner.tables import Column, field, of, value
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Result, Unit

OURS, GRABCUT, NEAREST = "structboost", "grabcut", "nearest neighbours"
LIMIT = 7200.0  # seconds
SEEDS = range(3)
OWN_SEEDS = range(6)  # of three, one split decides: values of a method differ by 7 points
HORSES, PEOPLE, CARS, BY_HAND = "weizmann_horse", "human_graz", "camvid", "grabcut_bsds"
# Set, part (None: all of it), folder of the strokes (None: made), and number of photographs.
STROKES: dict[str, tuple[str, str | None, str | None, int | None]] = {
    "set 1": (BY_HAND, None, "scribbles1", None),
    "set 2": (BY_HAND, None, "scribbles2", None),
    "set 1, test": (BY_HAND, "test", "scribbles1", None),
    "set 2, test": (BY_HAND, "test", "scribbles2", None),
    "made, people": (PEOPLE, "test", None, 30),
    "made, horses": (HORSES, "test", None, 30),
}
# Longest side of the coarse mask, or its share; pixels of the enlarged photograph; number of them.
TWELVE = "12 megapixels"
OUTLINES: dict[str, tuple[float, float | None, int | None]] = {
    "a quarter": (0.25, None, None),
    "an eighth": (0.125, None, None),
    TWELVE: (512, 12e6, 10),
}
REACH = 1.5  # pixels
MANY, N_PHOTOGRAPHS, CLIPS = 1000, 60, 6
GROUPS = ("groups", "no groups")
VIDEOS = ("images", absences.ENCODED)
Planned = Iterator[tuple[str, str, Any, tuple[Any, ...]]]  # method, case, seed, function and more


def _strokes(root: Path, quick: bool) -> Planned:
    for case, (source, *others) in STROKES.items():
        if not quick or source == BY_HAND:
            for method in strokes.METHODS:
                yield method, case, None, (strokes.cut_out, method, root / source, *others, 0)


def _own_unaries(root: Path, quick: bool) -> Planned:
    for source in (HORSES, PEOPLE):
        for seed in OWN_SEEDS:
            for method in segmenters.UNARIES:
                run = (segmenters.with_own_unaries, method, root / source, N_PHOTOGRAPHS, seed)
                yield method, source, seed, run


def _outlines(root: Path, quick: bool) -> Planned:
    for case, (longest, pixels, n) in OUTLINES.items():
        for method in outlines.METHODS:
            given = (method, root / HORSES, longest, pixels, REACH, n)
            yield method, case, None, (limited, LIMIT, outlines.brought_back, *given)


def _training(root: Path, quick: bool) -> Planned:
    sets = [root / HORSES, root / PEOPLE]
    yield OURS, f"{MANY} photographs", None, (limited, LIMIT, segmenters.on_many, sets, MANY)


def _groups(root: Path, quick: bool) -> Planned:
    for seed in SEEDS:
        for method in GROUPS:
            yield method, f"seed {seed}", seed, (segmenters.on_scenes, method, root / CARS, seed)


def _absences(root: Path, quick: bool) -> Planned:
    for kind in absences.KINDS:
        for name in absences.NAMES:
            yield name, kind, None, (absences.found_again, kind, name, root.parent, CLIPS)


def _video(root: Path, quick: bool) -> Planned:
    for name in absences.NAMES:
        for seed in SEEDS:
            for method in VIDEOS:
                yield method, name, seed, (absences.overlap, method, name, root.parent, seed)


def _percent(head: str, name: str = "value") -> Column:
    return value(head, 1, 100) if name == "value" else field(head, name, "{:.1f}", 100)


def _each(methods: Sequence[str], *columns: Column) -> list[Column]:
    """Each column for each method; heads name it where there are several."""
    return [
        of(
            method,
            Column(f"{column.head} {method}" if len(methods) > 1 else column.head, column.cell),
        )
        for column in columns
        for method in methods
    ]


class Kind(NamedTuple):
    """What one data set of the page plans, what it shows, and on what it depends."""

    planned: Any
    code: Any  # the module that measures
    sources: tuple[str, ...]
    columns: list[Column]
    timed: bool = False


KINDS = {
    "strokes": Kind(
        *(_strokes, strokes, (BY_HAND, PEOPLE, HORSES)),
        _each((OURS, GRABCUT), _percent("foreground IoU", "foreground"), _percent("mean IoU"))
        + _each((OURS, GRABCUT), field("CPU ms", "seconds", "{:.0f}", 1000)),
        timed=True,
    ),
    "own unaries": Kind(
        *(_own_unaries, segmenters, (HORSES, PEOPLE)),
        _each(tuple(segmenters.UNARIES), _percent("mean IoU")),
    ),
    "outlines": Kind(
        *(_outlines, outlines, (HORSES,)),
        _each((OURS, NEAREST), _percent("F"))
        + _each((OURS,), field("CPU s", "seconds", "{:.2f}"), field("GB", "peak", "{:.2f}", 1e-9)),
        timed=True,
    ),
    "training": Kind(
        *(_training, segmenters, (HORSES, PEOPLE)),
        _each((OURS,), field("GB", "peak", "{:.2f}", 1e-9))
        + _each(
            (OURS,), field("CPU s per photograph", "seconds", "{:.2f}"), _percent("validation")
        ),
        timed=True,
    ),
    "groups": Kind(
        *(_groups, segmenters, (CARS,)),
        _each(GROUPS, _percent("validation,", "validation"), _percent("test,")),
    ),
    "absences": Kind(
        *(_absences, absences, absences.NAMES),
        _each(
            (OURS,),
            *(field(head, head.replace(" ", "_")) for head in ("clips", "held", "noticed")),
            *(field(head, head.replace(" ", "_")) for head in ("in time", "false returns")),
        ),
    ),
    "video": Kind(*(_video, absences, absences.NAMES), _each(VIDEOS, value("overlap,", 3))),
}
DATASETS = tuple(KINDS)
QUICK_DATASETS = ("strokes",)


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    kind, root = KINDS[name], Path(data_dir) / "segmentation"
    contents = [_content(source, Path(data_dir)) for source in kind.sources]
    version = f"{' '.join(contents)} {code_version([kind.code.__name__], ('cv2', 'sklearn'))}"

    def unit(method: str, case: str, seed: int | None, run: tuple[Any, ...]) -> Unit:
        params = {"case": case, "seed": seed}
        return Unit("tools", name, method, params, version, partial(*run), timed=kind.timed)

    return [unit(*one) for one in kind.planned(root, quick)]


def _content(source: str, data_dir: Path) -> str:
    if source in absences.NAMES:
        return load_sequence(source, data_dir).content
    root = data_dir / "segmentation" / source
    if not root.is_dir():
        raise FileNotFoundError(
            f"{root} is missing; --data must name a directory that has segmentation/{source}."
        )
    return content(root)


def records(name: str, finished: Finished) -> list[Record]:
    """A record for each case and method, over the seeds; clips of all sequences are counted."""
    counted = name == "absences"
    groups = grouped(((u.params["case"], OURS if counted else u.method), r) for u, r in finished)
    return [
        record(name, method, "counts" if counted else "value", case=case, **_summary(own, counted))
        for (case, method), own in groups.items()
    ]


def _summary(results: list[Result], counted: bool) -> Result:
    if counted:
        counts = {key: sum(r[key] for r in results) for key in results[0] if key != "unit_seconds"}
        return {"value": None, **counts}
    more = [key for key in ("foreground", "validation") if key in results[0]]
    peaks = {"peak": most(r["peak"] for r in results)} if "peak" in results[0] else {}
    return {**summary(results), **over(mean, results, *more), **peaks}


def show(made: Sequence[Record]) -> str:
    found = []
    for name, kind in KINDS.items():
        rows = side_by_side(pick(made, dataset=name), ["case"], "method")
        found.append(tables.table(rows, [field(name, "case"), *kind.columns]))
    return tables.blocks(*found, NOTE)


NOTE = (
    "IoU and F in %. Mean ±std: own unaries over six seeds, video over three. outlines: seconds\n"
    "and memory of the upsampling alone. absences: clips in which the object was held before it\n"
    "vanished; of those, in how many it was seen to be lost within 5 frames, was found again\n"
    "within 25 frames (in time), or something else was taken for it (false returns)."
)


def targets(made: Sequence[Record]) -> list[Target]:
    found = by(made, "dataset", "case", "method")

    def at(name: str, case: str, method: str = OURS, key: str = "value") -> float | None:
        return found.get((name, case, method), {}).get(key)

    def less(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else one - other

    def cut_out(cases: Sequence[str]) -> list[tuple[str, bool]]:
        """Whether ours is above GrabCut in both measures."""
        both = [
            (case, key, less(*(at("strokes", case, m, key) for m in (OURS, GRABCUT))))
            for case in cases
            for key in ("foreground", "value")
        ]
        return [(f"{c}, {STROKES_SHOWN[key]}", d > 0) for c, key, d in both if d is not None]

    def own(method: str) -> list[tuple[str, bool]]:
        pairs = [
            (s, less(*(at("own unaries", s, m) for m in (method, segmenters.BUILT_IN))))
            for s in (HORSES, PEOPLE)
        ]
        return [(source, d >= -0.01) for source, d in pairs if d is not None]

    seeds = [f"seed {seed}" for seed in SEEDS]
    apart = [
        (s, less(at("groups", s, GROUPS[0]), at("groups", s, GROUPS[0], "validation")))
        for s in seeds
    ]
    back = [(at("absences", k, key="in_time"), at("absences", k, key="held")) for k in JUMPS]
    in_time = None if None in sum(back, ()) else sum(a for a, _ in back) / sum(b for _, b in back)
    lost = [less(*(at("video", name, m) for m in VIDEOS)) for name in absences.NAMES]
    named = [(n, d <= 0.02) for n, d in zip(absences.NAMES, lost, strict=True) if d is not None]
    gain = less(*(at("outlines", TWELVE, m) for m in (OURS, NEAREST)))
    peak = most(r["peak"] for r in pick(made, dataset="training"))
    false = at("absences", "distractor", key="false_returns")
    points = "{:+.1%}"
    return [
        all_of("strokes by hand, 18 photographs: above GrabCut", cut_out(["set 1", "set 2"]), 4),
        all_of(
            "strokes by hand, the nine test photographs", cut_out(["set 1, test", "set 2, test"]), 4
        ),
        all_of("made strokes: above GrabCut", cut_out(["made, people", "made, horses"]), 4),
        all_of("StructBoostClassifier within 1 point of the built in", own(segmenters.OURS), 2),
        all_of("forest and linear within 1 point of the built in", own(segmenters.FOREST), 2),
        reach("F at 12 megapixels: 5 points above nearest neighbours", gain, ">=", 0.05, points),
        reach("training on 1,000 photographs, bytes", peak, "<", 4e9),
        all_of(
            "with groups: validation within 5 points of the test",
            [(seed, abs(d) <= 0.05) for seed, d in apart if d is not None],
            len(seeds),
        ),
        reach("found again within 25 frames, 9 of 10", in_time, ">=", 0.9, "{:.0%}"),
        reach("clips with another object: false returns", false, "<=", 0.0),
        all_of("video at most .02 below the images", named, len(absences.NAMES)),
    ]


STROKES_SHOWN = {"foreground": "foreground IoU", "value": "mean IoU"}
JUMPS = ("cut", "vanish")
