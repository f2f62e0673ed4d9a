"""What a simulated process, and what stands in for a server, ask of the world that they are in."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tests.simulation.chance import Chance, Strikes
    from tests.simulation.faults import Faults
    from tests.simulation.process import Process


class Scene(Protocol):
    """A world: the big one, or that of the deliveries to a gateway."""

    chance: "Chance"
    faults: "Faults"
    now: float
    """ms since 1970, true time."""
    chaos: bool
    """Whether faults strike."""
    depth: int
    """How many processes stand still within each other's calls."""
    current: "Process"
    in_calls: "Strikes"
    """What strikes in the calls of processes."""

    def note(self, *what: object) -> None:
        """Put something into the journal."""

    def stand_still(self, process: "Process", what: str, ms: int = 0) -> None:
        """Have a process stand still in a call while the others go on."""

    def store_is_down(self) -> bool:
        """Say whether the store answers nobody."""

    def node_ms(self) -> float:
        """Return ms since 1970 by the clock of some node of the store."""
