"""The servers' log files: one per server and start, the one before kept beside it."""

from contextlib import suppress
from pathlib import Path

TAIL_LINES = 20

# Enough for the last lines even when a stack trace is among them; a log may be large.
_TAIL_BYTES = 32_768


def fresh_log(path: Path) -> Path:
    """Move the log of the last start aside and return the path, so that a log tells of one start alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(_before(path))
    return path


def remove_logs(path: Path) -> None:
    """Delete a server's logs, and their folder where nothing else is in it."""
    for each in (path, _before(path)):
        each.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()


def _before(path: Path) -> Path:
    return path.with_suffix(".log.1")


def log_tail(path: Path) -> str:
    """Return the last 20 lines, or nothing if there is no log."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _TAIL_BYTES, 0))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-TAIL_LINES:])
