"""The papers' statements, measured: progress, its bound, cuts, ShareBoost's theorems, the gap."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse as matrices
from scipy.optimize import linprog

from benchmarks.ours import sparse
from benchmarks.runner.datasets import halves, load, tabular
from benchmarks.runner.experiment import Experiment
from benchmarks.runner.pages import across, blocks, field, listing, picture
from benchmarks.runner.records import exponent, most, pick
from benchmarks.runner.targets import reach
from structboost import MulticlassTask, ShareBoostClassifier, StructBoost

# Edges above 1 + this are violated; decreases below this part of the objective are none.
EDGE, NONE = 1e-7, 1e-9
# Penalties of the comparison matrices, as parts of the smallest one that leaves no feature.
PENALTIES = np.geomspace(0.95, 1e-3, 24)


class Round(NamedTuple):
    """A round: objective, what (43) of StructBoost promised, best step along one new learner."""

    objective: float
    bound: float
    line: float
    is_violated: bool = True


# StructBoost, Propositions 6.1 and 6.2


def objective(scores, y, size, C):
    """f(w) of (42), of scores F(x_i, y) and the sum of the weights."""
    augmented = scores + (np.arange(scores.shape[1]) != y[:, None])
    return size + C * float(np.mean(augmented.max(axis=1) - scores[np.arange(len(y)), y]))


def decrease(scores, y, response, channel, C):
    """The right side of (43) for a learner on one class, and the decrease of the best step.

    Along ``alpha`` the objective is convex with a slope that jumps where the argmax (44) changes.
    On each piece, ``-alpha`` times the slope is largest at its end.
    """
    augmented = scores + (np.arange(scores.shape[1]) != y[:, None])
    own = augmented[:, channel].copy()
    augmented[:, channel] = -np.inf
    lead = augmented.max(axis=1) - own
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(response != 0, lead / response, np.inf)
    is_class = y == channel
    # The class is the argmax at once, or it becomes or ceases to be so at ``at``.
    starts = (lead < 0) | ((lead == 0) & (response > 0))
    slope = 1.0 + C * float(np.mean(response * starts - response * is_class))
    jumps = np.flatnonzero(np.isfinite(at) & (at > 0))
    jumps = jumps[np.argsort(at[jumps], kind="stable")]
    ends, rises = at[jumps], C * np.abs(response[jumps]) / len(y)
    slopes = np.concatenate(([slope], slope + np.cumsum(rises)))[:-1]
    falls = slopes < 0
    widths = np.diff(ends, prepend=0.0)
    bound = float(np.max(-ends * slopes, initial=0.0))
    return bound, float(-(slopes * widths)[falls].sum())


def algorithm_one(X, y, C, max_rounds=400):
    """Rounds of Algorithm 1 as printed: one stump a round, the master (35) solved by an LP.

    Stumps are all of the training rows and the constant, of both signs, on each class.  The last
    round is the one that finds no violated stump.
    """
    n, n_classes = len(y), int(y.max()) + 1
    cuts = [(f, v) for f in range(X.shape[1]) for v in np.unique(X[:, f])[:-1]]
    stumps = np.column_stack([np.ones(n), *(np.where(X[:, f] > v, 1.0, -1.0) for f, v in cuts)])
    others = [(i, c) for i in range(n) for c in range(n_classes) if c != y[i]]
    example, wrong = (np.array(part) for part in zip(*others, strict=True))
    # Any outputs start it: the first wrong ones.
    multipliers = np.zeros(len(others))
    multipliers[np.unique(example, return_index=True)[1]] = C / n
    slacks = -matrices.eye_array(n, format="csc")[example]
    columns, differences, rounds = [], [], []
    scores, value = np.zeros((n, n_classes)), C
    for _ in range(max_rounds):
        duals = np.zeros((n, n_classes))
        np.add.at(duals, (example, wrong), -multipliers)
        np.add.at(duals, (example, y[example]), multipliers)
        edges = stumps.T @ duals
        stump, channel = np.unravel_index(np.abs(edges).argmax(), edges.shape)
        edge = edges[stump, channel]
        if abs(edge) <= 1.0 + EDGE:
            return [*rounds, Round(value, 0.0, 0.0, is_violated=False)]
        response = np.sign(edge) * stumps[:, stump]
        bound, line = decrease(scores, y, response, channel, C)
        columns.append((response, channel))
        signs = 1.0 * (y[example] == channel) - (wrong == channel)
        differences.append(matrices.csc_array((-response[example] * signs)[:, None]))
        costs = np.concatenate((np.ones(len(columns)), np.full(n, C / n)))
        rows = matrices.hstack((*differences, slacks), format="csc")
        program = linprog(costs, rows, -np.ones(len(others)), method="highs-ds")
        weights, multipliers = program.x[: len(columns)], -program.ineqlin.marginals
        scores = np.zeros((n, n_classes))
        for weight, (h, c) in zip(weights, columns, strict=True):
            scores[:, c] += weight * h
        value = objective(scores, y, weights.sum(), C)
        rounds.append(Round(value, bound, line))
    return rounds


def structboost(X, y, C, tol=1e-3, max_rounds=400):
    """Rounds of the library, which adds columns of all classes a round and solves to a tolerance.

    The bound is that of the new column for which it is largest.
    """
    task = MulticlassTask(int(y.max()) + 1)
    trainer = StructBoost(task, C=C, tol=tol, max_rounds=max_rounds).fit(X, y)
    model = trainer.model_
    member = model.members["x"]
    responses = member.learners.responses(X)[member.term_learners] * member.coefficients[:, None]
    rounds, scores = [], np.zeros((len(y), task.kinds["x"].n_channels))
    before = np.zeros(len(model.weights), np.bool_)
    for stage, weights in zip(model.staged(), model.stages, strict=True):
        new = np.flatnonzero((weights[member.columns] > 0) & ~before[member.columns])
        pairs = [decrease(scores, y, responses[j], member.channels[j], C) for j in new]
        bound, line = np.max(pairs or [(0.0, 0.0)], axis=0).tolist()
        before |= weights > 0
        scores = stage.scores(X)
        rounds.append(Round(objective(scores, y, weights.sum(), C), bound, line))
    return rounds


# ShareBoost, Theorems 1 and 2


def root(n_rows, n_features, n_classes, rounds, delta=0.05):
    """The root in Theorem 1, whose constant is not printed."""
    parameters = rounds * n_classes * np.log(rounds * n_classes) * np.log(n_classes)
    return np.sqrt((parameters + rounds * np.log(n_features) + np.log(1 / delta)) / n_rows)


class Greedy(NamedTuple):
    """ShareBoost after each round, and the bound of its loss by Theorem 2."""

    losses: list[float]
    bounds: list[float]
    train_errors: list[float]
    test_errors: list[float]
    start: float  # loss without features


def greedy(train, test, max_rounds):
    """ShareBoost without a penalty to speak of, and ``min L(W*) + 4 |W*|^2 / T`` over a path.

    The norm is that of l infinity over classes and l1 over features.  The matrices W* minimise the
    loss with a price of this norm, which are those of the smallest bounds.  The constant is no
    feature: it is fitted from the start and has no price.
    """
    fitted = ShareBoostClassifier(C=1e8, max_rounds=max_rounds).fit(train.X, train.y)
    classes, y = np.unique(train.y, return_inverse=True)
    X, _ = sparse.standardised(train.X, test.X)
    staged = [model.scores(train.X) for model in fitted.model_.staged()]
    losses = [sparse.loss_of(scores, y)[0] for scores in staged]
    errors = [
        [float(np.mean(labels != part.y)) for labels in fitted.staged_predict(part.X)]
        for part in (train, test)
    ]
    weights = np.zeros((X.shape[1], len(classes)))
    weights[-1] = np.log(np.bincount(y))
    start, gradient = sparse.loss(X, y, weights)
    largest = float(np.abs(gradient[:-1]).sum(axis=1).max())
    rounds = np.arange(1, len(losses) + 1)
    bounds = np.full(len(losses), start)
    for penalty in PENALTIES:
        weights = sparse.proximal(X, y, weights, penalty * largest)
        norm = float(np.abs(weights[:-1]).max(axis=1).sum())
        bounds = np.minimum(bounds, sparse.loss(X, y, weights)[0] + 4 * norm**2 / rounds)
    return Greedy(losses, bounds.tolist(), *errors, start)


# Progress: what a round is.
PRINTED, LIBRARY = "Algorithm 1", "structboost"
ROUNDS = {PRINTED: algorithm_one, LIBRARY: structboost}
# Cuts: one number varies, the others are these.
USUAL = {"n_rows": 600, "C": 100.0, "tol": 0.02}
VARIED = {
    "n_rows": (150, 300, 600, 1200),
    "C": (20.0, 50.0, 100.0, 300.0, 1000.0),
    "tol": (0.1, 0.05, 0.02, 0.01, 0.005),
}
# Algorithm 2 as printed takes minutes on digits, and at larger C or smaller gaps.
AS_PRINTED, OF_PRINTED = "1-slack as printed", {"C": 10.0, "tol": 0.05}
WORDS = {"n_rows": "examples", "C": "C", "tol": "gap"}
SETTINGS = {
    "1-slack": {},
    "m-slack": {"formulation": "m_slack"},
    AS_PRINTED: {"stabilize": False},
}
FEATURES = 64
# Theorem 1 at this root says that errors differ by at most ten points.
USEFUL = 0.1
GAPS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
LOSS, PASSES, PROGRESS, ERROR = "loss", "passes", "progress", "error at a gap"


def _train_of(source, repeat=0):
    """Training and test rows; those for validation are trained on, because nothing is chosen."""
    return halves(load(source.name, source.folder), repeat)


def progress(source, rounds_of, *, C):
    """How rounds lower the objective, and what (43) promised."""
    train, _ = _train_of(source)
    rounds = rounds_of(train.X, train.y, C)
    values = np.array([C, *(one.objective for one in rounds)])
    bounds = np.array([one.bound for one in rounds])
    lines = np.array([one.line for one in rounds])
    falls, none = -np.diff(values), NONE * values[:-1]
    added = np.array([one.is_violated for one in rounds])
    return {
        "value": float((falls > none)[added].mean()),
        "rises": float((falls < -none).mean()),
        "added": int(added.sum()),
        "holds": float((bounds <= falls + none).mean()),
        "zero": float((bounds <= none)[added].mean()),
        "promised": float(bounds.sum() / falls.sum()),
        "steps": float(lines.sum() / falls.sum()),
        "objective": values[-1],
    }


def costs(source, learner):
    cases = [{**USUAL, "varied": name, name: v} for name, values in VARIED.items() for v in values]
    if learner == AS_PRINTED:
        cases = [{**one, **OF_PRINTED} for one in cases if one["varied"] == "n_rows"]
    return cases[:2] if source.quick else cases


def masters(source):
    return {n: s for n, s in SETTINGS.items() if n != AS_PRINTED or source.name == "segment"}


def cuts(source, settings, *, varied, n_rows, C, tol):
    """Passes of the loss-augmented argmax until the gap is proved."""
    train, _ = _train_of(source)
    chosen = np.random.default_rng(0).permutation(len(train.y))[:n_rows]
    task = MulticlassTask(int(train.y.max()) + 1)
    trainer = StructBoost(task, C=C, tol=tol, max_rounds=300, **settings)
    last = trainer.fit(train.X[chosen], train.y[chosen]).history_[-1]
    return {"value": last["oracle_calls"], "gap": last["gap"], "rounds": last["round"]}


def theorems(source, greedy, *, repeat):
    """ShareBoost's loss and errors after each round beside both theorems."""
    train, test = _train_of(source, repeat)
    path = greedy(train, test, min(FEATURES, train.X.shape[1]))
    n, d, k = *train.X.shape, int(train.y.max()) + 1
    rows = [
        {
            **{"rounds": t + 1, "value": path.losses[t], "bound": path.bounds[t]},
            **{"start": path.start, "train_error": path.train_errors[t]},
            "difference": path.test_errors[t] - path.train_errors[t],
            "root": float(root(n, d, k, t + 1)),
            "rows_needed": n * (float(root(n, d, k, t + 1)) / USEFUL) ** 2,
        }
        for t in range(len(path.losses))
    ]
    return {"rows": rows}


