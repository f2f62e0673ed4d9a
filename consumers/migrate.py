"""Brings topics and tables to what this version needs: first what it would do, as data, then doing it.

Both are idempotent and safe to run on several nodes at once: tables are changed under a lock, topics are made by
whoever comes first, records are replaced with conditional writes. Nothing that is there is altered or shrunk; where it
is not as it should be, a step says so and leaves it to people.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from consumers.errors import WorkerError
from consumers.migrate_settings import MigrationSettings
from consumers.migrate_sqlite import SqliteTables
from consumers.migrate_steps import Step, StepKind, Target
from consumers.migrate_topics import TopicRecording, Topics
from consumers.settings import WorkerSettings
from consumers.stores.contract import Store
from consumers.stores.settings import CassandraSettings
from schemas.topics import Setting


class ObstacleError(WorkerError):
    """Something is in the way of a migration that only people can remove."""


def plan(targets: Sequence[Target]) -> list[Step]:
    """Return what is to be done, in order; empty where all is as it should be. Raises WorkerError."""
    return [step for target in targets for step in target.plan()]


def obstacle(steps: Sequence[Step]) -> ObstacleError | None:
    """Return the error that stands for the first obstacle among the steps."""
    found = next((step for step in steps if step.kind is StepKind.OBSTACLE), None)
    return found and ObstacleError(f"{found.subject}: {found.what}", found.hint)


def apply(targets: Sequence[Target]) -> Iterator[Step]:
    """Do what is to be done, yielding each step when it is done.

    Raises ObstacleError before anything is done where something is in the way; WorkerError where a server is.
    """
    if (error := obstacle(plan(targets))) is not None:
        raise error
    for target in targets:
        yield from target.apply()


def targets_of(
    *,
    kafka: Mapping[str, Setting],
    store: CassandraSettings | Path,
    open_store: Callable[[], Store],
    settings: MigrationSettings,
    workers: WorkerSettings | None = None,
) -> Sequence[Target]:
    """Return what a deployment migrates, in order: tables, topics, and what is recorded about the events topic.

    `store` is Cassandra's settings or SQLite's file; `workers` are their settings, where they are not the defaults.
    """
    tables = SqliteTables(store) if isinstance(store, Path) else _cassandra_tables(store, settings)
    return [tables, Topics(kafka, settings), TopicRecording(kafka, tables, open_store, workers or WorkerSettings())]


def _cassandra_tables(store: CassandraSettings, settings: MigrationSettings) -> Target:
    # Here, because the driver is an extra that a deployment on SQLite does without.
    from consumers.migrate_tables import CassandraTables  # noqa: PLC0415

    return CassandraTables(store, settings)
