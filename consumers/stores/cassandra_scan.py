"""Long reads from Cassandra, a page at a time: a conversation's history, and the whole table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from consumers.stores import cassandra_found as reading
from consumers.stores.cassandra_errors import translating
from consumers.stores.contract import StoredMessage

RANGES: Final = 64
"""Parts of the token ring that a search looks through one after another, so that no single request reads it all."""
_TOKENS: Final = 2**64
_FIRST_TOKEN: Final = -(2**63)

_BUCKET: Final = (
    f"SELECT {reading.STORED_COLUMNS} FROM {{keyspace}}.messages WHERE conversation_id = ? AND bucket = ?"
    " ORDER BY message_id {order} LIMIT ?"
)
_ALL: Final = f"SELECT {reading.STORED_COLUMNS} FROM {{keyspace}}.messages"
_FIND: Final = (
    f"SELECT {reading.STORED_COLUMNS} FROM {{keyspace}}.messages WHERE token(conversation_id, bucket) >= ?"
    " AND token(conversation_id, bucket) <= ? AND message_id = ? ALLOW FILTERING"
)

Check = Callable[[], None]
"""Raises where the store may not be used any more; asked before every page."""


class Scan:
    """Paged reads with the driver's errors translated."""

    def __init__(self, session: Session, keyspace: str) -> None:
        self._session = session
        self._newest = session.prepare(_BUCKET.format(keyspace=keyspace, order="DESC"))
        self._oldest = session.prepare(_BUCKET.format(keyspace=keyspace, order="ASC"))
        self._all = session.prepare(_ALL.format(keyspace=keyspace))
        self._find = session.prepare(_FIND.format(keyspace=keyspace))

    def pages(self, check: Check, statement: PreparedStatement, values: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """Yield a query's rows; a page is asked for when the one before is used up."""
        check()
        with translating("a read"):
            result = self._session.execute(statement, values)
        while True:
            yield from result.current_rows
            if not result.has_more_pages:
                return
            check()
            with translating("a read"):
                result.fetch_next_page()

    def history(
        self, check: Check, conversation_id: str, buckets: Iterable[int], limit: int, *, newest_first: bool
    ) -> Iterator[StoredMessage]:
        """Yield a conversation's messages, bucket after bucket, up to `limit`."""
        statement = self._newest if newest_first else self._oldest
        for bucket in buckets:
            if limit <= 0:
                return
            for message in self._stored(check, statement, (conversation_id, bucket, limit)):
                limit -= 1
                yield message

    def find(self, check: Check, message_id: bytes) -> Iterator[StoredMessage]:
        """Yield the messages with this id from the whole table."""
        width = _TOKENS // RANGES
        for start in range(_FIRST_TOKEN, -_FIRST_TOKEN, width):
            yield from self._stored(check, self._find, (start, start + width - 1, reading.uuid_of(message_id)))

    def all(self, check: Check) -> Iterator[StoredMessage]:
        """Yield every message of the table."""
        return self._stored(check, self._all, ())

    def _stored(self, check: Check, statement: PreparedStatement, values: Sequence[object]) -> Iterator[StoredMessage]:
        return filter(None, map(reading.stored_message, self.pages(check, statement, values)))
