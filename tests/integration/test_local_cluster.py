"""Three Kafka brokers and three Cassandra nodes: each can be killed alone, and what was acknowledged stays.

These tests kill servers, so they have a stack of their own.
"""

import signal
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compose.stacks.errors import ToolMissingError
from compose.stacks.local import LocalSettings, LocalStack, ServerState
from tests.integration.deployment import until
from tests.missing import missing

pytestmark = [pytest.mark.cluster, pytest.mark.local_stack, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = LocalSettings(kafka_nodes=3, cassandra_nodes=3, kafka_heap_mib=192, cassandra_heap_mib=320)
RECORDS = 300


def no_progress(_line):
    pass


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    stack = LocalStack(tmp_path_factory.mktemp("cluster"), SETTINGS)
    try:
        stack.up(no_progress)
        yield stack
    except ToolMissingError as error:
        missing("local_stack", error.message)
    finally:
        stack.down(remove_data=True)


def states(stack):
    return {status.name: status.state for status in stack.status()}


def test_all_nodes_are_up_and_named(cluster):
    assert states(cluster) == {
        f"{kind}-{number}": ServerState.RUNNING for kind in ("kafka", "cassandra") for number in (1, 2, 3)
    }
    assert cluster.is_running()
    addresses = cluster.addresses()
    assert len(addresses.kafka_bootstrap_servers.split(",")) == 3
    assert addresses.cassandra_contact_points == ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def test_records_acknowledged_while_one_broker_is_killed_are_all_there(cluster):
    common: dict[str, Any] = {"bootstrap.servers": cluster.addresses().kafka_bootstrap_servers}
    config = {"min.insync.replicas": "2"}
    admin = AdminClient(common)
    admin.create_topics([NewTopic("survival", 1, 3, config=config)])["survival"].result(30)
    producer = Producer({**common, "enable.idempotence": True, "acks": "all"})
    confirmed = []
    for number in range(RECORDS):
        producer.produce("survival", str(number), on_delivery=lambda error, _: confirmed.append(error))
        if number == RECORDS // 3:
            assert producer.flush(30) == 0
            cluster.kill("kafka-2")
    assert producer.flush(90) == 0
    assert confirmed == [None] * RECORDS
    cluster.start("kafka-2")
    reader = Consumer({**common, "group.id": "survival", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition("survival", 0, 0)])
    kept = [int(message.value()) for message in reader.consume(RECORDS, timeout=60)]
    reader.close()
    assert kept == list(range(RECORDS))


def test_rows_written_at_a_quorum_while_one_node_is_gone_are_all_there(cluster):
    from cassandra import ConsistencyLevel  # noqa: PLC0415 - an optional extra
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile  # noqa: PLC0415
    from cassandra.policies import DCAwareRoundRobinPolicy  # noqa: PLC0415

    addresses = cluster.addresses()
    profile = ExecutionProfile(
        load_balancing_policy=DCAwareRoundRobinPolicy(local_dc=addresses.cassandra_datacenter),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        request_timeout=30,
    )
    driver = Cluster(
        list(addresses.cassandra_contact_points),
        port=addresses.cassandra_port,
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
    )
    try:
        session = driver.connect()
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS survival "
            "WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}"
        )
        session.execute("CREATE TABLE survival.writes (id int PRIMARY KEY)")
        insert = session.prepare("INSERT INTO survival.writes (id) VALUES (?)")
        insert.is_idempotent = True
        session.execute(insert, (0,))
        cluster.kill("cassandra-3", signal.SIGKILL)
        for number in range(1, RECORDS):
            session.execute(insert, (number,))
        cluster.start("cassandra-3")
        cluster.kill("cassandra-1")
        # Not read a second time: until the others know that it is gone, every other read still waits for that node.
        until(lambda: rows(session) == set(range(RECORDS)), "a quorum of the others has all", timeout_s=90.0)
    finally:
        driver.shutdown()
        cluster.up(no_progress)


def rows(session):
    from cassandra import OperationTimedOut, RequestExecutionException  # noqa: PLC0415
    from cassandra.cluster import NoHostAvailable  # noqa: PLC0415

    try:
        return {row.id for row in session.execute("SELECT id FROM survival.writes")}
    except (NoHostAvailable, OperationTimedOut, RequestExecutionException):
        return set()


def test_a_killed_node_is_seen_and_mended(cluster):
    cluster.kill("kafka-3")
    assert states(cluster)["kafka-3"] is ServerState.DIED
    assert not cluster.is_running()
    assert cluster.addresses_until_down() == cluster.addresses()
    cluster.up(no_progress)
    assert set(states(cluster).values()) == {ServerState.RUNNING}
