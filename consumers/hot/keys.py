"""Which settings are hot, what values they take, and a worker's settings with them: pure.

A key is the setting's own name in the settings; a hot value counts for more than every file, variable and flag, until
it is unset. What all workers must agree on at every moment (limits of the fold, bucket lengths) is not hot.
"""

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from consumers.errors import WorkerError
from consumers.settings import WorkerSettings

SECTION: Final = "worker"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


class HotValueError(WorkerError):
    """A key that is not hot, or a value that it cannot have."""

    exit_code = 2


class HotKey(NamedTuple):
    """One hot setting."""

    field: str
    """Its path within the workers' settings."""
    takes: str
    """For people."""
    parse: Callable[[str], Any]
    """Turns text into a value; raises ValueError."""

    @property
    def key(self) -> str:
        """Its name in the settings."""
        return f"{SECTION}.{self.field}"


def _whole(least: int, most: int) -> tuple[str, Callable[[str], int]]:
    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError
        return value

    return f"a whole number from {least} to {most}", parse


def _number(least: float, most: float) -> tuple[str, Callable[[str], float]]:
    def parse(text: str) -> float:
        value = float(text)
        if not (math.isfinite(value) and least <= value <= most):
            raise ValueError
        return value

    return f"a number from {least:.9g} to {most:.9g}", parse


def _one_of(*choices: str) -> tuple[str, Callable[[str], str]]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError
        return text.lower()

    return "one of " + ", ".join(choices), parse


KEYS: Final[Mapping[str, HotKey]] = {
    key.key: key
    for key in (
        HotKey("log_level", *_one_of(*LOG_LEVELS)),
        HotKey("batch_records_max", *_whole(1, 100_000)),
        HotKey("records_in_flight_max", *_whole(1, 1_000_000)),
        HotKey("schedule.first_wait_s", *_number(1, 86_400)),
        HotKey("schedule.wait_s_max", *_number(1, 7 * 86_400)),
        HotKey("conflicts_per_minute_max", *_number(0, 1_000_000)),
        HotKey("partition_share_max", *_number(0.01, 1)),
    )
}
"""By name."""


def parsed(key: str, text: str) -> Any:  # noqa: ANN401 - each key has its own type
    """Return a hot setting's value. Raises HotValueError."""
    known = KEYS.get(key)
    if known is None:
        near = difflib.get_close_matches(key, KEYS, 1, 0.75)
        guess = f"Did you mean {near[0]}? " if near else ""
        raise HotValueError(
            f"{key} cannot be changed while workers run", f"{guess}`twotick config get` lists what can."
        )
    try:
        return known.parse(text)
    except ValueError:
        raise HotValueError(f"{key} cannot be {text!r}", f"It takes {known.takes}.") from None


def taken_up(settings: WorkerSettings, values: Mapping[str, str]) -> tuple[WorkerSettings, Sequence[HotValueError]]:
    """Return a worker's settings with hot values in the place of its own, and why some are left out.

    A newer or older worker may have made them, and what goes with one worker's own settings may not go with another's.
    What does not go is tried again with those behind it taken up: together they may.
    """
    left: Mapping[str, str] = values
    while True:
        left_out: dict[str, HotValueError] = {}
        for key, text in left.items():
            try:
                settings = _with(settings, key, text)
            except HotValueError as error:
                left_out[key] = error
        if len(left_out) == len(left):
            return settings, list(left_out.values())
        left = {key: left[key] for key in left_out}


def with_hot_values(settings: WorkerSettings, values: Mapping[str, str]) -> WorkerSettings:
    """Return a worker's settings with hot values in the place of its own; unusable ones are left out."""
    return taken_up(settings, values)[0]


def check_fits(settings: WorkerSettings, values: Mapping[str, str], key: str, text: str) -> None:
    """Raise HotValueError where a value does not go with a worker's own settings and the other hot ones."""
    _with(with_hot_values(settings, {name: value for name, value in values.items() if name != key}), key, text)


def _with(settings: WorkerSettings, key: str, text: str) -> WorkerSettings:
    value = parsed(key, text)
    try:
        changed: WorkerSettings = _replaced(settings, KEYS[key].field, value)
    except ValueError as error:
        raise HotValueError(f"{key} cannot be {text!r}: {error}", "Take a value that goes with the others.") from None
    return changed


def value_of(settings: WorkerSettings, key: str) -> object:
    """Return what a worker's settings say for a hot key."""
    value: object = settings
    for name in KEYS[key].field.split("."):
        value = getattr(value, name)
    return value


def _replaced(owner: Any, path: str, value: Any) -> Any:  # noqa: ANN401 - a frozen dataclass and what its field holds
    name, _, rest = path.partition(".")
    inner = _replaced(getattr(owner, name), rest, value) if rest else value
    return dataclasses.replace(owner, **{name: inner})
