"""The writing side of the dead letters: the record as it was found, and the account of it."""

from collections.abc import Iterable
from typing import Final, Protocol

from consumers.rows import Owner
from consumers.work import Refusal
from schemas.records import DeadLetter

ATTEMPTS_HEADER: Final = "twotick-attempts"
"""On a record that was redriven: how often it has been among the dead letters before, in decimal digits."""
_ATTEMPTS_MAX: Final = 1_000_000
"""More than anybody redrives anything; a header that says more says this."""


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
    found = message.headers() or ()
    headers = [header for header in found if header[0] != ATTEMPTS_HEADER]
    parts = (("key", message.key()), ("value", message.value()))
    return DeadLetter(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key() or b"",
        message.value() or b"",
        tuple((name, value or b"") for name, value in headers),
        refusal.reason,
        refusal.detail,
        1 + attempts_before(found),
        failed_at,
        owner.node,
        owner.epoch,
        tuple(name for name, content in parts if content == b""),
        tuple(index for index, (_, value) in enumerate(headers) if value is None),
    )


def attempts_before(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return how often a record has been among the dead letters before; 0 where its header tells nothing sensible."""
    for name, value in headers:
        if name == ATTEMPTS_HEADER:
            # Digits only, and few: foreign text may be any length, and int() takes "_" and other scripts' digits.
            return min(int(value), _ATTEMPTS_MAX) if value and value.isdigit() and len(value) <= 9 else 0
    return 0
