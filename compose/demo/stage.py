"""The servers that a demo plays on, as the demo sees them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from compose.layers import Value


class Stage(Protocol):
    """A stack, started and stopped by the demo."""

    name: str
    """`embedded` or `local`."""

    def start(self) -> Mapping[str, Value]:
        """Start what does not run yet; return the settings with which clients and workers use it."""

    def stop(self) -> None:
        """Stop what `start` started, and nothing else."""


def write_config(path: Path, settings: Mapping[str, Value]) -> None:
    """Write settings as a configuration file, which a visitor can go on using: `twotick --config FILE ...`."""
    sections: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        quoted = f'"{name}"' if section == "kafka" else name
        # JSON writes texts, numbers, booleans and lists of texts as TOML does.
        sections.setdefault(section, []).append(f"{quoted} = {json.dumps(value)}")
    path.write_text("\n".join(f"[{section}]\n" + "\n".join(lines) + "\n" for section, lines in sections.items()))
