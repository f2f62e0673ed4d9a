"""The events that the worker's measurement reads: messages of many conversations, each sent, delivered and read.

A message's DELIVERED comes `lag` messages after its SEND and its READ as many again, which is how a log looks while
people are there: receipts mixed with new messages. Same seed, same events, but for the ids' time.
"""

import random
from collections.abc import Iterator

from schemas.identity import direct_conversation, uuid7
from schemas.lifecycle import Kind
from schemas.records import Event

BODY_BYTES = 100


def users_of(conversation: int) -> tuple[str, str]:
    """Return the two people of a numbered conversation."""
    return f"user-{conversation}-a", f"user-{conversation}-b"


def events(messages: int, conversations: int, *, now_ms: int, seed: int = 1, lag: int = 2_000) -> Iterator[Event]:
    """Yield three events for each of `messages` messages, in log order; ids carry `now_ms`."""
    chance = random.Random(seed)
    ids = [uuid7(now_ms, chance.getrandbits(74)) for _ in range(messages)]
    chats = [chance.randrange(conversations) for _ in range(messages)]
    sequence = [0] * conversations
    for turn in range(messages + 2 * lag):
        if turn < messages:
            sequence[chats[turn]] += 1
            yield _send(chats[turn], ids[turn], sequence[chats[turn]], chance, now_ms)
        for kind, message in ((Kind.DELIVERED, turn - lag), (Kind.READ, turn - 2 * lag)):
            if 0 <= message < messages:
                yield _receipt(kind, chats[message], ids[message], chance, now_ms)


def _send(chat: int, message_id: bytes, seq: int, chance: random.Random, now_ms: int) -> Event:
    sender, recipient = users_of(chat)
    return Event(
        kind=Kind.SEND,
        event_id=uuid7(now_ms, chance.getrandbits(74)),
        conversation_id=direct_conversation(sender, recipient),
        message_id=message_id,
        actor=sender,
        install=chat.to_bytes(16, "big"),
        seq=seq,
        recipients=(recipient,),
        body=chance.randbytes(BODY_BYTES // 2).hex().encode(),
        expires_at=now_ms + 24 * 3600 * 1000,
    )


def _receipt(kind: Kind, chat: int, message_id: bytes, chance: random.Random, now_ms: int) -> Event:
    sender, recipient = users_of(chat)
    return Event(
        kind=kind,
        event_id=uuid7(now_ms, chance.getrandbits(74)),
        conversation_id=direct_conversation(sender, recipient),
        message_id=message_id,
        actor=recipient,
        install=(1 << 64 | chat).to_bytes(16, "big"),
    )
