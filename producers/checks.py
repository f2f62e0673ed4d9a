"""What is refused before anything is written: pure checks of what a caller hands in."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from math import inf

from producers.errors import InvalidMessageError
from schemas.identity import InvalidIdError, check_conversation, check_user, direct_conversation
from schemas.topics import VALUE_BYTES_MAX

CONTENT_TYPE_BYTES_MAX = 255
EXPIRES_IN_S_MAX = 10 * 366 * 24 * 3600
DELIVERY_TIMEOUT_S_MAX = 2**31 - 1
WAIT_S_MAX = 1e9
"""Longer than any program runs; a clock can add it."""
ROWS_MAX = 2**63 - 1
"""What SQLite takes."""
_ENVELOPE_BYTES_MAX = 1_024
"""Everything of an encoded SEND but ids, recipients and body, with framing and record headers: more than enough."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one message may hold; the server's own limits should be no lower."""

    body_bytes_max: int = 256 * 1024
    """The largest body of one message, in bytes; no more than the server's limit."""
    recipients_max: int = 256
    """The most recipients of one message; no more than the server's limit."""

    def __post_init__(self) -> None:
        most = VALUE_BYTES_MAX - _ENVELOPE_BYTES_MAX
        if not 0 < self.body_bytes_max <= most:
            raise ValueError(f"body_bytes_max is {self.body_bytes_max}, it must lie between 1 and {most}")
        if self.recipients_max < 1:
            raise ValueError(f"recipients_max is {self.recipients_max}, it must be at least 1")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send; `Client.send` takes the same as arguments."""

    to: str | Iterable[str]
    """One recipient or several."""
    body: str | bytes = ""
    conversation: str = ""
    """Empty: the direct conversation with the one recipient."""
    content_type: str = ""
    """A media type (RFC 6838); empty means text/plain for a str, application/octet-stream for bytes."""
    expires_in_s: float | None = None
    expires_at: datetime | None = None
    """Aware, on the caller's own clock; a copy that reaches the log later fails as expired."""
    delivery_timeout_s: int = 0
    """How long the recipients have to fetch it; 0: as the server has it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A message that may be written."""

    recipients: tuple[str, ...]
    conversation_id: str
    body: bytes
    content_type: str
    expires_in_ms: int | None
    """From now; None: no time of that kind."""
    expires_at_ms: int
    """Since 1970 on the caller's clock; 0: no time of that kind."""
    delivery_timeout_s: int


def check(message: Outgoing, user: str, limits: Limits) -> Checked:
    """Return `message` in the form in which it is written; raise InvalidMessageError where it breaks a rule."""
    if not isinstance(message, Outgoing):
        raise InvalidMessageError(
            f"the message is {type(message).__name__}", "Give twotick's Outgoing(to=..., body=...)."
        )
    recipients = _recipients(message.to, user, limits)
    body = _body(message.body, limits)
    conversation = _conversation(message.conversation, user, recipients)
    content_type = _content_type(message)
    size = len(body) + len(conversation.encode()) + sum(len(name.encode()) + 4 for name in recipients)
    if size > VALUE_BYTES_MAX - _ENVELOPE_BYTES_MAX:
        raise InvalidMessageError(
            f"body and recipients come to {size} bytes, one record holds {VALUE_BYTES_MAX - _ENVELOPE_BYTES_MAX}",
            "Send to fewer recipients at once, or put the content elsewhere and send its address.",
        )
    expires_in_ms, expires_at_ms = _expiry(message)
    return Checked(
        recipients=recipients,
        conversation_id=conversation,
        body=body,
        content_type=content_type,
        expires_in_ms=expires_in_ms,
        expires_at_ms=expires_at_ms,
        delivery_timeout_s=_whole_seconds(message.delivery_timeout_s, "delivery_timeout_s", DELIVERY_TIMEOUT_S_MAX),
    )


def user_id(value: object, what: str) -> str:
    """Return a user id; raise InvalidMessageError."""
    if not isinstance(value, str):
        raise InvalidMessageError(f"{what} is {type(value).__name__}, not text", "Give a user id as str.")
    try:
        return _unpadded(check_user(value, what), what)
    except InvalidIdError as error:
        raise InvalidMessageError(str(error), "Use a short printable id.") from None


def conversation_id(value: object) -> str:
    """Return a conversation id; raise InvalidMessageError."""
    if not isinstance(value, str):
        raise InvalidMessageError(
            f"the conversation id is {type(value).__name__}, not text", "Give a conversation id as str."
        )
    try:
        return _unpadded(check_conversation(value), "the conversation id")
    except InvalidIdError as error:
        raise InvalidMessageError(str(error), "Use a short printable id.") from None


