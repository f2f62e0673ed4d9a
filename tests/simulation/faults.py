"""What can go wrong in a simulated run and how likely it is; and how large a run is."""

from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Odds between 0 and 1. 0 switches a fault off without changing when the others strike."""

    # at any call that a process makes to Kafka, the store, or its outbox
    crash_in_a_call: float = 0.002
    """The process dies there, and what it had in flight may still land, late, or never."""
    pause_in_a_call: float = 0.003
    """It stands still there, for seconds or past every time-out, while all others go on."""
    pause_at_the_worst: float = 0.01
    """An owner stands still, until others have its partitions, between reading a bucket of deliveries and forgetting
    it."""
    threads_interleave: float = 0.05
    """A client's listener runs in the middle of its pump's turn, or the other way round."""

    # at any step of the scheduler
    crash: float = 0.004
    stop: float = 0.002
    """A worker is asked to stop, drains and leaves."""
    rebalance: float = 0.006
    """A partition is moved to another member."""
    expel: float = 0.004
    """A member is thrown out of the group; others get its partitions."""
    producer_fatal: float = 0.003
    """An idempotent producer turns fatal; the outcome of what it had in flight is unknown."""
    leader_change: float = 0.004
    """A partition's append times jump, also back, within the brokers' clock difference."""
    worker_clock_jump: float = 0.002
    """A worker's wall clock jumps."""
    worker_clock_off_s_max: float = 1_200
    """By up to so much, in s; no odds."""
    client_clock_jump: float = 0.003
    """A client's wall clock jumps by up to a day."""
    inbox_retention: float = 0.004
    """An inbox partition forgets all it holds, read or not."""
    store_outage: float = 0.002
    kafka_outage: float = 0.002
    parks: float = 0.003
    """An operator parks a conversation, or releases one."""
    backup_restored: float = 0.0008
    """An outbox is replaced by an older copy of itself; what was sent since is known to be lost."""

    # when something is about to happen
    expelled_without_knowing: float = 0.5
    """An expelled member goes on reading for a while, as if nothing had happened."""
    write_fails: float = 0.05
    """A write is answered with an error and nothing of it landed."""
    write_lands_unknown: float = 0.05
    """A write is answered with an error though it landed, or lands in part, or lands later."""
    write_lands_twice: float = 0.03
    read_fails: float = 0.02
    claim_fails: float = 0.1
    """A lease is claimed with an error as the answer; half of these claims took place."""
    commit_fails: float = 0.1
    """A commit of positions is answered with an error; half of them took place."""
    question_fails: float = 0.05
    """Kafka does not tell a position or a watermark."""
    outbox_busy: float = 0.01
    outbox_full: float = 0.005
    read_while_paused: float = 0.05
    """A record that was fetched before its partition was paused comes out all the same."""
    revoke_unheld: float = 0.02
    """The group revokes a partition that was never given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large a run is."""

    messages: int = 12
    steps: int = 500
    """Scheduler steps with faults, before everything is healed."""
    clients: int = 3
    workers: int = 2
    partitions: int = 2
    store: str = "stamps"
    """Which one: `stamps`, `strict`, `sqlite`."""
    tablets: int = 0
    """How many of the users have a second device."""
    replays: bool = False
    """Whether, in the end, the whole log is folded once more."""


MILD = Faults()
HARSH_ON_OWNERS = replace(
    MILD,
    expel=0.02,
    expelled_without_knowing=0.95,
    worker_clock_jump=0.02,
    inbox_retention=0.02,
    pause_in_a_call=0.006,
)
"""Owners lose their partitions all the time and learn of it late, with clocks that are far apart."""
ZOMBIES = replace(
    HARSH_ON_OWNERS,
    expel=0.01,
    pause_at_the_worst=0.25,
    worker_clock_jump=0.04,
    worker_clock_off_s_max=35,
    inbox_retention=0.06,
    backup_restored=0.0,
    parks=0.0,
)
"""Owners that stand still at the worst moment and go on when others have their partitions, with clocks a few buckets
apart."""
HARSH_ON_CLIENTS = replace(
    MILD,
    crash_in_a_call=0.006,
    producer_fatal=0.02,
    client_clock_jump=0.02,
    outbox_busy=0.04,
    outbox_full=0.02,
    inbox_retention=0.02,
    backup_restored=0.0,
)
HARSH_ON_THE_STORE = replace(
    MILD, write_fails=0.2, write_lands_unknown=0.2, write_lands_twice=0.15, read_fails=0.1, store_outage=0.01
)
_PROFILES = (MILD, ZOMBIES, HARSH_ON_OWNERS, HARSH_ON_CLIENTS, HARSH_ON_THE_STORE)
NAMES = tuple(Faults.__dataclass_fields__)


def of_seed(seed: int) -> tuple[Plan, Faults]:
    """Return how large a seed's run is and what goes wrong in it."""
    rng = Random(f"{seed}/plan")
    plan = Plan(
        messages=rng.choice((4, 8, 10, 12, 16)),
        steps=rng.choice((200, 300, 400, 600)),
        clients=rng.choice((2, 3, 3, 4)),
        workers=rng.choice((1, 2, 2, 3)),
        partitions=rng.choice((1, 2, 2, 3)),
        store=rng.choice(("stamps", "stamps", "strict", "sqlite")),
        replays=rng.random() < 0.125,
        tablets=rng.choice((0, 0, 1)),
    )
    return plan, _PROFILES[seed % len(_PROFILES)]


Several = TypeVar("Several")


def without(faults: Several, names: tuple[str, ...]) -> Several:
    """Return faults of which some are silenced."""
    return replace(faults, **dict.fromkeys(names, 0.0))  # type: ignore[type-var]


NO_FAULTS = without(MILD, NAMES)
