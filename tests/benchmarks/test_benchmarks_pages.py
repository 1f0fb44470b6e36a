"""The command line; what pages say; the units beside them; the check against today's code."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from types import ModuleType

import pytest

from benchmarks.papers import auc, mo_ecc, speed
from benchmarks.runner import commands as command_line
from benchmarks.runner import protocol, provenance, targets
from benchmarks.runner.check import differences
from benchmarks.runner.records import record
from benchmarks.runner.units import Unit

VALUE = 0.123456789012345


class Made(ModuleType):
    """A benchmark of few units, each of whose results can be changed."""

    DATASETS = QUICK_DATASETS = ("a", "b")

    def __init__(self, n_units=4, change=None, fails=()):
        super().__init__("made", "A made benchmark.")
        self.n_units, self.change, self.fails = n_units, change or {}, fails
        self.computed = []

    def units(self, name, data_dir, *, quick=False):
        first = self.unit(name, 0)
        return [
            first,
            *(self.unit(name, k, first if k == 1 else None) for k in range(1, self.n_units)),
        ]

    def unit(self, name, repeat, needs=None):
        def run(*needed):
            self.computed.append((name, repeat))
            if repeat in self.fails:
                raise ValueError("no")
            one = {
                "value": VALUE + repeat,
                "seconds": float(len(self.computed)),
                "each": [{"gap": 1 / 3}] * 2,
            }
            return {
                **one,
                "curve": [VALUE * k for k in range(200)],
                "errors": {"10": VALUE},
                **self.change,
            }

        return Unit("made", name, "m", {"repeat": repeat, "note": None}, "1", run, needs)

    def records(self, name, finished):
        return [
            record(
                name,
                "m",
                "error",
                sum(result["value"] for _, result in finished),
                curve=[0.5] * 100,
            )
        ]

    def targets(self, made):
        return [targets.reach("error below 1 %", made[0]["value"], "<=", 0.01)]

    def show(self, made):
        return "the table"

    def plot(self, made, path):
        path.with_name("made-rounds.png").write_bytes(b"picture")
        path.write_bytes(b"picture")


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Puts a made benchmark in the place of `auc`, the only one."""

    (tmp_path / "made.md").write_text("A made benchmark.\n\nNothing was chosen on test data.\n")

    def put(**settings):
        benchmark = Made(**settings)
        benchmark.__file__ = str(tmp_path / "made.py")
        monkeypatch.setitem(command_line.PAGES, "auc", benchmark)
        return benchmark

    put()
    return put


def run(tmp_path, *more):
    arguments = ["run", "auc", "--data", str(tmp_path), "--json", str(tmp_path / "r.json"), *more]
    return command_line.main([*arguments, "--results", str(tmp_path / "results")])


# The command line


def test_the_list_names_all_pages(capsys):
    assert command_line.main(["list"]) == 0
    said = capsys.readouterr().out
    assert "satimage" in said
    assert all(f"{name}\n" in said for name in command_line.NAMES)


def test_an_unknown_data_set_is_named(made, tmp_path, capsys):
    assert run(tmp_path, "--only", "nowhere") == 2
    assert "auc has no nowhere; it has a, b" in capsys.readouterr().err


class Shares:
    """Stands for the processes of a command: notes its options, and runs it here."""

    def __init__(self, monkeypatch):
        self.started = []
        monkeypatch.setattr(command_line.subprocess, "Popen", self)

    def __call__(self, command):
        given = command[command.index("benchmarks") + 1 :]
        self.started.append(given[given.index("--worker") :])
        self.code = command_line.main(given)
        return self

    def wait(self):
        return self.code


def test_units_whose_times_are_the_point_run_alone(made, tmp_path, monkeypatch):
    """Others run in processes at first; then the command itself finishes what is left."""
    benchmark = made(n_units=3)
    alone = []

    def unit(*arguments):
        plain = Made.unit(benchmark, *arguments)
        run = lambda: alone.append(len(shares.started)) or plain.run()  # noqa: E731
        return dataclasses.replace(plain, run=run, timed=True) if arguments[1] == 2 else plain

    monkeypatch.setattr(benchmark, "unit", unit)
    provenance.this_run()  # asks git, in a process
    shares = Shares(monkeypatch)
    assert run(tmp_path, "--jobs", "2") == 0
    assert shares.started == [["--worker", str(k), "2"] for k in range(2)]
    assert alone == [2, 2]  # one for each data set, after both processes
    assert len(benchmark.computed) == 6  # nothing twice


