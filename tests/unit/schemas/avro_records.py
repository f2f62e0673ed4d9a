"""Arbitrary records of every schema version for hypothesis, and fastavro as the independent judge of their bytes."""

import io
import json
from importlib.resources import files

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import strategies as st

from schemas.codec import RECORD_TYPES, VERSIONS
from schemas.shapes import Shape

TEXTS = st.text(max_size=90)
"""Hypothesis makes no lone surrogates here only because st.text() leaves them out by default."""


def source_of(version):
    """Return a version's schema as JSON."""
    return json.loads(files("schemas").joinpath(f"avro/{version.name}.v{version.version}.avsc").read_text("utf-8"))


PARSED = {version: parse_schema(source_of(version)) for version in VERSIONS}


def values(shape: Shape):  # noqa: PLR0911 - one for each kind
    """Return a strategy for one value of a shape, edges included."""
    match shape.kind:
        case "string":
            return TEXTS
        case "bytes":
            return st.binary(max_size=200)
        case "int":
            return st.integers(-(2**31), 2**31 - 1)
        case "long":
            return st.integers(-(2**63), 2**63 - 1) | st.integers(1_600_000_000_000, 2_000_000_000_000)
        case "fixed":
            return st.binary(min_size=shape.size, max_size=shape.size)
        case "enum":
            return st.sampled_from(shape.symbols)
        case "array":
            item = values(shape.items[0])
            return st.lists(item, max_size=5).map(tuple) | item.map(lambda value: (value,) * 70)
        case _:
            return st.tuples(*(values(field.shape) for field in shape.fields))


def records(version):
    """Return a strategy for whole records of one version."""
    fields = st.tuples(*(values(field.shape) for field in version.shape.fields))
    return fields.map(RECORD_TYPES[version.name]._make)


def as_fastavro(value, shape):
    """Return a value as fastavro takes it: records are dictionaries there."""
    if shape.kind == "record":
        return {field.name: as_fastavro(part, field.shape) for field, part in zip(shape.fields, value, strict=True)}
    if shape.kind == "array":
        return [as_fastavro(part, shape.items[0]) for part in value]
    return value


def from_fastavro(value, shape):
    """Return what fastavro read as this project's values."""
    if shape.kind == "record":
        return tuple(from_fastavro(value[field.name], field.shape) for field in shape.fields)
    if shape.kind == "array":
        return tuple(from_fastavro(part, shape.items[0]) for part in value)
    if shape.kind == "bytes" and isinstance(value, str):
        return value.encode("latin-1")  # fastavro 1.13 leaves a default of bytes as the text that JSON has for it
    return value


def body_by_fastavro(version, record, parsed=None):
    """Return the body that fastavro writes for a record."""
    target = io.BytesIO()
    schemaless_writer(target, parsed or PARSED[version], as_fastavro(record, version.shape))
    return target.getvalue()


def read_by_fastavro(body, writer, reader):
    """Return what fastavro reads from a body, written under one parsed schema, under another; raises as it does."""
    return schemaless_reader(io.BytesIO(body), writer, reader)
