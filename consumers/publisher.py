"""Hands records to Kafka and knows when all of a publication's records are in the log.

A publication is done when each of its records has a good delivery report. A record that fails is handed over again; so
is everything unreported when the idempotent producer turns fatal and is made anew. What this worker's user may not
write ends the worker: trying again would only hide the cause. The order among a publication's records is of no
meaning: those who read them go by rank.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from consumers.counters import Counters
from consumers.kafka_clients import LOG as KAFKA_LOG
from consumers.kafka_errors import ALL_BROKERS_DOWN, is_fatal, refusal
from consumers.outage import KafkaOutage

if TYPE_CHECKING:
    from consumers.errors import KafkaRefusedError

LOG = logging.getLogger(__name__)

Outgoing = tuple[str, bytes | None, bytes]
"""(topic, key, value)."""

RETRY_S: Final = 0.5
_PURGE_S: Final = 10.0


class Publication:
    """Records that go out together; itself the delivery callback of each of them."""

    __slots__ = ("done", "error", "failed", "handed_over", "left", "records")

    def __init__(self, records: Iterable[Outgoing], done: Callable[[], None]) -> None:
        self.records: Iterator[Outgoing] = iter(records)
        self.done = done
        """Called once, when all records are in the log."""
        self.left = 0
        self.failed: list[Outgoing] = []
        self.error: KafkaError | None = None
        """Why the last of those failed."""
        self.handed_over = False

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take a delivery report. Never raises."""
        self.left -= 1
        if error is not None:
            self.error = error
            self.failed.append((str(message.topic()), message.key(), message.value() or b""))


class Publisher:
    """One idempotent producer, made when it is first pumped and remade when it turns fatal. For one thread."""

    def __init__(
        self, make: Callable[[Callable[[KafkaError], None]], Producer], counters: Counters, outage: KafkaOutage
    ) -> None:
        self._make = make
        self._counters = counters
        self._outage = outage
        self._waiting: deque[Publication] = deque()
        self._reported: list[Publication] = []
        self._later: deque[tuple[float, Publication]] = deque()
        self._fatal = False
        self._refused: KafkaRefusedError | None = None
        self._producer: Any = None

    def submit(self, publication: Publication) -> None:
        """Take a publication; `pump` hands its records over."""
        self._waiting.append(publication)

    @property
    def unsent(self) -> int:
        """Publications that are not handed over whole."""
        return len(self._waiting) + len(self._later)

    @property
    def unfinished(self) -> int:
        """Publications that are not done."""
        return self.unsent + len(self._reported)

    def pump(self, wait_s: float = 0.0) -> None:
        """Serve delivery reports, for at most `wait_s`, and hand over as much as the producer takes.

        Raises KafkaRefusedError where this worker's user may not write.
        """
        if self._producer is None:
            self._producer = self._make(self._error)
        self._producer.poll(wait_s)
        if self._fatal:
            self._remake()
        now = monotonic()
        while self._later and self._later[0][0] <= now:
            self._waiting.append(self._later.popleft()[1])
        waiting = self._waiting
        while waiting and self._hand_over(waiting[0]):
            self._reported.append(waiting.popleft())
        self._finish(now)
        if self._refused is not None:
            raise self._refused

    def _hand_over(self, publication: Publication) -> bool:
        """Produce a publication's records; say whether that was all of them."""
        produce = self._producer.produce
        for record in publication.records:
            topic, key, value = record
            publication.left += 1
            try:
                produce(topic, value, key, -1, publication)
            except BufferError:
                publication.left -= 1
                publication.records = chain((record,), publication.records)
                return False
            except KafkaException as error:
                publication.left -= 1
                publication.records = chain((record,), publication.records)
                self._refused = self._refused or refusal(error.args[0])
                if not (self._refused or is_fatal(error.args[0])):
                    raise
                self._fatal = is_fatal(error.args[0])
                return False
        return True

    def _finish(self, now: float) -> None:
        """Tell of publications whose records are all reported; hand over again what failed."""
        unreported: list[Publication] = []
        for publication in self._reported:
            if publication.left:
                unreported.append(publication)
            elif publication.failed:
                self._refused = self._refused or (refusal(publication.error) if publication.error else None)
                self._counters.republished += len(publication.failed)
                publication.records, publication.failed = iter(publication.failed), []
                self._later.append((now + RETRY_S, publication))
            else:
                self._outage.over()
                publication.done()
        self._reported = unreported

    def _error(self, error: KafkaError) -> None:
        """Take an error event of the producer."""
        self._counters.kafka_errors += 1
        self._refused = self._refused or refusal(error)
        if is_fatal(error):
            self._fatal = True
        if error.code() == ALL_BROKERS_DOWN:
            self._outage.said(monotonic())
        KAFKA_LOG.warning("[producer]: %s", error.str(), extra={"fatal": is_fatal(error)})

    def _remake(self) -> None:
        """Make a new producer; what the old one has not reported fails and goes out again."""
        LOG.error("the producer turned fatal and is made anew")
        old, deadline = self._producer, monotonic() + _PURGE_S
        old.purge()
        while len(old) and monotonic() < deadline:
            old.poll(0.1)
        self._fatal = False
        self._counters.producer_rebuilds += 1
        self._producer = self._make(self._error)

    def close(self, timeout_s: float) -> int:
        """Wait for reports for at most `timeout_s`; return how many publications are not done.

        Raises KafkaRefusedError.
        """
        deadline = monotonic() + timeout_s
        while self.unfinished and monotonic() < deadline:
            self.pump(0.02)
        if self._producer is not None and len(self._producer):
            self._producer.purge()
            self._producer.poll(0)
        return self.unfinished
