"""What runs on this machine, as settings: the addresses of a local stack count wherever nobody set others."""

from typing import TYPE_CHECKING

from compose.layers import Given

if TYPE_CHECKING:
    from compose.sections import StackSettings


def running_stack(settings: "StackSettings") -> list[Given]:
    """Return the addresses of the local stack that lives in its folder; nothing where it does not run.

    Looks at processes only: whether the servers answer is for whoever uses them to find out.
    """
    folder = settings.folder
    if not (folder / "state.json").is_file():
        return []
    from compose.stacks.local import LocalStack

    stack = LocalStack(folder, settings.local)
    if not stack.is_running():
        return []
    addresses = stack.addresses()
    source = f"the local stack in {folder}"
    return [
        Given("kafka.bootstrap.servers", addresses.kafka_bootstrap_servers, source),
        Given("store.kind", "cassandra", source),
        Given("store.cassandra.contact_points", list(addresses.cassandra_contact_points), source),
        Given("store.cassandra.port", addresses.cassandra_port, source),
        Given("store.cassandra.datacenter", addresses.cassandra_datacenter, source),
    ]
