"""Prometheus metrics of a worker, read from its counters when they are asked for; needs the extra `metrics`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from consumers.counters import Counters
from consumers.errors import WorkerError

COUNTERS: Final[Mapping[str, str]] = {
    "answers": "Acknowledgements and ticks written into the inbox",
    "applied": "Events that changed a row",
    "claims_lost": "Claims of deliveries to a gateway that others had, or took over",
    "cold_reads": "Rows that had to be read from the store before a batch could be folded",
    "commit_errors": "Commits of positions that failed and were made again",
    "commits": "Commits of positions",
    "conflicts": "Events that were refused or noted because an id came again",
    "conflicts_by_kind": "Conflicts of every kind: where two wanted the same",
    "dead_letters": "Records written to the dead letters",
    "deliveries": "First deliveries written into the inbox",
    "duplicates": "Events that came again and were answered again",
    "events": "Records folded",
    "evictions": "Message rows put out of memory because there were too many",
    "expiries": "EXPIRE events written because a message's delivery time was over",
    "fenced_writes": "Writes that the store refused because a later owner has the partition",
    "gateway_calls": "Calls of the gateway to which deliveries are made",
    "gateway_delivered": "Deliveries that the gateway took",
    "gateway_given_up": "Deliveries that the gateway did not take in all attempts",
    "gateway_put_off": "Deliveries to the gateway that are tried again later",
    "kafka_errors": "Error events of the Kafka clients",
    "lease_losses": "Partitions dropped because another worker's lease is later",
    "lost_ranges": "Times that the log no longer held the position to go on from",
    "lost_records": "Records that nobody will fold because the log no longer holds them",
    "polls": "Times that records were asked for",
    "producer_rebuilds": "Times that the producer of answers had to be made anew",
    "redeliveries": "Deliveries made again because no receipt came",
    "refused": "Events and records that were refused",
    "republished": "Answers written again after the producer was made anew",
    "row_writes": "Rows written into the store, tried ones included",
    "skew_warnings": "Times that a partition began to take too much of the load",
    "spilled": "Deliveries moved from memory into the store",
    "stale": "Events that came too late to change anything",
    "store_errors": "Calls of the store that failed",
    "takeovers": "Partitions taken",
    "version_conflicts": "Rows that someone else had written; read and folded again",
    "warm_ups": "Records folded again only to fill the memory after a takeover",
}
"""What each of `Counters` says; its metric is `twotick_<name>_total`."""
PARTITION_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "lag_records": ("twotick_partition_lag_records", "Records that are in the log and not finished"),
    "lag_s": (
        "twotick_partition_lag_seconds",
        "Seconds since the newest folded record was appended, or since none waited; 0 while none waits",
    ),
    "pending": ("twotick_partition_pending", "Deliveries in memory that wait for their receipt"),
    "cached": ("twotick_partition_cached", "Message rows in memory"),
    "low_water": ("twotick_partition_low_water", "Offset below which every record is finished"),
}
"""By the field of a partition in a worker's status: the metric, labelled by partition, and what it says."""
CONFIG_VERSION: Final = ("twotick_config_version", "Version of the hot configuration that the worker runs")


def metric_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield (metric, type, labels, what it says) of all metrics, for the documentation."""
    for name, text in COUNTERS.items():
        yield f"twotick_{name}_total", "counter", Counters.LABELS.get(name, ""), text
    for name, text in PARTITION_GAUGES.values():
        yield name, "gauge", "partition", text
    yield CONFIG_VERSION[0], "gauge", "", CONFIG_VERSION[1]


class WorkerCollector:
    """Turns counters and status into metric families."""

    def __init__(self, counters: Counters, status: Callable[[], Mapping[str, Any]]) -> None:
        self._counters = counters
        self._status = status

    def collect(self) -> Iterator[Any]:
        """Yield the families; a label is a reason or a partition, never an id."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - an optional extra

        for name, value in self._counters.as_dict().items():
            labels = [Counters.LABELS[name]] if name in Counters.LABELS else []
            family = CounterMetricFamily(f"twotick_{name}", COUNTERS[name], labels=labels)
            for reason, count in value.items() if isinstance(value, dict) else ((None, value),):
                family.add_metric([reason] if reason is not None else [], count)
            yield family
        status = self._status()
        for field, (name, text) in PARTITION_GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["partition"])
            for each in status.get("details", ()):
                gauge.add_metric([str(each["partition"])], each[field])
            yield gauge
        yield GaugeMetricFamily(*CONFIG_VERSION, value=status.get("config_version", 0))


def serve_metrics(port: int, counters: Counters, status: Callable[[], Mapping[str, Any]]) -> None:
    """Serve a worker's metrics on a port, from a thread of its own.

    Raises WorkerError where the extra is not installed or the port is taken.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise WorkerError("metrics need the package prometheus-client", "Install twotick[metrics].") from None
    registry = CollectorRegistry()
    registry.register(WorkerCollector(counters, status))
    try:
        start_http_server(port, registry=registry)
    except OSError as error:
        raise WorkerError(
            f"the metrics port {port} cannot be opened: {error}", "Set another worker.metrics_port."
        ) from None
