"""Prometheus metrics of a worker, read from its counters when they are asked for; needs the extra `metrics`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from consumers.counters import Counters
from consumers.errors import WorkerError

_GAUGES = {
    "lag_records": "Records that are in the log and not finished",
    "lag_s": "Seconds from the newest folded record's append to now, while records wait",
    "pending": "Deliveries in memory that wait for their receipt",
    "cached": "Message rows in memory",
    "low_water": "Offset below which every record is finished",
}


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
            family = CounterMetricFamily(f"twotick_{name}", f"Count of {name.replace('_', ' ')}", labels=labels)
            for reason, count in value.items() if isinstance(value, dict) else ((None, value),):
                family.add_metric([reason] if reason is not None else [], count)
            yield family
        partitions = self._status().get("details", ())
        for field, text in _GAUGES.items():
            name = f"twotick_partition_{field.removesuffix('_s')}{'_seconds' if field.endswith('_s') else ''}"
            gauge = GaugeMetricFamily(name, text, labels=["partition"])
            for each in partitions:
                gauge.add_metric([str(each["partition"])], each[field])
            yield gauge


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
        raise WorkerError(f"the metrics port {port} cannot be opened: {error}", "Set another metrics_port.") from None