def test_one_command_measures_all_pages_and_resumes(made, tmp_path, monkeypatch, capsys):
    first, second = made(), Made(n_units=2)
    second.__file__, second.DATASETS = first.__file__, ("c",)
    monkeypatch.setattr(command_line, "PAGES", {"auc": first, "speed": second})
    monkeypatch.setattr(command_line, "NAMES", ("auc", "speed"))
    out = tmp_path / "out"
    command = ["all", "--data", str(tmp_path), "--json", str(out), "--results", str(out / "pages")]
    assert command_line.main(command) == 0
    assert (len(first.computed), len(second.computed)) == (8, 2)
    assert {path.name for path in out.glob("*.json")} == {"auc.json", "speed.json"}
    assert {path.stem for path in (out / "pages").glob("*.md")} == {"auc", "speed"}
    assert command_line.main(command) == 0
    assert (len(first.computed), len(second.computed)) == (8, 2)
    assert capsys.readouterr().err.count(": kept") == 10


def check(tmp_path, *more):
    return command_line.main(
        ["check", "auc", "--data", str(tmp_path), "--results", str(tmp_path / "results"), *more]
    )


# What a page says


def test_a_page_names_commit_machine_versions_and_date(made, tmp_path):
    made()
    assert run(tmp_path) == 0
    page = (tmp_path / "results" / "auc.md").read_text()
    here = provenance.this_run()
    for key, value in here.items():
        assert value is None or str(value) in page, key
    assert page.index("A made benchmark.") < page.index("Nothing was chosen on test data.")
    assert "Targets missed: error below 1 %" in page
    assert "| error below 1 % | 6.49 | **missed** |" in page
    assert "the table" in page
    assert "missing" not in page
    assert "![auc.png](auc.png)" in page


def test_the_records_and_units_lie_beside_the_page(made, tmp_path):
    made()
    run(tmp_path)
    kept = json.loads((tmp_path / "results" / "auc.json").read_text())
    assert kept["benchmark"] == "auc"
    assert kept["runs"] == [provenance.this_run()]
    assert [r["dataset"] for r in kept["records"]] == ["a", "b"]
    assert len(kept["units"]) == 8
    unit = kept["units"][1]
    assert unit["title"] == "made a m repeat 1"
    assert unit["key"].startswith("made-a-m-")
    assert (unit["dataset"], unit["method"], unit["params"]) == (
        "a",
        "m",
        {"repeat": 1, "note": None},
    )
    assert unit["result"]["value"] == 1.1234568  # rounded
    assert set(unit["result"]["curve"]) == {"numbers", "mean", "rms"}
    assert kept["units"][0]["result"]["curve"]["numbers"] == 200
    # A line each: differences between commits can be read.
    assert len((tmp_path / "results" / "auc.json").read_text().splitlines()) < 50


def on_commit(monkeypatch, name):
    """What is run or written from here on is of this commit."""
    there = {**provenance.this_run(), "commit": name}
    for module in ("units", "pages", "check"):
        monkeypatch.setattr(f"benchmarks.runner.{module}.this_run", lambda: there)


def test_units_kept_from_another_commit_are_said_to_be_of_that(made, tmp_path, monkeypatch):
    on_commit(monkeypatch, "1111111111")
    made()
    run(tmp_path, "--only", "a")
    page = (tmp_path / "results" / "auc.md").read_text()
    assert "Measured on commit 1111111111" in page
    on_commit(monkeypatch, "2222222222")
    run(tmp_path)
    page = (tmp_path / "results" / "auc.md").read_text()
    assert "Written on commit 2222222222" in page
    assert "\n- commit 1111111111" in page
    assert "\n- commit 2222222222" in page
    assert page.count(": 4 units") == 2
    assert run(tmp_path, "--kept", "--only", "a") == 0
    page = (tmp_path / "results" / "auc.md").read_text()
    assert "Written on commit 2222222222" in page
    assert "\n- commit 2222222222" not in page
    assert json.loads((tmp_path / "results" / "auc.json").read_text())["commit"] == "2222222222"