def repeats(source, learner):
    return [{"repeat": k} for k in range(1 if source.quick else 3)]


def by_gap(source, learner):
    Cs = (30.0,) if source.quick else (30.0, 300.0)
    return [{"C": C, **one} for C in Cs for one in repeats(source, learner)]


def errors(source, settings, *, C, repeat):
    """Test error at the first round whose proved gap is so small."""
    train, test = _train_of(source, repeat)
    task = MulticlassTask(int(train.y.max()) + 1)
    trainer = StructBoost(task, C=C, tol=GAPS[-1], max_rounds=300, **settings)
    trainer.fit(train.X, train.y)
    of_rounds = [np.mean(np.ravel(p) != test.y) for p in trainer.staged_predict(test.X)]
    gaps = [one["gap"] for one in trainer.history_]
    first = {gap: next((k for k, own in enumerate(gaps) if own <= gap), None) for gap in GAPS}
    rows = [
        {"below": gap, "value": float(of_rounds[k]), "round": k + 1}
        for gap, k in first.items()
        if k is not None
    ]
    return {"rows": rows, "best": float(min(of_rounds))}


EXPERIMENTS = [
    Experiment(
        *(tabular("iris", "wine", "glass"), ROUNDS, progress),
        *(lambda source, learner: [{"C": C} for C in (10.0, 100.0)], {PROGRESS: "value"}, ("C",)),
        small=("wine",),
    ),
    Experiment(
        *(tabular("digits", "segment"), masters, cuts, costs, {PASSES: "value"}),
        by=("varied", *USUAL),
        small=("digits",),
        code=("structboost.training.boosting",),
    ),
    Experiment(
        *(tabular("digits", "segment", "vowel"), {"shareboost": greedy}, theorems),
        *(repeats, {LOSS: "value"}, ("rounds",)),
        small=("digits",),
    ),
    Experiment(
        *(tabular("digits", "segment", "vowel"), {"1-slack": {}}, errors),
        *(by_gap, {ERROR: "value"}, ("C", "below")),
        small=("digits",),
        code=("structboost.training.boosting",),
    ),
]


