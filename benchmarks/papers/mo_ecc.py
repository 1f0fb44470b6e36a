"""MultiBoost.MO and .ECC against the AdaBoosts they correct: Tables II to IV, on 6 of 8 sets."""

from scipy.stats import ranksums
from sklearn.model_selection import train_test_split

from benchmarks.ours import coded
from benchmarks.ours.coded import ROUNDS
from benchmarks.papers import PRINTED
from benchmarks.runner.datasets import Table, load, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, beside, blocks
from benchmarks.runner.records import lookup, pick
from benchmarks.runner.targets import all_of

NAMES = ("svmguide2", "svmguide4", "wine", "iris", "glass", "dna")
# MO has 31 bits on six classes; 20 splits in the paper.
REPEATS, USUAL_REPEATS = {"dna": 3, "svmguide4": 3, "glass": 5}, 10
# The paper validates the norm on its large sets; so here.
VALIDATED = ("dna",)
# Training rows where the paper has a given partition; elsewhere 70 %.
TRAIN_ROWS = {"svmguide4": 300, "dna": 2000}
SETTINGS = {"mo_stump": ("mo", "stump"), "ecc_stump": ("ecc", "stump"), "ecc_lda": ("ecc", "lda")}
KINDS = {"stage_wise": "adaboost", "corrective": "multiboost"}
ADA, MULTI = KINDS.values()
# Test errors of the corrective method by setting and data set: mean and standard deviation after
# each number of rounds.
PAPER = PRINTED["mo-ecc"]


def cases(source, learner):
    n = 1 if source.quick else REPEATS.get(source.name, USUAL_REPEATS)
    theta = coded.HELD_OUT if source.name in VALIDATED else "stage_wise"
    return [{"repeat": k, "theta": theta} for k in range(n)]


def both(source, setting, *, repeat, theta):
    """Both methods on one split, stratified by class."""
    data = load(source.name, source.folder)
    size = TRAIN_ROWS.get(source.name, 0.7)
    X, test_X, y, test_y = train_test_split(
        data.X, data.y, train_size=size, stratify=data.y, random_state=repeat
    )
    return coded.compare(*setting, theta, Table(X, y), Table(test_X, test_y), repeat)


def _rows(result):
    """A row for each method and number of rounds."""
    return [
        {**result[kind][str(rounds)], "prefix": prefix, "rounds": rounds}
        for kind, prefix in KINDS.items()
        for rounds in ROUNDS
    ]


EXPERIMENTS = [
    Experiment(
        *(tabular(*NAMES), SETTINGS, both, cases),
        metrics={"error": "test_error"},
        by=("prefix", "rounds"),
        rows=_rows,
        small=("wine",),
    )
]


def derived(made):
    """Records named by method and setting, with the paper's figures."""
    for r in made:
        r["setting"], r["paper_std"] = r["method"], None
        r["method"] = f"{r['prefix']}_{r['setting']}"
        if r["prefix"] == MULTI:
            of_rounds = PAPER[r["setting"]][r["dataset"]]
            r["paper"], r["paper_std"] = of_rounds[ROUNDS.index(r["rounds"])]
    return made


def show(made):
    of_kinds = [{**r, "method": r["prefix"]} for r in made]
    ranks = []
    for setting in SETTINGS if made else ():  # Wilcoxon's tests over the sets (Table IV)
        for rounds in ROUNDS:
            own = [pick(made, setting=setting, rounds=rounds, prefix=p) for p in (ADA, MULTI)]
            p = ranksums(*([r["value"] for r in one] for one in own)).pvalue
            ranks.append({"setting": setting, "method": f"T={rounds}", "value": float(p)})
    rows = ("dataset", "setting", "rounds")
    facts = {"test error": ("value", "{:.1%}"), "in the paper": ("paper", "{:.1%}")}
    facts |= {"training": ("train_error", "{:.2%}"), "margin": ("min_margin", "{:.4f}")}
    head = "Errors, and the smallest margin of the training examples over the l1 norm, mean"
    return blocks(
        beside(head, of_kinds, facts, rows=rows),
        across("p of the rank sums of the mean errors", ranks, form="{:.3f}", rows=("setting",)),
    )


def targets(made):
    lower, printed = [], []
    at = lookup(made, "dataset", "setting", "rounds", "prefix")
    for r in pick(made, prefix=MULTI):
        name = f"{r['dataset']} {r['setting']} {r['rounds']}"
        other = at(r["dataset"], r["setting"], r["rounds"], ADA, name="train_error")
        if r["rounds"] < max(ROUNDS) and other:
            lower.append((name, r["train_error"] <= other))
        printed.append((name, r["value"] <= r["paper"] + r["paper_std"]))
    n_all = len(NAMES) * len(SETTINGS) * len(ROUNDS)
    wanted = "training error at 50 and 100 rounds at most the stage-wise one, where that is not 0"
    return [
        all_of(wanted, lower),
        all_of("test error at most the table's plus one deviation", printed, n_all),
    ]
