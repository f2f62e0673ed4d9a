"""`twotick stats`: what all workers have counted together, as one snapshot."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from consumers import clock
from consumers.cli.shared import FORM_HELP, Form, SharedFactory, opened, time_text, who

if TYPE_CHECKING:
    from consumers.statistics.summing import Snapshot

_PARTLY_DONE = 4
_COLUMNS = (
    "node",
    "state",
    "partitions",
    "events",
    "applied",
    "events_per_s",
    "lag_records",
    "conflicts",
    "config_version",
)


def register(app: typer.Typer) -> None:
    """Add `stats`."""
    app.command("stats")(_stats)


def _stats(
    context: typer.Context,
    *,
    wait_s: Annotated[float, typer.Option(min=0, max=600, help="How long to wait for owners to answer.")] = 5.0,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Show what all workers have counted, in sum and by worker: one snapshot, which all owners are asked for at once.

    Events and what became of them are counted by partition and survive the workers; conflicts are each worker's since
    it started. A worker that has said nothing for a minute is silent: it may be gone without a word. Exits with 4 where
    a partition's owner did not answer in time: its counts are older then.
    """
    from consumers.locks.locking import TableLocks
    from consumers.statistics.summing import snapshot

    factory: SharedFactory = context.obj
    with opened(factory) as store:
        shared = store.shared()
        owned = [lease.partition for lease in store.leases()]
        found = snapshot(TableLocks(shared.locks, who()), shared.statistics, owned, wait_s=wait_s)
    now_ms = clock.now_ms()
    nodes = sorted({report.node for report in found.nodes} | {share.node for share in found.shares})
    rows = [_row("all", found, now_ms), *(_row(node, found.of_node(node), now_ms) for node in nodes)]
    factory.show(rows, _COLUMNS, output)
    if found.missing:
        sys.stderr.write(f"no answer in time for partitions {', '.join(map(str, sorted(found.missing)))}\n")
        raise typer.Exit(_PARTLY_DONE)


def _row(node: str, found: "Snapshot", now_ms: int) -> Mapping[str, object]:
    by_kind: dict[str, int] = {}
    for report in found.nodes:
        for kind, count in report.conflicts.items():
            by_kind[kind] = by_kind.get(kind, 0) + count
    single = found.nodes[0] if node != "all" and found.nodes else None
    running = found.running(now_ms) if single is None else found.nodes
    versions = sorted({report.config_version for report in running})
    return {
        "node": node,
        "state": single.state_at(now_ms) if single else "",
        "seen_s_ago": round((now_ms - single.at) / 1000, 1) if single else None,
        "partitions": len(found.shares),
        **found.counts(),
        "events_per_s": round(sum(share.events_per_s for share in found.shares), 1),
        "lag_records": sum(share.lag_records for share in found.shares),
        "conflicts": [f"{kind} {count}" for kind, count in sorted(by_kind.items()) if count],
        "conflicts_by_kind": by_kind,
        "conflicts_per_minute": round(sum(report.conflicts_per_minute for report in found.running(now_ms)), 1),
        "config_version": versions[0] if len(versions) == 1 else versions,
        "snapshot": found.token,
        "at": time_text(max((share.at for share in found.shares), default=0)),
        "missing": list(found.missing),
    }
