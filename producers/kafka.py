"""The edge to Kafka's client library: how clients are made, the little of them that we use, what errors mean."""

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from producers.errors import DeniedError
from schemas.repeats import Repeats
from schemas.topics import CONSUMER, PRODUCER, Setting, client_config

LOG = logging.getLogger("producers.kafka.library")
LOG.addHandler(logging.NullHandler())
# One set of settings passes through to producers and consumers alike.
LOG.addFilter(lambda record: "property and will be ignored by this" not in record.getMessage())
LOG.addFilter(Repeats())

_RECORD_BYTES_MAX = 1_048_588
"""Of one record with its overhead; what topics of the contract take at least."""


class ErrorPort(Protocol):
    """A KafkaError."""

    def code(self) -> int: ...  # noqa: D102
    def fatal(self) -> bool: ...  # noqa: D102
    def str(self) -> str: ...  # noqa: D102


class MessagePort(Protocol):
    """A record, produced or consumed."""

    def error(self) -> ErrorPort | None: ...  # noqa: D102
    def key(self) -> bytes | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def offset(self) -> int | None: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


OnDelivery = Callable[[ErrorPort | None, MessagePort], None]


class ProducerPort(Protocol):
    """What the pump uses of a producer."""

    def produce(self, topic: str, *, key: str, value: bytes, on_delivery: OnDelivery) -> None: ...  # noqa: D102
    def poll(self, timeout: float) -> int: ...  # noqa: D102
    def purge(self) -> None: ...  # noqa: D102
    def flush(self, timeout: float) -> int: ...  # noqa: D102


class ConsumerPort(Protocol):
    """What the listener uses of a consumer."""

    def topic(self, name: str, timeout_s: float) -> "TopicFound": ...  # noqa: D102
    def watermarks(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]: ...  # noqa: D102
    def assign(self, topic: str, partition: int, offset: int) -> None: ...  # noqa: D102
    def read(self, most: int, timeout_s: float) -> Sequence[MessagePort]: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class TopicFound(NamedTuple):
    """What a cluster says about a topic."""

    cluster_id: str
    partitions: int
    """0 where there is no such topic."""


class Fate(Enum):
    """What to do about an error."""

    AGAIN = auto()
    """It passes: wait, try again."""
    REFUSED = auto()
    """The broker will not take this record, ever."""
    DENIED = auto()
    """Somebody must change permissions or settings; worth trying again all the same."""
    FATAL = auto()
    """This client object is of no more use; a new one is."""


_REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError._BAD_MSG,  # noqa: SLF001 - that is how the library names its own codes
    }
)
_DENIED = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
    }
)
NO_BROKER = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
"""Comes after the errors that say why."""
UNREACHABLE = frozenset({NO_BROKER, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._SSL})  # noqa: SLF001
NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001
OFFSET_GONE = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET})  # noqa: SLF001


def fate_of(error: ErrorPort) -> Fate:
    """Return what to do about an error that a client object or a delivery report tells."""
    if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001
        return Fate.FATAL
    if error.code() in _REFUSED:
        return Fate.REFUSED
    return Fate.DENIED if error.code() in _DENIED else Fate.AGAIN


OnError = Callable[[ErrorPort], None]


def make_producer(passthrough: Mapping[str, Setting], linger_ms: int, in_flight_max: int, on_error: OnError) -> Any:  # noqa: ANN401 - a ProducerPort
    """Return an idempotent producer with the contract's pinned settings. Raises PinnedSettingError, DeniedError."""
    ours: dict[str, Setting] = {
        "client.id": "twotick-client",
        "linger.ms": linger_ms,
        "message.max.bytes": _RECORD_BYTES_MAX,
        "queue.buffering.max.messages": in_flight_max + 16,
        "queue.buffering.max.kbytes": 64 * 1024,
        "reconnect.backoff.max.ms": 2_000,
        "allow.auto.create.topics": False,
    }
    config: dict[str, Any] = client_config({**ours, **passthrough}, PRODUCER)
    try:
        return Producer({**config, "error_cb": on_error}, logger=LOG)
    except KafkaException as error:
        raise DeniedError(
            f"Kafka's client library does not take these settings: {error.args[0].str().strip()}",
            "Mend them; librdkafka's documentation lists all, and what they may be.",
        ) from error


class KafkaConsumer:
    """A consumer of one partition, assigned by hand: no group, no committed offsets."""

    def __init__(self, passthrough: Mapping[str, Setting], on_error: OnError) -> None:
        ours: dict[str, Setting] = {
            "client.id": "twotick-client",
            # Never joined; the library wants one, and brokers may check it.
            "group.id": "twotick-client",
            "reconnect.backoff.max.ms": 2_000,
            "fetch.error.backoff.ms": 200,
            "queued.max.messages.kbytes": 8 * 1024,
            "queued.min.messages": 2_000,
        }
        config: dict[str, Any] = client_config({**ours, **passthrough}, CONSUMER)
        self._consumer = Consumer({**config, "error_cb": on_error}, logger=LOG)

    def topic(self, name: str, timeout_s: float) -> TopicFound:
        """Return what the cluster says about a topic. Raises KafkaException."""
        if not self._consumer.assignment():
            # Nothing is read yet, so nobody else takes what the library has to say: its log and its errors.
            self._consumer.poll(0)
        cluster = self._consumer.list_topics(name, timeout=timeout_s)
        found = cluster.topics.get(name)
        partitions = 0 if found is None or found.error is not None else len(found.partitions)
        return TopicFound(cluster.cluster_id or "", partitions)

    def watermarks(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        """Return the first offset that the log holds and the next that it will give. Raises KafkaException."""
        low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
        return low, high

    def assign(self, topic: str, partition: int, offset: int) -> None:
        """Read from `offset` on."""
        self._consumer.assign([TopicPartition(topic, partition, offset)])

    def read(self, most: int, timeout_s: float) -> Sequence[MessagePort]:
        """Return what has come, at most `most`; wait for the first only."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        return [first, *self._consumer.consume(most - 1, timeout=0)]

    def close(self) -> None:
        """Leave."""
        self._consumer.close()
