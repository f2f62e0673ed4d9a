"""`twotick config get|set|unset|history`: settings that all workers take up while they run."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.shared import FORM_HELP, Form, SharedFactory, opened, time_text, who

if TYPE_CHECKING:
    from consumers.hot.changing import Change
    from consumers.hot.contract import ConfigVersion
    from consumers.settings import WorkerSettings

_VALUES = ("setting", "value", "set_by", "takes")
_CHANGES = ("setting", "before", "after", "version")
_VERSIONS = ("version", "setting", "value", "changed_at", "changed_by", "token")
_OWN = "(as each worker's own settings say)"


def add_to(commands: typer.Typer) -> None:
    """Add the commands to `twotick config`."""
    commands.command("get")(_get)
    commands.command("set")(_set)
    commands.command("unset")(_unset)
    commands.command("history")(_history)


def _get(
    context: typer.Context,
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="One setting; else all that can be changed.")] = None,
    *,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Show the settings that can be changed while workers run, and what holds for all workers."""
    from consumers.hot.keys import KEYS, parsed, value_of

    factory: SharedFactory = context.obj
    if key is not None and key not in KEYS:
        parsed(key, "")  # says what is wrong with it
    with opened(factory) as store:
        newest = store.shared().config.read()
    own = factory.worker_settings()
    sys.stderr.write(f"version {newest.version}; `twotick stats` shows which version each worker runs\n")
    names = KEYS if key is None else [key]
    factory.show([_value(name, newest, own, value_of(own, name)) for name in names], _VALUES, output)


def _value(name: str, newest: "ConfigVersion", own: "WorkerSettings", value: object) -> Mapping[str, object]:
    from consumers.hot.keys import KEYS, value_of, with_hot_values

    hot = name in newest.values
    shown = value_of(with_hot_values(own, newest.values), name) if hot else value
    set_by = "hot configuration" if hot else "own settings"
    return {"setting": name, "value": shown, "set_by": set_by, "takes": KEYS[name].takes}


def _set(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Such as worker.log_level.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="What all workers shall use.")],
    *,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")] = False,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Change a setting of all workers while they run; shows what it would do until `--execute`.

    Makes a new version of the hot configuration, under a lock. It counts for more than every file, variable and flag
    of the workers, and they take it up within seconds.
    """
    _change(context.obj, key, value, execute=execute, output=output)


def _unset(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Such as worker.log_level.")],
    *,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")] = False,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Let each worker's own settings count again; shows what it would do until `--execute`."""
    _change(context.obj, key, None, execute=execute, output=output)


def _change(factory: SharedFactory, key: str, value: str | None, *, execute: bool, output: Form | None) -> None:
    from consumers.hot import changing
    from consumers.hot.keys import KEYS, check_fits, parsed
    from consumers.locks.locking import TableLocks

    if key not in KEYS:
        parsed(key, "")  # says what is wrong with it
    with opened(factory) as store:
        shared, name = store.shared(), who()
        if value is not None:
            check_fits(factory.worker_settings(), shared.config.read().values, key, value)
        if execute:
            done = changing.execute(TableLocks(shared.locks, name), shared.config, key, value, who=name)
        else:
            done = changing.plan(shared.config, key, value)
    if done.does_nothing:
        factory.show([], _CHANGES, output)
        sys.stderr.write("nothing to do: it is so already\n")
        return
    factory.show([_changed(done)], _CHANGES, output)
    sys.stderr.write(f"done: version {done.version}\n" if execute else "would be done: add --execute\n")


def _changed(change: "Change") -> Mapping[str, object]:
    before, after = (_OWN if value is None else value for value in (change.before, change.after))
    return {"setting": change.key, "before": before, "after": after, "version": change.version}


def _history(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many versions at most.")] = 20,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Show who changed what and when, newest first."""
    factory: SharedFactory = context.obj
    with opened(factory) as store:
        versions = store.shared().config.history(limit)
    factory.show(_versions(versions), _VERSIONS, output)


def _versions(versions: "Iterable[ConfigVersion]") -> Iterator[Mapping[str, object]]:
    for one in versions:
        yield {
            "version": one.version,
            "setting": one.key,
            "value": one.values.get(one.key, _OWN),
            "changed_at": time_text(one.changed_at),
            "changed_by": one.changed_by,
            "token": one.token,
            "values": dict(one.values),
        }
