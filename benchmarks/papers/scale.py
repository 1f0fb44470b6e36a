"""Rows up to ten million, from disk; threads, processes and Dask beside one process."""

from benchmarks.ours import engines
from benchmarks.ours.engines import Engine
from benchmarks.runner.datasets import tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.limits import limited
from benchmarks.runner.pages import across, blocks, field, listing
from benchmarks.runner.records import exponent, grouped, less, lookup, most, pick, ratio
from benchmarks.runner.targets import all_of, reach

ROWS, QUICK_ROWS = (10_000, 100_000, 1_000_000, 10_000_000), (10_000, 20_000)
LARGE_ROWS, LIMIT_SECONDS, FIT_FROM_ROWS = 10_000_000, 3600.0, 100_000
# A task whose argmax is Python takes some 50 microseconds per example.
IN_MEMORY = {"engines": (10_000, 100_000, 1_000_000), "python": (5_000,), "mnist": (70_000,)}
SERIAL, ROUND = "serial", "seconds of a round"
POOLS = {SERIAL: (SERIAL, 1), "threads, 2": ("threads", 2)}
PROCESSES = {f"processes, {n}": ("processes", n) for n in (1, 2)}
DASK = {f"dask, {n}": Engine(("dask", n)) for n in (1, 2)}


def cases(source, learner):
    sizes = IN_MEMORY.get(source.name, ROWS)
    if source.quick and source.name != "python":
        sizes = QUICK_ROWS
    return [{"rows": n} for n in sizes]


def from_disk(source, engine, *, rows):
    return limited(LIMIT_SECONDS, engines.train_from_disk, *engine, rows)


FILES = {"engines": (), "python": (), **tabular("mnist")}
COMMON = {"metrics": {ROUND: "round_seconds"}, "by": ("rows",)}
EXPERIMENTS = [
    Experiment(
        *({"rows": ()}, POOLS, from_disk, cases),
        **COMMON,
        small=("rows",),
        code=(engines.__name__,),
    ),
    Experiment(
        *(FILES, {**POOLS, **PROCESSES, **DASK}, engines.on_engine, cases),
        **COMMON,
        small=("engines", "python"),
    ),
]


def derived(made):
    """Records with speed-up and objective beside the serial engine's."""
    at = lookup(made, "dataset", "rows", "method")
    for r in made:
        key = r["dataset"], r["rows"], SERIAL
        r["speed_up"] = ratio(at(*key), r["value"])
        objectives = at(*key, name="objective"), r.get("objective")
        r["same"] = None not in objectives and objectives[0] == objectives[1]
    return made


def show(made):
    rows = ("dataset", "rows")
    on_disk = listing(
        pick(made, dataset="rows"),
        field("on disk, rows", "rows", "{:,}"),
        field("engine", "method"),
        field("s a round", "value", "{:.3g}"),
        field("binning s", "binning_seconds", "{:.1f}"),
        field("peak MB", "peak_bytes", "{:.0f}", 1e-6),
    )
    return blocks(
        on_disk,
        across("Milliseconds of a round", made, "value", "{:.1f}", rows=rows, factor=1e3),
        across("Times as fast as the serial engine", made, "speed_up", "{:.2f}", rows=rows),
        across("The same objective, bit by bit", made, "same", "{}", rows=rows),
    )


def targets(made):
    at = lookup(made, "dataset", "rows", "method")
    of_engines = grouped((r["method"], r) for r in pick(made, dataset="rows"))
    slopes = [
        exponent([(r["rows"], r["value"]) for r in own if r["rows"] >= FIT_FROM_ROWS])
        for own in of_engines.values()
    ]
    over = {
        f"{name} {n:,}": less(*(at(name, n, m) for m in ("dask, 1", SERIAL)))
        for name, sizes in IN_MEMORY.items()
        for n in sizes
    }
    dask = [(name, seconds < 0.05) for name, seconds in over.items() if seconds is not None]
    peak = most(r["peak_bytes"] for r in pick(made, dataset="rows", rows=LARGE_ROWS))
    agree = [(f"{r['dataset']} {r['method']}", r["same"]) for r in made]

    def two_processes(name, n):
        both = (at(name, n, f"processes, {k}") for k in (1, 2))
        return reach(f"two processes 1.7 times one, {name}, {n:,} rows", ratio(*both), ">=", 1.7)

    wanted = "seconds of a round grow as rows to the power 1.05 at most"
    return [
        reach(wanted, most(slopes), "<=", 1.05),
        two_processes("engines", 1_000_000),
        two_processes("python", 5_000),
        all_of("Dask over serial less than 50 ms per round", dask),
        reach("10,000,000 rows in 4 GB", peak and peak / 1e9, "<=", 4.0, "{:.2f} GB"),
        all_of("the same objective on every engine, bit by bit", agree),
    ]
