"""Statistics in Cassandra: shares by conditional writes, workers' reports by stamped ones."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from cassandra.cluster import Session

from consumers.statistics.contract import NODE_TTL_S, NodeReport, Share
from consumers.stores.cassandra_conditional import apply, read_each_serially, read_serially
from consumers.stores.cassandra_errors import translating

_COLUMNS: Final = "log_partition, epoch, revision, snapshot, node, to_unix_timestamp(at), share"
_QUERIES: Final = {
    "share": f"SELECT {_COLUMNS} FROM {{keyspace}}.partition_statistics WHERE log_partition = ?",
    "shares": f"SELECT {_COLUMNS} FROM {{keyspace}}.partition_statistics",
    "partitions": "SELECT DISTINCT log_partition FROM {keyspace}.partition_statistics",
    "first": "INSERT INTO {keyspace}.partition_statistics"
    " (log_partition, epoch, revision, snapshot, node, at, share) VALUES (?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS",
    "next": "UPDATE {keyspace}.partition_statistics SET epoch = ?, revision = ?, snapshot = ?, node = ?, at = ?,"
    " share = ? WHERE log_partition = ? IF epoch = ? AND revision = ?",
    "put_node": "INSERT INTO {keyspace}.node_statistics (node, at, report) VALUES (?, ?, ?)"
    " USING TTL ? AND TIMESTAMP ?",
    "nodes": "SELECT node, to_unix_timestamp(at), report FROM {keyspace}.node_statistics",
}


class CassandraStatisticsTable:
    """`StatisticsTable` on Cassandra."""

    def __init__(self, session: Session, keyspace: str, *, check: Callable[[], None] = lambda: None) -> None:
        """Take a session and the keyspace, quoted; `check` raises where they may not be used any more."""
        self._session = session
        self._check = check
        self._prepared = {name: session.prepare(query.format(keyspace=keyspace)) for name, query in _QUERIES.items()}

    def share(self, partition: int) -> Share | None:
        """Read one partition's share, serially."""
        self._check()
        found = read_serially(self._session, self._prepared["share"], (partition,), f"statistics of {partition}")
        return _share(found[0]) if found else None

    def shares(self, *, serially: bool) -> Sequence[Share]:
        """Read all shares, by partition."""
        self._check()
        prepared, doing = self._prepared, "the statistics"
        if serially:
            found = read_each_serially(self._session, prepared["partitions"], prepared["share"], doing)
            return [_share(row) for _, row in found]
        with translating(doing):
            return sorted(map(_share, self._session.execute(prepared["shares"])), key=lambda share: share.partition)

    def put(self, share: Share, before: Share | None) -> bool:
        """Replace `before` where it still stands; who reads back what it wanted has got what it wanted."""
        self._check()
        doing = f"the statistics of partition {share.partition}"
        if before is None:
            applied = apply(self._session, self._prepared["first"], (*share[:6], share.text()), doing)
        else:
            values = (*share[1:6], share.text(), share.partition, before.epoch, before.revision)
            applied = apply(self._session, self._prepared["next"], values, doing)
        if applied:
            return True
        # Nobody else writes with this epoch, so epoch and revision name the attempt.
        standing = self.share(share.partition)
        return standing is not None and standing[1:6] == share[1:6]

    def put_node(self, report: NodeReport) -> None:
        """Replace a worker's report; its stamp is its time, so an older one changes nothing."""
        self._check()
        values = (report.node, report.at, report.text(), NODE_TTL_S, report.at * 1000)
        with translating("a worker's report"):
            self._session.execute(self._prepared["put_node"], values)

    def nodes(self) -> Sequence[NodeReport]:
        """Read all workers' reports, by name."""
        self._check()
        with translating("the workers' reports"):
            rows = self._session.execute(self._prepared["nodes"])
            return sorted((NodeReport.of(*row) for row in rows), key=lambda report: report.node)


def _share(row: tuple[Any, ...]) -> Share:
    return Share.of(row[:6], row[6])
