"""What is done to whom and when: a pure function of the seed, so a seed repeats the schedule.

Three lines of acts run beside each other, each in its own order: kills of processes, pauses of processes, and what is
done to servers, disks, clocks and to the deployment as a whole.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from random import Random
from typing import Final, NamedTuple


class Deed(StrEnum):
    """Something that is done to a deployment."""

    KILL_WORKER = "worker killed"
    KILL_WORKER_AFTER_ROWS = "worker killed right after its rows were durable"
    KILL_WORKER_AFTER_LEASE = "worker killed right after it claimed a lease"
    KILL_SUPERVISOR = "supervisor killed, and with its life line gone its worker drains"
    KILL_CLIENT = "client killed"
    KILL_CLIENT_AFTER_SEND = "client killed right after send returned"
    PAUSE_WORKER = "worker paused past its session"
    PAUSE_CLIENT = "client paused"
    KILL_KAFKA = "Kafka killed and started"
    RESTART_KAFKA = "Kafka stopped in good order and started"
    PAUSE_KAFKA = "Kafka paused"
    KILL_CASSANDRA = "Cassandra killed and started"
    RESTART_CASSANDRA = "Cassandra stopped in good order and started"
    PAUSE_CASSANDRA = "Cassandra paused"
    KILL_BOTH = "Kafka and Cassandra killed at once and started"
    FILL_DISK = "no room left on a client's disk"
    SHIFT_CLOCK = "a worker's clock is wrong"
    ROLLING_RESTART = "all workers restarted one after another"
    DOUBLE_MEMBER = "a second worker with the static member id of another"
    ADD_PARTITIONS = "events topic given more partitions"


KILLS: Final = (
    Deed.KILL_WORKER,
    Deed.KILL_CLIENT_AFTER_SEND,
    Deed.KILL_WORKER_AFTER_ROWS,
    Deed.KILL_CLIENT,
    Deed.KILL_WORKER,
    Deed.KILL_WORKER_AFTER_LEASE,
    Deed.KILL_SUPERVISOR,
)
PAUSES: Final = (Deed.PAUSE_WORKER, Deed.PAUSE_CLIENT)
PAUSE_S_MAX: Final = 26.0
"""Past every time-out that this deployment has set: sessions, polls, lease checks, drains, a client's longest wait."""
LARGE: Final = (
    Deed.KILL_KAFKA,
    Deed.KILL_CASSANDRA,
    Deed.FILL_DISK,
    Deed.KILL_BOTH,
    Deed.ROLLING_RESTART,
    Deed.SHIFT_CLOCK,
    Deed.PAUSE_CASSANDRA,
    Deed.DOUBLE_MEMBER,
    Deed.PAUSE_KAFKA,
    Deed.RESTART_KAFKA,
    Deed.RESTART_CASSANDRA,
)
"""In the order of their first turn, so that a short run has seen the worst; after that the seed shuffles them."""
ADDING_S_MIN: Final = 120.0
"""A shorter run has no time for a change of the partition count."""
ONE_NODE: Final = (Deed.KILL_KAFKA, Deed.KILL_CASSANDRA)
"""All that is done to servers of which there are several: one node of each kind, in turn."""

DISTURBING: Final = frozenset({
    Deed.KILL_KAFKA,
    Deed.RESTART_KAFKA,
    Deed.PAUSE_KAFKA,
    Deed.KILL_CASSANDRA,
    Deed.RESTART_CASSANDRA,
    Deed.PAUSE_CASSANDRA,
    Deed.KILL_BOTH,
    Deed.ROLLING_RESTART,
    Deed.ADD_PARTITIONS,
})  # fmt: skip
"""A partition's way to its next owner takes longer while one of these lasts."""

_WORKER_DEEDS: Final = frozenset({*KILLS, *PAUSES} - {Deed.KILL_CLIENT, Deed.KILL_CLIENT_AFTER_SEND, Deed.PAUSE_CLIENT})


class Act(NamedTuple):
    """One deed, at its time."""

    at_s: float
    """After the start."""
    deed: Deed
    target: int
    """Which worker, client or server node, counted from 0."""
    seconds: float
    """How long it lasts, where it lasts."""


class Cast(NamedTuple):
    """How many there are of each."""

    machines: int
    clients: int
    nodes: int = 1
    """Of each kind of server."""


class Schedule(NamedTuple):
    """All acts of a run, by line."""

    kills: Sequence[Act]
    pauses: Sequence[Act]
    large: Sequence[Act]
    last: Sequence[Act]
    """What begins when all others are over."""

    @property
    def lines(self) -> tuple[Sequence[Act], ...]:
        """Those that run beside each other."""
        return (self.kills, self.pauses, self.large)


def schedule(seed: int, seconds: float, cast: Cast) -> Schedule:
    """Return the acts of a run that lasts for `seconds`; none begins in its last tenth but the change of partitions."""
    end_s = 0.9 * seconds
    return Schedule(
        list(_line(Random(f"{seed} kills"), KILLS, end_s, cast, first_s=5.0, gap_s=8.0)),
        list(_line(Random(f"{seed} pauses"), PAUSES, end_s, cast, first_s=9.0, gap_s=36.0)),
        list(_line(Random(f"{seed} large"), _large(cast), end_s, cast, first_s=12.0, gap_s=45.0)),
        [Act(end_s, Deed.ADD_PARTITIONS, 0, 0.0)] if seconds >= ADDING_S_MIN else [],
    )


def _large(cast: Cast) -> Sequence[Deed]:
    return LARGE if cast.nodes == 1 else ONE_NODE


def _line(
    random: Random, deeds: Sequence[Deed], end_s: float, cast: Cast, *, first_s: float, gap_s: float
) -> Iterator[Act]:
    """Yield one line's acts: every deed once in the given order, then in rounds that are shuffled."""
    at_s, turn = first_s, list(deeds)
    count = 0
    while at_s < end_s:
        if not turn:
            turn = random.sample(deeds, len(deeds))
        deed = turn.pop(0)
        longest_s = PAUSE_S_MAX if deed in PAUSES else 16.0
        yield Act(round(at_s, 1), deed, _target(random, deed, cast, count), round(random.uniform(8.0, longest_s), 1))
        at_s += random.uniform(0.6, 1.4) * gap_s
        count += 1


def _target(random: Random, deed: Deed, cast: Cast, count: int) -> int:
    if cast.nodes > 1 and deed in ONE_NODE:
        return count // len(ONE_NODE) % cast.nodes  # each node in turn
    if deed in _WORKER_DEEDS or deed in {Deed.SHIFT_CLOCK, Deed.DOUBLE_MEMBER}:
        return random.randrange(cast.machines)
    if deed is Deed.FILL_DISK:
        return 0
    return random.randrange(cast.clients)
