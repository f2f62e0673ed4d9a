"""Records survive the wire, and whatever else arrives there is one typed error.

The judge of the bytes is fastavro: what is compiled here must write the same ones and read the same values.
"""

import contextlib
import io
import json
import tracemalloc
from collections import namedtuple

import pytest
from fastavro import parse_schema, writer
from fastavro.schema import fingerprint
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import generate
from schemas.codec import DATA_BYTES_MAX, PLAIN, RECORD_TYPES, VERSIONS, Codec, decode, decode_as, encode
from schemas.errors import ContractError, UndecodableError, UnencodableError
from schemas.generated import READERS
from schemas.lifecycle import ANSWERED_KINDS, Kind, Reason
from schemas.records import Acknowledgement, Event
from schemas.varints import number
from schemas.versions import check_sequence, newest, resolving_reader, schema_version
from tests.unit.schemas.avro_records import (
    PARSED,
    body_by_fastavro,
    from_fastavro,
    read_by_fastavro,
    records,
    source_of,
)
from tests.unit.schemas.make_golden import from_json, path_of

CURRENT = tuple(newest(VERSIONS).values())
REGISTERED = {version: 100_000 + index for index, version in enumerate(VERSIONS)}
WITH_REGISTRY = Codec(REGISTERED)
EVENT = Event("SEND", bytes(range(16)), "direct:alice+bob", bytes(16), "alice", bytes(16), 1, ("bob",), b"hi")
NAMES = [str(version) for version in CURRENT]
ANY_RECORD = st.one_of(*(records(version) for version in CURRENT))


def version_of(name):
    return next(version for version in CURRENT if version.name == name)


# What is written


@pytest.mark.parametrize("version", CURRENT, ids=NAMES)
@settings(max_examples=150)
@given(data=st.data())
def test_bytes_are_fastavros_and_come_back(version, data):
    record = data.draw(records(version))
    encoded = encode(record)
    assert encoded == b"\xc3\x01" + version.fingerprint + body_by_fastavro(version, record)
    decoded = decode(encoded)
    assert decoded == record
    assert type(decoded) is type(record)


@given(record=ANY_RECORD)
def test_both_framings_are_read_whichever_is_written(record):
    framed = WITH_REGISTRY.encode(record)
    assert framed[0] == 0
    assert WITH_REGISTRY.decode(framed) == record
    assert WITH_REGISTRY.decode(encode(record)) == record
    assert encode(record)[10:] == framed[5:]


def test_the_fingerprint_is_crc_64_avro_in_little_endian_order():
    assert fingerprint('"int"', "CRC-64-AVRO") == bytes.fromhex("7275d51a3f395c8f")[::-1].hex()  # the Java library's
    assert encode(EVENT)[2:10] == version_of("event").fingerprint


def test_names_of_the_life_cycle_are_written_as_their_texts():
    record = Event(Kind.READ, bytes(16), "c", bytes(16), "bob", bytes(16), subject=Reason.NONE)
    assert decode(encode(record)) == record
    assert type(decode_as(Event, encode(record)).kind) is str


def test_enums_on_the_wire_are_those_of_the_life_cycle():
    fields = {field.name: field.shape.symbols for field in version_of("acknowledgement").shape.fields}
    assert fields["kind"] == ANSWERED_KINDS
    assert version_of("event").shape.fields[0].shape.symbols == tuple(Kind)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seq": 2**63},
        {"seq": -(2**63) - 1},
        {"delivery_timeout_s": 2**40},
        {"delivery_timeout_s": -(2**31) - 1},
        {"seq": 1.5},
        {"seq": 5000.0},
        {"seq": "1"},
        {"expires_at": None},
        {"actor": "\ud800"},
        {"actor": b"alice"},
        {"actor": None},
        {"recipients": ("\udfff",)},
        {"recipients": "bob"},
        {"recipients": (b"bob",)},
        {"recipients": None},
        {"body": "text"},
        {"body": None},
        {"event_id": bytes(15)},
        {"event_id": "0123456789abcdef"},
        {"kind": "SEMD"},
        {"kind": None},
        {"kind": []},
    ],
    ids=repr,
)
def test_what_the_schema_cannot_carry_is_refused(wrong):  # cases A6, A8
    with pytest.raises(UnencodableError):
        encode(EVENT._replace(**wrong))


