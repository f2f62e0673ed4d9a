"""Compares what a replay has rebuilt with the live store, a page of rows at a time, and mends the live store."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from consumers.errors import VersionConflictError
from consumers.replay.commands import Commands, doubt_about
from consumers.replay.compare import (
    DIFFERENCES,
    Compared,
    ComparisonResult,
    Reach,
    compare_conversation,
    compare_message,
    invented,
)
from consumers.replay.control import Control, Report, unseen
from consumers.replay.pace import Pace
from consumers.replay.rebuild import REPLAYER
from consumers.replay.seed import write_of
from consumers.replay.writes import Writes
from consumers.rows import NOWHERE, ConversationRow, ConversationWrite, MessageWrite, Owner, Position
from consumers.stores.contract import Done, MessageKey, Store, StoredMessage
from schemas.partitioner import partition_of

PAGE_ROWS: Final = 500
T = TypeVar("T")


class Difference(NamedTuple):
    """One row that is not as the log makes it."""

    kind: ComparisonResult
    conversation_id: str
    message_id: bytes
    """Empty for a conversation's own row."""
    detail: str
    mended: bool = False


@dataclass(slots=True)
class Checked:
    """How many rows were compared, and what came of it."""

    messages: Counter[str] = field(default_factory=Counter)
    """By result."""
    conversations: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Rows compared, of both kinds."""
        return self.messages.total() + self.conversations.total()

    @property
    def differing(self) -> int:
        """How many of them were not as the log makes them."""
        return sum(self.messages[kind] + self.conversations[kind] for kind in DIFFERENCES)


class Comparison:
    """`reaches` are by partition: rows of other partitions were not replayed and are passed over.

    No more rows a second are looked at than `control` says, and none once it says to stop.
    """

    def __init__(  # noqa: PLR0913 - two stores, how far they are, and how to go about it
        self,
        rebuilt: Store,
        live: Store,
        reaches: dict[int, Reach],
        partitions: int,
        control: Control | None = None,
        *,
        commands: Commands | None = None,
        rests_on_live: bool = False,
    ) -> None:
        """Take `rests_on_live` where conversations that are not rebuilt were taken as the live store has them."""
        self.checked = Checked()
        self._commands = commands
        self._rests_on_live = rests_on_live
        self._control = control or Control()
        self._pace = Pace(self._control.rate, self._control.stopping)
        self._rebuilt = rebuilt
        self._live = live
        self._reaches = reaches
        self._partitions = partitions

    def _pages(self, rows: Iterable[T], total: int | None, report: Report) -> Iterator[list[T]]:
        """Yield rows some at a time, at the pace asked for, until somebody stops it."""
        done = 0
        for page in pages(rows, self._control.at_once(PAGE_ROWS)):
            if self._control.stopping():
                return
            yield page
            done += len(page)
            report(done, None if total is None else max(done, total))  # others may have written since
            self._pace.spent(len(page))

    @property
    def doubts(self) -> bool:
        """Whether a difference may come from commands that the workers took otherwise."""
        return self._commands is not None and bool(self._commands.doubted or self._commands.refused)

    def _check_commands(self, conversations: Iterable[str]) -> None:
        """Raise OperatorsDifferError where the workers may have taken commands of one of these that differ otherwise.

        The letter of a refused command is not the last word: who wrote it may have died before the commit, and the
        next owner have had other operators. The live store tells then.
        """
        if self._commands is None:
            return
        for name in conversations:
            if (command := self._commands.doubted.get(name)) is not None:
                raise doubt_about(command)
            if (command := self._commands.refused.get(name)) is not None and self._was_parked_otherwise(name):
                raise doubt_about(command)

    def _was_parked_otherwise(self, name: str) -> bool:
        """Say whether the live store has a parking that began or ended where, by the replay, nothing was taken."""
        ours, theirs = (each.read((), [name]).conversations.get(name) for each in (self._rebuilt, self._live))
        if ours is None and self._rests_on_live:
            return False
        reach = self._reaches[self._partition(name)]
        known = _ends(ours)
        return any(place not in known and place < (reach.generation, reach.replayed) for place in _ends(theirs))

    def messages(self, *, mend: bool = False, report: Report = unseen) -> Iterator[Difference]:
        """Yield the messages that the live store does not hold as the log makes them; with `mend` write them.

        Raises OperatorsDifferError, as all that compares here.
        """
        for rebuilt in self._pages(self._rebuilt.all_messages(), _messages_in(self._rebuilt), report):
            page = [each for each in rebuilt if self._was_replayed(each.row.conversation_id)]
            found = self._live.messages([each.key for each in page])
            differing = []
            for ours in page:
                theirs = found.get(ours.key)
                compared = compare_message(ours, theirs, self._reach(ours))
                self.checked.messages[compared.result] += 1
                if compared.result in DIFFERENCES:
                    differing.append((ours, compared))
            self._check_commands({ours.row.conversation_id for ours, _ in differing})
            mended = self._mend(differing) if mend and differing else frozenset()
            for ours, compared in differing:
                yield Difference(compared.result, *ours.key, compared.detail, ours.key in mended)

    def _mend(self, differing: Sequence[tuple[StoredMessage, Compared]]) -> frozenset[MessageKey]:
        """Write rows as the log makes them, under their own stamps; return those that are as they should be then."""
        by_key = {ours.key: ours for ours, _ in differing}
        self._put(write_of(ours, ours.row, [step for step, _ in ours.transitions]) for ours in by_key.values())
        again = self._live.messages(list(by_key))
        return frozenset(
            key
            for key, ours in by_key.items()
            if compare_message(ours, again.get(key), self._reach(ours)).result not in DIFFERENCES
        )

    def _put(self, rows: Iterable[MessageWrite | ConversationWrite]) -> None:
        """Write rows, each by itself; whether they are as they should be then is for whoever reads them again.

        As whose: at equal stamps the larger owner stays, and nobody's is larger than the lease's.
        """
        owners = {lease.partition: Owner(lease.epoch, lease.node) for lease in self._live.leases()}
        by_partition: dict[int, Writes] = {}
        for row in rows:
            partition = self._partition(row.row.conversation_id)
            if partition not in by_partition:
                by_partition[partition] = Writes(self._begin_mend, owners.get(partition, REPLAYER))
            both = ([row], []) if isinstance(row, MessageWrite) else ([], [row])
            by_partition[partition].submit(*both, _nothing)
        for writes in by_partition.values():
            writes.settle()

    def _begin_mend(
        self, owner: Owner, messages: Sequence[MessageWrite], conversations: Sequence[ConversationWrite], done: Done
    ) -> None:
        self._live.mend(
            owner, messages, conversations, lambda error: done(None if type(error) is VersionConflictError else error)
        )

    def conversations(self, *, mend: bool = False, report: Report = unseen) -> Iterator[Difference]:
        """Yield the conversations that differ; only for a replay from the first record."""
        counts = self._rebuilt.row_counts()
        for rebuilt in self._pages(self._rebuilt.all_conversations(), counts and counts.conversations, report):
            page = [row for row in rebuilt if self._was_replayed(row.conversation_id)]
            found = self._live.read((), [row.conversation_id for row in page]).conversations
            differing = []
            for ours in page:
                compared = self._compare_conversation(ours, found.get(ours.conversation_id))
                self.checked.conversations[compared.result] += 1
                if compared.result in DIFFERENCES:
                    differing.append((ours, compared))
            self._check_commands(ours.conversation_id for ours, _ in differing)
            mended = self._mend_conversations([ours for ours, _ in differing]) if mend and differing else frozenset()
            for ours, compared in differing:
                is_mended = ours.conversation_id in mended
                yield Difference(compared.result, ours.conversation_id, b"", compared.detail, is_mended)

    def _mend_conversations(self, differing: Sequence[ConversationRow]) -> frozenset[str]:
        self._put(map(ConversationWrite, differing))
        again = self._live.read((), [ours.conversation_id for ours in differing]).conversations
        return frozenset(
            ours.conversation_id
            for ours in differing
            if self._compare_conversation(ours, again.get(ours.conversation_id)).result not in DIFFERENCES
        )

    def _compare_conversation(self, ours: ConversationRow, theirs: ConversationRow | None) -> Compared:
        return compare_conversation(ours, theirs, self._reaches[self._partition(ours.conversation_id)])

    def _reach(self, message: StoredMessage) -> Reach:
        return self._reaches[self._partition(message.row.conversation_id)]

    def _was_replayed(self, conversation_id: str) -> bool:
        """Say whether the partition in which a conversation is now was replayed: not so where it has moved out."""
        return self._partition(conversation_id) in self._reaches

    def _partition(self, conversation_id: str) -> int:
        """Return where a conversation is now: before the partition count changed it may have been elsewhere."""
        return partition_of(conversation_id.encode(), self._partitions)

    def invented(self, chosen: frozenset[str], *, report: Report = unseen) -> Iterator[Difference]:
        """Yield messages of the live store that the log never made; only for a replay from the first record."""
        for page in self._pages(self._live.all_messages(), _messages_in(self._live), report):
            asked = [
                each
                for each in page
                if (not chosen or each.row.conversation_id in chosen) and self._was_replayed(each.row.conversation_id)
            ]
            known = self._rebuilt.messages([each.key for each in asked])
            for theirs in asked:
                if theirs.key in known:
                    continue
                compared = invented(theirs, self._reach(theirs))
                self.checked.messages[compared.result] += 1
                if compared.result in DIFFERENCES:
                    self._check_commands([theirs.row.conversation_id])
                    yield Difference(compared.result, *theirs.key, compared.detail)


def _ends(row: ConversationRow | None) -> set[Position]:
    """Return where a conversation's parkings began and ended."""
    parkings = row.parkings if row is not None else ()
    return {place for each in parkings for place in (each.since, each.until) if place != NOWHERE}


def _messages_in(store: Store) -> int | None:
    """Return how many messages a store holds, where it can tell."""
    counts = store.row_counts()
    return counts and counts.messages


def _nothing() -> None:
    """Be told of a write that somebody waits for anyway."""


def pages(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield rows `size` at a time."""
    rows = iter(rows)
    while page := list(islice(rows, size)):
        yield page
