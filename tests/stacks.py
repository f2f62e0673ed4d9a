"""How the servers of the tests are started and removed more quickly than others, and are the same otherwise."""

from typing import Final

from compose.stacks.local import LocalStack

QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1"
"""No server lives long enough here to earn what its second compiler costs: half of a start, and of making a table."""
QUICK_SCHEMA: Final = "-Dcassandra.test.flush_local_schema_changes=false"
"""No flush of the schema's own tables for each table that is made. A Cassandra that is killed would forget them."""


def throw_away(stack: LocalStack, *names: str) -> None:
    """Remove a stack of whose servers these still run: nobody waits for the good order of what is deleted then."""
    for name in names:
        stack.kill(name)
    stack.down(remove_data=True)
