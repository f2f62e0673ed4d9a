"""How a keyspace's rows are written, recorded in it once: the two ways must never meet.

A cell written under a stamp and one written by a conditional statement carry times from different clocks, so whichever
is larger would stay, be it the older.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from consumers.errors import StoreRefusedError
from consumers.stores.cassandra_conditional import apply, read_serially

WriteMode = Literal["stamps", "strict"]

_NAME: Final = "write_mode"
_READ: Final = "SELECT value FROM {keyspace}.keyspace_facts WHERE name = ?"
_RECORD: Final = "INSERT INTO {keyspace}.keyspace_facts (name, value) VALUES (?, ?) IF NOT EXISTS"
_USED: Final = "SELECT log_partition FROM {keyspace}.partition_leases LIMIT 1"


def settle_mode(session: Session, keyspace: str, wanted: WriteMode) -> None:
    """Record how the keyspace is written where nobody has yet; raise StoreRefusedError where it is another way.

    A keyspace that had owners before this was recorded is written under stamps: there was no other way then.
    """
    read, record = (session.prepare(query.format(keyspace=keyspace)) for query in (_READ, _RECORD))
    found = _read(session, read)
    if not found:
        used = list(session.execute(_USED.format(keyspace=keyspace)))
        first: WriteMode = "stamps" if used else wanted
        apply(session, record, (_NAME, first), "the record of how rows are written")
        found = _read(session, read)
    if not found or found[0][0] != wanted:
        stands = found[0][0] if found else "nothing"
        raise StoreRefusedError(
            f"keyspace {keyspace} is written in mode {stands}, not {wanted}",
            hint=f"Set store.mode to {stands}; another mode ({' or '.join(get_args(WriteMode))}) takes a new keyspace.",
        )


def _read(session: Session, read: PreparedStatement) -> Sequence[tuple[Any, ...]]:
    return read_serially(session, read, (_NAME,), "how rows are written")
