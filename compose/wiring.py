"""The composition root: builds the rooms' parts from the settings, each when it is first asked for."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from compose import output

if TYPE_CHECKING:
    from compose.settings import Settings


class Wiring:
    """What commands get as `context.obj`: settings, clients, stores and workers as this deployment has them."""

    def __init__(self, *, flags: Sequence[str] = (), config: Path | None = None) -> None:
        self._flags = flags
        self._config = config

    @cached_property
    def settings(self) -> "Settings":
        """Read the settings, with the addresses of the local stack where one runs. Raises SettingsError."""
        from compose.here import running_stack
        from compose.settings import load

        # Read once to learn where the stack would be, and again with what it says.
        alone = load(flags=self._flags, environ=os.environ, config=self._config)
        found = running_stack(alone.value("stack.folder", Path))
        if not found:
            return alone
        return load(flags=self._flags, environ=os.environ, config=self._config, stack=found)

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says; see `compose.output.show`."""
        output.show(rows, columns, form)
