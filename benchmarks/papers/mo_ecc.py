"""MultiBoost.MO and .ECC against the AdaBoosts they correct: Tables II to IV, figures 1 to 3."""

from collections.abc import Sequence
from pathlib import Path

from scipy.stats import ranksums
from sklearn.model_selection import train_test_split

from benchmarks.ours import coded
from benchmarks.ours.coded import ROUNDS, Setting
from benchmarks.papers import PRINTED
from benchmarks.runner import plots, tables
from benchmarks.runner.datasets import Dataset, Table, load
from benchmarks.runner.records import Record, by, datasets_of, mean, most, record, std
from benchmarks.runner.sources import code_version
from benchmarks.runner.targets import Target, all_of, reach
from benchmarks.runner.units import Finished, Unit

DATASETS = ("svmguide2", "svmguide4", "wine", "iris", "glass", "dna")
QUICK_DATASETS = ("wine",)
REPEATS = 20
# MO has 31 bits on six classes.
CUT_REPEATS = {"dna": 5, "svmguide4": 5, "glass": 10}
# The paper validates the norm on its large sets; so here.
VALIDATED = ("dna",)
# Training rows where the paper has a given partition; elsewhere 70 %.
TRAIN_ROWS = {"svmguide4": 300, "dna": 2000}
SETTINGS = (("mo", "stump"), ("ecc", "stump"), ("ecc", "lda"))
KINDS = {"stage_wise": "adaboost", "corrective": "multiboost"}

# Test errors of the corrective method: mean and standard deviation.
PAPER = {
    (setting, name, rounds): tuple(pair)
    for setting, by_name in PRINTED["mo-ecc"].items()
    for name, pairs in by_name.items()
    for rounds, pair in zip(ROUNDS, pairs, strict=True)
}


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    data = load(name, data_dir)
    repeats = 1 if quick else CUT_REPEATS.get(name, REPEATS)
    theta = "held_out" if name in VALIDATED else "stage_wise"
    version = f"{data.content} {code_version([coded.__name__])}"

    def unit(code: str, learner: str, repeat: int) -> Unit:
        setting = Setting(code, learner, theta)
        return Unit(
            *("mo-ecc", name, f"{code}_{learner}"),
            *({"repeat": repeat, "theta": theta}, version),
            lambda: coded.compare(setting, *split(data, repeat), repeat),
        )

    return [unit(*setting, repeat) for setting in SETTINGS for repeat in range(repeats)]


def split(data: Dataset, repeat: int) -> tuple[Table, Table]:
    """Training and test part, stratified by class."""
    size = TRAIN_ROWS.get(data.name, 0.7)
    X, test_X, y, test_y = train_test_split(
        data.X, data.y, train_size=size, stratify=data.y, random_state=repeat
    )
    return Table(X, y), Table(test_X, test_y)


def records(name: str, finished: Finished) -> list[Record]:
    made = []
    for code, learner in SETTINGS:
        results = [result for unit, result in finished if unit.method == f"{code}_{learner}"]
        for kind, prefix in KINDS.items() if results else ():
            for rounds in ROUNDS:
                own = [r[kind][str(rounds)] for r in results]
                errors = [one["test_error"] for one in own]
                key = (f"{code}_{learner}", name, rounds)
                paper = PAPER.get(key) if kind == "corrective" else None
                is_cut = len(own) < REPEATS
                fields = {
                    "std": std(errors),
                    "paper": paper and paper[0],
                    "paper_std": paper and paper[1],
                    "seconds": mean(r[kind]["seconds"] for r in results),
                    "gap": mean(one.get("gap") for one in own),
                    "rounds": rounds,
                    "repeats": len(own),
                    "errors": errors,
                    "train_error": mean(one["train_error"] for one in own),
                    "min_margin": mean(one["min_margin"] for one in own),
                    "theta": mean(one.get("theta") for one in own),
                    "largest_excess": most(one.get("largest_excess") for one in own),
                    "gap_over_columns": most(one.get("gap_over_columns") for one in own),
                    "note": f"cut to fit the time: {len(own)} of {REPEATS} repeats"
                    if is_cut
                    else None,
                }
                method = f"{prefix}_{code}_{learner}"
                made.append(record(name, method, "error", mean(errors), **fields))
    return made


def _both(field: str, form: str, factor: float = 1) -> list:
    """A column of each method for one field; rows are pairs of records."""
    return [lambda pair, k=k: form.format(factor * pair[k][field]) for k in (0, 1)]


def _paper(pair: tuple[Record, Record]) -> str:
    printed = {"value": pair[1]["paper"], "std": pair[1].get("paper_std")}
    return tables.percent(printed, 1)


