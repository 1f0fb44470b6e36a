"""Smoke of the benchmarks: pages are those of their records, a made one is measured and written."""

import json
import math
import shutil
from inspect import signature
from pathlib import Path

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


def test_a_processor_without_avx2_is_refused_with_what_it_lacks(monkeypatch, capsys):
    monkeypatch.setattr(machine, "cpuinfo", lambda field: "sse2 fma")
    assert machine.measured_alike(["never started"]) == 2
    assert "lacks abm, avx2" in capsys.readouterr().err


def test_a_target_is_open_without_some_sets_and_missed_by_what_stands_for_null():
    made = [record(name, "m", "error", value) for name, value in (("a", 0.1), ("b", 0.5))]
    target = pages.judged(made, "", {"method": "m"}, take="max", n=3, limit=0.3)
    assert (target.met, target.measured) == (None, "-")
    without = {"method": "m", "name": "gap", "without": math.inf}
    assert pages.judged(made, "", without, limit=0.1).met is False
