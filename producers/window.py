"""Flow control: how much may be in flight and unanswered. A slow server slows its clients; nothing is dropped."""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from producers.pages import NO_ROOM, Reports, Room, Row, Unanswered
from producers.settings import ClientSettings

PAGE_ROWS = 2_000
PAGE_BYTES = 1024 * 1024

_POSITION_AND_SIZE, _SIZE, _ATTEMPTS = itemgetter(0, 1), itemgetter(1), itemgetter(Row._fields.index("attempts"))


class Window:
    """What the pump has out. Pure: told of everything, asks nobody."""

    def __init__(self, settings: ClientSettings) -> None:
        self.flying: dict[int, int] = {}
        """Position to size of what was given to Kafka and is not reported."""
        self.suspects: set[int] = set()
        """Refused in company; each is to be tried alone."""
        self.unanswered = Unanswered(0, 0)
        """Landed, not answered; counted anew now and then, because others take rows away."""
        self._flying_bytes = 0
        self._settings = settings

    def room(self) -> Room:
        """Return how much may be handed over now."""
        settings = self._settings
        if self.suspects:
            return NO_ROOM if self.flying else Room(1, PAGE_BYTES, 0, only=min(self.suspects))
        rows = min(PAGE_ROWS, settings.in_flight_rows_max - len(self.flying))
        size = min(PAGE_BYTES, settings.in_flight_bytes_max - self._flying_bytes)
        if size <= 0 or rows < (min(PAGE_ROWS, settings.in_flight_rows_max) + 1) // 2:
            return NO_ROOM
        fresh_rows = settings.unanswered_rows_max - self.unanswered.rows - len(self.flying)
        fresh_bytes = settings.unanswered_bytes_max - self.unanswered.bytes - self._flying_bytes
        if fresh_rows <= 0 or fresh_bytes <= 0:
            return Room(rows, size, 0)
        return Room(rows, min(size, fresh_bytes), min(rows, fresh_rows))

    def is_tight(self) -> bool:
        """Say whether what is unanswered may hold back what is fresh."""
        settings = self._settings
        return (
            self.unanswered.rows + len(self.flying) + PAGE_ROWS > settings.unanswered_rows_max
            or self.unanswered.bytes + self._flying_bytes + PAGE_BYTES > settings.unanswered_bytes_max
        )

    def handed(self, rows: Sequence[Row]) -> int:
        """Note rows that are given to Kafka; return how many of them are copies.

        One may be out already: answered before its report came, and made due again because the inbox lost records.
        """
        self._forget(row.position for row in rows)
        self.flying.update(map(_POSITION_AND_SIZE, rows))
        self._flying_bytes += sum(map(_SIZE, rows))
        return sum(map(bool, map(_ATTEMPTS, rows)))

    def settled(self, reports: Reports) -> None:
        """Note what is outstanding no more."""
        landed = self._forget(reports.done)
        self.unanswered = Unanswered(self.unanswered.rows + len(reports.done), self.unanswered.bytes + landed)
        self._forget(reports.again)
        self._forget(reports.refused)
        rejected = [position for position, _ in reports.rejected]
        self._forget(rejected)
        if self.suspects:
            self.suspects.difference_update(reports.done, rejected)
        self.suspects.update(reports.refused)

    def _forget(self, positions: Iterable[int]) -> int:
        size = sum(self.flying.pop(position, 0) for position in positions)
        self._flying_bytes -= size
        return size
