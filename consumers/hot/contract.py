"""Versions of the hot configuration, and what a store must offer for them."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from consumers.errors import WorkerError

SCOPE: Final = "workers"
"""Whose configuration it is; there is one."""


class ConfigChangedError(WorkerError):
    """Somebody else changed the configuration in between, again and again."""

    retriable = True


class ConfigVersion(NamedTuple):
    """One version: all values that are set, and what made it."""

    version: int
    """From 1; each change adds 1. 0 stands for nothing ever set."""
    values: Mapping[str, str]
    """By key, as text; what is not here is as the worker's own settings say."""
    key: str
    """What was changed."""
    changed_at: int
    """ms since 1970, by the clock of who changed it."""
    changed_by: str
    token: int
    """The fencing token of the lock under which it was made."""


NOTHING: Final = ConfigVersion(0, {}, "", 0, "", 0)
"""Before the first change."""


class ConfigTable(Protocol):
    """What a store offers; safe to use from any thread. Each call raises StoreUnavailableError, StoreRefusedError."""

    def newest(self) -> int:
        """Return the newest version's number, cheaply: it may be behind by a moment. 0 where there is none."""

    def read(self) -> ConfigVersion:
        """Return the newest version, serially; `NOTHING` where there is none."""

    def history(self, limit: int) -> Sequence[ConfigVersion]:
        """Return the newest versions, newest first."""

    def append(self, change: ConfigVersion) -> bool:
        """Add the version after the newest, if it still is and no larger token has been seen; say whether it did."""
