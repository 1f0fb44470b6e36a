"""Costs predicted for decisions: regret of ours, of two-stage prediction and of PyEPO's losses."""

from functools import lru_cache, partial

from benchmarks.ours import decisions as ours
from benchmarks.ours.decisions import AUTO, EXPECTED, LINEAR, STARTED, STUMPS, UNION
from benchmarks.peers import network_losses
from benchmarks.peers.network_losses import SPO_PLUS
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks
from benchmarks.runner.records import lookup, median, ratio
from benchmarks.runner.targets import all_of, each, reach

ROUTES = {f"degree_{degree}": degree for degree in (1, 2, 4, 6, 8)}
OWN = ("thresholds", "rosters", "offers", "clocks")
# The seeds of knapsack.npz, the trials of dboost; elsewhere draws of the instance.
REPEATS = {"knapsack": 5, "network": 10, **dict.fromkeys(OWN, 3)}
CANDIDATES, QUICK_CANDIDATES = 4, 2
STAGES = tuple(method.name for method in ours.TWO_STAGE)
BOOSTED = (STUMPS, UNION, STARTED)
FILES = {
    **{"notebook": (ours.NOTEBOOK,), **dict.fromkeys(ROUTES, ())},
    **{"knapsack": (ours.KNAPSACK,), "network": (), **dict.fromkeys(OWN, ())},
}


@lru_cache(maxsize=1)
def instance(name, folder, repeat):
    if name in ROUTES:
        return ours.routes(ROUTES[name], 135 + repeat)
    makers = {
        "notebook": partial(ours.notebook, folder),
        "knapsack": partial(ours.knapsack, folder, repeat),
        **{own: partial(getattr(ours, own), repeat) for own in ("network", *OWN)},
    }
    return makers[name]()


def learners(source):
    """Learners by name; PyEPO's only where it is installed.

    A start from boosted trees costs most of all, and is for costs that are no linear form.
    """
    peers = network_losses.METHODS if network_losses.is_installed() else ()
    own = {method.name: method for method in (*ours.TWO_STAGE, *ours.OURS, *peers)}
    if source.name not in OWN:
        del own[STARTED]
    return own if source.name == "knapsack" else {**own, EXPECTED: None}


def cases(source, learner):
    n = {"candidates": QUICK_CANDIDATES if source.quick else CANDIDATES}
    repeats = range(1 if source.quick else REPEATS.get(source.name, 1))
    return [{"repeat": k, **({} if learner == EXPECTED else n)} for k in repeats]


def regret(source, learner, *, repeat, candidates=0):
    return ours.tuned(learner, instance(source.name, source.folder, repeat), candidates)


EXPERIMENTS = [
    Experiment(
        *(FILES, learners, regret, cases),
        metrics={"regret": "value"},
        more=lambda rows: {"median": median(row["value"] for row in rows)},
        small=("notebook", "clocks"),
        code=(ours.__name__,),
    )
]


def show(made):
    return blocks(
        across("Test regret", made, form="{:.2%}"),
        across("CPU seconds of a fit", made, "seconds", "{:.2f}"),
        across("CPU seconds with the choice of settings", made, "cpu_in_all", "{:.1f}"),
        "" if any(r["method"] == SPO_PLUS for r in made) else network_losses.REMEDY,
    )


def targets(made):
    at = lookup(made, "dataset", "method")

    def best(name, methods):
        values = [at(name, method) for method in methods]
        return min((v for v in values if v is not None), default=None)

    def of_flows(key):
        return ratio(*(at("network", method, name=key) for method in (UNION, STAGES[2])))

    below = [
        (name, at(name, AUTO) <= best(name, STAGES) + 0.002)
        for name in ROUTES
        if None not in (best(name, STAGES), at(name, AUTO))
    ]
    beside = each(at, ROUTES, lambda own, other: own <= other + 0.001, AUTO, SPO_PLUS)
    knapsack = at("knapsack", UNION)
    over_linear = ratio(knapsack, best("knapsack", (LINEAR, AUTO)))
    seconds = at("notebook", AUTO, name="cpu_in_all")
    over_others = {n: ratio(best(n, BOOSTED), best(n, (*STAGES, LINEAR, AUTO))) for n in OWN}
    return [
        reach("notebook instance, regret", at("notebook", AUTO), "<=", 0.0695, "{:.4f}"),
        reach("CPU seconds there, with the choice of C", seconds, "<=", 30),
        all_of("linear_auto at most 0.2 points above the best two stages", below, 5),
        all_of("linear_auto at most 0.1 points above PyEPO's SPO+", beside, 5),
        reach("knapsack, linear and stumps", knapsack, "<=", 0.125, "{:.4f}"),
        reach("the same over the best linear regret", over_linear, "<=", 1.0),
        *(
            reach(f"{name}: boosted over the best of the others", value, "<=", 0.8)
            for name, value in over_others.items()
        ),
        reach(
            "network: median regret over that of boosted squared error",
            *(of_flows("median"), "<=", 1.0),
        ),
        reach(
            "network: seconds over those of boosted squared error",
            *(of_flows("cpu_in_all"), "<=", 10),
        ),
    ]
