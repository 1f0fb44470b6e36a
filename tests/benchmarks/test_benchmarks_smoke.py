"""Smoke of the benchmarks: pages import, and a made one is measured and written."""

import shutil
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.papers.headlines import INDEX, SPECIAL
from benchmarks.runner import commands, processor, provenance
from benchmarks.runner.experiment import Source
from benchmarks.runner.index import Figure, Headline, as_table, interval, line, write_index
from benchmarks.runner.index import Source as Page
from benchmarks.runner.pages import field
from benchmarks.runner.records import record


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


def test_a_page_that_was_just_measured_has_tables_provenance_and_targets(page, command, tmp_path):
    made, path = page(), tmp_path / "results/auc.md"
    assert command() == 0
    assert len(made.computed) == 6
    text = path.read_text()
    assert text.startswith("# auc\n\nNothing was chosen on test data.")
    assert "Targets missed: 1 of 1." in text
    assert "| error below 1 % | 1.12 | **missed** |" in text
    assert "| a | 1.12±2.48 |" in text  # 1, 4.303 / sqrt(3): Student's t of three repeats
    here = provenance.this_run()
    named = here.keys() - {"kernels", "compiled_for", "simd"}
    assert all(here[name] is None or str(here[name]) in text for name in named)


def test_the_index_is_that_of_the_pages_as_they_are(tmp_path):
    for path in (*commands.RESULTS.glob("*.md"), *commands.RESULTS.glob("*.json")):
        shutil.copy(path, tmp_path)
    readme = tmp_path / "README.md"
    shutil.copy(commands.ROOT / "README.md", readme)
    assert len(write_index(tmp_path, INDEX, SPECIAL, commands.NAMES, readme)) > 20
    assert (tmp_path / "index.md").read_text() == (commands.RESULTS / "index.md").read_text()
    assert readme.read_text() == (commands.ROOT / "README.md").read_text()


def pairs(ratios, **others):
    return [(Figure(i, "ours", 0.2 * r, **others), Figure(i, "peer", 0.2, **others))
            for i, r in enumerate(ratios)]  # fmt: skip


@pytest.mark.parametrize("n", [6, 7, 10, 18, 26])
def test_the_interval_of_many_sets_is_the_narrowest_that_holds_their_median(n):
    ratios = np.exp(np.linspace(-1.0, 1.2, n))
    low, high = interval(pairs(ratios[np.random.default_rng(0).permutation(n)]))
    above = np.random.default_rng(1).integers(0, 2, (200_000, n)).sum(axis=1)  # of the true median
    k = int((ratios < low + 0.01).sum())
    assert high == pytest.approx(ratios[-k], abs=0.011)
    assert ((above < k) | (above > n - k)).mean() < 0.05
    assert ((above <= k) | (above >= n - k)).mean() > 0.05


def test_the_interval_of_few_sets_is_that_of_their_splits():
    def single(error, deviation, n):
        return Figure("a", "", error, deviation=deviation / np.sqrt(n), repeats=n)

    low, high = interval([(single(0.12, 0.03, 5), single(0.10, 1e-9, 5))])
    half = t.ppf(0.975, 4) * 0.03 / 0.12 / np.sqrt(5)
    assert np.log([low, high]) == pytest.approx([np.log(1.2) - half, np.log(1.2) + half], abs=0.05)
    assert interval(pairs([0.5, 0.6, 0.7])) is None


def test_a_line_whose_interval_has_1_in_it_is_neither_won_nor_lost():
    headline = Headline("page", "task", "error", ["ours"], ["peer"])
    for ratios, verdict in (([0.5] * 6, -1), ([1.5] * 6, 1), ([0.5] * 5 + [1.5], 0)):
        figures = [figure for both in pairs(ratios) for figure in both]
        made = line(headline, Page([], "", 0, []), lambda records, own=figures: own)
        assert made.verdict == verdict
        assert ("**" in as_table([made], {})) == (verdict > 0)


def line_of(*figures):
    headline = Headline("page", "task", "error", ["ours"], ["best", "near", "far"])
    return line(headline, Page([], "", 0, []), lambda records: figures)


def test_a_time_stands_beside_the_fastest_peer_with_hardly_more_error():
    ours, far = Figure("a", "ours", 0.2, 4.0), Figure("a", "far", 0.22, 0.1)
    made = line_of(ours, Figure("a", "best", 0.1, 8.0), Figure("a", "near", 0.209, 1.0), far)
    assert (made.peer, made.error) == ("best", pytest.approx(2.0))
    assert (made.fastest, made.seconds) == ("near", pytest.approx(4.0))
    made = line_of(ours, far)  # without a peer as good the best one is there
    assert (made.fastest, made.seconds) == ("far", pytest.approx(40.0))


def test_measures_of_a_data_set_count_as_one_set():
    rows = [("a", 0.3), ("a", 0.3), ("a", 0.3), ("b", 0.1), ("c", 0.1)]
    figures = [
        Figure(name, method, error, part=i)
        for i, (name, own) in enumerate(rows)
        for method, error in (("ours", own), ("best", 0.1))
    ]
    made = line_of(*figures)
    assert (made.error, made.n_sets, made.interval) == (pytest.approx(1.0), 3, None)
    assert made.each == {"a": pytest.approx([3.0] * 3), "b": [1.0], "c": [1.0]}


def test_errors_are_compared_on_the_splits_that_both_have():
    made = line_of(Figure("a", "ours", 0.4, each=(0.2, 0.6)), Figure("a", "best", 0.1, each=(0.1,)))
    assert made.error == pytest.approx(2.0)


def test_a_time_that_a_limit_ended_is_a_least_time():
    ended = record("a", "m", "error", None, seconds=60.0, status="time_limit")
    assert field("", "seconds", "{:.0f}").cell(ended) == "> 60"
    assert field("", "seconds", "{:.0f}").cell({**ended, "status": "ok"}) == "60"
    assert field("", "value").cell(ended) == "-"


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
