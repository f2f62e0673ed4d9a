"""Log lines of Kafka's client library that say the same again: told once, then counted.

Both sides need it and neither may import the other, so it is here; its time is that of the lines themselves. No setting
of librdkafka does it: it logs each failed attempt to connect (its issues 687 and 847), and its back-off is that of one
connection. The library log-rate-limit would have to be told the kinds all the same, which is most of this.
"""

from logging import WARNING, LogRecord
from typing import Final

INTERVAL_S: Final = 30.0
_KINDS_MAX: Final = 100


def kind_of(line: str) -> str:
    """Return what is the same in all lines about one thing: not where, when, nor how long it took.

    A line of librdkafka is `FAIL [client] [thrd:broker]: broker: Connect to ... failed: why (after 3ms in state ...)`,
    the error that it hands to a program only what follows `]: `.
    """
    what = line.rpartition("]: ")[2].partition(" (after ")[0]
    return " ".join(word for word in what.split() if not any(char.isdigit() for char in word))


class Repeats:
    """A filter of a logger: of warnings and errors of one kind it lets the first pass, then one every `INTERVAL_S`.

    Each that passes after others says how many were held back.
    """

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}
        """By kind: when one passed, and how many were held back since."""

    def __call__(self, record: LogRecord) -> bool:
        """Say whether a line passes."""
        if record.levelno < WARNING:
            return True
        line = record.getMessage()
        kind = kind_of(line)
        told_at, held_back = self._told.get(kind, (float("-inf"), 0))
        # A clock that was set back must not silence it.
        if 0 <= record.created - told_at < INTERVAL_S:
            self._told[kind] = (told_at, held_back + 1)
            return False
        if len(self._told) >= _KINDS_MAX:
            self._told.clear()
        self._told[kind] = (record.created, 0)
        if held_back:
            record.msg, record.args = f"{line}; {held_back} more lines like this were held back", None
        return True
