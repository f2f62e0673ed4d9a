"""A client's parts around a clock that tests turn, and a Kafka that does what it is told."""

# ruff: noqa: D101, D102 - what stands in for Kafka is named after it

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException

from producers.arrivals import Arrivals, Place
from producers.backlog import Backlog
from producers.checks import Checked, Limits, Outgoing, check
from producers.database import Database
from producers.health import HealthBoard
from producers.outbox import Outbox, Written
from producers.pump import Pump, PumpParts
from producers.retry import RetryPolicy
from producers.settings import ClientSettings
from producers.views import Views
from schemas.codec import Codec
from schemas.identity import text_of
from schemas.lifecycle import Kind, Outcome, State
from schemas.records import NO_ID, Acknowledgement, Delivery, Event

START_MS = 1_800_000_000_000
PLACE = Place("cluster", "twotick.inbox", 0)


class TurnedClock:
    """A clock that stands still until it is turned."""

    boot = "boot"

    def __init__(self, wall_ms: int = START_MS) -> None:
        self.wall = float(wall_ms)
        self.steady = 1_000.0

    def wall_ms(self) -> int:
        return int(self.wall)

    def steady_ms(self) -> float:
        return self.steady

    def pass_ms(self, ms: float) -> None:
        self.wall += ms
        self.steady += ms


@dataclass
class Broker:
    """What all fake producers share: the log, and what is wrong."""

    clock: TurnedClock
    log_shift_ms: int = 0
    log: list[tuple[str, Event]] = field(default_factory=list)
    away: bool = False
    refuse: Callable[[Event], int | None] = lambda _event: None
    producers: list["FakeProducer"] = field(default_factory=list)
    codec: Codec = field(default_factory=Codec)

    def sends(self) -> list[Event]:
        return [event for _, event in self.log if event.kind == Kind.SEND]


class FakeMessage:
    def __init__(self, timestamp: int) -> None:
        self._timestamp = timestamp

    def timestamp(self) -> tuple[int, int]:
        return (2, self._timestamp)


class FakeProducer:
    """Appends at poll, in order; one refusal fails its whole batch, as a broker's does."""

    def __init__(self, broker: Broker, on_error) -> None:
        self.broker = broker
        self.on_error = on_error
        self.queued: list[tuple[str, bytes, Callable]] = []
        self.fatal = False
        broker.producers.append(self)

    def produce(self, topic: str, *, key: str, value: bytes, on_delivery) -> None:
        if self.fatal:
            raise KafkaException(KafkaError(KafkaError._FATAL, "fatal", True))
        self.queued.append((key, value, on_delivery))

    def turn_fatal(self) -> None:
        self.fatal = True
        self.on_error(KafkaError(KafkaError._FATAL, "the epoch is fenced", True))

    def poll(self, timeout: float) -> int:
        if self.broker.away or self.fatal:
            return 0
        batch, self.queued = self.queued, []
        events = [self.broker.codec.decode_as(Event, value) for _, value, _ in batch]
        codes = [code for event in events if (code := self.broker.refuse(event)) is not None]
        for (key, _, on_delivery), event in zip(batch, events, strict=True):
            if codes:
                on_delivery(KafkaError(codes[0]), FakeMessage(0))
                continue
            self.broker.log.append((key, event))
            on_delivery(None, FakeMessage(self.broker.clock.wall_ms() + self.broker.log_shift_ms))
        return len(batch)

    def purge(self) -> None:
        batch, self.queued = self.queued, []
        for _, _, on_delivery in batch:
            on_delivery(KafkaError(KafkaError._PURGE_QUEUE), FakeMessage(0))

    def flush(self, timeout: float) -> int:
        return len(self.queued)


