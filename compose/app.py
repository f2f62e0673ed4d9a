"""The `twotick` command: global options, the rooms' commands under one roof, and errors as people want to read them.

Only what `--help` needs is imported here; each command imports its own needs when it runs.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Final

import typer

from compose.commands import register_all
from compose.help import reflow
from compose.wiring import Wiring
from schemas.text import harmless

DONE: Final = 0
FAILED: Final = 1
UNREACHABLE: Final = 5

_EPILOG: Final = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 not found, 4 partly done, 5 a server is unreachable, "
    "130 interrupted."
)


def build_app() -> typer.Typer:
    """Return the whole command line."""
    app = typer.Typer(
        name="twotick",
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_twotick)
    register_all(app)
    reflow(app)
    return app


def _version(wanted: bool) -> None:  # noqa: FBT001 - a callback of typer
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"twotick {version('twotick')}\n")
        raise typer.Exit


def _twotick(
    context: typer.Context,
    *,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings; else ./twotick.toml, then the user's own."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change one setting, such as store.kind=cassandra. May be repeated."
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
    _show_version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Deliver messages through Kafka into Cassandra so that every tick is true.

    Try it: `twotick demo`. Real servers on this machine: `twotick up`.
    """
    if debug:
        os.environ["TWOTICK_DEBUG"] = "1"
    context.obj = context.with_resource(_telling_of_dead_servers(Wiring(flags=tuple(settings or ()), config=config)))


def run() -> int:
    """Run the command line; return one of the exit codes."""
    _open_closed_streams()
    _take_every_character()
    app = build_app()
    try:
        app(prog_name="twotick")
        code = DONE
    except SystemExit as end:
        code = _code(end)
    except Exception as error:  # noqa: BLE001 - the top of the process: every error ends here, as text
        code = _report(error)
    return _flushed(code)


def _open_closed_streams() -> None:
    """Give a process that was started without standard streams (`>&-`) ones that lead nowhere, as print has it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for good


def _take_every_character() -> None:
    r"""Let a stream that is not in UTF-8 show what it has no character for as \uXXXX, as stderr does by itself."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _code(end: SystemExit) -> int:
    """Return the exit code; that a reader went away, as in `twotick history c | head`, is fine."""
    if isinstance(end.__context__, BrokenPipeError):
        _abandon_output()
        return DONE
    return end.code if isinstance(end.code, int) else DONE


def _flushed(code: int) -> int:
    """Return the exit code after all is written, that of an error where it cannot be."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_output()
    except OSError as error:
        _abandon_output()
        return code or _report(error)
    return code


def _abandon_output() -> None:
    """Let the interpreter's own last flush go nowhere, quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _telling_of_dead_servers(wiring: Wiring) -> Iterator[Wiring]:
    """Have a command that reached no server say what to do where it is one of the local stack that has died."""
    try:
        yield wiring
    except Exception as error:
        if exit_code(error) == UNREACHABLE and (died := wiring.dead_servers()):
            advice = (
                f"Of the local stack {', '.join(died)} died: `twotick up` mends it, `twotick status` shows more; "
                "after `twotick down` its addresses do not count any more."
            )
            if hasattr(error, "hint"):
                error.hint = f"{error.hint} {advice}".lstrip()
            else:  # it has been told already
                sys.stderr.write(f"hint: {advice}\n")
        raise


def _report(error: Exception) -> int:
    """Print an error, then what to do about it, to standard error; return the exit code."""
    if os.environ.get("TWOTICK_DEBUG"):
        traceback.print_exception(error)
    message = getattr(error, "message", None)
    hint = getattr(error, "hint", "")
    if message is None and isinstance(error, OSError):
        # The system's no, such as a full disk under standard output, is nobody's fault here.
        message = str(error)
        hint = "Check the folder, its disk and its owner." if error.filename else "Look at what standard output is."
    if message is None:
        message = f"unexpected {type(error).__name__}: {error}"
        hint = "This is a fault in twotick. Run it again with --debug to see where."
    sys.stderr.write(f"error: {harmless(str(message))}\n")
    if hint:
        sys.stderr.write(f"hint: {harmless(str(hint))}\n")
    return exit_code(error)


def exit_code(error: Exception) -> int:
    """Return the exit code for an error: the one that its class names, else by whether waiting would help."""
    named = getattr(error, "exit_code", None)
    if isinstance(named, int):
        return named
    return UNREACHABLE if getattr(error, "retriable", False) else FAILED
