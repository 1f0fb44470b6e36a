"""How long a run will take, from what its units took before."""

from __future__ import annotations

import json

import pytest

from benchmarks.runner import commands as command_line
from benchmarks.runner.estimate import Estimate, estimate, recorded_seconds, total
from benchmarks.runner.units import Runner, Unit


def unit(method, repeat, *, timed=False):
    params = {"repeat": repeat, "note": None}
    return Unit("made", "s", method, params, "1", lambda: {"value": 1.0}, timed=timed)


def test_recorded_times_are_those_of_the_page_or_of_a_later_run(tmp_path):
    entries = [
        {"title": "made s m repeat 0", "result": {"unit_seconds": 3.0}},
        {"title": "made s m repeat 1", "result": {"value": 1.0}},
    ]
    (tmp_path / "made.json").write_text(json.dumps({"units": entries}))
    (tmp_path / "broken.json").write_text("{")
    runner = Runner(tmp_path / ".bench", 1)
    runner.finish([unit("n", 0)])
    found = recorded_seconds(tmp_path, tmp_path / ".bench")
    assert found.pop("made s m repeat 0") == 3.0
    assert set(found) == {"made s n repeat 0"}


def test_repeats_without_a_time_take_the_mean_and_timed_units_run_alone():
    units = [unit("m", k) for k in range(4)] + [unit("n", 0, timed=True), unit("o", 0)]
    recorded = {"made s m repeat 0": 2.0, "made s m repeat 1": 4.0, "made s n repeat 0": 5.0}
    found = estimate(units, units, recorded)
    assert found == Estimate(6, pytest.approx(2 + 4 + 3 + 3 + 5), 5.0, 1)
    assert found.wall(2) == pytest.approx(5 + 6)
    assert total([found, found]).seconds == pytest.approx(34)
    said = "6 units are left: 5 take 0.0 h on 2 processes; 1 have no recorded time"
    assert found.in_words(2) == said
    assert estimate(units, units[2:4], recorded).seconds == pytest.approx(6)


def test_the_command_says_it_and_runs_nothing(tmp_path, monkeypatch, capsys):
    class Page:
        DATASETS = QUICK_DATASETS = ("s",)

        @staticmethod
        def units(name, data_dir, *, quick=False):
            return [unit("m", 0), unit("m", 1)]

    monkeypatch.setattr(command_line, "NAMES", ("made",))
    monkeypatch.setattr(command_line, "PAGES", {"made": Page})
    kept = tmp_path / ".bench"
    Runner(kept, 1).finish([unit("m", 0)])
    before = sorted(path.name for path in kept.iterdir())
    given = ["all", "--data", ".", "--json", str(tmp_path), "--estimate"]
    assert command_line.main(given) == 0
    assert "in all: 1 units are left: 1 take 0.0 h on one process\n" in capsys.readouterr().out
    assert sorted(path.name for path in kept.iterdir()) == before
