"""The store for many machines: Cassandra, under stamps.

Every write of a row says `USING TIMESTAMP stamp`, so the order in which writes land does not matter: Cassandra keeps
the newest cell, and at equal stamps the larger value, which is the later epoch in `owner` and the same value in all
other cells, because the fold computes the same row from the same prefix. A row's two kinds of cells (written once,
written by every event) come together when both writes have landed; until then the row reads as not there.

Measured on two cores shared with Cassandra 5.0 and much else, 5,000 conversations, CPU of this process: 14 to 16 µs
for a new row, 10 for a row that moves, 12 for a mix of one to two, in batches inside the default limits (7 and 10
rows); 12, 8 and 10 in batches of up to 20 KiB and 30 partitions. The driver's own bound statements in batches of the
same size: 67, 45 and 59.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from cassandra.cluster import Cluster, Session
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement, BatchType

from consumers import clock
from consumers.claims.cassandra import CassandraClaimTable
from consumers.errors import StoreRefusedError
from consumers.hot.cassandra import CassandraConfigTable
from consumers.locks.cassandra import CassandraLockTable
from consumers.rows import ConversationRow, ConversationWrite, MessageWrite, Owner
from consumers.statistics.cassandra import CassandraStatisticsTable
from consumers.stores import cassandra_found as reading
from consumers.stores import cassandra_rows as rows
from consumers.stores.cassandra_batches import BatchLimits, batches
from consumers.stores.cassandra_conditional import Leases, TopicRecords
from consumers.stores.cassandra_errors import translating, unwritable
from consumers.stores.cassandra_mode import WriteMode, settle_mode
from consumers.stores.cassandra_replicas import Ring
from consumers.stores.cassandra_scan import Scan
from consumers.stores.cassandra_sender import Request, Sender
from consumers.stores.cassandra_session import connect, open_cluster, quoted
from consumers.stores.cassandra_strict import StrictWriter
from consumers.stores.cassandra_wire import PackedProtocol
from consumers.stores.cassandra_writer import InFlight
from consumers.stores.contract import (
    Content,
    DeadLetterMark,
    Done,
    Lease,
    MessageKey,
    Pending,
    Rows,
    StoredMessage,
    TopicRecord,
)
from consumers.stores.process import OpenIn
from consumers.stores.settings import CassandraSettings
from consumers.stores.shared import Shared
from schemas.identity import bucket_of

PAGE_ROWS: Final = 500
IDS_PER_READ_MAX: Final = 50
SPILLS_PER_BATCH: Final = 100
"""All of one Cassandra partition, so one mutation."""
_EPOCH_STAMP: Final = 2**32
"""Stamps of spilled deliveries go by epoch, then by attempt, so what an owner does leaves a later owner's alone."""

_READ: Final = "WHERE conversation_id = ? AND bucket = ? AND message_id IN ?"
_QUERIES: Final = {
    "move": rows.MOVE_MESSAGE,
    "make": rows.MAKE_MESSAGE,
    "put_conversation": rows.PUT_CONVERSATION,
    "messages": f"SELECT {reading.MESSAGE_COLUMNS} FROM {{keyspace}}.messages {_READ}",
    "contents": f"SELECT conversation_id, message_id, body, content_type FROM {{keyspace}}.messages {_READ}",
    "stored": f"SELECT {reading.STORED_COLUMNS} FROM {{keyspace}}.messages {_READ}",
    "conversation": f"SELECT {reading.CONVERSATION_COLUMNS} FROM {{keyspace}}.conversations WHERE conversation_id = ?",
    "spill": "UPDATE {keyspace}.pending_deliveries USING TIMESTAMP ? SET attempt = ?"
    " WHERE log_partition = ? AND bucket = ? AND conversation_id = ? AND message_id = ?",
    "spilled": "SELECT conversation_id, message_id, attempt FROM {keyspace}.pending_deliveries"
    " WHERE log_partition = ? AND bucket = ?",
    "drop": "DELETE FROM {keyspace}.pending_deliveries USING TIMESTAMP ? WHERE log_partition = ? AND bucket = ?",
    "set_progress": "UPDATE {keyspace}.pending_progress USING TIMESTAMP ? SET bucket = ? WHERE log_partition = ?",
    "progress": "SELECT bucket FROM {keyspace}.pending_progress WHERE log_partition = ?",
    "conversations": f"SELECT {reading.CONVERSATION_COLUMNS} FROM {{keyspace}}.conversations",
    "mark": "UPDATE {keyspace}.dead_letter_marks USING TIMESTAMP ? SET mark = ?"
    " WHERE log_partition = ? AND log_offset = ? AND appended_at = ?",
    "marks": "SELECT log_partition, log_offset, appended_at, mark FROM {keyspace}.dead_letter_marks",
    "ping": "SELECT key FROM system.local",
    # Never executed: where the type has no such field yet, its preparation refuses the tables before a row is written.
    "block_of_event": "UPDATE {keyspace}.conversations"
    " SET blocks = [{{event_id: 00000000-0000-0000-0000-000000000000}}] WHERE conversation_id = ?",
}


