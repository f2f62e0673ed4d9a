"""What a `twotick replay` came to, for the programs that ran it."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class ReplayResult:
    """Counts; None where that was not asked for, or not come to."""

    complete: bool = False
    """Whether it got to its end: nothing was in its way, and nobody interrupted it."""
    records: int | None = None
    """Read by this run."""
    folded: int | None = None
    """Of them, by this run."""
    refused: int | None = None
    """Folded as what could not be applied."""
    lines: int | None = None
    """Written as JSON lines by this run."""
    checked: int | None = None
    """Rows compared with the live store."""
    ahead: int | None = None
    """Of them, those that workers have moved on meanwhile."""
    behind: int | None = None
    """Of them, those that workers have yet to write."""
    differing: int | None = None
    """Of them, those that were not as the log makes them."""
    changed: int | None = None
    """Of those, the ones that were mended."""
    unknown: tuple[str, ...] = field(default=())
    """Conversations that were named and of which there is nothing."""

    def save(self, path: Path) -> None:
        """Write it as one JSON object. Raises OSError."""
        path.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