def powers(made, name):
    """Exponent of the passes as a power of a number, by data set and learner."""
    own = pick(made, metric=PASSES, varied=name)
    keys = dict.fromkeys((r["dataset"], r["method"]) for r in own)
    return [
        {"dataset": s, "method": m, "by": WORDS[name], "value": exponent(points)}
        for s, m in keys
        for points in [[(r[name], r["value"]) for r in pick(own, dataset=s, method=m)]]
    ]


def show(made):
    of_progress = [{**r, "lower": r["value"]} for r in pick(made, metric=PROGRESS)]
    of_loss = [{**r, "loss": r["value"]} for r in pick(made, metric=LOSS)]
    shown = [r for r in of_loss if r["rounds"] in (1, 2, 4, 8, 16, 32, 64)]
    percent = partial(field, form="{:.0%}")
    exponents = [one for name in VARIED for one in powers(made, name)]
    return blocks(
        "**Propositions 6.1 and 6.2**" if of_progress else "",
        listing(
            of_progress,
            field("", "dataset"), field("C", "C", "{:g}"), field("rounds of", "method"),
            field("rounds", "added", "{:.0f}"), percent("lower the objective", "lower"),
            percent("raise it", "rises"), percent("(43) holds", "holds"),
            percent("(43) is 0", "zero"), percent("(43), of all decrease", "promised"),
            percent("best steps, of all decrease", "steps"),
            field("objective", "objective", "{:.4g}"),
        ),
        across("Exponent of the passes", exponents, form="{:.2f}", rows=("dataset", "by")),
        *(
            across(
                f"Passes by {WORDS[name]}", pick(made, metric=PASSES, varied=name), form="{:.0f}",
                rows=("dataset", name),
            )
            for name in VARIED
        ),
        "**ShareBoost, Theorems 1 and 2**" if shown else "",
        listing(
            shown,
            field("", "dataset"), field("T", "rounds"), field("loss (3)", "loss", "{:.3f}"),
            field("Theorem 2", "bound", "{:.3f}"), field("no feature", "start", "{:.3f}"),
            percent("test error less training error", "difference", form="{:.1%}"),
            field("root of Theorem 1", "root", "{:.2f}"),
            field("rows for a root of .1", "rows_needed", "{:,.0f}"),
        ),
        across(
            "Test error at the first round whose gap is so small", _by_set(made), form="{:.1%}",
            rows=("below",),
        ),
    )  # fmt: skip


