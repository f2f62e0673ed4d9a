"""Real Kafka and Cassandra on this machine, as plain processes from Maven jars; see `LocalStack`."""

from compose.stacks.local.node import LocalSettings
from compose.stacks.local.stack import LocalStack, ServerState, ServerStatus, StackAddresses, default_data_folder

__all__ = ["LocalSettings", "LocalStack", "ServerState", "ServerStatus", "StackAddresses", "default_data_folder"]
