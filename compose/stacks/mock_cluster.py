"""librdkafka's mock cluster, reached through its C API in the library that confluent-kafka loads anyway.

The property `test.mock.num.brokers` starts the same cluster, but every topic then has four partitions and a consumer
group waits three seconds for its first member. The C API (rdkafka_mock.h) can set both, and can act out faults.
"""

import ctypes
from ctypes import c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p

from confluent_kafka import cimpl

from compose.stacks.errors import StackError

_BROKER_ID = 1
_PRODUCER = 0
_ERROR_BYTES = 512
_LOG_ERRORS_ONLY = b"3"

# name: (result, arguments), as in rdkafka.h and rdkafka_mock.h
_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "rd_kafka_conf_new": (c_void_p, []),
    "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "rd_kafka_destroy": (None, [c_void_p]),
    "rd_kafka_err2str": (c_char_p, [c_int]),
    "rd_kafka_mock_cluster_new": (c_void_p, [c_void_p, c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [c_void_p]),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, [c_void_p]),
    "rd_kafka_mock_topic_create": (c_int, [c_void_p, c_char_p, c_int, c_int]),
    "rd_kafka_mock_partition_delete_records": (c_int, [c_void_p, c_char_p, c_int32, c_int64]),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [c_void_p, c_int32]),
    "rd_kafka_mock_set_group_consumer_heartbeat_interval_ms": (None, [c_void_p, c_int]),
    "rd_kafka_mock_set_group_consumer_session_timeout_ms": (None, [c_void_p, c_int]),
    "rd_kafka_mock_broker_set_down": (c_int, [c_void_p, c_int32]),
    "rd_kafka_mock_broker_set_up": (c_int, [c_void_p, c_int32]),
}


class MockCluster:
    """A running mock cluster of one broker; `close` ends it and its records.

    Raises StackError if librdkafka does not offer the mock API or refuses a call.
    """

    def __init__(self) -> None:
        self._library = _load_library()
        self._handle = self._new_handle()
        self._cluster: int | None = self._library.rd_kafka_mock_cluster_new(self._handle, 1)
        if not self._cluster:
            self._library.rd_kafka_destroy(self._handle)
            raise StackError(
                "librdkafka could not start its mock cluster", hint="see its message above", retriable=True
            )

    @property
    def bootstrap_servers(self) -> str:
        """Host and port on loopback; other processes may connect too."""
        address: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return address.decode("ascii")

    def create_topic(self, name: str, partitions: int) -> None:
        """Create an empty topic; raises StackError if it exists."""
        self._check(self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1), name)

    def drop_records(self, topic: str, partition: int, *, before_offset: int) -> None:
        """Delete the records of a partition below `before_offset`, as retention would."""
        code = self._library.rd_kafka_mock_partition_delete_records(
            self._cluster, topic.encode(), partition, before_offset
        )
        self._check(code, f"{topic} [{partition}]")

    def set_group_timing(self, *, heartbeat_ms: int, session_timeout_ms: int) -> None:
        """Set the heartbeat and time-out of KIP-848 groups; a classic group's first member waits for no other."""
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
        self._library.rd_kafka_mock_set_group_consumer_heartbeat_interval_ms(self._cluster, heartbeat_ms)
        self._library.rd_kafka_mock_set_group_consumer_session_timeout_ms(self._cluster, session_timeout_ms)

    def set_broker_up(self, *, up: bool) -> None:
        """Cut the broker off (connections close, new ones are refused) or let it come back with all its records."""
        act = self._library.rd_kafka_mock_broker_set_up if up else self._library.rd_kafka_mock_broker_set_down
        self._check(act(self._cluster, _BROKER_ID), "broker")

    def close(self) -> None:
        """End the cluster; a second call does nothing."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._handle)
            self._cluster = None

    def _new_handle(self) -> int:
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        settings = self._library.rd_kafka_conf_new()
        # Or it warns that this client, which exists to host the cluster, has no servers to connect to.
        self._library.rd_kafka_conf_set(settings, b"log_level", _LOG_ERRORS_ONLY, error, _ERROR_BYTES)
        handle: int | None = self._library.rd_kafka_new(_PRODUCER, settings, error, _ERROR_BYTES)
        if not handle:
            raise StackError(f"librdkafka gave no handle: {error.value.decode()}", hint="retry", retriable=True)
        return handle

    def _check(self, code: int, what: str) -> None:
        if code:
            text: bytes = self._library.rd_kafka_err2str(code)
            raise StackError(f"mock cluster, {what}: {text.decode()}", hint="see `what it is not` in embedded.py")


def _load_library() -> ctypes.CDLL:
    # Looking a name up in the extension module also looks in the libraries it was linked with, so librdkafka is found
    # wherever the wheel put it, and never loaded a second time.
    library = ctypes.CDLL(cimpl.__file__)
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        hint = "install a wheel of confluent-kafka 2.12 or later, or use another stack"
        raise StackError(f"this librdkafka has no mock API: {error}", hint=hint) from error
    return library
