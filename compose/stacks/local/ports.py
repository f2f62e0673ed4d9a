"""Loopback ports: choosing free ones that stay free, and noticing that one is taken."""

import random
import socket
import sys
import time
from collections.abc import Iterable

from compose.stacks.errors import PortTakenError

LOOPBACK = "127.0.0.1"

# Below the range from which kernels take the ports of outgoing connections (Linux from 32768, macOS from 49152): a port
# chosen there could be lost to any client between two starts of a server.
_FIRST_PORT, _LAST_PORT = 20_000, 31_999
_TRIES = 200

# On Linux a server can listen on a port that a socket holds which does not listen; elsewhere only one can have it.
_SERVERS_LISTEN_BESIDE = sys.platform == "linux"

_PATIENCE_S = 1.0
_POLL_S = 0.05


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether a server could listen on this port of a loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: the leftovers of closed connections (TIME_WAIT) are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def accepts_connections(port: int, host: str = LOOPBACK, timeout_s: float = 0.5) -> bool:
    """Return whether something listens on this port; whether it works is for a health check to say."""
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except OSError:
        return False
    return True


def choose_free(taken: Iterable[int] = ()) -> int:
    """Return a free port that is none of `taken`; raise PortTakenError if none is found."""
    reservations = Reservations()
    try:
        return reservations.choose(taken)
    finally:
        reservations.let_go()


class Reservations:
    """Free ports that were chosen and on which no server listens yet: nobody else chooses them here meanwhile.

    A server takes seconds to start, and another stack may choose its ports just then.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def choose(self, taken: Iterable[int] = ()) -> int:
        """Hold a free port that is none of `taken`, and return it; raise PortTakenError if none is found."""
        refused = set(taken)
        for _ in range(_TRIES):
            port = random.randint(_FIRST_PORT, _LAST_PORT)  # noqa: S311 - no secret, only spread
            if port not in refused and (held := _bound(port)) is not None:
                self._held.append(held)
                return port
        raise PortTakenError(
            f"no free port between {_FIRST_PORT} and {_LAST_PORT}", hint="ask for fixed ports", retriable=True
        )

    def let_go(self) -> None:
        """Hold none any more; calling it twice does nothing."""
        while self._held:
            self._held.pop().close()


def _bound(port: int) -> socket.socket | None:
    """Return a socket bound to a port, None where anybody else has it, listening or not."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.bind((LOOPBACK, port))
    except OSError:
        held.close()
        return None
    if _SERVERS_LISTEN_BESIDE:
        # Only now: servers bind with it and are let in beside us, but who bound with it would get in beside others too.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    else:
        held.close()
    return held


def require_free(server: str, ports: Iterable[int], host: str = LOOPBACK) -> None:
    """Raise PortTakenError, naming server and port, for the first port that another process holds for over a second.

    A server that ended just now may still be giving its ports back.
    """
    deadline = time.monotonic() + _PATIENCE_S
    for port in ports:
        while not is_free(port, host):
            if time.monotonic() >= deadline:
                raise _taken(server, port, host)
            time.sleep(_POLL_S)


def _taken(server: str, port: int, host: str) -> PortTakenError:
    return PortTakenError(
        f"port {port} on {host}, meant for {server}, is taken by another process",
        hint=f"end that process (`lsof -i :{port}` names it), or give {server} another port",
    )
