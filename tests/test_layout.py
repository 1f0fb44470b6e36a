"""The package as a house: few modules at its root, and packages that are layers."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from structboost.learners.pricing import RULES
from structboost.learners.registry import FAMILIES
from structboost.objectives.base import FORMULATIONS
from tests.helpers.source import MODULES, PACKAGE, imported, tree_of

ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"
# Modules and packages that every package may import.
GENERAL = {"_typing", "errors", "validation", "progress", "runtime"}
LOOP = ("boosting", "plan", "loop", "history")
PLUG_INS = ("objectives", "learners", "tasks")


IMPORTS = {name: imported(tree_of(path)) for name, path in MODULES.items() if name != "structboost"}


def package_of(module):
    return module.split(".")[1]


PACKAGES = {package_of(module): set() for module in IMPORTS}
for module, others in IMPORTS.items():
    PACKAGES[package_of(module)] |= {package_of(other) for other in others} - {package_of(module)}


@pytest.mark.parametrize("imports", [IMPORTS, PACKAGES], ids=["modules", "packages"])
def test_imports_form_no_circle(imports):
    TopologicalSorter(imports).prepare()  # raises a CycleError with the path


def test_imports_for_types_are_counted():
    code = "if TYPE_CHECKING:\n    from structboost.contract.task import Task"
    assert imported(ast.parse(code)) == {"structboost.contract.task"}


def rows_of_packages():
    """Packages of the table of the page, in its order, and those that each imports."""
    rows = {}
    for line in ARCHITECTURE.read_text().split("\n## ")[1].splitlines():
        cells = [re.findall(r"`(\w+)/`", cell) for cell in line.split("|")[1:-1]]
        if len(cells) == 3 and cells[0]:
            rows[cells[0][0]] = set(cells[2])
        elif len(cells) == 3 and cells[2]:
            rows[list(rows)[-1]] |= set(cells[2])
    return rows


def test_table_of_the_architecture_page_lists_the_imports_of_each_package():
    rows = rows_of_packages()
    assert rows == {name: PACKAGES[name] - GENERAL for name in rows}
    assert set(rows) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - GENERAL


def test_packages_import_only_packages_above_them_in_the_table():
    rows = rows_of_packages()
    for i, (name, others) in enumerate(rows.items()):
        assert others <= set(list(rows)[:i]), name


def test_general_modules_import_nothing_but_each_other():
    assert all(PACKAGES[name] <= GENERAL for name in GENERAL)


def test_every_package_has_its_folder_of_tests():
    for package in PACKAGE.glob("*/__init__.py"):
        assert list((Path(__file__).parent / package.parent.name).glob("test_*.py")), package.parent


def test_few_modules_stand_at_the_root():
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def classes_asked_for(path):
    """Names in the second arguments of isinstance."""
    return {
        name.id
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        for name in ast.walk(node.args[1])
        if isinstance(name, ast.Name)
    }


def test_the_loop_and_its_setup_ask_no_plug_in_for_its_class():
    plug_ins = {
        node.name
        for name, path in MODULES.items()
        if name.split(".")[1:2] and name.split(".")[1] in PLUG_INS
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
        and not {"ABC", "Protocol"} & {ast.unparse(base) for base in node.bases}
    }
    assert "OneSlack" in plug_ins
    for module in LOOP:
        assert not classes_asked_for(MODULES[f"structboost.training.{module}"]) & plug_ins, module


@pytest.mark.parametrize("module", [*LOOP, "columns"])
def test_the_loop_and_its_setup_ask_no_plug_in_for_its_name(module):
    names = {*FAMILIES, *FORMULATIONS, *RULES, "serial", "threads", "processes", "dask"}
    assert {"stump", "one_slack", "own"} <= names
    for node in ast.walk(tree_of(MODULES[f"structboost.training.{module}"])):
        if isinstance(node, ast.Compare | ast.MatchValue):
            compared = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
            assert not compared & names, f"line {node.lineno}"


def test_nobody_asks_which_trainer_it_is():
    trainers = {"Trainer", "StructBoost", "StructuredSVM", "LinearTrainer"}
    for name, path in MODULES.items():
        assert not classes_asked_for(path) & trainers, name
