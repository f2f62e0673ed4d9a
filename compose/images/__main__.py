"""`python -m compose.images [kafka] [cassandra] [worker]`: what `make images` does."""

import argparse
import sys
from pathlib import Path

from compose.images.build import ALL, Bases, Builder
from compose.stacks.errors import StackError


def main() -> int:
    """Build the images that are named, or all; their tags go to standard output, all else to standard error."""
    arguments = _parser().parse_args()
    builder = Builder(
        checkout=Path(__file__).parents[2],
        folder=arguments.folder,
        bases=Bases(python=arguments.python_image, java=arguments.java_image),
        say=_say,
    )
    try:
        tags = builder.build(arguments.names or ALL)
    except StackError as error:
        _say(f"error: {error.message}")
        _say(f"hint: {error.hint}")
        return 1
    sys.stdout.writelines(f"{tag}\n" for tag in tags)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compose.images", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ALL)}; all where none is named")
    parser.add_argument("--python-image", default="", help="the worker's base; empty: from this machine's files")
    parser.add_argument("--java-image", default="", help="the servers' base, likewise")
    parser.add_argument("--folder", type=Path, default=Path("build/images"), help="for what is being built")
    return parser


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
