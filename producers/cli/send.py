"""`twotick send`: a text, a file of JSON lines, or test load."""

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple

import typer

from producers.cli.ports import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_PARTLY,
    EXIT_UNREACHABLE,
    ClientFactory,
    OutboxFile,
    Output,
    UsageError,
    User,
    harmless,
    user_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from producers.cli.lines import BadLine
    from producers.cli.load import Load
    from producers.client import Client
    from producers.sent import Sent

_COLUMNS = ("message_id", "conversation", "to", "state", "version", "reason")
_BATCH_ROWS = 1_000


class Target(StrEnum):
    """What to wait for."""

    SENT = "sent"
    DELIVERED = "delivered"
    READ = "read"


class _Result(NamedTuple):
    """What became of a run."""

    sent: "Sequence[Sent]"
    bad_lines: int


def register(app: typer.Typer) -> None:
    """Add `send`."""
    app.command("send")(_send)


def _send(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    text: Annotated[str | None, typer.Argument(help="What to say.")] = None,
    to: Annotated[list[str] | None, typer.Option("--to", metavar="USER", help="A recipient; may be repeated.")] = None,
    conversation: Annotated[str, typer.Option(help="The conversation; by default the direct one.")] = "",
    user: User = "",
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help='JSON lines {"to": ..., "body": ...}; "-" is standard input.')
    ] = None,
    strict: Annotated[bool, typer.Option(help="With --file: send nothing where one line is bad.")] = False,
    expires_in_s: Annotated[
        float | None, typer.Option("--expires-in", metavar="SECONDS", help="Give up what is not sent by then.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Send test load: so many messages.")] = None,
    rate: Annotated[float, typer.Option(min=0, help="Test load: messages a second; 0 is as fast as it goes.")] = 0,
    size: Annotated[int, typer.Option(min=0, help="Test load: bytes of a body.")] = 100,
    conversations: Annotated[int, typer.Option(min=1, help="Test load: conversations to spread it over.")] = 1,
    recipients: Annotated[int, typer.Option(min=1, help="Test load: recipients of each, where --to names none.")] = 1,
    wait: Annotated[Target | None, typer.Option(help="Wait until every message is so far.")] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait.")] = 30,
    outbox: OutboxFile = None,
    output: Output = None,
) -> None:
    """Send a text, the messages of a file, or test load.

    Everything is in the outbox, on disk, before it is sent. What is not through when the time is up, or when you
    press Ctrl-C, stays there and goes out at the next start of any client with this outbox.
    """
    factory: ClientFactory = context.obj
    if sum(given is not None for given in (text, file, count)) != 1:
        raise UsageError("nothing to send, or too much", "Give one of a text, --file FILE and --count N.")
    if text is not None and not to:
        raise UsageError("a text without a recipient", "Name one with --to USER.")
    me = factory.open_client(user_of(factory, user), outbox=outbox)
    try:
        if file is not None:
            result = _send_file(me, file, strict=strict)
        elif count is not None:
            prefix = f"load-{time.time_ns():x}-"
            load = _load(count, rate, size, conversations, recipients, tuple(to or ()), prefix)
            result = _Result(_send_load(me, load), 0)
        else:
            sent = me.send(to=to or [], body=text or "", conversation=conversation, expires_in_s=expires_in_s)
            result = _Result([sent], 0)
        code = _finish(me, result, wait, time.monotonic() + timeout_s)
        factory.show((_row(sent) for sent in result.sent), _COLUMNS, output)
    except KeyboardInterrupt:
        _say_what_stays(me)
        me.close(flush_timeout_s=0)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        me.close(flush_timeout_s=0)
    if code:
        raise typer.Exit(code)


def _load(  # noqa: PLR0913, PLR0917 - the options
    count: int, rate: float, size: int, conversations: int, recipients: int, to: tuple[str, ...], prefix: str
) -> "Load":
    from producers.cli.load import Load

    return Load(count, rate, size, conversations, recipients, to, prefix)


def _send_load(me: "Client", load: "Load") -> "Sequence[Sent]":
    from rich.console import Console
    from rich.progress import Progress

    from producers.cli.load import run

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("into the outbox", total=load.count)
        return run(me, load, lambda more: progress.advance(task, more))


def _send_file(me: "Client", file: Path, *, strict: bool) -> _Result:
    """Send the good lines in batches of one transaction each, and tell of the bad ones."""
    from producers.cli.lines import BadLine, read

    if strict:
        with _opened(file) as lines:
            found = list(read(lines, me.user, me.settings.limits))
        bad = [line for line in found if isinstance(line, BadLine)]
        for line in bad:
            _tell(file, line)
        if bad:
            raise UsageError(f"{len(bad)} lines of {file} are bad; nothing was sent", "Mend them, or drop --strict.")
        good = [line.message for line in found if not isinstance(line, BadLine)]
        return _Result(me.send_many(good), 0)
    sent: list[Sent] = []
    batch = []
    bad_lines = 0
    with _opened(file) as lines:
        for one in read(lines, me.user, me.settings.limits):
            if isinstance(one, BadLine):
                bad_lines += 1
                _tell(file, one)
                continue
            batch.append(one.message)
            if len(batch) >= _BATCH_ROWS:
                sent += me.send_many(batch)
                batch.clear()
    sent += me.send_many(batch)
    return _Result(sent, bad_lines)


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    if str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "Name a file that is there.") from None


def _tell(file: Path, line: "BadLine") -> None:
    sys.stderr.write(f"{file}:{line.number}: {harmless(line.reason)}\n")


def _finish(me: "Client", result: _Result, wait: Target | None, deadline: float) -> int:
    """Wait for what was asked for; return the exit code."""
    from producers.errors import DeliveryFailedError, WaitTimeoutError

    failed = late = 0
    if wait is None:
        late = min(me.flush(max(0.0, deadline - time.monotonic())), len(result.sent))
    else:
        for sent in result.sent:
            try:
                sent.wait(wait.value, max(0.0, deadline - time.monotonic()))
            except DeliveryFailedError as error:
                failed += 1
                sys.stderr.write(f"{harmless(error.message)}\n")
            except WaitTimeoutError:
                late += 1
    if late:
        _say_what_stays(me)
    if failed or late or result.bad_lines:
        if failed + late < len(result.sent):
            return EXIT_PARTLY
        return EXIT_FAILED if failed or not late else EXIT_UNREACHABLE
    return 0


def _say_what_stays(me: "Client") -> None:
    counts = me.stats().outbox
    reached = "" if me.health().reachable else "Kafka was not reached. "
    sys.stderr.write(
        f"{reached}{counts.fresh + counts.unanswered} events stay in the outbox {me.path} and go out at the next "
        "start of a client that uses it\n"
    )


def _row(sent: "Sent") -> dict[str, object]:
    found = sent.outlook()
    return {
        "message_id": found.message_id,
        "conversation": found.conversation,
        "to": found.recipients,
        "state": found.state,
        "version": found.version,
        "reason": found.reason,
    }
