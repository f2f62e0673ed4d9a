"""The functions that read and write records. Written by `make docs` from the schema files; change those instead."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.varints import NUMBERS, SMALL, count_at, int_at, number, number_at, size_at

make: Final = tuple.__new__


_READ_ACKNOWLEDGEMENT_V1_5: Final = {0: 'SEND', 2: 'DELIVERED', 4: 'READ', 6: 'CANCEL', 8: 'EXPIRE', 10: 'BLOCK', 12: 'UNBLOCK', 14: 'HELLO'}
_READ_ACKNOWLEDGEMENT_V1_10: Final = {0: 'APPLIED', 2: 'DUPLICATE', 4: 'STALE', 6: 'CONFLICT', 8: 'REFUSED'}
_READ_ACKNOWLEDGEMENT_V1_13: Final = {0: 'PENDING', 2: 'SENT', 4: 'UNDELIVERED', 6: 'DELIVERED', 8: 'READ', 10: 'EXPIRED', 12: 'BLOCKED', 14: 'REJECTED', 16: 'CANCELLED'}


def read_acknowledgement_v1(data: bytes, at: int, record: type[tuple[Any, ...]]) -> tuple[Any, ...]:
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_1 = data[at:end].decode()
    at = end
    end = at + 16
    value_2 = data[at:end]
    at = end
    end = at + 16
    value_3 = data[at:end]
    at = end
    value_4 = _READ_ACKNOWLEDGEMENT_V1_5[data[at]]
    at += 1
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_6 = data[at:end].decode()
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_7 = data[at:end].decode()
    at = end
    end = at + 16
    value_8 = data[at:end]
    at = end
    value_9 = _READ_ACKNOWLEDGEMENT_V1_10[data[at]]
    at += 1
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_11 = data[at:end].decode()
    at = end
    value_12 = _READ_ACKNOWLEDGEMENT_V1_13[data[at]]
    at += 1
    value_14 = data[at]
    if value_14 < 0x80:
        value_14 = value_14 >> 1 ^ -(value_14 & 1)
        at += 1
    else:
        value_14, at = int_at(data, at)
    value_15 = data[at]
    if value_15 < 0x80:
        value_15 = value_15 >> 1 ^ -(value_15 & 1)
        at += 1
    else:
        value_15, at = number_at(data, at)
    value_16 = data[at]
    if value_16 < 0x80:
        value_16 = value_16 >> 1 ^ -(value_16 & 1)
        at += 1
    else:
        value_16, at = number_at(data, at)
    value_17 = data[at]
    if value_17 < 0x80:
        value_17 = value_17 >> 1 ^ -(value_17 & 1)
        at += 1
    else:
        value_17, at = int_at(data, at)
    value_18 = data[at]
    if value_18 < 0x80:
        value_18 = value_18 >> 1 ^ -(value_18 & 1)
        at += 1
    else:
        value_18, at = number_at(data, at)
    if at != len(data):
        raise ValueError('it is cut off, or goes on after its end')
    return make(record, (value_1, value_2, value_3, value_4, value_6, value_7, value_8, value_9, value_11, value_12, value_14, value_15, value_16, value_17, value_18,))




def read_dead_letter_v1(data: bytes, at: int, record: type[tuple[Any, ...]]) -> tuple[Any, ...]:
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_1 = data[at:end].decode()
    at = end
    value_2 = data[at]
    if value_2 < 0x80:
        value_2 = value_2 >> 1 ^ -(value_2 & 1)
        at += 1
    else:
        value_2, at = int_at(data, at)
    value_3 = data[at]
    if value_3 < 0x80:
        value_3 = value_3 >> 1 ^ -(value_3 & 1)
        at += 1
    else:
        value_3, at = number_at(data, at)
    value_4 = data[at]
    if value_4 < 0x80:
        value_4 = value_4 >> 1 ^ -(value_4 & 1)
        at += 1
    else:
        value_4, at = number_at(data, at)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_5 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_6 = data[at:end]
    at = end
    items_8: list[tuple[Any, ...]] = []
    while data[at]:
        count_9 = data[at]
        if count_9 & 0x81:
            count_9, at = count_at(data, at)
        else:
            count_9 >>= 1
            at += 1
        for _ in range(count_9):
            size = data[at]
            if size & 0x81:
                size, at = size_at(data, at)
            else:
                size >>= 1
                at += 1
            end = at + size
            value_11 = data[at:end].decode()
            at = end
            size = data[at]
            if size & 0x81:
                size, at = size_at(data, at)
            else:
                size >>= 1
                at += 1
            end = at + size
            value_12 = data[at:end]
            at = end
            value_10 = (value_11, value_12,)
            items_8.append(value_10)
    at += 1
    value_7 = tuple(items_8)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_13 = data[at:end].decode()
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_14 = data[at:end].decode()
    at = end
    value_15 = data[at]
    if value_15 < 0x80:
        value_15 = value_15 >> 1 ^ -(value_15 & 1)
        at += 1
    else:
        value_15, at = int_at(data, at)
    value_16 = data[at]
    if value_16 < 0x80:
        value_16 = value_16 >> 1 ^ -(value_16 & 1)
        at += 1
    else:
        value_16, at = number_at(data, at)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_17 = data[at:end].decode()
    at = end
    value_18 = data[at]
    if value_18 < 0x80:
        value_18 = value_18 >> 1 ^ -(value_18 & 1)
        at += 1
    else:
        value_18, at = number_at(data, at)
    if at != len(data):
        raise ValueError('it is cut off, or goes on after its end')
    return make(record, (value_1, value_2, value_3, value_4, value_5, value_6, value_7, value_13, value_14, value_15, value_16, value_17, value_18,))




def read_dead_letter_v2(data: bytes, at: int, record: type[tuple[Any, ...]]) -> tuple[Any, ...]:
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_1 = data[at:end].decode()
    at = end
    value_2 = data[at]
    if value_2 < 0x80:
        value_2 = value_2 >> 1 ^ -(value_2 & 1)
        at += 1
    else:
        value_2, at = int_at(data, at)
    value_3 = data[at]
    if value_3 < 0x80:
        value_3 = value_3 >> 1 ^ -(value_3 & 1)
        at += 1
    else:
        value_3, at = number_at(data, at)
    value_4 = data[at]
    if value_4 < 0x80:
        value_4 = value_4 >> 1 ^ -(value_4 & 1)
        at += 1
    else:
        value_4, at = number_at(data, at)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_5 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_6 = data[at:end]
    at = end
    items_8: list[tuple[Any, ...]] = []
    while data[at]:
        count_9 = data[at]
        if count_9 & 0x81:
            count_9, at = count_at(data, at)
        else:
            count_9 >>= 1
            at += 1
        for _ in range(count_9):
            size = data[at]
            if size & 0x81:
                size, at = size_at(data, at)
            else:
                size >>= 1
                at += 1
            end = at + size
            value_11 = data[at:end].decode()
            at = end
            size = data[at]
            if size & 0x81:
                size, at = size_at(data, at)
            else:
                size >>= 1
                at += 1
            end = at + size
            value_12 = data[at:end]
            at = end
            value_10 = (value_11, value_12,)
            items_8.append(value_10)
    at += 1
    value_7 = tuple(items_8)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_13 = data[at:end].decode()
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_14 = data[at:end].decode()
    at = end
    value_15 = data[at]
    if value_15 < 0x80:
        value_15 = value_15 >> 1 ^ -(value_15 & 1)
        at += 1
    else:
        value_15, at = int_at(data, at)
    value_16 = data[at]
    if value_16 < 0x80:
        value_16 = value_16 >> 1 ^ -(value_16 & 1)
        at += 1
    else:
        value_16, at = number_at(data, at)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_17 = data[at:end].decode()
    at = end
    value_18 = data[at]
    if value_18 < 0x80:
        value_18 = value_18 >> 1 ^ -(value_18 & 1)
        at += 1
    else:
        value_18, at = number_at(data, at)
    items_20: list[str] = []
    while data[at]:
        count_21 = data[at]
        if count_21 & 0x81:
            count_21, at = count_at(data, at)
        else:
            count_21 >>= 1
            at += 1
        for _ in range(count_21):
            size = data[at]
            if size & 0x81:
                size, at = size_at(data, at)
            else:
                size >>= 1
                at += 1
            end = at + size
            value_22 = data[at:end].decode()
            at = end
            items_20.append(value_22)
    at += 1
    value_19 = tuple(items_20)
    items_24: list[int] = []
    while data[at]:
        count_25 = data[at]
        if count_25 & 0x81:
            count_25, at = count_at(data, at)
        else:
            count_25 >>= 1
            at += 1
        for _ in range(count_25):
            value_26 = data[at]
            if value_26 < 0x80:
                value_26 = value_26 >> 1 ^ -(value_26 & 1)
                at += 1
            else:
                value_26, at = int_at(data, at)
            items_24.append(value_26)
    at += 1
    value_23 = tuple(items_24)
    if at != len(data):
        raise ValueError('it is cut off, or goes on after its end')
    return make(record, (value_1, value_2, value_3, value_4, value_5, value_6, value_7, value_13, value_14, value_15, value_16, value_17, value_18, value_19, value_23,))




def read_delivery_v1(data: bytes, at: int, record: type[tuple[Any, ...]]) -> tuple[Any, ...]:
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_1 = data[at:end].decode()
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_2 = data[at:end].decode()
    at = end
    end = at + 16
    value_3 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_4 = data[at:end].decode()
    at = end
    items_6: list[str] = []
    while data[at]:
        count_7 = data[at]
        if count_7 & 0x81:
            count_7, at = count_at(data, at)
        else:
            count_7 >>= 1
            at += 1
        for _ in range(count_7):
            size = data[at]
            if size & 0x81:
                size, at = size_at(data, at)
            else:
                size >>= 1
                at += 1
            end = at + size
            value_8 = data[at:end].decode()
            at = end
            items_6.append(value_8)
    at += 1
    value_5 = tuple(items_6)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_9 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_10 = data[at:end].decode()
    at = end
    value_11 = data[at]
    if value_11 < 0x80:
        value_11 = value_11 >> 1 ^ -(value_11 & 1)
        at += 1
    else:
        value_11, at = number_at(data, at)
    value_12 = data[at]
    if value_12 < 0x80:
        value_12 = value_12 >> 1 ^ -(value_12 & 1)
        at += 1
    else:
        value_12, at = number_at(data, at)
    value_13 = data[at]
    if value_13 < 0x80:
        value_13 = value_13 >> 1 ^ -(value_13 & 1)
        at += 1
    else:
        value_13, at = int_at(data, at)
    if at != len(data):
        raise ValueError('it is cut off, or goes on after its end')
    return make(record, (value_1, value_2, value_3, value_4, value_5, value_9, value_10, value_11, value_12, value_13,))


_READ_EVENT_V1_2: Final = {0: 'SEND', 2: 'DELIVERED', 4: 'READ', 6: 'CANCEL', 8: 'EXPIRE', 10: 'BLOCK', 12: 'UNBLOCK', 14: 'HELLO'}


def read_event_v1(data: bytes, at: int, record: type[tuple[Any, ...]]) -> tuple[Any, ...]:
    value_1 = _READ_EVENT_V1_2[data[at]]
    at += 1
    end = at + 16
    value_3 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_4 = data[at:end].decode()
    at = end
    end = at + 16
    value_5 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_6 = data[at:end].decode()
    at = end
    end = at + 16
    value_7 = data[at:end]
    at = end
    value_8 = data[at]
    if value_8 < 0x80:
        value_8 = value_8 >> 1 ^ -(value_8 & 1)
        at += 1
    else:
        value_8, at = number_at(data, at)
    items_10: list[str] = []
    while data[at]:
        count_11 = data[at]
        if count_11 & 0x81:
            count_11, at = count_at(data, at)
        else:
            count_11 >>= 1
            at += 1
        for _ in range(count_11):
            size = data[at]
            if size & 0x81:
                size, at = size_at(data, at)
            else:
                size >>= 1
                at += 1
            end = at + size
            value_12 = data[at:end].decode()
            at = end
            items_10.append(value_12)
    at += 1
    value_9 = tuple(items_10)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_13 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_14 = data[at:end].decode()
    at = end
    value_15 = data[at]
    if value_15 < 0x80:
        value_15 = value_15 >> 1 ^ -(value_15 & 1)
        at += 1
    else:
        value_15, at = number_at(data, at)
    value_16 = data[at]
    if value_16 < 0x80:
        value_16 = value_16 >> 1 ^ -(value_16 & 1)
        at += 1
    else:
        value_16, at = int_at(data, at)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_17 = data[at:end].decode()
    at = end
    if at != len(data):
        raise ValueError('it is cut off, or goes on after its end')
    return make(record, (value_1, value_3, value_4, value_5, value_6, value_7, value_8, value_9, value_13, value_14, value_15, value_16, value_17,))


_READ_EVENT_V2_2: Final = {0: 'SEND', 2: 'DELIVERED', 4: 'READ', 6: 'CANCEL', 8: 'EXPIRE', 10: 'BLOCK', 12: 'UNBLOCK', 14: 'HELLO', 16: 'PARK', 18: 'RELEASE'}


def read_event_v2(data: bytes, at: int, record: type[tuple[Any, ...]]) -> tuple[Any, ...]:
    value_1 = _READ_EVENT_V2_2[data[at]]
    at += 1
    end = at + 16
    value_3 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_4 = data[at:end].decode()
    at = end
    end = at + 16
    value_5 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_6 = data[at:end].decode()
    at = end
    end = at + 16
    value_7 = data[at:end]
    at = end
    value_8 = data[at]
    if value_8 < 0x80:
        value_8 = value_8 >> 1 ^ -(value_8 & 1)
        at += 1
    else:
        value_8, at = number_at(data, at)
    items_10: list[str] = []
    while data[at]:
        count_11 = data[at]
        if count_11 & 0x81:
            count_11, at = count_at(data, at)
        else:
            count_11 >>= 1
            at += 1
        for _ in range(count_11):
            size = data[at]
            if size & 0x81:
                size, at = size_at(data, at)
            else:
                size >>= 1
                at += 1
            end = at + size
            value_12 = data[at:end].decode()
            at = end
            items_10.append(value_12)
    at += 1
    value_9 = tuple(items_10)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_13 = data[at:end]
    at = end
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_14 = data[at:end].decode()
    at = end
    value_15 = data[at]
    if value_15 < 0x80:
        value_15 = value_15 >> 1 ^ -(value_15 & 1)
        at += 1
    else:
        value_15, at = number_at(data, at)
    value_16 = data[at]
    if value_16 < 0x80:
        value_16 = value_16 >> 1 ^ -(value_16 & 1)
        at += 1
    else:
        value_16, at = int_at(data, at)
    size = data[at]
    if size & 0x81:
        size, at = size_at(data, at)
    else:
        size >>= 1
        at += 1
    end = at + size
    value_17 = data[at:end].decode()
    at = end
    if at != len(data):
        raise ValueError('it is cut off, or goes on after its end')
    return make(record, (value_1, value_3, value_4, value_5, value_6, value_7, value_8, value_9, value_13, value_14, value_15, value_16, value_17,))


_WRITE_ACKNOWLEDGEMENT_V1_18: Final = {'SEND': b'\x00', 'DELIVERED': b'\x02', 'READ': b'\x04', 'CANCEL': b'\x06', 'EXPIRE': b'\x08', 'BLOCK': b'\n', 'UNBLOCK': b'\x0c', 'HELLO': b'\x0e'}
_WRITE_ACKNOWLEDGEMENT_V1_23: Final = {'APPLIED': b'\x00', 'DUPLICATE': b'\x02', 'STALE': b'\x04', 'CONFLICT': b'\x06', 'REFUSED': b'\x08'}
_WRITE_ACKNOWLEDGEMENT_V1_26: Final = {'PENDING': b'\x00', 'SENT': b'\x02', 'UNDELIVERED': b'\x04', 'DELIVERED': b'\x06', 'READ': b'\x08', 'EXPIRED': b'\n', 'BLOCKED': b'\x0c', 'REJECTED': b'\x0e', 'CANCELLED': b'\x10'}


def write_acknowledgement_v1(prefix: bytes, record: tuple[Any, ...]) -> bytes:
    value_1: str
    value_2: bytes
    value_3: bytes
    value_4: str
    value_5: str
    value_6: str
    value_7: bytes
    value_8: str
    value_9: str
    value_10: str
    value_11: int
    value_12: int
    value_13: int
    value_14: int
    value_15: int
    value_1, value_2, value_3, value_4, value_5, value_6, value_7, value_8, value_9, value_10, value_11, value_12, value_13, value_14, value_15, = record
    text_16 = value_1.encode()
    size_17 = len(text_16)
    if len(value_2) != 16:
        raise ValueError('16 bytes are expected')
    if len(value_3) != 16:
        raise ValueError('16 bytes are expected')
    text_19 = value_5.encode()
    size_20 = len(text_19)
    text_21 = value_6.encode()
    size_22 = len(text_21)
    if len(value_7) != 16:
        raise ValueError('16 bytes are expected')
    text_24 = value_9.encode()
    size_25 = len(text_24)
    if not -2147483648 <= value_11 <= 2147483647:
        raise ValueError(f'{value_11} is no 32-bit number')
    if not -2147483648 <= value_14 <= 2147483647:
        raise ValueError(f'{value_14} is no 32-bit number')
    return b''.join((prefix, SMALL[size_17] if 0 <= size_17 < 1024 else NUMBERS[size_17 | 0], text_16, value_2, value_3, _WRITE_ACKNOWLEDGEMENT_V1_18[value_4], SMALL[size_20] if 0 <= size_20 < 1024 else NUMBERS[size_20 | 0], text_19, SMALL[size_22] if 0 <= size_22 < 1024 else NUMBERS[size_22 | 0], text_21, value_7, _WRITE_ACKNOWLEDGEMENT_V1_23[value_8], SMALL[size_25] if 0 <= size_25 < 1024 else NUMBERS[size_25 | 0], text_24, _WRITE_ACKNOWLEDGEMENT_V1_26[value_10], SMALL[value_11] if 0 <= value_11 < 1024 else NUMBERS[value_11 | 0], SMALL[value_12] if 0 <= value_12 < 1024 else NUMBERS[value_12 | 0], SMALL[value_13] if 0 <= value_13 < 1024 else NUMBERS[value_13 | 0], SMALL[value_14] if 0 <= value_14 < 1024 else NUMBERS[value_14 | 0], SMALL[value_15] if 0 <= value_15 < 1024 else NUMBERS[value_15 | 0],))




def write_dead_letter_v2(prefix: bytes, record: tuple[Any, ...]) -> bytes:
    value_1: str
    value_2: int
    value_3: int
    value_4: int
    value_5: bytes
    value_6: bytes
    value_7: tuple[Any, ...]
    value_8: str
    value_9: str
    value_10: int
    value_11: int
    value_12: str
    value_13: int
    value_14: tuple[Any, ...]
    value_15: tuple[Any, ...]
    value_1, value_2, value_3, value_4, value_5, value_6, value_7, value_8, value_9, value_10, value_11, value_12, value_13, value_14, value_15, = record
    text_16 = value_1.encode()
    size_17 = len(text_16)
    if not -2147483648 <= value_2 <= 2147483647:
        raise ValueError(f'{value_2} is no 32-bit number')
    if not isinstance(value_5, bytes):
        raise TypeError('bytes are expected')
    size_18 = len(value_5)
    if not isinstance(value_6, bytes):
        raise TypeError('bytes are expected')
    size_19 = len(value_6)
    if not isinstance(value_7, tuple):
        raise TypeError('a tuple is expected')
    parts_21: list[bytes] = []
    if value_7:
        parts_21.append(number(len(value_7)))
        value_20: tuple[Any, ...]
        for value_20 in value_7:
            value_22: str
            value_23: bytes
            value_22, value_23, = value_20
            text_24 = value_22.encode()
            size_25 = len(text_24)
            if not isinstance(value_23, bytes):
                raise TypeError('bytes are expected')
            size_26 = len(value_23)
            parts_21 += (SMALL[size_25] if 0 <= size_25 < 1024 else NUMBERS[size_25 | 0], text_24, SMALL[size_26] if 0 <= size_26 < 1024 else NUMBERS[size_26 | 0], value_23,)
    parts_21.append(b'\0')
    text_27 = value_8.encode()
    size_28 = len(text_27)
    text_29 = value_9.encode()
    size_30 = len(text_29)
    if not -2147483648 <= value_10 <= 2147483647:
        raise ValueError(f'{value_10} is no 32-bit number')
    text_31 = value_12.encode()
    size_32 = len(text_31)
    if not isinstance(value_14, tuple):
        raise TypeError('a tuple is expected')
    parts_34: list[bytes] = []
    if value_14:
        parts_34.append(number(len(value_14)))
        value_33: str
        for value_33 in value_14:
            text_35 = value_33.encode()
            size_36 = len(text_35)
            parts_34 += (SMALL[size_36] if 0 <= size_36 < 1024 else NUMBERS[size_36 | 0], text_35,)
    parts_34.append(b'\0')
    if not isinstance(value_15, tuple):
        raise TypeError('a tuple is expected')
    parts_38: list[bytes] = []
    if value_15:
        parts_38.append(number(len(value_15)))
        value_37: int
        for value_37 in value_15:
            if not -2147483648 <= value_37 <= 2147483647:
                raise ValueError(f'{value_37} is no 32-bit number')
            parts_38 += (SMALL[value_37] if 0 <= value_37 < 1024 else NUMBERS[value_37 | 0],)
    parts_38.append(b'\0')
    return b''.join((prefix, SMALL[size_17] if 0 <= size_17 < 1024 else NUMBERS[size_17 | 0], text_16, SMALL[value_2] if 0 <= value_2 < 1024 else NUMBERS[value_2 | 0], SMALL[value_3] if 0 <= value_3 < 1024 else NUMBERS[value_3 | 0], SMALL[value_4] if 0 <= value_4 < 1024 else NUMBERS[value_4 | 0], SMALL[size_18] if 0 <= size_18 < 1024 else NUMBERS[size_18 | 0], value_5, SMALL[size_19] if 0 <= size_19 < 1024 else NUMBERS[size_19 | 0], value_6, *parts_21, SMALL[size_28] if 0 <= size_28 < 1024 else NUMBERS[size_28 | 0], text_27, SMALL[size_30] if 0 <= size_30 < 1024 else NUMBERS[size_30 | 0], text_29, SMALL[value_10] if 0 <= value_10 < 1024 else NUMBERS[value_10 | 0], SMALL[value_11] if 0 <= value_11 < 1024 else NUMBERS[value_11 | 0], SMALL[size_32] if 0 <= size_32 < 1024 else NUMBERS[size_32 | 0], text_31, SMALL[value_13] if 0 <= value_13 < 1024 else NUMBERS[value_13 | 0], *parts_34, *parts_38,))




def write_delivery_v1(prefix: bytes, record: tuple[Any, ...]) -> bytes:
    value_1: str
    value_2: str
    value_3: bytes
    value_4: str
    value_5: tuple[Any, ...]
    value_6: bytes
    value_7: str
    value_8: int
    value_9: int
    value_10: int
    value_1, value_2, value_3, value_4, value_5, value_6, value_7, value_8, value_9, value_10, = record
    text_11 = value_1.encode()
    size_12 = len(text_11)
    text_13 = value_2.encode()
    size_14 = len(text_13)
    if len(value_3) != 16:
        raise ValueError('16 bytes are expected')
    text_15 = value_4.encode()
    size_16 = len(text_15)
    if not isinstance(value_5, tuple):
        raise TypeError('a tuple is expected')
    parts_18: list[bytes] = []
    if value_5:
        parts_18.append(number(len(value_5)))
        value_17: str
        for value_17 in value_5:
            text_19 = value_17.encode()
            size_20 = len(text_19)
            parts_18 += (SMALL[size_20] if 0 <= size_20 < 1024 else NUMBERS[size_20 | 0], text_19,)
    parts_18.append(b'\0')
    if not isinstance(value_6, bytes):
        raise TypeError('bytes are expected')
    size_21 = len(value_6)
    text_22 = value_7.encode()
    size_23 = len(text_22)
    if not -2147483648 <= value_10 <= 2147483647:
        raise ValueError(f'{value_10} is no 32-bit number')
    return b''.join((prefix, SMALL[size_12] if 0 <= size_12 < 1024 else NUMBERS[size_12 | 0], text_11, SMALL[size_14] if 0 <= size_14 < 1024 else NUMBERS[size_14 | 0], text_13, value_3, SMALL[size_16] if 0 <= size_16 < 1024 else NUMBERS[size_16 | 0], text_15, *parts_18, SMALL[size_21] if 0 <= size_21 < 1024 else NUMBERS[size_21 | 0], value_6, SMALL[size_23] if 0 <= size_23 < 1024 else NUMBERS[size_23 | 0], text_22, SMALL[value_8] if 0 <= value_8 < 1024 else NUMBERS[value_8 | 0], SMALL[value_9] if 0 <= value_9 < 1024 else NUMBERS[value_9 | 0], SMALL[value_10] if 0 <= value_10 < 1024 else NUMBERS[value_10 | 0],))


_WRITE_EVENT_V2_14: Final = {'SEND': b'\x00', 'DELIVERED': b'\x02', 'READ': b'\x04', 'CANCEL': b'\x06', 'EXPIRE': b'\x08', 'BLOCK': b'\n', 'UNBLOCK': b'\x0c', 'HELLO': b'\x0e', 'PARK': b'\x10', 'RELEASE': b'\x12'}


def write_event_v2(prefix: bytes, record: tuple[Any, ...]) -> bytes:
    value_1: str
    value_2: bytes
    value_3: str
    value_4: bytes
    value_5: str
    value_6: bytes
    value_7: int
    value_8: tuple[Any, ...]
    value_9: bytes
    value_10: str
    value_11: int
    value_12: int
    value_13: str
    value_1, value_2, value_3, value_4, value_5, value_6, value_7, value_8, value_9, value_10, value_11, value_12, value_13, = record
    if len(value_2) != 16:
        raise ValueError('16 bytes are expected')
    text_15 = value_3.encode()
    size_16 = len(text_15)
    if len(value_4) != 16:
        raise ValueError('16 bytes are expected')
    text_17 = value_5.encode()
    size_18 = len(text_17)
    if len(value_6) != 16:
        raise ValueError('16 bytes are expected')
    if not isinstance(value_8, tuple):
        raise TypeError('a tuple is expected')
    parts_20: list[bytes] = []
    if value_8:
        parts_20.append(number(len(value_8)))
        value_19: str
        for value_19 in value_8:
            text_21 = value_19.encode()
            size_22 = len(text_21)
            parts_20 += (SMALL[size_22] if 0 <= size_22 < 1024 else NUMBERS[size_22 | 0], text_21,)
    parts_20.append(b'\0')
    if not isinstance(value_9, bytes):
        raise TypeError('bytes are expected')
    size_23 = len(value_9)
    text_24 = value_10.encode()
    size_25 = len(text_24)
    if not -2147483648 <= value_12 <= 2147483647:
        raise ValueError(f'{value_12} is no 32-bit number')
    text_26 = value_13.encode()
    size_27 = len(text_26)
    return b''.join((prefix, _WRITE_EVENT_V2_14[value_1], value_2, SMALL[size_16] if 0 <= size_16 < 1024 else NUMBERS[size_16 | 0], text_15, value_4, SMALL[size_18] if 0 <= size_18 < 1024 else NUMBERS[size_18 | 0], text_17, value_6, SMALL[value_7] if 0 <= value_7 < 1024 else NUMBERS[value_7 | 0], *parts_20, SMALL[size_23] if 0 <= size_23 < 1024 else NUMBERS[size_23 | 0], value_9, SMALL[size_25] if 0 <= size_25 < 1024 else NUMBERS[size_25 | 0], text_24, SMALL[value_11] if 0 <= value_11 < 1024 else NUMBERS[value_11 | 0], SMALL[value_12] if 0 <= value_12 < 1024 else NUMBERS[value_12 | 0], SMALL[size_27] if 0 <= size_27 < 1024 else NUMBERS[size_27 | 0], text_26,))


READERS: Final[Mapping[bytes, Any]] = {
    b'\x85\xb5\x8c\x8ex\x81\xea\xec': read_acknowledgement_v1,
    b'\x02\xef\x12\xcc$},)': read_dead_letter_v1,
    b'\x8e;8:\x1a0a\xb8': read_dead_letter_v2,
    b'\x1f\x1dU\xdbK$\xdc8': read_delivery_v1,
    b"\xd4%5\xab\xc6'\x04\x02": read_event_v1,
    b'{\xd8\r[hQ\xf6^': read_event_v2,
}


WRITERS: Final[Mapping[bytes, Any]] = {
    b'\x85\xb5\x8c\x8ex\x81\xea\xec': write_acknowledgement_v1,
    b'\x8e;8:\x1a0a\xb8': write_dead_letter_v2,
    b'\x1f\x1dU\xdbK$\xdc8': write_delivery_v1,
    b'{\xd8\r[hQ\xf6^': write_event_v2,
}
