"""Where in the log a partition is read from: asked of Kafka when it is taken, and when its position is gone."""

import logging
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition

from consumers.counters import Counters
from consumers.errors import LostRangeError
from consumers.kafka_errors import translated
from consumers.settings import WorkerSettings
from consumers.takeover import Start, start_of

LOG = logging.getLogger(__name__)

ASK_TIMEOUT_S: Final = 5.0


class Positions:
    """Asks for positions of one topic, and tells what of it was lost. For one thread."""

    def __init__(self, topic: str, settings: WorkerSettings, counters: Counters) -> None:
        self._topic = topic
        self._settings = settings
        self._counters = counters
        self._consumer: Any = None

    def bind(self, consumer: Any) -> None:  # noqa: ANN401 - the client's own types say less than it does
        """Take the consumer that is asked."""
        self._consumer = consumer

    def adopt(self, settings: WorkerSettings) -> None:
        """Go on with other settings."""
        self._settings = settings

    def start(self, partition: int) -> tuple[Start, int]:
        """Return where to start, and where the log ends now.

        Raises LostRangeError if that is the choice, KafkaUnavailableError, KafkaRefusedError.
        """
        asked = TopicPartition(self._topic, partition)
        doing = f"asking for the position of partition {partition}"
        try:
            committed = self._consumer.committed([asked], timeout=ASK_TIMEOUT_S)[0]
            low, high = self._consumer.get_watermark_offsets(asked, timeout=ASK_TIMEOUT_S)
        except KafkaException as error:
            raise translated(error, doing) from error
        if committed.error is not None:
            raise translated(KafkaException(committed.error), doing)
        offset = committed.offset if committed.offset >= 0 else None
        start = start_of(offset, low, high, self._settings.tail_records)
        if start.replays and high > 0:
            LOG.warning(
                "no committed position: everything that the log holds is folded again",
                extra={"partition": partition, "from": low, "to": high},
            )
        if start.lost is not None:
            self.lost(partition, start.lost)
        return start, high

    def extent(self, partition: int) -> tuple[int, int]:
        """Return the log's first and end offsets. Raises KafkaUnavailableError, KafkaRefusedError."""
        asked = TopicPartition(self._topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(asked, timeout=ASK_TIMEOUT_S)
        except KafkaException as error:
            raise translated(error, f"asking for the first offset of partition {partition}") from error
        return low, high

    def lost(self, partition: int, offsets: tuple[int, int]) -> None:
        """Say which records nobody will fold, from the first offset up to the second; stop if that is the choice.

        Raises LostRangeError.
        """
        first, end = offsets
        self._counters.lost_ranges += 1
        self._counters.lost_records += end - first
        stops = self._settings.on_lost_range == "stop"
        extra = {"partition": partition, "first": first, "end": end, "records": end - first, "stops": stops}
        LOG.error("the log no longer holds the committed position", extra=extra)
        if stops:
            raise LostRangeError(
                f"partition {partition}: offsets {first} to {end - 1} are gone from the log",
                "Find out why (retention, a new topic); to go on behind them, set worker.on_lost_range = earliest.",
            )
