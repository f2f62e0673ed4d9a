"""All settings: which there are, and what they are after defaults, stack, file, environment and flags have spoken.

Each section is a frozen dataclass of the room that uses it; a field's default is the setting's default and the text
below the field is its documentation. The one exception is `[kafka]`, whose names and values are librdkafka's own.
"""

import dataclasses
import difflib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import platformdirs
from pydantic import TypeAdapter, ValidationError

from compose import layers
from compose.errors import SettingsError
from compose.layers import Given

FILE_NAME: Final = "twotick.toml"
KAFKA: Final = "kafka"
SECTIONS: Final[Mapping[str, str]] = {
    "store": "compose.sections:StoreSettings",
    "user": "compose.sections:UserSettings",
    "client": "producers.settings:ClientSettings",
    "worker": "consumers.settings:WorkerSettings",
    "webhook": "consumers.claims.settings:WebhookSettings",
    "registry": "compose.registry:RegistrySettings",
    "migrate": "consumers.migrate_settings:MigrationSettings",
    "stack": "compose.sections:StackSettings",
}
"""Section to its dataclass, as `module:name` so that reading one section loads no other."""
KAFKA_DEFAULTS: Final[Mapping[str, str]] = {"bootstrap.servers": "127.0.0.1:9092"}


_Section = TypeVar("_Section")


class Effective(NamedTuple):
    """A setting as it counts."""

    key: str
    value: object
    source: str
    """`default`, or what set it."""


class Known(NamedTuple):
    """A setting that exists."""

    key: str
    type: Any
    field: "dataclasses.Field[Any]"

    @property
    def default(self) -> object:
        """The default as it is now: some lie in the user's folders, which the environment names."""
        if self.field.default_factory is not dataclasses.MISSING:
            return self.field.default_factory()
        return None if self.field.default is dataclasses.MISSING else self.field.default


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What was given, checked against what exists; each section is built when it is asked for."""

    given: Mapping[str, Given]

    def section(self, name: str, section_type: type[_Section]) -> _Section:
        """Return a section with its values. Raises SettingsError where a value is none that it can have."""
        built: _Section = _build(section_type, name, self.given)
        return built

    def kafka(self) -> dict[str, str | int | float | bool]:
        """Return what `[kafka]` passes through to every client, by librdkafka's names."""
        values: dict[str, str | int | float | bool] = dict(KAFKA_DEFAULTS)
        for given in self.given.values():
            section, _, name = given.key.partition(".")
            if section == KAFKA:
                values[name] = ",".join(given.value) if isinstance(given.value, list) else given.value
        return values

    def kafka_sources(self) -> dict[str, str]:
        """Return what set each of librdkafka's names that somebody set."""
        return {
            key.removeprefix(f"{KAFKA}."): given.source
            for key, given in self.given.items()
            if key.startswith(f"{KAFKA}.")
        }

    def value(self, key: str, value_type: type[_Section]) -> _Section:
        """Return one value. Raises SettingsError where what was given is none that it can have."""
        section, _, name = key.partition(".")
        found = _attribute(self.section(section, section_type(section)), name)
        if not isinstance(found, value_type):
            raise TypeError(f"{key} is a {type(found).__name__}, not a {value_type.__name__}")
        return found

    def is_set(self, key: str) -> bool:
        """Say whether somebody set a key."""
        return key in self.given

    def effective(self) -> Iterator[Effective]:
        """Yield every setting as it counts, with its source; secrets are masked."""
        for name, passed in sorted(self.kafka().items()):
            key = f"{KAFKA}.{name}"
            yield Effective(key, _masked(key, passed), self._source(key))
        for section in SECTIONS:
            built = self.section(section, section_type(section))
            for known in known_settings(section):
                value = _attribute(built, known.key.removeprefix(f"{section}."))
                yield Effective(known.key, _masked(known.key, value), self._source(known.key))

    def _source(self, key: str) -> str:
        return self.given[key].source if key in self.given else "default"


def load(
    *,
    flags: Iterable[str] = (),
    environ: Mapping[str, str],
    config: Path | None,
    stack: Sequence[Given] = (),
) -> Settings:
    """Read all layers. `config` is a file that must be there; None looks in the usual places.

    `stack` holds the addresses of a stack on this machine: they count for less than all else but defaults.
    Raises SettingsError for anything that is not a setting, with a guess at what was meant.
    """
    path = config or find_file(environ)
    given = [*stack, *_file(path), *layers.from_environment(environ), *layers.from_flags(flags)]
    for one in given:
        _check_exists(one)
    return Settings(layers.last_of_each(layers.with_secrets(given)))


