"""Dead letters for people: decoded beside raw. Pure; what prints it makes foreign text harmless."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from consumers.dead_letters import ATTEMPTS_HEADER
from consumers.dead_letters_select import Letter, original_of
from consumers.replay.jsonl import event_json
from schemas.errors import UndecodableError
from schemas.records import Event, Record

_ROW_BYTES: Final = 16
_HEX_BYTES_MAX: Final = 4_096
"""Of a value that is shown in hexadecimal; the JSON form has it whole."""

Decode = Callable[[bytes | None], Record]


def row(found: Letter, decode: Decode, at_text: Callable[[int], str]) -> Mapping[str, object]:
    """Return one letter as a line of a list."""
    letter, event = found.letter, decoded(found, decode)
    return {
        "letter": found.name,
        "failed_at": at_text(letter.failed_at),
        "reason": letter.reason,
        "attempts": letter.attempts,
        "conversation": found.conversation,
        "kind": event.get("kind", ""),
        "actor": event.get("actor", ""),
        "message_id": event.get("message_id", ""),
        "bytes": len(letter.value),
        "detail": letter.detail,
        "handled": f"{found.handled} at {at_text(found.mark.at)}" if found.mark else "",
    }


def decoded(found: Letter, decode: Decode) -> Mapping[str, object]:
    """Return the original as an event; empty where it is none."""
    try:
        event = decode(found.letter.value)
    except UndecodableError:
        return {}
    return event_json(event) if type(event) is Event else {}


def whole(found: Letter, decode: Decode, at_text: Callable[[int], str]) -> Mapping[str, object]:
    """Return all there is to know of one letter; a key, value or header that was null is None.

    Headers are pairs, in their order: several may have one name.
    """
    letter, original = found.letter, original_of(found.letter)
    return {
        **row(found, decode, at_text),
        "appended_at": at_text(letter.appended_at),
        "node": letter.node,
        "epoch": letter.epoch,
        "headers": [[name, _text(value)] for name, value in original.headers if name != ATTEMPTS_HEADER],
        "event": decoded(found, decode),
        "key_hex": None if original.key is None else original.key.hex(),
        "value_hex": None if original.value is None else original.value.hex(),
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def fields(told: Mapping[str, object], value: bytes) -> Iterator[Mapping[str, object]]:
    """Yield a letter field by field, then its value in hexadecimal beside what of it is ASCII."""
    for name, content in told.items():
        if name == "value_hex" and content is not None:
            continue
        if isinstance(content, Mapping | list):
            pairs = content.items() if isinstance(content, Mapping) else content
            yield from ({"field": f"{name}.{inner}", "value": _or_null(part)} for inner, part in pairs)
        else:
            yield {"field": name, "value": _or_null(content)}
    yield from ({"field": f"value {at:#06x}", "value": line} for at, line in hex_lines(value[:_HEX_BYTES_MAX]))
    if len(value) > _HEX_BYTES_MAX:
        yield {"field": "value ...", "value": f"{len(value) - _HEX_BYTES_MAX:,} bytes more: --output json"}


def _or_null(content: object) -> object:
    return "null" if content is None else content


def hex_lines(value: bytes) -> Iterator[tuple[int, str]]:
    """Yield (offset, 16 bytes in hexadecimal and as ASCII, what cannot be printed as a dot)."""
    for at in range(0, len(value), _ROW_BYTES):
        part = value[at : at + _ROW_BYTES]
        ascii_text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield at, f"{part.hex(' '):<{3 * _ROW_BYTES - 1}}  {ascii_text}"
