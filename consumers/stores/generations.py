"""Where a topic's earlier generations ended, as text: one column that people can read in the store."""

import json
from collections.abc import Sequence


def to_text(earlier: Sequence[Sequence[int]]) -> str:
    """Return the ends as JSON."""
    return json.dumps(earlier, separators=(",", ":"))


def from_text(text: str | None) -> tuple[tuple[int, ...], ...]:
    """Return the ends in a column; none where it was never written."""
    return tuple(map(tuple, json.loads(text))) if text else ()
