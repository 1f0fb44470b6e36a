"""Cost of a linear chain by the number of tokens, tags and sequences, beside CRFsuite."""

import time
from functools import partial
from itertools import islice

import numpy as np

from benchmarks.papers.taggers import CRFSUITE, OURS, crfsuite
from benchmarks.runner.experiment import Experiment, Learner
from benchmarks.runner.limits import limited, peak_memory, reset_peak_memory
from benchmarks.runner.pages import beside, blocks, picture
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.records import exponent, lookup, pick, ratio
from benchmarks.runner.targets import reach
from benchmarks.structures.tokens import FILES, Tagged, f1, read
from structboost import StructBoostTagger

SPANISH = "spanish"
N_NAMES, N_CLUES, CALLS, QUICK_SENTENCES = 3000, 200, 200, 200
# Tokens, tags and sequences of the made texts; one of the three varies.
TEXTS = {
    "tokens": [(n, 9, n // 20) for n in (5_000, 20_000, 80_000)],
    "tags": [(3_000, n, 300) for n in (20, 80, 320)],
    "sequences": [(20_000, 9, n) for n in (1_000, 200, 20, 1)],
}
QUICK = {"tokens": [(500, 9, 25)], "tags": [(300, 20, 30)], "sequences": [(500, 9, 1)]}
LIMIT_SECONDS = 600.0
PLOT = "CPU seconds of fit and prediction by the number of tokens, tags and sequences"


def made_text(tokens, tags, sequences, seed=0):
    """Sequences of equal length, whose tags follow from a clue and from chance."""
    rng = np.random.default_rng(seed)
    clues, names = rng.integers(N_CLUES, size=tokens), rng.integers(N_NAMES, size=tokens)
    true = (clues + rng.integers(2, size=tokens)) % tags
    rows = iter([{"name": f"n{a}", "clue": f"c{b}"} for a, b in zip(names, clues, strict=True)])
    labels = iter([f"t{k:03d}" for k in true])
    n = tokens // sequences
    return Tagged(*([list(islice(of, n)) for _ in range(sequences)] for of in (rows, labels)))


def cases(source, learner):
    texts = (QUICK if source.quick else TEXTS).get(source.name)
    if texts is None:
        return [{}]
    return [dict(zip(("tokens", "tags", "sequences"), text, strict=True)) for text in texts]


def cost(source, learner, **text):
    """CPU seconds of fit and prediction, and added memory, in a process of its own."""
    return limited(LIMIT_SECONDS, _cost, source, learner, text)


def _cost(report, source, learner, text):
    """Facts of a made text, and of the real one also chunk F1 and the time of one sentence."""
    report({})
    if text:
        train = test = made_text(**text)
    else:
        n = QUICK_SENTENCES if source.quick else None
        train, test = (read(source.name, source.folder / file, n) for file in FILES[source.name])
    # Compiled code is loaded: for short sequences, for long ones, and for a choice of C.
    for few, is_made in (
        (made_text(60, 9, 3), True),
        (made_text(300, 9, 1), True),
        (train, False),
    ):
        few = Tagged(few.X[:30], few.Y[:30])
        if is_made or not text:
            learner.fit(few, is_made)(few.X)
    before = reset_peak_memory()
    # The faster of two fits of a made text, and of three predictions.
    fits = [cpu_timed(partial(learner.fit, train), bool(text)) for _ in range(1 + bool(text))]
    predict, cpu = min(fits, key=lambda fit: fit[1])
    predictions = [cpu_timed(predict, test.X) for _ in range(3)]
    predicted, cpu_of_test = min(predictions, key=lambda one: one[1])
    peak = peak_memory()
    times = []
    for x in test.X[: 0 if text else CALLS]:
        began = time.perf_counter()
        predict([x])
        times.append(time.perf_counter() - began)
    n_tokens = sum(map(len, test.Y))
    right = sum(np.sum(np.array(a) == b) for a, b in zip(test.Y, predicted, strict=True))
    facts = {"cpu": cpu, "cpu_of_test": cpu_of_test, "peak_bytes": peak - before}
    facts["whole_bytes"] = peak
    facts |= {"tokens_per_cpu": n_tokens / cpu_of_test, "right": float(right / n_tokens)}
    if not text:
        facts |= {"tokens": n_tokens, "tags": len({t for y in train.Y for t in y})}
        facts |= {"sequences": len(test.Y), "f1": f1(test.Y, predicted)}
        facts["latency_ms"] = 1e3 * float(np.median(times))
    return facts


def _ours(train, is_made):
    settings = {"weak_learner": "linear", "C": float(len(train.Y))} if is_made else {}
    return StructBoostTagger(**settings).fit(train.X, train.Y).predict


def _crfsuite(train, is_made):
    return crfsuite(train, **({"c1": 0.0, "c2": 0.5} if is_made else {}))


BOTH = {OURS: Learner(_ours), CRFSUITE: Learner(_crfsuite, ("pycrfsuite",))}
DATA = {**dict.fromkeys(TEXTS, ()), SPANISH: FILES[SPANISH]}
BY = ("tokens", "tags", "sequences")
EXPERIMENTS = [
    Experiment(*(DATA, BOTH, cost, cases), metrics={"CPU": "cpu"}, by=BY, small=tuple(TEXTS))
]


def show(made):
    table = partial(beside, records=made, rows=("dataset", *BY))
    right = "Right tags (of the training text, if it is made), chunk F1, tokens a CPU second"
    costs = {"fit": ("value", "{:.2f}"), "prediction": ("cpu_of_test", "{:.3f}")}
    costs |= {"added MB": ("peak_bytes", "{:.0f}", 1e-6), "peak": ("whole_bytes", "{:.0f}", 1e-6)}
    quality = {"right": ("right", "{:.1%}"), "F1": ("f1", "{:.2f}")}
    quality |= {"tokens": ("tokens_per_cpu", "{:,.0f}"), "sentence": ("latency_ms", "{:.2f}")}
    return blocks(
        table("CPU seconds, added memory and peak of the process", facts=costs),
        table(f"{right}, milliseconds of a sentence", facts=quality),
    )


def plot(made, path):
    """Lines of both learners on logarithmic axes, one plot for each number that varies."""
    styles = {"value": ("fit", "-o"), "cpu_of_test": ("prediction", "--s")}
    colors = {OURS: "tab:blue", CRFSUITE: "tab:orange"}
    with picture(path, 1, 3, figsize=(11.0, 3.8)) as axes:
        for axis, name in zip(axes, TEXTS, strict=True):
            for method, color in colors.items():
                own = sorted(pick(made, dataset=name, method=method), key=lambda r: r[name])
                for fact, (label, style) in styles.items():
                    points = [r[name] for r in own], [r[fact] for r in own]
                    axis.plot(*points, style, color=color, label=f"{method}, {label}", markersize=4)
            axis.set(xscale="log", yscale="log", xlabel=name, ylabel="CPU seconds")
            ticks = sorted({r[name] for r in pick(made, dataset=name)})
            axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
            axis.minorticks_off()
            axis.grid(visible=True, linewidth=0.3)
        axes[0].legend(fontsize=7)


def targets(made):
    at = lookup(made, "dataset", *BY, "method")

    def slope(name, fact):
        return exponent([(r[name], r[fact]) for r in pick(made, dataset=name, method=OURS)])

    def times(name, fact, first, second):
        both = (at(name, *TEXTS[name][k], OURS, name=fact) for k in (first, second))
        return ratio(*both)

    def over(text, fact="value"):
        return ratio(*(at(*text, method, name=fact) for method in (OURS, CRFSUITE)))

    many = "tags", *TEXTS["tags"][-1]
    spanish = {r["method"]: r for r in pick(made, dataset=SPANISH)}
    real = spanish.get(OURS, {})

    def over_crfsuite(fact):
        return ratio(*(spanish.get(method, {}).get(fact) for method in (OURS, CRFSUITE)))

    return [
        reach("fit: power of the tokens", slope("tokens", "value"), "<=", 1.1),
        reach("prediction: power of the tokens", slope("tokens", "cpu_of_test"), "<=", 1.1),
        reach("fit: power of the tags", slope("tags", "value"), "<=", 2.0),
        reach("fit: 1 sequence over 200", times("sequences", "value", 3, 1), "<=", 2.0),
        reach("prediction: 1 over 200", times("sequences", "cpu_of_test", 3, 1), "<=", 2.0),
        reach("fit with 320 tags over CRFsuite's", over(many), "<=", 1.0),
        reach("Spanish: added memory over CRFsuite's", over_crfsuite("peak_bytes"), "<=", 1.0),
        reach("Spanish: tokens a second", real.get("tokens_per_cpu"), ">=", 200_000, "{:,.0f}"),
        reach("Spanish: ms of one sentence", real.get("latency_ms"), "<=", 1.0),
    ]
