"""Report of a fitted model as one HTML file."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from structboost._typing import AnyArray, FloatArray, IntArray, PathName
from structboost.files.atomic_write import checked_target, write_whole
from structboost.plotting.curves import ConvergenceDisplay, CPathDisplay, check_fitted, plain
from structboost.plotting.shapes import ShapeDisplay
from structboost.runtime.registry import pyplot, require
from structboost.validation import checked_text_or_none, shown

_MOST_FEATURES = 12
# With more classes the table of confusion is too large to read.
_MOST_CLASSES = 40
_DPI = 110

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.2rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }}
th:first-child {{ text-align: left; }} td.text {{ text-align: left; }}
img {{ max-width: 100%; height: auto; }}
pre {{ background: #f5f5f5; padding: .8rem; overflow-x: auto; }}
p {{ max-width: 46rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def save_report(
    path: PathName,
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    **score_arguments: Any,
) -> None:
    """Write a report of a fitted estimator as one HTML file with embedded images.

    The report shows the parameters and the certificate, how training converged, how C was chosen,
    the importances of the features, and the shapes of an additive model.  With samples it shows the
    score, and for a classifier precision, recall and confusion.

    Parameters
    ----------
    path : str or path
        The HTML file.
    estimator : fitted classifier, ranker or trainer
        Fitted object with ``history_``.
    X, y : array-like, optional
        Samples for the scores, preferably not those of training.
    title : str, optional
        Title; by default the name of the class.
    **score_arguments
        Further arguments of ``estimator.score``, such as ``qid``.

    Raises
    ------
    TypeError
        If there is no estimator.
    ValueError
        If the estimator is not fitted, or only one of X and y is passed.
    MissingExtraError
        If matplotlib is not installed.
    OSError
        If the file cannot be written.
    """
    if not hasattr(estimator, "fit"):
        raise TypeError(
            f"estimator is {shown(estimator)}; give a fitted estimator, after the path of the "
            "report."
        )
    check_fitted(estimator, "history_")
    if (X is None) != (y is None):
        raise ValueError("X and y go together; give both, or neither.")
    checked_text_or_none(title, "title")
    checked_target(path)
    require("plot", "save_report")
    parts = [_certificate(estimator)]
    if X is not None:
        parts += _judgement(estimator, X, y, score_arguments)
    parts += _pictures(estimator)
    parts.append(_section("Parameters", f"<pre>{html.escape(repr(estimator))}</pre>"))
    heading = html.escape(title or type(estimator).__name__)
    write_whole(path, _PAGE.format(title=heading, body="\n".join(parts)).encode())


def _certificate(estimator: Any) -> str:
    def fact(name: str) -> Any:
        return getattr(estimator, name, None)

    last = estimator.history_[-1] if estimator.history_ else {}
    has_model, families = hasattr(estimator, "model_"), getattr(fact("model_"), "families", None)
    has_bound = last.get("bound") is not None
    certified = "certified" if last.get("certified") else "not certified"
    # The C of stage-wise fits is infinite; estimators whose C is a number have no C_.
    C = getattr(estimator, "C_", fact("C"))
    has_C = isinstance(C, int | float | np.number) and np.isfinite(C)
    rows = {
        "Minimised": fact("minimised_"),
        "Weak learners": getattr(estimator, "learner_", families) if has_model else None,
        "Rounds": len(estimator.history_),
        "Objective": estimator.objective_,
        "Lower bound": last.get("bound"),
        f"Relative gap ({certified})": last["gap"] if has_bound else None,
        "Bound and gap hold": fact("gap_text_") if has_bound else None,
        "C": C if has_C else None,
        "Learning rate": fact("learning_rate_"),
        "Depth of the trees": fact("max_depth_"),
        "Fraction of the features that a node may split": fact("max_features_"),
        "Temperature of probabilities": fact("temperature_"),
        "End of training": fact("ending_text_"),
        "Features": fact("n_features_in_"),
        "Weak learners with a weight": getattr(fact("model_"), "n_learners", None),
        "Classes": len(estimator.classes_) if hasattr(estimator, "classes_") else None,
        "Seconds of training": last.get("seconds"),
    }
    cells = ([name, _cell(value)] for name, value in rows.items() if value not in (None, ""))
    return _section("Model", _table([], cells))


def _judgement(estimator: Any, X: Any, y: Any, arguments: dict[str, Any]) -> Iterator[str]:
    score = estimator.score(X, y, **arguments)
    yield _section("Score", f"<p>Score on {len(y)} samples: <b>{score:.4g}</b></p>")
    has_lists = hasattr(estimator, "outputs_for_metrics")
    if not has_lists and (not is_classifier(estimator) or np.ndim(y) != 1):
        return
    labels, predicted = estimator.classes_, estimator.predict(X)
    if has_lists:
        y, predicted, _ = estimator.outputs_for_metrics(y, predicted, None)
    names, is_matrix = [str(label) for label in labels], predicted.ndim == 2
    if is_matrix:
        names += ["(not in training)"] * (predicted.shape[1] - len(names))
        labels = range(len(names))
    columns = precision_recall_fscore_support(y, predicted, labels=labels, zero_division=0)
    rows = [[name, *map(_cell, values)] for name, *values in zip(names, *columns, strict=True)]
    table = _table(["class", "precision", "recall", "F1", "samples"], rows)
    yield _section("Precision and recall", table)
    if len(names) <= _MOST_CLASSES and not is_matrix:
        counts = confusion_matrix(y, predicted, labels=labels)
        table = _table(["true \\ predicted", *names], _shaded(names, counts))
        yield _section("Confusion", table)


def _shaded(names: Sequence[str], counts: IntArray) -> Iterator[list[str]]:
    """Return the rows of the table of confusion, with darker cells for larger fractions."""
    shades = 0.75 * counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    for i, name in enumerate(names):
        cells = []
        for k, count in enumerate(counts[i]):
            colour = "40, 120, 200" if i == k else "220, 60, 40"
            style = f' style="background: rgba({colour}, {shades[i, k]:.3f})"'
            cells.append(_cell(count, style))
        yield [name, *cells]


def _pictures(estimator: Any) -> Iterator[str]:
    importances = getattr(estimator, "feature_importances_", np.zeros(0))
    names = getattr(estimator, "feature_names_in_", None)
    shapes = "<p>The score of the model is the sum of these values over the features.</p>"
    for title, text, what, is_there, draw in (
        (
            "Importances", "", "Importance of each feature", importances.any(),
            lambda: _draw_importances(importances, names),
        ),
        ("Shapes", shapes, "Shape of each feature", True, lambda: _shapes(estimator)),
        (
            "Convergence", "", "Objective, lower bound and gap by round", estimator.history_,
            lambda: ConvergenceDisplay.from_estimator(estimator).figure_,
        ),
        (
            "Choice of C", "", "Held-out measurement by C", getattr(estimator, "C_path_", None),
            lambda: CPathDisplay.from_estimator(estimator).figure_,
        ),
    ):  # fmt: skip
        if is_there and (image := _image(what, draw)):
            yield _section(title, text + image)


def _shapes(estimator: Any) -> Any:
    """Draw the shapes, or return None without a model that is additive and uses a feature."""
    try:
        return ShapeDisplay.from_estimator(estimator, features=_MOST_FEATURES).figure_
    except (TypeError, ValueError):
        return None


def _draw_importances(importances: FloatArray, names: AnyArray | None) -> Any:
    plt = pyplot("save_report")

    order = np.argsort(importances, kind="stable")[-_MOST_FEATURES:]
    order = order[importances[order] > 0]
    labels = [f"feature {f}" if names is None else str(names[f]) for f in order]
    size = (6.4, 0.6 + 0.32 * len(order))
    figure, axis = plt.subplots(figsize=size, layout="constrained")
    axis.barh(range(len(order)), importances[order])
    axis.set_yticks(range(len(order)), labels, parse_math=False)
    axis.set_xlabel("fraction of the total weight")
    plain(axis)
    return figure


def _image(what: str, draw: Callable[[], Any]) -> str:
    """Return the figure of ``draw`` as an embedded image, or nothing if it is None."""
    plt = pyplot("save_report")

    before = set(plt.get_fignums())
    try:
        figure = draw()
        if figure is None:
            return ""
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=_DPI)
    finally:
        for opened in set(plt.get_fignums()) - before:
            plt.close(opened)
    content = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{what}" src="data:image/png;base64,{content}">'


def _section(title: str, content: str) -> str:
    return f"<h2>{html.escape(title)}</h2>\n{content}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of rows, each a name and the cells beside it."""
    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in head)] if head else []
    lines += [f"<th>{html.escape(name)}</th>{''.join(cells)}" for name, *cells in rows]
    return "<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"


def _cell(value: Any, style: str = "") -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td{style}>{html.escape(text)}</td>"
