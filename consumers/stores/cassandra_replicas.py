"""Which rows share their replicas, and which node to send them to: the driver's token map, reduced to that.

The driver's own policy would work both out again for each batch, at 10 µs; here it is one list for most clusters.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from cassandra.metadata import Metadata, TokenMap
from cassandra.pool import Host

from consumers.stores.cassandra_batches import Replicas, ReplicasOf


class Ring:
    """Follows the driver's token map; the groups are computed again only when it has changed."""

    def __init__(self, metadata: Metadata, keyspace: str, datacenter: str) -> None:
        self._metadata = metadata
        self._keyspace = keyspace
        self._datacenter = datacenter
        self._seen: Mapping[Any, Sequence[Host]] | None = None
        self._everywhere: Replicas = ()
        self._replicas_of: ReplicasOf | None = None
        self._turn = 0

    def replicas_of(self) -> ReplicasOf | None:
        """Return what names a routing key's replicas here; None where all rows have the same ones."""
        token_map = self._metadata.token_map
        if token_map is None or not token_map.ring:
            return None
        token_map.get_replicas(self._keyspace, token_map.ring[0])  # builds the keyspace's map where it is not there
        hosts = token_map.tokens_to_hosts_by_ks.get(self._keyspace) or {}
        if hosts is not self._seen:
            self._seen = hosts
            self._learn(token_map, hosts)
        return self._replicas_of

    def coordinator(self, replicas: Replicas | None) -> Host | None:
        """Return a replica that is up, another one each time; None where the driver must choose."""
        up = [host for host in (self._everywhere if replicas is None else replicas) if host.is_up]
        if not up:
            return None
        self._turn += 1
        return up[self._turn % len(up)]

    def _learn(self, token_map: TokenMap, hosts: Mapping[Any, Sequence[Host]]) -> None:
        ring = [token.value for token in token_map.ring]
        known: dict[frozenset[Host], Replicas] = {}
        groups: list[Replicas] = []
        for token in token_map.ring:
            here = [host for host in hosts.get(token, ()) if host.datacenter == self._datacenter]
            groups.append(known.setdefault(frozenset(here), tuple(here)))
        if len(known) == 1:
            self._everywhere, self._replicas_of = groups[0], None
            return
        token_of = token_map.token_class.hash_fn

        def replicas_of(routing_key: bytes) -> Replicas:
            # A token of the ring ends its range; what lies beyond the last belongs to the first.
            return groups[bisect_left(ring, token_of(routing_key)) % len(ring)]

        self._everywhere, self._replicas_of = (), replicas_of
