"""What runs on this machine, as settings: the addresses of a local stack count wherever nobody set others."""

from pathlib import Path

from compose.layers import Given


def running_stack(folder: Path) -> list[Given]:
    """Return the addresses of the local stack that lives in `folder`; nothing where it does not run.

    Looks at processes only: whether the servers answer is for whoever uses them to find out.
    """
    if not (folder / "state.json").is_file():
        return []
    from compose.stacks.local import LocalStack

    stack = LocalStack(folder)
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
