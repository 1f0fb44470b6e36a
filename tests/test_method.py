"""The algorithm on the page of the method, against the package, and its tables of equations."""

import ast
import re
from types import SimpleNamespace

import pytest
from sklearn.datasets import load_iris, load_wine

from structboost import StructBoost
from tests.helpers.source import PACKAGE, tree_of
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "method.md"
# Numbered equations of the papers, in the order of the tables.
EQUATIONS = {"StructBoost": 52, "MultiBoost^cw": 21, "MultiBoost.MO": 29, "ShareBoost": 7}
TOL = 1e-3


@pytest.fixture(scope="module")
def page():
    """Names that the blocks of the page define, without the last, which runs them."""
    names = {}
    for _, source in blocks(PAGE)[:-1]:
        exec(compile(source, str(PAGE), "exec"), names)
    return SimpleNamespace(**names)


@pytest.mark.parametrize(
    ("load", "C"), [(load_iris, 3.0), (load_iris, 30.0), (load_wine, 3.0), (load_wine, 4.0)]
)
def test_package_reaches_the_optimum_of_the_algorithm_on_the_page(page, load, C):
    X, y = load(return_X_y=True)
    task = page.ThreeClasses()
    columns, history = page.train(task, X, y, C, TOL)
    trainer = StructBoost(task, C=C, tol=TOL).fit(X, y)

    (primal, bound, gap), last = history[-1], trainer.history_[-1]
    assert max(gap, last["gap"]) <= TOL
    # Bounds of one lie below the objective of the other.
    assert bound <= last["primal"] * (1 + 1e-7)
    assert last["bound"] <= primal * (1 + 1e-7)
    assert last["primal"] == pytest.approx(primal, rel=TOL)
    assert all(weight >= 0 for weight, _, _ in columns)


def tables():
    """Rows of the tables of equations, by paper: (equations, file, functions)."""
    section = PAGE.read_text(encoding="utf-8").split("\n## From the papers")[1].split("\n## ")[0]
    for text in re.split(r"^(?=\*\*)", section, flags=re.M)[1:]:
        rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
        yield re.match(r"\*\*([^* ]+)", text)[1], rows[2:]


TABLES = dict(tables())
PLACES = [
    (re.search(r"`(.+)`", file)[1], name)
    for rows in TABLES.values()
    for _, file, names in rows
    for name in re.findall(r"`(.+?)`", names)
]


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_every_place_of_an_equation_exists(file, name):
    assert defines(tree_of(PACKAGE / file).body, name.split("."))


def defines(body, names):
    """Whether statements bind the first name, and its class the names that follow."""
    return any(
        names[0] in bound(node) and (len(names) == 1 or defines(node.body, names[1:]))
        for node in body
    )


def bound(node):
    """Names that a statement binds."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("paper", EQUATIONS)
def test_every_numbered_equation_of_a_paper_is_in_its_table(paper):
    listed = set()
    for equations, *_ in TABLES[paper]:
        for first, last in re.findall(r"\((\d+)\)(?:-\((\d+)\))?", equations):
            listed |= set(range(int(first), int(last or first) + 1))
    assert listed == set(range(1, EQUATIONS[paper] + 1))
