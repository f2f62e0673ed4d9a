"""The pump: outbox -> Kafka. It hands rows over, hears what became of them, and never has one row out twice.

A turn: serve delivery reports, then one transaction of `Backlog.turn` that settles them and marks the next page, then
produce that page. A row is outstanding from there until its report; it is marked in flight, so it is not read again.

- A producer that turned fatal is purged and made anew; what it had not reported goes again, in the order of
  positions and before anything newer, so per-conversation order holds.
- A record that the broker refuses may have shared its batch with others. Those refused are tried one by one, with
  nothing else outstanding; refused alone, a record is given up where no copy of it can be in the log.
- Nothing is handed over before the log's clock is known: a HELLO is produced first and its report tells it.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from producers.backlog import Backlog
from producers.clock import Clock, Estimate, better, measured
from producers.database import Database
from producers.errors import DeniedError, UnreachableError
from producers.health import HealthBoard
from producers.kafka import NO_BROKER, NO_TOPIC, UNREACHABLE, ErrorPort, Fate, fate_of
from producers.line import HELLO, Line, MakeProducer
from producers.pages import FRESH, NO_ROOM, Due, Reports, Room, Row
from producers.settings import ClientSettings
from producers.window import Window
from schemas.topics import EVENTS

LOG = logging.getLogger(__name__)

_IDLE_WAIT_S = 0.5
_HELD_BACK_WAIT_S = 0.05
_POLL_S, _POLL_S_MAX = 0.005, 0.05
_RECOUNT_ROWS_A_MS = 100
_SWEEP_MS = 200
_RIPE_ROWS = 1_000
_RIPE_MS = 10
_CLOCK_STEP_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PumpParts:
    """What a pump is wired to."""

    backlog: Backlog
    database: Database
    clock: Clock
    settings: ClientSettings
    health: HealthBoard
    make_producer: MakeProducer
    make_hello: Callable[[int], tuple[str, bytes]]
    """From a time in ms since 1970 to the key and value of a HELLO."""


class Pump:
    """One outbox's pump; used by one thread, under the outbox's lock."""

    def __init__(self, parts: PumpParts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._backlog = parts.backlog
        self._window = Window(parts.settings)
        self._line: Line | None = None
        self._reports = Reports()
        self._reports_since: float | None = None
        self._clock_known = False
        self._failures = 0
        self._paused_until = float("-inf")
        # Counting costs about a µs a row: no more than a hundredth of the time.
        self._recount_ms = parts.settings.unanswered_rows_max / _RECOUNT_ROWS_A_MS
        self._counted_at = float("-inf")
        self._swept_at = float("-inf")
        self._poll_s = _POLL_S
        self._wall_minus_steady = parts.clock.wall_ms() - parts.clock.steady_ms()

    def start(self) -> int:
        """Take over what a dead pump had in flight; return how many events. Raises OutboxError."""
        recovered = self._backlog.recover()
        if recovered:
            LOG.info("%d events were in flight when the last pump ended; they go again", recovered)
        self._window.unanswered = self._backlog.unanswered()
        return recovered

    def turn(self) -> None:
        """Do what there is to do, then wait a bounded time for more. Raises OutboxError; calling again is safe."""
        generation = self._parts.database.generation
        line = self._open_line()
        line.producer.poll(0)
        self._watch_wall_clock()
        self._collect(line)
        if line.fatal:
            self._rebuild(line)
        self._greet(line)
        room, due = self._room(), self._backlog.due()
        wants_page = self._wants_page(room, due)
        rows: list[Row] = []
        if wants_page or self._is_ripe() or self._expires_now(due):
            rows = self._work(room if wants_page else NO_ROOM)
            # Our own transaction is no news to us.
            generation += 1
            if rows:
                line.produce(rows)
        if not rows:
            self._wait(line, generation, due)

    def stop(self) -> None:
        """Settle what has been reported and let go of the producer; the rest goes again at the next start."""
        line = self._line
        if line is None:
            return
        line.producer.poll(0)
        self._collect(line)
        self._give_up(line)
        self._line = None
        self._work(NO_ROOM)

    def _open_line(self) -> Line:
        if self._line is None:
            self._line = Line(self._parts.make_producer, self._hear, self._clock)
        return self._line

    def _hear(self, error: ErrorPort) -> None:
        LOG.debug("Kafka's client says: %s", error.str())
        if error.code() in UNREACHABLE:
            self._parts.health.set(reachable=False)
            if error.code() != NO_BROKER:
                self._parts.health.fail(
                    UnreachableError(
                        f"Kafka was not reached: {error.str()}",
                        "Check bootstrap.servers, and that a server runs there.",
                    )
                )
        elif fate_of(error) is Fate.DENIED:
            self._deny(error)

    def _deny(self, error: ErrorPort) -> None:
        self._parts.health.fail(
            DeniedError(f"Kafka refuses this client: {error.str()}", "Check its credentials and permissions.")
        )

    def _watch_wall_clock(self) -> None:
        """Attempt times are the wall clock's: where it was set back they would lie too far off."""
        now = self._clock.wall_ms() - self._clock.steady_ms()
        if now < self._wall_minus_steady - _CLOCK_STEP_MS:
            LOG.warning("the clock was set back by %d s", (self._wall_minus_steady - now) / 1000)
            self._backlog.mend_times()
        self._wall_minus_steady = now

    def _collect(self, line: Line) -> None:
        """Take what the line has heard and decide what it means; kept until a transaction has settled it."""
        landed, line.landed = line.landed, []
        failed, line.failed = line.failed, []
        self._reports.done += landed
        for position, error in failed:
            self._failed(line, position, error)
        told = self._told(line)
        if told is not None:
            self._reports.estimate = told
        if landed or told:
            self._failures = 0
            self._poll_s = _POLL_S
            self._parts.health.set(reachable=True)
        if self._reports and self._reports_since is None:
            self._reports_since = self._clock.steady_ms()

    def _told(self, line: Line) -> Estimate | None:
        report = line.told()
        if report is None:
            return None
        _, known = self._backlog.log_time()
        best = better(known, measured(report, self._clock.boot))
        return None if best is known else best

    def _failed(self, line: Line, position: int, error: ErrorPort) -> None:
        fate = fate_of(error)
        if position != HELLO:
            if fate is Fate.REFUSED and position in self._window.suspects:
                LOG.error("the broker refuses event %d for good: %s", position, error.str())
                self._reports.rejected.append((position, error.str()))
                return
            if fate is Fate.REFUSED:
                self._reports.refused.append(position)
                return
            self._reports.again.append(position)
        if fate is Fate.FATAL:
            line.fatal = True
        elif fate is Fate.DENIED:
            self._deny(error)
        elif error.code() in NO_TOPIC:
            self._parts.health.fail(
                UnreachableError(f"there is no topic {EVENTS} yet", "Create it with `twotick migrate --execute`.")
            )
        self._pause()

    def _pause(self) -> None:
        """Leave the server alone for a while that grows with each failure in a row."""
        now = self._clock.steady_ms()
        if now >= self._paused_until:
            self._failures += 1
            wait_s = self._parts.settings.retry.backoff_s(self._failures, random.random())  # noqa: S311 - jitter
            self._paused_until = now + wait_s * 1000

    def _rebuild(self, line: Line) -> None:
        """Put a producer that is of no more use away; the next turn makes a new one."""
        LOG.warning("the producer is of no more use; %d events go again by a new one", len(self._window.flying))
        self._give_up(line)
        self._line = None
        self._pause()
        self._parts.health.count(rebuilds=1)

    def _give_up(self, line: Line) -> None:
        line.give_up()
        self._collect(line)
        told = set(self._reports.positions())
        self._reports.again += [position for position in self._window.flying if position not in told]

    def _greet(self, line: Line) -> None:
        if self._clock_known or line.greeting or line is not self._line or self._is_paused():
            return
        if self._backlog.log_time()[0].known:
            self._clock_known = True
        elif self._reports.estimate is None:
            line.greet(*self._parts.make_hello(self._clock.wall_ms()))

    def _is_paused(self) -> bool:
        return self._clock.steady_ms() < self._paused_until

    def _room(self) -> Room:
        if self._is_paused() or self._line is None:
            return NO_ROOM
        if not self._clock_known and self._reports.estimate is None:
            return NO_ROOM
        now = self._clock.steady_ms()
        if self._window.is_tight() and now - self._counted_at >= self._recount_ms:
            self._counted_at = now
            self._window.unanswered = self._backlog.unanswered()
        return self._window.room()

    def _wants_page(self, room: Room, due: Due) -> bool:
        if room.only is not None:
            return True
        if room.rows <= 0 or due.first is None:
            return False
        if due.first < FRESH or (due.first == FRESH and room.fresh_rows > 0):
            return True
        return due.timed is not None and due.timed <= self._clock.wall_ms()

    def _is_ripe(self) -> bool:
        """Say whether the reports are worth a transaction of their own."""
        reports = self._reports
        if not reports:
            return False
        return (
            len(reports.done) >= min(_RIPE_ROWS, len(self._window.flying))
            or len(reports.again) + len(reports.refused) + len(reports.rejected) > 0
            or reports.estimate is not None
            or self._clock.steady_ms() - (self._reports_since or 0.0) >= _RIPE_MS
        )

    def _expires_now(self, due: Due) -> bool:
        now = self._clock.steady_ms()
        if due.expiring is None or now - self._swept_at < _SWEEP_MS:
            return False
        self._swept_at = now
        return due.expiring < max(self._clock.wall_ms(), self._backlog.log_time()[0].ms)

    def _work(self, room: Room) -> list[Row]:
        """Settle and take a page in one transaction; where it fails nothing was done and all is kept for the next."""
        rows = self._backlog.turn(self._reports, room)
        reports, self._reports, self._reports_since = self._reports, Reports(), None
        self._window.settled(reports)
        if room.only is not None and not rows:
            self._window.suspects.discard(room.only)
        copies = self._window.handed(rows)
        if reports.done or copies:
            self._parts.health.count(sent=len(reports.done), resent=copies)
        return rows

    def _wait(self, line: Line, generation: int, due: Due) -> None:
        """Wait for a report where one is due, else for a change of the outbox or the next attempt."""
        if self._window.flying or line.greeting:
            line.producer.poll(self._poll_s)
            # A broker that is away for hours should not be asked two hundred times a second.
            self._poll_s = min(_POLL_S_MAX, self._poll_s * 1.1)
            return
        wait_s = _IDLE_WAIT_S
        if self._is_paused():
            wait_s = min(wait_s, (self._paused_until - self._clock.steady_ms()) / 1000)
        elif due.first is not None and due.first <= FRESH:
            wait_s = _HELD_BACK_WAIT_S
        elif due.timed is not None:
            wait_s = min(wait_s, max(0.001, (due.timed - self._clock.wall_ms()) / 1000))
        self._parts.database.wait_for_change(generation, wait_s)
