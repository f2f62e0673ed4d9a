"""A process of the simulated world: its clocks, and the points at which it may die or stand still."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.simulation.chance import Strikes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.scene import Scene


WORST_PAUSE_MS = 15_000


def in_calls(world: "Scene") -> Strikes:
    """Return what strikes in the calls of processes."""
    faults = world.faults
    odds = {"crash_in_a_call": faults.crash_in_a_call, "pause_in_a_call": faults.pause_in_a_call}
    return Strikes(world.chance, odds)


class Killed(BaseException):
    """The process is no more; nothing of production may catch this."""


class Process:
    """A client or a worker; its code runs in turns."""

    is_worker = False

    def __init__(self, world: "Scene", name: str) -> None:
        self.world = world
        self.name = name
        self.alive = False
        self.busy = False
        """In the middle of a turn."""
        self.frozen = False
        self.lives = 0
        self.wall_off_ms = 0.0
        self._booted_at = 0.0
        self._rate = 1.0 + world.chance.stream(f"{name} clock").uniform(-5e-5, 5e-5)

    def steady_ms(self) -> float:
        """Return ms since the machine's boot by its own quartz."""
        return 1_000.0 + (self.world.now - self._booted_at) * self._rate

    def wall_ms(self) -> int:
        """Return ms since 1970 by the machine's clock, right or wrong."""
        return int(self.world.now + self.wall_off_ms)

    def touch(self, what: str) -> None:
        """Be at a point where the process may die, or stand still while the others go on."""
        world = self.world
        if not world.chaos:
            return
        for name in world.in_calls.count():
            if name == "crash_in_a_call":
                world.note(self.name, "killed in", what)
                raise Killed
            if world.depth < 2:
                world.stand_still(self, what)

    def worst_moment(self, what: str, ms: int = WORST_PAUSE_MS) -> None:
        """Be at a point where standing still does the most harm."""
        world = self.world
        odds = world.faults.pause_at_the_worst
        if world.chaos and world.depth < 2 and world.chance.happens("pause at the worst", odds):
            world.stand_still(self, what, ms)

    @contextmanager
    def standing_still(self, ms: int) -> "Iterator[None]":
        """Stand still while the block lets the others go on; at least `ms` have passed then."""
        world = self.world
        before, until = world.current, world.now + ms
        self.frozen = True
        world.depth += 1
        try:
            yield
        finally:
            world.now = max(world.now, until)
            world.depth -= 1
            self.frozen = False
            world.current = before

    def run(self, step: "Callable[[], object]") -> None:
        """Run a part of the process's code; dying in it is part of it."""
        world = self.world
        before, world.current = world.current, self
        self.busy = True
        try:
            step()
        except Killed:
            self.die()
        finally:
            self.busy = False
            world.current = before

    def start(self) -> None:
        """Begin a new life."""
        raise NotImplementedError

    def turn(self) -> None:
        """Do a little work."""
        raise NotImplementedError

    def die(self) -> None:
        """Lose everything that is only in memory."""
        raise NotImplementedError
