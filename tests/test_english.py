"""Docstrings and names in plain English, by the rules and the glossary of CONTRIBUTING.md."""

import ast
import re
from pathlib import Path

import pytest

from tests.helpers.source import PACKAGE, tree_of

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
# Packages and modules that follow the rules; the others are added one by one.
DONE = """
cli contract decisions errors export faces files inference learners linear
model objectives plotting progress runtime segmentation selection solvers tasks text
thinning tracking training validation vision warm_up
""".split()
# Modules of these packages that do not follow them yet.
OPEN: set[str] = set()
FORBIDDEN_STARTS = ("What", "That", "Those", "These", "The same", "It", "They", "There", "None")
# Public names, and arrays of checkpoints, which stay as they are.
PUBLIC = {
    ("segmentation/masks", "given"),
    ("solvers/bundle", "numbers"),
    ("tracking/tracks", "numbers"),
    ("learners/responses", "answers"),
}
Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def rows_of_glossary():
    """Words of the two tables of the glossary: (in docstrings, as names)."""
    section = CONTRIBUTING.read_text().split("\n## Glossary")[1].split("\n## ")[0]
    words, names = [], []
    for line in section.splitlines():
        cells = line.split("|")[1:-1]
        if len(cells) == 3:
            words += re.findall(r"`([^`]+)`", cells[1])
            names += re.findall(r"`([^`]+)`", cells[2])
    return words, names


WORDS, NAMES = rows_of_glossary()
PATHS = {path: path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py")}
TREES = {name.as_posix(): tree_of(path) for path, name in PATHS.items()}


def modules_of(package):
    """Names and trees of the modules of a package that follow the rules."""
    for name, tree in TREES.items():
        if name.split("/")[0] == package and name not in OPEN:
            yield name, tree


CLASSES = {
    node.name: node
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
}


def documented(package):
    """Nodes of a package with their docstrings, and where they stand."""
    for name, tree in modules_of(package):
        for node in ast.walk(tree):
            if isinstance(node, Documented) and (text := ast.get_docstring(node)):
                yield f"{name}.py:{getattr(node, 'lineno', 1)}", node, text


def faults_of_first_line(node, text):
    first = text.splitlines()[0]
    plain = re.sub(r"``[^`]*``|:\w+:`[^`]*`", "", first)
    returns = ast.unparse(getattr(node, "returns", None) or node)
    is_predicate = isinstance(node, ast.FunctionDef) and re.match(r"bool|TypeGuard|TypeIs", returns)
    if re.match(rf"({'|'.join(FORBIDDEN_STARTS)})\b", first):
        yield "forbidden first word"
    if first.startswith("Whether") and not is_predicate:
        yield "'Whether' on something that is no predicate"
    if ";" in plain or ": " in plain:
        yield "semicolon or colon"
    if re.search(r"[.!?]\s+[A-Z]", plain):
        yield "more than one sentence"


each_package = pytest.mark.parametrize("package", DONE)


@each_package
def test_entries_of_a_section_begin_below_its_title(package):
    """Entries that are indented are a quotation on the page."""
    section = re.compile(r"^( *)(Parameters|Attributes|Returns|Raises)\n\1-+\n(?!\1\S)", re.M)
    faults = [where for where, _, text in documented(package) if section.search(text)]
    assert not faults, "\n".join(faults)


def overridden(class_, method, seen=()):
    """Whether a class of the package above this one has the method."""
    for base in class_.bases:
        above = CLASSES.get(ast.unparse(base).split("[")[0].split(".")[-1])
        if above is None or above.name in (class_.name, *seen):
            continue
        methods = {node.name for node in above.body if isinstance(node, ast.FunctionDef)}
        if method in methods or overridden(above, method, (*seen, class_.name)):
            return True
    return False


def names_bound(tree):
    """Names of parameters, variables, attributes and fields, and the lines where they are bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


@pytest.mark.slow
@each_package
def test_first_lines_are_one_sentence_that_begins_with_a_noun_or_a_verb(package):
    faults = [
        f"{where}: {fault}: {text.splitlines()[0]}"
        for where, node, text in documented(package)
        for fault in faults_of_first_line(node, text)
    ]
    assert not faults, "\n".join(faults)


@each_package
def test_overrides_inherit_their_docstrings(package):
    methods = {
        id(method): class_
        for class_ in CLASSES.values()
        for method in class_.body
        if isinstance(method, ast.FunctionDef)
    }
    faults = [
        f"{where}: {text}"
        for where, node, text in documented(package)
        if id(node) in methods
        and len(text.splitlines()) == 1
        and overridden(methods[id(node)], node.name)
    ]
    assert not faults, "\n".join(faults)


@each_package
def test_docstrings_use_the_words_of_the_glossary(package):
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, WORDS))})\b", re.IGNORECASE)
    faults = [
        f"{where}: {match[0]}: {line.strip()}"
        for where, _, text in documented(package)
        for line in re.sub(r"``[^`]*``|:\w+:`[^`]*`|^[\w, ]+ : ", "", text, flags=re.M).splitlines()
        if (match := pattern.search(line))
    ]
    assert not faults, "\n".join(faults)


@each_package
def test_parameters_variables_and_attributes_use_the_names_of_the_glossary(package):
    faults = {
        f"{module}.py:{line}: {name}"
        for module, tree in modules_of(package)
        for name, line in names_bound(tree)
        if name.strip("_") in NAMES and (module, name) not in PUBLIC
    }
    assert not faults, "\n".join(sorted(faults))


def test_list_of_packages_names_each_once_and_only_those_that_exist():
    assert len(set(DONE)) == len(DONE)
    assert set(DONE) <= {name.split("/")[0] for name in TREES}


def test_glossary_lists_words_and_names():
    assert "answers" in WORDS
    assert "found" in NAMES


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ('"""What scores rows."""', ["forbidden first word"]),
        ('"""The same for rows."""', ["forbidden first word"]),
        ('"""Scores; None before."""', ["semicolon or colon"]),
        ('"""Scores: one per row."""', ["semicolon or colon"]),
        ('"""Score rows.  Sort them."""', ["more than one sentence"]),
        ('def f() -> int:\n    """Whether."""', ["'Whether' on something that is no predicate"]),
        ('"""Items of the list, whose type is :class:`str`."""', []),
        ('"""Shapes such as ``a: b; c``."""', []),
        ('def f() -> bool:\n    """Whether all rows are finite."""', []),
    ],
)
def test_faults_of_a_first_line_are_reported_and_no_others(code, faults):
    tree = ast.parse(code)
    node = tree if ast.get_docstring(tree) else tree.body[0]
    assert list(faults_of_first_line(node, ast.get_docstring(node))) == faults
