"""Smoke of the benchmarks: pages are those of their records, a made one is measured and written."""

import json
import math
import shutil
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

from benchmarks.runner import commands, index, machine, pages
from benchmarks.runner.records import record

PAGES = list(pages.PAGES.items())


@pytest.mark.parametrize(("name", "page"), PAGES, ids=[name for name, _ in PAGES])
def test_a_page_shows_and_claims_what_its_records_have(name, page):
    text = (commands.RESULTS / f"{name}.md").read_text()
    made = json.loads((commands.RESULTS / f"{name}.json").read_text())["records"]
    assert pages.show(page, made) in text
    for wanted, measured, met in pages.targets(page, made):
        assert f"| {wanted} | {measured} | {pages.WORDS[met]} |" in text
    assert Path(page.__file__).with_suffix(".md").read_text().strip() in text
    assert all(target.met is None for target in pages.targets(page, []))
    assert pages.show(page, []) == ""


def test_every_measure_takes_the_cases_of_its_experiment():
    n_bound = 0
    for one in (one for _, page in PAGES for one in page.EXPERIMENTS):
        for name in one.data:
            try:
                units = one.units(name, Path("nowhere"))
            except FileNotFoundError:  # the number of classes is in the data
                continue
            for unit in units:
                signature(one.measure).bind(unit.source, unit.learner, **unit.case)
            n_bound += len(units)
    assert n_bound > 1000


def test_a_page_that_was_just_measured_has_tables_provenance_and_targets(page, command, tmp_path):
    made, path = page(), tmp_path / "results/auc.md"
    assert command() == 0
    assert len(made.computed) == 6
    text = path.read_text()
    assert text.startswith("# auc\n\nNothing was chosen on test data.")
    assert "Targets missed: 1 of 1." in text
    assert "| error below 1 % | 1.12 | **missed** |" in text
    assert "| a | 1.12±2.48 |" in text  # 1, 4.303 / sqrt(3): Student's t of three repeats
    here = machine.this_run()
    assert all(str(here[name]) in text for name in here.keys() - {"portable"})


def test_the_index_is_that_of_the_pages_as_they_are(tmp_path):
    for path in commands.RESULTS.glob("*.json"):
        shutil.copy(path, tmp_path)
    readme = tmp_path / "README.md"
    shutil.copy(machine.ROOT / "README.md", readme)
    assert len(index.write_index(tmp_path, readme)) > 20
    assert (tmp_path / "index.md").read_text() == (commands.RESULTS / "index.md").read_text()
    assert readme.read_text() == (machine.ROOT / "README.md").read_text()


@pytest.mark.parametrize("n", [6, 7, 10, 18, 26])
def test_the_interval_of_many_sets_is_the_narrowest_that_holds_their_median(n):
    ratios = np.exp(np.linspace(-1.0, 1.2, n))
    low, high = index.interval({k: [(0.2 * r, 0.2)] for k, r in enumerate(ratios[::-1])})
    above = np.random.default_rng(1).integers(0, 2, (200_000, n)).sum(axis=1)  # of the true median
    k = int((ratios < low + 0.01).sum())
    assert high == pytest.approx(ratios[-k], abs=0.011)
    assert ((above < k) | (above > n - k)).mean() < 0.05
    assert ((above <= k) | (above >= n - k)).mean() > 0.05


def line_of(*figures):
    names = ("dataset", "method", "value", "seconds", "each")
    made = [dict(zip(names, own, strict=False), metric="error") for own in figures]
    peers = ["best", "near", "far"]
    about = {"page": "p", "task": "t", "measure": "", "ours": ["ours"], "peers": peers}
    return index.line({**about, "metrics": ["error"]}, made)


