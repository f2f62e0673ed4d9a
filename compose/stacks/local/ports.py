"""Loopback ports: choosing free ones that stay free, and noticing that one is taken."""

import random
import socket
import time
from collections.abc import Iterable

from compose.stacks.errors import PortTakenError

LOOPBACK = "127.0.0.1"

# Below the range from which kernels take the ports of outgoing connections (Linux from 32768, macOS from 49152): a port
# chosen there could be lost to any client between two starts of a server.
_FIRST_PORT, _LAST_PORT = 20_000, 31_999
_TRIES = 200

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
    refused = set(taken)
    for _ in range(_TRIES):
        port = random.randint(_FIRST_PORT, _LAST_PORT)  # noqa: S311 - no secret, only spread
        if port not in refused and is_free(port):
            return port
    raise PortTakenError(
        f"no free port between {_FIRST_PORT} and {_LAST_PORT}", hint="ask for fixed ports", retriable=True
    )


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