def _by_set(made):
    """Errors at gaps, with a column for each data set and C."""
    return [{**r, "method": f"{r['dataset']}, C {r['C']:g}"} for r in pick(made, metric=ERROR)]


PLOT = "Passes by examples, C and gap; both theorems on digits; test error by gap"


def plot(made, path):
    """Four plots: passes, Theorem 2, Theorem 1, errors."""
    with picture(path, 2, 2, figsize=(10.0, 7.4)) as axes:
        passes, second, first, gap = axes.ravel()
        styles = dict(zip(VARIED, ("-o", "-s", "-^"), strict=True))
        for name, color in (("digits", "tab:blue"), ("segment", "tab:orange")):
            for varied, style in styles.items():
                own = pick(made, dataset=name, metric=PASSES, varied=varied, method="1-slack")
                points = sorted((r[varied] / USUAL[varied], r["value"]) for r in own)
                if points:
                    label = f"{name}, by {WORDS[varied]}"
                    passes.plot(*zip(*points, strict=True), style, color=color, label=label)
        usual = "600 examples, C = 100, gap 2 %"
        passes.set(
            xscale="log",
            yscale="log",
            title="Passes of 1-slack",
            xlabel=f"number that varies, over that of {usual}",
        )
        own = sorted(pick(made, dataset="digits", metric=LOSS), key=lambda r: r["rounds"])
        rounds = [r["rounds"] for r in own]
        for axis, facts in (
            (second, {"start": "no feature", "bound": "bound", "value": "ShareBoost"}),
            (first, {"root": "the root", "difference": "test less training error"}),
        ):
            for fact, label in facts.items():
                axis.plot(rounds, [r[fact] for r in own], label=label)
            axis.set(xlabel="features T")
        second.set(yscale="log", title="Theorem 2 on digits: loss (3)")
        first.set(title="Theorem 1 on digits: difference of errors")
        for name in dict.fromkeys(r["method"] for r in _by_set(made)):
            points = sorted((r["below"], r["value"]) for r in pick(_by_set(made), method=name))
            gap.plot(*zip(*points, strict=True), "-o", markersize=3, label=name)
        gap.set(xscale="log", title="Test error at a proved gap", xlabel="gap")
        gap.invert_xaxis()
        for axis in axes.ravel():
            axis.grid(visible=True, linewidth=0.3)
            axis.legend(fontsize=7, loc="upper center" if axis is passes else "best")


