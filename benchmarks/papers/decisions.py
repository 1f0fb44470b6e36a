"""Costs predicted for decisions: regret of ours, of two-stage prediction and of PyEPO's losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.ours import decisions as ours
from benchmarks.ours.decisions import AUTO, LINEAR, SPARING, STARTED, STUMPS, UNION, Instance
from benchmarks.peers import network_losses
from benchmarks.peers.network_losses import FENCHEL_YOUNG, SPO_PLUS
from benchmarks.runner import plots
from benchmarks.runner.protocol import Method
from benchmarks.runner.records import Record, by, datasets_of, grouped, pick, record
from benchmarks.runner.sources import code_version
from benchmarks.runner.statistics import mean, median, over, summary
from benchmarks.runner.tables import blocks, field, pivot, table
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Unit

DEGREES = (1, 2, 4, 6, 8)
ROUTES = tuple(f"degree_{degree}" for degree in DEGREES)
OWN = ("thresholds", "rosters", "offers", "clocks")
DATASETS = ("notebook", *ROUTES, "knapsack", "tours", "network", *OWN)
QUICK_DATASETS = ("notebook", "clocks")
PEERS = dict.fromkeys((name for name in DATASETS if name != "tours"), ("lightgbm",))
# The seeds of knapsack.npz, the trials of dboost; elsewhere draws of the instance.
REPEATS = {"knapsack": 10, "network": 10, **dict.fromkeys(OWN, 3)}
CANDIDATES, QUICK_CANDIDATES = 4, 2

TWO_STAGE = tuple(method.name for method in ours.TWO_STAGE)
BOOSTED = (STUMPS, UNION, STARTED)
PYEPO = (SPO_PLUS, FENCHEL_YOUNG)
# Two hundred trees for each of 190 edges show nothing; with features of items all share a model.
# A start from boosted trees costs most of all, and is for costs that are no linear form.
LEFT_OUT = {
    **dict.fromkeys(DATASETS, (SPARING, STARTED)),
    **dict.fromkeys(OWN, (SPARING,)),
    "tours": (*TWO_STAGE[1:], *BOOSTED, AUTO, FENCHEL_YOUNG),
}
EXPECTED = "expected_costs"
ORDER = (*TWO_STAGE, LINEAR, SPARING, AUTO, *BOOSTED, *PYEPO, EXPECTED)


def instance_of(name: str, data_dir: Path) -> Callable[[int], Instance]:
    """What makes the instance of a repeat."""
    if name in ROUTES:
        return lambda repeat: ours.routes(DEGREES[ROUTES.index(name)], 135 + repeat)
    made: dict[str, Callable[[int], Instance]] = {
        "notebook": lambda repeat: ours.notebook(data_dir),
        "knapsack": partial(ours.knapsack, data_dir),
        "tours": lambda repeat: ours.tours(),
        "network": ours.network,
        **{own: getattr(ours, own) for own in OWN},
    }
    return made[name]


def methods(instance: Instance) -> dict[str, Method]:
    """All methods by name; PyEPO's only where it is installed."""
    found = {method.name: method for method in ours.TWO_STAGE} | ours.ours(instance.problem)
    if network_losses.is_installed():
        found |= network_losses.methods(instance.problem)
    return found


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    make = instance_of(name, data_dir)
    n_candidates = QUICK_CANDIDATES if quick else CANDIDATES
    planned = []
    for repeat in range(1 if quick else REPEATS.get(name, 1)):
        instance = make(repeat)
        wanted = {k: m for k, m in methods(instance).items() if k not in LEFT_OUT[name]}
        for method in wanted.values():
            modules = [ours.__name__, type(method).__module__]
            params = {"repeat": repeat, "candidates": n_candidates}
            version = code_version(modules, method.packages)
            run = partial(ours.tuned, method, instance, n_candidates)
            planned.append(Unit("decisions", name, method.name, params, version, run))
        if instance.expected is not None:
            version = code_version([ours.__name__])
            run = partial(ours.with_expected_costs, instance)
            planned.append(Unit("decisions", name, EXPECTED, {"repeat": repeat}, version, run))
    return planned


def records(name: str, finished: Finished) -> list[Record]:
    made = []
    for method, results in grouped((unit.method, result) for unit, result in finished).items():
        fields = summary(results) | over(mean, results, "exact_solves")
        fields |= {"median": median(r["value"] for r in results)}
        fields |= over(median, results, "cpu_in_all")
        made.append(record(name, method, "regret", **fields))
    return sorted(made, key=lambda r: ORDER.index(r["method"]))


def show(made: Sequence[Record]) -> str:
    def percent(r: Record) -> str:
        return f"{100 * r['value']:.2f}" if r else "-"

    names = datasets_of(made)
    order = sorted(made, key=lambda r: ORDER.index(r["method"]))
    regrets = pivot(order, "method", "dataset", percent, names, "test regret, %")
    ratios = _over_two_stages(order)
    seconds = pivot(order, "method", "dataset", _seconds, names, "CPU seconds of a fit / of all")
    solves = table(
        pick(order, dataset="tours"),
        [
            field("tours", "method"),
            field("exact solves", "exact_solves", "{:.0f}"),
            field("regret, %", "value", "{:.2f}", 100),
        ],
    )
    has_peer = any(r["method"] in PYEPO for r in made)
    return blocks(regrets, ratios, seconds, solves, "" if has_peer else network_losses.REMEDY)