def test_a_typo_or_a_missing_field_is_an_error_at_once():  # case A6
    with pytest.raises(ValueError, match="recipient"):
        EVENT._replace(recipient=("bob",))
    with pytest.raises(TypeError):
        Event("SEND", bytes(16))
    with pytest.raises(UnencodableError):
        encode(tuple.__new__(Event, EVENT[:-1]))
    with pytest.raises(UnencodableError):
        encode(tuple(EVENT))


# What is read


def is_refused(data, codec=PLAIN):
    with pytest.raises(UndecodableError) as refused:
        codec.decode(data)
    assert refused.value.hint
    return refused.value.message


@pytest.mark.parametrize("version", CURRENT, ids=NAMES)
@settings(max_examples=20)
@given(data=st.data())
def test_a_body_cut_anywhere_or_followed_by_anything_is_refused(version, data):  # case A3
    encoded = encode(data.draw(records(version)))
    for end in range(len(encoded)):
        is_refused(encoded[:end])
    is_refused(encoded + b"\0")


@settings(max_examples=500)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_a_record_or_one_typed_error(data):  # case A3
    for codec in (PLAIN, WITH_REGISTRY):
        with contextlib.suppress(UndecodableError):
            codec.decode(data)


@settings(max_examples=500)
@given(version=st.sampled_from(CURRENT), body=st.binary(max_size=200))
def test_an_arbitrary_body_is_read_as_fastavro_reads_it_or_is_one_typed_error(version, body):  # case A3
    try:
        record = decode(b"\xc3\x01" + version.fingerprint + body)
    except UndecodableError:
        return
    assert record == from_fastavro(read_by_fastavro(body, PARSED[version], None), version.shape)


@settings(max_examples=500)
@given(record=ANY_RECORD, data=st.data())
def test_a_changed_byte_is_never_another_error(record, data):  # case A3
    encoded = bytearray(encode(record))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        again = decode(bytes(encoded))
    except UndecodableError:
        return
    assert type(again) in RECORD_TYPES.values()


HEAD = b"\xc3\x01" + version_of("event").fingerprint + b"\0" + bytes(16)
"""An event up to its conversation_id."""
ACTOR = HEAD + b"\x02c" + bytes(16) + b"\x02a" + bytes(16) + b"\x02"
"""An event up to its recipients."""
REST = b"\0\0\0\0\0"
"""An event after its recipients."""


