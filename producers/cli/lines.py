"""Messages from JSON lines: pure."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from io import BufferedReader
from itertools import count
from typing import Any, NamedTuple

from producers.checks import Checked, Limits, Outgoing, check
from producers.errors import InvalidMessageError

_FIELDS = frozenset({"to", "body", "conversation", "content_type", "expires_in_s", "expires_at", "delivery_timeout_s"})

LINE_BYTES_MAX = 8 * 1024 * 1024
"""Above what the largest record takes as JSON with everything escaped."""
_READ_BYTES = 64 * 1024


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


def split(stream: BufferedReader) -> Iterator[list[bytes]]:
    """Yield a stream's lines as they come, those of one read together, so that a stream may stay open.

    In bounded memory: of a line that is too long, a part comes that is too long as well.
    """
    rest, is_overlong = b"", False
    while piece := stream.read1(_READ_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        if is_overlong:
            if not lines:
                rest = b""
                continue
            del lines[0]
        is_overlong = len(rest) > LINE_BYTES_MAX
        if is_overlong:
            lines.append(rest)
            rest = b""
        if lines:
            yield lines
    if rest:
        yield [rest]


def read(groups: Iterable[Iterable[bytes]], user: str, limits: Limits) -> Iterator[list[GoodLine | BadLine]]:
    """Yield what each line is, in the groups they come in; empty ones are passed over."""
    numbers = count(1)
    for group in groups:
        numbered = zip(group, numbers, strict=False)  # the group first: what is drawn of the other is gone
        yield [_line(number, line, user, limits) for line, number in numbered if line.strip()]


def _line(number: int, line: bytes, user: str, limits: Limits) -> GoodLine | BadLine:
    try:
        message = _message(line)
        return GoodLine(number, message, check(message, user, limits))
    except InvalidMessageError as error:
        return BadLine(number, error.message)


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
