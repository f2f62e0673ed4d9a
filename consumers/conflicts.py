"""Conflicts: where two wanted the same. Their kinds, and when there are so many that people should know. Pure."""

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from schemas.lifecycle import Reason


class ConflictKind(StrEnum):
    """What two met at."""

    VERSION = "version"
    """A row, a share or a configuration was no longer as it had been read."""
    LOCK = "lock"
    """A lock was not had in time, or ended before the work under it."""
    LEASE = "lease"
    """A partition went to a later owner while this one still worked on it."""
    TRANSITION = "transition"
    """An event was refused because of where its message stands, or whose it is."""
    IDENTITY = "identity"
    """An id came again with another content, or a running number under another id."""


_KINDS: Final[Mapping[str, ConflictKind]] = {
    Reason.CONTENT_DIFFERS: ConflictKind.IDENTITY,
    Reason.SEQUENCE_REUSED: ConflictKind.IDENTITY,
    Reason.ALREADY_FINAL: ConflictKind.TRANSITION,
    Reason.UNKNOWN_MESSAGE: ConflictKind.TRANSITION,
    Reason.NOT_A_RECIPIENT: ConflictKind.TRANSITION,
    Reason.NOT_THE_SENDER: ConflictKind.TRANSITION,
}


def kind_of(reason: str) -> ConflictKind | None:
    """Return which kind of conflict a refusal is; None where it is none, such as bytes that are no event."""
    return _KINDS.get(reason)


WINDOW_S: Final = 60.0


class Alert(NamedTuple):
    """What is told when an episode begins."""

    per_minute: float
    by_kind: Mapping[str, int]
    """Of the last minute."""


class ConflictWatch:
    """Looks at counts that only rise. An episode begins above the limit and ends below half of it: one alert each."""

    __slots__ = ("_looks", "alerting", "per_minute")

    def __init__(self) -> None:
        self._looks: deque[tuple[float, dict[str, int]]] = deque()
        self.alerting = False
        """Whether an episode goes on."""
        self.per_minute = 0.0

    def look(self, counts: Mapping[str, int], limit: float, now: float) -> Alert | None:
        """Take the counts of now (monotonic s); return an alert where an episode begins. `limit` 0: never."""
        looks = self._looks
        looks.append((now, dict(counts)))
        while len(looks) > 1 and looks[1][0] <= now - WINDOW_S:
            looks.popleft()
        before = looks[0][1]
        by_kind = {kind: count - before.get(kind, 0) for kind, count in counts.items() if count > before.get(kind, 0)}
        self.per_minute = float(sum(by_kind.values()))
        if self.alerting:
            self.alerting = limit > 0 and self.per_minute > limit / 2
            return None
        if limit <= 0 or self.per_minute <= limit:
            return None
        self.alerting = True
        return Alert(self.per_minute, by_kind)
