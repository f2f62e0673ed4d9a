"""How far a replay has got, in a file that is replaced in one step, so that it can go on after any end."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from consumers.errors import WorkerError
from consumers.replay.spans import Span

_VERSION = 1


class ProgressFileError(WorkerError):
    """The file is none, or is about another replay."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """What is needed to go on."""

    what: str
    """What was asked for, as text: only the same is resumed."""
    spans: tuple[Span, ...]
    positions: dict[int, int] = field(default_factory=dict)
    """By partition, the offset below which everything is durable."""
    began_ms: dict[int, int] = field(default_factory=dict)
    """By partition, the append time of the first record that was read of the newest generation."""

    def save(self, path: Path) -> None:
        """Replace the file. Raises OSError."""
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.write_text(json.dumps({"version": _VERSION, **asdict(self), "spans": [list(s) for s in self.spans]}))
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        beside.replace(path)

    @classmethod
    def load(cls, path: Path, what: str) -> Self | None:
        """Return what the file says; None where there is none. Raises ProgressFileError."""
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ProgressFileError(f"{path} cannot be read: {error}", "Name another file, or remove it.") from error
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            raise ProgressFileError(f"{path} is no progress of a replay", "Name another file.")
        if found["what"] != what:
            raise ProgressFileError(
                f"{path} is about another replay: {found['what']}", "Ask for the same again, or name another file."
            )
        positions = {int(partition): offset for partition, offset in found["positions"].items()}
        began_ms = {int(partition): at for partition, at in found.get("began_ms", {}).items()}
        return cls(what, tuple(Span(*each) for each in found["spans"]), positions, began_ms)
