"""Flow control: how much may be in flight and unanswered. A slow server slows its clients; nothing is dropped."""

from producers.backlog import Reports, Room, Row, Unanswered
from producers.settings import ClientSettings

PAGE_ROWS = 2_000
PAGE_BYTES = 1024 * 1024


class Window:
    """What the pump has out. Pure: told of everything, asks nobody."""

    def __init__(self, settings: ClientSettings) -> None:
        self.flying: dict[int, Row] = {}
        """By position: given to Kafka, not reported."""
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
        """Say whether what is unanswered holds back what is fresh."""
        settings = self._settings
        return (
            self.unanswered.rows + len(self.flying) + PAGE_ROWS > settings.unanswered_rows_max
            or self.unanswered.bytes + self._flying_bytes + PAGE_BYTES > settings.unanswered_bytes_max
        )

    def handed(self, rows: list[Row]) -> None:
        """Note rows that are given to Kafka."""
        flying = self.flying
        size = 0
        for row in rows:
            flying[row.position] = row
            size += row.size
        self._flying_bytes += size

    def settled(self, reports: Reports) -> int:
        """Note what is outstanding no more; return how many of the landed were copies."""
        flying = self.flying
        size = copies = 0
        for position in reports.done:
            row = flying.pop(position)
            size += row.size
            if row.attempts > 1:
                copies += 1
        self.unanswered = Unanswered(self.unanswered.rows + len(reports.done), self.unanswered.bytes + size)
        for position in (*reports.again, *reports.refused, *(position for position, _ in reports.rejected)):
            size += flying.pop(position).size
        self._flying_bytes -= size
        if self.suspects:
            self.suspects.difference_update(reports.done, (position for position, _ in reports.rejected))
        self.suspects.update(reports.refused)
        return copies


NO_ROOM = Room(0, 0, 0)
