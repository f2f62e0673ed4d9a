"""The simulated store of one machine: production's SQLite store on a file in memory that several processes share."""

# ruff: noqa: D102 - what stands in for a library is named after it

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from consumers.errors import StoreUnavailableError
from consumers.rows import ConversationRow, ConversationWrite, MessageWrite, Owner
from consumers.stores.contract import Done, Lease, MessageKey, Pending, Rows, StoredMessage
from consumers.stores.sqlite import SqliteStore
from consumers.stores.sqlite_schema import MIGRATIONS
from consumers.stores.sqlite_writer import QueuedWrite, SqliteWrite, SqliteWriter

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

_FILE = Path("simulated")


@cache
def _empty() -> bytes:
    """Return a file of the newest version without rows."""
    connection = sqlite3.connect(":memory:")
    for script in MIGRATIONS:
        connection.executescript(script)
    return connection.serialize()


def open_file() -> sqlite3.Connection:
    """Return a connection to a new file in memory, with production's tables."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(_empty())
    return connection


class SqliteShelf:
    """The file, and what is asked about it after a run."""

    has_late = False

    def __init__(self, world: "World") -> None:
        self.connection = open_file()
        self._world = world
        self._reader = _Reader(self.connection)

    def session(self, process: "Process") -> "SqliteSession":
        return SqliteSession(self._world, process, self.connection)

    def land_late(self) -> None:
        """Nothing is ever late: what is committed is there."""

    def version(self, key: MessageKey) -> int:
        found = self._reader.read([key], []).messages.get(key)
        return found.version if found is not None else 0

    def stored(self) -> list[StoredMessage]:
        return list(self._reader.all_messages())

    def conversation_rows(self) -> list[ConversationRow]:
        return list(self._reader.all_conversations())

    def keeps_something(self) -> bool:
        return self.connection.execute("SELECT 1 FROM pending_deliveries LIMIT 1").fetchone() is not None


class _Writer(SqliteWriter):
    """Production's writer without its thread: the world says when it commits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, _FILE)
        self.writes: list[QueuedWrite] = []

    def submit(self, write: SqliteWrite, done: Done) -> None:
        self.writes.append(QueuedWrite(write, done))

    def commit(self, count: int) -> None:
        writes, self.writes = self.writes[:count], self.writes[count:]
        self._commit(writes)

    def fail(self, count: int) -> None:
        writes, self.writes = self.writes[:count], self.writes[count:]
        for write in writes:
            write.done(StoreUnavailableError("SQLite cannot lock the file, or the disk is full"))


class _Reader(SqliteStore):
    """Asks without any fault."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(_FILE, connection, _Writer(connection), lambda: 0, 0.0)


class SqliteSession(SqliteStore):
    """One worker's store: each call may find the file locked, or be its process's last."""

    def __init__(self, world: "World", process: "Process", connection: sqlite3.Connection) -> None:
        self._world = world
        self._process = process
        self._queue = _Writer(connection)
        super().__init__(_FILE, connection, self._queue, process.wall_ms, 0.0)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self._process.touch("store")
        world = self._world
        if world.store_is_down() or (world.chaos and world.chance.happens("store busy", world.faults.read_fails)):
            raise StoreUnavailableError("SQLite cannot lock the file")
        with super()._reading() as connection:
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with super()._transaction() as connection:
            yield connection
        self._process.touch("store committed")

    def read(self, messages: Sequence[MessageKey], conversations: Sequence[str]) -> Rows:
        found = super().read(messages, conversations)
        shown = self._world.shown
        return Rows({key: shown(row) for key, row in found.messages.items()}, found.conversations)

    def write(
        self,
        owner: Owner,
        messages: Sequence[MessageWrite],
        conversations: Sequence[ConversationWrite],
        done: Done,
        *,
        partition: int | None = None,
    ) -> None:
        self._process.touch("write")
        told = self._watched(owner, partition, done)
        super().write(owner, messages, conversations, told, partition=partition)

    def spill(self, owner: Owner, partition: int, bucket: int, pending: Sequence[Pending], done: Done) -> None:
        self._process.touch("spill")
        super().spill(owner, partition, bucket, pending, self._watched(owner, partition, done))

    def _watched(self, owner: Owner, partition: int | None, done: Done) -> Done:
        """Have the world told where a fenced owner's write was taken."""
        select = "SELECT epoch FROM partition_leases WHERE log_partition = ?"

        def told(error: Exception | None) -> None:
            if error is None:
                lease = self._queue._connection.execute(select, (partition,)).fetchone()
                self._world.saw_write(partition, owner, lease[0] if lease else 0)
            done(error)

        return told

    def spilled(self, partition: int, bucket: int) -> Iterator[Pending]:
        held = list(super().spilled(partition, bucket))
        self._process.worst_moment("bucket read")
        return iter(held)

    def drop_spilled(self, owner: Owner, partition: int, bucket: int) -> None:
        super().drop_spilled(owner, partition, bucket)
        self._world.note(self._process.name, "drop", partition, bucket)

    def claim_lease(self, partition: int, node: str) -> Lease:
        lease = super().claim_lease(partition, node)
        self._world.note(self._process.name, "claim", partition, lease.epoch)
        return lease

    @property
    def under_way(self) -> int:
        return len(self._queue.writes)

    def advance(self) -> None:
        """Let the writer commit some of what is queued, or fail to."""
        world, chance = self._world, self._world.chance
        count = chance.whole("group commit", 1, len(self._queue.writes))
        fails = world.store_is_down() or (world.chaos and chance.happens("commit fails", world.faults.write_fails))
        if fails:
            self._queue.fail(count)
        else:
            self._queue.commit(count)
        world.note(self._process.name, "commits" if not fails else "cannot commit", count)

    def die(self) -> None:
        """Forget what was not committed; SQLite keeps what was."""
        self._queue.writes.clear()
