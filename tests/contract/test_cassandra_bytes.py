"""The bytes that rows are packed into are those that the driver would send for the same values."""

from io import BytesIO
from uuid import UUID

import pytest
from cassandra.protocol import BatchMessage
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.rows import (
    Block,
    ConversationRow,
    ConversationWrite,
    MessageRow,
    MessageWrite,
    Owner,
    Parking,
    Transition,
)
from consumers.stores.cassandra import CassandraStore
from consumers.stores.cassandra_rows import pack_conversations, pack_messages
from consumers.stores.cassandra_wire import PackedBatch, PackedProtocol
from consumers.stores.parkings import to_text
from schemas.identity import bucket_of

pytestmark = pytest.mark.local_stack

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
ID = st.binary(min_size=16, max_size=16)
INT = st.integers(0, 2**31 - 1)
LONG = st.integers(0, 2**62)
TIME = st.integers(0, 2**41)
POSITION = st.tuples(INT, LONG)
OWNERS = st.builds(Owner, LONG, TEXT)
TEXTS = st.lists(TEXT, max_size=4).map(tuple)
MESSAGE_ROWS = st.builds(
    MessageRow, TEXT, ID, TEXT, TEXT, TEXTS, TEXTS, st.sampled_from([b"", b"d" * 16]), ID, LONG, INT, TIME, TIME, INT,
    POSITION, LONG,
)  # fmt: skip
MESSAGES = st.builds(
    MessageWrite,
    MESSAGE_ROWS,
    st.lists(
        st.builds(Transition, INT, TEXT, TEXT, TIME, LONG), min_size=1, max_size=3, unique_by=lambda one: one[0]
    ).map(lambda found: tuple(sorted(found))),
    st.none() | st.binary(max_size=50),
    TEXT,
    TIME,
)
BLOCKS = st.builds(Block, TEXT, TEXT, POSITION, st.booleans(), st.just(b"") | ID)
CONVERSATIONS = st.builds(
    ConversationRow,
    TEXT,
    TEXTS,
    st.lists(INT, max_size=3).map(tuple),
    st.lists(BLOCKS, max_size=3).map(tuple),
    st.lists(st.tuples(ID, LONG), max_size=3).map(tuple),
    INT,
    POSITION,
    LONG,
    st.lists(st.builds(Parking, POSITION, POSITION, st.booleans(), st.tuples(ID), st.tuples(POSITION)), max_size=2).map(
        tuple
    ),
)


def _message_values(write: MessageWrite, owner: Owner) -> list[object]:
    row = write.row
    changes = {one.version: (one.state, one.actor, one.at, one.offset, *owner) for one in write.transitions}
    moving = [row.stamp, row.version, row.stamp, row.applied, row.state, row.receipts, owner, changes]
    key = [row.conversation_id, bucket_of(row.message_id), UUID(bytes=row.message_id)]
    if write.body is None:
        return [*moving, *key]
    origin = (UUID(bytes=row.install), row.seq, row.digest, row.partition)
    times = [row.sent_at, row.deliver_by, write.expires_at]
    return [*moving, *times, origin, row.sender, row.recipients, write.content_type, write.body, *key]


def _conversation_values(row: ConversationRow, owner: Owner) -> list[object]:
    blocks = [
        (one.blocker, one.blocked, *one.position, one.active, UUID(bytes=one.event_id) if one.event_id else None)
        for one in row.blocks
    ]
    sequences = [(UUID(bytes=install), seq) for install, seq in row.sequences]
    state = [row.stamp, row.version, row.stamp, row.applied, owner, row.participants, row.buckets]
    parkings = to_text(row.parkings) if row.parkings else UNSET_VALUE
    return [*state, blocks, sequences, parkings, row.conversation_id]


def _body(message: BatchMessage) -> bytes:
    frame = PackedProtocol.encode_message(message, 7, 4, compressor=None, allow_beta_protocol_version=False)
    return bytes(frame[9:])


@settings(max_examples=300, deadline=None)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=3), conversation=CONVERSATIONS, owner=OWNERS)
def test_packed_rows_are_what_the_driver_would_send(
    cassandra_store: CassandraStore, messages: list[MessageWrite], conversation: ConversationRow, owner: Owner
) -> None:
    prepared = cassandra_store._prepared
    batch = BatchStatement(BatchType.UNLOGGED)
    for write in messages:
        batch.add(prepared["move" if write.body is None else "make"], _message_values(write, owner))
    batch.add(prepared["put_conversation"], _conversation_values(conversation, owner))
    expected = BytesIO()
    BatchMessage(batch.batch_type, batch._statements_and_parameters, 6).send_body(expected, 4)

    packed = pack_messages(messages, owner, cassandra_store._ids)
    packed += pack_conversations([ConversationWrite(conversation)], owner, cassandra_store._ids)
    ours = PackedBatch("keyspace", packed[0][0], [statement for _, _, statement in packed])
    message = BatchMessage(ours.batch_type, ours._statements_and_parameters, 6)
    assert _body(message) == expected.getvalue()

    first = BatchStatement(BatchType.UNLOGGED)
    write = messages[0]
    first.add(prepared["move" if write.body is None else "make"], _message_values(write, owner))
    assert packed[0][0] == first.routing_key
