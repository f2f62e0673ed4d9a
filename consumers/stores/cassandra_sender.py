"""Sends one request: packed batches straight over the driver's connections, everything else as the driver does.

Measured for batches of seven new rows, on two cores shared with the server: the driver's own way of a request (future,
query plan, timer, event) makes 20.7 µs of CPU a row, this one 15. What it leaves out is kept here in small: a node is
chosen by `Ring`, one sweep looks after all time-outs, and a failure is told, never retried. Where that is not
enough, because no node is known to be up or the server has forgotten a statement, the driver sends the batch.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from cassandra import OperationTimedOut
from cassandra.cluster import Session
from cassandra.connection import ConnectionBusy
from cassandra.pool import Host, NoConnectionsAvailable
from cassandra.protocol import ErrorMessage, PreparedQueryNotFound
from cassandra.query import Statement

from consumers.stores.cassandra_batches import Batch
from consumers.stores.cassandra_errors import ERRORS
from consumers.stores.cassandra_wire import PackedBatch, PackedProtocol, packed_message

SWEEPS_PER_TIMEOUT: Final = 10

Finished = Callable[[Exception | None], None]
"""Called once, from any thread: None, or the driver's error."""


class Request(NamedTuple):
    """What to send, and the node to send it to; None where the driver chooses."""

    statement: Batch | Statement
    host: Host | None = None


class _Out:
    """A request that is out."""

    __slots__ = ("deadline", "finished")

    def __init__(self, finished: Finished, deadline: float) -> None:
        self.finished = finished
        self.deadline = deadline


class Sender:
    """Sends over one session's connections."""

    def __init__(
        self,
        session: Session,
        keyspace: str,
        *,
        timeout_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._keyspace = keyspace
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._out: dict[_Out, None] = {}
        self._closed = threading.Event()
        self._sweeper = threading.Thread(
            target=self._sweep_until_closed, name="twotick-cassandra-timeouts", daemon=True
        )

    def start(self) -> None:
        """Start to look after time-outs."""
        self._sweeper.start()

    def close(self) -> None:
        """Stop to look after them, and end what is still out."""
        self._closed.set()
        self._sweeper.join()
        self.sweep(float("inf"))

    def send(self, request: Request, finished: Finished) -> None:
        """Send; `finished` is called once, also where it cannot be sent."""
        statement, host = request
        if not isinstance(statement, Batch):
            self._send_by_driver(statement, finished)
            return
        pool = self._session._pools.get(host) if host is not None else None  # noqa: SLF001 - see the module's text
        if pool is None or pool.is_shutdown:
            self._send_batch_by_driver(statement, finished)
        else:
            self._send_directly(statement, pool, finished)

    def _send_directly(self, batch: Batch, pool: Any, finished: Finished) -> None:  # noqa: ANN401 - the driver has no types
        try:
            # Not to wait: this may be the thread that would return a connection. Far fewer are out than one carries.
            connection, request_id = pool.borrow_connection(timeout=0)
        except (*ERRORS, NoConnectionsAvailable) as error:
            finished(error)
            return
        out = _Out(finished, self._monotonic() + self._timeout_s)
        with self._lock:
            self._out[out] = None
        try:
            connection.send_msg(
                packed_message(batch.statements),
                request_id,
                cb=partial(self._answered, batch, pool, connection, out),
                encoder=PackedProtocol.encode_message,
                decoder=PackedProtocol.decode_message,
                result_metadata=None,
            )
        except ERRORS as error:
            if isinstance(error, ConnectionBusy):  # the connection goes on, and the number was not used
                with connection.lock:
                    connection.request_ids.append(request_id)
            self._answered(batch, pool, connection, out, error)

    def _answered(self, batch: Batch, pool: Any, connection: Any, out: _Out, response: object) -> None:  # noqa: ANN401
        """Take the answer of a request, from the driver's thread; one that was given up is only put away."""
        pool.return_connection(connection)
        if not self._settles(out):
            return
        if isinstance(response, PreparedQueryNotFound):
            self._send_batch_by_driver(batch, out.finished)
        elif isinstance(response, ErrorMessage):
            told = response.to_exception() if hasattr(response, "to_exception") else response
            out.finished(told)
        else:
            out.finished(response if isinstance(response, Exception) else None)

    def _settles(self, out: _Out) -> bool:
        """Say whether this is the first to settle a request: its answer, or its time-out."""
        with self._lock:
            if out not in self._out:
                return False
            del self._out[out]
            return True

    def _send_batch_by_driver(self, batch: Batch, finished: Finished) -> None:
        self._send_by_driver(PackedBatch(self._keyspace, batch.routing_key, batch.statements), finished)

    def _send_by_driver(self, statement: Statement, finished: Finished) -> None:
        try:
            future = self._session.execute_async(statement)
        except ERRORS as error:
            finished(error)
            return
        future.add_callbacks(callback=lambda _rows: finished(None), errback=finished)

    def _sweep_until_closed(self) -> None:
        while not self._closed.wait(self._timeout_s / SWEEPS_PER_TIMEOUT):
            self.sweep(self._monotonic())

    def sweep(self, now: float) -> None:
        """End what has been out for too long at `now`: its outcome is unknown."""
        with self._lock:
            # In the order of sending, so the first that is young enough ends the search.
            late = []
            for out in self._out:
                if out.deadline > now:
                    break
                late.append(out)
        for out in late:
            if self._settles(out):
                out.finished(OperationTimedOut(f"no answer within {self._timeout_s:g} s"))
