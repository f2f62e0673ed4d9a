"""The servers' log files: one per server and start, the one before kept beside it."""

from pathlib import Path

TAIL_LINES = 20

# Enough for the last lines even when a stack trace is among them; a log may be large.
_TAIL_BYTES = 32_768


def fresh_log(path: Path) -> Path:
    """Move the log of the last start aside and return the path, so that a log tells of one start alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(path.with_suffix(".log.1"))
    return path


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
