"""Statistics in a SQLite store's file."""

from collections.abc import Sequence
from typing import Any, Final

from consumers.statistics.contract import NODE_TTL_S, NodeReport, Share
from consumers.stores.sqlite_shared import SharedConnection

_SHARES: Final = "SELECT log_partition, epoch, revision, snapshot, node, at, share FROM partition_statistics"


class SqliteStatisticsTable:
    """`StatisticsTable` on a SQLite file."""

    def __init__(self, shared: SharedConnection) -> None:
        self._shared = shared

    def share(self, partition: int) -> Share | None:
        """Read one partition's share."""
        found = self._shared.fetch(f"{_SHARES} WHERE log_partition = ?", (partition,))
        return _share(found[0]) if found else None

    def shares(self, *, serially: bool) -> Sequence[Share]:  # noqa: ARG002 - reads are never behind here
        """Read all shares, by partition."""
        return [_share(row) for row in self._shared.fetch(f"{_SHARES} ORDER BY log_partition")]

    def put(self, share: Share, before: Share | None) -> bool:
        """Replace `before` where it still stands."""
        expected = (before.epoch, before.revision) if before else None
        with self._shared.transaction() as connection:
            found = connection.execute(
                "SELECT epoch, revision FROM partition_statistics WHERE log_partition = ?", (share.partition,)
            ).fetchone()
            if found != expected:
                return False
            connection.execute(
                "INSERT OR REPLACE INTO partition_statistics"
                " (log_partition, epoch, revision, snapshot, node, at, share) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*share[:6], share.text()),
            )
        return True

    def put_node(self, report: NodeReport) -> None:
        """Replace a worker's report, and forget those that are long gone."""
        with self._shared.transaction() as connection:
            connection.execute(
                "INSERT INTO node_statistics (node, at, report) VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
                " SET at = excluded.at, report = excluded.report WHERE at <= excluded.at",
                (report.node, report.at, report.text()),
            )
            connection.execute("DELETE FROM node_statistics WHERE at < ?", (report.at - NODE_TTL_S * 1000,))

    def nodes(self) -> Sequence[NodeReport]:
        """Read all workers' reports, by name."""
        rows = self._shared.fetch("SELECT node, at, report FROM node_statistics ORDER BY node")
        return [NodeReport.of(*row) for row in rows]


def _share(row: tuple[Any, ...]) -> Share:
    return Share.of(row[:6], row[6])
