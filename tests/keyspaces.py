"""Keyspaces that tests have made: dropped where the stack was lent; one of the run's own goes as a whole.

To drop one costs Cassandra about as much as to make it, some twenty times a run, and more keyspaces cost it nothing.
"""

import os

from cassandra.cluster import Session


def forget(session: Session, keyspace: str) -> None:
    """Drop a keyspace that nobody needs any more, if the Cassandra will outlive this run."""
    if os.environ.get("TWOTICK_TEST_STACK"):
        session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}", timeout=60)
