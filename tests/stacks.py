"""Stacks of the tests' own."""

from compose.stacks.local import LocalStack


def throw_away(stack: LocalStack, *names: str) -> None:
    """Remove a stack of whose servers these still run: nobody waits for the good order of what is deleted then."""
    for name in names:
        stack.kill(name)
    stack.down(remove_data=True)
