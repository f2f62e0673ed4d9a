"""The errors of a worker: one root, each with what happened, what to do next, and whether waiting helps."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final


class WorkerError(Exception):
    """Root of all errors of this package: `hint` names what to do next, `retriable` says whether waiting helps."""

    retriable = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreUnavailableError(WorkerError):
    """The store did not answer, or its outcome is unknown; the same call is safe to make again."""

    retriable = True


class StoreRefusedError(WorkerError):
    """The store answered no, and will again: a missing table, a missing permission, another schema version."""


class VersionConflictError(WorkerError):
    """Rows do not stand where the fold left them: someone else has written them.

    Writing the same rows again meets the same answer: read them and fold their events again. What else the write had
    may have become durable.
    """

    def __init__(self, messages: Sequence[tuple[str, bytes]], conversations: Sequence[str]) -> None:
        count = len(messages) + len(conversations)
        super().__init__(
            f"{count} rows have been changed by someone else", "Read them and fold again; a worker does so by itself."
        )
        self.messages = messages
        """(conversation_id, message_id) of each message."""
        self.conversations = conversations


class OwnerFencedError(WorkerError):
    """A later owner has taken the partition: what this one writes is refused."""

    def __init__(self, epoch: int, node: str) -> None:
        super().__init__(
            f"epoch {epoch} of {node} is over: a later owner has the partition", "Drop it; a worker does so by itself."
        )


class ExitCode(IntEnum):
    """Why a worker or its supervisor ended; `twotick consume --help` lists these."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNDRAINED = 4
    UNREACHABLE = 5
    FENCED = 10
    STUCK = 11
    LOST_RANGE = 12
    TOPIC_CHANGED = 13
    STORE_REFUSED = 14
    KAFKA_REFUSED = 15
    UNRELEASED = 16
    INTERRUPTED = 130


EXIT_CODES: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "drained and stopped as asked",
    ExitCode.FAILED: "an error that nothing here foresees; the log says which",
    ExitCode.USAGE: "settings or arguments that cannot be used",
    ExitCode.UNDRAINED: "stopped before everything that was read was finished; the next owner finishes it",
    ExitCode.UNREACHABLE: "Kafka or the store could not be reached at the start",
    ExitCode.FENCED: "another process has joined with this static member id",
    ExitCode.STUCK: "records waited and nothing moved for the watchdog's time",
    ExitCode.LOST_RANGE: "the log no longer holds the committed position, and worker.on_lost_range is stop",
    ExitCode.TOPIC_CHANGED: "the events topic is not the one that the store has recorded, or not set as required",
    ExitCode.STORE_REFUSED: "the store refused: a missing table or permission, or another schema version",
    ExitCode.KAFKA_REFUSED: "Kafka refused for good: authentication, authorization, or a fatal error",
    ExitCode.UNRELEASED: "this static member id is still held, by a process that lives or has just died",
    ExitCode.INTERRUPTED: "a second signal ended it at once",
}
"""What each code says, for people."""


class KafkaUnavailableError(WorkerError):
    """No broker answered in time."""

    retriable = True
    exit_code = ExitCode.UNREACHABLE


class KafkaRefusedError(WorkerError):
    """Kafka refused for good: authentication, authorization, a fatal client error."""

    exit_code = ExitCode.KAFKA_REFUSED


class FencedError(WorkerError):
    """Another process joined the group with this worker's static member id."""

    exit_code = ExitCode.FENCED


class UnreleasedError(WorkerError):
    """The group still holds this worker's static member id for another process (KIP-848)."""

    retriable = True
    exit_code = ExitCode.UNRELEASED


class StuckError(WorkerError):
    """Records wait, nothing moves, and no server is known to be down."""

    exit_code = ExitCode.STUCK


class LostRangeError(WorkerError):
    """The log no longer holds the position from which this partition must be read."""

    exit_code = ExitCode.LOST_RANGE


class TopicChangedError(WorkerError):
    """The events topic is another one than was recorded, or is not set as the contract requires."""

    exit_code = ExitCode.TOPIC_CHANGED


class TopicUnrecordedError(WorkerError):
    """The store has no record of the events topic, of which the group has finished records: into another store."""

    exit_code = ExitCode.TOPIC_CHANGED

    def __init__(self, topic: str, group: str, begun: int, partitions: int) -> None:
        super().__init__(
            f"the store has no record of {topic}, but the group {group} has committed offsets in {begun} of "
            f"{partitions} partitions: what it has finished is in another store",
            "Check the store's settings, its kind first, and worker.group (`twotick config show`). Where the other one "
            "is lost, set worker.group to a new name: a new group folds all that the log holds into this store.",
        )


def exit_code_of(error: Exception) -> int:
    """Return the exit code that tells about an error."""
    if isinstance(error, StoreUnavailableError):
        return ExitCode.UNREACHABLE
    if isinstance(error, StoreRefusedError):
        return ExitCode.STORE_REFUSED
    return int(getattr(error, "exit_code", ExitCode.FAILED))
