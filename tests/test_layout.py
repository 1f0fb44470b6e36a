"""The package as a house: few modules at its root, and no import goes round in a circle."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import structboost
from structboost.masters.registry import FORMULATIONS
from structboost.weak.pricing import RULES
from structboost.weak.registry import FAMILIES

ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"
PACKAGE = Path(structboost.__file__).parent
# What every package may import.
GENERAL = ["_typing/", "exceptions/", "validation/", "progress/", "runtime/"]
PLUG_INS = ("masters", "engines", "shards", "weak", "tasks")


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in PACKAGE.rglob("*.py")}


def is_for_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported(node):
    """Modules of the package that a tree of code imports, inside functions too, but not for types
    alone."""
    found = set()
    for child in ast.iter_child_nodes(node):
        if is_for_types(child):
            continue
        if isinstance(child, ast.ImportFrom) and child.module:
            names = {f"{child.module}.{alias.name}" for alias in child.names}
            found |= {name if name in MODULES else child.module for name in names}
        elif isinstance(child, ast.Import):
            found |= {alias.name for alias in child.names}
        else:
            found |= imported(child)
    return found & set(MODULES)


IMPORTS = {
    name: imported(ast.parse(path.read_text())) - {"structboost"}
    for name, path in MODULES.items()
    if name != "structboost"
}


def circle(graph):
    """A path of imports that ends where it began, or None."""
    done = set()

    def search(name, above):
        if name in above:
            return [*above[above.index(name) :], name]
        if name in done:
            return None
        for other in sorted(graph[name]):
            found = search(other, [*above, name])
            if found:
                return found
        done.add(name)
        return None

    return next((found for name in graph if (found := search(name, []))), None)


def test_no_import_goes_round_in_a_circle():
    # The package itself only collects public names.
    assert circle({**IMPORTS, "structboost": set()}) is None


def test_a_circle_would_be_seen():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def places_of(text):
    """Packages and modules that a cell names: `weak/` and `task.py` are ``weak/``, ``task/``."""
    found = [name.removesuffix(".py").strip("/") + "/" for name in re.findall(r"`([\w./]+)`", text)]
    return [*found, "contract/"] if "task/" in found else found


def place(module):
    """Where a module is, as :func:`places_of` writes it."""
    return module.replace(".", "/").removeprefix("structboost/") + "/"


def rows_of_packages():
    """Packages of each row of the table, and what the table says that they import."""
    rows = []
    for line in ARCHITECTURE.read_text().split("\n## ")[1].splitlines():
        package, _, imports = [cell.strip() for cell in line.split("|")[1:-1]] or [""] * 3
        if places_of(package):
            rows.append((places_of(package), imports))
        elif places_of(imports):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {imports}")
    return rows


def test_packages_import_what_the_page_of_the_architecture_says():
    rows = [(GENERAL, ""), *rows_of_packages()]
    of_module = {place(name): {place(other) for other in IMPORTS[name]} for name in IMPORTS}
    for i, (own, text) in enumerate(rows):
        above = [name for names, _ in rows[:i] for name in names]
        first = re.search(r"rows above, from `(\w+/)` on", text)
        allowed = [*own, *GENERAL, *places_of(text)]
        allowed += above[above.index(first[1]) :] if first else []
        allowed += above[-3:] if "three rows above" in text else []
        for module, others in of_module.items():
            if module.startswith(tuple(own)):
                wrong = [other for other in others if not other.startswith(tuple(allowed))]
                assert not wrong, f"{module} imports {wrong}"
    named = tuple(name for own, _ in rows for name in own)
    assert all(module.startswith(named) for module in of_module)


def test_every_package_has_its_folder_of_tests():
    for package in PACKAGE.glob("*/__init__.py"):
        assert list((Path(__file__).parent / package.parent.name).glob("test_*.py")), package.parent


def test_few_modules_stand_at_the_root():
    assert len(list(PACKAGE.glob("*.py"))) <= 13


def test_the_loop_and_its_setup_ask_no_plug_in_for_its_class():
    plug_ins = {
        node.name
        for name, path in MODULES.items()
        if name.split(".")[1:2] and name.split(".")[1] in PLUG_INS
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        and "ABC" not in {ast.unparse(base) for base in node.bases}
    }
    assert "OneSlack" in plug_ins
    for module in ("boosting", "training", "loop"):
        for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                asked = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                assert not asked & plug_ins, f"{module}.py, line {node.lineno}"


@pytest.mark.parametrize("module", ["boosting", "training", "loop", "columns"])
def test_the_loop_and_its_setup_ask_no_plug_in_for_its_name(module):
    names = {*FAMILIES, *FORMULATIONS, *RULES, "serial", "threads", "processes", "dask"}
    assert {"stump", "one_slack", "own"} <= names
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())):
        if isinstance(node, ast.Compare | ast.MatchValue):
            compared = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
            assert not compared & names, f"line {node.lineno}"
