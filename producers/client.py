"""The client: what a program uses to send messages, follow their ticks, and read what comes in."""

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote
from uuid import UUID

import platformdirs

from producers import checks
from producers.checks import Outgoing
from producers.clock import Clock, SystemClock
from producers.database import Database, forked_error
from producers.errors import ClientClosedError, ClientError, InvalidMessageError, UnknownMessageError
from producers.health import Health, HealthBoard
from producers.incoming import Inbox, Incoming
from producers.outbox import Outbox, Written
from producers.sent import Sent
from producers.settings import ClientSettings
from producers.ticks import Dispatcher, OnTick
from producers.views import Counts, Outlook, Tick, Views
from producers.wiring import Wiring
from schemas.codec import Codec
from schemas.identity import direct_conversation
from schemas.lifecycle import Kind, label
from schemas.topics import CONSUMER, PRODUCER, Setting, client_config

_FLUSH_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Stats:
    """How a client is doing."""

    outbox: Counts
    health: Health
    clock_shift_ms: int | None
    """The log's clock minus this machine's; None: not known yet."""


class Client:
    """One user's outbox, and the threads that work it off.

    Everything that is sent is on disk before the call returns, and goes on being sent, by this process or the next,
    until the server has answered. All methods may be called from any thread.
    """

    def __init__(  # noqa: PLR0913 - each has a default that works
        self,
        user: str,
        *,
        bootstrap_servers: str | None = None,
        outbox: str | Path | None = None,
        kafka: Mapping[str, Setting] | None = None,
        settings: ClientSettings | None = None,
        codec: Codec | None = None,
        clock: Clock | None = None,
        offline: bool = False,
    ) -> None:
        """Take what is needed; `open()` or `with` does the work.

        `outbox` is the file, by default one for the user in the platform's data folder. `kafka` holds librdkafka
        settings by their own names. An `offline` client only writes and reads the outbox. Raises
        InvalidMessageError for a bad user id, PinnedSettingError for a setting that delivery depends on, ClientError
        where no server is named or the settings are none.
        """
        self.user = checks.user_id(user, "the user id")
        self.settings = ClientSettings() if settings is None else settings
        if not isinstance(self.settings, ClientSettings):
            raise ClientError(f"settings is {type(settings).__name__}", "Give twotick's ClientSettings(...).")
        # Resolved once: a thread connects after the program has changed its folder, and two names of one file share
        # one lock.
        self.path = (Path(outbox) if outbox is not None else default_outbox(user)).resolve()
        self._kafka: dict[str, Setting] = dict(kafka or {})
        if bootstrap_servers is not None or "bootstrap.servers" not in self._kafka:
            self._kafka["bootstrap.servers"] = "127.0.0.1:9092" if bootstrap_servers is None else bootstrap_servers
        if not isinstance(self._kafka["bootstrap.servers"], str):
            raise ClientError(
                f"bootstrap_servers is {type(self._kafka['bootstrap.servers']).__name__}",
                'Give one text, several servers separated by commas: "host:port,host:port".',
            )
        if not self._kafka["bootstrap.servers"]:
            raise ClientError("bootstrap_servers is empty", "Name host:port, or leave it out for 127.0.0.1:9092.")
        client_config(self._kafka, PRODUCER)
        client_config(self._kafka, CONSUMER)
        self._codec = codec or Codec()
        self._clock = clock or SystemClock()
        self._offline = offline
        self._pid = os.getpid()
        self._opened = self._closed = False
        self._health = HealthBoard()
        self._database = Database(
            self.path,
            busy_timeout_s=self.settings.busy_timeout_s,
            allow_network=self.settings.allow_network_outbox,
        )
        self._outbox = Outbox(self._database, self.user, self._clock, self._codec)
        self._views = Views(self._database)
        self._inbox = Inbox(self._database, self._views, self.mark_read)
        self._ticks = Dispatcher(self._database, self._views, f"twotick-{self.user}")
        self._wiring = Wiring(
            user=self.user,
            path=self.path,
            settings=self.settings,
            kafka=self._kafka,
            codec=self._codec,
            clock=self._clock,
            database=self._database,
            outbox=self._outbox,
            health=self._health,
        )
        self._engine = self._wiring.engine()

    def open(self) -> Self:
        """Open the outbox and start working it off; a second call does nothing. Raises OutboxError."""
        if self._closed:
            raise ClientClosedError("the client is closed", "Make a new one.")
        if not self._opened:
            self._outbox.open()
            self._opened = True
            if not self._offline:
                self._engine.start()
                atexit.register(self.close)
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever is interrupted does not want to wait; it is all on disk.
        self.close(flush_timeout_s=0.0 if kind is KeyboardInterrupt else None)

    # -- sending

    def send(  # noqa: PLR0913 - one obvious call
        self,
        *,
        to: str | Iterable[str],
        body: str | bytes,
        conversation: str = "",
        content_type: str = "",
        expires_in_s: float | None = None,
        expires_at: datetime | None = None,
        delivery_timeout_s: int = 0,
    ) -> Sent:
        """Write a message to one recipient or several; it is on disk when this returns.

        Without a `conversation` it goes into the direct conversation with its one recipient. `expires_in_s` and
        `expires_at` (aware) say until when the log may take it, `delivery_timeout_s` how long recipients have to
        fetch it (0: as the server has it). Raises InvalidMessageError before anything is written, OutboxError.
        """
        return self.send_many(
            [
                Outgoing(
                    to=to,
                    body=body,
                    conversation=conversation,
                    content_type=content_type,
                    expires_in_s=expires_in_s,
                    expires_at=expires_at,
                    delivery_timeout_s=delivery_timeout_s,
                )
            ]
        )[0]

    def send_many(self, messages: Iterable[Outgoing]) -> list[Sent]:
        """Write messages in one transaction, all or none, in their order. Raises as `send` does."""
        self._check_open()
        checked = [checks.check(message, self.user, self.settings.limits) for message in messages]
        return [self._sent(written) for written in self._outbox.write_sends(checked)] if checked else []

    def _sent(self, written: Written) -> Sent:
        return Sent(written.position, written.message_id, self._database, self._views, self._health, self.log_ms)

    def find(self, message_id: str) -> Sent:
        """Return the handle of a message that was sent earlier. Raises UnknownMessageError."""
        self._check_open()
        raw = _raw(message_id)
        found = self._views.named(raw)
        if found is None:
            raise UnknownMessageError(f"the outbox holds no message {message_id}", "See `twotick outbox list`.")
        return self._sent(Written(found.position, UUID(found.message_id).bytes, found.conversation))

    def cancel(self, message: Sent | str) -> str:
        """Cancel a message that is not sent yet; return its state, which is still pending where the log decides.

        Raises UnknownMessageError.
        """
        self._check_open()
        return label(self._outbox.cancel(_raw(message)))

    def block(self, user: str, conversation: str | None = None) -> None:
        """Block a user in a conversation, by default the direct one: the log takes no message from him to us there.

        Written into the outbox like a message; it counts from where the log has it. Raises InvalidMessageError,
        OutboxError.
        """
        self._block(user, conversation, Kind.BLOCK)

    def unblock(self, user: str, conversation: str | None = None) -> None:
        """Undo `block`. Raises as it does."""
        self._block(user, conversation, Kind.UNBLOCK)

    def _block(self, user: str, conversation: str | None, kind: Kind) -> None:
        self._check_open()
        subject = checks.user_id(user, "the user to block")
        if subject == self.user:
            raise InvalidMessageError("a user cannot block himself", "Name another user.")
        direct = direct_conversation(self.user, subject)
        where = direct if conversation is None else checks.conversation_id(conversation)
        self._outbox.write_block(subject, where, kind)

    # -- following

    def on_tick(self, callback: OnTick) -> None:
        """Call back for each change of an own message's state from now on, in order, on one thread of its own.

        Raises TypeError for what cannot be called.
        """
        self._check_open()
        if not callable(callback):
            raise TypeError(f"the callback is {type(callback).__name__}, which cannot be called")
        self._ticks.add(callback)

    def incoming(self, timeout_s: float | None = None) -> Iterator[Incoming]:
        """Yield messages for this user as they come; end when none came for `timeout_s` (None: never).

        Each is handed over at least once: one counts as dealt with when the next is asked for, else it comes again
        after a restart. That is noted for many at once, so after a crash those of the last second come again too, at
        most 100; `mark_taken` and `mark_read` note it at once. That a message was delivered has been told by then;
        that it was read is `mark_read`. Loops in one client share the messages; of several processes with one outbox
        each gets all that nobody has dealt with. Raises ValueError for a time that nobody can wait for.
        """
        self._check_open()
        return self._inbox.messages(None if timeout_s is None else checks.seconds(timeout_s, "timeout_s"))

    def __iter__(self) -> Iterator[Incoming]:
        return self.incoming()

    def mark_read(self, message: Incoming | str) -> bool:
        """Tell a sender that his message was read; say whether this was the first time. Raises UnknownMessageError."""
        self._check_open()
        return self._outbox.mark_read(_raw(message))

    def mark_taken(self, message: Incoming) -> None:
        """Say that a message was dealt with, before the next one is asked for. Raises UnknownMessageError."""
        self._check_open()
        if not isinstance(message, Incoming):
            raise UnknownMessageError(f"{message!r} is no message that came in", "Give one that incoming() yielded.")
        self._views.take([message.arrival])

    def listing(self, limit: int = 100, *, pending_only: bool = False) -> list[Outlook]:
        """Return the newest own messages, newest first. Raises ValueError for a limit that is no number of them."""
        self._check_open()
        return self._views.listing(checks.rows(limit, "limit"), pending_only=pending_only)

    def retry_now(self, message: Sent | str | None = None) -> int:
        """Make what is unanswered due at once, all or one message; return how many events."""
        self._check_open()
        if message is None:
            return self._outbox.retry_now()
        return self._outbox.retry_now(_raw(message))

    def stats(self) -> Stats:
        """Return how the client is doing."""
        self._check_open()
        now = self._outbox.now()
        return Stats(self._views.counts(), self.health(), now.shift_ms if now.known else None)

    def log_ms(self) -> int:
        """Return the log's time in ms since 1970, as far as it is known."""
        return self._outbox.now().ms

    def health(self) -> Health:
        """Return what the client's threads found out; its `error` says why it cannot work."""
        return self._health.read()

    def flush(self, timeout_s: float) -> int:
        """Wait up to `timeout_s` seconds until Kafka has confirmed all; return how many events it has not.

        Those stay in the outbox. Confirmed is not answered: `Sent.wait` waits for an answer. Raises
        ValueError for a time that nobody can wait for.
        """
        self._check_open()
        deadline = time.monotonic() + checks.seconds(timeout_s, "timeout_s")
        backlog = self._wiring.backlog()
        never = threading.Event()
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or backlog.is_handed():
                return backlog.unhanded()
            # Not on each change: a pump at work makes hundreds a second, and counting a backlog is not free.
            never.wait(min(_FLUSH_POLL_S, left_s))

    def close(self, flush_timeout_s: float | None = None) -> None:
        """Flush for a bounded time, stop, and close the outbox; a second call does nothing.

        What Kafka has not confirmed stays in the outbox and goes out at the next start. Raises ValueError for a time
        that nobody can wait for.
        """
        default_s = self.settings.close_timeout_s
        timeout_s = default_s if flush_timeout_s is None else checks.seconds(flush_timeout_s, "flush_timeout_s")
        if self._closed:
            return
        if os.getpid() != self._pid:
            # The threads and connections are the parent's.
            self._closed = True
            return
        if self._opened and timeout_s > 0 and self._health.read().pumping:
            self._at_close(partial(self.flush, timeout_s))
        self._closed = True
        atexit.unregister(self.close)
        self._engine.stop()
        self._ticks.stop()
        self._at_close(self._inbox.note)
        self._database.close()

    def _at_close(self, step: Callable[[], object]) -> None:
        try:
            step()
        except ClientError as error:
            self._health.fail(error)

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise forked_error()
        if not self._opened or self._closed:
            raise ClientClosedError(
                f"the client is {'closed' if self._closed else 'not open'}", "Use it as `with Client(...) as me:`."
            )


def default_outbox(user: str) -> Path:
    """Return where a user's outbox is kept unless said otherwise."""
    name = quote(user, safe="")
    if len(name) > 200:
        name = blake2b(user.encode(), digest_size=20).hexdigest()
    return Path(platformdirs.user_data_dir("twotick")) / "outboxes" / f"{name}.sqlite"


def _raw(message: Sent | Incoming | str) -> bytes:
    """Return the id of a message. Raises UnknownMessageError for anything that has none."""
    message_id = message if isinstance(message, str) else getattr(message, "message_id", None)
    try:
        return UUID(message_id).bytes
    except (ValueError, AttributeError, TypeError):
        raise UnknownMessageError(f"{message!r} is no message id", "Message ids are UUIDs.") from None


__all__ = ["Client", "Outgoing", "Sent", "Stats", "Tick", "default_outbox"]
