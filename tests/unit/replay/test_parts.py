"""Progress that survives any end, and a pace that is kept."""

import json
from pathlib import Path

import pytest

from consumers.replay.pace import Pace
from consumers.replay.progress_file import Progress, ProgressFileError
from consumers.replay.spans import Span


def test_progress_is_what_was_saved(tmp_path: Path):
    path = tmp_path / "state"
    assert Progress.load(path, "x") is None
    progress = Progress("x", (Span(0, 1, 9, is_whole=False),), {0: 4}, {0: 1_700_000_000_000})
    progress.save(path)
    assert Progress.load(path, "x") == progress
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


def test_another_replays_progress_and_other_files_are_refused(tmp_path: Path):
    path = tmp_path / "state"
    Progress("x", ()).save(path)
    with pytest.raises(ProgressFileError, match="another replay"):
        Progress.load(path, "y")
    path.write_text("{")
    with pytest.raises(ProgressFileError, match="cannot be read"):
        Progress.load(path, "x")
    path.write_text(json.dumps([1]))
    with pytest.raises(ProgressFileError, match="no progress"):
        Progress.load(path, "x")


def test_the_pace_is_kept_and_none_is_as_fast_as_it_goes():
    now, waits = [0.0], []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    pace = Pace(10, clock=lambda: now[0], wait=wait)
    pace.spent(5)
    now[0] += 1.0
    pace.spent(5)
    pace.spent(20)
    assert waits == pytest.approx([0.5, 1.5])
    Pace(0, clock=lambda: now[0], wait=lambda _: pytest.fail("it waited")).spent(1_000_000)
