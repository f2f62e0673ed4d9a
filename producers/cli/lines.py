"""Messages from JSON lines: pure."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple

from producers.checks import Checked, Limits, Outgoing, check
from producers.errors import InvalidMessageError

_FIELDS = frozenset({"to", "body", "conversation", "content_type", "expires_in_s", "expires_at", "delivery_timeout_s"})

LINE_BYTES_MAX = 8 * 1024 * 1024
"""Above what the largest record takes as JSON with everything escaped."""


class BadLine(NamedTuple):
    """A line that is no message."""

    number: int
    """From 1."""
    reason: str


class GoodLine(NamedTuple):
    """A line that is one."""

    number: int
    message: Outgoing
    checked: Checked


def split(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a stream's lines in bounded memory: of one that is too long, a part that is too long as well."""
    while line := stream.readline(LINE_BYTES_MAX + 1):
        yield line
        while len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
            line = stream.readline(LINE_BYTES_MAX + 1)


def read(lines: Iterable[bytes], user: str, limits: Limits) -> Iterator[GoodLine | BadLine]:
    """Yield what each line is; empty ones are passed over."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                message = _message(line)
                yield GoodLine(number, message, check(message, user, limits))
            except InvalidMessageError as error:
                yield BadLine(number, error.message)


def _message(line: bytes) -> Outgoing:
    if len(line) > LINE_BYTES_MAX:
        raise InvalidMessageError(f"longer than {LINE_BYTES_MAX} bytes")
    try:
        # Of bytes json.loads would guess the encoding; JSON lines are UTF-8, some with a mark in front.
        found = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidMessageError("no JSON object")
    unknown = sorted(set(found) - _FIELDS)
    if unknown:
        raise InvalidMessageError(f"there is no field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}")
    missing = [name for name in ("to", "body") if name not in found]
    if missing:
        raise InvalidMessageError(f"the field {missing[0]!r} is missing")
    if isinstance(found["to"], dict) or not isinstance(found["body"], str):
        raise InvalidMessageError("to is one id or a list, body is a text")
    return Outgoing(**{**found, **_times(found)})


def _times(found: dict[str, Any]) -> dict[str, datetime]:
    text = found.get("expires_at")
    if text is None:
        return {}
    try:
        return {"expires_at": datetime.fromisoformat(text)}
    except (ValueError, TypeError):
        raise InvalidMessageError("expires_at is no time of ISO 8601") from None
