"""All of a run's chance, from one seed: a stream of its own for each purpose, so that one can be silenced alone."""

from collections.abc import Callable, Mapping, Sequence
from math import log
from random import Random
from typing import TypeVar

Choice = TypeVar("Choice")


class Chance:
    """Streams by name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, Random] = {}
        self._rolls: dict[str, Callable[[], float]] = {}
        """Each stream's next number between 0 and 1."""

    def stream(self, name: str) -> Random:
        """Return the stream of a purpose."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Random(f"{self._seed}/{name}")
        return found

    def _roll(self, name: str) -> Callable[[], float]:
        found = self._rolls[name] = self.stream(name).random
        return found

    def happens(self, name: str, odds: float) -> bool:
        """Say whether something of these odds happens now; the stream moves on all the same."""
        try:
            return self._rolls[name]() < odds
        except KeyError:
            return self._roll(name)() < odds

    def pick(self, name: str, several: Sequence[Choice]) -> Choice:
        """Return one of several."""
        roll = self._rolls.get(name) or self._roll(name)
        return several[int(roll() * len(several))]

    def whole(self, name: str, first: int, last: int) -> int:
        """Return a whole number, both ends included."""
        roll = self._rolls.get(name) or self._roll(name)
        return first + int(roll() * (last - first + 1))


class Strikes:
    """When each of several things strikes next, with odds of its own at every count.

    It is as if each were rolled for at every count, at the price of one comparison: what is drawn is how many counts
    pass until the next time (geometrically distributed). What has no odds never strikes, and nothing else changes.
    """

    def __init__(self, chance: Chance, odds: Mapping[str, float]) -> None:
        self._chance = chance
        self._odds = {name: each for name, each in odds.items() if each > 0}
        self._counts = 0
        self._due = {name: self._wait(name) for name in self._odds}
        self._next = min(self._due.values(), default=0)

    def _wait(self, name: str) -> int:
        odds = self._odds[name]
        if odds >= 1:
            return 1
        return 1 + int(log(1 - self._chance.stream(name).random()) / log(1 - odds))

    def count(self) -> Sequence[str]:
        """Count once; return what strikes now."""
        self._counts = counts = self._counts + 1
        if counts != self._next:
            return ()
        struck = [name for name, at in self._due.items() if at == counts]
        for name in struck:
            self._due[name] = counts + self._wait(name)
        self._next = min(self._due.values())
        return struck