def _over_two_stages(made: Sequence[Record]) -> str:
    """Regret on our own generators over that of the best two stages; expected costs are a floor."""
    two_stages = [r for r in made if r["method"] in TWO_STAGE]
    least = {
        name: min(r["value"] for r in pick(two_stages, dataset=name))
        for name in OWN
        if pick(two_stages, dataset=name)
    }

    def ratio(r: Record) -> str:
        return f"{r['value'] / least[r['dataset']]:.2f}" if r else "-"

    own = [r for r in made if r["dataset"] in least]
    names = datasets_of(own)
    return pivot(own, "method", "dataset", ratio, names, "over the best two stages") if own else ""


def _seconds(r: Record) -> str:
    if r.get("seconds") is None:
        return "-"
    return f"{r['seconds']:.2f} / {r['cpu_in_all']:.1f}"


def targets(made: Sequence[Record]) -> list[Target]:
    value = {key: r["value"] for key, r in by(made, "dataset", "method").items()}

    def best(name: str, wanted: Sequence[str]) -> float | None:
        return min((value[name, m] for m in wanted if (name, m) in value), default=None)

    below_two_stage, beside_pyepo = [], []
    for name in ROUTES:
        own, two = best(name, (AUTO,)), best(name, TWO_STAGE)
        if own is not None and two is not None:
            below_two_stage.append((name, own <= two + 0.002))
        if own is not None and (name, SPO_PLUS) in value:
            beside_pyepo.append((name, own <= value[name, SPO_PLUS] + 0.001))
    notebook = by(pick(made, dataset="notebook"), "method").get(AUTO, {})
    own_generators = [
        reach(
            f"{name}: boosted over the best of the others",
            _ratio(best(name, BOOSTED), best(name, (*TWO_STAGE, LINEAR, AUTO))),
            *("<=", 0.8),
        )
        for name in OWN
    ]
    flows = by(pick(made, dataset="network"), "method")
    tours = by(pick(made, dataset="tours"), "method")
    return [
        reach("notebook instance, regret", notebook.get("value"), "<=", 0.0695, "{:.4f}"),
        reach("CPU seconds there, with the choice of C", notebook.get("cpu_in_all"), "<=", 30),
        all_of("linear_auto at most 0.2 points above the best two stages", below_two_stage, 5),
        all_of("linear_auto at most 0.1 points above PyEPO's SPO+", beside_pyepo, 5),
        reach("knapsack, linear and stumps", value.get(("knapsack", UNION)), "<=", 0.125, "{:.4f}"),
        reach(
            "the same over the best linear regret",
            _ratio(value.get(("knapsack", UNION)), best("knapsack", (LINEAR, AUTO))),
            *("<=", 1.0),
        ),
        *own_generators,
        reach(
            "network: median regret over that of boosted squared error",
            _ratio(*(flows.get(m, {}).get("median") for m in (UNION, TWO_STAGE[2]))),
            *("<=", 1.0),
        ),
        reach(
            "network: seconds over those of boosted squared error",
            _ratio(*(flows.get(m, {}).get("cpu_in_all") for m in (UNION, TWO_STAGE[2]))),
            *("<=", 10),
        ),
        reach(
            "tours: exact solves of SPO+ by gradient steps over ours",
            _ratio(*(tours.get(m, {}).get("exact_solves") for m in (SPO_PLUS, SPARING))),
            *(">=", 5),
        ),
        reach(
            "tours: regret over that of SPO+ by gradient steps",
            _ratio(*(tours.get(m, {}).get("value") for m in (SPARING, SPO_PLUS))),
            *("<=", 1.02),
        ),
    ]


def _ratio(value: float | None, other: float | None) -> float | None:
    return None if value is None or not other else value / other


def plot(made: Sequence[Record], path: Path) -> None:
    """Regret above that of the expected costs, against the degree."""
    on_page = [r for r in made if r["dataset"] in ROUTES]
    if not on_page:
        return
    least = {r["dataset"]: r["value"] for r in pick(on_page, method=EXPECTED)}
    with plots.panels(path, (1, 1), (5.0, 3.4)) as (_, ((axis,),)):
        for method in ORDER[:-1]:
            own = [r for r in pick(on_page, method=method) if r["dataset"] in least]
            at = [DEGREES[ROUTES.index(r["dataset"])] for r in own]
            above = [100 * (r["value"] - least[r["dataset"]]) for r in own]
            if own:
                axis.plot(at, above, marker="o", ms=3, label=method)
        axis.set(xlabel="degree", ylabel="excess regret, points")
        axis.legend(fontsize=7)
