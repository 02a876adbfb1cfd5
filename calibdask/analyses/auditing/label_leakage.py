"""Label leakage: features that determine the label, detected by the outcomes of their values."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.lattice.coding import Coding, codes_of
from calibdask.statistics.lattice.lattice_sums import LatticeState
from calibdask.statistics.lattice.segments import Segments
from calibdask.statistics.lattice.value_counts import counted_rows
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import SumStatistic

# Values of outcomes that are all alike hold nearly all of either kind, and of few outcomes they do by chance.
_NEARLY_ALL = 0.99
_FEWEST = 10


class FeatureCounts(NamedTuple):
    """Rows and events of all rows, and then of the values of each feature by itself, however few.

    ``clusters`` is the number of clusters, or the sum of their parts; for independent rows, the number of rows.
    """

    rows: Counts
    events: Counts
    clusters: Counts

    @classmethod
    def of(cls, segments: Segments, state: LatticeState, *, clustered: bool = False) -> "FeatureCounts":
        """Counts of a part of a lattice, whose segments of fewer features come first."""
        single = [len(subset) < 2 for subset in segments.subsets]
        count = int(segments.counts[single].sum())
        rows, events = (part[:count].sum(-1) for part in (state.rows, state.hits))
        # A sum of 1 / m that is 1 but for rounding is one cluster.
        clusters = (state.weight[:count].sum(-1) * (1 + 1e-9)).astype(np.int64) if clustered else rows
        return cls(rows, events, clusters)

    @classmethod
    def joined(cls, parts: "list[FeatureCounts]") -> "FeatureCounts":
        """Concatenate the counts of all parts."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class LabelCountsState(NamedTuple):
    """Rows by value of each feature, one feature after the other, and class."""

    rows: Counts


@dataclass(frozen=True)
class LabelCounts(SumStatistic[LabelCountsState]):
    """Rows by value and class: of many classes a copy of the label is pooled, and its values have several of them.

    Parameters
    ----------
    setting : Setting
        Of one class.
    features : tuple of Coding
    """

    setting: Setting
    features: tuple[Coding, ...]

    def from_block(self, block: Block) -> LabelCountsState:
        """Count one block."""
        classes = block.layout.classes
        labels, values = block.columns(self.setting).of(0)[1], codes_of(self.features, block)
        if block.weights is not None:
            kept = counted_rows(block)
            labels, values = labels[kept], values[:, kept]
        parts = [
            np.bincount(codes * np.int64(classes) + labels, minlength=coding.size * classes)
            for coding, codes in zip(self.features, values, strict=True)
        ]
        return LabelCountsState(np.concatenate(parts).astype(np.int64).reshape(-1, classes))


def warn_of_leakage(
    plan: LatticePlan, counts: FeatureCounts, stacklevel: int, labels: LabelCountsState | None = None
) -> None:
    """Warn of features that are the label, or made from it."""
    start = 0
    for feature, coding in enumerate(plan.features):
        first = plan.segments.first((feature,))
        rows, events, clusters = (column[first : first + coding.size] for column in counts)
        # Labels that are missing have outcomes of both kinds; and a reason of events is missing where there is none.
        present = slice(coding.size - coding.missing)
        copied = labels is not None and is_pooled_label(labels.rows[start : start + coding.size][present])
        start += coding.size
        few = rows[present], events[present], clusters[present]
        if copied or determines(*few) or determines(rows, events, clusters):
            warnings.warn(
                f"Feature {plan.name(feature)} determines the outcome: is it the label, or derived from it? Leave it "
                "out.",
                UserWarning,
                stacklevel=stacklevel + 1,
            )


def determines(rows: Counts, events: Counts, clusters: Counts) -> bool:
    """Whether nearly all events are in values that have nothing else, and nearly all other rows in values without any.

    With dependent rows, only values with rows from several clusters count: a single cluster may be pure by chance.

    Examples
    --------
    >>> determines(np.array([900, 60, 40]), np.array([0, 60, 40]), np.array([900, 60, 40]))
    True
    >>> determines(np.array([900, 60, 40]), np.array([50, 60, 0]), np.array([900, 60, 40]))
    False
    >>> determines(np.array([900, 60, 40]), np.array([0, 60, 40]), np.array([45, 1, 1]))
    False
    """
    others = rows - events
    several = (clusters == rows) | (clusters > 1)
    kinds = ((events, others), (others, events))
    pure = [(one, (other == 0) & several) for one, other in kinds]
    return all(clusters[at].sum() >= _FEWEST and one[at].sum() >= _NEARLY_ALL * one.sum() for one, at in pure)


def is_pooled_label(rows: Counts) -> bool:
    """Whether nearly all rows of every class have one value that differs between classes; rows by value and class.

    Examples
    --------
    >>> is_pooled_label(np.array([[50, 40, 0], [0, 0, 60]])), is_pooled_label(np.array([[50, 40, 1], [0, 0, 0]]))
    (True, False)
    """
    total = rows.sum(0)
    rows, total = rows[:, total >= _FEWEST], total[total >= _FEWEST]
    alike = rows.max(0, initial=0) >= _NEARLY_ALL * total
    return bool(alike.all()) and np.unique(rows.argmax(0)).size > 1 if total.size else False
