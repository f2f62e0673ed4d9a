"""How rows are put together into UNLOGGED batches. Pure.

A batch is worth it where its rows share a Cassandra partition (one mutation) or at least their replicas (one
coordinator that has them all). Batches over several partitions stay inside Cassandra's default warning limits; rows of
one partition are one mutation, which Cassandra does not weigh as a batch.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumers.stores.cassandra_rows import Packed

ReplicasOf = Callable[[bytes], Hashable]
"""Which replicas have a routing key's rows; equal where the rows may share a batch."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large batches become."""

    bytes_max: int = 5 * 1024
    """Of a batch over several partitions, as Cassandra weighs it (`batch_size_warn_threshold`)."""
    partitions_max: int = 10
    """Of one batch (`unlogged_batch_across_partitions_warn_threshold`)."""
    one_partition_bytes_max: int = 32 * 1024
    """Of a batch of one partition's rows."""


class Batch(NamedTuple):
    """Statements to send as one request."""

    routing_key: bytes
    statements: Sequence[bytes]


def batches(rows: Iterable[Packed], limits: BatchLimits, replicas_of: ReplicasOf | None) -> Iterator[Batch]:
    """Yield the rows in batches; a single row that is over the limit is a batch of its own.

    `replicas_of` is None where every node has every row.
    """
    partitions: dict[tuple[str, bytes], list[Packed]] = {}
    for row in rows:
        partitions.setdefault((row.table, row.routing_key), []).append(row)
    if replicas_of is None:
        yield from _fill(partitions.values(), limits)
        return
    sharing: dict[Hashable, list[list[Packed]]] = {}
    for (_, routing_key), members in partitions.items():
        sharing.setdefault(replicas_of(routing_key), []).append(members)
    for group in sharing.values():
        yield from _fill(group, limits)


def _fill(partitions: Iterable[list[Packed]], limits: BatchLimits) -> Iterator[Batch]:
    """Yield batches of whole partitions up to the limits; a partition over them is cut into batches of its own."""
    batch: list[bytes] = []
    first, count, total = b"", 0, 0
    for members in partitions:
        weight = sum(row.weight for row in members)
        if weight > limits.bytes_max:
            yield from _cut(members, limits.one_partition_bytes_max)
            continue
        if batch and (total + weight > limits.bytes_max or count == limits.partitions_max):
            yield Batch(first, batch)
            batch, count, total = [], 0, 0
        if not batch:
            first = members[0].routing_key
        batch.extend(row.statement for row in members)
        count += 1
        total += weight
    if batch:
        yield Batch(first, batch)


def _cut(members: Sequence[Packed], bytes_max: int) -> Iterator[Batch]:
    start, total = 0, 0
    for index, row in enumerate(members):
        if index > start and total + row.weight > bytes_max:
            yield Batch(row.routing_key, [one.statement for one in members[start:index]])
            start, total = index, 0
        total += row.weight
    yield Batch(members[0].routing_key, [one.statement for one in members[start:]])
