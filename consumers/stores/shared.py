"""What nodes share in a store beside messages: all of it may be used from any thread."""

from typing import NamedTuple

from consumers.claims.contract import ClaimTable
from consumers.hot.contract import ConfigTable
from consumers.locks.contract import LockTable
from consumers.statistics.contract import StatisticsTable


class Shared(NamedTuple):
    """The shared tables of one open store; they end with it."""

    locks: LockTable
    config: ConfigTable
    statistics: StatisticsTable
    claims: ClaimTable
