"""The writing side of the dead letters: the record as it was found, and the account of it."""

from typing import Protocol

from consumers.rows import Owner
from consumers.work import Refusal
from schemas.records import DeadLetter


class Original(Protocol):
    """What a dead letter needs of a Kafka message; the client's own types say less than it does."""

    def topic(self) -> str: ...  # noqa: D102
    def partition(self) -> int: ...  # noqa: D102
    def offset(self) -> int: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102
    def key(self) -> bytes | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...  # noqa: D102


def dead_letter(refusal: Refusal, message: Original, owner: Owner, failed_at: int) -> DeadLetter:
    """Return the dead letter of a Kafka message; `failed_at` is in ms since 1970."""
    headers = tuple((name, value or b"") for name, value in message.headers() or ())
    return DeadLetter(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key() or b"",
        message.value() or b"",
        headers,
        refusal.reason,
        refusal.detail,
        1,
        failed_at,
        owner.node,
        owner.epoch,
    )
