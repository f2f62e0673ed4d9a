"""The outbox's single values: whose it is, its install, what is known of the log's clock."""

import json
import secrets
import sqlite3

from producers.clock import Estimate
from producers.errors import OutboxError


def get(connection: sqlite3.Connection, name: str) -> object:
    """Return a value of `meta`, None where there is none."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def put(connection: sqlite3.Connection, name: str, value: object) -> None:
    """Set a value of `meta`."""
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))


def get_install(connection: sqlite3.Connection) -> bytes:
    """Return the id of this outbox's install."""
    install = get(connection, "install")
    if not isinstance(install, bytes):
        raise OutboxError("the outbox has no install id", "The file is no outbox, or damaged: restore or remove it.")
    return install


def start_install(connection: sqlite3.Connection) -> bytes:
    """Start a new install, whose running numbers begin at 1 again; return its id."""
    install = secrets.token_bytes(16)
    put(connection, "install", install)
    connection.execute("DELETE FROM sequences")
    return install


def get_estimate(connection: sqlite3.Connection) -> Estimate | None:
    """Return what is known of the log's clock."""
    text = get(connection, "clock")
    return Estimate(*json.loads(text)) if isinstance(text, str) else None


def put_estimate(connection: sqlite3.Connection, estimate: Estimate) -> None:
    """Keep what is known of the log's clock, for this process and others."""
    put(connection, "clock", json.dumps(estimate))


def get_gap_end(connection: sqlite3.Connection) -> int | None:
    """Return the inbox offset up to which answers may be older than a gap, None where there is no gap."""
    end = get(connection, "gap_end")
    return end if isinstance(end, int) else None


def put_gap_end(connection: sqlite3.Connection, end: int | None) -> None:
    """Keep it, for a listener that begins anew."""
    put(connection, "gap_end", end)
