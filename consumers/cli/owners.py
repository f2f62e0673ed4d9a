"""`twotick owners`: which worker has which partition, how far it is behind, and where the load is."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from consumers import clock
from consumers.cli.shared import FORM_HELP, Form, SharedFactory, opened, time_text

if TYPE_CHECKING:
    from consumers.statistics.contract import Share
    from consumers.stores.contract import Lease

_COLUMNS = ("partition", "node", "epoch", "since", "lag", "events_per_s", "load", "hottest")


def register(app: typer.Typer) -> None:
    """Add `owners`."""
    app.command("owners")(_owners)


def _owners(context: typer.Context, *, output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None) -> None:
    """Show the map of partitions: owner, lease, lag in records and seconds, load, hottest conversations.

    The lease is as of now; the rest is what the owner wrote last, within `worker.statistics_interval_s`. A partition
    that takes more than `worker.partition_share_max` of the load is warned about, and so is an owner that has written
    nothing for a minute: it may be gone, and nobody else has taken its partitions.
    """
    from consumers.hot.keys import with_hot_values
    from consumers.statistics.skew import load_shares, skewed

    factory: SharedFactory = context.obj
    now_ms = clock.now_ms()
    with opened(factory) as store:
        shared = store.shared()
        leases = sorted(store.leases())
        shares = {share.partition: share for share in shared.statistics.shares(serially=False)}
        settings = with_hot_values(factory.worker_settings(), shared.config.read().values)
    loads = load_shares(shares.values(), now_ms)
    factory.show(_rows(leases, shares, loads, now_ms), _COLUMNS, output)
    for node, partitions in _silent(leases, shares, now_ms, settings.statistics_interval_s).items():
        sys.stderr.write(f"warning: {node} has written nothing for long; it owns {', '.join(map(str, partitions))}\n")
    for partition, load in skewed(loads, settings.partition_share_max, max(len(leases), 1)).items():
        sys.stderr.write(f"warning: partition {partition} takes {load:.0%} of the load\n")


def _silent(
    leases: "Sequence[Lease]", shares: "Mapping[int, Share]", now_ms: int, interval_s: float
) -> Mapping[str, Sequence[int]]:
    """Return the partitions by owner of which nothing was heard for far longer than it should be."""
    from consumers.statistics.contract import STALE_MS

    found: dict[str, list[int]] = {}
    for lease in leases:
        share = shares.get(lease.partition)
        heard = share.at if share is not None and share.epoch == lease.epoch else lease.since
        if now_ms - heard > max(STALE_MS, 3_000 * interval_s):
            found.setdefault(lease.node, []).append(lease.partition)
    return found


def _rows(
    leases: "Sequence[Lease]", shares: "Mapping[int, Share]", loads: Mapping[int, float], now_ms: int
) -> Iterator[Mapping[str, object]]:
    for lease in leases:
        row: dict[str, object] = {
            "partition": lease.partition,
            "node": lease.node,
            "epoch": lease.epoch,
            "since": time_text(lease.since),
        }
        share = shares.get(lease.partition)
        # What an owner before this one wrote says nothing about this one.
        if share is not None and share.epoch == lease.epoch:
            row |= _of_share(share, loads.get(lease.partition), now_ms)
        yield row


def _of_share(share: "Share", load: float | None, now_ms: int) -> Mapping[str, object]:
    return {
        "lag": f"{share.lag_records} in {share.lag_s:.1f} s",
        "lag_records": share.lag_records,
        "lag_s": share.lag_s,
        "events_per_s": share.events_per_s,
        "load": None if load is None else f"{load:.0%}",
        "pending": share.pending,
        "hottest": [f"{hot.conversation_id} {hot.events_per_s:.1f}/s" for hot in share.hottest],
        "low_water": share.low_water,
        "seen_s_ago": round((now_ms - share.at) / 1000, 1),
    }
