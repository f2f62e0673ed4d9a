"""Signals as bytes on a socket, which a thread can read while the main thread is inside a call that takes long.

Python runs signal handlers between two of the main thread's instructions: a call into a C library that waits for a
server holds them up for as long. And a handler that raises is lost where its signal comes just before such a call.
"""

import signal
import socket
from collections.abc import Iterable


def as_socket(numbers: Iterable[int]) -> socket.socket:
    """Return a socket on which each signal of these arrives as one byte, its number; on the main thread only."""
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    signal.set_wakeup_fd(pythons.detach())
    for number in numbers:
        signal.signal(number, lambda _number, _frame: None)
    return ours
