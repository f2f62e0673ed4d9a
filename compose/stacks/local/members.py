"""Which servers a stack is made of: their names, numbers and addresses, and which may start beside each other. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from compose.stacks.errors import StackError
from compose.stacks.local.cassandra import CassandraNode
from compose.stacks.local.kafka import KafkaNode
from compose.stacks.local.node import NODES_MAX, LocalSettings
from compose.stacks.local.ports import LOOPBACK

NodeKind = type[KafkaNode] | type[CassandraNode]

_SHARED_PURPOSES: Final = frozenset({"native", "storage"})


@dataclass(frozen=True, slots=True)
class Member:
    """One server of a stack."""

    name: str
    """`kafka` where it is the only one, else `kafka-2`."""
    kind: NodeKind
    number: int
    """From 1."""

    @property
    def host(self) -> str:
        """Its loopback address: Cassandra's nodes have the same ports, so each has an address of its own."""
        return f"127.0.0.{self.number}" if self.kind is CassandraNode else LOOPBACK

    def shares_port(self, purpose: str) -> bool:
        """Say whether this port is the one that the first node of its kind has."""
        return self.number > 1 and purpose in _SHARED_PURPOSES


def members(settings: LocalSettings) -> Sequence[Member]:
    """Return all servers of a stack, Kafka's first."""
    return (*_of_kind(KafkaNode, settings.kafka_nodes), *_of_kind(CassandraNode, settings.cassandra_nodes))


def possible_members() -> Sequence[Member]:
    """Return every server that a stack has under any settings, Kafka's first."""
    most = LocalSettings(kafka_nodes=NODES_MAX, cassandra_nodes=NODES_MAX)
    return (*members(LocalSettings()), *members(most))


def waves(settings: LocalSettings) -> Iterator[Sequence[Member]]:
    """Yield who may start beside each other: all of Kafka and one Cassandra, then one Cassandra after the other.

    Kafka's nodes need each other to elect a controller; a Cassandra node joins a ring that stands still.
    """
    everyone = members(settings)
    kafka = [member for member in everyone if member.kind is KafkaNode]
    first, *others = (member for member in everyone if member.kind is CassandraNode)
    yield [*kafka, first]
    for member in others:
        yield [member]


def member_named(settings: LocalSettings, name: str) -> Member:
    """Return the server of a name. Raises StackError where there is none."""
    found = {member.name: member for member in members(settings)}
    if name not in found:
        raise StackError(f"there is no server named {name!r}", hint=f"servers: {', '.join(found)}")
    return found[name]


def first_of(settings: LocalSettings, kind: NodeKind) -> Member:
    """Return the first server of a kind."""
    return next(member for member in members(settings) if member.kind is kind)


def _of_kind(kind: NodeKind, count: int) -> Iterator[Member]:
    for number in range(1, count + 1):
        yield Member(kind.kind if count == 1 else f"{kind.kind}-{number}", kind, number)
