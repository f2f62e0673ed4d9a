"""Looks at outboxes and leases while the demo runs, for the screen and to know when all is settled."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from compose import outboxes
from compose.demo.plan import Plan, intentions
from compose.demo.screen import MESSAGES_SHOWN, Holding, Line, Snapshot
from consumers.errors import WorkerError
from consumers.stores.contract import Store
from schemas.lifecycle import FINAL, RANK, State

_LEASES_EVERY_S: Final = 0.5


class Watcher:
    """Takes snapshots; leases are read no more than twice a second, because those reads are serial."""

    def __init__(
        self, plan: Plan, outbox_of: Mapping[str, Path], store: Store, processes: Callable[[], Mapping[str, str]]
    ) -> None:
        self._plan = plan
        self._outbox_of = outbox_of
        self._store = store
        self._processes = processes
        self._intended = {(one.sender, one.conversation_id, one.seq): one for one in intentions(plan)}
        self._holdings: Sequence[Holding] = ()
        self._leases_at = -_LEASES_EVERY_S

    def snapshot(self, seconds: float) -> Snapshot:
        """Return the state of things, `seconds` after the start."""
        counts: Counter[str] = Counter()
        for path in self._outbox_of.values():
            counts += outboxes.states(path)
        if seconds - self._leases_at >= _LEASES_EVERY_S:
            self._leases_at = seconds
            self._holdings = self._read_leases()
        return Snapshot(
            seconds=seconds,
            messages=self._plan.messages,
            written=counts.total(),
            sent=_at_least(counts, State.SENT),
            delivered=_at_least(counts, State.DELIVERED),
            read=_at_least(counts, State.READ),
            settled=sum(count for state, count in counts.items() if state in FINAL),
            holdings=self._holdings,
            lines=self._latest(),
            processes=self._processes(),
        )

    def _read_leases(self) -> Sequence[Holding]:
        """Return who owns what; what was known, where the store does not answer just now."""
        try:
            leases = self._store.leases()
        except WorkerError:
            return self._holdings
        return sorted(Holding(lease.partition, lease.epoch, lease.node) for lease in leases)

    def _latest(self) -> Sequence[Line]:
        own = [
            (message.created_at, user, message)
            for user, path in self._outbox_of.items()
            for message in outboxes.own_messages(path, latest=MESSAGES_SHOWN)
        ]
        lines = []
        for _, user, message in sorted(own)[-MESSAGES_SHOWN:]:
            intended = self._intended.get((user, message.conversation_id, message.seq))
            if intended is not None:
                lines.append(Line(user, intended.recipients, intended.body, message.state))
        return lines


def _at_least(counts: Counter[str], state: State) -> int:
    """Count what has come to `state` or beyond; a failure is beyond nothing."""
    return sum(count for found, count in counts.items() if RANK[state] <= RANK[found] <= RANK[State.READ])
