"""What Cassandra holds, read with the plain driver and queries of our own: nothing here rests on the store's code."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import DCAwareRoundRobinPolicy

from compose.stacks.local import LocalStack
from consumers.rows import Block, ConversationRow, MessageRow, Owner, Transition
from consumers.stores.contract import Content, StoredMessage

KEYSPACE: Final = "twotick"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Tables:
    """A session for as long as it is open."""

    def __init__(self, stack: LocalStack) -> None:
        addresses = stack.addresses()
        profile = ExecutionProfile(
            load_balancing_policy=DCAwareRoundRobinPolicy(local_dc=addresses.cassandra_datacenter),
            consistency_level=ConsistencyLevel.LOCAL_QUORUM,
            request_timeout=60,
        )
        self._cluster = Cluster(
            list(addresses.cassandra_contact_points),
            port=addresses.cassandra_port,
            protocol_version=5,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        )
        self._session = self._cluster.connect(KEYSPACE)
        self._session.default_fetch_size = 2_000

    def close(self) -> None:
        """Close the session."""
        self._cluster.shutdown()

    def messages(self) -> Iterator[StoredMessage]:
        """Yield every message."""
        for found in self._session.execute("SELECT * FROM messages"):
            # A row without its sender is a move whose making write has not landed; the checker is to see it.
            yield _message(found)

    def conversations(self) -> Iterator[ConversationRow]:
        """Yield every conversation, but for when it was parked: nobody parks any here."""
        for found in self._session.execute("SELECT * FROM conversations"):
            yield ConversationRow(
                conversation_id=found.conversation_id,
                participants=tuple(found.participants or ()),
                buckets=tuple(found.buckets or ()),
                blocks=tuple(map(_block, found.blocks)),
                sequences=tuple((install.bytes, seq) for install, seq in found.sequences or ()),
                version=found.version,
                applied=tuple(found.applied),
                stamp=found.stamp,
            )


def _block(found: Any) -> Block:
    position, event_id = (found.generation, found.log_offset), found.event_id
    return Block(found.blocker, found.blocked, position, found.active, event_id.bytes if event_id else b"")


def _message(found: Any) -> StoredMessage:
    row = MessageRow(
        conversation_id=found.conversation_id,
        message_id=found.message_id.bytes,
        state=found.state,
        sender=found.sender or "",
        recipients=tuple(found.recipients or ()),
        receipts=tuple(found.receipts or ()),
        digest=found.origin.digest if found.origin else b"",
        install=found.origin.install.bytes if found.origin else b"",
        seq=found.origin.seq if found.origin else 0,
        partition=found.origin.log_partition if found.origin else -1,
        sent_at=_ms(found.sent_at),
        deliver_by=_ms(found.deliver_by),
        version=found.version,
        applied=tuple(found.applied),
        stamp=found.stamp,
    )
    steps = [
        (Transition(version, one.state, one.actor, _ms(one.at), one.log_offset), Owner(one.epoch, one.node))
        for version, one in sorted((found.transitions or {}).items())
    ]
    content = Content(found.body or b"", found.content_type or "")
    return StoredMessage(row, content, _ms(found.expires_at), Owner(*found.owner), steps)


def _ms(at: datetime | None) -> int:
    return 0 if at is None else (at.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
