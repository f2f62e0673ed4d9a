"""Times as options take them: `--since 2h`, `--from-datetime 2026-01-31T12:00:00Z`."""

import re
from datetime import UTC, datetime
from typing import Final

import typer

from consumers import clock

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_AGO = re.compile(r"(?P<number>[0-9]+)(?P<unit>[smhd])")


def instant_ms(text: str | None, option: str) -> int | None:
    """Return the ms since 1970 of an ISO 8601 time, 0 before it; raise BadParameter where it is none or has no zone."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time such as 2026-01-31T12:00:00Z", param_hint=option) from None
    if found.tzinfo is None:
        raise typer.BadParameter(f"{text!r} tells no zone: add Z for UTC, or +02:00", param_hint=option)
    return max(0, round(found.timestamp() * 1000))  # to Kafka -1 and -2 are no times


def ago_ms(text: str | None, option: str) -> int | None:
    """Return the ms since 1970 of a time so long ago: 90s, 15m, 2h, 3d; raise BadParameter where it is none."""
    if text is None:
        return None
    found = _AGO.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration such as 90s, 15m, 2h or 3d", param_hint=option)
    return max(0, clock.now_ms() - int(found["number"]) * _UNITS_S[found["unit"]] * 1000)


def start_ms(from_datetime: str | None, since: str | None) -> int | None:
    """Return the ms since 1970 of `--from-datetime` or `--since`; raise BadParameter where both are given."""
    if since is not None and from_datetime is not None:
        raise typer.BadParameter("the start is given twice: --from-datetime is there too", param_hint="--since")
    return instant_ms(from_datetime, "--from-datetime") if since is None else ago_ms(since, "--since")


def time_text(at_ms: int) -> str:
    """Return a time in ms since 1970 as people read it, in UTC; the number where no calendar has it."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # whoever wrote the record may have set any time
        return str(at_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
