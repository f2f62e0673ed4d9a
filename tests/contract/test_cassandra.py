"""What only Cassandra can get wrong: tombstones, conditional writes of unknown outcome, batches, schema changes."""

import re
from concurrent.futures import ThreadPoolExecutor
from unittest import mock
from uuid import uuid4

import pytest
from cassandra import OperationTimedOut, WriteTimeout, WriteType
from cassandra.query import SimpleStatement

from consumers.errors import StoreRefusedError, StoreUnavailableError
from consumers.rows import ConversationWrite
from consumers.stores.cassandra import CassandraStore
from consumers.stores.cassandra_conditional import Leases
from consumers.stores.cassandra_wire import PackedProtocol
from consumers.stores.contract import TopicRecord
from consumers.stores.settings import CassandraSettings
from tests.contract.made import OWNER, Written, conversation, id_of, made, moved, row, transition, write

pytestmark = pytest.mark.local_stack


# case C4
def test_a_thousand_messages_leave_no_tombstone(cassandra_store: CassandraStore, name: str) -> None:
    bare = [made(name, number, body=b"")._replace(content_type="", expires_at=0) for number in range(1_000)]
    write(cassandra_store, bare, [ConversationWrite(conversation(name))])
    write(cassandra_store, [moved(name, number, 2, "DELIVERED") for number in range(1_000)])
    write(cassandra_store, [moved(name, number, 3, "READ") for number in range(1_000)])
    keyspace = cassandra_store._settings.keyspace
    messages = f"SELECT * FROM {keyspace}.messages WHERE conversation_id = %s AND bucket = 2083"
    assert _read_traced(cassandra_store, messages, name) == [(1_000, 0)]
    conversations = f"SELECT * FROM {keyspace}.conversations WHERE conversation_id = %s"
    assert _read_traced(cassandra_store, conversations, name) == [(1, 0)]


def _read_traced(store: CassandraStore, query: str, name: str) -> list[tuple[int, int]]:
    """Return the live rows and tombstones that Cassandra says it met."""
    result = store._session.execute(SimpleStatement(query, fetch_size=None), (name,), trace=True)
    told = " ".join(event.description for event in result.get_query_trace(max_wait_sec=30).events)
    return [tuple(map(int, found)) for found in re.findall(r"Read (\d+) live rows and (\d+) tombstone cells", told)]


# case C3: no clock but the stamp's decides which write is newer.
def test_cells_are_written_at_the_rows_stamp(cassandra_store: CassandraStore, name: str) -> None:
    write(cassandra_store, [made(name, 1)], [ConversationWrite(conversation(name))])
    write(cassandra_store, [moved(name, 1, 2, "READ")])
    keyspace = cassandra_store._settings.keyspace
    stamps = "WRITETIME(sender), WRITETIME(body), WRITETIME(state), WRITETIME(owner)"
    found = cassandra_store._session.execute(
        f"SELECT {stamps} FROM {keyspace}.messages WHERE conversation_id = %s AND bucket = 2083", (name,)
    ).one()
    first, second = row(name, 1).stamp, row(name, 1, version=2).stamp
    assert tuple(found) == (first, first, second, second)
    found = cassandra_store._session.execute(
        f"SELECT WRITETIME(version) FROM {keyspace}.conversations WHERE conversation_id = %s", (name,)
    ).one()
    assert tuple(found) == (conversation(name).stamp,)


def test_an_independent_query_reads_well(cassandra_store: CassandraStore, name: str) -> None:
    write(cassandra_store, [made(name, 1)])
    query = (
        "SELECT sender, recipients, receipts, state, blobAsText(body), origin.seq, toUnixTimestamp(sent_at)"
        f" FROM {cassandra_store._settings.keyspace}.messages WHERE conversation_id = %s AND bucket = 2083"
    )
    found = cassandra_store._session.execute(query, (name,)).one()
    expected = row(name, 1)
    assert tuple(found) == (
        "ann",
        ["ben", "cleo"],
        ["SENT", "SENT"],
        "SENT",
        "hello",
        expected.seq,
        expected.sent_at,
    )


