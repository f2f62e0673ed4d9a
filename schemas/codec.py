"""Records to bytes and back, in the two framings of the contract.

- Avro single-object encoding, where no registry is configured: `C3 01`, the writer schema's CRC-64-AVRO, the body.
- Confluent's wire format, where one is: `00`, the registry's 4-byte id, the body. The ids are given as a mapping to
  our own versions, so the writer's schema never comes from a message or from a server: only what this package knows
  is read.

Readers accept both. Whatever is wrong with bytes is one UndecodableError, and no declared size allocates anything.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from schemas.errors import ContractError, UndecodableError, UnencodableError
from schemas.records import Acknowledgement, DeadLetter, Delivery, Event, Record
from schemas.versions import SchemaVersion, load, newest, resolving_reader, writer_of

if TYPE_CHECKING:
    from schemas.compiled import Reader, Writer

MAGIC: Final = b"\xc3\x01"
CONFLUENT_MAGIC: Final = b"\0"
DATA_BYTES_MAX: Final = 2 * 1024 * 1024
"""More than any topic of the contract takes; a worker's own limit on an event is below it."""

_FINGERPRINT_END: Final = 10
_ID_END: Final = 5
_CONTAINER_MAGIC: Final = b"Obj\x01"
_HINT: Final = "Look at the dead letter's original bytes: another program may write to this topic."
_UPGRADE_HINT: Final = "If a newer version wrote it, upgrade the readers before the writers."

RECORD_TYPES: Final[Mapping[str, type[Record]]] = {
    "event": Event,
    "acknowledgement": Acknowledgement,
    "delivery": Delivery,
    "dead_letter": DeadLetter,
}
"""By the name of their schema's files."""

VERSIONS: Final = load()
"""Every version that this package knows."""

R = TypeVar("R", Event, Acknowledgement, Delivery, DeadLetter)


class Codec:
    """Encodes with the newest version of each schema, decodes every known one; immutable, safe in many threads."""

    def __init__(
        self, registry_ids: Mapping[SchemaVersion, int] | None = None, versions: Sequence[SchemaVersion] = VERSIONS
    ) -> None:
        """Take a registry's ids of our versions (None: no registry) and, for tests, other versions.

        Raises ContractError where the newest version of a schema has no id, has other fields than its record type,
        or cannot read an older version.
        """
        self._readers: dict[bytes, tuple[Reader, type[Record]]] = {}
        self._writers: dict[type, tuple[Writer, bytes]] = {}
        current = newest(versions)
        for version in versions:
            reader = resolving_reader(version, current[version.name]), RECORD_TYPES[version.name]
            self._readers[MAGIC + version.fingerprint] = reader
            if registry_ids is not None and version in registry_ids:
                self._readers[_confluent_prefix(registry_ids[version])] = reader
        for name, version in current.items():
            _check_fields(version, RECORD_TYPES[name])
            self._writers[RECORD_TYPES[name]] = writer_of(version), _prefix(version, registry_ids)

    def encode(self, record: Record) -> bytes:
        """Return a record's value; raise UnencodableError where its schema cannot carry it."""
        try:
            write, prefix = self._writers[type(record)]
            return write(prefix, record)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise _unencodable(record, error) from None

    def decode(self, data: bytes | None) -> Record:
        """Return the record in a value; raise UndecodableError where there is none."""
        if not data or len(data) > DATA_BYTES_MAX:
            raise _unframed(data)
        at = _FINGERPRINT_END
        found = self._readers.get(data[:at])
        if found is None:
            at = _ID_END
            found = self._readers.get(data[:at])
            if found is None:
                raise _unframed(data)
        read, record = found
        try:
            return cast("Record", read(data, at, record))
        except (ValueError, IndexError, KeyError) as error:
            raise _undecodable(error) from None

    def decode_as(self, record_type: type[R], data: bytes | None) -> R:
        """Return the record of one type in a value; raise UndecodableError where there is none, or another."""
        record = self.decode(data)
        if type(record) is not record_type:
            raise UndecodableError(f"it is a {type(record).__name__}, no {record_type.__name__}", _HINT)
        return record


def _prefix(version: SchemaVersion, registry_ids: Mapping[SchemaVersion, int] | None) -> bytes:
    if registry_ids is None:
        return MAGIC + version.fingerprint
    if version not in registry_ids:
        raise ContractError(f"the registry has no id for {version}", "Register the schema, then start again.")
    return _confluent_prefix(registry_ids[version])


def _confluent_prefix(registry_id: int) -> bytes:
    return CONFLUENT_MAGIC + registry_id.to_bytes(4, "big")


def _check_fields(version: SchemaVersion, record_type: type[Any]) -> None:
    fields = tuple(field.name for field in version.shape.fields)
    if fields != record_type._fields:
        raise ContractError(
            f"{version} has the fields {fields}, {record_type.__name__} has {record_type._fields}",
            "Change schemas/records.py together with the newest schema file.",
        )


def _unencodable(record: object, error: Exception) -> UnencodableError:
    name = type(record).__name__
    if isinstance(error, UnicodeEncodeError):
        return UnencodableError(f"{name}: a text holds a lone surrogate, which UTF-8 cannot carry")
    if isinstance(error, KeyError):
        return UnencodableError(f"{name}: {error} is no record type or enum symbol of the contract")
    return UnencodableError(f"{name}: {error}")


def _undecodable(error: Exception) -> UndecodableError:
    if isinstance(error, UnicodeDecodeError):
        return UndecodableError("a text is not UTF-8", _HINT)
    if isinstance(error, IndexError):
        return UndecodableError("it is cut off", _HINT)
    if isinstance(error, KeyError):
        return UndecodableError("an enum has no symbol of that index", _HINT)
    return UndecodableError(str(error), _HINT)


def _unframed(data: bytes | None) -> UndecodableError:
    """Say why data has no framing that is known here."""
    if not data:
        return UndecodableError("it has no value", _HINT)
    if len(data) > DATA_BYTES_MAX:
        return UndecodableError(f"it has {len(data)} bytes, {DATA_BYTES_MAX} are allowed", _HINT)
    if data.startswith(_CONTAINER_MAGIC):
        return UndecodableError("it is an Avro container file, not a record", _HINT)
    if data.startswith(MAGIC) and len(data) >= _FINGERPRINT_END:
        return UndecodableError(f"its schema {data[2:_FINGERPRINT_END].hex()} is not known here", _UPGRADE_HINT)
    if data.startswith(CONFLUENT_MAGIC) and len(data) >= _ID_END:
        number = int.from_bytes(data[1:_ID_END], "big")
        return UndecodableError(f"its schema, number {number} of the registry, is not known here", _UPGRADE_HINT)
    return UndecodableError(f"it begins with {data[:_ID_END].hex(' ')}, which no record of ours does", _HINT)


PLAIN: Final = Codec()
"""The codec of a deployment without a registry."""

encode: Final = PLAIN.encode
decode: Final = PLAIN.decode
decode_as: Final = PLAIN.decode_as
