"""The package as a house: few modules at its root, and no import goes round in a circle."""

from __future__ import annotations

import ast
from pathlib import Path

import structboost

PACKAGE = Path(structboost.__file__).parent
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
    graph = {name: imported(ast.parse(path.read_text())) for name, path in MODULES.items()}
    # The package itself only collects public names.
    graph["structboost"] = set()
    assert circle(graph) is None


def test_a_circle_would_be_seen():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


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
