"""Smoke of the benchmarks: pages import, and a made one is measured, written and checked."""

import shutil
from inspect import signature
from pathlib import Path

import pytest

from benchmarks.papers.headlines import INDEX, SPECIAL
from benchmarks.runner import commands, processor, provenance
from benchmarks.runner.experiment import Source
from benchmarks.runner.index import write_index


def test_every_page_has_experiments_and_words_and_claims_nothing_without_records():
    for name, page in commands.PAGES.items():
        assert page.EXPERIMENTS, name
        assert Path(page.__file__).with_suffix(".md").exists(), name
        assert all(target.met is None for target in page.targets([])), name
        assert isinstance(page.show([]), str), name


def test_every_measure_takes_the_cases_of_its_experiment():
    n_bound = 0
    for page in commands.PAGES.values():
        for one in page.EXPERIMENTS:
            for source in (Source(name, Path("nowhere")) for name in one.data):
                for name, learner in one.learners_of(source).items():
                    try:
                        cases = list(one.cases(source, name))
                    except FileNotFoundError:  # the number of classes is in the data
                        continue
                    for case in cases:
                        signature(one.measure).bind(source, learner, **case)
                        n_bound += 1
    assert n_bound > 1000


def test_a_page_that_was_just_measured_has_tables_provenance_and_targets_and_checks(
    page, command, tmp_path, capsys
):
    made, path = page(), tmp_path / "results/auc.md"
    assert command("run") == 0
    assert len(made.computed) == 6
    text = path.read_text()
    assert text.startswith("# auc\n\nNothing was chosen on test data.")
    assert "Targets missed: error below 1 %" in text
    assert "| error below 1 % | 1.12 | **missed** |" in text
    assert "| a | 1.12 ±2.48 |" in text  # 1, 4.303 / sqrt(3): Student's t of three repeats
    here = provenance.this_run()
    assert all(value is None or str(value) in text for value in here.values())
    assert command("check", "--share", "1", "--write") == 0
    assert len(made.computed) == 12
    assert "6 of 6 units agree" in capsys.readouterr().out
    assert f"Checked on commit {here['commit']}" in path.read_text()


def test_the_index_is_that_of_the_pages_as_they_are(tmp_path):
    for path in (*commands.RESULTS.glob("*.md"), *commands.RESULTS.glob("*.json")):
        shutil.copy(path, tmp_path)
    assert len(write_index(tmp_path, INDEX, SPECIAL, commands.NAMES)) > 20
    assert (tmp_path / "index.md").read_text() == (commands.RESULTS / "index.md").read_text()


@pytest.mark.parametrize(("flags", "lacks"), [("sse2 fma", "lacks abm, avx2"), ("", "lacks abm")])
def test_a_processor_without_avx2_is_refused_with_what_it_lacks(monkeypatch, capsys, flags, lacks):
    monkeypatch.setattr(processor, "features", lambda: set(flags.split()))
    monkeypatch.setattr(processor.platform, "machine", lambda: "x86_64")
    assert processor.measured_alike(["never started"]) == 2
    said = capsys.readouterr().err
    assert lacks in said
    assert "Run them on another machine" in said
    monkeypatch.setattr(processor, "features", lambda: processor.NEEDED)
    assert processor.obstacle() is None
