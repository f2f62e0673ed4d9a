"""Records as JSON lines: harmless on a terminal, and exact about what is no event."""

import json
from typing import Any

import pytest

from consumers.intake import Intake
from consumers.replay.jsonl import lines
from schemas.codec import PLAIN, encode
from tests.unit.consumers.world import send

OBEYED = "\u009b2J \u202e \x1b[2J \x7f"
"""What a terminal obeys."""


class _Message:
    """A record of the log as Kafka's client has it."""

    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self._key, self._value = key, value

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_800_000_000_000

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value


def test_what_others_wrote_has_no_effect_on_a_terminal() -> None:
    event = send(1)._replace(body=OBEYED.encode(), content_type=OBEYED)
    message = _Message(b"c", encode(event))
    (line,) = lines([message], Intake(PLAIN.decode, 100_000), frozenset())
    assert line.isascii()
    assert line.isprintable()
    told = json.loads(line)
    assert (told["body"], told["content_type"]) == (OBEYED, OBEYED)


def _told(message: _Message, *chosen: str) -> list[dict[str, Any]]:
    intake = Intake(PLAIN.decode, 100_000)
    return [json.loads(line) for line in lines([message], intake, frozenset(chosen))]


@pytest.mark.parametrize(
    ("key", "name"), [(b"c", "c"), (b"\xff", "\\xff"), ("đ".encode(), "đ")], ids=["plain", "no UTF-8", "not ASCII"]
)
def test_what_is_no_event_is_of_the_conversation_that_its_key_names(key: bytes, name: str) -> None:
    message = _Message(key, b"no event")
    (told,) = _told(message, name, "another")
    assert (told["kind"], told["key_hex"], told["value_hex"]) == (None, key.hex(), b"no event".hex())
    assert _told(message, "another") == []


def test_an_event_is_of_the_conversation_that_it_names() -> None:
    message = _Message(b"c", encode(send(1)))
    assert [each["kind"] for each in _told(message, "c")] == ["SEND"]
    assert _told(message, "another") == []


@pytest.mark.parametrize("key", [None, b""])
@pytest.mark.parametrize("value", [None, b""])
def test_null_and_empty_are_told_apart(key: bytes | None, value: bytes | None) -> None:
    (told,) = _told(_Message(key, value))
    assert told["key_hex"] == (None if key is None else "")
    assert told["value_hex"] == (None if value is None else "")
    assert _told(_Message(key, value), "c") == []
