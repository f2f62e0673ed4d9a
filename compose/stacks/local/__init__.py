"""Real Kafka and Cassandra on this machine, as plain processes from Maven jars; see `LocalStack`."""

from compose.stacks.local.node import LocalSettings
from compose.stacks.local.stack import LocalStack, default_data_folder
from compose.stacks.local.status import ServerState, ServerStatus, StackAddresses

__all__ = ["LocalSettings", "LocalStack", "ServerState", "ServerStatus", "StackAddresses", "default_data_folder"]
