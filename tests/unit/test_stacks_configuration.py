"""The local servers' configuration: loopback everywhere, and what the rest of the project relies on."""

from pathlib import Path

import pytest

from compose.stacks.errors import StackError
from compose.stacks.local.cassandra import CassandraNode, cassandra_yaml
from compose.stacks.local.jars import Java
from compose.stacks.local.kafka import KafkaNode, server_properties
from compose.stacks.local.members import members, waves
from compose.stacks.local.node import LocalSettings, NodePlace

JAVA = Java("/opt/java/bin/java", 17)


def yaml_of(**some):
    told = {"host": "127.0.0.1", "native_port": 1, "storage_port": 2, "commitlog_sync": "batch"}
    return cassandra_yaml(**told | some, data_folder=Path("/data"))


def test_kafka_listens_on_loopback_only():
    settings = server_properties(
        number=1, broker_port=21001, controllers={1: "127.0.0.1:21002"}, data_folder=Path("/data")
    )
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:21001,CONTROLLER://127.0.0.1:21002"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:21001"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:21002"


def test_kafka_offers_both_group_protocols_and_makes_no_topics_by_accident():
    settings = server_properties(number=1, broker_port=1, controllers={1: "x:2"}, data_folder=Path("/data"))
    assert settings["group.coordinator.rebalance.protocols"] == "classic,consumer"
    assert settings["auto.create.topics.enable"] == "false"
    # Brokers refuse to start with a session shorter than the least that they allow.
    for name in ("session.timeout", "heartbeat.interval"):
        assert int(settings[f"group.consumer.min.{name}.ms"]) <= int(settings[f"group.consumer.{name}.ms"])
    assert settings["offsets.topic.replication.factor"] == "1"


def test_cassandra_listens_on_loopback_only():
    settings = yaml_of(host="127.0.0.1")
    assert settings["listen_address"] == settings["rpc_address"] == "127.0.0.1"
    assert settings["seed_provider"][0]["parameters"] == [{"seeds": "127.0.0.1:2"}]
    assert settings["paxos_variant"] == "v2"


def test_cassandra_takes_a_sync_period_only_where_it_has_one():
    batch = yaml_of(commitlog_sync="batch")
    periodic = yaml_of(commitlog_sync="periodic")
    assert "commitlog_sync_period" not in batch
    assert periodic["commitlog_sync_period"] == "10000ms"


def test_a_kafka_node_keeps_to_its_own_folder(tmp_path):
    place = NodePlace("kafka", "127.0.0.1", tmp_path, {"broker": 21001, "controller": 21002})
    node = KafkaNode(place, "cluster", heap_mib=384, number=1, controllers={1: "127.0.0.1:21002"})
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
    place = NodePlace("cassandra", "127.0.0.1", tmp_path, {"native": 22001, "storage": 22002, "jmx": 22003})
    node = CassandraNode(place, heap_mib=768, commitlog_sync="batch", nodes=1)
    node.prepare(JAVA, "/jars/*")
    command = node.command(JAVA, "/jars/*")
    assert "-Dcassandra.jmx.local.port=22003" in command
    assert f"-Dcassandra.config={(tmp_path / 'cassandra.yaml').as_uri()}" in command
    assert '"native_transport_port": 22001' in (tmp_path / "cassandra.yaml").read_text()
    assert node.address == "127.0.0.1:22001"


def test_a_kafka_cluster_acknowledges_what_two_of_three_have():
    controllers = {1: "127.0.0.1:1", 2: "127.0.0.1:2", 3: "127.0.0.1:3"}
    settings = server_properties(number=2, broker_port=9, controllers=controllers, data_folder=Path("/data"))
    assert settings["node.id"] == "2"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3"
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:9,CONTROLLER://127.0.0.1:2"
    assert (settings["offsets.topic.replication.factor"], settings["min.insync.replicas"]) == ("3", "2")


def test_a_cassandra_node_of_a_cluster_has_an_address_of_its_own_and_the_first_as_its_seed():
    settings = yaml_of(host="127.0.0.3")
    assert settings["listen_address"] == settings["rpc_address"] == "127.0.0.3"
    assert settings["seed_provider"][0]["parameters"] == [{"seeds": "127.0.0.1:2"}]


def test_java_reads_the_name_of_any_folder_out_of_the_settings_of_kafka(tmp_path):
    place = NodePlace("kafka", "127.0.0.1", tmp_path / "née 🎂 \\", {"broker": 1, "controller": 2})
    (place.folder / "data").mkdir(parents=True)
    (place.folder / "data" / "meta.properties").touch()  # else it would be formatted
    KafkaNode(place, "id", 128, 1, {1: "127.0.0.1:2"}).prepare(JAVA, "/jars/*")
    read = (place.folder / "server.properties").read_text("iso-8859-1")  # as java.util.Properties does
    assert f"log.dirs={tmp_path}/n\\u00e9e \\ud83c\\udf82 \\\\/data\n" in read


def test_a_folder_that_kafka_would_take_for_two_is_refused(tmp_path):
    place = NodePlace("kafka", "127.0.0.1", tmp_path / "a,b", {"broker": 1, "controller": 2})
    with pytest.raises(StackError, match="comma") as raised:
        KafkaNode(place, "id", 128, 1, {1: "127.0.0.1:2"}).prepare(JAVA, "/jars/*")
    assert "stack.folder" in raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_the_servers_of_a_cluster_have_numbers_and_cassandra_joins_one_by_one():
    alone, cluster = LocalSettings(), LocalSettings(kafka_nodes=3, cassandra_nodes=3)
    assert [member.name for member in members(alone)] == ["kafka", "cassandra"]
    assert [member.host for member in members(cluster)][3:] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert [[member.name for member in wave] for wave in waves(cluster)] == [
        ["kafka-1", "kafka-2", "kafka-3", "cassandra-1"],
        ["cassandra-2"],
        ["cassandra-3"],
    ]
    with pytest.raises(ValueError, match="from 1 to 9"):
        LocalSettings(kafka_nodes=0)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_wait_for_a_server_has_an_end(wrong):
    with pytest.raises(ValueError, match="start_timeout_s must be above 0"):
        LocalSettings(start_timeout_s=wrong)


@pytest.mark.parametrize("wrong", [{"kafka_port": 70_000}, {"cassandra_port": -1}])
def test_a_port_that_no_machine_has_is_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be from 0 to 65535"):
        LocalSettings(**wrong)
