"""What strikes the big world at a step of its scheduler."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tests.simulation.broker import LEADER_SKEW_MS

if TYPE_CHECKING:
    from tests.simulation.world import World


def _crash(world: "World") -> None:
    world.crash(world.chance.pick("crash whom", world.processes))


def _stop(world: "World") -> None:
    worker = world.chance.pick("stop whom", world.workers)
    if worker.alive and not worker.busy and not worker.frozen:
        world.note(worker.name, "stops")
        worker.stop()


def _expel(world: "World") -> None:
    worker = world.chance.pick("expel whom", world.workers)
    if worker.consumer is not None:
        world.note(worker.name, "expelled")
        worker.consumer.expel(world.deafness())


def _fatal(world: "World") -> None:
    if world.producers:
        world.chance.pick("fatal which", world.producers).fatal = True


def _leader(world: "World") -> None:
    partition = world.chance.pick("leader of", world.events)
    partition.leader_ms = world.chance.whole("leader ms", -LEADER_SKEW_MS, LEADER_SKEW_MS)


def _worker_clock(world: "World") -> None:
    off_ms = round(world.faults.worker_clock_off_s_max * 1000)
    world.chance.pick("clock of", world.workers).wall_off_ms = world.chance.whole("worker ms", -off_ms, off_ms)


def _client_clock(world: "World") -> None:
    off_ms = world.chance.whole("client ms", -86_400_000, 86_400_000)
    world.chance.pick("clock of client", world.clients).wall_off_ms = off_ms


def _retention(world: "World") -> None:
    inbox = world.chance.pick("retention of", world.inbox)
    inbox.low = inbox.end


def _store(world: "World") -> None:
    world.store_down_until = world.now + world.chance.pick("store down", (2_000, 20_000))


def _kafka(world: "World") -> None:
    world.kafka_down_until = world.now + world.chance.pick("kafka down", (2_000, 20_000))


def _restore(world: "World") -> None:
    client = world.chance.pick("restored whom", world.clients)
    if not client.busy and not client.frozen:
        world.crash(client)
        client.restore()
        world.note(client.name, "restored from a backup")


def _sync(world: "World") -> None:
    client = world.chance.pick("sync whom", world.clients)
    if not client.busy:
        client.disk.synced = client.disk.connection.serialize()


DEEDS: Final[dict[str, Callable[["World"], None]]] = {
    "crash": _crash,
    "stop": _stop,
    "rebalance": lambda world: world.group.move(),
    "expel": _expel,
    "producer_fatal": _fatal,
    "leader_change": _leader,
    "worker_clock_jump": _worker_clock,
    "client_clock_jump": _client_clock,
    "inbox_retention": _retention,
    "store_outage": _store,
    "kafka_outage": _kafka,
    "backup_restored": _restore,
    "parks": lambda world: world.operator.act(),
    "sync": _sync,
}
"""What strikes at a step of the scheduler, by the name of its odds."""
