"""Writes the generated pages: command line, settings, metrics, life-cycle, each from the code that it is about.

`make docs` runs it, and a test compares, so that the pages cannot say what the code does not.
"""

import ast
import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import typer

from compose.app import build_app
from compose.layers import variable_of
from compose.sections import data_folder
from compose.settings import KAFKA_DEFAULTS, SECTIONS, Known, known_settings, section_type
from consumers.metrics import metric_rows
from schemas import generate
from schemas.codec import VERSIONS
from schemas.diagrams import life_cycle_page

FOLDER: Final = Path(__file__).parent.parent / "docs"
_GENERATED: Final = "<!-- Written by `make docs`; change the code instead. -->\n\n"
_SETTINGS_INTRODUCTION: Final = """\
# Settings

A flag (`--set store.kind=cassandra`) counts for more than the environment, the environment for more than the file
(`twotick.toml` in the working folder, else `~/.config/twotick/twotick.toml`, or the one that `--config` or
`TWOTICK_CONFIG` names), and the file for more than the addresses of a stack that `twotick up` started here. These count
until `twotick down`, whether its servers live or not, and all or none: none where somebody has set
`kafka.bootstrap.servers`, `store.cassandra.contact_points`, `store.cassandra.port` or `store.cassandra.datacenter`.
`twotick config show --sources` prints what counts and why. A key that does not exist is an error.

The variable of a setting is its name in capitals, with `TWOTICK_` before it and two underscores for the dot:
`TWOTICK_STORE__KIND`; lists are separated by commas. A secret can stand in a file of its own:
`password_file = "/run/secrets/store"` instead of `password`.

## [kafka]

Every setting of librdkafka by its own name, for all clients, but for those on which delivery depends: these are
pinned in `schemas/topics.py`, and another value is an error. In the environment an underscore stands for a dot.
"""

_METRICS_INTRODUCTION: Final = """\
# Metrics

Each worker serves Prometheus metrics on `worker.metrics_port` plus its slot (extra `metrics`). Counts are since the
worker's start; no label ever is an id of a user, a conversation or a message. `twotick stats` sums what all workers
have counted, and `twotick owners` names the hottest conversations.
"""


def pages() -> Mapping[str, str]:
    """Return every generated page's text by its file name."""
    return {
        "cli.md": _GENERATED + cli_page(),
        "settings.md": _GENERATED + settings_page(),
        "life-cycle.md": life_cycle_page(),
        "metrics.md": _GENERATED + metrics_page(),
    }


def metrics_page() -> str:
    """Return the reference of all metrics."""
    rows = [
        f"| `{name}` | {kind} | {f'`{labels}`' if labels else ''} | {text} |"
        for name, kind, labels, text in metric_rows()
    ]
    return (
        "\n".join([_METRICS_INTRODUCTION, "| metric | type | label | what it is |\n| --- | --- | --- | --- |", *rows])
        + "\n"
    )


def settings_page() -> str:
    """Return the reference of all settings."""
    parts = [
        _SETTINGS_INTRODUCTION,
        "| setting | default | variable |\n| --- | --- | --- |",
        *(
            f"| `kafka.{name}` | `{value}` | `{variable_of(f'kafka.{name}')}` |"
            for name, value in KAFKA_DEFAULTS.items()
        ),
    ]
    for section in SECTIONS:
        parts += ["", f"## [{section}]\n", _first_paragraph(section_type(section)), ""]
        parts += ["| setting | takes | default | what it is |\n| --- | --- | --- | --- |"]
        docs = dict(_documentation(section_type(section), section))
        parts += [_settings_row(known, docs.get(known.key, "")) for known in known_settings(section)]
    return "\n".join(parts) + "\n"


def _settings_row(known: Known, doc: str) -> str:
    return f"| `{known.key}` | {_type_name(known.type)} | {_default_text(known.default)} | {_cell(doc)} |"


def _type_name(form: Any) -> str:  # noqa: ANN401 - a type form
    if get_origin(form) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(form))
    if get_origin(form) in {Union, types.UnionType}:
        return " or ".join(_type_name(part) for part in get_args(form) if part is not type(None))
    if get_origin(form) is tuple:
        return "list of " + _type_name(get_args(form)[0])
    names = {str: "text", int: "number", float: "number", bool: "true or false", Path: "path"}
    return names.get(form, getattr(form, "__name__", str(form)))


def _default_text(value: object) -> str:
    if value in {None, ""} if not isinstance(value, tuple) else not value:
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    if isinstance(value, bool):
        text = text.lower()
    return f"`{text.replace(str(data_folder()), '~/.local/share/twotick')}`"


def _documentation(owner: type[Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the text below each field of a dataclass, which Python itself does not keep."""
    hints = get_type_hints(owner)
    for field in dataclasses.fields(owner):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from _documentation(hints[field.name], f"{prefix}.{field.name}")
    tree = ast.parse(inspect.cleandoc(inspect.getsource(owner))).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field_line, text in pairwise(body):
        match field_line, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                yield f"{prefix}.{name}", " ".join(doc.split())
            case _:
                continue


def _first_paragraph(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n\n")[0]


def cli_page() -> str:
    """Return the reference of all commands."""
    root = typer.main.get_command(build_app())
    parts = ["# The command line\n", *_command_section(root, "twotick")]
    return "\n".join(parts) + "\n"


def _command_section(command: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - typer has its own copy of click's types
    yield f"{'#' * min(2 + path.count(' '), 4)} `{path}`\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    rows = [row for parameter in command.params if (row := _parameter_row(parameter))]
    if rows:
        yield "| argument or option | default | what it is |\n| --- | --- | --- |"
        yield from rows
        yield ""
    if command.epilog:
        yield inspect.cleandoc(command.epilog) + "\n"
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _command_section(inner, f"{path} {name}")


def _parameter_row(parameter: Any) -> str | None:  # noqa: ANN401 - typer has its own copy of click's types
    if getattr(parameter, "hidden", False) or parameter.name in {"install_completion", "show_completion"}:
        return None
    if parameter.param_type_name == "argument":
        name = f"`{(parameter.metavar or parameter.name).upper()}`" + ("" if parameter.required else " (optional)")
    else:
        name = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    shown = default is not None and default not in (False, (), "") and not callable(default)
    return f"| {name} | {f'`{default}`' if shown else ''} | {_cell(parameter.help or '')} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    """Write all pages, and the module of the schemas' functions."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    generate.FILE.write_text(generate.module(VERSIONS))


if __name__ == "__main__":
    main()
