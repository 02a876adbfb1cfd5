"""Schedules: statistics read single blocks, pairs of blocks, or all blocks for each target block."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from calibdask.statistics.pairs.pair_statistic import PairStatistic
from calibdask.statistics.pairs.target_reduction import TargetReduction
from calibdask.statistics.statistic import Statistic


@dataclass
class Schedule:
    """Statistics by the blocks that they are shown; see `calibdask.statistics.statistic.Statistic.add_to`."""

    blocks: list[Statistic[Any]] = field(default_factory=list)
    pairs: list[PairStatistic[Any]] = field(default_factory=list)
    targets: list[TargetReduction[Any, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, statistics: Iterable[Statistic[Any]]) -> "Schedule":
        """The schedule of these statistics."""
        schedule = cls()
        for statistic in statistics:
            statistic.add_to(schedule)
        return schedule
