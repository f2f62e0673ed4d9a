"""Where settings come from: files, the environment and flags, read into one flat list with the source of each value.

Pure but for reading secrets: texts and mappings come in as arguments. A key is `section.name`; in the section
`kafka` the name is librdkafka's own dotted one. What a key means, and whether it exists, is for `compose.settings`.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeGuard

from compose.errors import SettingsError
from consumers.life_line import LIFE_LINE

PREFIX: Final = "TWOTICK_"
NESTING: Final = "__"
NOT_SETTINGS: Final = frozenset({"TWOTICK_CONFIG", "TWOTICK_DEBUG", LIFE_LINE})
"""Variables that look like settings: the configuration file, `--debug`, what a supervisor tells its workers."""
OF_TESTS: Final = "TWOTICK_TEST_"
"""How variables begin that tell the tests something."""
FILE_SUFFIX: Final = "_file"
"""`password_file = "/run/secrets/x"` says: the password stands in that file."""
_SECRET_ENDINGS: Final = (
    *("password", "passphrase", "secret", "pem", "token", "authorization", "sasl.oauthbearer.config"),
    *("webhook", "webhook.url"),
)
"""A webhook's address is its key: whoever has it may post there."""

Value = str | int | float | bool | list[str]


class Given(NamedTuple):
    """One value that somebody set."""

    key: str
    value: Value
    source: str
    """For people: a file, a variable, a flag."""


def is_secret(key: str) -> bool:
    """Say whether a key's value must not be shown."""
    return key.endswith(_SECRET_ENDINGS)


def from_toml(text: str, source: str) -> list[Given]:
    """Return the values of a configuration file. Raises SettingsError where it is no TOML or has no sections."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{source} is not valid TOML: {error}", "Mend the line that it names.") from None
    given: list[Given] = []
    for section, content in document.items():
        if not isinstance(content, dict):
            raise SettingsError(
                f"{source}: {section} stands outside of any section",
                "Put it below a line such as [store]; `twotick config show` lists the sections.",
            )
        given.extend(Given(key, value, source) for key, value in _flat(section, content, source))
    return given


def _flat(prefix: str, table: Mapping[str, object], source: str) -> Iterator[tuple[str, Value]]:
    """Yield a table's values under dotted keys: TOML reads `bootstrap.servers = ...` as a table in a table."""
    for name, value in table.items():
        key = f"{prefix}.{name}"
        if isinstance(value, dict):
            yield from _flat(key, value, source)
        elif _is_value(value):
            yield key, value
        else:
            raise SettingsError(
                f"{source}: {key} is neither a text, a number, a boolean nor a list of texts", "Change its value."
            )


def _is_value(value: object) -> TypeGuard[Value]:
    return isinstance(value, str | int | float | bool) or (
        isinstance(value, list) and all(isinstance(part, str) for part in value)
    )


def from_environment(environ: Mapping[str, str]) -> list[Given]:
    """Return the values in `TWOTICK_SECTION__NAME` variables, sorted by name.

    In the section `kafka` an underscore stands for a dot: `TWOTICK_KAFKA__BOOTSTRAP_SERVERS`.
    """
    return [Given(_key_of(name), environ[name], name) for name in settings_variables(environ)]


def settings_variables(environ: Iterable[str]) -> list[str]:
    """Return the names of the variables that set something, sorted."""
    return [
        name
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in NOT_SETTINGS and not name.startswith(OF_TESTS)
    ]


def _key_of(variable: str) -> str:
    section, _, name = variable.removeprefix(PREFIX).lower().partition(NESTING)
    if section != "kafka":
        return f"{section}.{name.replace(NESTING, '.')}" if name else section
    if name.endswith(FILE_SUFFIX):
        return f"kafka.{name.removesuffix(FILE_SUFFIX).replace('_', '.')}{FILE_SUFFIX}"
    return f"kafka.{name.replace('_', '.')}"


def variable_of(key: str) -> str:
    """Return the variable that sets a key."""
    section, _, name = key.partition(".")
    inner = name.replace(".", "_" if section == "kafka" else NESTING)
    return f"{PREFIX}{section}{NESTING}{inner}".upper()


def from_flags(flags: Iterable[str]) -> list[Given]:
    """Return the values of `--set KEY=VALUE`. Raises SettingsError for one without a `=`."""
    given = []
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals:
            raise SettingsError(
                f"--set {flag} is not of the form KEY=VALUE", "Write for example --set store.kind=sqlite."
            )
        given.append(Given(key.strip(), value.strip(), f"--set {key.strip()}"))
    return given


def with_secrets(given: Iterable[Given]) -> list[Given]:
    """Return the values with each `..._file` of a secret replaced by what that file holds.

    Raises SettingsError where the file cannot be read.
    """
    return [one if secret_of(one.key) is None else _from_file(one) for one in given]


def secret_of(key: str) -> str | None:
    """Return the key of the secret whose file a key names; None where it names none."""
    secret = key.removesuffix(FILE_SUFFIX)
    return secret if secret != key and is_secret(secret) else None


def _from_file(given: Given) -> Given:
    path = Path(str(given.value)).expanduser()
    try:
        secret = path.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"the secret named by {given.key} ({given.source}) cannot be read: {error}",
            "Check that the file is there and that this user may read it.",
        ) from None
    return Given(given.key.removesuffix(FILE_SUFFIX), secret, f"{path}, named by {given.source}")


def last_of_each(given: Iterable[Given]) -> dict[str, Given]:
    """Return the value that counts for each key: the last one."""
    return {one.key: one for one in given}