class World:
    """One outbox with everything around it, and no threads."""

    def __init__(self, path: Path, *, settings: ClientSettings | None = None, user: str = "alice") -> None:
        self.path = path
        self.user = user
        self.clock = TurnedClock()
        self.broker = Broker(self.clock)
        self.codec = Codec()
        self.settings = settings or ClientSettings(retry=RetryPolicy(first_s=2, jitter=0))
        self.health = HealthBoard()
        self.open()

    def open(self) -> None:
        self.database = Database(self.path, busy_timeout_s=5)
        # Time passes by `clock` alone.
        self.database.wait_for_change = lambda generation, timeout_s: None
        self.outbox = Outbox(self.database, self.user, self.clock, self.codec)
        self.outbox.open()
        self.views = Views(self.database)
        self.backlog = Backlog(self.database, self.clock, self.settings.retry, self.codec)
        self.arrivals = Arrivals(self.database, self.outbox, self.user, self.clock)

    def reopen(self) -> None:
        """As a process that was killed and started again."""
        self.database.close()
        self.open()

    def pump(self) -> Pump:
        pump = Pump(
            PumpParts(
                backlog=self.backlog,
                database=self.database,
                clock=self.clock,
                settings=self.settings,
                health=self.health,
                make_producer=lambda on_error: FakeProducer(self.broker, on_error),
                make_hello=self._hello,
            )
        )
        pump.start()
        return pump

    def _hello(self, now_ms: int) -> tuple[str, bytes]:
        event = Event(
            Kind.HELLO, bytes([*NO_ID[:6], 0x70, 0, 0x80, *NO_ID[:7]]), "hello:alice", NO_ID, self.user, NO_ID
        )
        return "hello:alice", self.codec.encode(event)

    def checked(self, body: str = "hi", to: str = "bob", **more) -> Checked:
        return check(Outgoing(to=to, body=body, **more), self.user, Limits())

    def send(self, count: int = 1, **more) -> list[Written]:
        return self.outbox.write_sends([self.checked(f"message {number}", **more) for number in range(count)])

    def run(self, pump: Pump, turns: int = 8, ms: float = 15) -> None:
        """Turn the pump, and the clock with it."""
        for _ in range(turns):
            pump.turn()
            self.clock.pass_ms(ms)

    def state(self, written: Written) -> str:
        found = self.views.at(written.position)
        assert found is not None
        return found.raw_state

    def event(self, written: Written) -> Event:
        """Return a SEND as it was produced last."""
        found = self.views.at(written.position)
        assert found is not None
        return next(one for one in reversed(self.broker.sends()) if text_of(one.message_id) == found.message_id)

    def answer(self, event: Event, state: str = State.SENT, outcome: str = Outcome.APPLIED, **more) -> Acknowledgement:
        values = {
            "user": event.actor,
            "install": event.install,
            "event_id": event.event_id,
            "kind": event.kind,
            "actor": event.actor,
            "conversation_id": event.conversation_id,
            "message_id": event.message_id,
            "outcome": outcome,
            "reason": "",
            "state": state,
            "version": 1,
            "seq": event.seq,
            "appended_at": self.clock.wall_ms(),
            "log_partition": 0,
            "log_offset": 0,
        }
        return Acknowledgement(**{**values, **more})

    def apply(self, *records, next_offset: int = 1):
        return self.arrivals.apply(records, PLACE, next_offset)

    def delivery(self, number: int = 1, attempt: int = 1, sender: str = "bob") -> Delivery:
        message_id = number.to_bytes(6, "big") + b"\x70\0\x80" + bytes(7)
        return Delivery(
            self.user, "direct:alice+bob", message_id, sender, (self.user,), b"hi", "", START_MS, START_MS + 1, attempt
        )

    def queued(self) -> list[tuple[str, int, int, int]]:
        """Return kind, attempts, next_attempt_at and in_flight of every row of the queue."""
        return (
            self.database.connection()
            .execute(
                "SELECT kind, attempts, next_attempt_at, in_flight "
                "FROM queue JOIN events USING (position) ORDER BY position"
            )
            .fetchall()
        )
