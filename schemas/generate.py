"""Writes `schemas.generated`: the functions of all versions in the package, as a module."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from schemas.compiled import reader_source, writer_source
from schemas.versions import SchemaVersion, newest

FILE: Final = Path(__file__).with_name("generated.py")
_HEAD: Final = '''\
"""The functions that read and write records. Written by `make docs` from the schema files; change those instead."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.varints import NUMBERS, SMALL, count_at, int_at, number, number_at, size_at

make: Final = tuple.__new__
'''


def module(versions: Sequence[SchemaVersion]) -> str:
    """Return the module's text."""
    written = newest(versions).values()
    return "\n\n".join(
        [
            _HEAD,
            *(reader_source(_name("read", version), version.shape) for version in versions),
            *(writer_source(_name("write", version), version.shape) for version in written),
            _table("READERS", "read", versions),
            _table("WRITERS", "write", list(written)),
        ]
    )


def _name(verb: str, version: SchemaVersion) -> str:
    return f"{verb}_{version.name}_v{version.version}"


def _table(name: str, verb: str, versions: Sequence[SchemaVersion]) -> str:
    """Return a mapping from the schemas' fingerprints."""
    rows = [f"    {version.fingerprint!r}: {_name(verb, version)},\n" for version in versions]
    return f"{name}: Final[Mapping[bytes, Any]] = {{\n{''.join(rows)}}}\n"