def test_a_line_whose_interval_has_1_in_it_is_neither_won_nor_lost():
    cases = (([0.5] * 6, -1), ([1.5] * 6, 1), ([0.5] * 5 + [1.5], 0), ([0.5] * 5, 0))
    for ratios, verdict in cases:
        figures = [(k, "ours", 0.2 * r) for k, r in enumerate(ratios)]
        made = line_of(*figures, *((k, "best", 0.2) for k in range(len(ratios))))
        assert made.verdict == verdict
        assert ("**" in index.as_table([made])) == (verdict > 0)


def test_a_time_stands_beside_the_fastest_peer_with_hardly_more_error():
    ours, far = ("a", "ours", 0.2, 4.0), ("a", "far", 0.22, 0.1)
    made = line_of(ours, ("a", "best", 0.1, 8.0), ("a", "near", 0.209, 1.0), far)
    assert (made.peer, made.error) == ("best", pytest.approx(2.0))
    assert (made.fastest, made.seconds) == ("near", pytest.approx(4.0))
    made = line_of(ours, far)  # without a peer as good the best one is there
    assert (made.fastest, made.seconds) == ("far", pytest.approx(40.0))


def test_errors_are_compared_on_the_splits_that_both_have():
    made = line_of(("a", "ours", 0.4, 1.0, [0.2, 0.6]), ("a", "best", 0.1, 1.0, [0.1]))
    assert made.error == pytest.approx(2.0)
    assert made.each == {"a": [pytest.approx(2.0)]}


def test_a_time_that_a_limit_ended_is_a_least_time():
    ended = record("a", "m", "error", None, seconds=60.0, status="time_limit")
    assert pages.cell(ended, "seconds", "{:.0f}") == "> 60"
    assert pages.cell({**ended, "status": "ok"}, "seconds", "{:.0f}") == "60"
    assert pages.cell(ended, "value") == "-"


def test_a_processor_without_avx2_is_refused_with_what_it_lacks(monkeypatch, capsys):
    monkeypatch.setattr(machine, "cpuinfo", lambda field: "sse2 fma")
    assert machine.measured_alike(["never started"]) == 2
    assert "lacks abm, avx2" in capsys.readouterr().err


CASES = [
    ((0.1, 0.2, 0.6), {"n": 4, "least": 2}, True, "2 of 4; not c"),
    ((0.1, 0.6, 0.6), {"n": 4, "least": 2}, None, "1 of 4; not b, c"),  # the fourth may still hold
    ((0.6, 0.6, 0.6), {"n": 4, "least": 2}, False, "0 of 4; not a, b, c"),
    ((), {"n": 4}, None, "0 of 4"),
    ((0.1, None), {}, True, "1 of 1"),
    ((0.1, 0.5), {"take": "max"}, False, "0.5"),
    ((0.1, 0.5), {"take": "max", "n": 3}, None, "-"),
]


@pytest.mark.parametrize(("values", "how", "met", "measured"), CASES)
def test_a_target_of_some_sets_is_open_as_long_as_it_can_be_met(values, how, met, measured):
    made = [record(name, "m", "error", v) for name, v in zip("abc", values, strict=False)]
    target = pages.judged(made, "", {"method": "m"}, limit=0.3, **how)
    assert (target.met, target.measured) == (met, measured)


def test_the_worst_figure_of_ours_stands_beside_the_best_of_theirs():
    pairs = {"x": 0.2, "y": 0.4, "p": 0.3, "q": 0.25}
    made = [record("a", method, "error", value) for method, value in pairs.items()]
    sides = {"ours": {"method": ["x", "y"]}, "theirs": {"method": ["p", "q"]}, "take": "max"}
    for more, wanted in (({}, 0.4 / 0.25), ({"best": True}, 0.2 / 0.25)):
        assert pages.judged(made, "", **sides, **more).measured == f"{wanted:.3g}"
    target = pages.judged(made, "", **sides, relation=">=", limit=0.6)
    assert (target.measured, target.met) == (f"{0.2 / 0.3:.3g}", True)
    without = {"method": "z", "name": "gap", "without": math.inf}
    assert pages.judged([record("a", "z", "e", 1.0)], "", without, limit=0.1).met is False