def find_file(environ: Mapping[str, str]) -> Path | None:
    """Return the configuration file: TWOTICK_CONFIG, ./twotick.toml, or the one in the user's configuration folder."""
    if named := environ.get("TWOTICK_CONFIG"):
        return Path(named)
    usual = (Path(FILE_NAME), Path(platformdirs.user_config_dir("twotick")) / FILE_NAME)
    return next((path for path in usual if path.is_file()), None)


def _file(path: Path | None) -> list[Given]:
    if path is None:
        return []
    try:
        return layers.from_toml(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"the configuration file {path} cannot be read: {error}", "Name one that is there with --config."
        ) from None


def section_type(section: str) -> type[Any]:
    """Return a section's dataclass."""
    module, _, name = SECTIONS[section].partition(":")
    found: type[Any] = getattr(import_module(module), name)
    return found


@cache
def known_settings(section: str) -> tuple[Known, ...]:
    """Return a section's settings in the order of their fields."""
    return tuple(_known(section_type(section), section))


def _known(owner: type[Any], prefix: str) -> Iterator[Known]:
    hints = get_type_hints(owner)
    for field in dataclasses.fields(owner):
        key = f"{prefix}.{field.name}"
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _known(hints[field.name], key)
        else:
            yield Known(key, hints[field.name], field)


def _check_exists(given: Given) -> None:
    section, _, name = given.key.partition(".")
    if section in (*SECTIONS, KAFKA) and not name:
        raise SettingsError(
            f"{given.source}: {section} is a section, not a setting",
            f"Set one in it, by {layers.variable_of(f'{section}.name')}.",
        )
    if section == KAFKA:
        return
    if section not in SECTIONS:
        raise _unknown(given, [*SECTIONS, KAFKA], section, "section")
    keys = [known.key for known in known_settings(section)]
    if given.key in keys or layers.secret_of(given.key) in keys:
        return
    raise _unknown(given, keys, given.key, "setting")


def _unknown(given: Given, exist: Sequence[str], wrong: str, what: str) -> SettingsError:
    everywhere = [known.key for section in SECTIONS for known in known_settings(section)]
    name = given.key.rpartition(".")[2]
    elsewhere = [key for key in everywhere if key.rpartition(".")[2] == name]
    guesses = (
        elsewhere
        or difflib.get_close_matches(wrong, exist, n=1)
        or difflib.get_close_matches(given.key, everywhere, n=1)
    )
    hint = f"Did you mean {guesses[0]}?" if guesses else "`twotick config show` lists all settings."
    return SettingsError(f"{given.source}: there is no {what} {wrong}", hint)


def _build(owner: type[Any], prefix: str, given: Mapping[str, Given]) -> Any:  # noqa: ANN401 - any dataclass
    hints = get_type_hints(owner)
    values: dict[str, object] = {}
    for field in dataclasses.fields(owner):
        key = f"{prefix}.{field.name}"
        if dataclasses.is_dataclass(hints[field.name]):
            values[field.name] = _build(hints[field.name], key, given)
        elif key in given:
            values[field.name] = _converted(given[key], hints[field.name])
    try:
        return owner(**values)
    except ValueError as error:
        sources = ", ".join(sorted({one.source for key, one in given.items() if key.startswith(f"{prefix}.")}))
        raise SettingsError(f"[{prefix}] ({sources}): {error}", "Change the value that it names.") from None


def _converted(given: Given, wanted: Any) -> object:  # noqa: ANN401 - a type form
    value: object = _split(given.value) if _is_list(wanted) and isinstance(given.value, str) else given.value
    try:
        converted: object = TypeAdapter(wanted).validate_python(value)
    except ValidationError as error:
        why = error.errors()[0]["msg"]
        shown = "" if layers.is_secret(given.key) else f" = {given.value!r}"
        raise SettingsError(
            f"{given.source}: {given.key}{shown}: {why}", "Change it; docs/settings.md names what it takes."
        ) from None
    if not isinstance(converted, Path):
        return converted
    if not given.value:
        raise SettingsError(f"{given.source}: {given.key} is empty", "Name a path, or leave the setting out.")
    return converted.expanduser()


def _is_list(wanted: Any) -> bool:  # noqa: ANN401 - a type form
    if get_origin(wanted) in (Union, types.UnionType):
        return any(_is_list(part) for part in get_args(wanted))
    return get_origin(wanted) in (tuple, list)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _attribute(built: object, dotted: str) -> object:
    for name in dotted.split("."):
        built = getattr(built, name)
    return built


def _masked(key: str, value: object) -> object:
    return "********" if layers.is_secret(key) and value else value
