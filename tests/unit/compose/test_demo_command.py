"""What `twotick demo` leaves behind where it cannot go on: nothing, or what its error names."""

import signal
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compose.app import build_app
from compose.demo import screen, show
from compose.demo.processes import Process
from compose.errors import ComposeError, SettingsError


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder of the test's own for temporary files, and keep the demo from heeding signals here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return tmp_path


def test_a_wrong_setting_is_told_before_anything_is_made_or_drawn(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "open_screen", None)
    ran = CliRunner().invoke(build_app(), ["--set", "stack.foldr=x", "demo", "--stack", "local"])
    assert isinstance(ran.exception, SettingsError)
    assert list(temporary.iterdir()) == []


def test_the_output_of_a_process_that_ended_is_there_when_its_error_names_it(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_config: Path, _wish: show.Wish, folder: Path, _screen: screen.Screen) -> None:
        process = Process("client ann", ["false"], folder / "ann.log")
        process.start()
        process.stopped()
        process.check()

    monkeypatch.setattr(show, "prepared", lambda *_: None)
    monkeypatch.setattr(show, "_run", run)
    ran = CliRunner().invoke(build_app(), ["demo"])
    assert isinstance(ran.exception, ComposeError)
    (folder,) = temporary.iterdir()
    assert ran.exception.hint == f"Its output is in {folder / 'ann.log'}."
    assert (folder / "ann.log").is_file()
