"""How a worker's log lines look: one line an event of note, as text or as JSON. Bodies are never among the fields."""

import json
import logging
from time import gmtime, strftime
from typing import Final

from schemas.text import harmless

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return what was logged with `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _time_of(record: logging.LogRecord) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(record.created)) + f".{int(record.msecs):03d}Z"


class JsonFormatter(logging.Formatter):
    """One JSON object a line; times are UTC."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {"at": _time_of(record), "level": record.levelname.lower(), "node": self._node}
        line |= {"logger": record.name, "event": record.getMessage(), **fields_of(record)}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """For people: time, level, node, what happened, then the fields; control characters are escaped."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = " ".join(f"{name}={json.dumps(value, default=str)}" for name, value in fields_of(record).items())
        text = f"{_time_of(record)} {record.levelname:<8} {self._node} {harmless(record.getMessage())}"
        line = f"{text} {fields}".rstrip()
        if not record.exc_info:
            return line
        return "\n".join([line, *map(harmless, self.formatException(record.exc_info).split("\n"))])


def configure(*, node: str, json_lines: bool, level: str) -> None:
    """Send this process's log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(node) if json_lines else TextFormatter(node))
    logging.basicConfig(handlers=[handler], force=True)
    set_level(level)


def set_level(level: str) -> None:
    """Log from this level on; the driver's own lines from WARNING on at least, and an HTTP client's only from ERROR on.

    What that one tells below holds the addresses that it calls, and a gateway's address is a secret.
    """
    logging.getLogger().setLevel(level.upper())
    for name, least in (("cassandra", logging.WARNING), ("urllib3", logging.ERROR)):
        logging.getLogger(name).setLevel(max(least, logging.getLogger().level))
