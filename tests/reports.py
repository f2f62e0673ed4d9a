"""What a long run has found, kept in a file beside the commit that it ran on."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def commit() -> str:
    """Return the commit of the source tree; empty where it is none of git's."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
        check=False,
        capture_output=True,
        text=True,
    )
    return told.stdout.strip()


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Keep a report, readable in a diff."""
    path.write_text(json.dumps(report, indent=1) + "\n")
