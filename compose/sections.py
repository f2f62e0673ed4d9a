"""The sections of the settings that belong to no room: which store, and the servers on this machine."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import platformdirs

from compose.stacks.local import LocalSettings
from consumers.stores.settings import CassandraSettings


def data_folder() -> Path:
    """Return where this user's data goes unless a setting says otherwise (XDG_DATA_HOME)."""
    return Path(platformdirs.user_data_dir("twotick"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where workers keep messages."""

    kind: Literal["sqlite", "cassandra"] = "sqlite"
    """`sqlite` for workers on one machine, `cassandra` for as many as you like."""
    mode: Literal["stamps", "strict"] = "stamps"
    """Cassandra: how rows are written. `strict` makes each write conditional on the row's version, for deployments in
    which someone else writes the rows too, at a tenth of the speed or less. A keyspace keeps its mode for good."""
    path: Path = field(default_factory=lambda: data_folder() / "store.sqlite")
    """SQLite: the file. All workers open the same one; it must not be on a network file system."""
    cassandra: CassandraSettings = field(default_factory=CassandraSettings)
    """Cassandra: where it is and how it is used."""

    def __post_init__(self) -> None:
        """Raise ValueError for a mode that the store does not have."""
        if self.mode == "strict" and self.kind == "sqlite":
            raise ValueError("mode strict is Cassandra's; SQLite checks each write in its transaction by itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """The servers that `twotick up` runs on this machine."""

    folder: Path = field(default_factory=lambda: data_folder() / "local")
    """All of their data, logs and ports."""
    local: LocalSettings = field(default_factory=LocalSettings)
    """How they are sized and run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSettings:
    """Who sends and receives from this machine's command line."""

    name: str = ""
    """The user where no `--as` says another."""
    outboxes: Path = field(default_factory=lambda: data_folder() / "outboxes")
    """The folder of the users' outbox files."""
