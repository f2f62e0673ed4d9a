"""What must hold of locks, claims and calls, watched while a run goes on and judged when it is over."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from compose.checking.history import Fault, FaultKind
from consumers.claims.contract import ClaimKey, ClaimState
from consumers.locks.contract import LockHandle
from schemas.lifecycle import Kind, State
from schemas.records import Event

if TYPE_CHECKING:
    from tests.simulation.gateway.world import GatewayWorld
    from tests.simulation.process import Process

_SETTLED = frozenset({ClaimState.DELIVERED, ClaimState.UNDELIVERABLE})


class Held(NamedTuple):
    """A lock that a process believes to have."""

    process: "Process"
    life: int
    handle: LockHandle

    @property
    def is_sure(self) -> bool:
        """Whether it may be sure that nobody else has it, by its own clock."""
        process = self.process
        is_there = process.alive and process.lives == self.life
        return is_there and process.steady_ms() / 1000 < self.handle.sure_until


class Acquired(NamedTuple):
    """An acquisition, and when it was asked for and had, in true time."""

    asked: float
    had: float
    token: int


@dataclass
class Watch:
    """Takes note of what happens, and of what must not."""

    world: "GatewayWorld"
    faults: list[Fault] = field(default_factory=list)
    acquired: dict[str, list[Acquired]] = field(default_factory=lambda: defaultdict(list))
    held: dict[tuple[str, str], Held] = field(default_factory=dict)
    """By process and key."""
    broken: set[tuple[str, int]] = field(default_factory=set)
    claims: dict[tuple[object, ...], tuple[int, int, str, int]] = field(default_factory=dict)
    """Version, token, state and attempts as last seen."""
    calls: dict[ClaimKey, list["Call"]] = field(default_factory=lambda: defaultdict(list))
    events: dict[ClaimKey, set[tuple[str, bytes]]] = field(default_factory=lambda: defaultdict(set))

    def found(self, kind: FaultKind, what: str, message_id: bytes = b"") -> None:
        """Note a fault."""
        self.world.note("found", kind, what)
        self.faults.append(Fault(kind, message_id, what))

    # locks

    def had(self, process: "Process", asked: float, handle: LockHandle) -> None:
        """Take note of an acquisition: no earlier one has as large a token, nobody else is sure to have the lock."""
        earlier = self.acquired[handle.key]
        for other in earlier:
            if other.token == handle.token or (other.had < asked and other.token > handle.token):
                self.found("regressed", f"the token of {handle.key} is {handle.token} after {other.token}")
        earlier.append(Acquired(asked, self.world.now, handle.token))
        self.holds(process, handle)

    def holds(self, process: "Process", handle: LockHandle) -> None:
        """Take note of an acquisition or a renewal."""
        own = self.held[process.name, handle.key] = Held(process, process.lives, handle)
        for (name, key), other in self.held.items():
            is_other = name != process.name and key == handle.key and (key, other.handle.token) not in self.broken
            if is_other and other.is_sure and own.is_sure:
                self.found("duplicated", f"{name} and {process.name} are both sure to hold {key}")

    def gone(self, process: "Process", key: str) -> None:
        """Take note that a process no longer believes to have a lock."""
        self.held.pop((process.name, key), None)

    def sure_token(self, process: "Process", key: str) -> int:
        """Return the token of a lock that a process may be sure to have; -1 where it has none."""
        held = self.held.get((process.name, key))
        is_sure = held is not None and held.is_sure and (key, held.handle.token) not in self.broken
        return held.handle.token if held is not None and is_sure else -1

    # claims

    def look(self, claims: dict[tuple[object, ...], tuple[int, int, str, int]]) -> None:
        """Compare the claims with what they were: versions rise, tokens do not fall, what is settled stays."""
        for key, now in claims.items():
            before = self.claims.get(key)
            if before is not None and now != before:
                self._compare(before, now)
        self.claims = claims

    def _compare(self, before: tuple[int, int, str, int], now: tuple[int, int, str, int]) -> None:
        if now[0] <= before[0]:
            self.found("regressed", f"a claim's version is {now[0]} after {before[0]}")
        if now[1] < before[1]:
            self.found("regressed", f"a claim's token is {now[1]} after {before[1]}")
        if before[2] in _SETTLED:
            self.found("regressed", f"a claim is {now[2]} after {before[2]}")

    # calls

    def begins(self, call: "Call") -> None:
        """Take note of a call: nobody else makes one while it is sure to be the only one, and it is still owed."""
        others = self.calls[call.delivery]
        for other in others:
            if other.key != call.key:
                self.found("duplicated", "one delivery is called with two keys", call.delivery.message_id)
            is_under_way = other.ended is None and other.process.alive and other.process.lives == other.life
            is_alone = not other.token or (0 < other.token == self.sure_token(other.process, call.lock))
            if is_under_way and is_alone:
                self.found("duplicated", "two calls of one delivery at a time", call.delivery.message_id)
        settled_at = self.world.settled_at.get(call.delivery)
        if settled_at is not None and settled_at < call.looked:
            self.found("invented", "a call for a delivery that was settled before it", call.delivery.message_id)
        others.append(call)
        if len(others) > self.world.attempts_max:
            self.found("duplicated", f"{len(others)} calls of one delivery", call.delivery.message_id)

    def wrote(self, event: Event) -> None:
        """Take note of a verdict's event."""
        key = ClaimKey(event.conversation_id, event.message_id, event.actor)
        self.events[key].add((event.kind, event.event_id))

    def verdicts(self) -> Iterator[Fault]:
        """Yield what is wrong when all is over."""
        yield from self.faults
        for key, events in self.events.items():
            if len(events) > 1:
                yield Fault("duplicated", key.message_id, f"the gateway's verdicts are {sorted(events)}")
            took = any(call.took_effect for call in self.calls[key])
            if not took and any(kind == Kind.DELIVERED for kind, _ in events):
                yield Fault("untrue", key.message_id, "said to be delivered by a gateway that never did it")
        keys = {call.key for calls in self.calls.values() for call in calls}
        if len(keys) < sum(bool(calls) for calls in self.calls.values()):
            yield Fault("duplicated", b"", "two deliveries are called with one key")
        for key, row in self.world.owed().items():
            told = f"is {State.SENT} {self.world.settled_within_s:.0f} s after healing, {len(self.calls[key])} calls"
            yield Fault("stuck", row.message_id, told)


@dataclass
class Call:
    """One call to the gateway."""

    delivery: ClaimKey
    key: UUID
    process: "Process"
    life: int
    lock: str
    token: int
    """Of the lock under which it is made, if its maker may be sure of that; 0 where there are no locks."""
    looked: float
    """When its maker began the step, in true time."""
    ended: float | None = None
    took_effect: bool = False