def test_a_run_resumes_from_a_page_of_the_same_data_and_code(made, tmp_path, monkeypatch, capsys):
    on_commit(monkeypatch, "1111111111")
    first = made(change={"curve": [1.0, 2.0]})
    run(tmp_path)
    before = json.loads((tmp_path / "results" / "auc.json").read_text())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    on_commit(monkeypatch, "2222222222")
    second = made(n_units=5)  # one more on each data set
    assert run(elsewhere, "--resume", str(tmp_path / "results")) == 0
    assert len(first.computed) == 8
    assert second.computed == [("a", 4), ("b", 4)]
    assert run(elsewhere, "--resume", str(tmp_path)) == 2  # no page of results
    assert "is no page of results" in capsys.readouterr().err
    assert run(elsewhere, "--resume", str(tmp_path / "nowhere")) == 2
    assert "has no page; give a folder" in capsys.readouterr().err
    after = json.loads((elsewhere / "results" / "auc.json").read_text())
    assert [run["commit"] for run in after["runs"]] == ["1111111111", "2222222222"]
    assert after["units"][:4] == before["units"][:4]


def test_a_run_takes_no_summary_and_no_other_version_from_a_page(made, tmp_path, monkeypatch):
    made()  # with curves of 200 numbers
    run(tmp_path)
    second = made()
    run(tmp_path / "elsewhere", "--resume", str(tmp_path / "results"))
    assert len(second.computed) == 8
    made(change={"curve": [1.0, 2.0]})
    run(tmp_path / "short")
    another = made(change={"curve": [1.0, 2.0]})
    unit = another.unit
    monkeypatch.setattr(another, "unit", lambda *a: dataclasses.replace(unit(*a), version="2"))
    run(tmp_path / "third", "--resume", str(tmp_path / "short" / "results"))
    assert len(another.computed) == 8


def test_units_kept_from_before_commits_were_noted_are_said_to_be_so(made, tmp_path):
    made()
    run(tmp_path)
    for path in (tmp_path / ".bench").iterdir():
        kept = json.loads(path.read_text())
        del kept["run"]
        path.write_text(json.dumps(kept))
    run(tmp_path, "--kept")
    page = (tmp_path / "results" / "auc.md").read_text()
    assert "\n- an unknown commit" in page
    assert f"\n- commit {provenance.this_run()['commit']}" not in page


def test_results_of_another_version_do_not_enter(made, tmp_path, monkeypatch):
    made()
    run(tmp_path)
    another = made()
    unit = another.unit
    monkeypatch.setattr(
        another, "unit", lambda *a: Unit(*list(vars(unit(*a)).values())[:4], "2", unit(*a).run)
    )
    run(tmp_path, "--kept")
    page = (tmp_path / "results" / "auc.md").read_text()
    assert "8 of 8 units are missing" in page
    assert not json.loads((tmp_path / "results" / "auc.json").read_text())["units"]


def test_a_page_with_failed_units_says_so(made, tmp_path):
    made(fails=(2,))
    assert run(tmp_path) == 1
    page = (tmp_path / "results" / "auc.md").read_text()
    assert "2 of 8 units are missing: made a m repeat 2; made b m repeat 2." in page


def test_a_commit_is_marked_where_the_code_was_changed(tmp_path):
    def git(*arguments):
        named = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        subprocess.run(
            ["git", "-C", str(tmp_path), *named, *arguments], check=True, capture_output=True
        )

    assert provenance.commit(tmp_path) is None
    git("init")
    for folder in (*provenance.CODE, "docs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("1")
    git("add", ".")
    git("commit", "-m", "one")
    clean = provenance.commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{10}", clean)
    (tmp_path / "docs" / "page").write_text("a page that was just written")
    assert provenance.commit(tmp_path) == clean
    (tmp_path / "structboost" / "file").write_text("2")
    assert provenance.commit(tmp_path) == f"{clean} + changes"
    git("commit", "-am", "two")
    (tmp_path / "benchmarks" / "new.py").write_text("")
    assert provenance.commit(tmp_path).endswith(" + changes")


def test_targets_count_what_is_on_the_page():
    def counted(found, least=None):
        return targets.all_of("w", found, 3, least)

    assert counted([("a", True), ("b", True), ("c", True)]).met is True
    assert counted([("a", True)]).met is None  # the others may fail
    assert counted([("a", False)]).met is False
    assert counted([("a", False), ("b", True)], 2).met is None
    assert counted([("a", False), ("b", False)], 2).met is False
    assert counted([("a", False), ("b", True), ("c", True)], 2).met is True
    assert counted([("a", False), ("b", True), ("c", True)], 2).measured == "2 of 3; not a"
    assert targets.reach("w", None, "<=", 1.0).met is None
    assert "No measured target is missed" in targets.as_table([targets.reach("w", 2.0, ">", 1.0)])


# The check


def test_a_page_of_the_same_code_checks(made, tmp_path, capsys):
    made()
    run(tmp_path)
    again = made()
    assert check(tmp_path, "--share", "1") == 0
    said = capsys.readouterr().out
    assert "8 of 8 units agree with the page, 0 differ" in said
    assert set(again.computed) == {
        (name, k) for name in "ab" for k in range(4)
    }  # computed, not kept


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"value": VALUE + 1e-5}, "value"),
        ({"each": [{"gap": 1 / 3}, {"gap": 0.34}]}, "each 1 gap"),
        ({"each": [{"gap": None}] * 2}, "each 0 gap"),
        ({"errors": {}}, "errors 10"),
        ({"curve": [VALUE * k + (k == 7) for k in range(200)]}, "curve mean"),
    ],
)
def test_values_that_differ_from_the_page_are_found(made, tmp_path, capsys, change, path):
    made(n_units=1)
    run(tmp_path)
    made(n_units=1, change=change)
    assert check(tmp_path, "--share", "1") == 1
    said = capsys.readouterr().out
    assert "differs: made a m repeat 0" in said
    assert f"  {path}: " in said
    assert "0 of 2 units agree with the page, 2 differ" in said
    assert said.count(f"compiled for {provenance.this_run()['compiled_for']})") == 2


