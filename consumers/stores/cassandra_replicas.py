"""Which rows share their replicas: the token map of the driver, reduced to what a batch needs."""

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from cassandra.metadata import Metadata, TokenMap

from consumers.stores.cassandra_batches import ReplicasOf


class Replicas:
    """Follows the driver's token map; groups are computed again only when it has changed."""

    def __init__(self, metadata: Metadata, keyspace: str, datacenter: str) -> None:
        self._metadata = metadata
        self._keyspace = keyspace
        self._datacenter = datacenter
        self._seen: Mapping[Any, Sequence[Any]] | None = None
        self._grouping: ReplicasOf | None = None

    def grouping(self) -> ReplicasOf | None:
        """Return what groups routing keys by their replicas here; None where all rows have the same ones."""
        token_map = self._metadata.token_map
        if token_map is None or not token_map.ring:
            return None
        token_map.get_replicas(self._keyspace, token_map.ring[0])  # builds the keyspace's map where it is not there
        replicas = token_map.tokens_to_hosts_by_ks.get(self._keyspace) or {}
        if replicas is not self._seen:
            self._seen = replicas
            self._grouping = self._group(token_map, replicas)
        return self._grouping

    def _group(self, token_map: TokenMap, replicas: Mapping[Any, Sequence[Any]]) -> ReplicasOf | None:
        ring = [token.value for token in token_map.ring]
        groups: list[Hashable] = [
            frozenset(host.endpoint for host in replicas.get(token, ()) if host.datacenter == self._datacenter)
            for token in token_map.ring
        ]
        if len(set(groups)) <= 1:
            return None
        token_of = token_map.token_class.hash_fn

        def replicas_of(routing_key: bytes) -> Hashable:
            # A token of the ring ends its range; what lies beyond the last belongs to the first.
            return groups[bisect_left(ring, token_of(routing_key)) % len(ring)]

        return replicas_of
