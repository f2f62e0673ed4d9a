"""What a deployment can set on its workers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from consumers.addresses import PORT_MAX, check_url
from consumers.fold import Policy
from consumers.partition_rows import OwnerSettings
from consumers.redelivery import Schedule
from schemas.identity import USER_ID_BYTES_MAX, check_id

_LEAST: Final[Mapping[int, tuple[str, ...]]] = {
    0: ("drain_timeout_s", "grace_s", "broker_clock_skew_ms", "conflicts_per_minute_max", "metrics_port"),
    1: (
        "batch_records_max",
        "records_in_flight_max",
        "pending_max",
        "cached_messages_max",
        "cached_conversations_max",
        "redrive_attempts_max",
    ),
    2: ("tail_records",),
}
"""Bound to the settings that must not be below it."""
_ABOVE_0: Final = (
    "session_timeout_s",
    "poll_interval_s_max",
    "in_flight_s_max",
    "commit_interval_s",
    "lease_check_s",
    "stall_s",
    "watchdog_s",
    "retry_first_s",
    "retry_s_max",
    "status_interval_s",
    "shared_poll_s",
    "statistics_interval_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """A worker's settings; the defaults suit a deployment of a few nodes."""

    group: str = "twotick"
    """Consumer group; all workers of a deployment share it."""
    node: str = ""
    """Name of this machine in leases, rows and logs; empty: its host name."""
    protocol: Literal["classic", "consumer"] = "classic"
    """Group protocol: `classic` with cooperative-sticky assignment, or `consumer` (KIP-848, Kafka 4)."""
    static_members: bool = True
    """Whether workers keep their partitions over a restart: member ids are made of node and slot (KIP-345)."""
    session_timeout_s: float = 45.0
    """After this long without a sign of life a worker's partitions go to others; classic protocol only. Under KIP-848
    the brokers decide, with `group.consumer.session.timeout.ms` (45 s, which is also its least unless
    `group.consumer.min.session.timeout.ms` says less)."""
    poll_interval_s_max: float = 300.0
    """After this long without a poll a worker is expelled from the group."""
    batch_records_max: int = 1_000
    """Records taken from Kafka at a time; up to four times as many of one partition are folded and written together."""
    records_in_flight_max: int = 16_000
    """Records that may be unfinished before no more is read."""
    in_flight_s_max: float = 1.0
    """Nor more than are finished in this time at the speed of late, but two batches at least: what comes in waits
    behind them, so a busy partition holds up the others no longer than this."""
    commit_interval_s: float = 1.0
    """How often positions are committed."""
    lease_check_s: float = 10.0
    """How often a worker makes sure that its leases are still its own."""
    stall_s: float = 5.0
    """A worker that stood still for longer checks its leases before it does anything else."""
    watchdog_s: float = 120.0
    """A worker with records waiting that finishes none for so long, though no server is down, ends."""
    drain_timeout_s: float = 20.0
    """How long a revoke or a stop may take to finish the batches that have begun."""
    on_lost_range: Literal["stop", "earliest"] = "stop"
    """When the log no longer holds the committed position: stop, or go on at the earliest record there is."""
    allow_new_topic: bool = False
    """Whether an events topic that was made anew is accepted as the next generation without `twotick migrate`."""
    topic_identity: str = ""
    """What tells this events topic from another of its name; empty: the topic's id as the brokers tell it."""
    log_append_time_required: bool = True
    """Whether to refuse a topic whose brokers do not stamp records; false only for the embedded broker."""
    retry_first_s: float = 0.2
    """First wait after a server did not answer; it doubles each time."""
    retry_s_max: float = 10.0
    """Longest wait after a server did not answer."""
    tail_records: int = 20_000
    """How far before the committed position a new owner starts to read, to know what its predecessor knew."""
    grace_s: int = 120
    """How long an unanswered delivery waits in memory before it is kept in the store."""
    pending_max: int = 200_000
    """Unanswered deliveries kept in memory, per worker."""
    cached_messages_max: int = 100_000
    """Message rows kept in memory, per worker."""
    cached_conversations_max: int = 200_000
    """Conversations kept in memory, per worker."""
    broker_clock_skew_ms: int = 1_000
    """How far the brokers' clocks may differ."""
    status_interval_s: float = 2.0
    """How often the status file is written."""
    status_folder: Path | None = None
    """Where workers keep their status files; unset: nowhere."""
    metrics_port: int = 0
    """Prometheus port of the first worker, the others follow; 0: none."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of the log lines on standard error."""
    shared_poll_s: float = 1.0
    """How often a worker looks whether the hot configuration has changed or the statistics are asked for."""
    statistics_interval_s: float = 10.0
    """How often a worker writes its partitions' shares of the statistics unasked."""
    conflicts_per_minute_max: float = 60.0
    """More conflicts than this in a minute are logged as an alert, once an episode; 0: never."""
    alert_webhook: str = ""
    """A URL that is told of each such episode with one POST of JSON; empty: none."""
    partition_share_max: float = 0.5
    """A partition that takes more than this share of all events is warned about."""
    redrive_attempts_max: int = 5
    """A record that has been among the dead letters so often is not redriven without --force."""
    operators: tuple[str, ...] = ()
    """Who may park and release conversations, by the names that `twotick dead-letters park` puts into the log:
    `user@host` of the shell, or its --operator. Nobody by default. A PARK or a RELEASE of anybody else is a dead
    letter. The same on every worker. Names are as true as the writers of the events topic are: who may write to it at
    all is for Kafka's ACLs."""
    policy: Policy = field(default_factory=Policy)
    """Limits that are part of the fold: the same on every worker of a deployment."""
    schedule: Schedule = field(default_factory=Schedule)
    """How often an unanswered delivery is repeated."""

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises ValueError."""
        if not self.group:
            raise ValueError("group is empty")
        for bound, names in _LEAST.items():
            for name in names:
                # Said so that nan, which is neither above nor below, is refused too.
                if not bound <= getattr(self, name) < math.inf:
                    raise ValueError(f"{name} is {getattr(self, name)}, it must be at least {bound:g}")
        for name in _ABOVE_0:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be above 0")
        if not 0 < self.partition_share_max <= 1:
            raise ValueError(f"partition_share_max is {self.partition_share_max}, it must be above 0 and at most 1")
        if self.metrics_port > PORT_MAX:
            raise ValueError(f"metrics_port is {self.metrics_port}, ports end at {PORT_MAX}")
        self._check_pairs()
        self._check_texts()

    def _check_texts(self) -> None:
        for name in self.operators:
            check_id(name, "an operator", USER_ID_BYTES_MAX)
        if self.alert_webhook:
            check_url("alert_webhook", self.alert_webhook)

    def _check_pairs(self) -> None:
        if self.retry_first_s > self.retry_s_max:
            raise ValueError("retry_first_s must not be above retry_s_max")
        if self.protocol == "classic" and self.session_timeout_s > self.poll_interval_s_max:
            raise ValueError("session_timeout_s must not be above poll_interval_s_max")
        # As-of questions go back over what is not committed, of which one batch may come on top, and over the tail.
        asked_back = self.tail_records + self.records_in_flight_max + self.batch_records_max
        if asked_back >= self.policy.block_window_offsets:
            raise ValueError(
                f"tail_records + records_in_flight_max + batch_records_max are {asked_back}, they must be below "
                f"policy.block_window_offsets ({self.policy.block_window_offsets})"
            )

    def owner_settings(self, partitions: int) -> OwnerSettings:
        """Return what each partition's owner is told; `partitions` is the events topic's count."""
        return OwnerSettings(
            partitions=partitions,
            policy=self.policy,
            schedule=self.schedule,
            broker_clock_skew_ms=self.broker_clock_skew_ms,
            tail_records=self.tail_records,
            grace_s=self.grace_s,
            pending_max=self.pending_max,
            messages_max=self.cached_messages_max,
            conversations_max=self.cached_conversations_max,
        )
