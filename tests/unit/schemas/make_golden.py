"""Writes the golden bytes of schema versions that have none yet: `python -m tests.unit.schemas.make_golden`.

Golden files are made once, by fastavro, and never again: they show that what was written by an old release is read.
"""

import json
from pathlib import Path

from schemas.codec import RECORD_TYPES, VERSIONS
from tests.unit.schemas.avro_records import body_by_fastavro

FOLDER = Path(__file__).parent / "golden"


def smallest(shape):  # noqa: PLR0911 - one for each kind
    match shape.kind:
        case "string":
            return ""
        case "bytes":
            return b""
        case "int" | "long":
            return 0
        case "fixed":
            return bytes(shape.size)
        case "enum":
            return shape.symbols[0]
        case "array":
            return ()
        case _:
            return tuple(smallest(field.shape) for field in shape.fields)


def largest(shape):  # noqa: PLR0911 - one for each kind
    match shape.kind:
        case "string":
            return "Grüße, 世界 \N{THUMBS UP SIGN}" * 5
        case "bytes":
            return bytes(range(256))
        case "int":
            return 2**31 - 1
        case "long":
            return -(2**63)
        case "fixed":
            return bytes(range(shape.size))
        case "enum":
            return shape.symbols[-1]
        case "array":
            return (largest(shape.items[0]), smallest(shape.items[0])) * 2
        case _:
            return tuple(largest(field.shape) for field in shape.fields)


def to_json(value):
    """Return a value as JSON can keep it: bytes become a dictionary of their hexadecimal text."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return [to_json(part) for part in value] if isinstance(value, tuple) else value


def from_json(value):
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return tuple(from_json(part) for part in value) if isinstance(value, list) else value


def path_of(version):
    return FOLDER / f"{version.name}.v{version.version}.json"


def make(version):
    values = [tuple(of(field.shape) for field in version.shape.fields) for of in (smallest, largest)]
    return [
        {
            "fields": {field.name: to_json(part) for field, part in zip(version.shape.fields, value, strict=True)},
            "value": (b"\xc3\x01" + version.fingerprint + body_by_fastavro(version, value)).hex(),
        }
        for value in values
    ]


def main():
    for version in VERSIONS:
        if not path_of(version).exists():
            path_of(version).write_text(json.dumps(make(version), indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    assert set(RECORD_TYPES) == {version.name for version in VERSIONS}
    main()
