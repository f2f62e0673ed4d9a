"""The hot configuration in a SQLite store's file."""

import json
from collections.abc import Sequence
from typing import Any, Final

from consumers.hot.contract import NOTHING, SCOPE, ConfigVersion
from consumers.stores.sqlite_shared import SharedConnection

_READ: Final = (
    "SELECT version, settings, changed_key, changed_at, changed_by, fence FROM config WHERE scope = ?"
    " ORDER BY version DESC LIMIT ?"
)
_NEWEST: Final = "SELECT coalesce(max(version), 0), coalesce(max(fence), 0) FROM config WHERE scope = ?"


class SqliteConfigTable:
    """`ConfigTable` on a SQLite file."""

    def __init__(self, shared: SharedConnection) -> None:
        self._shared = shared

    def newest(self) -> int:
        """Return the newest version's number."""
        return int(self._shared.fetch(_NEWEST, (SCOPE,))[0][0])

    def read(self) -> ConfigVersion:
        """Return the newest version."""
        return next(iter(self.history(1)), NOTHING)

    def history(self, limit: int) -> Sequence[ConfigVersion]:
        """Return the newest versions, newest first."""
        return [_version(row) for row in self._shared.fetch(_READ, (SCOPE, limit))]

    def append(self, change: ConfigVersion) -> bool:
        """Add the version after the newest."""
        settings = json.dumps(dict(change.values), sort_keys=True)
        with self._shared.transaction() as connection:
            newest, fence = connection.execute(_NEWEST, (SCOPE,)).fetchone()
            if newest + 1 != change.version or fence > change.token:
                return False
            connection.execute(
                "INSERT INTO config (scope, version, fence, settings, changed_key, changed_at, changed_by)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (SCOPE, change.version, change.token, settings, change.key, change.changed_at, change.changed_by),
            )
        return True


def _version(row: tuple[Any, ...]) -> ConfigVersion:
    version, settings, *more = row
    return ConfigVersion(version, json.loads(settings), *more)
