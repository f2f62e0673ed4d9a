"""The world of deliveries to an outside gateway: a few workers with locks and claims, in one thread, from one seed.

The log is a list of verdicts, and production's fold makes of them what becomes of each message; who owns a partition
is said by the world, and learned late.
"""

# ruff: noqa: D102 - what stands in for a library is named after it

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from compose.checking.history import Findings
from consumers.claims.contract import ClaimKey
from consumers.fold import Policy, fold
from consumers.redelivery import expiry
from consumers.rows import At, ConversationRow, MessageRow
from schemas.identity import uuid7
from schemas.lifecycle import Kind, State
from schemas.records import NO_ID, Delivery, Event
from tests.simulation.cassandra import Cassandra
from tests.simulation.chance import Chance, Strikes
from tests.simulation.gateway.defences import GatewayDefences
from tests.simulation.gateway.faults import GatewayFaults, GatewayPlan
from tests.simulation.gateway.rules import Watch
from tests.simulation.gateway.worker import SETTINGS, CourierProcess
from tests.simulation.process import Process, in_calls
from tests.simulation.sqlite_shelf import open_file

if TYPE_CHECKING:
    import sqlite3

    from consumers.stores.contract import MessageKey

START_MS = 1_800_000_000_000
SETTLED_WITHIN_S = 120.0
"""Of simulated time after healing: a lock's time to live, all waits between calls, and the hour of no message."""
_PASSES_MS = (0, 0, 1, 5, 50, 200, 500, 1_500)
_PAUSES_MS = (200, 2_000, 4_000, 8_000, 20_000)
_LONG_MS = 10_000_000
RECIPIENT = "bot"