def test_the_hand_made_event_is_a_good_one():
    assert decode(ACTOR + b"\2\2b\0" + REST) == Event("SEND", bytes(16), "c", bytes(16), "a", bytes(16), 1, ("b",))


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        HEAD + b"\x01",  # a length of -1
        HEAD + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # of -2**63
        HEAD + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"x" * 50,  # of 2**63 - 1
        HEAD + b"\x80" * 30,  # a number without an end
        HEAD + b"\xff" * 9 + b"\x7f",  # of more than 64 bits
        ACTOR + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\2b" * 9,  # 2**63 - 1 recipients
        ACTOR + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0",  # -2**63 recipients
        ACTOR + b"\x80\x80\x80\x80\x10" + b"\2b" * 40,
        ACTOR + b"\2\4\xc3\x28\0" + REST,  # not UTF-8
        ACTOR + b"\2\6\xed\xa0\x80\0" + REST,  # a surrogate
        ACTOR + b"\0\0\0\0" + b"\x80\x80\x80\x80\x80\x40" + b"\0",  # 2**40 in an int
        b"\xc3\x01" + version_of("event").fingerprint + b"\x14" + ACTOR[11:] + b"\0" + REST,  # kind 10 of 0 to 9
        b"\xc3\x01" + version_of("event").fingerprint + b"\x01" + ACTOR[11:] + b"\0" + REST,  # kind -1
        b"\xc3\x01" + bytes(8) + ACTOR[10:] + b"\0" + REST,  # an unknown schema
        b"\0\0\0\0\x07" + ACTOR[10:] + b"\0" + REST,  # an id of a registry that is not ours
        b"[1, 2]",
        b"\0" * (DATA_BYTES_MAX + 1),
    ],
    ids=lambda data: repr(data)[:60],
)
def test_impossible_bytes_are_refused_quickly_and_in_little_memory(data):  # cases A1, A3
    tracemalloc.start()
    try:
        is_refused(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_many_recipients_of_one_byte_each_stay_in_proportion_to_the_value():  # case A3
    count = 100_000
    data = ACTOR + number(count) + b"\0" * count + b"\0" + REST
    tracemalloc.start()
    try:
        assert len(decode_as(Event, data).recipients) == count
        assert tracemalloc.get_traced_memory()[1] < 40 * len(data)
    finally:
        tracemalloc.stop()


def test_array_blocks_with_their_size_are_read():
    """Some writers put an array's size in bytes before it, announced by a negative count."""
    assert decode_as(Event, ACTOR + b"\3\x0c\4bo\4al\0" + REST).recipients == ("bo", "al")
    assert decode_as(Event, ACTOR + b"\2\4bo\1\x06\4al\0" + REST).recipients == ("bo", "al")


@pytest.mark.parametrize("compression", ["null", "deflate"])
def test_a_container_file_is_refused_unopened(compression):  # case A2
    file = io.BytesIO()
    parsed = PARSED[version_of("event")]
    writer(file, parsed, [dict(zip(Event._fields, EVENT._replace(body=bytes(100_000)), strict=True))], compression)
    assert "container file" in is_refused(file.getvalue())


def test_a_record_of_another_type_is_refused_where_one_is_expected():
    assert decode_as(Event, encode(EVENT)) == EVENT
    with pytest.raises(UndecodableError, match="Event"):
        decode_as(Acknowledgement, encode(EVENT))


def test_the_error_names_what_is_not_known():
    assert "0102030405060708" in is_refused(b"\xc3\x01" + bytes(range(1, 9)) + b"\0")
    assert "number 7 " in is_refused(b"\0\0\0\0\x07rest")


def test_a_registry_without_one_of_our_schemas_is_told_at_the_start():
    with pytest.raises(ContractError, match="has no id for event"):
        Codec({version: 1 for version in VERSIONS if version.name != "event"})


# Versions


def test_the_module_of_all_versions_is_up_to_date():
    assert generate.FILE.read_text() == generate.module(VERSIONS), "run `make docs`"
    assert READERS.keys() == {version.fingerprint for version in VERSIONS}


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_golden_bytes_of_every_version_are_read(version):  # case A5
    """Where this fails for a new version: `python -m tests.unit.schemas.make_golden`, then check the file in."""
    entries = json.loads(path_of(version).read_text())
    assert len(entries) >= 2
    for entry in entries:
        decoded = decode(bytes.fromhex(entry["value"]))
        written = {name: from_json(value) for name, value in entry["fields"].items()}
        kept = {name: value for name, value in written.items() if name in decoded._fields}
        assert {name: getattr(decoded, name) for name in kept} == kept
        for field in newest(VERSIONS)[version.name].shape.fields:
            if field.name not in written:
                assert getattr(decoded, field.name) == field.default[0]
        if version in CURRENT:
            assert encode(decoded).hex() == entry["value"]


def next_version(version, *added, without=()):
    """Return a synthetic successor of a version, and its parsed schema."""
    source = source_of(version)
    source["fields"] = [field for field in source["fields"] if field["name"] not in without] + list(added)
    return schema_version(version.name, version.version + 1, json.dumps(source)), parse_schema(source)


ADDED = (
    {"name": "added_text", "type": "string", "default": "nothing"},
    {"name": "added_number", "type": "long", "default": 7},
    {"name": "added_bytes", "type": "bytes", "default": "\u00ff"},
    {"name": "added_list", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "added_enum", "type": {"type": "enum", "name": "Added", "symbols": ["A", "B"]}, "default": "B"},
)
ADDED_DEFAULTS = ("nothing", 7, b"\xff", (), "B")


@pytest.mark.parametrize("version", CURRENT, ids=NAMES)
@settings(max_examples=25)
@given(data=st.data())
def test_every_writer_is_read_by_every_reader_as_fastavro_resolves_it(version, data):  # case A5
    dropped = next(field.name for field in version.shape.fields if field.default)
    successor, parsed_successor = next_version(version, *ADDED)
    shrunk, parsed_shrunk = next_version(version, ADDED[0], without=[dropped])
    parsed = {version: PARSED[version], successor: parsed_successor, shrunk: parsed_shrunk}
    old = data.draw(records(version))
    kept = tuple(part for name, part in zip(old._fields, old, strict=True) if name != dropped)
    written = {version: tuple(old), successor: (*old, "x", 1, b"y", ("z",), "A"), shrunk: (*kept, "x")}
    for writer_version, values in written.items():
        body = body_by_fastavro(writer_version, values, parsed[writer_version])
        for reader_version in written:
            expected = read_by_fastavro(body, parsed[writer_version], parsed[reader_version])
            got = resolving_reader(writer_version, reader_version)(body, 0, tuple)
            assert got == from_fastavro(expected, reader_version.shape)


def test_a_codec_reads_old_values_with_defaults_and_writes_new_ones(monkeypatch):  # case A5
    old = version_of("event")
    new, _ = next_version(old, *ADDED)
    names = [*Event._fields, *(field["name"] for field in ADDED)]
    new_event = namedtuple("Event", names)  # noqa: PYI024 - its fields are made up here
    monkeypatch.setitem(RECORD_TYPES, "event", new_event)
    codec = Codec(versions=[*VERSIONS, new])
    assert codec.decode(encode(EVENT)) == (*EVENT, *ADDED_DEFAULTS)
    newest_event = new_event(*EVENT, *ADDED_DEFAULTS)
    assert codec.encode(newest_event)[2:10] == new.fingerprint
    assert codec.decode(codec.encode(newest_event)) == newest_event
    is_refused(codec.encode(newest_event))  # an old reader does not guess


@pytest.mark.parametrize(
    ("added", "why"),
    [
        ({"name": "added", "type": "string"}, "field added"),
        ({"name": "seq", "type": "string", "default": ""}, "field seq"),
        ({"name": "seq", "type": "int", "default": 0}, "field seq"),
    ],
)
def test_a_version_that_cannot_read_its_predecessor_is_refused_when_loaded(added, why):
    old = version_of("event")
    new, _ = next_version(old, added, without=[added["name"]])
    with pytest.raises(ContractError, match=why):
        Codec(versions=[*VERSIONS, new])


def test_a_schema_file_that_other_records_do_not_match_is_refused_when_loaded():
    new, _ = next_version(version_of("event"), ADDED[0])
    with pytest.raises(ContractError, match="has the fields"):
        Codec(versions=[*VERSIONS, new])


def test_a_gap_or_a_twin_among_versions_is_refused():
    old = version_of("event")
    same = schema_version("event", old.version + 1, json.dumps({**source_of(old), "doc": "other words"}))
    with pytest.raises(ContractError, match="the same as event"):
        check_sequence([*VERSIONS, same])
    far, _ = next_version(old, ADDED[0])
    with pytest.raises(ContractError, match="does not follow"):
        check_sequence([version for version in [*VERSIONS, far] if version != old])


@pytest.mark.parametrize(
    "of_type",
    [
        ["null", "string"],
        {"type": "map", "values": "string"},
        {"type": "long", "logicalType": "timestamp-millis"},
        "double",
        "Event",
    ],
    ids=str,
)
def test_schemas_outside_our_part_of_avro_are_refused(of_type):  # cases A1, A4
    source = source_of(version_of("event"))
    source["fields"].append({"name": "added", "type": of_type})
    with pytest.raises(ValueError, match="not in the part of Avro"):
        schema_version("event", 2, json.dumps(source))
