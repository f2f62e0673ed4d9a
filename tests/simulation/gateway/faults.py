"""What can go wrong between workers and an outside gateway, how likely it is, and how large a run is."""

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.faults import without


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFaults:
    """Odds between 0 and 1. 0 switches a fault off without changing when the others strike."""

    # at any call that a process makes to the store, the gateway or the log
    crash_in_a_call: float = 0.004
    pause_in_a_call: float = 0.01
    """It stands still there, often past its locks' ends, while all others go on."""
    pause_at_the_worst: float = 0.03
    """It stands still between having a lock, or having read a claim, and going on."""
    threads_interleave: float = 0.1
    """Another of the process's threads goes on with another delivery meanwhile."""

    # at any step of the scheduler
    crash: float = 0.01
    reboot: float = 0.003
    """The machine of a SQLite store starts anew, with all that runs on it, and its clock begins again."""
    move: float = 0.03
    """A partition gets another owner."""
    break_lock: float = 0.005
    """Somebody breaks a lock by hand."""
    wall_clock_jump: float = 0.005
    other_receipt: float = 0.01
    """The recipient is found to have a message by another way."""
    store_outage: float = 0.003

    # when something is about to happen
    read_fails: float = 0.03
    write_fails: float = 0.05
    write_lands_unknown: float = 0.08
    """A conditional write is answered with a time-out though it is applied, now or later."""
    write_lands_twice: float = 0.03
    """The driver sends a conditional write again and tells what the second copy met."""
    call_fails: float = 0.3
    """The gateway does nothing and says so, or says nothing."""
    answer_lost: float = 0.15
    """It does what it is asked to, and its answer is lost."""
    call_refused: float = 0.03
    """It refuses the delivery for good."""
    call_stalls: float = 0.1
    """A call takes as long as it may."""
    event_unknown: float = 0.1
    """The verdict's event is in the log and its writer is not told, or the other way round it is told of no error."""
    nodes_clocks_off: float = 0.4
    """How far the clocks of the store's nodes may be off, in s; no odds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """How large a run is."""

    messages: int = 4
    """Deliveries to make."""
    steps: int = 250
    """Scheduler steps with faults, before everything is healed."""
    workers: int = 2
    partitions: int = 1
    store: str = "cassandra"
    """Where locks and claims are: `cassandra` or `sqlite`."""


MILD = GatewayFaults()
LONG_PAUSES = replace(MILD, pause_in_a_call=0.03, pause_at_the_worst=0.15, move=0.06)
BAD_GATEWAY = replace(MILD, call_fails=0.5, answer_lost=0.3, call_stalls=0.3, crash_in_a_call=0.01)
_PROFILES = (MILD, LONG_PAUSES, BAD_GATEWAY)
NO_FAULTS = without(MILD, tuple(GatewayFaults.__dataclass_fields__))


def of_seed(seed: int) -> tuple[GatewayPlan, GatewayFaults]:
    """Return how large a seed's run is and what goes wrong in it."""
    rng = Random(f"{seed}/gateway plan")
    plan = GatewayPlan(
        messages=rng.choice((1, 2, 4, 6)),
        steps=rng.choice((100, 200, 300)),
        workers=rng.choice((2, 2, 3)),
        partitions=rng.choice((1, 1, 2)),
        store=rng.choice(("cassandra", "sqlite")),
    )
    return plan, _PROFILES[seed % len(_PROFILES)]