class GatewayWorld:
    """Everything there is."""

    def __init__(self, seed: int, plan: GatewayPlan, faults: GatewayFaults, defences: GatewayDefences) -> None:
        self.plan = plan
        self.faults = faults
        self.defences = defences
        self.chance = Chance(seed)
        self._strikes = Strikes(self.chance, {name: getattr(faults, name) for name in _DEEDS})
        self.in_calls = in_calls(self)
        self.now = float(START_MS)
        self.chaos = True
        self.depth = 0
        self.journal: list[tuple[object, ...]] = []
        self.watch = Watch(self)
        self.server = Cassandra(self.chance)
        self.file: sqlite3.Connection = open_file()
        self._machine_since = self.now - 1_000
        self._store_down_until = 0.0
        self.attempts_max = SETTINGS.attempts_max
        self.settled_within_s = SETTLED_WITHIN_S
        self.rows: dict[MessageKey, MessageRow] = {}
        self.settled_at: dict[ClaimKey, float] = {}
        self._deliveries: list[tuple[int, Delivery]] = []
        self._offset = 0
        self.workers = [CourierProcess(self, f"w{number}") for number in range(plan.workers)]
        self.current: Process = self.workers[0]
        for worker in self.workers:
            worker.start()
        self.owners: dict[int, tuple[CourierProcess, int]] = {
            partition: (self.chance.pick("first owner", self.workers), 1) for partition in range(plan.partitions)
        }
        for number in range(plan.messages):
            self._owe(number)

    def _owe(self, number: int) -> None:
        """Add a message that waits for its delivery."""
        rng = self.chance.stream("messages")
        message_id = uuid7(START_MS + number, rng.getrandbits(74))
        deliver_by = START_MS + rng.choice((20_000, _LONG_MS, _LONG_MS))
        conversation = f"c{number}"
        delivery = Delivery(RECIPIENT, conversation, message_id, "ann", (RECIPIENT,), b"x", "", START_MS, deliver_by)
        row = MessageRow(
            conversation, message_id, State.SENT, "ann", (RECIPIENT,), (State.SENT,), b"d", b"i" * 16, 1, 0, START_MS,
            deliver_by, 1, (1, -1), START_MS * 1000,
        )  # fmt: skip
        self.rows[conversation, message_id] = row
        self._deliveries.append((number % self.plan.partitions, delivery))

    # what is asked of a scene

    def note(self, *what: object) -> None:
        self.journal.append((int(self.now) - START_MS, *what))

    def store_is_down(self) -> bool:
        return self.now < self._store_down_until

    def node_ms(self) -> float:
        off_ms = self.faults.nodes_clocks_off * 1000 if self.chaos else 0.0
        return self.now + self.chance.stream("nodes").uniform(-off_ms, off_ms)

    def machine_ms(self) -> float:
        """Return ms since the machine of a SQLite store started."""
        return self.now - self._machine_since

    def machine_tick_ms(self) -> int:
        return int(self.machine_ms())

    def stand_still(self, process: Process, what: str, ms: int = 0) -> None:
        ms = ms or self.chance.pick("pause", _PAUSES_MS)
        self.note(process.name, "stands still in", what, ms)
        with process.standing_still(ms):
            for _ in range(self.chance.whole("meanwhile", 3, 50)):
                self.step()

    # the log

    def due(self, partition: int) -> list[Delivery]:
        """Return the deliveries of a partition that somebody still waits for."""
        return [
            delivery
            for number, delivery in self._deliveries
            if number == partition and ClaimKey.of(delivery) not in self.settled_at
        ]

    def write(self, event: Event) -> bool:
        """Append a verdict; say whether its writer is told that it is there."""
        unknown = self.chaos and self.chance.happens("event unknown", self.faults.event_unknown)
        if not unknown or self.chance.happens("event lands", 0.5):
            self.watch.wrote(event)
            self._append(event)
        return not unknown

    def expire(self, delivery: Delivery, now_ms: int) -> None:
        """Append what an owner says when a message's time is over."""
        self._append(expiry(self.rows[delivery.conversation_id, delivery.message_id], now_ms))

    def _append(self, event: Event) -> None:
        at = At(1, 0, self._offset, int(self.now))
        self._offset += 1
        key = (event.conversation_id, event.message_id)
        folded = fold(event, self.rows[key], ConversationRow(event.conversation_id), at, Policy())
        self.note("log", event.kind, event.actor, event.message_id.hex()[-4:], folded.outcome)
        if folded.row is not None:
            self.rows[key] = folded.row
            if State.SENT not in folded.row.receipts:
                self.settled_at.setdefault(ClaimKey(*key, RECIPIENT), self.now)

    def owed(self) -> dict[ClaimKey, MessageRow]:
        """Return what somebody still waits for."""
        keys = {ClaimKey(*key, RECIPIENT): row for key, row in self.rows.items()}
        return {key: row for key, row in keys.items() if key not in self.settled_at}

    def lock_of(self, delivery: Delivery) -> str:
        """Return the lock under which a delivery is made."""
        partition = next(number for number, each in self._deliveries if each.message_id == delivery.message_id)
        return f"deliver/{partition}"

    # time goes on

    def run(self) -> Findings:
        """Run the chaos, then heal; return what is wrong."""
        for _ in range(self.plan.steps):
            self.step()
        self._heal()
        faults = tuple(self.watch.verdicts())
        return Findings(len(self.rows), len(self.settled_at), faults)

    def step(self) -> None:
        rng = self.chance.stream("step")
        self.now += _PASSES_MS[int(rng.random() * len(_PASSES_MS))]
        able = [each for each in self.workers if not each.busy and not each.frozen]
        if able:
            self._turn(self.chance.pick("turn", able))
        if self.server.late and self.chance.happens("late lands", 0.3):
            self.server.land_late(self.node_ms())
        self._strike()
        self.watch.look(self._claims())

    def _turn(self, worker: CourierProcess) -> None:
        if worker.alive:
            worker.turn()
        elif self.chance.happens("restart", 0.3) or not self.chaos:
            self.note(worker.name, "started")
            worker.start()

    def _claims(self) -> dict[tuple[object, ...], tuple[int, int, str, int]]:
        if self.plan.store == "sqlite":
            select = (
                "SELECT conversation_id, message_id, recipient, version, fence, state, attempts FROM delivery_claims"
            )
            return {row[:3]: row[3:] for row in self.file.execute(select)}
        columns = ("version", "fence", "state", "attempts")
        rows = self.server.tables.rows.get("delivery_claims", {})
        return {key: tuple(row[column][0] for column in columns) for key, row in rows.items()}  # type: ignore[misc]

    def _strike(self) -> None:
        for name in self._strikes.count():
            _DEEDS[name](self)

    def _strike_crash(self) -> None:
        self._crash(self.chance.pick("crash whom", self.workers))

    def _reboot(self) -> None:
        if self.plan.store == "sqlite" and not self.depth:
            self.note("the machine starts anew")
            for worker in self.workers:
                self._crash(worker)
            self._machine_since = self.now

    def _move(self) -> None:
        partition = self.chance.whole("move what", 0, self.plan.partitions - 1)
        process = self.chance.pick("move to", self.workers)
        self.owners[partition] = (process, self.owners[partition][1] + 1)
        self.note(process.name, "owns", partition)

    def _strike_clock(self) -> None:
        self.chance.pick("clock of", self.workers).wall_off_ms = self.chance.whole("off ms", -30_000, 30_000)

    def _receive(self) -> None:
        """Have the recipient say that it has a message, however it got it."""
        _, delivery = self.chance.pick("receipt of", self._deliveries)
        event_id = uuid7(int(self.now), self.chance.stream("ids").getrandbits(74))
        ids = (delivery.conversation_id, delivery.message_id)
        self._append(Event(Kind.DELIVERED, event_id, *ids, RECIPIENT, NO_ID))

    def _strike_store(self) -> None:
        self._store_down_until = self.now + self.chance.pick("store down", (1_000, 8_000))

    def _crash(self, worker: CourierProcess) -> None:
        if worker.alive and not worker.busy:
            self.note(worker.name, "crashes")
            worker.die()

    def _break_lock(self) -> None:
        """Do what `twotick locks break` does, once nobody is in the middle of anything."""
        key = f"deliver/{self.chance.whole('break what', 0, self.plan.partitions - 1)}"
        held = [each for (_, other), each in self.watch.held.items() if other == key]
        if self.depth or not held:
            return
        token = max(each.handle.token for each in held)
        self.watch.broken.add((key, token))
        self.note("lock broken", key, token)
        self.file.execute("UPDATE locks SET holder = NULL WHERE name = ? AND fence = ?", (key, token))
        row = self.server.tables.rows.get("locks", {}).get((key,), {})
        if row and row["fence"][0] == token:
            for column in ("holder", "owner", "since", "until"):
                row.pop(column, None)

    def _heal(self) -> None:
        """End all faults and let everybody work until nothing is owed, or for as long as that may take."""
        self.chaos = False
        self.note("healed")
        self._store_down_until = 0.0
        for worker in self.workers:
            worker.wall_off_ms = 0.0
        until = self.now + SETTLED_WITHIN_S * 1000
        while self.now < until and self.owed():
            for worker in self.workers:
                self._turn(worker)
            if self.server.late:
                self.server.land_late(self.node_ms())
            self.now += 250
            self.watch.look(self._claims())

    def digest(self) -> str:
        """Return what tells this run from another."""
        return blake2b(repr(self.journal).encode(), digest_size=16).hexdigest()


_DEEDS: Final[dict[str, Callable[[GatewayWorld], None]]] = {
    "crash": GatewayWorld._strike_crash,
    "reboot": GatewayWorld._reboot,
    "move": GatewayWorld._move,
    "break_lock": GatewayWorld._break_lock,
    "wall_clock_jump": GatewayWorld._strike_clock,
    "other_receipt": GatewayWorld._receive,
    "store_outage": GatewayWorld._strike_store,
}
"""What strikes at a step of the scheduler, by the name of its odds."""
