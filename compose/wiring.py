"""The composition root: builds the rooms' parts from the settings, each when it is first asked for."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from compose import output

if TYPE_CHECKING:
    from compose.layers import Given
    from compose.settings import Settings
    from consumers.claims.settings import WebhookSettings
    from consumers.cli.ports import ServerFactory
    from consumers.migrate_steps import Target
    from consumers.settings import WorkerSettings
    from consumers.stores.contract import Store
    from producers import Client
    from producers.cli.ports import ClientFactory
    from schemas.codec import Codec
    from schemas.topics import Setting

LOG = logging.getLogger(__name__)


class Wiring:
    """What commands get as `context.obj`: settings, clients, stores and workers as this deployment has them."""

    def __init__(self, *, flags: Sequence[str] = (), config: Path | None = None) -> None:
        self._flags = flags
        self._config = config

    def again(self) -> "Wiring":
        """Return one that reads everything anew, because a stack has started since."""
        return Wiring(flags=self._flags, config=self._config)

    @cached_property
    def settings(self) -> "Settings":
        """Read the settings, with the addresses of the local stack where they count. Raises SettingsError."""
        return self._read(self._stack_addresses)

    @cached_property
    def _stack_addresses(self) -> "Sequence[Given]":
        """Read the settings without the stack, to learn where it would be and whether its addresses count."""
        from compose.here import stack_addresses

        return stack_addresses(self._read())

    def _read(self, stack: "Sequence[Given]" = ()) -> "Settings":
        from compose.settings import load

        return load(flags=self._flags, environ=os.environ, config=self._config, stack=stack)

    @property
    def uses_stack(self) -> bool:
        """Say whether the addresses of the local stack count: it is up, and nobody set others. Raises SettingsError."""
        return bool(self._stack_addresses)

    def dead_servers(self) -> list[str]:
        """Return which servers of the local stack have died, where its addresses count. Raises SettingsError."""
        from compose.here import dead_servers

        return dead_servers(self.settings) if self.uses_stack else []

    def kafka(self) -> "dict[str, Setting]":
        """Return what every Kafka client is given: `bootstrap.servers` and what is passed through.

        Raises SettingsError where librdkafka would not take it.
        """
        return dict(self._kafka)

    @cached_property
    def _kafka(self) -> "Mapping[str, Setting]":
        from compose.kafka_settings import check

        passed = self.settings.kafka()
        check(passed, self.settings.kafka_sources())
        return passed

    def codec(self) -> "Codec":
        """Return the codec of every record: with the ids of the schema registry where one is set.

        Raises SettingsError, UnreachableError, ComposeError.
        """
        return self._codec

    @cached_property
    def _codec(self) -> "Codec":
        from compose.registry import RegistrySettings, registry_codec
        from compose.sections import data_folder
        from schemas.codec import PLAIN

        settings = self.settings.section("registry", RegistrySettings)
        return registry_codec(settings, data_folder() / "registry") if settings.url else PLAIN

    def _client_codec(self, *, offline: bool) -> "Codec":
        """Return the codec of a client, which takes messages even where no server can be reached."""
        from compose.errors import UnreachableError
        from compose.registry import RegistrySettings, remembered_codec
        from compose.sections import data_folder

        if not offline:
            try:
                return self.codec()
            except UnreachableError as error:
                # What it writes now is read all the same: every reader reads both framings.
                LOG.warning("records are framed without the schema registry", extra={"error": error.message})
        return remembered_codec(self.settings.section("registry", RegistrySettings), data_folder() / "registry")

    # -- clients

    @property
    def user(self) -> str:
        """The user where no option names one; may be empty."""
        return self.settings.value("user.name", str)

    def outbox_path(self, user: str) -> Path:
        """Return where a user's outbox is."""
        from producers import default_outbox

        return self.settings.value("user.outboxes", Path) / default_outbox(user).name

    def open_client(self, user: str, *, outbox: Path | None = None, offline: bool = False) -> "Client":
        """Return a user's client, open. Raises ClientError."""
        from producers import Client, ClientSettings

        return Client(
            user,
            outbox=outbox or self.outbox_path(user),
            kafka=self.kafka(),
            settings=self.settings.section("client", ClientSettings),
            codec=self._client_codec(offline=offline),
            offline=offline,
        ).open()

    # -- workers

    def worker_settings(self) -> "WorkerSettings":
        """Return the workers' settings; their status files go where `twotick status` looks for them."""
        from consumers.settings import WorkerSettings

        settings = self.settings.section("worker", WorkerSettings)
        return settings if settings.status_folder else replace(settings, status_folder=self.status_folder)

    def webhook_settings(self) -> "WebhookSettings":
        """Return where deliveries are posted, and to whom."""
        from consumers.claims.settings import WebhookSettings

        return self.settings.section("webhook", WebhookSettings)

    def worker_command(self, slot: int) -> list[str]:
        """Return the command line of the worker process of one slot, with the same settings as this process.

        The servers of this process are named in it: by the time a worker is started again a stack may be up or down.
        Raises SettingsError where no worker could open the store.
        """
        from compose.extras import check_cassandra_driver
        from compose.here import as_flags
        from compose.sections import StoreSettings

        if self.settings.section("store", StoreSettings).kind == "cassandra":
            check_cassandra_driver()
        config = ["--config", str(self._config)] if self._config else []
        given = [*self._flags, *as_flags(self.settings, self._stack_addresses)]
        flags = [part for flag in given for part in ("--set", flag)]
        return [sys.executable, "-m", "compose.main", *config, *flags, "consume", "--slot", str(slot)]

    @property
    def status_folder(self) -> Path:
        """Where workers keep their status files."""
        from compose.sections import data_folder
        from consumers.settings import WorkerSettings

        return self.settings.section("worker", WorkerSettings).status_folder or data_folder() / "workers"

    def store_name(self) -> str:
        """Return which store this is, for people."""
        from compose.sections import StoreSettings

        settings = self.settings.section("store", StoreSettings)
        if settings.kind == "sqlite":
            return f"the SQLite store {settings.path}"
        where = ",".join(settings.cassandra.contact_points)
        return f"the Cassandra store at {where}:{settings.cassandra.port}, keyspace {settings.cassandra.keyspace}"

    def open_store(self) -> "Store":
        """Return the store, open.

        Raises NotFoundError where there is none, StoreUnavailableError, StoreRefusedError.
        """
        from compose.sections import StoreSettings
        from consumers.cli.errors import NotFoundError

        settings = self.settings.section("store", StoreSettings)
        if settings.kind == "sqlite" and not settings.path.exists():
            raise NotFoundError(
                f"there is no SQLite store {settings.path}",
                "`twotick consume` makes it, and `twotick migrate --execute`. Another one is named by the settings: "
                "TWOTICK_STORE__KIND=cassandra, TWOTICK_STORE__PATH. That of a stopped local stack: `twotick up`.",
            )
        return self.make_store()

    def make_store(self) -> "Store":
        """Return the store, open; a SQLite file is made where there is none. Raises as `open_store` does."""
        from compose.sections import StoreSettings

        settings = self.settings.section("store", StoreSettings)
        if settings.kind == "sqlite":
            from consumers.stores.sqlite import SqliteStore

            settings.path.parent.mkdir(parents=True, exist_ok=True)
            return SqliteStore.open(settings.path)
        from compose.extras import check_cassandra_driver

        check_cassandra_driver()
        from consumers.stores.cassandra import CassandraStore

        return CassandraStore.open(settings.cassandra, mode=settings.mode)

    def open_keyspace(self, keyspace: str) -> "Store":
        """Return another keyspace of the same Cassandra, made and migrated where needed.

        Raises SettingsError where the store is none, StoreUnavailableError, StoreRefusedError.
        """
        from compose.errors import SettingsError
        from compose.extras import check_cassandra_driver
        from compose.sections import StoreSettings
        from consumers.migrate_settings import MigrationSettings

        check_cassandra_driver()
        from consumers.migrate_tables import CassandraTables
        from consumers.stores.cassandra import CassandraStore

        settings = self.settings.section("store", StoreSettings)
        if settings.kind != "cassandra" or keyspace == settings.cassandra.keyspace:
            raise SettingsError(
                f"{keyspace} cannot be a keyspace beside the store's", "Name a new one, on store.kind=cassandra."
            )
        other = replace(settings.cassandra, keyspace=keyspace)
        list(CassandraTables(other, self.settings.section("migrate", MigrationSettings)).apply())
        return CassandraStore.open(other, mode=settings.mode)

    def migration_targets(self) -> "Sequence[Target]":
        """Return what `twotick migrate` brings up to date."""
        from compose.extras import check_cassandra_driver
        from compose.sections import StoreSettings
        from consumers.migrate import targets_of
        from consumers.migrate_settings import MigrationSettings

        store = self.settings.section("store", StoreSettings)
        if store.kind == "cassandra":
            check_cassandra_driver()
        return targets_of(
            kafka=self.kafka(),
            store=store.path if store.kind == "sqlite" else store.cassandra,
            open_store=self.make_store,
            settings=self.settings.section("migrate", MigrationSettings),
            workers=self.worker_settings(),
        )

    # -- output

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says; see `compose.output.show`."""
        output.show(rows, columns, form)

    def follow(self, columns: Sequence[str], form: str | None) -> Callable[[Mapping[str, object]], None]:
        """Return what prints one row at a time as `--output` says; see `compose.output.Follower`."""
        return output.Follower(columns, form)


if TYPE_CHECKING:

    def _fits(wiring: Wiring) -> "tuple[ClientFactory, ServerFactory]":
        """Let the type checker see that it is what the rooms' commands ask for."""
        return wiring, wiring
