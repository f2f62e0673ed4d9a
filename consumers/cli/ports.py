"""What the server's commands ask of whoever puts the product together."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from consumers.claims.settings import WebhookSettings
from consumers.settings import WorkerSettings
from consumers.stores.contract import Store
from schemas.codec import Codec
from schemas.topics import Setting


class ServerFactory(Protocol):
    """The deployment as the server's commands see it: `context.obj`."""

    @property
    def status_folder(self) -> Path:
        """Where workers keep their status files, unless their settings name another folder."""

    def worker_settings(self) -> WorkerSettings:
        """Return the workers' settings."""

    def webhook_settings(self) -> WebhookSettings:
        """Return where deliveries are posted, and to whom."""

    def kafka(self) -> Mapping[str, Setting]:
        """Return what every Kafka client is given: `bootstrap.servers` and what is passed through."""

    def open_store(self) -> Store:
        """Open the store. Raises NotFoundError where there is none, StoreUnavailableError, StoreRefusedError."""

    def make_store(self) -> Store:
        """Open the store; a SQLite file is made where there is none. Raises as `open_store` does, but for that."""

    def codec(self) -> Codec:
        """Return the codec: single-object, or a registry's ids."""

    def worker_command(self, slot: int) -> Sequence[str]:
        """Return the command line of the worker process of one slot: this deployment's `twotick consume --slot N`."""

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says."""
