"""When a delivery is made again, and what is due: pure.

A wait grows with the attempts, is bounded, and is jittered by the message's id rather than by chance: an owner that
takes over computes the same times, so a delivery that was spilled twice is still one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from consumers.rows import MessageRow
from consumers.stores.contract import Content, MessageKey, Pending
from schemas.identity import uuid7
from schemas.lifecycle import Kind, State
from schemas.records import NO_ID, Delivery, Event

_ATTEMPT_MAX = 2**31 - 1
_SENT = State.SENT.value
_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes; for what is made for every event."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often a recipient is reminded; with the defaults after 15 s, 45 s, 105 s, 4 min … then once an hour."""

    first_wait_s: float = 15.0
    """From the first delivery to the second."""
    factor: float = 2.0
    """How much longer each wait is than the one before."""
    wait_s_max: float = 3600.0
    """The longest wait."""
    jitter: float = 0.2
    """A wait is between (1 - jitter) and (1 + jitter) times its length."""
    bucket_s: int = 60
    """Length of the time buckets in which spilled deliveries are kept."""

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises ValueError."""
        if not (0 < self.first_wait_s < inf and 0 < self.wait_s_max < inf):
            raise ValueError("schedule needs first_wait_s and wait_s_max above 0")
        if not (1 <= self.factor < inf and 0 <= self.jitter < 1 and self.bucket_s >= 1):
            raise ValueError("schedule needs factor >= 1, 0 <= jitter < 1 and bucket_s >= 1")

    def wait_ms(self, attempt: int, message_id: bytes) -> int:
        """Return the ms from delivery `attempt` (from 1) to the next."""
        wait_s = self.first_wait_s
        if attempt > 1:
            wait_s = min(wait_s * self.factor ** min(attempt - 1, 64), self.wait_s_max)
        spread = message_id[8 + (attempt & 7)] / 127.5 - 1
        return int(wait_s * 1000 * (1 + self.jitter * spread))

    def due(self, row: MessageRow, attempt: int, from_ms: int) -> int:
        """Return when the delivery after `attempt` is due, and no later than the message's delivery time allows.

        When that is over, its EXPIRE has been written: it is looked at again after the first wait. It may stand behind
        a long backlog in the log, or have come too early there because this machine's clock is ahead of the log's.
        """
        if from_ms > row.deliver_by:
            return from_ms + self.wait_ms(1, row.message_id)
        return min(from_ms + self.wait_ms(attempt, row.message_id), row.deliver_by + 1)

    def bucket_at(self, time_ms: int) -> int:
        """Return the bucket of a time."""
        return time_ms // (self.bucket_s * 1000)

    def bucket(self, due_ms: int, after: int) -> int:
        """Return the bucket for what is due then; never one at or before `after`, which are worked off."""
        return max(self.bucket_at(due_ms), after + 1)


class Redelivery(NamedTuple):
    """What is to be done about some deliveries that are due."""

    deliveries: list[Delivery]
    expiries: list[Event]
    again: list[tuple[MessageRow, int]]
    """Rows that still wait, each with its deliveries so far."""


def waits(row: MessageRow | None) -> bool:
    """Say whether some recipient is still owed the message."""
    return row is not None and _SENT in row.receipts


def redeliver(
    due: Iterable[Pending],
    rows: Mapping[MessageKey, MessageRow],
    contents: Mapping[MessageKey, Content],
    now_ms: int,
) -> Redelivery:
    """Return the deliveries to make again and the expiries to write; what has settled meanwhile is left out.

    A message whose content is not readable yet waits on with the attempts that it had.
    """
    deliveries: list[Delivery] = []
    expiries: list[Event] = []
    again: list[tuple[MessageRow, int]] = []
    for pending in due:
        key = pending.key
        row = rows.get(key)
        if row is None or not waits(row):
            continue
        if now_ms > row.deliver_by:
            expiries.append(expiry(row, now_ms))
            again.append((row, pending.attempt))
            continue
        content = contents.get(key)
        if content is None:
            again.append((row, pending.attempt))
            continue
        attempt = min(pending.attempt + 1, _ATTEMPT_MAX)
        deliveries += deliveries_of(row, content, attempt)
        again.append((row, attempt))
    return Redelivery(deliveries, expiries, again)


def deliveries_of(row: MessageRow, content: Content, attempt: int) -> list[Delivery]:
    """Return one delivery for each recipient who is still owed the message."""
    return [
        _new(
            Delivery,
            (
                user,
                row.conversation_id,
                row.message_id,
                row.sender,
                row.recipients,
                content.body,
                content.content_type,
                row.sent_at,
                row.deliver_by,
                attempt,
            ),
        )
        for user, own in zip(row.recipients, row.receipts, strict=True)
        if own == _SENT
    ]


def expiry(row: MessageRow, now_ms: int) -> Event:
    """Return the EXPIRE event of a message that nobody fetched in time.

    Its id takes the random bits of the message's: an owner that writes it again writes the same kind of id, and the
    fold answers the second as a duplicate.
    """
    event_id = uuid7(now_ms, int.from_bytes(row.message_id[6:], "big"))
    return Event(Kind.EXPIRE, event_id, row.conversation_id, row.message_id, "", NO_ID)


def buckets_of(
    rows: Sequence[tuple[MessageRow, int]], schedule: Schedule, now_ms: int, after: int
) -> dict[int, list[Pending]]:
    """Return spilled deliveries by the bucket in which they are due."""
    buckets: dict[int, list[Pending]] = {}
    for row, attempt in rows:
        bucket = schedule.bucket(schedule.due(row, attempt, now_ms), after)
        buckets.setdefault(bucket, []).append(Pending(row.conversation_id, row.message_id, attempt))
    return buckets
