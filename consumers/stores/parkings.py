"""A conversation's parkings as text: one column, written whole, that people can read in the store."""

import json
from collections.abc import Sequence
from typing import Any

from consumers.rows import Hold, Parking

_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_text(parkings: Sequence[Parking]) -> str:
    """Return parkings as JSON; ids are hexadecimal."""
    return _text([_listed(each) for each in parkings])


def _listed(parking: Parking) -> list[object]:
    told = [*parking[:3], [one.hex() for one in parking.waiting], parking.passed]
    # What has none is written as it was before there were holds.
    return [*told, [[hold.install.hex(), *hold[1:]] for hold in parking.holds]] if parking.holds else told


def from_text(text: str | None) -> tuple[Parking, ...]:
    """Return the parkings in a column; none where it was never written."""
    return tuple(
        Parking(
            _position(since),
            _position(until),
            releasing,
            tuple(map(bytes.fromhex, waiting)),
            tuple(map(_position, passed)),
            tuple(map(_hold, holds[0] if holds else ())),
        )
        for since, until, releasing, waiting, passed, *holds in (json.loads(text) if text else ())
    )


def _hold(found: Sequence[Any]) -> Hold:
    install, seqs, passed, until, moved_at = found
    return Hold(bytes.fromhex(install), tuple(seqs), tuple(map(_position, passed)), _position(until), moved_at)


def _position(found: Sequence[int]) -> tuple[int, int]:
    return (found[0], found[1])
