"""Which of librdkafka's errors end a worker, and which pass by themselves."""

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from consumers.errors import (
    FencedError,
    KafkaRefusedError,
    KafkaUnavailableError,
    UnreleasedError,
    WorkerError,
)

# The library names its own, not the brokers', codes with an underscore; they are public all the same.
ALL_BROKERS_DOWN: Final[int] = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001
POSITION_GONE: Final[int] = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001
FATAL: Final[int] = KafkaError._FATAL  # noqa: SLF001
_AUTHENTICATION: Final[int] = KafkaError._AUTHENTICATION  # noqa: SLF001

_UNRELEASED: Final[int] = getattr(KafkaError, "UNRELEASED_INSTANCE_ID", 111)
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


def _is(error: KafkaError, code: int) -> bool:
    """Say whether an error is a broker's `code`: a fatal error carries it in its text only."""
    return error.code() == code or (is_fatal(error) and KafkaError(code).str() in error.str())


def ending_error(error: KafkaError, member: str) -> WorkerError | None:
    """Return the error that ends a worker, None where the client gets over it; `member` is the static member id."""
    if _is(error, KafkaError.FENCED_INSTANCE_ID):
        return FencedError(
            f"another process has joined with the static member id {member!r}: {error.str()}",
            "Give every worker process of the group its own node name, or set worker.static_members = false.",
        )
    if _is(error, _UNRELEASED):
        return UnreleasedError(
            f"the static member id {member!r} is still held: {error.str()}",
            "If its process died, wait for the group's session time-out; else give each worker its own node name.",
        )
    if refused := refusal(error):
        return refused
    if is_fatal(error):
        return KafkaRefusedError(f"Kafka's client gave up: {error.str()}", "Start the worker again.")
    return None


def refusal(error: KafkaError) -> KafkaRefusedError | None:
    """Return the error that ends a worker which may not do what it must; None for any other error."""
    if not any(_is(error, code) for code in _REFUSED_CODES):
        return None
    return KafkaRefusedError(
        f"Kafka refused: {error.str()}", "Look at the credentials and the ACLs of this worker's user."
    )


def translated(error: KafkaException, doing: str) -> WorkerError:
    """Return the error of a call that asked Kafka something."""
    inner = error.args[0]
    if inner.code() in _REFUSED_CODES or is_fatal(inner):
        return KafkaRefusedError(f"{doing}: {inner.str()}", "Look at the credentials and the ACLs.")
    return KafkaUnavailableError(f"{doing}: {inner.str()}", "Look whether the brokers run and can be reached.")
