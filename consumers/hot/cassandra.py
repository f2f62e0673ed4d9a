"""The hot configuration in Cassandra: a partition of versions whose static cells every change compares."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import uuid4

from cassandra.cluster import Session

from consumers.hot.contract import NOTHING, SCOPE, ConfigVersion
from consumers.stores.cassandra_conditional import apply, read_serially
from consumers.stores.cassandra_errors import translating

_COLUMNS: Final = "version, settings, changed_key, to_unix_timestamp(changed_at), changed_by, changed_with, attempt"
_READ: Final = f"SELECT {_COLUMNS} FROM {{keyspace}}.config WHERE scope = ? LIMIT ?"
_NEWEST: Final = "SELECT DISTINCT newest FROM {keyspace}.config WHERE scope = ?"
_APPEND: Final = (
    "UPDATE {keyspace}.config SET newest = ?, fence = ?, settings = ?, changed_key = ?, changed_at = ?,"
    " changed_by = ?, changed_with = ?, attempt = ? WHERE scope = ? AND version = ? IF newest = ? AND fence "
)


class CassandraConfigTable:
    """`ConfigTable` on Cassandra."""

    def __init__(self, session: Session, keyspace: str, *, check: Callable[[], None] = lambda: None) -> None:
        """Take a session and the keyspace, quoted; `check` raises where they may not be used any more."""
        self._session = session
        self._check = check
        self._read = session.prepare(_READ.format(keyspace=keyspace))
        self._newest = session.prepare(_NEWEST.format(keyspace=keyspace))
        # Two, because no comparison holds for a cell that is not there.
        self._first = session.prepare((_APPEND + "= ?").format(keyspace=keyspace))
        self._next = session.prepare((_APPEND + "<= ?").format(keyspace=keyspace))

    def newest(self) -> int:
        """Return the newest version's number, at the usual consistency."""
        self._check()
        with translating("the configuration's version"):
            found = self._session.execute(self._newest, (SCOPE,)).one()
        return int(found[0]) if found and found[0] is not None else 0

    def read(self) -> ConfigVersion:
        """Return the newest version, serially."""
        return next((version for version, _ in self._versions(1)), NOTHING)

    def history(self, limit: int) -> Sequence[ConfigVersion]:
        """Return the newest versions, newest first."""
        return [version for version, _ in self._versions(limit)]

    def append(self, change: ConfigVersion) -> bool:
        """Add the version after the newest; an unknown outcome is settled by the attempt's id."""
        self._check()
        attempt = uuid4()
        made = (change.key, change.changed_at, change.changed_by, change.token, attempt)
        values = (change.version, change.token, dict(change.values), *made, SCOPE, change.version)
        first = change.version == 1
        conditions = (None, None) if first else (change.version - 1, change.token)
        statement = self._first if first else self._next
        if apply(self._session, statement, (*values, *conditions), "a change of the configuration"):
            return True
        return any(known == attempt for _, known in self._versions(2))

    def _versions(self, limit: int) -> list[tuple[ConfigVersion, Any]]:
        self._check()
        rows = read_serially(self._session, self._read, (SCOPE, limit), "the configuration")
        return [(_version(row), row[-1]) for row in rows if row[0] is not None]


def _version(row: tuple[Any, ...]) -> ConfigVersion:
    version, settings, key, changed_at, changed_by, token, _ = row
    return ConfigVersion(version, dict(settings or {}), key, changed_at, changed_by, token)
