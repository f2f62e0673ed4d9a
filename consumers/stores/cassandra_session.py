"""One connection pool to Cassandra, set up once: policies, consistency, time-outs.

Nothing is retried and nothing is sent twice: the worker writes a failed batch again whole, and knows when. The default
client timestamp is off, because every statement of these tables says its own (`USING TIMESTAMP`) or is conditional.
"""

import ssl
from typing import Any, Final

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, ProtocolVersion, Session
from cassandra.metadata import protect_name
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import tuple_factory

from consumers.stores.cassandra_errors import translating
from consumers.stores.settings import CassandraSettings

SERIAL: Final = "serial"
"""The execution profile of serial reads."""


def open_cluster(settings: CassandraSettings) -> Cluster:
    """Return a cluster that is not connected yet."""
    options: dict[str, Any] = {}
    if settings.username:
        options["auth_provider"] = PlainTextAuthProvider(settings.username, settings.password)
    if settings.ca_file is not None:
        options["ssl_context"] = ssl.create_default_context(cafile=str(settings.ca_file))
    return Cluster(
        list(settings.contact_points),
        port=settings.port,
        # Not v5: nothing of it is needed, and checksumming its frames in Python costs 15 µs a batch.
        protocol_version=ProtocolVersion.V4,
        compression=False,
        connect_timeout=settings.connect_timeout_s,
        execution_profiles={
            EXEC_PROFILE_DEFAULT: _profile(settings, ConsistencyLevel.LOCAL_QUORUM),
            SERIAL: _profile(settings, ConsistencyLevel.LOCAL_SERIAL),
        },
        reconnection_policy=ExponentialReconnectionPolicy(base_delay=0.5, max_delay=10.0),
        **options,
    )


def _profile(settings: CassandraSettings, consistency: int) -> ExecutionProfile:
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=settings.datacenter)),
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=consistency,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=settings.request_timeout_s,
        row_factory=tuple_factory,
    )


def connect(cluster: Cluster, doing: str = "a connection") -> Session:
    """Connect, without a keyspace. Raises StoreUnavailableError, StoreRefusedError; then the cluster is shut down."""
    try:
        with translating(doing):
            session = cluster.connect()
    except BaseException:
        cluster.shutdown()
        raise
    session.use_client_timestamp = False
    return session


def quoted(keyspace: str) -> str:
    """Return a keyspace's name as CQL takes it."""
    return str(protect_name(keyspace))
