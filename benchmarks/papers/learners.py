"""What learners cost: prediction, CPU to LightGBM's error, passes on chains, first use."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.ours import costs
from benchmarks.ours.methods import CW_TREES
from benchmarks.peers import tree_prediction
from benchmarks.runner import tables
from benchmarks.runner.datasets import Table, load, split
from benchmarks.runner.records import Record, pick, record, side_by_side
from benchmarks.runner.sources import code_version
from benchmarks.runner.tables import Column, field, of
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Result, Unit
from benchmarks.structures import chains
from benchmarks.structures.rows import content_of

PREDICTED = "trees"
RACES = ("usps", "pendigits", "mnist")
LETTERS, FIRST_USE = "letters", "first-use"
DATASETS = (PREDICTED, *RACES, LETTERS, FIRST_USE)
QUICK_DATASETS = ("pendigits", FIRST_USE)
PEERS = {PREDICTED: ("lightgbm", "treelite", "tl2cgen"), **dict.fromkeys(RACES, ("lightgbm",))}
OURS, THEIRS, OWN_TREES = "structboost", "lightgbm", CW_TREES.name
# Before masters were loosened; a third of it was asked for.
PASSES_BEFORE = 1613
NOT_COMPARED = frozenset({"cpu", "cpu_us"})


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    code = code_version([__name__, costs.__name__, tree_prediction.__name__])

    def unit(method: str, content: str, run: Callable[[], Result]) -> Unit:
        return Unit("learners", name, method, {}, f"{content} {code}", run, timed=True)

    if name == FIRST_USE:
        return [unit("classifier", "made", costs.first_use)]
    if name == LETTERS:
        path = Path(data_dir) / "structures/chains/letters.npz"
        run = partial(costs.passes_on_chains, partial(chains.read, path, many=False, quick=quick))
        return [unit("stumps", content_of(path), run)]
    data = load("usps" if name == PREDICTED else name, data_dir)
    rows = split(data.y, 0)
    train, test = (Table(data.X[part], data.y[part]) for part in (rows.train, rows.test))
    if name == PREDICTED:
        return [unit("all", data.content, partial(tree_prediction.race, train, data.X))]
    return [unit("all", data.content, partial(costs.to_their_error, train, test))]


def records(name: str, finished: Finished) -> list[Record]:
    return [record(name, repeats=1, **one) for _, result in finished for one in result["found"]]


PREDICTION_COLUMNS = [
    field("us of CPU per row, depth", "depth"),
    field("rows at once", "batch", "{:,}"),
    *(
        Column(method, lambda r, method=method: f"{r[method]:.2f}")
        for method in tree_prediction.CONTESTANTS
    ),
]
RACE_COLUMNS = [
    field("to LightGBM's error", "dataset"),
    of(THEIRS, field("LightGBM, %", "value", "{:.1f}", 100)),
    of(THEIRS, field("CPU s", "seconds", "{:.2f}")),
    of(OWN_TREES, field("MultiBoostCW, %", "value", "{:.1f}", 100)),
    of(OWN_TREES, field("CPU s", "seconds", "{:.2f}")),
    field("rounds", "rounds"),
    Column("ratio of CPU", lambda r: f"{_ratio(r):.2f}"),
]
CHAIN_COLUMNS = [
    field("OCR chain, C = 300, 6 %", "method"),
    field("passes", "value", "{:.0f}"),
    field("CPU s", "cpu", "{:.1f}"),
    field("gap", "gap", "{:.1%}"),
]
FIRST_COLUMNS = [field("first use", "method"), field("CPU s", "value", "{:.2f}")]


def _races(made: Sequence[Record]) -> list[Record]:
    """A row for each race, with both contestants."""
    return side_by_side([r for r in made if r["dataset"] in RACES], ["dataset"], "method")


def _ratio(race: Record) -> float:
    return float(race["of"][OWN_TREES]["seconds"] / race["of"][THEIRS]["seconds"])


def show(made: Sequence[Record]) -> str:
    return tables.blocks(
        tables.table(pick(made, dataset=PREDICTED), PREDICTION_COLUMNS),
        tables.table(_races(made), RACE_COLUMNS),
        tables.table(pick(made, dataset=LETTERS), CHAIN_COLUMNS),
        tables.table(pick(made, dataset=FIRST_USE), FIRST_COLUMNS),
    )


def targets(made: Sequence[Record]) -> list[Target]:
    large = [r for r in pick(made, dataset=PREDICTED) if r["batch"] >= tree_prediction.LARGE]
    faster = [
        (f"depth {r['depth']}, {r['batch']:,} rows, {peer}", r[OURS] < r[peer])
        for r in large
        for peer in tree_prediction.CONTESTANTS
        if peer != OURS
    ]
    halves = [(r["dataset"], _ratio(r) <= 0.5) for r in _races(made)]
    value = {(r["dataset"], r["method"]): r["value"] for r in made}
    return [
        all_of(
            "stumps and trees predict faster than LightGBM and tl2cgen from 100 rows on", faster, 8
        ),
        all_of("half of LightGBM's CPU to its error", halves, len(RACES)),
        reach(
            f"passes of m_slack on the OCR chain at most a third of {PASSES_BEFORE:,}",
            *(value.get((LETTERS, "m_slack")), "<=", PASSES_BEFORE / 3),
        ),
        reach(
            "first fit, nothing compiled, CPU seconds",
            *(value.get((FIRST_USE, "fit and predict, nothing compiled")), "<=", 10.0),
        ),
        reach(
            "import beyond that of scikit-learn, CPU seconds",
            *(value.get((FIRST_USE, "import structboost, beyond scikit-learn")), "<=", 0.3),
        ),
    ]
