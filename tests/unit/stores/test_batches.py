"""Rows become bounded batches: together where they share a partition or their replicas, never over the limits."""

from hypothesis import given
from hypothesis import strategies as st

from consumers.stores.cassandra_batches import Batch, BatchLimits, batches
from consumers.stores.cassandra_rows import Packed

LIMITS = BatchLimits(bytes_max=100, partitions_max=3, one_partition_bytes_max=150)


def packed(partition: str, weight: int, number: int = 0) -> Packed:
    return (partition.encode(), weight, f"{partition}{number}".encode())


def statements(made: list[Batch]) -> list[list[str]]:
    return [[statement.decode() for statement in batch.statements] for batch in made]


def test_partitions_fill_a_batch_up_to_their_number() -> None:
    made = list(batches([packed(name, 10) for name in "abcde"], LIMITS, None))
    assert statements(made) == [["a0", "b0", "c0"], ["d0", "e0"]]
    assert [batch.routing_key for batch in made] == [b"a", b"d"]


def test_partitions_fill_a_batch_up_to_its_bytes() -> None:
    assert statements(list(batches([packed(name, 60) for name in "abc"], LIMITS, None))) == [["a0"], ["b0"], ["c0"]]
    assert statements(list(batches([packed(name, 50) for name in "abc"], LIMITS, None))) == [["a0", "b0"], ["c0"]]


def test_rows_of_one_partition_are_one_mutation_and_go_together() -> None:
    rows = [packed(name, 20, number) for number in range(2) for name in "ab"]
    assert statements(list(batches(rows, LIMITS, None))) == [["a0", "a1", "b0", "b1"]]


def test_a_partition_over_the_limit_is_cut_into_batches_of_its_own() -> None:
    rows = [packed("x", 10), *(packed("a", 60, number) for number in range(5)), packed("y", 10)]
    made = statements(list(batches(rows, LIMITS, None)))
    assert made == [["a0", "a1"], ["a2", "a3"], ["a4"], ["x0", "y0"]]


def test_a_row_over_every_limit_is_a_batch_of_its_own() -> None:
    assert statements(list(batches([packed("a", 9_999), packed("b", 1)], LIMITS, None))) == [["a0"], ["b0"]]


def test_rows_with_other_replicas_never_share_a_batch() -> None:
    made = list(
        batches([packed(name, 10) for name in "abcdef"], LIMITS, lambda key: ("even" if key[0] % 2 else "odd",))
    )
    assert statements(made) == [["a0", "c0", "e0"], ["b0", "d0", "f0"]]
    assert [batch.replicas for batch in made] == [("even",), ("odd",)]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 200)), max_size=60), st.booleans())
def test_every_row_is_in_one_batch_and_every_batch_is_in_the_limits(
    drawn: list[tuple[str, int]],
    several: bool,  # noqa: FBT001 - drawn
) -> None:
    rows = [packed(name, weight, number) for number, (name, weight) in enumerate(drawn)]
    weights = {row[2]: row for row in rows}
    made = list(batches(rows, LIMITS, (lambda key: (key[0] % 2,)) if several else None))
    assert sorted(one for batch in made for one in batch.statements) == sorted(weights)
    for batch in made:
        members = [weights[statement] for statement in batch.statements]
        partitions = {row[0] for row in members}
        total = sum(row[1] for row in members)
        assert batch.routing_key in partitions
        assert len(partitions) <= LIMITS.partitions_max
        if len(partitions) > 1:
            assert total <= LIMITS.bytes_max
        else:
            assert total <= LIMITS.one_partition_bytes_max or len(members) == 1
