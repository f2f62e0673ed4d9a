"""All versions of all record schemas, found in the package's own files `avro/<name>.v<version>.avsc`.

A new version is a new file: nothing else has to change. Records are written with the newest version of their schema
and read with whichever known version wrote them, resolved to the newest: fields that the writer did not have take
their defaults, fields that are gone are dropped. A version that cannot be resolved so is refused when it is loaded.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from fastavro import parse_schema
from fastavro.schema import fingerprint, to_parsing_canonical_form

from schemas.compiled import Reader, Values, Writer, compile_reader, compile_writer
from schemas.errors import ContractError
from schemas.generated import READERS, WRITERS
from schemas.shapes import Shape, shape_of

_FILE_NAME: Final = re.compile(r"(?P<name>[a-z_]+)\.v(?P<version>[1-9][0-9]*)\.avsc")


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of one schema."""

    name: str
    """As in its file's name: `event`."""
    version: int
    fingerprint: bytes
    """CRC-64-AVRO of the parsing canonical form, 8 bytes, little-endian (Avro 1.12, "Single-object encoding")."""
    shape: Shape

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


def schema_version(name: str, version: int, source: str) -> SchemaVersion:
    """Return a version from the JSON text of its schema."""
    parsed = parse_schema(json.loads(source))
    checksum = bytes.fromhex(fingerprint(to_parsing_canonical_form(parsed), "CRC-64-AVRO"))
    return SchemaVersion(name, version, checksum, shape_of(parsed))


def load() -> Sequence[SchemaVersion]:
    """Return the package's versions, ascending by name and version; raise ContractError where they do not fit."""
    versions: list[SchemaVersion] = []
    for entry in files("schemas").joinpath("avro").iterdir():
        if found := _FILE_NAME.fullmatch(entry.name):
            versions.append(schema_version(found["name"], int(found["version"]), entry.read_text("utf-8")))
        elif entry.name.endswith(".avsc"):
            raise ContractError(f"{entry.name} is no name of a schema file", "Call it <name>.v<version>.avsc.")
    return check_sequence(versions)


def registered_form(version: SchemaVersion) -> dict[str, Any]:
    """Return a version's schema as registries get it: without texts, so that wording never makes another schema."""
    file = files("schemas").joinpath("avro", f"{version.name}.v{version.version}.avsc")
    form: dict[str, Any] = _without_docs(json.loads(file.read_text("utf-8")))
    return form


def _without_docs(part: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(part, list):
        return [_without_docs(each) for each in part]
    if isinstance(part, dict):
        return {key: _without_docs(value) for key, value in part.items() if key != "doc"}
    return part


def check_sequence(versions: Iterable[SchemaVersion]) -> Sequence[SchemaVersion]:
    """Return versions in order; raise ContractError where one is missing or two cannot be told apart on the wire."""
    ordered = sorted(versions, key=lambda each: (each.name, each.version))
    seen: dict[bytes, SchemaVersion] = {}
    last: dict[str, int] = {}
    for each in ordered:
        if each.version != last.get(each.name, 0) + 1:
            raise ContractError(f"{each} does not follow v{last.get(each.name, 0)}", "Number versions from 1, no gaps.")
        if twin := seen.get(each.fingerprint):
            raise ContractError(f"{each} is on the wire the same as {twin}", "Change the older file's doc instead.")
        seen[each.fingerprint] = each
        last[each.name] = each.version
    return ordered


def newest(versions: Iterable[SchemaVersion]) -> Mapping[str, SchemaVersion]:
    """Return the newest version of each schema by name."""
    return {each.name: each for each in sorted(versions, key=lambda each: each.version)}


def writer_of(version: SchemaVersion) -> Writer:
    """Return the writer of a version's records."""
    return WRITERS.get(version.fingerprint) or compile_writer(version.shape)


def resolving_reader(writer: SchemaVersion, reader: SchemaVersion) -> Reader:
    """Return a reader of what `writer` wrote that makes records with `reader`'s fields.

    Raises ContractError where a field changed its type, or is new and has no default.
    """
    read = READERS.get(writer.fingerprint) or compile_reader(writer.shape)
    if writer is reader:
        return read
    written = {field.name: index for index, field in enumerate(writer.shape.fields)}
    defaults: list[Any] = []
    sources: list[int] = []
    for field in reader.shape.fields:
        index = written.get(field.name, -1)
        if not (field.shape.reads(writer.shape.fields[index].shape) if index >= 0 else field.default):
            raise ContractError(
                f"{reader} cannot read {writer}: field {field.name}",
                "Give a new field a default, and never change a type: add another field.",
            )
        sources.append(index if index >= 0 else len(written) + len(defaults))
        if index < 0:
            defaults.extend(field.default)

    def resolve(data: bytes, at: int, record: type[Values]) -> Values:
        values = (*read(data, at, tuple), *defaults)
        return tuple.__new__(record, [values[index] for index in sources])

    return resolve
