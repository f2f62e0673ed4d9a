"""Records of the log as JSON lines, for people and their tools; what is no event is told with its bytes."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from consumers.intake import Entry, Intake
from consumers.replay.commands import Commands
from schemas.identity import text_of
from schemas.records import NO_ID, Event

_IDS = ("event_id", "message_id", "install")


def lines(
    messages: Sequence[Any], intake: Intake, chosen: frozenset[str], commands: Commands | None = None
) -> Iterator[str]:
    """Yield one line for each Kafka message, without its end; with `chosen` only those of these conversations.

    What is no event is of the conversation that its key names, as among the dead letters.
    """
    for message in messages:
        entry = intake.admit(message.offset(), message.timestamp()[1], message.key(), message.value())
        if commands is not None:
            entry = commands.as_taken(entry, message)
        if chosen and _conversation(entry, message) not in chosen:
            continue
        place = {"partition": message.partition(), "offset": entry.offset, "appended_at": entry.appended_at}
        told = place | (event_json(entry.event) if entry.event else _no_event(entry, message))
        # It goes to terminals too: what one of them might obey is escaped, and DEL is no less so for being ASCII.
        yield json.dumps(told).replace("\x7f", "\\u007f")


def event_json(event: Event) -> dict[str, object]:
    """Return an event as JSON takes it: ids as people write them, a body that is no UTF-8 as hexadecimal."""
    told: dict[str, object] = {}
    for name, value in event._asdict().items():
        if name in _IDS:
            told[name] = "" if value == NO_ID else text_of(value)
        elif name == "body":
            told |= _body(value)
        else:
            told[name] = list(value) if isinstance(value, tuple) else value
    return told


def _body(body: bytes) -> dict[str, object]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_hex": body.hex()}


def _conversation(entry: Entry, message: Any) -> str:  # noqa: ANN401 - the client's own types say less
    if entry.event is not None:
        return entry.event.conversation_id
    key: bytes = message.key() or b""
    return key.decode("utf-8", "backslashreplace")


def _no_event(entry: Entry, message: Any) -> dict[str, object]:  # noqa: ANN401 - the client's own types say less
    return {
        "kind": None,
        "reason": str(entry.reason),
        "detail": entry.detail,
        "key_hex": _hex(message.key()),
        "value_hex": _hex(message.value()),
    }


def _hex(content: bytes | None) -> str | None:
    """Return bytes in hexadecimal; what is null stays null, what is empty empty."""
    return None if content is None else content.hex()
