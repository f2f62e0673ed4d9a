"""The listener: Kafka -> outbox. It reads the user's own partition of the inbox, from where the outbox says.

No group and no committed offsets: the position is stored with the effects of what was read. What the inbox no longer
holds is said and counted, and own messages are sent again so that their answers tell what was missed.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException

from producers.arrivals import Arrivals, Place
from producers.errors import DeniedError, UnreachableError
from producers.health import HealthBoard
from producers.kafka import OFFSET_GONE, ConsumerPort, ErrorPort, Fate, MessagePort, OnError, fate_of
from producers.settings import ClientSettings
from schemas.codec import Codec
from schemas.errors import UndecodableError
from schemas.partitioner import partition_of
from schemas.records import Acknowledgement, Delivery
from schemas.topics import INBOX

LOG = logging.getLogger(__name__)

BATCH_ROWS = 500
_WAIT_S = 0.2
_METADATA_WAIT_S = 1.0
"""Short, because a client that is closed waits for it; the connection goes on being made meanwhile."""
LOOK_AGAIN_TURNS = 300
"""Turns, of about a minute together, after which is asked again which partition is the user's: their count may rise."""
_FOREIGN_OFFSETS_MAX = 5_000
"""Other users' records in the partition after which the position is stored all the same."""

MakeConsumer = Callable[[OnError], ConsumerPort]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerParts:
    """What a listener is wired to."""

    arrivals: Arrivals
    user: str
    codec: Codec
    settings: ClientSettings
    health: HealthBoard
    make_consumer: MakeConsumer


@dataclass(frozen=True, slots=True)
class _Batch:
    """Records that were read and not applied yet."""

    records: Sequence[Acknowledgement | Delivery]
    place: Place
    next_offset: int


