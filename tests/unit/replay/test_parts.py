"""Progress that survives any end, and a pace that is kept."""

import io
import json
from pathlib import Path

import pytest

from consumers.cli import bar
from consumers.replay.pace import Pace
from consumers.replay.progress_file import Asked, Progress, ProgressFileError
from consumers.replay.spans import Span

ASKED = Asked("the file a", "", "topic id", 3)


def test_progress_is_what_was_saved(tmp_path: Path):
    path = tmp_path / "state"
    assert Progress.load(path, ASKED) is None
    progress = Progress(ASKED, (Span(0, 1, 9, is_whole=False),), {0: 4}, {0: 1_700_000_000_000}, 77)
    progress.save(path)
    assert Progress.load(path, ASKED) == progress
    assert not progress.is_complete
    assert Progress(ASKED, progress.spans, {0: 9}).is_complete
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


def test_another_replays_progress_and_other_files_are_refused(tmp_path: Path):
    path = tmp_path / "state"
    Progress(ASKED, ()).save(path)
    for name, other in (("target", "the file b"), ("wish", "since 2h"), ("topic", "another id"), ("generation", 4)):
        with pytest.raises(ProgressFileError, match=f"another replay: its {name} is .*, not {other}"):
            Progress.load(path, ASKED._replace(**{name: other}))
    path.write_text("{")
    with pytest.raises(ProgressFileError, match="cannot be read"):
        Progress.load(path, ASKED)
    path.write_text(json.dumps([1]))
    with pytest.raises(ProgressFileError, match="no progress"):
        Progress.load(path, ASKED)


def test_progress_of_an_earlier_version_is_refused(tmp_path: Path):
    path = tmp_path / "state"
    path.write_text(json.dumps({"version": 1, "what": "live", "spans": [], "positions": {}, "began_ms": {}}))
    with pytest.raises(ProgressFileError, match="another version"):
        Progress.load(path, ASKED)


def test_after_a_stall_the_pace_is_the_same():
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    pace = Pace(10, lambda: False, clock=lambda: now[0], wait=wait)
    for _ in range(20):
        pace.spent(5)
    assert now[0] == pytest.approx(10)
    now[0] += 60.0
    for _ in range(20):
        pace.spent(5)
    assert now[0] == pytest.approx(70 + 9.5)


def test_where_nobody_watches_a_rate_that_is_not_known_is_not_told(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(bar, "monotonic", lambda: now[0])
    with bar.progress_bar("folding") as report:
        for now[0], done in ((11.0, 500), (22.0, 500), (33.0, 830)):
            report(done, 1_160)
    assert capsys.readouterr().err.splitlines() == [
        "folding: 500 of 1,160",
        "folding: 500 of 1,160",
        "folding: 830 of 1,160, 10.0/s, 33 s left",
    ]


def test_where_nobody_knows_how_many_there_are_no_time_is_said_to_remain(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(bar, "monotonic", lambda: now[0])
    with bar.progress_bar("comparing") as report:
        for now[0], done in ((11.0, 500), (22.0, 610)):
            report(done, None)
    assert capsys.readouterr().err.splitlines() == ["comparing: 500", "comparing: 610, 5.0/s"]


def test_on_a_terminal_the_bar_tells_what_it_is_told(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    for total in (1_000, None):
        with bar.progress_bar("comparing") as report:
            report(0, total)
            report(400, total)
    assert "400/1000" in terminal.getvalue()
    assert "400/?" in terminal.getvalue()


def test_the_pace_is_kept_and_none_is_as_fast_as_it_goes():
    now, waits = [0.0], []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    pace = Pace(10, lambda: False, clock=lambda: now[0], wait=wait)
    pace.spent(5)
    now[0] += 1.0
    pace.spent(5)
    pace.spent(20)
    assert (waits[0], sum(waits)) == pytest.approx((0.5, 2.5))
    Pace(0, lambda: False, clock=lambda: now[0], wait=lambda _: pytest.fail("it waited")).spent(1_000_000)


@pytest.mark.parametrize("rate", [0.01, 1e-300])
def test_who_wants_it_to_end_waits_for_no_slow_pace(rate: float):
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    Pace(rate, lambda: now[0] >= 3, clock=lambda: now[0], wait=wait).spent(1)
    assert now[0] == pytest.approx(3)
