"""An outbox file in memory that behaves as the disk does: what is committed survives, what is not does not."""

# ruff: noqa: D102 - what stands in for a library is named after it

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from producers import tables
from producers.database import Database
from producers.errors import OutboxBusyError, OutboxFullError

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World


@cache
def _empty() -> bytes:
    """Return a file of the newest version without rows."""
    connection = sqlite3.connect(":memory:")
    for step in tables.MIGRATIONS:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {tables.VERSION}")
    return connection.serialize()


class Disk:
    """One file."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.deserialize(_empty())
        self.synced = _empty()
        """What is on disk whatever happens, where commits are not flushed (a defence switched off)."""
        self.backup: bytes | None = None

    def restore(self, content: bytes) -> None:
        """Replace the file by an older copy."""
        self.connection.close()
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.deserialize(content)


class SimDatabase(Database):
    """Production's database with the file and its faults replaced."""

    def __init__(self, world: "World", process: "Process", disk: Disk) -> None:
        super().__init__(Path("simulated"))
        self._world = world
        self._process = process
        self._disk = disk
        self.in_transaction = False

    def open(self) -> None:
        """Nothing to do: the file is there."""

    def connection(self) -> sqlite3.Connection:
        return self._disk.connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        self._process.touch("begin")
        world = self._world
        if world.chaos and world.chance.happens("busy", world.faults.outbox_busy):
            raise OutboxBusyError("the outbox was locked for too long", "")
        if world.chaos and world.chance.happens("full", world.faults.outbox_full):
            raise OutboxFullError("no room left", "")
        connection = self._disk.connection
        connection.execute("BEGIN IMMEDIATE")
        self.in_transaction = True
        try:
            yield connection
            self._process.touch("before commit")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        finally:
            self.in_transaction = False
        self._generation += 1
        self._process.touch("after commit")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        yield self._disk.connection

    def notify(self) -> None:
        self._generation += 1

    def wait_for_change(self, generation: int, timeout_s: float) -> None:
        """Return at once: time passes between turns."""
