"""The Python blocks of the README and of every page in docs/ run, each page in one namespace."""

import importlib
import inspect
import re
import sys
import tomllib
import types
from pathlib import Path
from pydoc import locate

import numpy as np
import pytest

import structboost

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)|^\[\w+\]: (?!https?:)(\S+)$", re.MULTILINE)
PATH = re.compile(r"`((?:\.?[a-zA-Z][\w.-]*/)+[\w.-]*|\w+\.(?:py|md))`")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TAGGER_PAGE = ROOT / "docs" / "write-your-own-task.md"
PAGES = [ROOT / name for name in ("README.md", "PACKAGE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
PUBLIC = ["structboost", *(f"structboost.{name}" for name in sorted(structboost._PACKAGES))]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(text_of("pyproject.toml"))["project"]


def blocks(page):
    """Python blocks of a page, each with the line it starts at."""
    text = text_of(page)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in BLOCK.finditer(text)]


def each(pages):
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.name)


def anchors(page):
    """Anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a page in a module of its own (its classes can be pickled), away from the checkout."""

    def run_page(page):
        module = types.ModuleType("page_" + re.sub(r"\W", "_", page.stem))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.chdir(tmp_path)
        for line, source in blocks(page):
            code = compile(
                "\n" * line + source, str(page), "exec"
            )  # line numbers of the page in tracebacks
            exec(code, module.__dict__)
        return module

    return run_page


@pytest.mark.slow
@each([page for page in PAGES if blocks(page) and page != TAGGER_PAGE])
def test_page_runs(page, run):
    run(page)


@pytest.mark.slow
def test_tagger_fits_on_a_screen_and_boosting_beats_linear(run, capsys):
    (task,) = [source for _, source in blocks(TAGGER_PAGE) if "class ChainTagger" in source]
    assert len(task.splitlines()) <= 60
    module = run(TAGGER_PAGE)
    assert "loss_scores and loss disagree on X[0]" in capsys.readouterr().out
    assert module.wrong_tags(module.boosted) < 0.7 * module.wrong_tags(module.linear)
    assert module.linear.history_[-1]["gap"] <= 1e-3
    assert np.isfinite(module.boosted.objective_)


@each(PAGES)
def test_every_link_of_a_page_leads_somewhere(page):
    for link in map("".join, LINK.findall(text_of(page))):
        target, _, anchor = link.partition("#")
        found = page.parent / target if target else page
        assert found.exists(), link
        # Where the wheel shows its description, no relative link leads anywhere.
        assert page.name != PROJECT["readme"], link
        assert not anchor or anchor in anchors(found), link


@each(PAGES)
def test_every_file_that_a_page_names_exists(page):
    roots = [ROOT, ROOT / "structboost", ROOT / "docs"]
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.M | re.S)
    for path in PATH.findall(text):
        assert any((root / path).exists() for root in roots), path


GUIDES = [*PAGES[:3], *(ROOT / "docs").glob("*.md")]
GUIDES += [ROOT / "docs" / "results" / "index.md"]


@each(GUIDES)
def test_a_page_begins_with_its_title(page):
    assert text_of(page).startswith("# ")


@each(GUIDES)
def test_lines_of_a_page_are_at_most_100_wide(page):
    text = text_of(page)
    if page.name == "decisions.md":  # a decision is one row, however long
        text = re.sub(r"^\|.*", "", text, flags=re.M)
    # Tables that programs write are as wide as what was measured.
    lines = re.sub(r"^<!-- results.*?^<!-- end", "", text, flags=re.M | re.S).splitlines()
    is_written = page.parent.name == "results"
    wide = [i for i, line in enumerate(lines, 1) if len(line) > 100 and not is_written]
    assert not wide


@each([*PAGES, *(ROOT / "examples").rglob("*.py")])
def test_pages_and_examples_import_from_packages_that_the_reference_lists(page):
    text = text_of(page)
    found = set(re.findall(r"^ *from (structboost[.\w]*) import", text, re.M))
    assert found <= set(PUBLIC)


def test_the_citation_and_the_changelog_know_the_version():
    cited = re.search(r"^version: (\S+)\ndate-released: (\S+)$", text_of("CITATION.cff"), re.M)
    released = re.search(r"^## (\d\S*) - (\S+)$", text_of("CHANGELOG.md"), re.M)
    assert released.groups() == cited.groups()
    assert cited[1] == PROJECT["version"]


def test_the_changelog_has_one_line_for_each_change():
    text = text_of("CHANGELOG.md").split("\n## ", 1)[1]
    assert not re.findall(r"^- .*\n +\S.*|^- .{99,}", text, re.M)
    assert not re.findall(r"^\|.*", text, re.M)


def test_unchanged_lines_of_a_diff_stand_in_its_file():
    diffs = re.findall(
        r"^\+\+\+ b/(.+)\n((?:[ +-].*\n)+)", text_of("docs/how-to-change-it.md"), re.M
    )
    for path, diff in diffs:
        assert set(re.findall(r"^ (.+)", diff, re.M)) <= set(text_of(path).splitlines()), path
    assert diffs


@pytest.mark.parametrize("package", PUBLIC)
def test_the_reference_lists_every_public_name(package):
    text = text_of("docs/api.rst")
    sections = re.split(r"^\.\. currentmodule:: (\S+)$", text, flags=re.M)
    listed = []
    for module, section in zip(sections[1::2], sections[2::2], strict=True):
        if module == package:
            listed += re.findall(r"^   (\w+)$", section, re.M)
    named = set(importlib.import_module(package).__all__)
    # Some packages also hold names that `structboost` itself gives, such as all tasks.
    elsewhere = set() if package == "structboost" else set(structboost.__all__)
    assert sorted(listed) == sorted(named - elsewhere)


def documented(package):
    """Docstrings of the public names of a package and of their methods, by name."""
    module = importlib.import_module(package)
    for name in module.__all__:
        thing = getattr(module, name)
        yield name, thing
        if inspect.isclass(thing):
            for method in (method for method in vars(thing) if not method.startswith("_")):
                yield f"{name}.{method}", getattr(thing, method)


@pytest.mark.parametrize("package", PUBLIC)
def test_every_parameter_has_a_phrase_and_all_that_is_to_be_seen_exists(package):
    bare = []
    for name, thing in documented(package):
        text = inspect.getdoc(thing) or ""
        for heading, section in re.findall(
            r"^(Parameters|Attributes|See Also)\n-+\n(.*?)(?=\n\n|\Z)", text, re.M | re.S
        ):
            bare += [
                f"{name}: {entry}"
                for entry in re.findall(r"^([\w., ]+) : (?!matplotlib).*(?=\n\S|\Z)", section, re.M)
                if heading != "See Also" or not locate(entry)
            ]
    assert not bare
