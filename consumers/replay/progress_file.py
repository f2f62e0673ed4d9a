"""How far a replay has got, in a file that is replaced in one step, so that it can go on after any end."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from filelock import FileLock, Timeout

from consumers.errors import WorkerError
from consumers.replay.commands import Command
from consumers.replay.spans import Span

_VERSION = 4


class ProgressFileError(WorkerError):
    """The file is none, or is about another replay."""

    exit_code = 2


class ProgressFileBusyError(WorkerError):
    """Another replay keeps its progress in the file."""

    exit_code = 1
    retriable = True


def lock_of(path: Path) -> Path:
    """Return the file whose lock says that a progress file is in use."""
    return path.with_name(f"{path.name}.lock")


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Keep others from a progress file for as long as the block takes. Raises ProgressFileBusyError, OSError."""
    lock = FileLock(lock_of(path), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ProgressFileBusyError(
            f"another replay is running with {path}", "Wait for its end, or name another --state and another target."
        ) from None
    try:
        yield
    finally:
        lock.release()


class Asked(NamedTuple):
    """What was asked for: only the same is gone on with."""

    target: str
    """Where it goes, its kind and its name, as people read it."""
    wish: str
    """What is read, as it was typed."""
    topic: str
    """What tells the topic from others of its name, here and in other clusters."""
    generation: int = 0
    """Of the topic; 0 where rows are not folded."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is needed to go on."""

    asked: Asked
    spans: tuple[Span, ...]
    positions: dict[int, int] = field(default_factory=dict)
    """By partition, the offset below which everything is durable. Empty: nothing was begun."""
    began_ms: dict[int, int] = field(default_factory=dict)
    """By partition, the append time of the first record that was read of the newest generation."""
    written: int = 0
    """What the target holds of it: bytes of a file, writes of rows in a store."""
    doubted: tuple[Command, ...] = ()
    """One of each conversation with commands of which it is not sure what the workers did."""
    refused: tuple[Command, ...] = ()
    """One of each conversation with commands that were refused."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to read of what was begun."""
        return bool(self.positions) and all(self.positions.get(span.partition, 0) >= span.end for span in self.spans)

    def save(self, path: Path) -> None:
        """Replace the file. Raises OSError."""
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.write_text(json.dumps({"version": _VERSION, **asdict(self)}))
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        beside.replace(path)

    @classmethod
    def load(cls, path: Path, asked: Asked) -> Self | None:
        """Return what the file says; None where there is none. Raises ProgressFileError."""
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ProgressFileError(f"{path} cannot be read: {error}", "Name another file, or remove it.") from error
        if not isinstance(found, dict) or "version" not in found:
            raise ProgressFileError(f"{path} is no progress of a replay", "Name another file.")
        if found["version"] != _VERSION:
            raise ProgressFileError(
                f"{path} was kept by another version, which this one cannot go on from",
                "Replay from the start with a new --state and a new target.",
            )
        try:
            _check_same(path, Asked(*found["asked"]), asked)
            positions = {int(partition): offset for partition, offset in found["positions"].items()}
            began_ms = {int(partition): at for partition, at in found.get("began_ms", {}).items()}
            spans = tuple(Span(*each) for each in found["spans"])
            doubted, refused = (tuple(Command(*each) for each in found[name]) for name in ("doubted", "refused"))
            return cls(asked, spans, positions, began_ms, found["written"], doubted, refused)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProgressFileError(
                f"{path} is damaged: {error!r}", "Replay from the start with a new --state."
            ) from error


def _check_same(path: Path, found: Asked, asked: Asked) -> None:
    """Raise ProgressFileError where a file is about something else than is asked for."""
    for name, theirs, ours in zip(Asked._fields, found, asked, strict=True):
        if theirs != ours:
            raise ProgressFileError(
                f"{path} is about another replay: its {name} is {theirs or 'all'!s}, not {ours or 'all'!s}",
                "Ask for the same again, or name another file.",
            )
