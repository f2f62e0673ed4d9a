"""One message's whole story: what outboxes know of it and what the store does, in one line of time. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Final, NamedTuple

from compose.outboxes import Entry
from consumers.stores.contract import StoredMessage
from schemas.lifecycle import State, label

COLUMNS: Final = ("time", "where", "what", "version", "by", "log", "owner", "epoch")
_OTHER_THAN_STATES: Final = frozenset({"written", "arrived"})


class _Moment(NamedTuple):
    """For sorting: at the same ms the store's step stands before what is told of it."""

    at: int
    version: int
    place: int
    row: Mapping[str, object]


def story(entries: Iterable[Entry], stored: StoredMessage | None) -> list[Mapping[str, object]]:
    """Return one row for each thing that happened to a message, in order."""
    moments = [*_of_outboxes(entries), *(_of_store(stored) if stored else ())]
    return [moment.row for moment in sorted(moments, key=lambda moment: moment[:3])]


def _of_outboxes(entries: Iterable[Entry]) -> Iterator[_Moment]:
    for entry in entries:
        what = entry.what if entry.what in _OTHER_THAN_STATES else f"told {label(State(entry.what))}"
        version = entry.version or None
        where = f"{'inbox' if entry.what == 'arrived' else 'outbox'} of {entry.user}"
        row = {"time": _time(entry.at), "where": where, "what": what, "version": version, "by": entry.actor}
        yield _Moment(entry.at, entry.version, 0 if entry.what == "written" else 2, row)


def _of_store(stored: StoredMessage) -> Iterator[_Moment]:
    for step, owner in stored.transitions:
        yield _Moment(
            step.at,
            step.version,
            1,
            {
                "time": _time(step.at),
                "where": "store",
                "what": label(State(step.state)),
                "version": step.version,
                "by": step.actor,
                "log": f"partition {stored.row.partition} offset {step.offset}",
                "owner": owner.node,
                "epoch": owner.epoch,
            },
        )


def summary(stored: StoredMessage) -> str:
    """Return in one line what the store says now."""
    row = stored.row
    recipients = ", ".join(
        f"{user} {label(State(state)) if state else 'unknown'}"
        for user, state in zip_longest(row.recipients, row.receipts)
    )
    return (
        f"{label(State(row.state))}, version {row.version}, from {row.sender} to {recipients},"
        f" in {row.conversation_id} (log partition {row.partition})"
    )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
