"""Rows are printed as asked, and what others wrote has no effect on a terminal."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from compose.output import Follower, show
from schemas.text import harmless

ROWS: list[dict[str, Any]] = [
    {"id": 1, "text": "hi [bold]\x1b[31m", "who": ("a", "b")},
    {"id": 2, "text": "ü", "who": ()},
]


def test_json_lines_hold_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ("id",), "jsonl")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"id": 1, "text": "hi [bold]\x1b[31m", "who": ["a", "b"]},
        {"id": 2, "text": "ü", "who": []},
    ]


def test_json_is_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ("id",), "json")
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_where_standard_output_is_no_terminal_lines_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS[1:], ("id",), None)
    assert json.loads(capsys.readouterr().out)["id"] == 2


def test_a_table_shows_markup_and_escapes_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ("id", "text", "who"), "table")
    shown = capsys.readouterr().out
    assert "hi [bold]\\x1b[31m" in shown
    assert "\x1b" not in shown
    assert "a, b" in shown


def test_a_table_shows_a_mapping_as_people_write_it(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"receipts": {"bob": "read", "car\x1bol": "sent"}}
    show([row], ("receipts",), "table")
    assert "bob: read, car\\x1bol: sent" in capsys.readouterr().out
    show([row], ("receipts",), "jsonl")
    assert json.loads(capsys.readouterr().out) == row


def test_followed_rows_are_lines_of_a_table_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    follow = Follower(("id", "text", "who"), None)
    assert capsys.readouterr().out == ""
    follow({**ROWS[0], "who": "a"})
    follow({"id": 12, "text": "🎂", "who": ("a", "b")})
    follow({"id": 3, "text": None})
    assert capsys.readouterr().out.splitlines() == [
        "id  text  who",
        "1   hi [bold]\\x1b[31m  a",
        "12  🎂                 a, b",
        "3",
    ]


@pytest.mark.parametrize("output", [None, "json", "jsonl"])
def test_followed_rows_are_json_lines_elsewhere(output: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    follow = Follower(("id",), output)
    for row in ROWS:
        follow(row)
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == [1, 2]


@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_json_on_a_terminal_obeys_nobody(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x9b31m\u202e\x7f\x1b[2J\ud800 ü 🎂\n"
    show([{"text": hostile}], ("text",), output)
    shown = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "ü 🎂" in shown
    found = json.loads(shown)
    assert (found[0] if output == "json" else found) == {"text": hostile}


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain ü 🎂", "plain ü 🎂"), ("a\nb", "a\\nb"), ("\x9b1m", "\\x9b1m"), ("\u202eabc", "\\u202eabc")],
)
def test_control_and_formatting_characters_are_escaped(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_rows_of_a_list_are_printed_before_the_next_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []

    def rows() -> Iterator[dict[str, object]]:
        for row in ROWS:
            yield row
            seen.append(capsys.readouterr().out)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        show(rows(), ("id",), "json")
    rest = capsys.readouterr().out
    assert '"id": 1' in seen[0]
    assert json.loads("".join([*seen, rest])) == [{**row, "who": list(row["who"])} for row in ROWS]


def test_a_list_without_rows_is_one_too(capsys: pytest.CaptureFixture[str]) -> None:
    show([], ("id",), "json")
    assert capsys.readouterr().out == "[]\n"


WIDE: list[dict[str, Any]] = [
    {"node": "host-1/0", "since": "2026-11-30T09:00:00.000+00:00", "lag": "0 in 0.0 s", "hottest": ["a 1/s", "b 1/s"]},
    {"node": "host-2/0", "since": "2026-11-30T09:00:01.000+00:00", "lag": "", "hottest": ["\x1b[31m " + "long " * 30]},
]


def test_a_table_too_wide_for_the_terminal_is_a_block_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show(WIDE, ("node", "since", "lag", "hottest"), "table", title="owners")
    assert capsys.readouterr().out.splitlines() == [
        "owners",
        "node:    host-1/0",
        "since:   2026-11-30T09:00:00.000+00:00",
        "lag:     0 in 0.0 s",
        "hottest: a 1/s, b 1/s",
        "",
        "node:    host-2/0",
        "since:   2026-11-30T09:00:01.000+00:00",
        "lag:",
        "hottest: \\x1b[31m " + ("long " * 30).strip(),
    ]


def test_a_table_that_just_fits_folds_only_what_is_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(8 + 3 + 29 + 3 + 10 + 3 + 40))
    show(WIDE, ("node", "since", "lag", "hottest"), "table")
    shown = capsys.readouterr().out
    assert "host-1/0   2026-11-30T09:00:00.000+00:00   0 in 0.0 s   a 1/s, b 1/s" in shown
    assert "host-2/0   2026-11-30T09:00:01.000+00:00                \\x1b[31m long" in shown


def test_a_table_without_rows_says_so_beside_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show([], ("id",), "table")
    assert capsys.readouterr() == ("", "none\n")