_TRAIN, _MARGIN = _both("train_error", "{:.2f}", 100), _both("min_margin", "{:.4f}")
COLUMNS = [
    tables.Column("", lambda pair: _title(pair[1])),
    tables.Column("rounds", lambda pair: str(pair[1]["rounds"])),
    tables.Column("train: Ada", _TRAIN[0]),
    tables.Column("Multi", _TRAIN[1]),
    tables.Column("test: Ada", lambda pair: tables.percent(pair[0], 1)),
    tables.Column("Multi", lambda pair: tables.percent(pair[1], 1)),
    tables.Column("paper", _paper),
    tables.Column("margin: Ada", _MARGIN[0]),
    tables.Column("Multi", _MARGIN[1]),
    tables.Column("u'rho - r", _both("largest_excess", "{:.1e}")[1]),
    tables.Column("gap", _both("gap_over_columns", "{:.1e}")[1]),
]
NOTE = (
    "Errors in %; margin: smallest of the training examples over the l1 norm, mean; u'rho - r: "
    "largest over columns and splits; gap: largest relative one over the columns."
)


def _title(multi: Record) -> str:
    method = multi["method"].removeprefix("multiboost_").replace("_", " ")
    return f"{multi['dataset']} {method}"


def _pairs(made: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Stage-wise and corrective records of the same setting and rounds."""
    by_key = by(made, "dataset", "method", "rounds")
    pairs = [
        (by_key.get((name, method.replace("multiboost", "adaboost"), rounds)), r)
        for (name, method, rounds), r in by_key.items()
        if method.startswith("multiboost")
    ]
    return [pair for pair in pairs if None not in pair]


def show(made: Sequence[Record]) -> str:
    rows = []
    for code, learner in SETTINGS:  # Wilcoxon's tests of the mean errors over the sets (Table IV)
        cells = []
        for rounds in ROUNDS:
            both = [
                [r["value"] for r in made if (r["method"], r["rounds"]) == (method, rounds)]
                for method in (f"{prefix}_{code}_{learner}" for prefix in KINDS.values())
            ]
            cells.append(f"{ranksums(*both).pvalue:.3f}" if all(both) else "-")
        rows.append([f"{code} {learner}", *cells])
    head = ["p of the rank sums", *(f"T={rounds}" for rounds in ROUNDS)]
    errors = tables.table(_pairs(made), COLUMNS)
    return tables.blocks(f"{errors}\n{NOTE}", tables.aligned(head, rows))


def targets(made: Sequence[Record]) -> list[Target]:
    pairs = _pairs(made)
    names = [f"{m['dataset']} {m['method'].split('_', 1)[1]} {m['rounds']}" for _, m in pairs]
    named = list(zip(names, pairs, strict=True))
    lower = [
        (name, multi["train_error"] <= ada["train_error"])
        for name, (ada, multi) in named
        if multi["rounds"] < max(ROUNDS) and ada["train_error"] > 0
    ]
    printed = [
        (name, multi["value"] <= multi["paper"] + multi["paper_std"])
        for name, (_, multi) in named
        if multi["paper"] is not None
    ]
    n_all = len(DATASETS) * len(SETTINGS) * len(ROUNDS)
    wanted = "training error at 50 and 100 rounds at most the stage-wise one, where that is not 0"
    gap, excess = (
        most(multi[field] for _, multi in pairs) for field in ("gap_over_columns", "largest_excess")
    )
    return [
        all_of(wanted, lower, max(1, len(lower))),
        all_of("test error at most the table's plus one deviation", printed, n_all),
        reach("relative gap over the columns at most 1e-4", gap, "<=", 1e-4),
        reach("u'rho[h] <= r for all columns (to 1e-6)", excess, "<=", 1e-6),
    ]


def plot(made: Sequence[Record], path: Path) -> None:
    """Errors against rounds (figures 2 and 3), a panel for each setting and data set."""
    names = datasets_of(made)
    rows = []
    for code, learner in SETTINGS:
        row = [plots.Panel(settings={"xscale": "log"}, numbers=True) for _ in names]
        for panel, name in zip(row, names, strict=True):
            for prefix, colour in (("adaboost", "tab:orange"), ("multiboost", "tab:blue")):
                method = f"{prefix}_{code}_{learner}"
                own = [r for r in made if (r["dataset"], r["method"]) == (name, method)]
                for field, part, line in (("value", "test", "-"), ("train_error", "train", "--")):
                    style = {"color": colour, "ls": line, "marker": "o", "ms": 3}
                    style["label"] = f"{prefix}, {part}"
                    percent = [100 * r[field] for r in own]
                    panel.curves.append(([r["rounds"] for r in own], percent, style))
            panel.settings |= {"xticks": ROUNDS, "ylim": (-1, None)}
            if not rows:
                panel.settings["title"] = name
        row[0].settings["ylabel"] = f"{code}, {learner}"
        rows.append(row)
    size = (0.8 + 2.0 * len(names), 1.9 * len(rows))
    legend = {"loc": "outside lower center", "ncols": 4 if len(names) > 2 else 2}
    plots.draw(path, rows, size, grid=False, legend=legend, labels=("rounds", "error, %"))
