"""Cassandra's conditional writes, and the driver's session as production's conditional code uses it.

An attempt is answered in one of four ways: applied, not applied, unknown though applied (now, or when the next
attempt or serial read of that partition finishes it), unknown and not applied. A "not applied" may also be what a
repetition by the driver met after its first copy was applied.
"""

# ruff: noqa: D102 - what stands in for a library is named after it

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from cassandra import OperationTimedOut

from consumers.stores.cassandra_session import SERIAL
from tests.simulation.cql import Bound, Key, Select, Tables, bound, parsed, partition_of

if TYPE_CHECKING:
    from tests.simulation.chance import Chance
    from tests.simulation.process import Process
    from tests.simulation.scene import Scene

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class Prepared(NamedTuple):
    """A prepared statement: its text."""

    text: str

    def bind(self, values: Sequence[object]) -> "Batch":
        batch = Batch()
        batch.statements.append((self.text, values))
        return batch


class Batch:
    """Statements that are applied together; also what one bound statement is."""

    def __init__(self, _kind: object = None) -> None:
        self.statements: list[tuple[str, Sequence[object]]] = []

    def add(self, other: "Batch") -> None:
        self.statements += other.statements


class Found(list[tuple[Any, ...]]):
    """Rows, as the driver gives them."""

    @property
    def was_applied(self) -> bool:
        return bool(self[0][0])

    def one(self) -> tuple[Any, ...] | None:
        return self[0] if self else None


@dataclass
class Cassandra:
    """The servers: all rows, and attempts of which nobody knows yet whether they were accepted."""

    chance: "Chance"
    tables: Tables = field(default_factory=Tables)
    open: dict[tuple[str, Key], list[Bound]] = field(default_factory=dict)
    """By partition: the attempt that the next one, or a serial read, finishes or buries."""
    late: list[list[Bound]] = field(default_factory=list)
    """Attempts that are still under way, whoever made them."""

    def settle(self, partition: tuple[str, Key], now: float) -> None:
        """Finish or bury the attempt before."""
        before = self.open.pop(partition, None)
        if before is not None and self.chance.happens("paxos finishes", 0.5):
            self._apply(before, now)

    def propose(self, changes: list[Bound], now: float) -> bool:
        """Make changes if all their conditions hold; say whether they did."""
        self.settle(partition_of(changes), now)
        if not all(self.tables.holds(each, now) for each in changes):
            return False
        self._apply(changes, now)
        return True

    def leave_open(self, changes: list[Bound], now: float) -> None:
        """Accept changes, as far as their conditions hold, so that nobody knows of it."""
        partition = partition_of(changes)
        self.settle(partition, now)
        if all(self.tables.holds(each, now) for each in changes):
            self.open[partition] = changes

    def land_late(self, now: float) -> None:
        """Let an attempt that is still under way arrive."""
        self.propose(self.late.pop(self.chance.whole("late attempt", 0, len(self.late) - 1)), now)

    def _apply(self, changes: list[Bound], now: float) -> None:
        for each in changes:
            self.tables.apply(each, now)

    def select(self, what: Select, values: Sequence[object], now: float, *, serially: bool) -> Found:
        if serially:
            *first, last = values or (None,)
            for each in last if isinstance(last, list) else [last]:
                key = (*first, each)
                self.settle((what.table, key if what.table != "messages" else key[:2]), now)
        rows = Found(self.tables.select(what, values, now))
        if "transitions" in what.columns:
            at = what.columns.index("transitions")
            return Found((*row[:at], _as_read(row[at]), *row[at + 1 :]) for row in rows)
        return rows


def _as_read(transitions: dict[int, tuple[Any, ...]]) -> dict[int, tuple[Any, ...]]:
    """Return what was written as the driver reads it: times are naive, in UTC."""
    return {
        version: (one[0], one[1], _EPOCH + timedelta(milliseconds=one[2]), *one[3:])
        for version, one in transitions.items()
    }


