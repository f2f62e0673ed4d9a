"""Avro's numbers: zigzag varints of up to 64 bits, as the functions that read and write records use them."""

from typing import Final

from schemas.known import Known

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1
_NUMBER_BYTES_MAX: Final = 10


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag varint at an index and the index behind it; raise ValueError where there is none."""
    value = shift = 0
    for byte in data[at : at + _NUMBER_BYTES_MAX]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if value >> 64:
                break
            return value >> 1 ^ -(value & 1), at + shift // 7
    raise ValueError("a number is cut off or has more than 64 bits")


def int_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an index as `number_at` does; raise ValueError where it is no Avro int."""
    value, at = number_at(data, at)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError(f"{value} is no 32-bit number")
    return value, at


def size_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the length that is not in one byte at an index, and the index behind it.

    Raises ValueError where it is negative or cut off.
    """
    low, high = data[at : at + 2]
    if low & 0x81 == 0x80 and high < 0x80:  # nearly always: two bytes
        return (low & 0x7F) >> 1 | high << 6, at + 2
    size, at = number_at(data, at)
    if size < 0:
        raise ValueError(f"a length is {size}")
    return size, at


def count_at(data: bytes, at: int) -> tuple[int, int]:
    """Return an array block's count and the index behind it.

    A negative count is followed by the block's size in bytes, which nobody here needs (Avro 1.12, "Arrays"). Every
    item has at least one byte, so a count beyond what is left is refused before anything is read.
    """
    count, at = number_at(data, at)
    if count < 0:
        count, (_, at) = -count, number_at(data, at)
    if count > len(data) - at:
        raise ValueError(f"an array of {count} items in {len(data) - at} bytes")
    return count, at


def number(value: int) -> bytes:
    """Return a number of up to 64 bits as a zigzag varint; raise ValueError where it has more."""
    if not _LONG_MIN <= value <= _LONG_MAX:
        raise ValueError(f"{value} is no 64-bit number")
    rest = value << 1 ^ value >> 63
    if 1 << 35 <= rest < 1 << 42:  # the times of this century, in every record
        low = (rest & 0x7F | 0x80, rest >> 7 & 0x7F | 0x80, rest >> 14 & 0x7F | 0x80)
        return bytes((*low, rest >> 21 & 0x7F | 0x80, rest >> 28 & 0x7F | 0x80, rest >> 35))
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


SMALL: Final = tuple(number(value) for value in range(1024))
"""Encoded numbers and lengths that occur all the time."""

NUMBERS: Final[dict[int, bytes]] = Known(number, 4096)
"""Other encoded numbers: an event's append time and offset stand in each of its answers."""
