"""What a package that was installed without an extra lacks, and how to get it."""

from importlib.util import find_spec
from typing import Final

from compose.errors import SettingsError

CASSANDRA: Final = "Install its extra: pip install 'twotick[cassandra]', or '/path/to/the/clone[cassandra]'."


def check_cassandra_driver() -> None:
    """Raise SettingsError where the driver of the store that the settings name is not installed."""
    if find_spec("cassandra") is None:
        raise SettingsError(
            "the store is in Cassandra, and its driver is not installed: no module cassandra", CASSANDRA
        )
