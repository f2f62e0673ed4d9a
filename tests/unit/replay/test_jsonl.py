"""Records as JSON lines: harmless on a terminal."""

import json

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
