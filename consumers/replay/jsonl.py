"""Records of the log as JSON lines, for people and their tools; what is no event is told with its bytes."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from consumers.intake import Entry, Intake
from schemas.identity import text_of
from schemas.records import NO_ID, Event

_IDS = ("event_id", "message_id", "install")


def lines(messages: Sequence[Any], intake: Intake, chosen: frozenset[str]) -> Iterator[str]:
    """Yield one line for each Kafka message, without its end; with `chosen` only those of these conversations."""
    for message in messages:
        entry = intake.admit(message.offset(), message.timestamp()[1], message.key(), message.value())
        if chosen and (entry.event is None or entry.event.conversation_id not in chosen):
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


def _no_event(entry: Entry, message: Any) -> dict[str, object]:  # noqa: ANN401 - the client's own types say less
    return {
        "kind": None,
        "reason": str(entry.reason),
        "detail": entry.detail,
        "key_hex": (message.key() or b"").hex(),
        "value_hex": (message.value() or b"").hex(),
    }
