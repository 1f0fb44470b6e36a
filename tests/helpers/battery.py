"""Battery over all faces, and its page of the reference.

``python -m tests.helpers.battery [WORD ...]`` prints the reports of the faces and behaviours with
these words in their names, by default of all.  ``--page`` writes ``docs/faces.md``.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from structboost.conformance.behaviours import BEHAVIOURS
from structboost.conformance.check_face import face_report
from tests.helpers.faces import SLOW_FACES, faces

PAGE = Path(__file__).parents[2] / "docs" / "faces.md"
INTRODUCTION = """# Every face alike

A *face* is a public class with `fit`: an estimator or a trainer. The tables below say how all faces
behave, and which of them lacks what. {func} makes them:
it checks {n_behaviours} behaviours of every face, each in several ways. Run it on a subclass of
your own:

```python
from structboost import StructBoostClassifier, check_face

check_face(StructBoostClassifier(max_iter=3), only=["score", "repr"])
```

`python -m tests.helpers.battery --page` writes this page, and a test compares it with the battery.
A number stands for a reason [below](#what-is-declared) why a class lacks a behaviour; such a class
says so in an error. *no* means that some check fails, without a declared reason.

A trainer with a task of your own needs at least 40 examples:
`check_face(StructuredSVM(task, C=10, max_epochs=10), X, Y)`. Check the task by `check_task` before.
Errors of its methods at bad examples are fine, since a note names the example. If your task takes
odd outputs that the battery tries, such as `[]`, declare it in its class:
`_declares = {{"bad output in fit": "an alignment may be empty"}}`.
"""


def reports(words=()):
    """Iterate over name and report of the faces, all or those with a word in their name."""
    names = {name for b in BEHAVIOURS for name in (b.kind, b.name)}
    only = names.intersection(words) or None
    words = [word for word in words if word not in names]
    slow = [(name, estimator, None, None, kind) for name, (estimator, kind) in SLOW_FACES.items()]
    for name, estimator, X, y, kind in [*faces(), *slow]:
        if not words or any(word in name for word in words):
            yield name, face_report(estimator, X, y, kind=kind, only=only)


def row_name(face):
    """Name of the row of a face: the tasks of a trainer share one."""
    return face.split(",")[0] if face.startswith(("StructBoost,", "StructuredSVM,")) else face


def cells(named_reports):
    """Cell of each row and behaviour: "yes", "no", or the reason that the class declares."""
    table = {}
    for face, report in named_reports:
        for row in report.rows:
            cell = row.messages[0] if row.status == "declared" else row.status
            at = table.setdefault(row_name(face), {})
            if at.get(row.behaviour) != "no":
                at[row.behaviour] = cell
    return table


def page(table):
    """Return the page of a table of cells."""
    reasons = {}
    lines = [INTRODUCTION.format(func="`structboost.check_face`", n_behaviours=len(BEHAVIOURS))]
    for kind in dict.fromkeys(b.kind for b in BEHAVIOURS):
        names = [b.name for b in BEHAVIOURS if b.kind == kind]
        lines += [f"## {kind[0].upper()}{kind[1:]}", "", f"| face | {' | '.join(names)} |"]
        lines.append("| --- |" + " --- |" * len(names))
        for face, of_face in table.items():
            row = []
            for name in names:
                cell = of_face[name]
                if cell not in ("yes", "no"):
                    cell = str(reasons.setdefault(cell, len(reasons) + 1))
                row.append(cell)
            lines.append(f"| {face} | {' | '.join(row)} |")
        lines.append("")
    lines += ["## What is declared", "", "| number | reason |", "| --- | --- |"]
    lines += [f"| {index} | {reason} |" for reason, index in reasons.items()]
    return "\n".join(lines) + "\n"


def cells_of_page(text):
    """Return the table of cells from a page."""
    reasons = dict(re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE))
    table, names = {}, []
    for line in text.split("## What is declared")[0].splitlines():
        parts = [part.strip() for part in line.split("|")[1:-1]]
        if parts and parts[0] == "face":
            names = parts[1:]
        elif parts and parts[0] != "---":
            row = {n: reasons.get(c, c) for n, c in zip(names, parts[1:], strict=True)}
            table.setdefault(parts[0], {}).update(row)
    return table


def main(words):
    """Print the reports; the exit code is 1 if there is a fault."""
    is_page = "--page" in words
    n_calls = n_faults = 0
    began = time.process_time()
    named = []
    for name, report in reports([word for word in words if word != "--page"]):
        report.face = name
        named.append((name, report))
        sys.stdout.write(f"{report}\n[{time.process_time() - began:.1f} CPU s so far]\n\n")
        sys.stdout.flush()
        n_calls += report.n_calls
        n_faults += len(report.faults)
    sys.stdout.write(f"{n_calls} calls, {n_faults} faults\n")
    if is_page:
        PAGE.write_text(page(cells(named)))
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
