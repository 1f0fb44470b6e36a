"""The lines of the page of all results: which methods of which pages are compared."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.papers import PRINTED
from benchmarks.runner.headlines import Figure, Headline
from benchmarks.runner.printed import Row, first_number
from benchmarks.runner.records import Record
from benchmarks.structures import hierarchies

Tables = list[list[Row]]


def _same(value: float) -> float:
    return value


def _rest(value: float) -> float:
    """What is missing to a perfect score of 1."""
    return 1.0 - value


def _of(
    metric: str,
    error: Callable[[float], float] | None = _same,
    *,
    seconds: str = "seconds",
    names: dict[str, str] | None = None,
    where: Callable[[Record], Any] = lambda r: True,
    dataset: Callable[[Record], str] = lambda r: r["dataset"],
) -> Callable[[Sequence[Record]], list[Figure]]:
    """Figures from the records of a metric; ``names`` are those of the methods on the page."""

    def figures(made: Sequence[Record]) -> list[Figure]:
        return [
            Figure(
                dataset(r),
                (names or {}).get(r["method"], r["method"]),
                None if error is None else error(r["value"]),
                r.get(seconds),
            )
            for r in made
            if r["metric"] == metric and r["value"] is not None and where(r)
        ]

    return figures


def _columns(
    table: Sequence[Row], factor: float = 1.0, error: Callable[[float], float] = _same
) -> dict[tuple[str, str], float]:
    """Numbers of a table of data sets by methods."""
    found = {
        (row[""], head): first_number(cell)
        for row in table
        for head, cell in row.items()
        if head not in ("", "title")
    }
    return {key: error(factor * value) for key, value in found.items() if value is not None}


def _joined(
    errors: dict[tuple[str, str], float], seconds: dict[tuple[str, str], float]
) -> list[Figure]:
    return [Figure(*key, errors.get(key), seconds.get(key)) for key in {**errors, **seconds}]


def _titled(tables: Tables, title: str) -> list[Row]:
    """The table with this title; empty if there is none."""
    return next((rows for rows in tables if rows and rows[0]["title"].startswith(title)), [])


def _multiclass(tables: Tables) -> list[Figure]:
    errors = _columns(_titled(tables, "Test error, %"), 0.01)
    return _joined(errors, _columns(_titled(tables, "Seconds of one fit")))


def _auc(tables: Tables) -> list[Figure]:
    names = {
        "1-slack, mean": "structboost_1slack",
        "RankBoost": "rankboost",
        "LightGBM stumps": "lightgbm_stumps",
        "LightGBM": "lightgbm",
    }
    errors = _columns(tables[0], 0.01, _rest)
    return [Figure(s, names[head], error) for (s, head), error in errors.items() if head in names]


def _hierarchy(tables: Tables) -> list[Figure]:
    ends = {"structboost_tree": "_stumps", "adaboost_ecc": "_stumps", "adaboost_mh": "_stumps"}
    errors = _columns(tables[0])
    wanted = (*ends, "adaboost_ecc_svm")
    return [Figure(s, m + ends.get(m, ""), e) for (s, m), e in errors.items() if m in wanted]


def _segmentation(tables: Tables) -> list[Figure]:
    found = []
    for row in (row for rows in tables for row in rows if "fit s" in row):
        overlap = first_number(row["mean iou"])
        if overlap is not None:
            error = _rest(0.01 * overlap)
            found.append(Figure(*row[""].split(" ", 1), error, first_number(row["fit s"])))
    return found


def _tracking(tables: Tables) -> list[Figure]:
    means = ("mean", "success AUC", "precision at 20 px")
    rows = [row for row in _titled(tables, "mean overlap") if row[""] not in means]
    speeds = [
        {**row, "structboost": row["frames/s"]} for row in _titled(tables, "speed") if row[""]
    ]
    seconds = _columns(speeds, 1.0, lambda per_second: 1.0 / per_second if per_second else 0.0)
    return [
        figure
        for figure in _joined(_columns(rows, 1.0, _rest), seconds)
        if figure.error is not None
    ]


def _speed(tables: Tables) -> list[Figure]:
    rows = _titled(tables, "prediction, usps")
    return [Figure("usps", row[""], None, first_number(row["us/sample"])) for row in rows]


def _multiboost(tables: Tables) -> list[Figure]:
    """Ours, and the published code on the line below."""
    found = []
    for ours, theirs in zip(tables[0], tables[0][1:], strict=False):
        if theirs[""] == PUBLISHED:
            for name, row, seconds in ((OURS, ours, "CPU s"), (PUBLISHED, theirs, "theirs")):
                spent = first_number(ours[seconds])
                error = first_number(row["500 rounds"]) or first_number(row["200 rounds"])
                found.append(Figure(ours[""], name, error and 0.01 * error, spent))
    return found


def _multiboost_records(made: Sequence[Record]) -> Iterable[Figure]:
    for r in made:
        if r["method"] != "solvers" and r["reference"]:
            title = f"{r['dataset']} {r['method']}"
            rounds = MULTIBOOST_ROUNDS[len(r["reference"]) - 1]
            seconds = r["seconds"]
            if r["method"] == "multiboost_cw":
                at = PRINTED["multiboost-cw"]["corrective_rounds"].get(r["dataset"])
                seconds = r["cpu"].get(str(at), seconds)
            yield Figure(title, OURS, r["errors"].get(str(rounds)), seconds)
            yield Figure(title, PUBLISHED, r["reference"][-1][0] / 100, r["reference_seconds"])


def _mo_ecc(tables: Tables) -> Iterable[Figure]:
    for row in tables[0]:
        if row["rounds"] == "500":
            yield Figure(row[""], "MultiBoost", first_number(row["Multi 2"]))
            yield Figure(row[""], "AdaBoost", first_number(row["test: Ada"]))


def _mo_ecc_records(made: Sequence[Record]) -> Iterable[Figure]:
    names = {"multiboost": "MultiBoost", "adaboost": "AdaBoost"}
    for r in made:
        kind, setting = r["method"].split("_", 1)
        if r["rounds"] == 500:
            yield Figure(f"{r['dataset']} {setting}", names[kind], r["value"])


def _shareboost(tables: Tables) -> Iterable[Figure]:
    for row in _titled(tables, "classes"):
        yield Figure("isolet1", row[""], first_number(row["26"]))


def _shareboost_records(made: Sequence[Record]) -> Iterable[Figure]:
    for r in made:
        if r.get("n_classes") == 26:
            yield Figure("isolet1", r["method"], r["value"])


def _searches(made: Sequence[Record]) -> Iterable[Figure]:
    for r in made:
        yield Figure(r["dataset"], OURS, None, r["ours"])
        yield Figure(r["dataset"], PEERS, None, r["theirs"])


def _tracking_records(made: Sequence[Record]) -> Iterable[Figure]:
    for r in made:
        if r["metric"] == "overlap" and r["value"] is not None:
            yield Figure(r["dataset"], r["method"], 1.0 - r["value"], 1.0 / r["fps"])


def _structures(
    metric: str | tuple[str, ...], error: Callable[[float], float] = _same, sets: Any = None
) -> Callable[[Sequence[Record]], list[Figure]]:
    metrics = (metric,) if isinstance(metric, str) else metric

    def figures(made: Sequence[Record]) -> list[Figure]:
        parts = [
            _of(
                one,
                error,
                where=lambda r: sets is None or r["dataset"] in sets,
                dataset=lambda r: f"{r['dataset']}, {r['metric']}",
            )
            for one in metrics
        ]
        return [figure for part in parts for figure in part(made)]

    return figures


def _hierarchical(made: Sequence[Record]) -> Iterable[Figure]:
    """Ours, and the figures that were published with the data."""
    yield from _structures("AU(PRC)", _rest)(made)
    for name, values in hierarchies.PUBLISHED.items():
        for rival, value in zip(RIVALS, values, strict=True):
            yield Figure(f"{name}, AU(PRC)", rival, _rest(value))


RIVALS = ("CLUS-Ens", "C-HMCNN")
OURS, PUBLISHED, PEERS = "structboost", "published code", "numpy, networkx, scipy, HiGHS"
MULTIBOOST_ROUNDS = (10, 50, 100, 200, 500)
CLASSIFIERS = ("lightgbm", "histgb", "adaboost", "ssvm", "ovr_svm")
TWO_STAGE = ("least_squares", "random_forest", "hist_gradient_boosting", "lightgbm")
PYEPO = ("pyepo_spo_plus", "pyepo_fenchel_young")
ROUTES = ("notebook", *(f"degree_{n}" for n in (1, 2, 4, 6, 8)))
STAGES = ("extra trees, two stages", "lightgbm, two stages", "svc, two stages")
SEEN = tuple(f"{method}, sets seen" for method in STAGES)

SHOWN = {
    **dict.fromkeys(("structboost_1slack", "structboost_tree_stumps"), "stumps, certified"),
    **{"multiboost_cw_trees": "MultiBoost on trees", "linear_and_stumps": "linear and stumps"},
    **{"linear_trees": "linear and trees", "structboost_compiled": OURS},
    **{"shareboost": "ShareBoost", "mixed_norm": "mixed norm"},
    **{"extra trees, two stages, sets seen": "extra trees, two stages"},
    **{"svc, cross-fitted": "SVM, cross-fitted", "svc, two stages": "SVM, two stages"},
    **{"lightgbm": "LightGBM", "hist_gradient_boosting": "HistGradientBoosting"},
    **{"adaboost": "AdaBoost", "adaboost_mh_stumps": "AdaBoost.MH", "struck_50": "Struck"},
    **{"adaboost_ecc_stumps": "AdaBoost.ECC", "adaboost_ecc_svm": "AdaBoost.ECC on SVMs"},
    **{"histgb": "HistGradientBoosting", "ssvm": "structured SVM", "ovr_svm": "SVMs"},
    **{"rankboost": "RankBoost", "lightgbm_stumps": "LightGBM's stumps"},
    **{"pyepo_spo_plus": "PyEPO, SPO+", "pyepo_fenchel_young": "PyEPO, Fenchel-Young"},
}
LINES = (
    Headline(
        "defaults", "classes, no settings", "test error", (OURS,), ("lightgbm",),
        _of("error", seconds="cpu"),
    ),
    Headline(
        "multiclass", "classes, trees", "test error", ("multiboost_cw_trees",), CLASSIFIERS,
        _of("error"), _multiclass,
    ),
    Headline(
        "multiclass", "classes, certified stumps", "test error", ("structboost_1slack",),
        CLASSIFIERS, _of("error"), _multiclass,
    ),
    Headline(
        "unions", "classes, hinge on trees", "test error", ("linear_trees",),
        ("ssvm", "lightgbm"), _of("error", seconds=""),
    ),
    Headline(
        "tables", "tables with gaps", "test error", (OURS,), ("hist_gradient_boosting",),
        # Its seconds are of two runs, one of them beside other work.
        _of(
            "error", seconds="", where=lambda r: r["share"],
            dataset=lambda r: f"{r['dataset']} {r['share']}",
        ),
    ),
    Headline(
        "tables", "columns of categories", "test error", (OURS,), ("lightgbm",),
        _of("error", seconds="", where=lambda r: not r["share"]),
    ),
    Headline(
        "hierarchy", "classes in a tree", "tree loss", ("structboost_tree_stumps",),
        ("adaboost_ecc_stumps", "adaboost_mh_stumps", "adaboost_ecc_svm"),
        _of("tree_loss"), _hierarchy,
    ),
    Headline(
        "auc", "two classes, ranked", "1 - AUC", ("structboost_1slack",),
        ("rankboost", "lightgbm_stumps", "lightgbm"),
        _of("auc", _rest, where=lambda r: r["class"] == "mean"), _auc,
    ),
    Headline(
        "structures", "rankings", "1 - NDCG@10", ("StructBoost, trees",),
        ("LightGBM, trees", "LightGBM, 100 stumps"), _structures("NDCG@10", _rest),
    ),
    Headline(
        "structures", "tags: letters", "wrong letters", ("svc, cross-fitted",), STAGES,
        _structures("right letters", _rest),
    ),
    Headline(
        "structures", "tags: chunks", "1 - F1", ("linear chain, hinge",), ("crfsuite",),
        _structures("chunk F1", lambda value: 1.0 - 0.01 * value),
    ),
    Headline(
        "structures", "sets of labels", "three losses", ("extra trees, cross-fitted",),
        ("lightgbm, per label", "lightgbm, classifier chain", *STAGES, *SEEN),
        _structures(("hamming", "subset", "1 - F1"), sets=("emotions", "yeast")),
    ),
    Headline(
        "structures", "labels in a hierarchy", "1 - AU(PRC)", ("together",), RIVALS, _hierarchical,
    ),
    Headline(
        "structures", "matchings", "1 - F1", ("trees", "linear"),
        ("lightgbm, two stages", "nearest contexts"), _structures("1 - F1, %"),
    ),
    Headline(
        "structures", "labels of a grid", "wrong pixels", ("linear model of the grid",),
        ("extra trees, two stages",), _structures("right pixels", _rest),
    ),
    Headline(
        "decisions", "decisions: routes", "regret", ("linear_auto", "linear"),
        (*TWO_STAGE, *PYEPO),
        _of("regret", seconds="cpu_in_all", where=lambda r: r["dataset"] in ROUTES),
    ),
    Headline(
        "decisions", "decisions: flows", "regret", ("linear_and_stumps",), (*TWO_STAGE, *PYEPO),
        _of("regret", seconds="cpu_in_all", where=lambda r: r["dataset"] == "network"),
    ),
    Headline(
        "tracking", "boxes in a video", "1 - overlap", (OURS,),
        ("adaboost", "struck_50", "opencv_mil"), _tracking_records, _tracking,
    ),
    Headline(
        "segmentation", "labels of photographs", "1 - mean IoU", (OURS,),
        ("ssvm", "adaboost", "svm"), _of("mean_iou", _rest), _segmentation,
    ),
    Headline(
        "multiboost-cw", "coordinate descent", "test error", (OURS,), (PUBLISHED,),
        _multiboost_records, _multiboost,
    ),
    Headline(
        "mo-ecc", "correcting AdaBoost", "test error", ("MultiBoost",), ("AdaBoost",),
        _mo_ecc_records, _mo_ecc,
    ),
    Headline(
        "shareboost", "few features", "features needed", ("shareboost",),
        ("one_vs_rest", "mixed_norm"), _shareboost_records, _shareboost,
    ),
    Headline(
        "speed", "prediction", "time per row", (OURS, "structboost_compiled"),
        ("lightgbm", "histgb"), _of("predict_us", None, seconds="value"), _speed,
    ),
    Headline("searches", "searches", "time per output", (OURS,), (PEERS,), _searches),
)  # fmt: skip
HEADLINES = tuple(headline._replace(names=SHOWN) for headline in LINES)
