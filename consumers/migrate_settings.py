"""What `twotick migrate` makes topics and the keyspace with."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from schemas.topics import PARTITIONS_LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSettings:
    """How topics and the keyspace are made; what is there already is never altered."""

    partitions: int = PARTITIONS_LOCAL
    """Partitions of each topic, fixed once it is in use; many more than there will be workers, 64 in production."""
    topic_replication: int = 1
    """Copies of each topic; 3 in production."""
    keyspace_replication: tuple[str, ...] = ("datacenter1=1",)
    """Cassandra: copies of each row in each data centre, as `name=number`; 3 in production."""
    lock_wait_s: float = 180.0
    """Longest wait for another node that migrates the tables at the same time; one that died holds it for 120 s."""

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises ValueError."""
        if self.partitions < 1 or self.topic_replication < 1:
            raise ValueError("partitions and topic_replication must be at least 1")
        if not 0 <= self.lock_wait_s < inf:
            raise ValueError("lock_wait_s must not be negative")
        if not self.copies():
            raise ValueError("keyspace_replication names no data centre")

    def copies(self) -> Mapping[str, int]:
        """Return the number of copies by data centre. Raises ValueError."""
        copies = {}
        for entry in self.keyspace_replication:
            datacenter, _, number = entry.partition("=")
            if not datacenter or not number.isdecimal() or int(number) < 1:
                raise ValueError(f"keyspace_replication: {entry!r} is not `name=number`")
            copies[datacenter] = int(number)
        return copies
