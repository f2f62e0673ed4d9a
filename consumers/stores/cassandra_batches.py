"""How rows are put together into UNLOGGED batches. Pure.

A batch is worth it where its rows share a Cassandra partition (one mutation) or at least their replicas (one
coordinator that has them all). Batches over several partitions stay inside Cassandra's default warning limits; rows of
one partition are one mutation, which Cassandra does not weigh as a batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from consumers.stores.cassandra_rows import Packed

Replicas = tuple[Any, ...]
"""Nodes that have the same rows."""
ReplicasOf = Callable[[bytes], Replicas]
"""Which nodes have a routing key's rows; equal where the rows may share a batch."""


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

    statements: Sequence[bytes]
    routing_key: bytes
    """Of one of its rows."""
    replicas: Replicas | None
    """Of all of its rows; None where every node has them."""


def batches(rows: Iterable[Packed], limits: BatchLimits, replicas_of: ReplicasOf | None) -> Iterator[Batch]:
    """Yield the rows in batches; a single row that is over the limit is a batch of its own.

    `replicas_of` is None where every node has every row.
    """
    partitions: dict[bytes, list[Packed]] = {}
    for row in rows:
        partitions.setdefault(row[0], []).append(row)
    if replicas_of is None:
        yield from _fill(partitions.values(), limits, None)
        return
    sharing: dict[Replicas, list[list[Packed]]] = {}
    for routing_key, members in partitions.items():
        sharing.setdefault(replicas_of(routing_key), []).append(members)
    for replicas, group in sharing.items():
        yield from _fill(group, limits, replicas)


def _fill(partitions: Iterable[list[Packed]], limits: BatchLimits, replicas: Replicas | None) -> Iterator[Batch]:
    """Yield batches of whole partitions up to the limits; a partition over them is cut into batches of its own."""
    batch: list[bytes] = []
    first, count, total = b"", 0, 0
    for members in partitions:
        weight = members[0][1] if len(members) == 1 else sum([row[1] for row in members])
        if weight > limits.bytes_max:
            for rows in _cut(members, limits.one_partition_bytes_max):
                yield Batch(rows, members[0][0], replicas)
            continue
        if batch and (total + weight > limits.bytes_max or count == limits.partitions_max):
            yield Batch(batch, first, replicas)
            batch, count, total = [], 0, 0
        if not batch:
            first = members[0][0]
        batch += [row[2] for row in members]
        count += 1
        total += weight
    if batch:
        yield Batch(batch, first, replicas)


def _cut(members: Sequence[Packed], bytes_max: int) -> Iterator[list[bytes]]:
    """Yield one partition's rows in pieces of up to `bytes_max`, or of one row."""
    piece: list[bytes] = []
    total = 0
    for _, weight, statement in members:
        if piece and total + weight > bytes_max:
            yield piece
            piece, total = [], 0
        piece.append(statement)
        total += weight
    yield piece
