"""A Confluent Schema Registry's ids of our schemas, for records in its wire format.

Each version is looked up, and registered where it is missing, under the subject `<topic>-<record>` (the
TopicRecordNameStrategy). The registry is asked once, at the start, and only about versions that this package knows: an
id that is not one of theirs stays undecodable, whatever the registry says about it. Ids that were learned are kept in
a file, so that a registry that is away stops nobody who has asked it before.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final
from urllib.parse import urlsplit

from compose.errors import ComposeError, SettingsError, UnreachableError
from schemas.codec import VERSIONS, Codec
from schemas.topics import DEAD_LETTERS, EVENTS, INBOX
from schemas.versions import SchemaVersion, newest, registered_form

LOG = logging.getLogger(__name__)

TOPICS: Final = {"event": EVENTS, "acknowledgement": INBOX, "delivery": INBOX, "dead_letter": DEAD_LETTERS}
"""Which topic each schema's records are in."""

Ids = dict[SchemaVersion, int]

_BUSY: Final = frozenset({408, 425, 429})
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The Confluent Schema Registry (extra `registry`) whose wire format records are written in."""

    url: str = ""
    """Where it is (http or https), or several separated by commas; empty: none, records carry their schema's own
    fingerprint. Records in both framings are read, whichever is written."""
    username: str = ""
    """User name, where the registry asks for one."""
    password: str = field(default="", repr=False)
    """Password; better `password_file`, the file that holds it."""
    ca_file: Path | None = None
    """Certificates of who may vouch for the registry; unset: those that come with Python's `certifi`."""
    auto_register: bool = True
    """Whether schemas that the registry does not have are registered; otherwise they must be there."""
    timeout_s: float = 5.0
    """Longest wait for one answer."""

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises ValueError."""
        for url in self.url.split(",") if self.url else ():
            if urlsplit(url.strip()).scheme not in {"http", "https"} or not urlsplit(url.strip()).hostname:
                raise ValueError("url must be http://... or https://...")
            if urlsplit(url.strip()).username is not None:
                raise ValueError("url holds a user name; set username and password_file instead")
        if bool(self.username) != bool(self.password):
            raise ValueError("username and password go together")
        if not 0 < self.timeout_s <= 600:  # nan is neither
            raise ValueError("timeout_s must be above 0 and at most 600")


def subject_of(version: SchemaVersion) -> str:
    """Return the subject that a schema's versions stand under."""
    return f"{TOPICS[version.name]}-{registered_form(version)['namespace']}.{registered_form(version)['name']}"


def registry_codec(settings: RegistrySettings, memory: Path) -> Codec:
    """Return the codec of a deployment with a registry; `memory` is the folder where its ids are kept.

    Raises SettingsError without the extra, UnreachableError where neither the registry nor the memory has the ids,
    ComposeError where the registry refuses.
    """
    file = memory / f"{sha256(settings.url.encode()).hexdigest()[:16]}.json"
    try:
        ids = _ask(settings)
    except UnreachableError as error:
        remembered = _remembered(file)
        if remembered is None:
            raise
        LOG.warning("the schema registry is away; its ids are those of last time", extra={"error": error.message})
        return Codec(remembered)
    _remember(file, ids)
    return Codec(ids)


def remembered_codec(settings: RegistrySettings, memory: Path) -> Codec:
    """Return the codec for one who may not ask: with the ids of last time, or the framing that needs none."""
    remembered = _remembered(memory / f"{sha256(settings.url.encode()).hexdigest()[:16]}.json")
    return Codec(remembered)


def _ask(settings: RegistrySettings) -> Ids:
    try:
        library: Any = import_module("confluent_kafka.schema_registry")
        http: Any = import_module("confluent_kafka.schema_registry.common._httpx_compat").httpx
    except ImportError as error:
        raise SettingsError(
            f"registry.url is set, but what speaks to a registry is not installed ({error})",
            "Install it: pip install 'twotick[registry]'.",
        ) from None
    with _told(settings, library, http), library.SchemaRegistryClient(_configuration(settings)) as client:
        found = ((version, _id_of(version, client, library, settings)) for version in VERSIONS)
        return {version: number for version, number in found if number is not None}


def _configuration(settings: RegistrySettings) -> dict[str, object]:
    conf: dict[str, object] = {"url": settings.url, "timeout": settings.timeout_s, "max.retries": 1}
    if settings.username:
        conf["basic.auth.user.info"] = f"{settings.username}:{settings.password}"
    if settings.ca_file is not None:
        conf["ssl.ca.location"] = str(settings.ca_file)
    return conf


def _id_of(version: SchemaVersion, client: Any, library: Any, settings: RegistrySettings) -> int | None:  # noqa: ANN401
    """Return a version's id; None where it is an old one that nobody can have written with."""
    schema = library.Schema(json.dumps(registered_form(version)), "AVRO")
    subject = subject_of(version)
    try:
        return int(client.lookup_schema(subject, schema).schema_id)
    except library.SchemaRegistryError as error:
        if error.http_status_code != _NOT_FOUND:
            raise
    if settings.auto_register:
        return int(client.register_schema(subject, schema))
    if version is not newest(VERSIONS)[version.name]:
        return None
    raise ComposeError(
        f"the schema registry does not have {version} (subject {subject})",
        "Register schemas/avro's files, or set registry.auto_register=true.",
    )


@contextmanager
def _told(settings: RegistrySettings, library: Any, http: Any) -> Iterator[None]:  # noqa: ANN401 - libraries without types
    """Turn the library's errors into ours."""
    try:
        yield
    except library.SchemaRegistryError as error:
        if error.http_status_code >= 500 or error.http_status_code in _BUSY:
            raise _away(settings, str(error)) from None
        raise ComposeError(
            f"the schema registry {settings.url} refuses: {error}",
            "Check registry.username and registry.password_file, and the compatibility that its subjects ask for.",
        ) from None
    except (http.HTTPError, OSError) as error:
        raise _away(settings, str(error) or type(error).__name__) from None
    except (ValueError, TypeError, KeyError) as error:
        raise ComposeError(
            f"{settings.url} does not answer as a schema registry does: {error}", "Check registry.url."
        ) from None


def _away(settings: RegistrySettings, why: str) -> UnreachableError:
    return UnreachableError(
        f"the schema registry {settings.url} cannot be reached: {why}",
        "Check registry.url and that it runs.",
    )


def _remember(file: Path, ids: Mapping[SchemaVersion, int]) -> None:
    """Keep ids. A folder that cannot be written costs no more than this memory."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=file.parent, delete=False) as written:
            json.dump({version.fingerprint.hex(): number for version, number in ids.items()}, written)
        Path(written.name).replace(file)


def _remembered(file: Path) -> Ids | None:
    """Return the ids that were kept; None where there are none for what would be written now."""
    try:
        kept = json.loads(file.read_text())
        ids = {each: int(kept[each.fingerprint.hex()]) for each in VERSIONS if each.fingerprint.hex() in kept}
    except (OSError, ValueError, TypeError):
        return None
    return ids if all(each in ids for each in newest(VERSIONS).values()) else None
