"""Reads spans of the events topic: assigned by hand, so no group knows of it and nothing is ever committed."""

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from consumers.errors import KafkaUnavailableError, LostRangeError
from consumers.kafka_clients import LOG as KAFKA_LOG
from consumers.kafka_errors import POSITION_GONE, ending_error, translated
from consumers.replay.spans import Extent, Span, Wish
from schemas.topics import CONSUMER, Setting, client_config

TIMEOUT_S: Final = 15.0
SILENCE_S_MAX: Final = 60.0
"""A broker that says nothing for so long, though there is more to read, is down."""
_POLL_S: Final = 0.5
# The library's own codes have an underscore; they are public all the same.
_END: Final[int] = KafkaError._PARTITION_EOF  # noqa: SLF001
_NOT_THERE: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001


class Log:
    """One topic, read by partition and offset. For one thread; a context that closes the client."""

    def __init__(self, kafka: Mapping[str, Setting], topic: str) -> None:
        config = client_config(kafka, CONSUMER)
        config |= {"group.id": "twotick-replay", "enable.partition.eof": True}
        config.setdefault("queued.max.messages.kbytes", 32_768)
        self._consumer: Any = Consumer({**config, "logger": KAFKA_LOG})
        self._topic = topic

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def extents(self, wish: Wish) -> list[Extent]:
        """Return what the log has of each partition, and where the wish's times are in it; nothing of no topic.

        Raises WorkerError.
        """
        try:
            partitions = self._partitions()
            from_times = self._at_time(partitions, wish.from_ms)
            to_times = self._at_time(partitions, wish.to_ms)
            return [
                Extent(number, *self._ends(number), from_times.get(number), to_times.get(number))
                for number in partitions
            ]
        except KafkaException as error:
            raise translated(error, f"asking for {self._topic}") from error

    def _partitions(self) -> list[int]:
        """Return the topic's partitions, none where it is not there. Raises KafkaException."""
        topic = self._consumer.list_topics(self._topic, timeout=TIMEOUT_S).topics.get(self._topic)
        if topic is None or (topic.error is not None and topic.error.code() in _NOT_THERE):
            return []
        if topic.error is not None:
            raise KafkaException(topic.error)
        return sorted(topic.partitions)

    def _ends(self, partition: int) -> tuple[int, int]:
        ends = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=TIMEOUT_S)
        if ends is None:
            raise KafkaUnavailableError(f"no answer about {self._topic}", "Look whether the brokers run.")
        return max(0, ends[0]), max(0, ends[1])

    def _at_time(self, partitions: Sequence[int], at_ms: int | None) -> dict[int, int]:
        """Return the first offset at or after a time, for the partitions that have one. Raises KafkaException."""
        if at_ms is None:
            return {}
        asked = [TopicPartition(self._topic, number, at_ms) for number in partitions]
        found = self._consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        return _offsets(found)

    def batches(self, spans: Sequence[Span], size: int) -> Iterator[dict[int, list[Any]]]:
        """Yield Kafka messages by partition, up to `size` together, until every span is read.

        An empty batch is yielded now and then while nothing comes. Raises LostRangeError where retention was faster,
        and the errors of a broker that refuses or is down.
        """
        ends = {span.partition: span.end for span in spans if span.end > span.start}
        assigned = [TopicPartition(self._topic, span.partition, span.start) for span in spans if span.partition in ends]
        self._consumer.assign(assigned)
        if assigned:
            # The client keeps a pause, as of an earlier span's end, over being assigned anew.
            self._consumer.resume(assigned)
        heard_at = monotonic()
        while ends:
            messages = self._consumer.consume(size, _POLL_S)
            if messages:
                heard_at = monotonic()
            elif monotonic() - heard_at > SILENCE_S_MAX:
                raise KafkaUnavailableError(f"nothing came for {SILENCE_S_MAX:.0f} s", "Look whether the brokers run.")
            batch: dict[int, list[Any]] = {}
            for message in messages:
                self._sort_in(message, batch, ends)
            yield batch
        self._consumer.unassign()

    def _sort_in(self, message: Any, batch: dict[int, list[Any]], ends: dict[int, int]) -> None:  # noqa: ANN401
        """Put a message to its partition's; note the span's end."""
        partition = message.partition()
        error = message.error()
        if error is not None and error.code() != _END:
            self._raise(error, partition)
            return
        end = ends.get(partition)
        if end is None:
            return
        if error is None and message.offset() < end:
            batch.setdefault(partition, []).append(message)
        # The partition's end is where the next record will be. Sooner than the span's it is not all there is to read: a
        # broker tells it that has not heard of the rest.
        position = message.offset() + (error is None)
        if position >= end:
            del ends[partition]
            self._consumer.pause([TopicPartition(self._topic, partition)])

    def _raise(self, error: Any, partition: int) -> None:  # noqa: ANN401
        """Raise what the client does not get over by itself."""
        if error.code() == POSITION_GONE:
            raise LostRangeError(
                f"partition {partition}: the log no longer holds the position that was to be read next",
                "Replay again; it begins with what is left.",
            )
        if (fatal := ending_error(error, "")) is not None:
            raise fatal


def committed(kafka: Mapping[str, Setting], topic: str, group: str, partitions: Sequence[int]) -> dict[int, int]:
    """Return the offsets that a group has committed, for the partitions in which it has. Raises WorkerError."""
    consumer = Consumer({**client_config(kafka, CONSUMER), "group.id": group, "logger": KAFKA_LOG})
    try:
        return _offsets(consumer.committed([TopicPartition(topic, each) for each in partitions], timeout=TIMEOUT_S))
    except KafkaException as error:
        raise translated(error, f"asking for the offsets of {group}") from error
    finally:
        consumer.close()


def ends(kafka: Mapping[str, Setting], topic: str) -> dict[int, tuple[int, int]]:
    """Return by partition the first offset that the log holds, and the one behind its last. Raises WorkerError."""
    with Log(kafka, topic) as log:
        return {each.partition: (each.low, each.high) for each in log.extents(Wish())}


def _offsets(found: Sequence[Any]) -> dict[int, int]:
    """Return what was found by partition. Raises KafkaException where a partition could not be asked about."""
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return {each.partition: each.offset for each in found if each.offset >= 0}