class Request:
    """One statement on its way through the driver, without anybody waiting for it."""

    def __init__(self, statement: Batch, *, serially: bool) -> None:
        self.statement = statement
        self.serially = serially
        self.outcome: Found | Exception | None = None
        self._answered: Callable[[], None] = lambda: None
        self._failed: Callable[[Exception], None] = lambda _: None

    def add_callbacks(
        self, callback: Any, callback_args: tuple[Any, ...], errback: Any, errback_args: tuple[Any, ...]
    ) -> None:
        self._answered = lambda: callback(self.outcome, *callback_args)
        self._failed = lambda error: errback(error, *errback_args)

    def tell(self) -> None:
        if isinstance(self.outcome, Exception):
            self._failed(self.outcome)
        else:
            self._answered()


class Session:
    """One process's connections."""

    def __init__(self, scene: "Scene", process: "Process", server: Cassandra) -> None:
        self._scene = scene
        self._process = process
        self._server = server
        self.requests: list[Request] = []

    def prepare(self, text: str) -> Prepared:
        return Prepared(text)

    def execute(self, statement: Prepared, values: Sequence[object] = (), execution_profile: str = "") -> Found:
        """Wait for the answer."""
        self._process.touch("ask Cassandra")
        outcome = self._serve(statement.bind(values), serially=execution_profile == SERIAL)
        self._process.touch("Cassandra answers")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def execute_async(self, statement: Batch, execution_profile: str = "") -> Request:
        """Do not wait."""
        request = Request(statement, serially=execution_profile == SERIAL)
        self.requests.append(request)
        return request

    def advance(self) -> None:
        """Let one request get on: it is served, or its answer comes; nothing comes to a process that stands still."""
        request = self.requests[self._scene.chance.whole("request", 0, len(self.requests) - 1)]
        if request.outcome is None:
            request.outcome = self._serve(request.statement, serially=request.serially)
        elif not self._process.frozen:
            self.requests.remove(request)
            request.tell()

    def die(self) -> None:
        """Leave what is under way to the network."""
        for request in self.requests:
            changes = [] if request.outcome else list(_changes(request.statement))
            if changes and self._scene.chance.happens("late write", 0.5):
                self._server.late.append(changes)
        self.requests.clear()

    def _serve(self, statement: Batch, *, serially: bool) -> Found | Exception:
        scene, server, chance, faults = self._scene, self._server, self._scene.chance, self._scene.faults
        now = scene.node_ms()
        if scene.store_is_down():
            return OperationTimedOut()
        what = parsed(statement.statements[0][0])
        if isinstance(what, Select):
            if scene.chaos and chance.happens("read", faults.read_fails):
                return OperationTimedOut()
            return server.select(what, statement.statements[0][1], now, serially=serially)
        changes = list(_changes(statement))
        if scene.chaos and chance.happens("write fails", faults.write_fails):
            return OperationTimedOut()
        if scene.chaos and chance.happens("write unknown", faults.write_lands_unknown):
            if chance.happens("unknown is open", 0.5):
                server.leave_open(changes, now)
            else:
                server.propose(changes, now)
            return OperationTimedOut()
        applied = server.propose(changes, now)
        if scene.chaos and chance.happens("write twice", faults.write_lands_twice):
            # The driver has sent it again, and tells what the second copy met.
            applied = server.propose(changes, now)
        return Found([(applied,)])


def _changes(statement: Batch) -> Iterator[Bound]:
    for text, values in statement.statements:
        what = parsed(text)
        if not isinstance(what, Select):
            left = iter(values)
            for change in what:
                yield bound(change, left)


def one_after_another(session: Session, statement: Prepared, keys: Sequence[Any], **options: Any) -> list[Any]:
    """Stand in for the driver's function that makes many requests at a time."""
    profile = options.get("execution_profile", "")
    return [(True, session.execute(statement, key, execution_profile=profile)) for key in keys]