def targets(made):
    printed, ours = (pick(made, metric=PROGRESS, method=name) for name in ROUNDS)
    of_loss = pick(made, metric=LOSS)
    of_rows = [r["value"] for r in powers(made, "n_rows") if r["method"] == "1-slack"]
    over = [r["value"] / r["bound"] for r in of_loss]
    constants = [r["difference"] / r["root"] for r in of_loss]

    def least(records, name):
        return min((r[name] for r in records), default=None)

    return [
        reach("6.1: every round of Algorithm 1 lowers the objective", least(printed, "value"),
              ">=", 1.0, "in {:.0%} of the rounds, at least"),
        reach("6.1: no round of it raises the objective", most(r["rises"] for r in printed),
              "<=", 0.0, "{:.0%}"),
        reach("6.1: no round of structboost raises it", most(r["rises"] for r in ours),
              "<=", 0.0, "{:.0%}"),
        reach("6.2: (43) holds in every round of Algorithm 1", least(printed, "holds"), ">=", 1.0,
              "{:.0%}"),
        reach("passes do not grow with the examples, exponent", most(of_rows), "<=", 0.25,
              "{:.2f}"),
        reach("Theorem 1 with the constant 1, largest ratio", most(constants), "<=", 1.0,
              "{:.2f}"),
        reach("Theorem 2, largest loss over its bound", most(over), "<=", 1.0, "{:.2f}"),
    ]  # fmt: skip
