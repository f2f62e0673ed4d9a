"""What a client's program did, written down apart from the outbox: lines that are only ever added.

Each line is one write, so a killed process leaves whole lines, or one that is cut short at the end. No fsync: in these
runs processes die, the machine does not, and what was written to a file outlives its writer.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """One thing that was done."""

    what: str
    """`sent`: send returned; `read`: mark_read is about to be called; `died`: right after a send."""
    message_id: bytes
    body: bytes = b""


class Journal:
    """A file that is only added to."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, entries: Sequence[Entry]) -> None:
        """Write entries down in one go."""
        # The line break comes first: what follows a line that was cut short still begins on a line of its own.
        text = "".join(f"\n{one.what} {one.message_id.hex()} {one.body.hex()}." for one in entries)
        os.write(self._file, text.encode())


def read(path: Path) -> Iterator[Entry]:
    """Yield what was written down; a line that was cut short does not count."""
    if not path.exists():
        return
    with path.open(encoding="ascii") as lines:
        for line in lines:
            text = line.strip("\n")
            if text.endswith("."):
                what, message_id, body = text[:-1].split(" ")
                yield Entry(what, bytes.fromhex(message_id), bytes.fromhex(body))
