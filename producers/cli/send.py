"""`twotick send`: a text, a file of JSON lines, or test load."""

import signal
import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

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
    user_of,
)
from schemas.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from io import BufferedReader

    from producers.checks import Limits
    from producers.cli.lines import BadLine, GoodLine
    from producers.cli.load import Load
    from producers.client import Client
    from producers.sent import Sent

_COLUMNS = ("message_id", "conversation", "to", "state", "version", "reason")
_NAMES = {"text": "a text", "file": "--file", "count": "--count"}
_ABOUT = {
    "text": frozenset({"to", "conversation", "expires_in_s"}),
    "file": frozenset({"strict"}),
    "count": frozenset({"to", "rate", "size", "conversations", "recipients"}),
}
"""Which options say something about what is sent; all others go with everything."""


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
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="USER", help="A recipient of a text or of test load; may be repeated."),
    ] = None,
    conversation: Annotated[str, typer.Option(help="A text's conversation; by default the direct one.")] = "",
    user: User = "",
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='JSON lines {"to": ..., "body": ...}, sent as they come; "-" is standard input.'
        ),
    ] = None,
    strict: Annotated[bool, typer.Option(help="With --file: send nothing where one line is bad.")] = False,
    expires_in_s: Annotated[
        float | None, typer.Option("--expires-in", metavar="SECONDS", help="A text: give up what is not sent by then.")
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
    press Ctrl-C, stays there and goes out at the next start of any client with this outbox: to send it once more would
    double it. Without `--wait` it is through when Kafka has it. Exits with 5 where a server did not answer in time,
    with 4 where only some messages are through, or all are sent but not as far as `--wait` says.
    """
    factory: ClientFactory = context.obj
    if sum(given is not None for given in (text, file, count)) != 1:
        raise UsageError("nothing to send, or too much", "Give one of a text, --file FILE and --count N.")
    _check_together(context, "text" if text is not None else "file" if file is not None else "count")
    if isinf(rate):
        raise UsageError("--rate is no number of messages a second", "0 is as fast as it goes.")
    if text is not None and not to:
        raise UsageError("a text without a recipient", "Name one with --to USER.")
    me = factory.open_client(user_of(factory, user), outbox=outbox)
    try:
        if file is not None:
            result = _send_file(me, file, strict=strict)
        elif count is not None:
            prefix = f"load-{time.time_ns():x}-"
            _check_load(me.settings.limits, size=size, recipients=len(to) if to else recipients)
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


def _check_together(context: typer.Context, what: str) -> None:
    """Refuse options that say nothing about what is sent. Raises UsageError."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        about = [kind for kind, options in _ABOUT.items() if option.name in options]
        if about and what not in about:
            raise UsageError(
                f"{option.opts[0]} says nothing about {_NAMES[what]}",
                "It goes with " + " or with ".join(_NAMES[kind] for kind in about) + ".",
            )


def _check_load(limits: "Limits", *, size: int, recipients: int) -> None:
    """Refuse what would take the memory before the first message is refused. Raises UsageError."""
    for option, given, most in (
        ("--size", size, limits.body_bytes_max),
        ("--recipients", recipients, limits.recipients_max),
    ):
        if given > most:
            raise UsageError(
                f"{option} is {given}, {most} are allowed", "Give less, or raise the limit in client.limits."
            )


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
    """Send the good lines as they come, those of one read in one transaction, and tell of the bad ones."""
    from producers.cli.lines import BadLine, GoodLine, read, split

    sent: list[Sent] = []
    bad_lines = written = 0
    try:
        with _opened(file) as stream:
            groups = read(split(stream), me.user, me.settings.limits)
            for group in _all_good(file, groups) if strict else groups:
                for line in group:
                    if isinstance(line, BadLine):
                        bad_lines += 1
                        _tell(file, line)
                good = [line for line in group if isinstance(line, GoodLine)]
                if good:
                    with _interrupted_after():
                        sent += me.send_many([line.message for line in good])
                        written = good[-1].number
    except BaseException:
        if written:
            sys.stderr.write(f"lines 1 to {written} of {file} are in the outbox, go on with line {written + 1}\n")
        raise
    return _Result(sent, bad_lines)


def _all_good(file: Path, groups: "Iterable[list[GoodLine | BadLine]]") -> "list[list[GoodLine | BadLine]]":
    """Read to the end, and return all as one group. Raises UsageError where a line is bad."""
    from producers.cli.lines import BadLine

    lines = [line for group in groups for line in group]
    bad = [line for line in lines if isinstance(line, BadLine)]
    for line in bad:
        _tell(file, line)
    if bad:
        raise UsageError(f"{len(bad)} lines of {file} are bad; nothing was sent", "Mend them, or drop --strict.")
    return [lines]


@contextmanager
def _interrupted_after() -> "Iterator[None]":
    """Put Ctrl-C off to the end of a block: in the middle nobody knows whether it has been written."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _opened(file: Path) -> "AbstractContextManager[BufferedReader]":
    if str(file) == "-":
        return nullcontext(cast("BufferedReader", sys.stdin.buffer))
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "Name a file that is there.") from None


def _tell(file: Path, line: "BadLine") -> None:
    sys.stderr.write(f"{file}:{line.number}: {harmless(line.reason)}\n")


def _finish(me: "Client", result: _Result, wait: Target | None, deadline: float) -> int:
    """Wait for what was asked for, say what is missing; return the exit code."""
    if wait is None:
        failed, late = 0, min(me.flush(max(0.0, deadline - time.monotonic())), len(result.sent))
        is_stuck = late > 0
    else:
        failed, behind = _wait(result.sent, wait, deadline)
        late, is_stuck = len(behind), any(sent.state == "pending" for sent in behind)
        if late:
            sys.stderr.write(f"{late} of {len(result.sent)} messages are not {wait.value} yet\n")
    if is_stuck:
        _say_what_stays(me)
    if not (failed or late or result.bad_lines):
        return 0
    if failed + late < len(result.sent):
        return EXIT_PARTLY
    if failed or not late or _is_refused(me):
        return EXIT_FAILED
    return EXIT_UNREACHABLE if is_stuck else EXIT_PARTLY


def _wait(sent: "Sequence[Sent]", wait: Target, deadline: float) -> "tuple[int, list[Sent]]":
    """Return how many failed, and which are not so far."""
    from producers.errors import DeliveryFailedError, DeniedError, WaitTimeoutError

    failed, behind = 0, []
    for one in sent:
        try:
            one.wait(wait.value, max(0.0, deadline - time.monotonic()))
        except DeliveryFailedError as error:
            failed += 1
            sys.stderr.write(f"{harmless(error.message)}\n")
        except (WaitTimeoutError, DeniedError):
            behind.append(one)
    return failed, behind


def _is_refused(me: "Client") -> bool:
    error = me.health().error
    return error is not None and not error.retriable


def _say_what_stays(me: "Client") -> None:
    """Say why not all is through, and that it must not be sent once more."""
    health, counts = me.health(), me.stats().outbox
    if health.error is not None:
        sys.stderr.write(f"{harmless(health.error.message)}. {health.error.hint}\n")
    elif health.pumping and not health.reachable:
        sys.stderr.write("Kafka was not reached. ")
    elif health.reachable and counts.unanswered:
        sys.stderr.write(
            "Kafka has been handed them and no worker has answered: `twotick owners` shows whether one runs, "
            "`twotick dead-letters list` whether their conversation is parked. "
        )
    waiting = counts.fresh + counts.unanswered
    if waiting:
        sys.stderr.write(
            f"{waiting} events stay in the outbox {me.path}; whichever client opens it sends them, so do not send them "
            "once more\n"
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
