"""Changing the hot configuration: under a lock, and compared with what was read all the same.

The lock keeps two people from answering each other; the comparison (version and fencing token) keeps right what a lock
alone cannot, when its holder stood still past its end.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from consumers import clock
from consumers.hot.contract import ConfigChangedError, ConfigTable, ConfigVersion
from consumers.hot.keys import parsed
from consumers.locks.contract import Locks
from consumers.locks.locking import holding

LOCK: Final = "config"
LOCK_TTL_S: Final = 30
LOCK_WAIT_S: Final = 20.0
ATTEMPTS_MAX: Final = 5


class Change(NamedTuple):
    """What a change would do."""

    key: str
    before: str | None
    """None where it is as each worker's own settings say."""
    after: str | None
    version: int
    """The version that it would make."""

    @property
    def does_nothing(self) -> bool:
        """Whether everything is so already."""
        return self.before == self.after


def plan(table: ConfigTable, key: str, value: str | None) -> Change:
    """Return what setting a key (None: unsetting it) would do. Raises HotValueError; StoreUnavailableError."""
    return _change(table.read(), key, value)


def _change(newest: ConfigVersion, key: str, value: str | None) -> Change:
    after = None if value is None else str(parsed(key, value))
    return Change(key, newest.values.get(key), after, newest.version + 1)


def execute(  # noqa: PLR0913 - one change, with its time
    locks: Locks,
    table: ConfigTable,
    key: str,
    value: str | None,
    *,
    who: str,
    now_ms: Callable[[], int] = clock.now_ms,
    on_conflict: Callable[[], None] = lambda: None,
) -> Change:
    """Set a key, or unset it where `value` is None; return what was done.

    Raises HotValueError, LockTakenError, ConfigChangedError, StoreUnavailableError, StoreRefusedError.
    """
    with holding(locks, LOCK, ttl_s=LOCK_TTL_S, wait_s=LOCK_WAIT_S) as handle:
        for _ in range(ATTEMPTS_MAX):
            newest = table.read()
            change = _change(newest, key, value)
            if change.does_nothing:
                return change
            values = {name: text for name, text in newest.values.items() if name != key}
            if change.after is not None:
                values[key] = change.after
            if table.append(ConfigVersion(change.version, values, key, now_ms(), who, handle.token)):
                return change
            on_conflict()
    raise ConfigChangedError("the configuration was changed by others meanwhile", "Look at it, then try again.")