def test_seconds_and_rounding_are_no_difference(made, tmp_path):
    made(n_units=1)
    run(tmp_path)
    made(n_units=1, change={"value": VALUE * (1 + 1e-12), "seconds": 1e9, "new_fact": 3})
    assert check(tmp_path, "--share", "1") == 0
    made(n_units=1, change={"value": VALUE * 1.001})
    assert check(tmp_path, "--share", "1") == 1


def test_timing_is_skipped_at_every_depth_and_other_words_are_not():
    before = {
        "engines": [{"seconds": [1.0], "passes": 3, "round_seconds": 2.0}],
        "cpu": {"1": 2},
        "predict_us": 1,
        "cpu_in_all": 3.0,
    }
    now = {
        "engines": [{"seconds": [7.0], "passes": 4, "round_seconds": 9.0}],
        "cpu": {"1": 5},
        "predict_us": 2,
        "cpu_in_all": 4.0,
    }
    assert list(differences(before, now)) == [("engines 0 passes", 3, 4)]
    assert not list(differences(before, now, frozenset({"engines"})))
    assert list(differences({"a": True}, {"a": 1}))
    assert list(differences({"a": [1, 2]}, {"a": [1]}))
    # Other than in time: 'rounds', 'accuracy', 'iterations'.
    assert list(differences({"rounds": 1, "accuracy": 1}, {"rounds": 2, "accuracy": 2}))


def test_units_that_one_side_does_not_have_are_named(made, tmp_path, capsys):
    made(n_units=3)
    run(tmp_path)
    made(n_units=2)
    assert check(tmp_path) == 0
    assert "on the page, but no longer planned: made b m repeat 2" in capsys.readouterr().out
    made(n_units=4)
    assert check(tmp_path) == 0
    assert "planned, but not on the page: made a m repeat 3" in capsys.readouterr().out


def test_a_share_is_drawn_by_the_seed(made, tmp_path):
    made(n_units=20)
    run(tmp_path)
    drawn = []
    for seed in ("0", "0", "1"):
        benchmark = made(n_units=20)
        assert check(tmp_path, "--share", "0.2", "--seed", seed) == 0
        drawn.append(benchmark.computed)
    assert drawn[0] == drawn[1] != drawn[2]
    assert 8 <= len(drawn[0]) <= 10  # with those that others need


def test_a_page_says_on_which_commit_it_was_checked(made, tmp_path, monkeypatch):
    made(n_units=20)
    run(tmp_path)
    page, units = (tmp_path / "results" / f"auc.{kind}" for kind in ("md", "json"))
    written = page.read_text(), units.read_text()
    assert check(tmp_path, "--share", "0.2") == 0
    assert (page.read_text(), units.read_text()) == written
    for name, share, n in (("1111111111", "0.2", 8), ("2222222222", "0.1", 4)):
        on_commit(monkeypatch, name)
        assert check(tmp_path, "--share", share, "--write") == 0
        text = page.read_text()
        assert f"Checked on commit {name}, " in text
        assert f"{provenance.machine(provenance.this_run())}: {n} of 40" in text
        assert f": {n} of 40 units were computed anew and agree.\n\nRecords and" in text
        assert text.count("Checked on commit") == 1
        assert json.loads(units.read_text())["checked"]["commit"] == name
    kept = json.loads(units.read_text())
    del kept["checked"]
    assert kept == json.loads(written[1])
    assert len(units.read_text().splitlines()) == len(written[1].splitlines()) + 8
    made(n_units=20, change={"value": 3.0})
    on_commit(monkeypatch, "3333333333")
    assert check(tmp_path, "--share", "0.2", "--write") == 1
    assert "3333333333" not in page.read_text()


