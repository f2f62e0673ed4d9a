"""The demo's two screens: plain lines say each thing once, the picture shows owners, ticks and processes."""

import io

import pytest
from rich.console import Console

from compose.demo.screen import Holding, Line, LiveScreen, PlainScreen, Snapshot, Tone, open_screen

SNAPSHOT = Snapshot(
    seconds=3.0,
    messages=100,
    written=60,
    sent=50,
    delivered=40,
    read=25,
    holdings=[Holding(0, 1, "node-0"), Holding(1, 7, "node-1")],
    lines=[Line("ann", ("ben",), "see [you] soon", "READ"), Line("ben", ("ann",), "ok", "PENDING")],
    processes={"node-0": "running", "client ann": "cut off"},
)


def test_plain_lines_tell_progress_once_a_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen()
    screen.update(SNAPSHOT)
    screen.update(SNAPSHOT)
    screen.event("node-0 killed", seconds=4.0, tone=Tone.BAD)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["   3.0 s  sent 50, delivered 40, read 25 of 100", "   4.0 s  node-0 killed"]


def test_the_picture_shows_what_there_is() -> None:
    out = io.StringIO()
    screen = LiveScreen(Console(file=out, force_terminal=True, width=100, height=40, color_system=None))
    screen.event("node-0 killed", seconds=4.0, tone=Tone.BAD)
    screen.update(SNAPSHOT)
    screen._live.refresh()
    screen.close()
    shown = out.getvalue()
    for text in ("25/100", "node-1 epoch 7", "see [you] soon", "cut off", "node-0 killed"):
        assert text in shown


def test_nobody_gets_a_moving_picture_into_a_file() -> None:
    assert isinstance(open_screen(quiet=False), PlainScreen)
    assert isinstance(open_screen(quiet=True), PlainScreen)
