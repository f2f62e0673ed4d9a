"""What a simulated world leaves behind, as the checker takes it."""

from collections import defaultdict
from typing import TYPE_CHECKING

from compose.checking.history import History, Logged, Own, Receipt, Sent, Taken
from consumers.intake import Intake
from consumers.rows import At
from schemas.topics import VALUE_BYTES_MAX
from tests.simulation.client import CODEC, Client
from tests.simulation.worker import OPERATOR, POLICY
from tests.simulation.world import SETTLED_WITHIN_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world import World


def gather(world: "World") -> History:
    """Read everything."""
    return History(
        sent=[Sent(client.user, *each) for client in world.clients for each in client.sent.items()],
        own=[own for client in world.clients for own in _own(client)],
        stored=world.shelf.stored(),
        taken=list(dict.fromkeys(taken for client in world.clients for taken in _taken(client))),
        conversations=world.shelf.conversation_rows(),
        log=list(_log(world)),
        receipts=[Receipt(client.user, *each) for client in world.clients for each in sorted(client.receipts)],
        answers=world.answers,
        forgotten=frozenset((client.user, each) for client in world.clients for each in client.forgotten),
        late_writes=world.late_writes,
        policy=POLICY,
        settled_within_s=SETTLED_WITHIN_S,
    )


def _own(client: Client) -> "Iterator[Own]":
    connection = client.disk.connection
    ticks: defaultdict[bytes, list[str]] = defaultdict(list)
    for message_id, state in connection.execute("SELECT message_id, state FROM ticks ORDER BY tick"):
        ticks[message_id].append(state)
    for message_id, first_id, state in connection.execute(
        "SELECT message_id, ifnull(first_id, message_id), state FROM messages ORDER BY position"
    ):
        yield Own(client.user, message_id, first_id, state, tuple(ticks[message_id]))


def _taken(client: Client) -> "Iterator[Taken]":
    for message_id, body in client.disk.connection.execute("SELECT message_id, body FROM deliveries ORDER BY arrival"):
        yield Taken(client.user, message_id, body)


def _log(world: "World") -> "Iterator[Logged]":
    admit = Intake(CODEC.decode, VALUE_BYTES_MAX, (OPERATOR,)).admit
    for partition in world.events:
        for record in partition.records:
            entry = admit(record.offset(), record.timestamp()[1], record.key(), record.value())
            if entry.event is not None:
                yield Logged(At(1, partition.number, record.offset(), record.timestamp()[1]), entry.event)