class Listener:
    """One outbox's listener; used by one thread, under the outbox's lock."""

    def __init__(self, parts: ListenerParts) -> None:
        self._parts = parts
        self._key = parts.user.encode()
        self._consumer: ConsumerPort | None = None
        self._place: Place | None = None
        self._expected = 0
        self._stored = 0
        self._turns = 0
        self._gap_end = 0
        self._batch: _Batch | None = None
        self._broken = False

    def turn(self) -> bool:
        """Read and apply what has come, waiting a bounded time for it; say whether Kafka could be asked.

        Raises OutboxError; calling again is safe: what was read and not applied is kept.
        """
        if self._batch is not None:
            self._apply(self._batch)
        if self._broken:
            self.close()
        try:
            if self._consumer is None:
                self._consumer = self._parts.make_consumer(self._hear)
            self._turns += 1
            if self._turns % LOOK_AGAIN_TURNS == 0 and self._has_moved(self._consumer):
                self._place = None
            if self._place is None and not self._open(self._consumer):
                return False
            messages = self._consumer.read(BATCH_ROWS, _WAIT_S)
        except KafkaException as error:
            self._hear(error.args[0])
            return False
        if messages:
            self._take(self._consumer, messages)
        return self._reaches(self._consumer)

    def _reaches(self, consumer: ConsumerPort) -> bool:
        """Ask a Kafka that was said to be away: a producer with nothing to send does not hear that it is back."""
        if self._parts.health.read().reachable is not False:
            return True
        try:
            consumer.topic(INBOX, _METADATA_WAIT_S)
        except KafkaException as error:
            self._hear(error.args[0])
            return False
        self._parts.health.reached()
        return True

    def close(self) -> None:
        """Let go of the consumer."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._place = None
        self._broken = False

    def _hear(self, error: ErrorPort) -> None:
        """Take an error: most pass by themselves, and the library goes on trying."""
        fate = fate_of(error)
        if fate is Fate.DENIED:
            self._parts.health.fail(
                DeniedError(f"Kafka refuses to show the inbox: {error.str()}", "Check credentials and permissions.")
            )
        elif fate is Fate.FATAL:
            LOG.warning("the inbox consumer is of no more use, a new one is made: %s", error.str())
            self._broken = True
        else:
            LOG.debug("Kafka's client says: %s", error.str())

    def _has_moved(self, consumer: ConsumerPort) -> bool:
        """Say whether the user's partition is another than the one that is read."""
        partitions = consumer.topic(INBOX, _METADATA_WAIT_S).partitions
        place = self._place
        return place is not None and partitions > 0 and partition_of(self._key, partitions) != place.partition

    def _open(self, consumer: ConsumerPort) -> bool:
        """Find the user's partition and go to the stored position; say whether there is one."""
        found = consumer.topic(INBOX, _METADATA_WAIT_S)
        if found.partitions == 0:
            LOG.debug("there is no topic %s yet", INBOX)
            self._parts.health.fail(
                UnreachableError(f"there is no topic {INBOX} yet", "Create it with `twotick migrate --execute`.")
            )
            return False
        place = Place(found.cluster_id, INBOX, partition_of(self._key, found.partitions))
        low, high = consumer.watermarks(place.topic, place.partition, _METADATA_WAIT_S)
        known = self._parts.arrivals.position(place)
        offset = self._start(known, low, high)
        if known is None and self._parts.arrivals.was_elsewhere(place):
            LOG.warning("this is another log than the one that was read so far: starting at offset %d", offset)
            self._parts.arrivals.forgotten(high)
        elif known is not None and offset != known:
            self._gap(place, known, offset, high)
        if known is None and not self._parts.settings.inbox_from_start:
            # What comes from now on is read, also where this client ends before anything has come.
            self._parts.arrivals.apply([], place, offset)
        consumer.assign(place.topic, place.partition, offset)
        self._place, self._expected, self._stored = place, offset, offset
        self._gap_end = self._parts.arrivals.gap_end()
        return True

    def _start(self, known: int | None, low: int, high: int) -> int:
        if known is None:
            return low if self._parts.settings.inbox_from_start else high
        # Beyond the end: the topic was made anew.
        return known if low <= known <= high else low

    def _gap(self, place: Place, known: int, offset: int, end: int) -> None:
        again = self._parts.arrivals.forgotten(end)
        self._gap_end = end
        self._parts.health.count(gaps=1)
        LOG.error(
            "%s partition %d no longer holds offset %d, going on at %d; %d own messages are sent again to learn "
            "what became of them, and the server delivers again what it has no receipt for",
            place.topic,
            place.partition,
            known,
            offset,
            again,
        )

    def _take(self, consumer: ConsumerPort, messages: Sequence[MessagePort]) -> None:
        records: list[Acknowledgement | Delivery] = []
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() in OFFSET_GONE:
                    # Nothing after it can have come; find out where the log stands and go on there.
                    self._place, place = None, self._place
                    self._apply_records(records, place)
                    return
                self._hear(error)
                continue
            offset = message.offset() or 0
            if offset > self._expected and self._place is not None:
                self._gap(self._place, self._expected, offset, self._end(consumer, self._place))
            self._expected = offset + 1
            if message.key() == self._key:
                self._decode(message, records)
        self._apply_records(records, self._place)

    def _end(self, consumer: ConsumerPort, place: Place) -> int:
        """Return where the inbox ends now; 0, as if nothing were left to read, where Kafka does not say."""
        try:
            return consumer.watermarks(place.topic, place.partition, _METADATA_WAIT_S)[1]
        except KafkaException as error:
            self._hear(error.args[0])
            return 0

    def _decode(self, message: MessagePort, records: list[Acknowledgement | Delivery]) -> None:
        try:
            record = self._parts.codec.decode(message.value())
        except UndecodableError as error:
            LOG.warning("skipped an inbox record at offset %d: %s", message.offset(), error)
            self._parts.health.count(undecodable=1)
            return
        if isinstance(record, (Acknowledgement, Delivery)) and record.user == self._parts.user:
            records.append(record)
        else:
            self._parts.health.count(undecodable=1)

    def _apply_records(self, records: Sequence[Acknowledgement | Delivery], place: Place | None) -> None:
        # Where nothing is left that is older than a gap, that is a reason to store how far it got as well.
        has_passed = self._stored < self._gap_end <= self._expected
        if place is None or not (records or has_passed or self._expected - self._stored >= _FOREIGN_OFFSETS_MAX):
            return
        self._batch = _Batch(records, place, self._expected)
        self._apply(self._batch)

    def _apply(self, batch: _Batch) -> None:
        applied = self._parts.arrivals.apply(batch.records, batch.place, batch.next_offset)
        self._batch = None
        self._stored = batch.next_offset
        if applied.deliveries or applied.duplicates:
            self._parts.health.count(deliveries=applied.deliveries, duplicates=applied.duplicates)