class CassandraStore:
    """`Store` on Cassandra; make one with `open`."""

    def __init__(
        self,
        cluster: Cluster,
        session: Session,
        settings: CassandraSettings,
        now_ms: Callable[[], int],
        strict: StrictWriter | None = None,
    ) -> None:
        self._cluster = cluster
        self._session = session
        self._settings = settings
        self._limits = BatchLimits(settings.batch_bytes_max, settings.batch_partitions_max)
        self._open = OpenIn()
        keyspace = quoted(settings.keyspace)
        self._prepared = {name: session.prepare(query.format(keyspace=keyspace)) for name, query in _QUERIES.items()}
        for statement in self._prepared.values():
            statement.is_idempotent = True
        ids = (self._prepared[name].query_id for name in ("move", "make", "put_conversation"))
        self._ids = rows.PreparedIds.of(*ids)
        self._ring = Ring(cluster.metadata, settings.keyspace, settings.datacenter)
        self._sender = Sender(session, settings.keyspace, timeout_s=settings.request_timeout_s)
        self._in_flight = InFlight(self._sender.send, settings.batches_in_flight_max)
        self._leases = Leases(session, keyspace, now_ms)
        self._topics = TopicRecords(session, keyspace)
        self._scan = Scan(session, keyspace)
        self._shared: Shared | None = None
        self._now_ms = now_ms
        self._strict = strict

    @classmethod
    def open(
        cls, settings: CassandraSettings, *, mode: WriteMode = "stamps", now_ms: Callable[[], int] = clock.now_ms
    ) -> Self:
        """Connect and prepare; rows are written under stamps, or `strict`: on condition of their version.

        Raises StoreUnavailableError; StoreRefusedError where the tables are not there or are written the other way.
        """
        cluster = open_cluster(settings)
        session = connect(cluster)
        session.client_protocol_handler = PackedProtocol
        session.default_fetch_size = PAGE_ROWS
        try:
            with translating("the preparation of statements"):
                settle_mode(session, quoted(settings.keyspace), mode)
                strict = _strict_writer(session, settings) if mode == "strict" else None
                store = cls(cluster, session, settings, now_ms, strict)
        except BaseException:
            cluster.shutdown()
            raise
        store._sender.start()
        return store

    def read(self, messages: Sequence[MessageKey], conversations: Sequence[str]) -> Rows:
        """Read the rows named, all at once."""
        found = self._read_many("messages", _by_partition(messages))
        others = self._read_many("conversation", [(conversation_id,) for conversation_id in conversations])
        there = filter(None, map(reading.message_row, found))
        return Rows(
            {(row.conversation_id, row.message_id): row for row in there},
            {row.conversation_id: row for row in map(reading.conversation_row, others)},
        )

    def write(
        self,
        owner: Owner,
        messages: Sequence[MessageWrite],
        conversations: Sequence[ConversationWrite],
        done: Done,
        *,
        partition: int | None = None,  # noqa: ARG002 - stamps make a fenced owner's writes lose or equal
    ) -> None:
        """Send the rows in batches."""
        if not self._usable(done):
            return
        if self._strict is not None:
            self._strict.write(owner, messages, conversations, done)
            return
        try:
            packed = rows.pack_messages(messages, owner, self._ids)
            packed += rows.pack_conversations(conversations, owner, self._ids)
        except rows.UNPACKABLE as error:
            done(unwritable(error))
            return
        grouped = batches(packed, self._limits, self._ring.replicas_of())
        self._in_flight.submit([Request(batch, self._ring.coordinator(batch.replicas)) for batch in grouped], done)

    def mend(
        self, owner: Owner, messages: Sequence[MessageWrite], conversations: Sequence[ConversationWrite], done: Done
    ) -> None:
        """Send whole rows, each on condition that what it replaces still stands there in strict mode."""
        if self._strict is None:
            self.write(owner, messages, conversations, done)
        elif self._usable(done):
            self._strict.write(owner, messages, conversations, done, mends=True)

    def contents(self, messages: Sequence[MessageKey]) -> Mapping[MessageKey, Content]:
        """Read bodies for redelivery."""
        found = self._read_many("contents", _by_partition(messages))
        return {
            (conversation_id, message_id.bytes): Content(body, content_type)
            for conversation_id, message_id, body, content_type in found
            if body is not None
        }

    def spill(self, owner: Owner, partition: int, bucket: int, pending: Sequence[Pending], done: Done) -> None:
        """Send deliveries in batches of one Cassandra partition."""
        if not self._usable(done):
            return
        chunks = [pending[start : start + SPILLS_PER_BATCH] for start in range(0, len(pending), SPILLS_PER_BATCH)]
        requests = [Request(self._spill_batch(owner.epoch, partition, bucket, chunk)) for chunk in chunks]
        self._in_flight.submit(requests, done)

    def _spill_batch(self, epoch: int, partition: int, bucket: int, pending: Iterable[Pending]) -> BatchStatement:
        batch = BatchStatement(BatchType.UNLOGGED)
        first = epoch * _EPOCH_STAMP
        for one in pending:
            message_id = reading.uuid_of(one.message_id)
            values = (first + one.attempt, one.attempt, partition, bucket, one.conversation_id, message_id)
            batch.add(self._prepared["spill"], values)
        batch.is_idempotent = True
        return batch

    def spilled(self, partition: int, bucket: int) -> Iterator[Pending]:
        """Read a time bucket's deliveries, paged."""
        for conversation_id, message_id, attempt in self._rows("spilled", (partition, bucket)):
            yield Pending(conversation_id, message_id.bytes, attempt)

    def drop_spilled(self, owner: Owner, partition: int, bucket: int) -> None:
        """Forget a whole time bucket, then remember that all up to it is worked off, as of the owner's epoch."""
        self._open.check()
        first = owner.epoch * _EPOCH_STAMP
        with translating(f"the end of bucket {bucket} of partition {partition}"):
            self._session.execute(self._prepared["drop"], (first + _EPOCH_STAMP - 1, partition, bucket))
            self._session.execute(self._prepared["set_progress"], (first + bucket, bucket, partition))

    def spill_position(self, partition: int) -> int | None:
        """Return the newest bucket that is worked off, None before the first."""
        found = next(self._rows("progress", (partition,)), None)
        return int(found[0]) if found else None

    def claim_lease(self, partition: int, node: str) -> Lease:
        """Take a partition with one conditional write."""
        self._open.check()
        return self._leases.claim(partition, node)

    def leases(self) -> Sequence[Lease]:
        """Read all leases, serially."""
        self._open.check()
        return self._leases.all()

    def topic_record(self, topic: str) -> TopicRecord | None:
        """Read what is recorded about a topic."""
        self._open.check()
        return self._topics.read(topic)

    def record_topic(self, record: TopicRecord, expected: TopicRecord | None) -> bool:
        """Replace the record where it is still `expected`; say whether it was."""
        self._open.check()
        return self._topics.replace(record, expected)

    def message(self, key: MessageKey) -> StoredMessage | None:
        """Read one message whole."""
        found = self._read_many("stored", _by_partition([key]))
        return reading.stored_message(found[0]) if found else None

    def history(self, conversation_id: str, limit: int, *, newest_first: bool = True) -> Iterator[StoredMessage]:
        """Read a conversation's messages in the order of their ids, bucket after bucket, paged."""
        conversation = self.read((), (conversation_id,)).conversations.get(conversation_id)
        if conversation is None:
            return
        buckets = reversed(conversation.buckets) if newest_first else conversation.buckets
        yield from self._scan.history(self._open.check, conversation_id, buckets, limit, newest_first=newest_first)

    def find(self, message_id: bytes) -> Iterator[StoredMessage]:
        """Find a message without its conversation: a scan."""
        return self._scan.find(self._open.check, message_id)

    def all_messages(self) -> Iterator[StoredMessage]:
        """Read every message, paged."""
        return self._scan.all(self._open.check)

    def shared(self) -> Shared:
        """Return the shared tables; their statements are prepared when they are first asked for."""
        self._open.check()
        if self._shared is None:
            keyspace = quoted(self._settings.keyspace)
            session, check = self._session, self._open.check
            with translating("the preparation of statements"):
                self._shared = Shared(
                    CassandraLockTable(session, keyspace, check=check, now_ms=self._now_ms),
                    CassandraConfigTable(session, keyspace, check=check),
                    CassandraStatisticsTable(session, keyspace, check=check),
                    CassandraClaimTable(session, keyspace, check=check),
                )
        return self._shared

    def messages(self, keys: Sequence[MessageKey]) -> Mapping[MessageKey, StoredMessage]:
        """Read messages whole, all at once."""
        found = filter(None, map(reading.stored_message, self._read_many("stored", _by_partition(keys))))
        return {one.key: one for one in found}

    def all_conversations(self) -> Iterator[ConversationRow]:
        """Read every conversation, paged."""
        return map(reading.conversation_row, self._rows("conversations", ()))

    def row_counts(self) -> None:
        """Tell nothing: Cassandra itself would have to read every row."""

    def mark_dead_letters(self, marks: Sequence[DeadLetterMark]) -> None:
        """Keep marks, stamped with their time."""
        values = [(one.at * 1000, one[3:], *one[:3]) for one in marks]
        self._execute_many("mark", values, "the marks of dead letters")

    def dead_letter_marks(self) -> Iterator[DeadLetterMark]:
        """Read all marks, paged."""
        return (DeadLetterMark(*found[:3], *found[3]) for found in self._rows("marks", ()))

    def ping(self) -> None:
        """Make one round trip."""
        list(self._rows("ping", ()))

    def close(self) -> None:
        """Wait for what is in flight, then close the connections."""
        if self._open.close():
            self._in_flight.wait_until_idle(self._settings.request_timeout_s)
            if self._strict is not None:
                self._strict.wait_until_idle(self._settings.request_timeout_s)
            self._sender.close()
            self._cluster.shutdown()

    def _usable(self, done: Done) -> bool:
        try:
            self._open.check()
        except StoreRefusedError as error:
            done(error)
            return False
        return True

    def _rows(self, name: str, values: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        return self._scan.pages(self._open.check, self._prepared[name], values)

    def _read_many(self, name: str, keys: Sequence[tuple[object, ...]]) -> list[tuple[Any, ...]]:
        """Return the rows that one query finds for many keys. Raises StoreUnavailableError, StoreRefusedError."""
        return self._execute_many(name, keys, "a read")

    def _execute_many(self, name: str, values: Sequence[tuple[object, ...]], doing: str) -> list[tuple[Any, ...]]:
        """Execute one statement with many values, a bounded number at a time; return all the rows of its results."""
        self._open.check()
        with translating(doing):
            results = execute_concurrent_with_args(
                self._session, self._prepared[name], values, concurrency=self._settings.reads_in_flight_max
            )
            return [found for _, result in results for found in result]


def _strict_writer(session: Session, settings: CassandraSettings) -> StrictWriter:
    return StrictWriter(
        session,
        quoted(settings.keyspace),
        bytes_max=settings.batch_bytes_max,
        in_flight_max=settings.conditional_in_flight_max,
    )


def _by_partition(messages: Iterable[MessageKey]) -> list[tuple[object, ...]]:
    """Return (conversation_id, bucket, ids) for each Cassandra partition, with a bounded number of ids each."""
    partitions: dict[tuple[str, int], dict[bytes, None]] = {}
    for conversation_id, message_id in messages:
        partitions.setdefault((conversation_id, bucket_of(message_id)), {})[message_id] = None
    return [
        (*partition, [reading.uuid_of(one) for one in ids[start : start + IDS_PER_READ_MAX]])
        for partition, ids in ((partition, list(ids)) for partition, ids in partitions.items())
        for start in range(0, len(ids), IDS_PER_READ_MAX)
    ]
