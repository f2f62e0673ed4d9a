"""All of a run's chance, from one seed: a stream of its own for each purpose, so that one can be silenced alone."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Choice = TypeVar("Choice")


class Chance:
    """Streams by name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, Random] = {}

    def stream(self, name: str) -> Random:
        """Return the stream of a purpose."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Random(f"{self._seed}/{name}")
        return found

    def happens(self, name: str, odds: float) -> bool:
        """Say whether something of these odds happens now; the stream moves on all the same."""
        return self.stream(name).random() < odds

    def pick(self, name: str, several: Sequence[Choice]) -> Choice:
        """Return one of several."""
        return several[int(self.stream(name).random() * len(several))]

    def whole(self, name: str, first: int, last: int) -> int:
        """Return a whole number, both ends included."""
        return first + int(self.stream(name).random() * (last - first + 1))
