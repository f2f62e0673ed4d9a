"""A progress bar on standard error, and the signal that ends what it shows."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Final

_LINE_INTERVAL_S: Final = 10.0


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Give a function that is told (done, all): a bar with rate and remaining time, or a line now and then.

    All may be None: then there is no remaining time.
    """
    if not sys.stderr.isatty():
        yield _lines(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        Remaining(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, rate="")
        started, first = monotonic(), None

        def report(done: int, total: int | None) -> None:
            nonlocal first
            first = done if first is None else first
            rate = (done - first) / max(0.001, monotonic() - started)
            bar.update(task, completed=done, total=total, rate=f"{rate:,.0f}/s")

        yield report


def _lines(what: str) -> Callable[[int, int | None], None]:
    """Return what writes a line every few seconds, where nobody watches a terminal."""
    started = told_at = monotonic()
    first: int | None = None

    def report(done: int, total: int | None) -> None:
        nonlocal told_at, first
        now = monotonic()
        first = done if first is None else first
        if now - told_at < _LINE_INTERVAL_S:
            return
        told_at = now
        told = f"{what}: {done:,}" if total is None else f"{what}: {done:,} of {total:,}"
        if done > first:
            rate = (done - first) / (now - started)
            told += f", {rate:,.1f}/s"
            told += "" if total is None else f", {(total - done) / rate:,.0f} s left"
        sys.stderr.write(told + "\n")

    return report


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Give what says whether Ctrl-C or SIGTERM came; the second one ends at once."""
    asked = False

    def take(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        sys.stderr.write(f"{signal.Signals(number).name}: finishing what is under way; once more ends it at once\n")

    before = {number: signal.signal(number, take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
