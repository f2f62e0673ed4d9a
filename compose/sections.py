"""The sections of the settings that belong to no room: which store, and which stack on this machine."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import platformdirs

StackKind = Literal["embedded", "local", "none"]


def data_folder() -> Path:
    """Return where this user's data goes unless a setting says otherwise (XDG_DATA_HOME)."""
    return Path(platformdirs.user_data_dir("twotick"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where workers keep messages."""

    kind: Literal["sqlite", "cassandra"] = "sqlite"
    """`sqlite` for workers on one machine, `cassandra` for as many as you like."""
    path: Path = field(default_factory=lambda: data_folder() / "store.sqlite")
    """SQLite: the file. All workers open the same one; it must not be on a network file system."""
    contact_points: tuple[str, ...] = ("127.0.0.1",)
    """Cassandra: hosts to ask first for the others."""
    port: int = 9042
    """Cassandra: the port of the native protocol."""
    keyspace: str = "twotick"
    """Cassandra: the keyspace of all tables."""
    datacenter: str = "datacenter1"
    """Cassandra: the data centre whose nodes this process talks to (LOCAL_QUORUM)."""
    replication: int = 1
    """Cassandra: copies of each row in a data centre when `twotick migrate` makes the keyspace; 3 in production."""
    username: str = ""
    """Cassandra: empty for no authentication."""
    password: str = ""
    """Cassandra: better `password_file`, the file that holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """The servers that `twotick up` runs on this machine."""

    kind: StackKind = "local"
    """`local`: Kafka and Cassandra from their jars; `embedded`: an in-process broker and SQLite."""
    folder: Path = field(default_factory=lambda: data_folder() / "stack")
    """All of the stack's data, logs and jars."""
