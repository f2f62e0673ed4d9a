"""The partitioner agrees with the Java client and with librdkafka, on their own golden vectors (case K17)."""

import pytest

from schemas.partitioner import murmur2, partition_of

JAVA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    bytes([12, 42, 56, 24, 109, 111]): 274204207,
}
"""The Java client's test of its murmur2; signed, as Java shows them."""

LIBRDKAFKA_VECTORS = {
    b"kafka": 0xD067CF64,
    b"giberish123456789": 0x8F552B0C,
    b"1234": 0x9FC97B14,
    b"234": 0xE7C009CA,
    b"34": 0x873930DA,
    b"4": 0x5A4B5CA1,
    b"PreAmbleWillBeRemoved,ThePrePartThatIs": 0x78424F1C,
    b"reAmbleWillBeRemoved,ThePrePartThatIs": 0x4A62B377,
    b"eAmbleWillBeRemoved,ThePrePartThatIs": 0xE0E4E09E,
    b"AmbleWillBeRemoved,ThePrePartThatIs": 0x62B8B43F,
    b"": 0x106E08D9,
}
"""librdkafka's own unit test of its murmur2."""


@pytest.mark.parametrize(("key", "signed"), JAVA_VECTORS.items())
def test_murmur2_is_the_java_clients(key, signed):  # case K17
    assert murmur2(key) == signed & 0xFFFFFFFF


@pytest.mark.parametrize(("key", "unsigned"), LIBRDKAFKA_VECTORS.items())
def test_murmur2_is_librdkafkas(key, unsigned):  # case K17
    assert murmur2(key) == unsigned


@pytest.mark.parametrize(("key", "partition"), [(b"21", 1173551340 % 12), (b"foobar", 1357151166 % 12)])
def test_the_sign_bit_is_dropped_before_the_division(key, partition):  # case K17
    assert partition_of(key, 12) == partition


def test_every_key_has_a_partition_in_range_and_all_partitions_get_some():
    seen = [partition_of(f"conversation-{number}".encode(), 64) for number in range(6_400)]
    counts = [seen.count(partition) for partition in range(64)]
    assert sum(counts) == 6_400
    assert min(counts) > 50


def test_an_empty_key_is_refused():  # case K18
    with pytest.raises(ValueError, match="empty key"):
        partition_of(b"", 8)
