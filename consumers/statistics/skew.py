"""Whether the load is spread over the partitions: pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from consumers.statistics.contract import STALE_MS, Share

EVENTS_PER_S_MIN: Final = 10.0
"""Of all partitions together; below it a few events more here than there mean nothing."""
_EVEN_FACTOR: Final = 1.5


def load_shares(shares: Iterable[Share], now_ms: int) -> Mapping[int, float]:
    """Return each partition's part (0 to 1) of all events a second; empty where there is next to no traffic."""
    rates = {share.partition: share.events_per_s for share in shares if now_ms - share.at <= STALE_MS}
    total = sum(rates.values())
    if total < EVENTS_PER_S_MIN:
        return {}
    return {partition: rate / total for partition, rate in rates.items()}


def skewed(loads: Mapping[int, float], share_max: float, partitions: int) -> Mapping[int, float]:
    """Return the partitions that take more than `share_max`, and clearly more than an even spread would give them."""
    limit = max(share_max, _EVEN_FACTOR / partitions)
    return {partition: load for partition, load in loads.items() if load > limit}
