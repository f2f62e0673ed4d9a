"""A simulated client process: production's outbox, pump and listener, turn by turn, and a person who uses them."""

# ruff: noqa: D102 - what stands in for a library is named after it

from typing import TYPE_CHECKING

from producers.arrivals import Arrivals
from producers.backlog import Backlog
from producers.checks import Checked, Limits, Outgoing, check
from producers.errors import ClientError
from producers.health import HealthBoard
from producers.listener import Listener, ListenerParts
from producers.outbox import Outbox
from producers.pump import Pump, PumpParts
from producers.retry import RetryPolicy
from producers.settings import ClientSettings
from producers.views import Views
from schemas.codec import Codec
from schemas.identity import uuid7
from schemas.lifecycle import RECEIPTS, Kind
from schemas.records import NO_ID, Event
from tests.simulation.broker import SimProducer
from tests.simulation.inbox import InboxConsumer
from tests.simulation.outbox_file import Disk, SimDatabase
from tests.simulation.process import Process

if TYPE_CHECKING:
    import sqlite3

    from tests.simulation.world import World

CODEC = Codec()
SETTINGS = ClientSettings(
    retry=RetryPolicy(first_s=2, max_s=20), unanswered_rows_max=6, in_flight_rows_max=4, keep_days=1
)
GROUP = "team"


class _Outbox(Outbox):
    """Notes which receipts the client wrote, for the checker."""

    def __init__(self, client: "Client", database: SimDatabase) -> None:
        super().__init__(database, client.user, client, CODEC)
        self._client = client

    def _write(
        self, connection: "sqlite3.Connection", kind: Kind, conversation_id: str, message_id: bytes, subject: str = ""
    ) -> bytes:
        if kind in RECEIPTS:
            self._client.receipts.add((message_id, str(kind)))
        return super()._write(connection, kind, conversation_id, message_id, subject)


