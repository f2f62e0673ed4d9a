"""Ids: how they are made, what time they carry, and which texts may be one.

A message id is a UUIDv7 (RFC 9562, section 5.7). Ours is put together here rather than by a library because time and
chance are arguments: ids are made in the log's time, and a simulation repeats them from a seed.
"""

from typing import Final
from urllib.parse import quote
from uuid import UUID

USER_ID_BYTES_MAX: Final = 128
CONVERSATION_ID_BYTES_MAX: Final = 800
"""Enough for the direct conversation of two users whose ids are as long as they may be, percent-encoded."""
BUCKET_MS: Final = 10 * 24 * 3600 * 1000
"""Ten days of a conversation share one Cassandra partition."""


class InvalidIdError(ValueError):
    """A text that cannot be a user's or a conversation's id; `what` and `why` say which and the rule it breaks."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} {why}")
        self.what = what
        self.why = why


def uuid7(unix_ms: int, random_bits: int) -> bytes:
    """Return a UUIDv7 as 16 bytes from a time in ms since 1970 and at least 74 random bits."""
    rand_a = (random_bits >> 62) & 0xFFF
    rand_b = random_bits & ((1 << 62) - 1)
    return ((unix_ms & ((1 << 48) - 1)) << 80 | 0x7 << 76 | rand_a << 64 | 0b10 << 62 | rand_b).to_bytes(16, "big")


def is_uuid7(raw: bytes) -> bool:
    """Say whether 16 raw bytes are a UUIDv7."""
    return raw[6] >> 4 == 0x7 and raw[8] >> 6 == 0b10


def time_of(raw: bytes) -> int:
    """Return the ms since 1970 that a UUIDv7 carries."""
    return int.from_bytes(raw[:6], "big")


def bucket_of(raw: bytes) -> int:
    """Return the number of the ten-day bucket in which a message with this id is stored."""
    return time_of(raw) // BUCKET_MS


def text_of(raw: bytes) -> str:
    """Return 16 raw bytes as people write a UUID."""
    return str(UUID(bytes=raw))


def direct_conversation(one: str, other: str) -> str:
    """Return the id of the conversation of two users, the same whichever of them asks."""
    return "direct:" + "+".join(quote(user, safe="") for user in sorted((one, other)))


def check_id(value: str, what: str, bytes_max: int) -> str:
    """Return `value` where it can be an id; raise InvalidIdError where it is empty, too long, or not plain text.

    `what` names it in the error. Control characters are refused because ids end up in terminals and logs.
    """
    if not value:
        raise InvalidIdError(what, "is empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidIdError(what, "holds a lone surrogate, which UTF-8 cannot carry") from None
    if size > bytes_max:
        raise InvalidIdError(what, f"has {size} bytes, {bytes_max} are allowed")
    if not value.isprintable():
        raise InvalidIdError(what, "holds characters that cannot be printed")
    return value


def check_user(value: str, what: str = "the user id") -> str:
    """Return a user id that passes `check_id`."""
    return check_id(value, what, USER_ID_BYTES_MAX)


def check_conversation(value: str, what: str = "the conversation id") -> str:
    """Return a conversation id that passes `check_id`."""
    return check_id(value, what, CONVERSATION_ID_BYTES_MAX)
