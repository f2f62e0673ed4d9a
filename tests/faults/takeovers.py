"""How long a killed worker's partitions stood still: from its death to the first answer of its successor."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from consumers.stores.contract import StoredMessage
from tests.faults.deeds import Kill


class Takeover(NamedTuple):
    """One partition's way to its next owner."""

    partition: int
    seconds: float
    moved: bool
    """Whether another worker has it now; else the same one, started again."""
    undisturbed: bool
    """Whether all servers were there all the while."""


class _First(NamedTuple):
    epoch: int
    at_ms: int
    node: str


def takeovers(
    kills: Sequence[Kill],
    stored: Sequence[StoredMessage],
    first_told: Mapping[tuple[bytes, int], int],
    disturbed: Sequence[tuple[float, float]],
) -> Iterator[Takeover]:
    """Yield every partition that went on; one in which nothing more happened is left out.

    `disturbed` are the times, s since 1970, in which servers were away.
    """
    firsts = _first_of_each(stored, first_told)
    for kill in kills:
        for partition, epoch in kill.epochs.items():
            # A later epoch may not have applied anything before it ended too.
            after = [one for one in firsts[partition] if one.epoch > epoch and one.at_ms / 1000 > kill.at]
            if after:
                first = min(after, key=lambda one: one.at_ms)
                end = first.at_ms / 1000
                undisturbed = not any(began < end and kill.at < ended for began, ended in disturbed)
                yield Takeover(partition, end - kill.at, first.node != kill.node, undisturbed)


def _first_of_each(
    stored: Sequence[StoredMessage], first_told: Mapping[tuple[bytes, int], int]
) -> Mapping[int, list[_First]]:
    """Return by partition when each epoch's first applied event was answered."""
    found: dict[tuple[int, int], _First] = {}
    for message in stored:
        for step, owner in message.transitions:
            at_ms = first_told.get((message.row.message_id, step.version))
            key = (message.row.partition, owner.epoch)
            if at_ms is not None and (key not in found or at_ms < found[key].at_ms):
                found[key] = _First(owner.epoch, at_ms, owner.node)
    firsts: defaultdict[int, list[_First]] = defaultdict(list)
    for (partition, _), first in found.items():
        firsts[partition].append(first)
    return firsts


def figures(seconds: Sequence[float]) -> Mapping[str, float | int]:
    """Return how many, the median and the worst."""
    if not seconds:
        return {"partitions": 0}
    return {
        "partitions": len(seconds),
        "median_s": round(median(seconds), 2),
        "worst_s": round(max(seconds), 2),
    }
