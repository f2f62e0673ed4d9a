"""Batches of rows that are bytes already, as requests of the native protocol.

The driver lets a session bring its own protocol handler; ours writes the body of a BATCH request (native protocol v4,
section 4.1.7) from statements that `cassandra_rows.py` has packed, where the driver would write value by value.
"""

from collections.abc import Sequence
from io import BytesIO
from struct import Struct
from typing import Final

from cassandra import ConsistencyLevel, ProtocolVersion
from cassandra.protocol import BatchMessage, ProtocolHandler
from cassandra.query import BatchStatement, BatchType

_UNLOGGED: Final = 1
_START, _CONSISTENCY = Struct(">BH"), Struct(">H")


class PackedStatements(list[bytes]):
    """A batch's statements, each the bytes of its part of the request."""


class PackedBatch(BatchStatement):  # type: ignore[misc]  # the driver has no types
    """An UNLOGGED batch of packed statements, safe to apply twice."""

    def __init__(self, keyspace: str, routing_key: bytes, statements: Sequence[bytes]) -> None:
        super().__init__(BatchType.UNLOGGED)
        self._statements_and_parameters = PackedStatements(statements)
        self.is_idempotent = True
        self.keyspace = keyspace
        self.routing_key = routing_key


class _PackedMessage(BatchMessage):  # type: ignore[misc]
    """The request of a packed batch."""

    tracing = False
    custom_payload = None

    def send_body(self, body: BytesIO, protocol_version: int) -> None:
        """Write the request's body."""
        body.write(_START.pack(_UNLOGGED, len(self.queries)))
        body.write(b"".join(self.queries))
        body.write(_CONSISTENCY.pack(self.consistency_level))
        body.write(b"\x00\x00\x00\x00" if ProtocolVersion.uses_int_query_flags(protocol_version) else b"\x00")


def packed_message(statements: Sequence[bytes]) -> BatchMessage:
    """Return the request of a batch, at LOCAL_QUORUM."""
    return _PackedMessage(BatchType.UNLOGGED, statements, ConsistencyLevel.LOCAL_QUORUM)


class PackedProtocol(ProtocolHandler):  # type: ignore[misc]
    """The driver's protocol handler, but for packed batches."""

    @classmethod
    def encode_message(cls, message: object, *frame: object, **options: object) -> bytes:
        """Return a request's frame."""
        if isinstance(message, BatchMessage) and isinstance(message.queries, PackedStatements):
            message = packed_message(message.queries)
        encoded: bytes = super().encode_message(message, *frame, **options)
        return encoded
