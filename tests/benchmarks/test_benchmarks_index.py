"""The page of all results: the best peer, the means, and that it is made of the other pages."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.papers.headlines import HEADLINES
from benchmarks.runner import commands as command_line
from benchmarks.runner.headlines import Figure, Headline, Source, line, write_index

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def compared(*figures, ours=("ours",), peers=("a", "b")):
    headline = Headline("page", "task", "error", ours, peers, lambda made: made)
    return line(headline, Source([Figure(*figure) for figure in figures], "1", 0, []))


def test_the_best_peer_has_the_least_error_and_its_time_is_shown():
    found = compared(
        *(("s", "ours", 0.2, 6.0), ("t", "ours", 0.1, 1.0)),
        *(("s", "a", 0.4, 1.0), ("t", "a", 0.1, 1.0), ("s", "b", 0.1, 3.0), ("t", "b", 0.1, 2.0)),
    )
    assert (found.peer, found.n_sets) == ("b", 2)
    assert found.error == pytest.approx(math.sqrt(2.0))
    assert found.seconds == pytest.approx(1.0)


def test_without_errors_the_fastest_peer_counts():
    found = compared(("s", "ours", None, 1.0), ("s", "a", None, 2.0), ("s", "b", None, 4.0))
    assert (found.peer, found.error, found.seconds) == ("a", None, 0.5)


def test_a_peer_with_fewer_sets_is_no_peer_and_ours_is_what_has_most_sets():
    own = [("s", "ours", 0.3), ("s", "other", 0.2), ("t", "other", 0.2)]
    found = compared(
        *own, ("s", "a", 0.01), ("s", "b", 0.4), ("t", "b", 0.4), ours=("ours", "other")
    )
    assert (found.ours, found.peer, found.error) == ("other", "b", pytest.approx(0.5))


def test_no_line_without_ours_or_without_a_peer():
    assert compared(("s", "a", 0.1)) is None
    assert compared(("s", "ours", 0.1)) is None
    assert compared(("s", "ours", 0.1), ("t", "a", 0.1)) is None


def test_every_page_has_its_lines_and_the_index_is_of_the_pages_as_they_are(tmp_path):
    for path in RESULTS.glob("*.*"):
        if path.suffix in (".md", ".json"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    lines = write_index(tmp_path, HEADLINES, command_line.NAMES)
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"index", "scale"}
    assert {one.headline.page for one in lines} == pages
    remedy = "run python -m benchmarks index"
    assert (tmp_path / "index.md").read_text() == (RESULTS / "index.md").read_text(), remedy


def test_figures_of_the_records_are_those_of_the_page(tmp_path):
    record = {"dataset": "s", "metric": "error", "share": 0.1, "seconds": 1.0}
    made = [
        {**record, "method": method, "value": value}
        for method, value in (("structboost", 0.3), ("hist_gradient_boosting", 0.2))
    ]
    page = {"datasets": ["s"], "quick": False, "units": [], "records": made}
    runs = [{"commit": "0123456789"}, {"commit": "abcdef0123 + changes"}]
    (tmp_path / "tables.json").write_text(json.dumps({**page, "runs": runs}))
    (tmp_path / "tables.md").write_text("| t | 1 | **missed** |\n| u | 1 | met |\n")
    (found,) = write_index(tmp_path, HEADLINES, command_line.NAMES)
    assert found.error == pytest.approx(1.5)
    text = (tmp_path / "index.md").read_text()
    assert "| **1.50** | - | structboost | HistGradientBoosting |" in text
    assert "| 1 of 2 | 0123456, abcdef0 |" in text
    assert "more\nerror on 1 of 1 lines, and takes longer on 0" in text
    assert "## Targets missed\n\n- [tables](tables.md): t (1)\n" in text


def test_the_command_writes_page_and_chart(tmp_path, capsys):
    for name in ("speed.md", "speed.json"):
        (tmp_path / name).write_bytes((RESULTS / name).read_bytes())
    assert command_line.main(["index", "--results", str(tmp_path)]) == 0
    assert "LightGBM" in capsys.readouterr().out
    assert (tmp_path / "index.png").stat().st_size > 1000


def test_a_set_next_to_without_errors_does_not_decide():
    errors = {"s": (0.2, 0.1), "t": (0.4, 0.2), "u": (0.0, 0.1)}
    figures = [
        (name, method, error)
        for name, both in errors.items()
        for method, error in zip(("ours", "a"), both, strict=True)
    ]
    assert compared(*figures).error == pytest.approx(2.0)


def test_ratios_of_errors_end_at_ten():
    assert compared(("s", "ours", 0.3, 1.0), ("s", "a", 0.0, 0.01)).error == 10.0
    assert compared(("s", "ours", 0.0, 1.0), ("s", "a", 0.3, 1.0)).error == 0.1
    assert compared(("s", "ours", 0.3, 1.0), ("s", "a", 0.0, 0.01)).seconds == pytest.approx(100)
