"""The Python blocks of the README and of every page in docs/ run, each page in one namespace."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TAGGER_PAGE = ROOT / "docs" / "write-your-own-task.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page):
    """Python blocks of a page, each with the line it starts at."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in BLOCK.finditer(text)]


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run a page in a module of its own (its classes can be pickled), away from the checkout."""

    def run_page(page):
        module = types.ModuleType("page_" + re.sub(r"\W", "_", page.stem))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.chdir(tmp_path)
        for line, source in blocks(page):
            code = compile("\n" * line + source, str(page), "exec")  # line numbers of the page in tracebacks
            exec(code, module.__dict__)
        return module

    return run_page


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page != TAGGER_PAGE], ids=lambda page: page.name
)
def test_page_runs(page, run):
    run(page)


def test_tagger_fits_on_a_screen_and_boosting_beats_linear(run, capsys):
    (task,) = [source for _, source in blocks(TAGGER_PAGE) if "class ChainTagger" in source]
    assert len(task.splitlines()) <= 60
    module = run(TAGGER_PAGE)
    assert "argmax(X[0], scores, Y[0]) is beaten" in capsys.readouterr().out
    assert module.wrong_tags(module.boosted) < 0.7 * module.wrong_tags(module.linear)
    assert module.linear.history_[-1]["gap"] <= 1e-3
    assert np.isfinite(module.boosted.objective_)


def test_the_page_and_the_readme_have_code():
    assert blocks(ROOT / "README.md")
    assert blocks(TAGGER_PAGE)
