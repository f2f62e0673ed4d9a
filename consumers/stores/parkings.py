"""A conversation's parkings as text: one column, written whole, that people can read in the store."""

import json
from collections.abc import Sequence

from consumers.rows import Parking

_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_text(parkings: Sequence[Parking]) -> str:
    """Return parkings as JSON; ids are hexadecimal."""
    return _text([[*each[:3], [one.hex() for one in each.waiting], each.passed] for each in parkings])


def from_text(text: str | None) -> tuple[Parking, ...]:
    """Return the parkings in a column; none where it was never written."""
    return tuple(
        Parking(
            _position(since),
            _position(until),
            releasing,
            tuple(map(bytes.fromhex, waiting)),
            tuple(map(_position, passed)),
        )
        for since, until, releasing, waiting, passed in (json.loads(text) if text else ())
    )


def _position(found: Sequence[int]) -> tuple[int, int]:
    return (found[0], found[1])
