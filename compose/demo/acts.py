"""What the demo does to itself: an act for each share of the messages that is on its way. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class Act(Enum):
    """Something that is done to a process or to its network."""

    KILL_WORKER = auto()
    """SIGKILL to a worker that owns partitions."""
    CUT_OFF_CLIENT = auto()
    """A client's network is cut: its user goes on writing, and the others go on writing to him."""
    RECONNECT_CLIENT = auto()
    """The network is mended."""


class Cue(Enum):
    """What an act waits for."""

    SHARE = auto()
    """A share of the messages being sent, as their senders were told: so there are workers, and they work."""
    SECONDS = auto()
    """A time after the act before it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """An act and when it comes."""

    act: Act
    cue: Cue
    value: float


SCRIPT: Final = (
    Scene(Act.KILL_WORKER, Cue.SHARE, 0.25),
    Scene(Act.CUT_OFF_CLIENT, Cue.SHARE, 0.45),
    Scene(Act.RECONNECT_CLIENT, Cue.SECONDS, 3.0),
)


class Director:
    """Says when an act is due; acts come in the order of the script, never two at once."""

    def __init__(self, script: Sequence[Scene] = SCRIPT) -> None:
        self._script = list(script)
        self._last_at = 0.0

    @property
    def finished(self) -> bool:
        """Say whether every act has been."""
        return not self._script

    def due(self, sent_share: float, now_s: float) -> Act | None:
        """Return the act that is due, if one is; it is not said again."""
        if not self._script:
            return None
        scene = self._script[0]
        reached = sent_share if scene.cue is Cue.SHARE else now_s - self._last_at
        if reached < scene.value:
            return None
        self._script.pop(0)
        self._last_at = now_s
        return scene.act
