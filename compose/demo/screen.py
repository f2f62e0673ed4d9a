"""What a visitor sees while the demo runs: on a terminal a live picture, elsewhere one line an event."""

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

EVENTS_SHOWN: Final = 8
MESSAGES_SHOWN: Final = 8
_BAR_WIDTH: Final = 40
_FIXED_ROWS: Final = 17
"""Rows of the picture besides its two lists."""
_SIDE_BY_SIDE: Final = 2
_COLORS: Final = ("cyan", "magenta", "yellow", "green", "blue", "red")
TICKS: Final[Mapping[str, str]] = {
    "PENDING": "[dim]·[/]",
    "SENT": "[white]✓[/]",
    "DELIVERED": "[white]✓✓[/]",
    "READ": "[bold cyan]✓✓[/]",
}


class Tone(StrEnum):
    """How an event is meant; the value is its color."""

    PLAIN = "default"
    BAD = "bold red"
    GOOD = "green"


class Holding(NamedTuple):
    """Who owns a partition, by the lease in the store."""

    partition: int
    epoch: int
    node: str


class Line(NamedTuple):
    """A message and where it stands for its sender."""

    sender: str
    recipients: tuple[str, ...]
    body: str
    state: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of things at one moment, read from outboxes and store."""

    seconds: float = 0.0
    messages: int = 0
    written: int = 0
    """In an outbox."""
    sent: int = 0
    delivered: int = 0
    read: int = 0
    settled: int = 0
    """In a final state for their senders."""
    holdings: Sequence[Holding] = ()
    lines: Sequence[Line] = ()
    processes: Mapping[str, str] = field(default_factory=dict)
    """Name of a worker or a client to what it does: `running`, `killed`, `cut off`."""


class Screen(Protocol):
    """Where the demo shows itself."""

    def update(self, snapshot: Snapshot) -> None:
        """Show the state of things."""

    def event(self, text: str, *, seconds: float, tone: Tone = Tone.PLAIN) -> None:
        """Show that something happened, `seconds` after the start."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class PlainScreen:
    """One line an event, on standard error."""

    def __init__(self) -> None:
        self._shown = -1

    def update(self, snapshot: Snapshot) -> None:
        """Print progress at each further tenth of the messages."""
        tenth = 10 * snapshot.read // max(1, snapshot.messages)
        if tenth > self._shown:
            self._shown = tenth
            self.event(
                f"sent {snapshot.sent}, delivered {snapshot.delivered}, read {snapshot.read} of {snapshot.messages}",
                seconds=snapshot.seconds,
            )

    def event(self, text: str, *, seconds: float, tone: Tone = Tone.PLAIN) -> None:
        """Print what happened."""
        del tone
        sys.stderr.write(f"{seconds:6.1f} s  {text}\n")

    def close(self) -> None:
        """Do nothing."""


class LiveScreen:
    """A picture that moves: progress, who owns what, the latest messages with their ticks, what happened."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._snapshot = Snapshot()
        self._lists_rows = max(2, min(EVENTS_SHOWN, (console.height - _FIXED_ROWS) // 2))
        self._live: Live = Live(self._picture(), console=console, refresh_per_second=8, transient=True)
        self._live.start()

    def update(self, snapshot: Snapshot) -> None:
        """Draw the state of things."""
        self._snapshot = snapshot
        self._live.update(self._picture())

    def event(self, text: str, *, seconds: float, tone: Tone = Tone.PLAIN) -> None:
        """Add a line to the ticker."""
        self._events.append(f"[dim]{seconds:5.1f} s[/]  [{tone}]{text}[/]")
        self._live.update(self._picture())

    def close(self) -> None:
        """Take the picture away."""
        self._live.stop()

    def _latest_events(self) -> list[str]:
        return list(self._events)[-self._lists_rows :]

    def _picture(self) -> "RenderableType":
        from rich.columns import Columns
        from rich.console import Group
        from rich.panel import Panel

        snapshot = self._snapshot
        return Group(
            Panel(_bars(snapshot), title=f"twotick demo   {snapshot.seconds:.0f} s", title_align="left"),
            Columns(
                [
                    Panel(_ownership(snapshot), title="who owns which partition", title_align="left"),
                    Panel(_processes(snapshot), title="processes", title_align="left"),
                ]
            ),
            Panel(_lines(snapshot, self._lists_rows), title="latest messages", title_align="left"),
            Panel("\n".join(self._latest_events()) or "starting", title="what happens", title_align="left"),
        )


def open_screen(*, quiet: bool) -> Screen:
    """Return the picture where standard error is a terminal and nobody asked for quiet, else plain lines."""
    if quiet or not sys.stderr.isatty():
        return PlainScreen()
    from rich.console import Console

    return LiveScreen(Console(stderr=True))


def _bars(snapshot: Snapshot) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    rows = (
        ("in an outbox", "", snapshot.written, "white"),
        ("sent", "✓", snapshot.sent, "white"),
        ("delivered", "✓✓", snapshot.delivered, "green"),
        ("read", "✓✓", snapshot.read, "cyan"),
    )
    for name, ticks, count, color in rows:
        filled = _BAR_WIDTH * count // max(1, snapshot.messages)
        bar = f"[{color}]{'━' * filled}[/][dim]{'━' * (_BAR_WIDTH - filled)}[/]"
        table.add_row(name, f"[{color}]{ticks}[/]", bar, f"{count}/{snapshot.messages}")
    return table


def _ownership(snapshot: Snapshot) -> "Table":
    """Draw each partition with its owner and epoch; a worker keeps its color."""
    nodes = sorted({holding.node for holding in snapshot.holdings})
    cells = []
    for holding in snapshot.holdings:
        color = _COLORS[nodes.index(holding.node) % len(_COLORS)]
        cells.append(f"{holding.partition:>2} [{color}]■ {holding.node}[/] [dim]epoch {holding.epoch}[/]")
    return _in_columns(cells) if cells else _in_columns(["[dim]no owner yet[/]"])


def _in_columns(cells: Sequence[str]) -> "Table":
    """Lay cells out side by side, filling column by column."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    rows = -(-len(cells) // _SIDE_BY_SIDE)
    for row in range(rows):
        table.add_row(*cells[row::rows])
    return table


def _processes(snapshot: Snapshot) -> "Table":
    cells = [
        f"{name} " + ("[green]running[/]" if doing == "running" else f"[bold red]{doing}[/]")
        for name, doing in snapshot.processes.items()
    ]
    return _in_columns(cells)


def _lines(snapshot: Snapshot, rows: int) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    for line in snapshot.lines[-rows:]:
        table.add_row(
            f"{line.sender} → {', '.join(line.recipients)}",
            escape(line.body),
            TICKS.get(line.state, line.state.lower()),
        )
    return table
