"""What a run leaves behind, for the checker: journals, outboxes, the whole log, the store by queries of our own."""

import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from compose.checking.history import History, Logged, Own, Receipt, Sent, Taken
from compose.stacks.local import LocalStack
from compose.wiring import Wiring
from consumers.intake import Intake
from consumers.rows import At
from schemas.codec import PLAIN
from schemas.lifecycle import FAILED, Kind, State
from schemas.partitioner import partition_of
from schemas.records import Acknowledgement, DeadLetter
from schemas.topics import DEAD_LETTERS, EVENTS, INBOX, PARTITIONS_LOCAL, VALUE_BYTES_MAX
from tests.faults.cql import Tables
from tests.faults.crew import Places
from tests.faults.journal import Entry, read

POLL_S: Final = 30.0
_BATCH: Final = 5_000
_WAIT_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was found."""

    history: History
    first_told: Mapping[tuple[bytes, int], int]
    """By message and version: when the broker took the first answer that tells of it, ms since 1970."""
    dead_letters: Mapping[str, int]
    """By reason."""
    deaths_after_send: int
    log_records: int


def gather(
    places: Places,
    users: Sequence[str],
    stack: LocalStack,
    boundaries: Mapping[int, int],
    generations_at: Sequence[int],
    quiet_s: float,
) -> Evidence:
    """Read everything, at most `quiet_s` after healing.

    `boundaries` are the ends of the partitions when their number was changed, `generations_at` when that was.
    """
    kafka = dict(Wiring(config=places.config).kafka())
    tables = Tables(stack)
    try:
        stored, conversations = list(tables.messages()), list(tables.conversations())
    finally:
        tables.close()
    journals = {user: list(read(places.journal(user))) for user in users}
    outboxes = {user: _outbox(places, user) for user in users}
    log = _in_order(list(_log(kafka, boundaries)))
    history = History(
        sent=[Sent(user, *one[1:]) for user in users for one in journals[user] if one.what == "sent"],
        own=[own for user in users for own in outboxes[user].own],
        stored=stored,
        taken=[taken for user in users for taken in outboxes[user].taken],
        conversations=conversations,
        generations_at=generations_at,
        settled_within_s=quiet_s,
        log=log,
        receipts=[receipt for user in users for receipt in _receipts(user, journals[user], outboxes[user].taken)],
    )
    return Evidence(
        history,
        _first_told(kafka),
        Counter(one.reason for one in _records(kafka, DEAD_LETTERS) if isinstance(one, DeadLetter)),
        sum(one.what == "died" for user in users for one in journals[user]),
        len(log),
    )


@dataclass(frozen=True, slots=True)
class _Outbox:
    own: list[Own]
    taken: list[Taken]


def _outbox(places: Places, user: str) -> _Outbox:
    with closing(_reading(places, user)) as connection:
        ticks: defaultdict[bytes, list[str]] = defaultdict(list)
        for message_id, state in connection.execute("SELECT message_id, state FROM ticks ORDER BY tick"):
            ticks[message_id].append(state)
        own = [
            Own(user, message_id, first_id, state, tuple(ticks[message_id]))
            for message_id, first_id, state in connection.execute(
                "SELECT message_id, ifnull(first_id, message_id), state FROM messages ORDER BY position"
            )
        ]
        taken = [
            Taken(user, message_id, bytes(body))
            for message_id, body in connection.execute("SELECT message_id, body FROM deliveries ORDER BY arrival")
        ]
        return _Outbox(own, taken)


def _reading(places: Places, user: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{places.outbox(user)}?mode=ro", uri=True, timeout=30)


def _receipts(user: str, journal: Sequence[Entry], taken: Sequence[Taken]) -> Iterator[Receipt]:
    """Yield what a user can have said: DELIVERED of what he holds, READ of what his program read."""
    for one in taken:
        yield Receipt(user, one.message_id, Kind.DELIVERED)
    for entry in journal:
        if entry.what == "read":
            yield Receipt(user, entry.message_id, Kind.READ)


def unfinished(places: Places, users: Sequence[str]) -> Counter[str]:
    """Return how much of what is still on its way: own messages that are not over, and events nobody has answered."""
    over = ", ".join(f"'{state}'" for state in sorted(FAILED | {State.READ}))
    counts: Counter[str] = Counter()
    for user in users:
        if not places.outbox(user).exists():
            continue
        with closing(_reading(places, user)) as connection:
            try:
                for state, count in connection.execute(
                    f"SELECT state, count(*) FROM messages WHERE state NOT IN ({over}) GROUP BY state"
                ):
                    counts[state] += count
                counts["unanswered"] += connection.execute("SELECT count(*) FROM queue").fetchone()[0]
            except sqlite3.OperationalError:  # busy, or a file that is still being made: look again later
                counts["unreadable"] += 1
    return +counts


def _log(kafka: Mapping[str, Any], boundaries: Mapping[int, int]) -> Iterator[Logged]:
    """Yield what owners were to fold: every record of the events topic that is let in, and is where it belongs."""
    admit = Intake(PLAIN.decode, VALUE_BYTES_MAX).admit
    partitions_now: int | None = None
    for message in _messages(kafka, EVENTS):
        if partitions_now is None:
            partitions_now = _count(kafka, EVENTS)
        entry = admit(message.offset(), message.timestamp()[1], message.key(), message.value())
        before = boundaries and message.offset() < boundaries.get(message.partition(), 0)
        generation, count = (1, PARTITIONS_LOCAL) if before or not boundaries else (2, partitions_now)
        if entry.event is None or partition_of(message.key(), count) != message.partition():
            continue
        yield Logged(At(generation, message.partition(), message.offset(), message.timestamp()[1]), entry.event)


def _in_order(log: list[Logged]) -> list[Logged]:
    """Return the log in the order of its generations: a conversation may have moved from one partition to another."""
    return sorted(log, key=lambda one: (one.at.generation, one.at.partition, one.at.offset))


def _first_told(kafka: Mapping[str, Any]) -> Mapping[tuple[bytes, int], int]:
    first: dict[tuple[bytes, int], int] = {}
    for message in _messages(kafka, INBOX):
        record = PLAIN.decode(message.value())
        if isinstance(record, Acknowledgement):
            key, at = (record.message_id, record.version), message.timestamp()[1]
            first[key] = min(first.get(key, at), at)
    return first


def _records(kafka: Mapping[str, Any], topic: str) -> Iterator[Any]:
    for message in _messages(kafka, topic):
        yield PLAIN.decode(message.value())


def _count(kafka: Mapping[str, Any], topic: str) -> int:
    reader = Consumer({**kafka, "group.id": "faults-evidence"})
    try:
        return len(reader.list_topics(topic, timeout=POLL_S).topics[topic].partitions)
    finally:
        reader.close()


def _count_off(left: dict[int, int], message: Any) -> None:
    """Forget a partition whose end this record has reached."""
    if message.offset() + 1 >= left.get(message.partition(), 0):
        left.pop(message.partition(), None)


def _messages(kafka: Mapping[str, Any], topic: str) -> Iterator[Any]:
    """Yield every record of a topic as it is now."""
    reader = Consumer({**kafka, "group.id": "faults-evidence", "enable.auto.commit": False})
    try:
        left: dict[int, int] = {}
        starts = []
        for number in sorted(reader.list_topics(topic, timeout=POLL_S).topics[topic].partitions):
            low, high = reader.get_watermark_offsets(TopicPartition(topic, number), timeout=POLL_S)
            if high > low:
                left[number] = high
                starts.append(TopicPartition(topic, number, low))
        reader.assign(starts)
        heard_at = time.monotonic()
        while left:
            # Waits its whole time where less than a batch is left.
            batch = reader.consume(_BATCH, _WAIT_S)
            if batch:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > POLL_S:
                raise AssertionError(f"{topic} does not give back what it holds: {left}")
            for message in batch:
                if message.error() is None:
                    yield message
                    _count_off(left, message)
    finally:
        reader.close()