class Client(Process):
    """One user's device. It is its own clock, for production's `Clock`.

    A second device of a user sends no messages: what it does most is to block and unblock.
    """

    def __init__(self, world: "World", name: str, user: str = "") -> None:
        super().__init__(world, name)
        self.user = user or name
        self.disk = Disk()
        self.boot = ""
        self.sent: dict[bytes, bytes] = {}
        """Id to body of sends that returned."""
        self.receipts: set[tuple[bytes, str]] = set()
        self.forgotten: set[bytes] = set()
        """Ids that the outbox held before it was replaced by a backup."""
        self._mid_turn = False
        self._producer: SimProducer | None = None

    def start(self) -> None:
        self.alive = True
        self.lives += 1
        if self.world.chance.happens("reboot", 0.3) or not self.boot:
            self.boot = f"{self.name} boot {self.lives}"
            self._booted_at = self.world.now
        self.database = SimDatabase(self.world, self, self.disk)
        self.outbox = _Outbox(self, self.database)
        self.views = Views(self.database)
        self.backlog = Backlog(self.database, self, SETTINGS.retry, CODEC)
        self._opened = self._started = False
        self._inbox: InboxConsumer | None = None
        health = HealthBoard()
        self._pump = Pump(
            PumpParts(
                backlog=self.backlog,
                database=self.database,
                clock=self,
                settings=SETTINGS,
                health=health,
                make_producer=self._make_producer,
                make_hello=self._hello,
            )
        )
        self._listener = Listener(
            ListenerParts(
                arrivals=Arrivals(self.database, self.outbox, self.user, self),
                user=self.user,
                codec=CODEC,
                settings=SETTINGS,
                health=health,
                make_consumer=self._make_consumer,
            )
        )

    def _make_producer(self, on_error: object) -> SimProducer:
        self._producer = SimProducer(self.world, self, on_error)  # type: ignore[arg-type]
        return self._producer

    def _make_consumer(self, _settings: object) -> InboxConsumer:
        self._inbox = InboxConsumer(self.world, self)
        return self._inbox

    def _hello(self, now_ms: int) -> tuple[str, bytes]:
        conversation = f"hello:{self.name}"
        event_id = uuid7(now_ms, self.world.chance.stream("ids").getrandbits(80))
        return conversation, CODEC.encode(Event(Kind.HELLO, event_id, conversation, NO_ID, self.user, NO_ID))

    def touch(self, what: str) -> None:
        super().touch(what)
        world = self.world
        if not world.chaos or not self._mid_turn or self.database.in_transaction:
            return
        if world.chance.happens("interleave", world.faults.threads_interleave):
            self._mid_turn = False
            try:
                self._listen()
            finally:
                self._mid_turn = True

    def turn(self) -> None:
        first = self.world.chance.happens("pump first", 0.5)
        self._patiently(self._pump_turn if first else self._listen_turn)

    def both(self) -> None:
        """Pump and listen, as far as there is something to do."""
        if not self._started or self._owes():
            self._patiently(self._pump_turn)
        if self._has_news():
            self._patiently(self._listen_turn)

    def _has_news(self) -> bool:
        """Say whether something is to be read, or was read and could not be stored: the outbox was busy."""
        return self._inbox is None or self._inbox.has_news() or self._listener._batch is not None

    def _owes(self) -> bool:
        if self._producer is not None and len(self._producer):
            return True
        return self.disk.connection.execute("SELECT 1 FROM queue LIMIT 1").fetchone() is not None

    def _patiently(self, step: object) -> None:
        if self.alive:
            self.run(step)  # type: ignore[arg-type]

    def _pump_turn(self) -> None:
        try:
            if not self._open():
                return
            self._mid_turn = True
            self._pump.turn()
        except ClientError:
            return
        finally:
            self._mid_turn = False

    def _listen_turn(self) -> None:
        try:
            if self._open():
                self._listener.turn()
        except ClientError:
            return

    def _listen(self) -> None:
        try:
            self._listener.turn()
        except ClientError:
            return

    def _open(self) -> bool:
        if not self._opened:
            self.outbox.open()
            self._opened = True
        if not self._started:
            self._pump.start()
            self._started = True
        return True

    def die(self) -> None:
        self.alive = False
        if self._producer is not None:
            self._producer.let_go()
        if not self.world.defences.flush:
            self.disk.restore(self.disk.synced)

    def restore(self) -> None:
        """Go back to the last backup; whoever does that knows that later sends are lost."""
        if self.disk.backup is None:
            return
        held, handed = self._held(), self._handed()
        self.disk.restore(self.disk.backup)
        self.forgotten |= held - self._held()
        self.forgotten |= handed - self._handed()
        kept = {row[0] for row in self.disk.connection.execute("SELECT ifnull(first_id, message_id) FROM messages")}
        self.sent = {message_id: body for message_id, body in self.sent.items() if message_id in kept}

    def _held(self) -> set[bytes]:
        select = "SELECT message_id FROM messages UNION SELECT message_id FROM deliveries"
        return {row[0] for row in self.disk.connection.execute(select)}

    def _handed(self) -> set[bytes]:
        select = """SELECT message_id FROM messages LEFT JOIN queue USING (position)
            WHERE queue.position IS NULL OR handed > 0"""
        return {row[0] for row in self.disk.connection.execute(select)}

    # the person

    def act(self) -> None:
        """Do one of the things that people do."""
        self.run(self._act)

    def _act(self) -> None:
        chance = self.world.chance
        try:
            self._open()
            doing = chance.stream("act").random()
            if doing < 0.5:
                self._send() if self.user == self.name else self._block()
            elif doing < 0.8:
                self._read()
            elif doing < 0.86:
                self._cancel()
            elif doing < 0.90:
                self._block()
            elif doing < 0.93:
                self.outbox.retry_now()
            elif doing < 0.96:
                self.disk.backup = self.disk.connection.serialize()
        except ClientError:
            return

    def _send(self) -> None:
        world, rng = self.world, self.world.chance.stream("send")
        count = min(rng.choice((1, 1, 1, 2, 3)), world.messages_left)
        messages = [self._message(world.next_body()) for _ in range(count)]
        if not messages:
            return
        world.messages_left -= count
        written = self.outbox.write_sends(messages)
        for each, message in zip(written, messages, strict=True):
            self.sent[each.message_id] = message.body
        world.note(self.name, "sent", [message.body for message in messages])

    def _message(self, body: bytes) -> Checked:
        rng = self.world.chance.stream("send")
        others = [user for user in self.world.users if user != self.name]
        to = others if rng.random() < 0.25 else [rng.choice(others)]
        expires_in_s = rng.choice((None, None, None, 3.0, 15.0, 60.0))
        outgoing = Outgoing(
            to=to,
            body=body,
            conversation=GROUP if len(to) > 1 or rng.random() < 0.2 else "",
            expires_in_s=expires_in_s,
            delivery_timeout_s=rng.choice((0, 0, 5, 40)),
        )
        return check(outgoing, self.name, Limits())

    def _read(self) -> None:
        arrivals = list(self.views.arrivals_after(0, 5))
        if arrivals:
            self.outbox.mark_read(self.world.chance.pick("read", arrivals).message_id)

    def _cancel(self) -> None:
        found = self.disk.connection.execute("SELECT message_id FROM messages WHERE state = 'PENDING'").fetchall()
        if found:
            self.outbox.cancel(self.world.chance.pick("cancel", found)[0])

    def _block(self) -> None:
        rng = self.world.chance.stream("block")
        subject = rng.choice([user for user in self.world.users if user != self.user])
        self.outbox.write_block(subject, GROUP, rng.choice((Kind.BLOCK, Kind.UNBLOCK)))

    def is_quiet(self) -> bool:
        """Say whether everything is answered and read, and every own message has ended."""
        if self._has_news():
            return False
        connection = self.disk.connection
        if connection.execute("SELECT 1 FROM queue LIMIT 1").fetchone():
            return False
        open_states = "('PENDING', 'SENT')"
        return connection.execute(f"SELECT 1 FROM messages WHERE state IN {open_states} LIMIT 1").fetchone() is None
