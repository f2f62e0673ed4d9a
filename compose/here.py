"""What `twotick up` runs on this machine, as settings: its addresses count as one, and where nobody set others."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from compose.layers import Given

if TYPE_CHECKING:
    from compose.settings import Settings

ADDRESSES: Final = (
    "kafka.bootstrap.servers",
    "kafka.metadata.broker.list",
    "store.cassandra.contact_points",
    "store.cassandra.port",
    "store.cassandra.datacenter",
)
"""Who sets one of these has servers elsewhere. The second is librdkafka's other name for the first."""


def stack_addresses(settings: "Settings") -> list[Given]:
    """Return the addresses of the local stack, from `twotick up` until `twotick down`, whether its servers live or not.

    A server that crashed is to be missed, not to be replaced by another that happens to be at a default address.
    Nothing where there is no stack, or where the settings, read without it, have an address of their own.
    """
    from compose.sections import StackSettings

    stack_settings = settings.section("stack", StackSettings)
    folder = stack_settings.folder
    if any(settings.is_set(key) for key in ADDRESSES) or not (folder / "state.json").is_file():
        return []
    from compose.stacks.local import LocalStack

    addresses = LocalStack(folder, stack_settings.local).addresses_until_down()
    if addresses is None:
        return []
    source = f"the local stack in {folder}"
    return [
        Given("kafka.bootstrap.servers", addresses.kafka_bootstrap_servers, source),
        Given("store.kind", "cassandra", source),
        Given("store.cassandra.contact_points", list(addresses.cassandra_contact_points), source),
        Given("store.cassandra.port", addresses.cassandra_port, source),
        Given("store.cassandra.datacenter", addresses.cassandra_datacenter, source),
    ]


def as_flags(settings: "Settings", found: Sequence[Given]) -> list[str]:
    """Return what `--set` takes so that another process has the servers of this one, whatever becomes of a stack.

    `found` is what `stack_addresses` said. What the user set is in the other process's settings as well, and is not
    put on a command line, which all users of a machine can read.
    """
    if found:
        return [f"{one.key}={_as_text(one)}" for one in found if settings.given[one.key] == one]
    if any(settings.is_set(key) for key in ADDRESSES):
        return []
    # One address is enough to keep a stack out that is brought up later.
    return [f"kafka.bootstrap.servers={settings.kafka()['bootstrap.servers']}"]


def _as_text(given: Given) -> str:
    return ",".join(given.value) if isinstance(given.value, list) else str(given.value)


def dead_servers(settings: "Settings") -> list[str]:
    """Return which servers of the local stack were started, not stopped since, and are not there any more."""
    from compose.sections import StackSettings
    from compose.stacks.local import LocalStack

    stack_settings = settings.section("stack", StackSettings)
    started = LocalStack(stack_settings.folder, stack_settings.local).started()
    return [name for name, lives in started.items() if not lives]
