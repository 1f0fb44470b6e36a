"""The line of progress on a terminal, in a log, and where it is not wanted."""

import io

import pytest

from structboost import progress
from structboost.progress import ProgressBar, ProgressLine
from structboost.runtime import compiled, dispatchers


class Terminal(io.StringIO):
    def isatty(self):
        return True


RECORDS = [
    {"round": 1, "primal": 9.5, "gap": None, "columns": 3, "seconds": 0.1},
    {"round": 2, "primal": 7.25, "gap": 0.1, "columns": 5, "seconds": 0.2},
]


def show():
    bar = ProgressBar(0.01, 10)
    for record in RECORDS:
        bar(record, None)
    bar.close()


def test_a_terminal_shows_a_bar_that_is_redrawn_in_its_line(monkeypatch):
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    show()
    text = terminal.getvalue()
    assert text.index("\n") == len(text) - 1
    last = "round    2  objective     7.2500  gap 10.00%      5 columns"
    assert text.index("round    1") < text.rindex("\r") < text.rindex(last)


def test_a_log_gets_the_last_state_in_one_plain_line(capsys):
    show()
    text = "round    2  objective     7.2500  gap 10.00%      5 columns     0.2 s\n"
    assert capsys.readouterr().err == text


def test_each_round_is_written_out_once_and_then_the_reason(monkeypatch, capsys):
    monkeypatch.setattr(progress.Progress, "is_written_out", True)
    bar = ProgressBar(0.01, 10)
    for record in RECORDS:
        bar(record, None)
    bar.end("stopped")
    first, second, reason = capsys.readouterr().err.splitlines()
    assert (first[:10], second[:10], reason) == ("round    1", "round    2", "stopped")


@pytest.mark.parametrize(
    ("total", "text"), [(3, "segmented 2/3  0 s  fast"), (None, "segmented 2  0 s  fast")]
)
def test_progress_line_counts_steps(total, text, capsys):
    line = ProgressLine("segmented", total)
    line.step()
    line.step("fast")
    assert capsys.readouterr().err == ""
    line.close()
    assert capsys.readouterr().err == text + "\n"
    line.close()
    assert capsys.readouterr().err == ""


def test_invisible_progress_shows_nothing(capsys):
    line = ProgressLine("segmented", 3, visible=False)
    line.step()
    line.close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("patience", "lines"), [(0.0, 1), (60.0, 0)])
def test_long_compilation_is_announced_once_on_standard_error(patience, lines, monkeypatch, capsys):
    listener = dispatchers.Compilations()
    monkeypatch.setattr(dispatchers, "compilations", listener)
    listener.patience = patience
    compiled._announce.__wrapped__()
    for _ in range(3):
        listener.on_start(None)
        listener.on_end(None)
    assert capsys.readouterr().err.count("once per installation") == lines


def test_only_visible_progress_announces_compilation(monkeypatch):
    told = []
    monkeypatch.setattr(progress, "announce_compilation", lambda: told.append(True))
    ProgressLine("segmented", 3, visible=False)
    assert not told
    ProgressLine("segmented", 3)
    assert told
