"""A store's connections belong to the process that opened them, and end with it."""

import os

from consumers.errors import StoreRefusedError


class OpenIn:
    """Remembers the process and whether the store is still open; `check` refuses everything else."""

    __slots__ = ("_closed", "_pid")

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._closed = False

    def check(self) -> None:
        """Raise StoreRefusedError after a fork or a close: the answer would never come."""
        if self._closed:
            raise StoreRefusedError("the store is closed", hint="Open a new one.")
        if os.getpid() != self._pid:
            raise StoreRefusedError(
                f"the store was opened in process {self._pid} and is used in process {os.getpid()}",
                hint="Open a store after the fork: sockets, locks and threads do not survive one.",
            )

    def close(self) -> bool:
        """Say whether there is something to close here: not twice, not in a forked child."""
        if self._closed or os.getpid() != self._pid:
            return False
        self._closed = True
        return True
