"""Rows and writes as an owner would make them, for the stores' tests."""

import threading
from collections.abc import Sequence

from consumers.rows import ConversationRow, ConversationWrite, MessageRow, MessageWrite, Owner, Transition
from consumers.stores.contract import Pending, Store, StoredMessage
from schemas.identity import BUCKET_MS, uuid7

T = 1_800_000_000_000
"""A time in ms at which the rows were appended."""
OWNER = Owner(3, "node-a")
WAIT_S = 60


class Written:
    """Waits for `done`, and keeps every call of it."""

    def __init__(self) -> None:
        self.calls: list[Exception | None] = []
        self._called = threading.Event()

    def done(self, error: Exception | None) -> None:
        """Note a call."""
        self.calls.append(error)
        self._called.set()

    def wait(self) -> None:
        """Return when all is durable; raise what `done` was told."""
        assert self._called.wait(WAIT_S), "done was not called"
        assert len(self.calls) == 1
        if self.calls[0] is not None:
            raise self.calls[0]


def write(
    store: Store,
    messages: Sequence[MessageWrite] = (),
    conversations: Sequence[ConversationWrite] = (),
    owner: Owner = OWNER,
) -> None:
    written = Written()
    store.write(owner, messages, conversations, written.done)
    written.wait()


def spill(store: Store, partition: int, bucket: int, pending: Sequence[Pending], owner: Owner = OWNER) -> None:
    written = Written()
    store.spill(owner, partition, bucket, pending, written.done)
    written.wait()


def find(store: Store, conversation_id: str, message_id: bytes) -> list[StoredMessage]:
    """Return what a search finds of one conversation: other tests' have messages of the same id."""
    return [one for one in store.find(message_id) if one.row.conversation_id == conversation_id]


def id_of(number: int, at: int = T) -> bytes:
    return uuid7(at + number, number)


def row(conversation_id: str, number: int, *, version: int = 1, state: str = "SENT", at: int = T) -> MessageRow:
    """Return a message to ben and cleo after `version` transitions, one a millisecond."""
    return MessageRow(
        conversation_id,
        id_of(number, at),
        state,
        "ann",
        ("ben", "cleo"),
        (state, "SENT"),
        bytes([number % 256]) * 16,
        b"install-of-ann--",
        number,
        5,
        at,
        at + 1_000_000,
        version,
        (2, 100 + version),
        (at + version) * 1000,
    )


def transition(version: int, state: str) -> Transition:
    return Transition(version, state, "ann" if version == 1 else "ben", T + version, 100 + version)


def made(conversation_id: str, number: int, *, body: bytes = b"hello", at: int = T) -> MessageWrite:
    """Return the write of a SEND."""
    return MessageWrite(
        row(conversation_id, number, at=at), (transition(1, "SENT"),), body, "text/plain; é", T + 3_600_000
    )


def moved(conversation_id: str, number: int, version: int, state: str) -> MessageWrite:
    """Return the write of a receipt."""
    return MessageWrite(row(conversation_id, number, version=version, state=state), (transition(version, state),), None)


def conversation(
    conversation_id: str, version: int = 1, buckets: tuple[int, ...] = (T // BUCKET_MS,)
) -> ConversationRow:
    return ConversationRow(
        conversation_id,
        ("ann", "ben", "cleo"),
        buckets,
        (),
        ((b"install-of-ann--", 7),),
        version,
        (2, 100 + version),
        (T + version) * 1000,
    )