def test_batches_draw_no_warning(cassandra_store: CassandraStore, name: str) -> None:
    """Cassandra warns in its answers where a batch is over `batch_size_warn_threshold` or has too many partitions."""
    warnings: list[object] = []
    decode_message = PackedProtocol.decode_message

    def decode(*args, **options):
        response = decode_message(*args, **options)
        warnings.append(getattr(response, "warnings", None))
        return response

    with mock.patch.object(PackedProtocol, "decode_message", decode):
        write(
            cassandra_store,
            [made(f"{name}-{number % 100}", number, body=b"x" * 300) for number in range(600)],
            [ConversationWrite(conversation(f"{name}-{number}")) for number in range(100)],
        )
        write(cassandra_store, [moved(f"{name}-{number}", number, 2, "READ") for number in range(100)])
    assert len(warnings) > 50
    assert [warning for warning in warnings if warning] == []


class Unsure:
    """A session whose conditional writes are applied, and then time out."""

    def __init__(self, session, error: Exception) -> None:
        self._session = session
        self._error = error
        self.unsure = True

    def __getattr__(self, name: str):
        return getattr(self._session, name)

    def execute(self, statement, values=None, **options):
        """Run it; where it is conditional, say the first time that nobody knows."""
        result = self._session.execute(statement, values, **options)
        if self.unsure and " IF " in statement.query_string:
            self.unsure = False
            raise self._error
        return result


# case C1
@pytest.mark.parametrize("error", [OperationTimedOut(), WriteTimeout("cas", write_type=WriteType.CAS)])
def test_a_claim_that_timed_out_after_it_was_applied_counts_once(
    cassandra_store: CassandraStore, partition: int, error: Exception
) -> None:
    cassandra_store.claim_lease(partition, "node-a")
    leases = Leases(Unsure(cassandra_store._session, error), cassandra_store._settings.keyspace, lambda: 7)
    assert leases.claim(partition, "node-b").epoch == 2
    assert [lease.epoch for lease in leases.all() if lease.partition == partition] == [2]


class Repeated(Unsure):
    """A session whose driver sends each conditional write again, and answers with the second's outcome."""

    def execute(self, statement, values=None, **options):
        """Run it, twice where it is conditional."""
        if " IF " in statement.query_string:
            self._session.execute(statement, values, **options)
        return self._session.execute(statement, values, **options)


# case C2
def test_a_claim_that_the_driver_repeated_counts_once(cassandra_store: CassandraStore, partition: int) -> None:
    leases = Leases(Repeated(cassandra_store._session, OperationTimedOut()), cassandra_store._settings.keyspace, int)
    assert [leases.claim(partition, "node-a").epoch, leases.claim(partition, "node-a").epoch] == [1, 2]


# case C1
def test_a_topic_record_whose_outcome_is_unknown_is_settled_by_reading(
    cassandra_store: CassandraStore, name: str
) -> None:
    record = TopicRecord(name, "id", 8, 1)
    unsure = Unsure(cassandra_store._topics._session, OperationTimedOut())
    with mock.patch.object(cassandra_store._topics, "_session", unsure):
        assert cassandra_store.record_topic(record, None)
    assert cassandra_store.topic_record(name) == record


# case C5
def test_a_column_that_is_added_under_traffic_changes_nothing(cassandra_store: CassandraStore, name: str) -> None:
    keyspace = cassandra_store._settings.keyspace
    with ThreadPoolExecutor(1) as pool:
        added = f"aaa_{uuid4().hex[:8]}"
        altering = pool.submit(
            cassandra_store._session.execute, f"ALTER TABLE {keyspace}.messages ADD {added} text", timeout=60
        )
        number = 0
        while not altering.done() or number < 50:
            write(cassandra_store, [made(name, number)])
            assert cassandra_store.read([(name, id_of(number))], []).messages == {
                (name, id_of(number)): row(name, number)
            }
            number += 1
        altering.result()
    found = cassandra_store.message((name, id_of(0)))
    assert found is not None
    assert [change for change, _ in found.transitions] == [transition(1, "SENT")]


def test_a_keyspace_without_tables_is_refused(cassandra_settings: CassandraSettings) -> None:
    absent = CassandraSettings(port=cassandra_settings.port, keyspace="not_there")
    with pytest.raises(StoreRefusedError) as caught:
        CassandraStore.open(absent)
    assert "twotick migrate" in caught.value.hint
    assert not caught.value.retriable


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        CassandraStore.open(CassandraSettings(port=1, connect_timeout_s=1))
    assert caught.value.retriable


def test_what_cannot_be_packed_is_told_not_raised(cassandra_store: CassandraStore, name: str) -> None:
    written = Written()
    bad = made(name, 1)
    cassandra_store.write(OWNER, [bad._replace(row=bad.row._replace(seq=2**63))], [], written.done)
    with pytest.raises(StoreRefusedError):
        written.wait()
