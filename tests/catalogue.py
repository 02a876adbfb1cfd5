"""Every statistic once or more: the law and the storage tests run over this list. A new statistic joins it."""

from collections.abc import Callable

import numpy as np

from calibdask.statistics.actions import ActedCells, FrequencyMap
from calibdask.statistics.binned import BinSums
from calibdask.statistics.binnings import Explicit, Uniform
from calibdask.statistics.cells import CellSums, UniformCells
from calibdask.statistics.counts import RowCount
from calibdask.statistics.edges import Edges
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.grid import Grid, GridHistogram, support
from calibdask.statistics.layout import Layout
from calibdask.statistics.medians import SetKeys
from calibdask.statistics.ranks import KeyCounts, WindowCounts
from calibdask.statistics.scores import ScoreSums
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.tree import Tree, planted
from calibdask.statistics.validity import Validity

SETTINGS = (Setting("class", 1), Setting("classwise"), Setting("confidence"), Setting("top-k", 2))


def finished(asking: object) -> Edges:
    """Edges of a binning that asks for nothing."""
    try:
        next(asking)  # type: ignore[call-overload]
    except StopIteration as stop:
        return stop.value
    raise AssertionError("this binning asks for data")


def windows(setting: Setting, layout: Layout) -> WindowCounts:
    """Two windows in every place, one of them with cells of many keys."""
    keys = np.array([0.1, 0.3, 0.5, 0.9]).view(np.int64)
    shape = (layout.batch, layout.groups, setting.columns(layout.classes), 1)
    low, high, shift = (np.tile(a, shape) for a in ([keys[0], keys[2]], [keys[1], keys[3]], [0, 40]))
    return WindowCounts(setting, FrozenArray(low), FrozenArray(high), FrozenArray(shift))


def grown(layout: Layout) -> Tree:
    """A tree in which every set is split at 0.3, the left part is final and the right one is split again."""
    tree = planted(layout)
    for step, threshold in ((1, 0.3), (2, 0.6)):
        sets = np.arange(step - 1, tree.sets, step)
        tree = tree.split(sets, np.full(sets.size, step - 1), np.full(sets.size, threshold))
    return tree


def set_keys(tree: Tree) -> SetKeys:
    """Windows, of single keys and of cells of many, in all sets but the last."""
    ends = np.array([0.1, 0.5, 0.6, 0.9]).view(np.int64)
    low, high, shift = (np.resize(a, tree.sets) for a in (ends[::2], ends[1::2], [0, 45]))
    column = np.r_[np.arange(tree.sets - 1) % 2, -1]
    return SetKeys(tree, FrozenArray(column), FrozenArray(low), FrozenArray(high), FrozenArray(shift))


def statistics(layout: Layout) -> list[Statistic]:
    """All statistics, for data of a layout."""
    made: list[Statistic] = [Validity(), RowCount(), ScoreSums()]
    tree = grown(layout)
    made += [CellSums(UniformCells(4)), CellSums(UniformCells(300)), set_keys(tree)]
    made += [CellSums(partition, squares=True) for partition in (UniformCells(2), planted(layout), tree)]
    costs = FrozenArray(np.resize([0.0, 5.0, 1.0, 2.0, 0.3], (3, layout.classes)))
    shape = (layout.batch, layout.groups, layout.classes, 5)
    frequencies = FrozenArray(np.resize([0.1, 0.7, 0.3], shape))
    calibration = FrequencyMap(finished(Uniform(5).edges(Setting("classwise"))), frequencies)
    made += [CellSums(ActedCells(costs, bins=3)), CellSums(ActedCells(costs, calibration=calibration))]
    binnings: tuple[Callable[[Setting], object], ...] = (
        Uniform(5).edges,
        Uniform(7, closed="left").edges,
        Explicit((0.0, 0.25, 0.3, 1.0)).edges,
    )
    for setting in SETTINGS:
        made += [KeyCounts(setting), windows(setting, layout)]
        made.append(GridHistogram(setting, Grid(300, support(setting, layout.classes), refined=setting.per_class)))
        for edges in binnings:
            made += [BinSums(setting, finished(edges(setting)), second) for second in ("none", "squares", "offsets")]
    return made
