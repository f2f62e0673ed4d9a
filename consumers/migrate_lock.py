"""The lock under which tables are changed: a row with a time to live, written with conditions only.

The lock's own table is the one that several nodes may make at the same time, so its id is a function of the keyspace:
Cassandra takes two tables of one name with different ids for two tables. An outcome that is unknown, or a "not
applied" that is our own, is settled by a SERIAL read of the holder.
"""

import logging
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import random
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from cassandra import ConsistencyLevel
from cassandra.cluster import Session
from cassandra.query import SimpleStatement

from consumers.errors import StoreUnavailableError
from consumers.stores.cassandra_errors import ERRORS, outcome_is_unknown, translated, translating

LOG = logging.getLogger(__name__)

TTL_S: Final = 120
"""What a node that died leaves behind ends by itself after this; a holder renews it before each migration."""
POLL_S: Final = 0.25
RELEASE_TRIES: Final = 5

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS {keyspace}.schema_lock (name text PRIMARY KEY, holder uuid, node text)"
    " WITH id = {table_id} AND comment = 'who migrates the tables right now'"
)
_TAKE: Final = (
    "INSERT INTO {keyspace}.schema_lock (name, holder, node) VALUES ('tables', %s, %s) IF NOT EXISTS USING TTL {ttl}"
)
_RENEW: Final = (
    "UPDATE {keyspace}.schema_lock USING TTL {ttl} SET holder = %s, node = %s WHERE name = 'tables' IF holder = %s"
)
_RELEASE: Final = "DELETE FROM {keyspace}.schema_lock WHERE name = 'tables' IF holder = %s"
_HOLDER: Final = "SELECT holder, node FROM {keyspace}.schema_lock WHERE name = 'tables'"


def lock_table(keyspace: str) -> str:
    """Return the statement that makes the lock's table; `keyspace` is quoted where it must be."""
    return _TABLE.format(keyspace=keyspace, table_id=uuid5(NAMESPACE_URL, f"twotick/{keyspace}"))


class SchemaLock:
    """The lock of one keyspace."""

    def __init__(
        self,
        session: Session,
        keyspace: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._keyspace = keyspace
        self._sleep = sleep
        self._monotonic = monotonic

    @contextmanager
    def held(self, wait_s: float) -> Iterator[Callable[[], None]]:
        """Hold the lock; what is yielded renews it, or raises StoreUnavailableError where it was lost.

        Raises StoreUnavailableError where it is not had within `wait_s`.
        """
        holder = uuid4()

        def renew() -> None:
            if not self._write(_RENEW, (holder, platform.node(), holder), holder):
                raise StoreUnavailableError("the migration lock was lost: this node stood still", "Migrate again.")

        try:
            self._take(holder, self._monotonic() + wait_s)
            yield renew
        finally:
            # Also where it was not had: an attempt whose outcome nobody heard may have taken it.
            self._release(holder)

    def _take(self, holder: UUID, deadline: float) -> None:
        """Wait until it is ours; a server that does not answer meanwhile is waited for too."""
        while True:
            try:
                # A plain look first: conditional writes of all who wait would only stand in each other's way.
                found = self._standing()
                ours = found[0][0] == holder if found else self._write(_TAKE, (holder, platform.node()), holder)
                if ours:
                    return
                standing: StoreUnavailableError | None = None
            except StoreUnavailableError as error:
                LOG.warning("the migration lock: no answer", extra={"error": error.message})
                standing = error
            if self._monotonic() > deadline:
                raise standing or StoreUnavailableError(
                    f"the tables of {self._keyspace} are being migrated by {self._node()}",
                    f"Wait for it; what it leaves behind if it dies is free after {TTL_S} s.",
                )
            self._sleep(POLL_S * (0.5 + random()))  # noqa: S311 - spread, no secret

    def _write(self, query: str, values: Sequence[object], holder: UUID) -> bool:
        try:
            if self._session.execute(self._statement(query), values).was_applied:
                return True
        except ERRORS as error:
            if not outcome_is_unknown(error):
                raise translated(error, "the migration lock") from error
        found = self._standing(ConsistencyLevel.SERIAL)
        return bool(found) and found[0][0] == holder

    def _release(self, holder: UUID) -> None:
        """Give it back; tried again, because all who wait would else wait until it ends by itself."""
        for left in reversed(range(RELEASE_TRIES)):
            try:
                self._session.execute(self._statement(_RELEASE), (holder,))
            except ERRORS as error:
                extra = {"error": str(error), "tries_left": left, "ends_by_itself_after_s": TTL_S}
                LOG.warning("the migration lock could not be released", extra=extra)
                self._sleep(POLL_S)
            else:
                return

    def _node(self) -> str:
        found = self._standing()
        return str(found[0][1]) if found else "nobody any more"

    def _standing(self, consistency: int = ConsistencyLevel.QUORUM) -> list[tuple[Any, ...]]:
        with translating("the migration lock"):
            return list(self._session.execute(self._statement(_HOLDER, consistency)))

    def _statement(self, query: str, consistency: int = ConsistencyLevel.QUORUM) -> SimpleStatement:
        """Return a statement across data centres: the tables are theirs together."""
        return SimpleStatement(
            query.format(keyspace=self._keyspace, ttl=TTL_S),
            consistency_level=consistency,
            serial_consistency_level=ConsistencyLevel.SERIAL,
        )