def _unpadded(value: str, what: str) -> str:
    """Refuse an id that looks like another one: to the server " bob" is not bob, so nobody would ever hear of it."""
    if value != value.strip():
        raise InvalidMessageError(f"{what} {value!r} begins or ends with a blank", "Leave the blank out.")
    return value


def seconds(value: object, what: str) -> float:
    """Return a time to wait; what is below 0 is 0. Raises ValueError."""
    # Said so that nan, of which no time is ever up, is refused too.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value <= inf:
        raise ValueError(f"{what} is {value!r}, it must be a number of seconds")
    return min(max(value, 0), WAIT_S_MAX)


def rows(value: object, what: str) -> int:
    """Return how many rows are asked for. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= ROWS_MAX:
        raise ValueError(f"{what} is {value!r}, it must be a whole number from 0 to {ROWS_MAX}")
    return value


def _recipients(to: object, user: str, limits: Limits) -> tuple[str, ...]:
    if isinstance(to, str):
        recipients: tuple[str, ...] = (user_id(to, "the recipient"),)
    elif isinstance(to, Iterable):
        recipients = tuple(user_id(name, "a recipient") for name in to)
    else:
        raise InvalidMessageError(f"to is {type(to).__name__}", "Give one user id or several.")
    if not recipients:
        raise InvalidMessageError("there is no recipient", "Name at least one.")
    if len(recipients) > limits.recipients_max:
        raise InvalidMessageError(
            f"there are {len(recipients)} recipients, {limits.recipients_max} are allowed", "Send in several messages."
        )
    if len(set(recipients)) != len(recipients):
        twice = next(name for name in recipients if recipients.count(name) > 1)
        raise InvalidMessageError(f"the recipient {twice!r} is named twice", "Name each recipient once.")
    if user in recipients:
        raise InvalidMessageError("the sender is among the recipients", "Leave yourself out.")
    return recipients


def _body(body: object, limits: Limits) -> bytes:
    if isinstance(body, str):
        try:
            raw = body.encode()
        except UnicodeEncodeError:
            raise InvalidMessageError(
                "the body holds a lone surrogate, which UTF-8 cannot carry", "Send bytes, or mend the text."
            ) from None
    elif isinstance(body, (bytes, bytearray, memoryview)):
        raw = bytes(body)
    else:
        raise InvalidMessageError(f"the body is {type(body).__name__}", "Give str or bytes.")
    if len(raw) > limits.body_bytes_max:
        raise InvalidMessageError(
            f"the body has {len(raw)} bytes, {limits.body_bytes_max} are allowed",
            "Raise body_bytes_max here and on the server, or send the content's address.",
        )
    return raw


def _conversation(conversation: str, user: str, recipients: tuple[str, ...]) -> str:
    if conversation != "":
        return conversation_id(conversation)
    if len(recipients) > 1:
        raise InvalidMessageError(
            "a message to several recipients names no conversation", "Name one with conversation=..."
        )
    return direct_conversation(user, recipients[0])


def _content_type(message: Outgoing) -> str:
    content_type = message.content_type
    if not isinstance(content_type, str):
        raise InvalidMessageError(f"content_type is {type(content_type).__name__}", "Give a media type as str.")
    if not content_type:
        return "" if isinstance(message.body, str) else "application/octet-stream"
    if not content_type.isascii() or not content_type.isprintable() or len(content_type) > CONTENT_TYPE_BYTES_MAX:
        raise InvalidMessageError("content_type is no media type", "Give one like text/plain (RFC 6838).")
    return content_type


def _expiry(message: Outgoing) -> tuple[int | None, int]:
    if message.expires_in_s is not None and message.expires_at is not None:
        raise InvalidMessageError("both expires_in_s and expires_at are given", "Give one of them.")
    if message.expires_at is not None:
        return None, _moment(message.expires_at)
    if message.expires_in_s is None:
        return None, 0
    seconds = message.expires_in_s
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= EXPIRES_IN_S_MAX:
        raise InvalidMessageError(
            f"expires_in_s is {seconds!r}, it must be above 0 and at most {EXPIRES_IN_S_MAX}", "Give seconds."
        )
    return max(1, round(seconds * 1000)), 0


def _moment(moment: object) -> int:
    if not isinstance(moment, datetime):
        raise InvalidMessageError(f"expires_at is {type(moment).__name__}", "Give an aware datetime.")
    if moment.utcoffset() is None:
        raise InvalidMessageError(
            "expires_at has no time zone, so it names no moment", "Use datetime.now(UTC) + timedelta(...)."
        )
    ms = round(moment.timestamp() * 1000)
    if ms <= 0:
        raise InvalidMessageError("expires_at lies before 1970", "Give a moment in the future.")
    return ms


def _whole_seconds(value: object, what: str, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise InvalidMessageError(
            f"{what} is {value!r}, it must be a whole number from 0 to {largest}",
            "Give whole seconds; 0: as the server has it.",
        )
    return value
