"""The algorithm on the page of the method, against the package, and its tables of equations."""

import re
from importlib import import_module
from operator import attrgetter

import pytest
from sklearn.datasets import load_iris, load_wine

from structboost import StructBoost
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
        exec(source, names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "C"), [(load_iris, 3.0), (load_iris, 30.0), (load_wine, 3.0), (load_wine, 4.0)]
)
def test_package_reaches_the_optimum_of_the_algorithm_on_the_page(page, load, C):
    X, y = load(return_X_y=True)
    task = page["ThreeClasses"]()
    columns, history = page["train"](task, X, y, C, TOL)
    trainer = StructBoost(task, C=C, tol=TOL).fit(X, y)

    (primal, bound, gap), last = history[-1], trainer.history_[-1]
    assert max(gap, last["gap"]) <= TOL
    # Bounds of one lie below the objective of the other.
    assert bound <= last["primal"] * (1 + 1e-7)
    assert last["bound"] <= primal * (1 + 1e-7)
    assert last["primal"] == pytest.approx(primal, rel=TOL)
    assert all(weight >= 0 for weight, _, _ in columns)


# Rows of the tables of equations, by paper: equations, file, functions.
SECTION = PAGE.read_text(encoding="utf-8").split("\n## From the papers")[1].split("\n## ")[0]
TABLES = {
    text.split("**")[0].split()[0]: re.findall(r"^\| (.+?) \|(.*?)\|(.+)\|$", text, re.M)
    for text in SECTION.split("\n**")[1:]
}
PLACES = [
    (file.strip(" `"), name)
    for rows in TABLES.values()
    for _, file, names in rows
    for name in re.findall(r"`(.+?)`", names)
]


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_every_place_of_an_equation_exists(file, name):
    module = "structboost." + file.removesuffix(".py").replace("/", ".")
    thing = attrgetter(name)(import_module(module))
    assert getattr(thing, "__module__", module) == module


@pytest.mark.parametrize("paper", EQUATIONS)
def test_every_numbered_equation_of_a_paper_is_in_its_table(paper):
    listed = set()
    for equations, *_ in TABLES[paper]:
        for first, last in re.findall(r"\((\d+)\)(?:-\((\d+)\))?", equations):
            listed |= set(range(int(first), int(last or first) + 1))
    assert listed == set(range(1, EQUATIONS[paper] + 1))