def test_units_stopped_by_time_are_not_compared(made, tmp_path, capsys):
    made(n_units=1, change={"status": "time_limit"})
    run(tmp_path)
    made(n_units=1)
    assert check(tmp_path, "--share", "1") == 2
    captured = capsys.readouterr()
    assert "2 units were stopped by a time limit" in captured.out
    assert "No unit of the page can be compared" in captured.err


def test_a_unit_that_fails_now_fails_the_check(made, tmp_path, capsys):
    made(n_units=1)
    run(tmp_path)
    made(n_units=1, fails=(0,))
    assert check(tmp_path, "--share", "1") == 1
    assert "failed: made a m repeat 0" in capsys.readouterr().out


def test_a_page_without_units_says_how_to_make_them(made, tmp_path, capsys):
    assert check(tmp_path) == 2
    said = capsys.readouterr().err
    assert "auc.json is missing" in said
    assert "python -m benchmarks run auc" in said
    (tmp_path / "results").mkdir()
    for content in ('{"units', "[]"):
        (tmp_path / "results" / "auc.json").write_text(content)
        assert check(tmp_path) == 2
        assert "run the benchmark again" in capsys.readouterr().err


@pytest.mark.parametrize("share", ["0", "1.5", "-1"])
def test_a_share_is_above_0_and_at_most_1(made, tmp_path, capsys, share):
    with pytest.raises(SystemExit):
        check(tmp_path, "--share", share)
    assert "give a number above 0" in capsys.readouterr().err


def test_ctrl_c_ends_a_check(made, tmp_path, monkeypatch):
    made(n_units=1)
    run(tmp_path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(made(n_units=1), "unit", interrupted)
    assert check(tmp_path) == command_line.INTERRUPTED


@pytest.mark.parametrize(("benchmark", "name"), [(auc, "wine"), (mo_ecc, "wine"), (speed, "rows")])
def test_units_of_a_benchmark_are_told_apart_whatever_the_code(
    tmp_path, monkeypatch, benchmark, name
):
    monkeypatch.setattr(protocol, "version", lambda method, data: "1")  # asks the peers for theirs
    planned = benchmark.units(name, tmp_path)
    assert len({json.dumps(unit.identity, sort_keys=True) for unit in planned}) == len(planned) > 10


# Packages that are not installed


def test_a_missing_peer_is_named_with_its_remedy(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # as if it were not installed
    assert run(tmp_path, "--only", "wine", "--jobs", "2") == 2
    said = capsys.readouterr().err
    assert "auc needs lightgbm, which is not installed; `make bench`" in said
    assert not list(tmp_path.iterdir())


def test_plots_are_asked_for_before_the_first_unit(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    benchmark = made()
    assert run(tmp_path) == 2
    assert "auc needs matplotlib" in capsys.readouterr().err
    assert benchmark.computed == []


def test_peers_are_asked_for_only_where_they_run():
    speed, scale = command_line.PAGES["speed"], command_line.PAGES["scale"]
    assert set(speed.PEERS) == {"usps"}
    assert "rows" not in scale.PEERS
    for benchmark in command_line.PAGES.values():
        assert set(getattr(benchmark, "PEERS", {})) <= set(benchmark.DATASETS)


def test_pages_say_which_times_are_the_point(tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "version", lambda method, data: "1")  # asks the peers for theirs
    planned = {
        name: command_line.PAGES[name].units(dataset, tmp_path)
        for name, dataset in (("auc", "wine"), ("speed", "rows"), ("scale", "engines"))
    }
    assert all(unit.timed for name in ("speed", "scale") for unit in planned[name])
    timed = {unit.method for unit in planned["auc"] if unit.timed}
    assert timed == {*(name for name, *_ in auc.SLOW_METHODS), auc.FULL_PROGRAM}
    mo_ecc_units = mo_ecc.units("wine", tmp_path)
    assert not any(unit.timed for unit in mo_ecc_units)


def test_missing_data_is_no_traceback(tmp_path, capsys):
    arguments = ["run", "segmentation", "--data", str(tmp_path), "--json", str(tmp_path / "r.json")]
    assert command_line.main(arguments) == 2
    assert "--data must name a directory" in capsys.readouterr().err
