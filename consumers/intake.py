"""What is let into the fold: a record's bytes become an event, or the reason why they cannot. Pure.

Checked here is all that a record can be asked without knowing anything else. User and conversation ids are checked
once per text, not once per record, and kept as one object each: rows share them.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from schemas.errors import UndecodableError
from schemas.identity import (
    CONVERSATION_ID_BYTES_MAX,
    USER_ID_BYTES_MAX,
    InvalidIdError,
    check_id,
    is_uuid7,
)
from schemas.lifecycle import CONVERSATION_KINDS, MESSAGE_KINDS, PARKING_KINDS, Kind, Reason
from schemas.records import Event, Record

TEXTS_MAX = 200_000
"""Ids kept as one object each; when there are more, they are forgotten and checked anew."""

_OF_MESSAGE = frozenset(kind.value for kind in MESSAGE_KINDS)
_SEND = Kind.SEND.value
_new: Final = tuple.__new__
_EXPIRE = Kind.EXPIRE.value


class Entry(NamedTuple):
    """One record of a partition as the owner sees it."""

    offset: int
    appended_at: int
    """Log append time, ms since 1970."""
    event: Event | None
    reason: str = ""
    """A name of `Reason` where there is no event."""
    detail: str = ""


class _RefusedError(Exception):
    """What one check found; never leaves this module."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Intake:
    """Decodes and checks; one per worker, since its partitions share their texts."""

    __slots__ = ("_conversations", "_decode", "_operators", "_users", "_value_bytes_max")

    def __init__(
        self, decode: Callable[[bytes | None], Record], value_bytes_max: int, operators: Iterable[str] = ()
    ) -> None:
        """Take what decodes; `operators` are the users who may park and release conversations."""
        self._decode = decode
        self._value_bytes_max = value_bytes_max
        self._operators = frozenset(operators)
        self._users: dict[str, str] = {}
        self._conversations: dict[str, tuple[str, bytes]] = {}

    def admit(self, offset: int, appended_at: int, key: bytes | None, value: bytes | None) -> Entry:
        """Return the entry of a record: with its event, or with the reason why it has none."""
        try:
            return _new(Entry, (offset, appended_at, self._event(key, value), "", ""))
        except UndecodableError as error:
            return Entry(offset, appended_at, None, Reason.UNDECODABLE, error.message)
        except InvalidIdError as error:
            return Entry(offset, appended_at, None, Reason.INVALID, str(error))
        except _RefusedError as error:
            return Entry(offset, appended_at, None, error.reason, str(error))

    def _event(self, key: bytes | None, value: bytes | None) -> Event:
        if value is not None and len(value) > self._value_bytes_max:
            raise _RefusedError(Reason.OVERSIZED, f"{len(value)} bytes, {self._value_bytes_max} are allowed")
        event = self._decode(value)
        if type(event) is not Event:
            raise _RefusedError(Reason.UNDECODABLE, f"it is a {type(event).__name__}, no Event")
        known = self._conversations.get(event.conversation_id)
        if known is None:
            known = self._learn_conversation(event.conversation_id)
        if known[1] != key:
            raise _RefusedError(Reason.WRONG_KEY, "the key is not the conversation id")
        return self._checked(event, known[0])

    def _checked(self, event: Event, conversation_id: str) -> Event:
        kind = event.kind
        if kind in _OF_MESSAGE:
            if not is_uuid7(event.message_id):
                raise _RefusedError(Reason.INVALID, "the message id is not a UUIDv7")
            if kind == _EXPIRE and not event.actor:
                return event
        elif kind in CONVERSATION_KINDS:
            self._user(event.subject, "the subject")
        elif kind in PARKING_KINDS and event.actor not in self._operators:
            raise _RefusedError(Reason.NOT_AN_OPERATOR, f"{event.actor!r} is not among worker.operators")
        if not is_uuid7(event.event_id):
            raise _RefusedError(Reason.INVALID, "the event id is not a UUIDv7")
        if event.seq < 0:
            raise _RefusedError(Reason.INVALID, "the seq is negative")
        actor = self._user(event.actor, "the actor")
        return self._checked_send(event, conversation_id, actor) if kind == _SEND else event

    def _checked_send(self, event: Event, conversation_id: str, actor: str) -> Event:
        """Return a SEND whose texts are the ones kept: its row will live in the cache."""
        recipients = event.recipients
        if len(recipients) == 1:
            recipients = (self._user(recipients[0], "a recipient"),)
        else:
            recipients = tuple(self._user(user, "a recipient") for user in recipients)
            if len(set(recipients)) != len(recipients):
                raise _RefusedError(Reason.INVALID, "a recipient is named twice")
        if event.delivery_timeout_s < 0:
            raise _RefusedError(Reason.INVALID, "the delivery timeout is negative")
        kind, event_id, _, message_id, _, install, seq, _, body, content_type, expires_at, timeout_s, subject = event
        return _new(
            Event,
            (
                kind,
                event_id,
                conversation_id,
                message_id,
                actor,
                install,
                seq,
                recipients,
                body,
                content_type,
                expires_at,
                timeout_s,
                subject,
            ),
        )

    def _user(self, text: str, what: str) -> str:
        known = self._users.get(text)
        if known is not None:
            return known
        check_id(text, what, USER_ID_BYTES_MAX)
        if len(self._users) >= TEXTS_MAX:
            self._users.clear()
        self._users[text] = text
        return text

    def _learn_conversation(self, text: str) -> tuple[str, bytes]:
        check_id(text, "the conversation id", CONVERSATION_ID_BYTES_MAX)
        if len(self._conversations) >= TEXTS_MAX:
            self._conversations.clear()
        known = self._conversations[text] = (text, text.encode())
        return known
