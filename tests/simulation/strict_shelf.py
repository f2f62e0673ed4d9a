"""The simulated store in strict mode: production's conditional writer, judging and leases on a simulated Cassandra."""

# ruff: noqa: D102 - what stands in for a library is named after it

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from consumers.rows import ConversationRow, ConversationWrite, MessageRow, MessageWrite, Owner
from consumers.stores import cassandra_found
from consumers.stores.cassandra_conditional import Leases
from consumers.stores.cassandra_found import uuid_of
from consumers.stores.cassandra_strict import StrictWriter
from consumers.stores.contract import Content, Done, Lease, MessageKey, Rows, StoredMessage
from schemas.identity import bucket_of
from tests.simulation.cassandra import Cassandra, Found, Session
from tests.simulation.cql import Select, parsed
from tests.simulation.shelf import Shelf, StoreSession

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

_STORED: Final = f"SELECT {cassandra_found.STORED_COLUMNS} FROM k.messages WHERE conversation_id = ? AND bucket = ?"
_MESSAGE: Final = f"{_STORED} AND message_id = ?"
_CONVERSATION: Final = f"SELECT {cassandra_found.CONVERSATION_COLUMNS} FROM k.conversations WHERE conversation_id = ?"
_BATCH_BYTES_MAX: Final = 1_500
_PARTITIONS_IN_FLIGHT_MAX: Final = 2


class StrictShelf(Shelf):
    """Rows and leases are Cassandra's; kept deliveries are as under stamps."""

    def __init__(self, world: "World", *, by_epoch: bool) -> None:
        super().__init__(world, by_epoch=by_epoch)
        self.server = Cassandra(world.chance)

    def session(self, process: "Process") -> "StrictSession":
        return StrictSession(self.world, process, self)

    @property
    def has_late(self) -> bool:
        return bool(self.server.late or self.late)

    def land_late(self) -> None:
        if self.server.late:
            self.server.land_late(self.world.node_ms())
        else:
            super().land_late()

    def _select(self, text: str, values: Sequence[object]) -> Found:
        what = parsed(text)
        assert isinstance(what, Select)
        return self.server.select(what, values, self.world.node_ms(), serially=False)

    def found(self, key: MessageKey) -> StoredMessage | None:
        """Return a message whole."""
        conversation_id, message_id = key
        found = self._select(_MESSAGE, (conversation_id, bucket_of(message_id), uuid_of(message_id)))
        return cassandra_found.stored_message(found[0]) if found else None

    def row(self, key: MessageKey) -> MessageRow | None:
        found = self.found(key)
        return found.row if found is not None else None

    def conversation(self, conversation_id: str) -> ConversationRow | None:
        found = self._select(_CONVERSATION, (conversation_id,))
        return cassandra_found.conversation_row(found[0]) if found else None

    def conversation_rows(self) -> list[ConversationRow]:
        names = [key[0] for key in self.server.tables.rows.get("conversations", {})]
        return [row for name in names if (row := self.conversation(str(name))) is not None]

    def stored(self) -> list[StoredMessage]:
        keys: list[Any] = list(self.server.tables.rows.get("messages", {}))
        found = [self.found((conversation_id, message_id.bytes)) for conversation_id, _, message_id in keys]
        return [one for one in found if one is not None]


class StrictSession(StoreSession):
    """One worker's store in strict mode."""

    def __init__(self, world: "World", process: "Process", shelf: StrictShelf) -> None:
        super().__init__(world, process, shelf)
        self._rows = shelf
        self._session = Session(world, process, shelf.server)
        self._connect()

    def _connect(self) -> None:
        session: Any = self._session
        self._writer = StrictWriter(session, "k", bytes_max=_BATCH_BYTES_MAX, in_flight_max=_PARTITIONS_IN_FLIGHT_MAX)
        self._leases = Leases(
            session, "k", self._process.wall_ms, sleep=lambda _: None, chance=self._world.chance.stream("leases")
        )

    @property
    def under_way(self) -> int:
        return len(self.operations) + len(self._session.requests)

    def advance(self) -> None:
        if self.operations and (not self._session.requests or self._world.chance.happens("spills first", 0.3)):
            super().advance()
        else:
            self._session.advance()

    def die(self) -> None:
        super().die()
        self._session.die()
        self._connect()

    def read(self, messages: Sequence[MessageKey], conversations: Sequence[str]) -> Rows:
        self._call("read", self._world.faults.read_fails)
        shelf, shown = self._rows, self._world.shown
        rows = {key: shown(row) for key in messages if (row := shelf.row(key)) is not None}
        return Rows(rows, {name: row for name in conversations if (row := shelf.conversation(name)) is not None})

    def contents(self, messages: Sequence[MessageKey]) -> Mapping[MessageKey, Content]:
        self._call("contents", self._world.faults.read_fails)
        return {key: found.content for key in messages if (found := self._rows.found(key)) is not None}

    def write(
        self,
        owner: Owner,
        messages: Sequence[MessageWrite],
        conversations: Sequence[ConversationWrite],
        done: Done,
        *,
        partition: int | None = None,
    ) -> None:
        self._process.touch("write")
        self._writer.write(owner, messages, conversations, done)

    def claim_lease(self, partition: int, node: str) -> Lease:
        lease = self._leases.claim(partition, node)
        self._world.note(self._process.name, "claim", partition, lease.epoch)
        return lease

    def leases(self) -> Sequence[Lease]:
        return self._leases.all()
