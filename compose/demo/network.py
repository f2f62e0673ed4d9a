"""A network that can be cut: a client reaches its brokers through here, and nowhere else.

Kafka clients connect to the addresses that brokers tell them, so these have to be ours too: where an answer names the
address of a broker, this puts our own listener's port in its place. The length stays, and so does all else.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from threading import Thread
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_LENGTH: Final = struct.Struct(">I")
_CHUNK_BYTES: Final = 65_536

_Way = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Network:
    """The way to brokers on 127.0.0.1, from construction until `close`."""

    def __init__(self, brokers: Sequence[str]) -> None:
        """Take the brokers' addresses, HOST:PORT each. Raises OSError where no port is free."""
        self._open: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self._loop = asyncio.new_event_loop()
        self._servers = {broker: self._loop.run_until_complete(self._listen(broker)) for broker in brokers}
        ours = {broker: _address(server) for broker, server in self._servers.items()}
        self._names = {_named(broker): _named(listener) for broker, listener in ours.items()}
        self.addresses = ",".join(ours.values())
        """Where the client finds its brokers, with commas between."""
        self._thread = Thread(target=self._run, name="network", daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Break every connection, whatever is on it, and let none through; a second call does nothing."""
        self._loop.call_soon_threadsafe(self._cut)

    def mend(self) -> None:
        """Let connections through again; a second call does nothing."""
        self._loop.call_soon_threadsafe(self._mend)

    def close(self) -> None:
        """Cut it for good; a second call does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        self._cut()
        for server in self._servers.values():
            server.close()
        self._loop.run_until_complete(_others_end())
        self._loop.close()

    def _cut(self) -> None:
        self._is_cut = True
        for writer in self._open:
            writer.transport.abort()

    def _mend(self) -> None:
        self._is_cut = False

    async def _listen(self, broker: str) -> asyncio.Server:
        return await asyncio.start_server(self._way_to(broker), LOOPBACK, 0)

    def _way_to(self, broker: str) -> _Way:
        """Return what carries one connection to a broker and back."""
        host, _, port = broker.rpartition(":")

        async def carry(asks: asyncio.StreamReader, hears: asyncio.StreamWriter) -> None:
            ends = {hears}
            self._open.add(hears)
            try:
                answers, told = await asyncio.open_connection(host, int(port))
                ends.add(told)
                self._open.add(told)
                if not self._is_cut:
                    await asyncio.gather(_carry(asks, told), self._carry_answers(answers, hears))
            except (OSError, asyncio.IncompleteReadError):
                pass  # one side hung up, or it was cut
            finally:
                self._open -= ends
                for end in ends:
                    end.transport.abort()

        return carry

    async def _carry_answers(self, answers: asyncio.StreamReader, hears: asyncio.StreamWriter) -> None:
        """Carry whole answers, so that no address in one is torn in two."""
        while True:
            length = await answers.readexactly(_LENGTH.size)
            answer = await answers.readexactly(_LENGTH.unpack(length)[0])
            for theirs, ours in self._names.items():
                answer = answer.replace(theirs, ours)
            hears.write(length + answer)
            await hears.drain()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK_BYTES):
        target.write(chunk)
        await target.drain()
    raise ConnectionResetError("it hung up")


async def _others_end() -> None:
    me = asyncio.current_task()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not me), return_exceptions=True)


def _address(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()
    return f"{host}:{port}"


def _named(address: str) -> bytes:
    """Return an address as answers name it: a text, then a number of 32 bits."""
    host, _, port = address.rpartition(":")
    return host.encode() + _LENGTH.pack(int(port))
