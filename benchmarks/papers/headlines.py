"""The lines of the page of all results: which methods of which pages are compared."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from benchmarks.papers import PRINTED
from benchmarks.runner.headlines import Figure, Headline
from benchmarks.runner.records import Record
from benchmarks.structures import hierarchies


def _same(value: float) -> float:
    return value


def _rest(value: float) -> float:
    """What is missing to a perfect score of 1."""
    return 1.0 - value


def _of(
    *metrics: str,
    error: Callable[[float], float] | None = _same,
    seconds: str = "seconds",
    where: Callable[[Record], Any] = lambda r: True,
) -> Callable[[Sequence[Record]], list[Figure]]:
    """Figures from the records of some metrics."""

    def figures(made: Sequence[Record]) -> list[Figure]:
        return [
            Figure(
                (r["dataset"], r["metric"], r.get("share")),
                r["method"],
                error and error(r["value"]),
                r.get(seconds),
            )
            for r in made
            if r["metric"] in metrics and r["value"] is not None and where(r)
        ]

    return figures


def _multiboost(made: Sequence[Record]) -> Iterable[Figure]:
    """Ours, and the published code on the same data set by the same method."""
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


def _mo_ecc(made: Sequence[Record]) -> Iterable[Figure]:
    for r in made:
        kind, setting = r["method"].split("_", 1)
        if r["rounds"] == 500:
            yield Figure(f"{r['dataset']} {setting}", kind, r["value"])


def _searches(made: Sequence[Record]) -> Iterable[Figure]:
    for r in made:
        yield Figure(r["dataset"], OURS, None, r["ours"])
        yield Figure(r["dataset"], PEERS, None, r["theirs"])


def _strokes(made: Sequence[Record]) -> Iterable[Figure]:
    for r in made:
        if r["dataset"] == "strokes" and "test" not in r["case"]:
            yield Figure(r["case"], r["method"], 1.0 - r["value"], r["seconds"])


def _tracking(made: Sequence[Record]) -> Iterable[Figure]:
    for r in made:
        if r["metric"] == "overlap" and r["value"] is not None:
            yield Figure(r["dataset"], r["method"], 1.0 - r["value"], 1.0 / r["fps"])


def _hierarchical(made: Sequence[Record]) -> Iterable[Figure]:
    """Ours, and the figures that were published with the data."""
    metric = "AU(PRC)"
    yield from _of(metric, error=_rest)(made)
    for name, values in hierarchies.PUBLISHED.items():
        for rival, value in zip(RIVALS, values, strict=True):
            yield Figure((name, metric, None), rival, _rest(value))


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
    **{"structboost_linear_and_stumps": "linear and stumps", "adaboost_words": "AdaBoost"},
    **{"linear_trees": "linear and trees", "structboost_compiled": OURS},
    **{"shareboost": "ShareBoost", "mixed_norm": "mixed norm", "multiboost": "MultiBoost"},
    **{"extra trees, two stages, sets seen": "extra trees, two stages"},
    **{"svc, cross-fitted": "SVM, cross-fitted", "svc, two stages": "SVM, two stages"},
    **{"lightgbm": "LightGBM", "hist_gradient_boosting": "HistGradientBoosting"},
    **{"adaboost": "AdaBoost", "adaboost_mh_stumps": "AdaBoost.MH", "struck_50": "Struck"},
    **{"adaboost_ecc_stumps": "AdaBoost.ECC", "adaboost_ecc_svm": "AdaBoost.ECC on SVMs"},
    **{"histgb": "HistGradientBoosting", "ssvm": "structured SVM", "ovr_svm": "SVMs"},
    **{"rankboost": "RankBoost", "lightgbm_stumps": "LightGBM's stumps"},
    **{"xgboost": "XGBoost", "chimeraboost": "ChimeraBoost", "grabcut": "GrabCut"},
    **{"pyepo_spo_plus": "PyEPO, SPO+", "pyepo_fenchel_young": "PyEPO, Fenchel-Young"},
}
_ERRORS = "test error"
# The seconds of `tables` are of two runs, one of them beside other work; `unions` has none.
_UNTIMED = partial(_of, "error", seconds="")
_REGRETS = partial(_of, "regret", seconds="cpu_in_all")
LINES = (
    ("defaults", "classes, no settings", _ERRORS, (OURS,), ("lightgbm",),
     _of("error", seconds="cpu")),
    ("outside", "probabilities, no settings", "log-loss", (OURS,),
     ("lightgbm", "xgboost", "histgb", "chimeraboost"), _of("log_loss", seconds="cpu")),
    ("taggers", "tags: entities, chunks", "1 - F1", (OURS,), ("CRFsuite",),
     _of("chunk F1", error=lambda value: 1.0 - 0.01 * value, seconds="cpu")),
    ("multiclass", "classes, trees", _ERRORS, ("multiboost_cw_trees",), CLASSIFIERS,
     _of("error")),
    ("multiclass", "classes, certified stumps", _ERRORS, ("structboost_1slack",), CLASSIFIERS,
     _of("error")),
    ("unions", "classes, hinge on trees", _ERRORS, ("linear_trees",), ("ssvm", "lightgbm"),
     _UNTIMED()),
    ("tables", "tables with gaps", _ERRORS, (OURS,), ("hist_gradient_boosting",),
     _UNTIMED(where=lambda r: r["share"])),
    ("tables", "columns of categories", _ERRORS, (OURS,), ("lightgbm",),
     _UNTIMED(where=lambda r: not r["share"])),
    ("hierarchy", "classes in a tree", "tree loss", ("structboost_tree_stumps",),
     ("adaboost_ecc_stumps", "adaboost_mh_stumps", "adaboost_ecc_svm"), _of("tree_loss")),
    ("auc", "two classes, ranked", "1 - AUC", ("structboost_1slack",),
     ("rankboost", "lightgbm_stumps", "lightgbm"),
     _of("auc", error=_rest, where=lambda r: r["class"] == "mean")),
    ("structures", "rankings", "1 - NDCG@10", ("StructBoost, trees",),
     ("LightGBM, trees", "LightGBM, 100 stumps"), _of("NDCG@10", error=_rest)),
    ("structures", "tags: letters", "wrong letters", ("svc, cross-fitted",), STAGES,
     _of("right letters", error=_rest)),
    ("structures", "tags: chunks", "1 - F1", ("linear chain, hinge",), ("crfsuite",),
     _of("chunk F1", error=lambda value: 1.0 - 0.01 * value)),
    ("structures", "sets of labels", "three losses", ("extra trees, cross-fitted",),
     ("lightgbm, per label", "lightgbm, classifier chain", *STAGES, *SEEN),
     _of("hamming", "subset", "1 - F1", where=lambda r: r["dataset"] in ("emotions", "yeast"))),
    ("structures", "labels in a hierarchy", "1 - AU(PRC)", ("together",), RIVALS, _hierarchical),
    ("structures", "matchings", "1 - F1", ("trees", "linear"),
     ("lightgbm, two stages", "nearest contexts"), _of("1 - F1, %")),
    ("structures", "labels of a grid", "wrong pixels", ("linear model of the grid",),
     ("extra trees, two stages",), _of("right pixels", error=_rest)),
    ("decisions", "decisions: routes", "regret", ("linear_auto", "linear"),
     (*TWO_STAGE, *PYEPO), _REGRETS(where=lambda r: r["dataset"] in ROUTES)),
    ("decisions", "decisions: flows", "regret", ("linear_and_stumps",),
     (*TWO_STAGE, *PYEPO), _REGRETS(where=lambda r: r["dataset"] == "network")),
    ("tracking", "boxes in a video", "1 - overlap", (OURS,),
     ("adaboost", "struck_50", "opencv_mil"), _tracking),
    ("segmentation", "labels of photographs", "1 - mean IoU", ("structboost_linear_and_stumps",),
     ("ssvm", "adaboost_words", "svm_words"), _of("mean_iou", error=_rest)),
    ("tools", "one photograph by strokes", "1 - mean IoU", (OURS,), ("grabcut",), _strokes),
    ("multiboost-cw", "coordinate descent", _ERRORS, (OURS,), (PUBLISHED,), _multiboost),
    ("mo-ecc", "correcting AdaBoost", _ERRORS, ("multiboost",), ("adaboost",), _mo_ecc),
    ("shareboost", "few features", "features needed", ("shareboost",),
     ("one_vs_rest", "mixed_norm"),
     _of("features_needed", where=lambda r: r["n_classes"] == 26)),
    ("speed", "prediction", "time per row", (OURS, "structboost_compiled"),
     ("lightgbm", "histgb"), _of("predict_us", error=None, seconds="value")),
    ("learners", "classes, to LightGBM's error", "test error", ("multiboost_cw_trees",),
     ("lightgbm",), _of("error")),
    ("searches", "searches", "time per output", (OURS,), (PEERS,), _searches),
)  # fmt: skip
HEADLINES = tuple(Headline(*one, names=SHOWN) for one in LINES)
