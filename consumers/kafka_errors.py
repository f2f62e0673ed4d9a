"""Which of librdkafka's errors end a worker, and which pass by themselves (case K2)."""

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from consumers.errors import FencedError, KafkaRefusedError, KafkaUnavailableError, WorkerError

# The library names its own, not the brokers', codes with an underscore; they are public all the same.
ALL_BROKERS_DOWN: Final[int] = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
POSITION_GONE: Final[int] = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001
FATAL: Final[int] = KafkaError._FATAL  # noqa: SLF001
_FENCED: Final[int] = KafkaError._FENCED  # noqa: SLF001
_AUTHENTICATION: Final[int] = KafkaError._AUTHENTICATION  # noqa: SLF001

_FENCED_CODES: Final = frozenset(
    {_FENCED, KafkaError.FENCED_INSTANCE_ID, getattr(KafkaError, "UNRELEASED_INSTANCE_ID", 111)}
)
_REFUSED_CODES: Final = frozenset(
    {
        _AUTHENTICATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)


def is_fatal(error: KafkaError) -> bool:
    """Say whether the client that reported it is of no use any more."""
    return bool(error.fatal()) or error.code() == FATAL


def verdict(error: KafkaError, member: str) -> WorkerError | None:
    """Return the error that ends a worker, None where the client gets over it; `member` is the static member id."""
    if error.code() in _FENCED_CODES:
        return FencedError(
            f"the static member id {member!r} is in use by another process: {error.str()}",
            "Give every worker process of the group its own node name, or set static_members = false.",
        )
    if error.code() in _REFUSED_CODES:
        return KafkaRefusedError(
            f"Kafka refused: {error.str()}", "Look at the credentials and the ACLs of this worker's user."
        )
    if is_fatal(error):
        return KafkaRefusedError(f"Kafka's client gave up: {error.str()}", "Start the worker again.")
    return None


def translated(error: KafkaException, doing: str) -> WorkerError:
    """Return the error of a call that asked Kafka something."""
    inner = error.args[0]
    if inner.code() in _REFUSED_CODES or is_fatal(inner):
        return KafkaRefusedError(f"{doing}: {inner.str()}", "Look at the credentials and the ACLs.")
    return KafkaUnavailableError(f"{doing}: {inner.str()}", "Look whether the brokers run and can be reached.")
