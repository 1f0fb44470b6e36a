"""Train on real data that scikit-learn ships, compare, certify, plot.

Run with ``make demo``; the plot goes to ``demo-convergence.png``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from structboost import ConvergenceDisplay, StructBoostClassifier, StructBoostRanker

PLOT = Path("demo-convergence.png")


def main() -> None:
    """Train each model on half of a table, test on the other half, print tables, save a plot."""
    tables = {
        "digits, 10 classes": load_digits(return_X_y=True),
        "breast cancer, 2 classes": load_breast_cancer(return_X_y=True),
    }
    halves = {
        name: train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
        for name, (X, y) in tables.items()
    }
    compile_loops(halves)
    compare_defaults(halves)
    certify(halves)


def compile_loops(halves: dict[str, list]) -> None:
    """Fit each model once in few rounds, so that no time below is one of compilation."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rounds do not converge
        for X, _, y, _ in halves.values():
            StructBoostClassifier(max_iter=3).fit(X, y).predict_proba(X)
            StructBoostClassifier(objective="hinge", C=100, max_iter=3).fit(X, y).predict(X)
        StructBoostRanker("hinge", C=100, exact=True, max_iter=3).fit(X, y, group=[len(y)])
    print(f"Compiled, or loaded from the cache, in {time.perf_counter() - began:.1f} s.\n")


def compare_defaults(halves: dict[str, list]) -> None:
    """Print error, log-loss and seconds of models without settings."""
    models = {
        "structboost": StructBoostClassifier(random_state=0),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
        "LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression()),
    }
    print(f"{'no settings':26s}{'model':22s}{'error':>8s}{'log-loss':>10s}{'seconds':>9s}")
    for name, (X_train, X_test, y_train, y_test) in halves.items():
        for model, estimator in models.items():
            began = time.perf_counter()
            estimator.fit(X_train, y_train)
            seconds = time.perf_counter() - began
            error = 1 - estimator.score(X_test, y_test)
            loss = log_loss(y_test, estimator.predict_proba(X_test))
            print(f"{name:26s}{model:22s}{error:8.4f}{loss:10.4f}{seconds:9.2f}", flush=True)


def certify(halves: dict[str, list]) -> None:
    """Print the certified gap of convex fits, and plot how it closes."""
    digits, cancer = halves
    classifier = StructBoostClassifier(objective="hinge", C=100)
    ranker = StructBoostRanker("hinge", C=100, exact=True)
    figure, axes = plt.subplots(2, 3, figsize=(13, 6), layout="constrained")
    print(f"\n{'certified':26s}{'measure':>9s}{'test':>9s}{'rounds':>8s}{'gap':>8s}{'seconds':>9s}")
    for column, (title, name, estimator) in enumerate(
        [
            (digits, digits, classifier),
            (cancer, cancer, classifier),
            ("breast cancer, ranking", cancer, ranker),
        ]
    ):
        X_train, X_test, y_train, y_test = halves[name]
        is_ranking = estimator is ranker
        began = time.perf_counter()
        # All rows are one query.
        estimator.fit(X_train, y_train, **{"group": [len(y_train)]} if is_ranking else {})
        seconds = time.perf_counter() - began
        if is_ranking:
            measure, value = "AUC", roc_auc_score(y_test, estimator.decision_function(X_test))
        else:
            measure, value = "error", 1 - estimator.score(X_test, y_test)
        last = estimator.history_[-1]
        gap = f"{100 * last['gap']:.2f}%"
        print(f"{title:26s}{measure:>9s}{value:9.4f}{last['round']:8d}{gap:>8s}{seconds:9.2f}")
        ConvergenceDisplay.from_estimator(estimator, ax=axes[:, column])
        axes[0, column].set_title(title)
    figure.savefig(PLOT, dpi=110)
    print(
        "\nThe gap is proved: no weights on any stumps of the family have an objective lower by "
        f"more.\nConvergence plot: {PLOT}"
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description="Train, compare, certify and plot.").parse_args()
    main()
