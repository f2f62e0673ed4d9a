"""What a worker does beside its loop, on a thread of its own: hot configuration, statistics, alerts.

The loop hands over what it sees of itself (`observe`) and takes up configuration (`config`); neither waits for the
other, so a store that is slow here holds up no record. Where the store does not answer, all this is simply later.
"""

import logging
import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import Final

from consumers import alerts, clock
from consumers.backoff import backoff_s
from consumers.conflicts import Alert, ConflictKind, ConflictWatch
from consumers.counters import Counters
from consumers.errors import WorkerError
from consumers.hot.contract import NOTHING, ConfigVersion
from consumers.hot.keys import taken_up
from consumers.settings import WorkerSettings
from consumers.statistics.contract import STOPPED, NodeReport
from consumers.statistics.observed import NOTHING_OBSERVED, Observation, Observed
from consumers.statistics.skew import load_shares, skewed
from consumers.statistics.summing import LOCK
from consumers.statistics.writing import ShareWriter
from consumers.stores.shared import Shared

LOG = logging.getLogger(__name__)

WAIT_S_MAX: Final = 30.0
"""Between two turns while the store does not answer."""
JOIN_TIMEOUT_S: Final = 5.0


class Upkeep:
    """Made before the worker; `start` begins its thread, `stop` ends it."""

    def __init__(  # noqa: PLR0913 - what it looks after, and time
        self,
        shared: Shared,
        settings: WorkerSettings,
        *,
        node: str,
        partitions: int,
        tell: Callable[[str, Mapping[str, object]], None] = alerts.tell,
        now_ms: Callable[[], int] = clock.now_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the store's shared tables; `partitions` is the events topic's count."""
        self.counters = Counters()
        """The worker's own, once it is bound."""
        self.config: ConfigVersion = NOTHING
        """The newest version of the hot configuration that was read; the loop takes it up when it sees another."""
        self.settings = settings
        """With the hot values."""
        self.wants_observation = False
        """Whether somebody asks for statistics as of now."""
        self._own_settings = settings
        self._shared = shared
        self._node = node
        self._partitions = partitions
        self._tell = tell
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._started_at = now_ms()
        self._observation: Observation = NOTHING_OBSERVED
        self._leaving: dict[int, Observed] = {}
        self._writer = ShareWriter(shared.statistics, self._count)
        self._watch = ConflictWatch()
        self._answered = 0
        self._asked = 0
        self._write_at = monotonic()
        self._warned: frozenset[int] = frozenset()
        self._failures = 0
        self._wake = Event()
        self._stopping = False
        self._thread = Thread(target=self._run, name="twotick-upkeep", daemon=True)

    def _count(self, kind: ConflictKind) -> None:
        self.counters.conflict(kind)

    # from the worker's thread

    def bind(self, counters: Counters) -> None:
        """Take the worker's counters."""
        self.counters = counters

    def observe(self, observation: Observation) -> None:
        """Take what the worker sees of itself; never waits."""
        before, self._observation = self._observation, observation
        gone = {number: seen for number, seen in before.partitions.items() if number not in observation.partitions}
        if gone:
            self._leaving = {**self._leaving, **gone}
        if self.wants_observation:
            self.wants_observation = False
            self._wake.set()

    # its thread

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Write what was observed last, and end; stopping twice does nothing."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stopping:
            self.turn()
            self._wake.wait(backoff_s(self._own_settings.shared_poll_s, WAIT_S_MAX, self._failures))
            self._wake.clear()
        self._write_at = self._monotonic()
        self.turn()

    def turn(self) -> None:
        """Do all that is due; what the store does not answer is tried again in the next turn."""
        try:
            self._look_for_conflicts()
            self._take_up_config()
            self._write_shares()
        except WorkerError as error:
            if not self._failures:
                LOG.warning("shared tables cannot be used", extra={"error": error.message, "hint": error.hint})
            self._failures += 1
        except Exception:
            # Such as a row that a later version wrote, which breaks wherever it is read. It does not end the worker:
            # no message depends on this, and a worker that is started again reads the same row. Nor the thread:
            # the worker must not go on without hot configuration for good.
            if not self._failures:
                LOG.exception("shared tables cannot be used: an error that nothing here foresees")
            self._failures += 1
        else:
            self._failures = 0

    def _take_up_config(self) -> None:
        config = self._shared.config
        if config.newest() == self.config.version:
            return
        found = config.read()
        settings, left_out = taken_up(self._own_settings, found.values)
        for error in left_out:
            LOG.warning("a hot setting is not taken up", extra={"error": error.message, "hint": error.hint})
        self.settings = settings
        # Last: who sees another version finds its settings there.
        self.config = found

    def _write_shares(self) -> None:
        self._look_whether_asked()
        now = self._monotonic()
        answers = self._asked > self._answered and not self.wants_observation
        if not answers and now < self._write_at:
            return
        seen, asked = self._observation, self._asked if answers else self._answered
        self._write_those_that_leave(seen)
        for observed in seen.partitions.values():
            self._writer.write(observed, seen.at, asked)
        self._answered = asked
        if now >= self._write_at:
            self._write_at = now + self._own_settings.statistics_interval_s
            self._look_for_skew(seen)
        self._shared.statistics.put_node(self._report(seen))

    def _look_whether_asked(self) -> None:
        """See whether somebody holds the statistics' lock with a token that was not answered."""
        standing = self._shared.locks.glance(LOCK)
        if standing is not None and standing.holder and standing.token > self._asked:
            self._asked = standing.token
            self.wants_observation = True

    def _write_those_that_leave(self, seen: Observation) -> None:
        """Write down what was last seen of partitions that went to others, unless those have written already."""
        leaving, self._leaving = self._leaving, {}
        for number, observed in leaving.items():
            if number not in seen.partitions:
                self._writer.write(observed, seen.at, 0)
        self._writer.forget_others(seen.partitions)

    def _report(self, seen: Observation) -> NodeReport:
        return NodeReport(
            self._node,
            self._now_ms(),
            STOPPED if self._stopping else seen.state,
            self._started_at,
            self.config.version,
            dict(self.counters.conflicts_by_kind),
            self._watch.per_minute,
        )

    def _look_for_conflicts(self) -> None:
        counts = dict(self.counters.conflicts_by_kind)
        alert = self._watch.look(counts, self.settings.conflicts_per_minute_max, self._monotonic())
        if alert is not None:
            self._alert(alert)

    def _alert(self, alert: Alert) -> None:
        limit = self.settings.conflicts_per_minute_max
        told = {"per_minute": alert.per_minute, "limit": limit, "by_kind": dict(alert.by_kind)}
        LOG.error("many conflicts", extra=told)
        self._tell(
            self.settings.alert_webhook, {"alert": "conflicts", "node": self._node, "at": self._now_ms(), **told}
        )

    def _look_for_skew(self, seen: Observation) -> None:
        """Warn, once an episode, of partitions of ours that take too much of the whole load."""
        loads = load_shares(self._shared.statistics.shares(serially=False), self._now_ms())
        much = skewed(loads, self.settings.partition_share_max, self._partitions)
        for number in sorted(much.keys() & seen.partitions.keys() - self._warned):
            hottest = [each.conversation_id for each in seen.partitions[number].hottest[:3]]
            extra = {"partition": number, "share": round(much[number], 3), "hottest": hottest}
            LOG.warning("one partition takes much of the load", extra=extra)
            self.counters.skew_warnings += 1
        self._warned = frozenset(much)
