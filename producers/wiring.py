"""Puts together what a client's threads run on its outbox: the pump, the listener, and the pruning."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from producers.arrivals import Arrivals
from producers.backlog import Backlog
from producers.clock import Clock
from producers.database import Database
from producers.engine import Engine
from producers.health import HealthBoard
from producers.kafka import KafkaConsumer, make_producer
from producers.listener import Listener, ListenerParts
from producers.outbox import Outbox, new_id
from producers.pruning import prune
from producers.pump import Pump, PumpParts
from producers.settings import ClientSettings
from schemas.codec import Codec
from schemas.identity import check_conversation
from schemas.lifecycle import Kind
from schemas.records import NO_ID, Event
from schemas.topics import Setting

_DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wiring:
    """The parts of a client that its threads share; each thing that is asked for is made anew."""

    user: str
    path: Path
    """The outbox's file."""
    settings: ClientSettings
    kafka: Mapping[str, Setting]
    codec: Codec
    clock: Clock
    database: Database
    outbox: Outbox
    health: HealthBoard

    def engine(self) -> Engine:
        """Return the threads, not started."""
        return Engine(
            database=self.database,
            lock_path=self.path.with_name(self.path.name + ".pump"),
            make_pump=self._pump,
            make_listener=self._listener,
            prune=self.prune,
            health=self.health,
            name=f"twotick-{self.user}",
        )

    def backlog(self) -> Backlog:
        """Return what is to be sent."""
        return Backlog(self.database, self.clock, self.settings.retry, self.codec)

    def prune(self) -> int | None:
        """Prune once the log's time is known: a clock that is a year ahead should not forget a year."""
        now = self.outbox.now()
        return prune(self.database, now.ms - round(self.settings.keep_days * _DAY_MS)) if now.known else None

    def _pump(self) -> Pump:
        settings = self.settings
        return Pump(
            PumpParts(
                backlog=self.backlog(),
                database=self.database,
                clock=self.clock,
                settings=settings,
                health=self.health,
                make_producer=partial(make_producer, self.kafka, settings.linger_ms, settings.in_flight_rows_max),
                make_hello=self._hello,
            )
        )

    def _hello(self, now_ms: int) -> tuple[str, bytes]:
        conversation = check_conversation(f"hello:{self.user}")
        event = Event(Kind.HELLO, new_id(now_ms), conversation, NO_ID, self.user, NO_ID)
        return conversation, self.codec.encode(event)

    def _listener(self) -> Listener:
        return Listener(
            ListenerParts(
                arrivals=Arrivals(self.database, self.outbox, self.user, self.clock),
                user=self.user,
                codec=self.codec,
                settings=self.settings,
                health=self.health,
                make_consumer=partial(KafkaConsumer, self.kafka),
            )
        )
