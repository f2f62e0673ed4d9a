"""The local servers' configuration: loopback everywhere, and what the rest of the project relies on."""

from pathlib import Path

from compose.stacks.local.cassandra import CassandraNode, cassandra_yaml
from compose.stacks.local.jars import Java
from compose.stacks.local.kafka import KafkaNode, server_properties
from compose.stacks.local.node import NodePlace

JAVA = Java("/opt/java/bin/java", 17)


def test_kafka_listens_on_loopback_only():
    settings = server_properties(broker_port=21001, controller_port=21002, data_folder=Path("/data"))
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:21001,CONTROLLER://127.0.0.1:21002"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:21001"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:21002"


def test_kafka_offers_both_group_protocols_and_makes_no_topics_by_accident():
    settings = server_properties(broker_port=1, controller_port=2, data_folder=Path("/data"))
    assert settings["group.coordinator.rebalance.protocols"] == "classic,consumer"
    assert settings["auto.create.topics.enable"] == "false"
    assert settings["offsets.topic.replication.factor"] == "1"


def test_cassandra_listens_on_loopback_only():
    settings = cassandra_yaml(native_port=1, storage_port=2, data_folder=Path("/data"), commitlog_sync="batch")
    assert settings["listen_address"] == settings["rpc_address"] == "127.0.0.1"
    assert settings["seed_provider"][0]["parameters"] == [{"seeds": "127.0.0.1:2"}]
    assert settings["paxos_variant"] == "v2"


def test_cassandra_takes_a_sync_period_only_where_it_has_one():
    batch = cassandra_yaml(native_port=1, storage_port=2, data_folder=Path("/data"), commitlog_sync="batch")
    periodic = cassandra_yaml(native_port=1, storage_port=2, data_folder=Path("/data"), commitlog_sync="periodic")
    assert "commitlog_sync_period" not in batch
    assert periodic["commitlog_sync_period"] == "10000ms"


def test_a_kafka_node_keeps_to_its_own_folder(tmp_path):
    node = KafkaNode(NodePlace(tmp_path, {"broker": 21001, "controller": 21002}), "cluster", heap_mib=384)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()  # formatted, so that no Java is needed here
    node.prepare(JAVA, "/jars/*")
    command = node.command(JAVA, "/jars/*")
    assert command[0] == JAVA.path
    assert "-Xmx384m" in command
    assert command[-1] == str(tmp_path / "server.properties")
    assert f"log.dirs={tmp_path / 'data'}\n" in (tmp_path / "server.properties").read_text()
    assert node.address == "127.0.0.1:21001"


def test_a_cassandra_node_keeps_to_its_own_folder_and_ports(tmp_path):
    place = NodePlace(tmp_path, {"native": 22001, "storage": 22002, "jmx": 22003})
    node = CassandraNode(place, heap_mib=768, commitlog_sync="batch")
    node.prepare(JAVA, "/jars/*")
    command = node.command(JAVA, "/jars/*")
    assert "-Dcassandra.jmx.local.port=22003" in command
    assert f"-Dcassandra.config={(tmp_path / 'cassandra.yaml').as_uri()}" in command
    assert '"native_transport_port": 22001' in (tmp_path / "cassandra.yaml").read_text()
    assert node.address == "127.0.0.1:22001"
