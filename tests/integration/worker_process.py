"""A worker as a process of its own, for tests: `python -m tests.integration.worker_process '<JSON>'`.

Its store fails while the file `outage` names is there, so a test can take the store away and give it back.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consumers.claims.settings import WebhookSettings
from consumers.errors import StoreUnavailableError
from consumers.logs import configure
from consumers.process import run_worker
from consumers.redelivery import Schedule
from consumers.settings import WorkerSettings
from consumers.stores.contract import Store
from consumers.stores.sqlite import SqliteStore
from schemas.codec import PLAIN


@dataclass
class Faulty:
    """A store that does not answer while a file exists."""

    store: Store
    outage: Path

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.store, name)
        if not self.outage.exists() or name == "close":
            return call

        def fail(*arguments: Any, **_named: Any) -> None:
            error = StoreUnavailableError("the store was taken away", "Give it back.")
            if name in {"write", "spill"}:
                arguments[-1](error)
            else:
                raise error

        return fail


def open_store(told: dict[str, Any]) -> Any:
    if keyspace := told.get("keyspace"):
        # Only where it is asked for: the driver is an extra.
        from consumers.stores.cassandra import CassandraStore  # noqa: PLC0415
        from consumers.stores.settings import CassandraSettings  # noqa: PLC0415

        store: Any = CassandraStore.open(
            CassandraSettings(**told["cassandra"], keyspace=keyspace), mode=told.get("mode", "stamps")
        )
    else:
        store = SqliteStore.open(Path(told["store"]))
    return Faulty(store, Path(told["outage"]))


def main() -> int:
    told = json.loads(sys.argv[1])
    configure(node=f"{told['settings'].get('node', 'n')}-{told['slot']}", json_lines=True, level="info")
    settings = dict(told["settings"])
    settings["schedule"] = Schedule(**settings.pop("schedule", {}))
    if "status_folder" in settings:
        settings["status_folder"] = Path(settings["status_folder"])
    return run_worker(
        kafka=told["kafka"],
        open_store=lambda: open_store(told),
        settings=WorkerSettings(**settings),
        slot=told["slot"],
        codec=PLAIN,
        webhook=WebhookSettings(**told["webhook"]) if "webhook" in told else None,
    )


if __name__ == "__main__":
    sys.exit(main())
