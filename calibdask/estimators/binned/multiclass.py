"""Calibration error of whole score vectors, by cells of the simplex."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.checks import check_choice
from calibdask.estimators.multiclass_setting import VectorEstimator, VectorSetting, check_setting
from calibdask.estimators.parts import Estimate, calibration_error
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.order.medians import ColumnValues, medians
from calibdask.statistics.request import Requests
from calibdask.statistics.simplex.cells import CellSums, CellSumsState, UniformCells
from calibdask.statistics.simplex.tree import Tree, planted

Distance = Literal["tv", "euclidean", "squared-euclidean"]

# Deviations this close count as equal: rounding alone can separate them, such as those of p and 1 - p.
_EQUAL_SHARE = 2.0**-40
_EQUAL = 2.0**-50
# A median lies within one standard deviation of the mean; the margins allow for rounding.
_REACH = 1 + 2.0**-10
_MARGIN = 2.0**-30
_SLAB_SCORES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class MulticlassECE(VectorEstimator):
    """Expected calibration error of whole score vectors: calibration in the strong sense.

    The simplex is divided into cells. With n_A rows in cell A, their mean score vector pbar_A and their frequencies of
    labels ybar_A::

        sum_A (n_A / n) d(pbar_A, ybar_A)

        tv                 d = sum_c |pbar_c - ybar_c| / 2
        euclidean          d = sqrt(sum_c (pbar_c - ybar_c)**2)
        squared-euclidean  d = sum_c (pbar_c - ybar_c)**2

    Binary scores P(y = 1) = p count as the vector (1 - p, p).

    Parameters
    ----------
    partition : {"uniform", "median-variance"}, default "uniform"
        How score vectors are divided into cells: a cell is where the scores share one of ``bins`` uniform bins in every
        class; or sets of rows are split repeatedly, as long as possible: at the class with the highest variance (ties:
        the lowest class), at the median of its scores (element floor(n_A / 2), counted from 0), with lower scores on
        one side and the others on the other.
    bins : int, default 10
        Bins in each dimension, right-closed with edges i / bins.
    min_size : int, default 10
        A set is not split if either side would have fewer rows than this.
    distance : {"tv", "euclidean", "squared-euclidean"}, default "tv"
        Distance between mean prediction and label frequencies.
    setting : {"multiclass", "confidence", "binary"}, int or `calibdask.Lens`
        Whole score vectors, the largest score, one class against the rest, or the model derived by a lens.

    Raises
    ------
    ValueError
        If a parameter is invalid, or ``bins`` or ``min_size`` is not a positive whole number.

    Notes
    -----
    Biased upward for a calibrated model, more so with fewer rows per cell. The attribute ``cells`` holds the number
    of occupied cells (a list if there are several slices or replicates, in order).

    With sample weights, means and medians are weighted, and rows of positive weight count for ``min_size``.

    *Uniform*: one pass, O(n K) time. Only occupied cells exist; memory for each of them: 32 bytes, 24 for each class
    (with weights 16) and, for its key at 10 bins, 8 for every 15 classes.

    *Median-variance*: about log2(n / min_size) + 1 levels of two passes each, one for sums and one for medians; three
    or four as long as the unfinished sets have more than 2**20 rows. O(n (K + depth)) time per level, as each row
    descends the tree to its set. Memory: 56 bytes for each class of each such set (24 with weights), 20 for each split,
    and about 50 MB for medians. There are up to n / min_size of them: choose ``min_size`` accordingly.

    The variances compared are exact for scores rounded to multiples of 2**-52. Standard deviations within 2**-50, or a
    share of 2**-40, of the highest count as ties, so that rounding never decides a split: the columns 1 - p and p
    always tie. Without weights the cells do not depend on chunks; with weights they can, but only if deviations lie at
    that limit.

    References
    ----------
    .. [1] Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019, section 4.3.
    .. [2] Vaicenavicius et al., Evaluating model calibration in classification, 2019, section 4.2.

    Examples
    --------
    >>> import calibdask as cd
    >>> scores = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.25, 0.75], [0.0, 0.25, 0.75]]
    >>> result = cd.evaluate([0, 1, 2, 2], scores, cd.MulticlassECE())
    >>> float(result.multiclass_ece), result.multiclass_ece.attrs["cells"]
    (0.125, 2)
    """

    about = About(
        "Expected calibration error of score vectors",
        "The simplex of score vectors is divided into cells; in each, the distance between the mean score vector and "
        "the frequencies of the labels; the error is the mean distance, weighted by rows: "
        "sum_A (n_A / n) d(mean p_A, mean y_A).",
        "Vaicenavicius et al., Evaluating model calibration in classification, 2019",
        "multi-class ECE",
    )

    partition: Literal["uniform", "median-variance"] = "uniform"
    bins: int = 10
    min_size: int = 10
    distance: Distance = "tv"
    setting: VectorSetting = "multiclass"

    def __post_init__(self) -> None:
        check_setting(self.setting)
        check_choice("partition", self.partition, ("uniform", "median-variance"))
        check_choice("distance", self.distance, ("tv", "euclidean", "squared-euclidean"))
        for field in ("bins", "min_size"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{field} expects a positive whole number, got {value!r}.")
            object.__setattr__(self, field, int(value))

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "": PartInfo(
                "mean distance between score vectors and label frequencies, in cells", "error", bounds=(0.0, 2.0)
            )
        }

    def _estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        total = _Total(layout, self.distance)
        if self.partition == "uniform":
            sums = yield from CellSums(UniformCells(self.bins))
            total.add(sums.key[:, 0], sums)
            return total.estimate()
        tree = planted(layout)
        while tree.sets:
            sums = yield from CellSums(tree, squares=True)
            strata = tree.stratum.values[sums.key[:, 0]]
            tree, final = yield from _split(tree, sums, self.min_size)
            total.add(strata[final], sums.part(final))
        return total.estimate()


def _split(tree: Tree, sums: CellSumsState, min_size: int) -> Requests[tuple[Tree, npt.NDArray[np.bool_]]]:
    """The tree after splitting all sets that can be split, and which of the sets in ``sums`` are final."""
    candidates = np.flatnonzero(sums.rows >= 2 * min_size)
    sets, rows = sums.key[candidates, 0], sums.rows[candidates]
    column, mean, deviation = _widest(sums.part(candidates))
    reach = _REACH * deviation + _MARGIN
    half = rows // 2 if sums.weight.dtype == np.int64 else sums.weight[candidates] / 2
    middle = yield from medians(tree, ColumnValues(sets, column, mean - reach, mean + reach, rows, half))
    split = np.minimum(middle.below, rows - middle.below) >= min_size
    final = np.ones(sums.rows.size, np.bool_)
    final[candidates[split]] = False
    return tree.split(sets[split], column[split], middle.score[split]), final


def _widest(sums: CellSumsState) -> tuple[Counts, Array, Array]:
    """The class whose scores vary most in each cell, their mean and their standard deviation."""
    deviations = sums.deviations()
    ties = deviations >= deviations.max(axis=1, keepdims=True) * (1 - _EQUAL_SHARE) - _EQUAL
    column = ties.argmax(axis=1)
    cell = np.arange(column.size)
    mean = exact.value(sums.score)[cell, column] / exact.value(sums.weight)
    return column, mean, deviations[cell, column]


class _Total:
    """The running sum over cells by (batch, group)."""

    def __init__(self, layout: Layout, distance: Distance) -> None:
        self._shape = (layout.batch, layout.groups)
        self._distance = distance
        self._error, self._weight = np.zeros((2, layout.batch * layout.groups))
        self._cells = np.zeros(layout.batch * layout.groups, np.int64)

    def add(self, place: Counts, sums: CellSumsState) -> None:
        """Add cells; ``place`` (cells,) is batch * groups + group."""
        step = max(1, _SLAB_SCORES // sums.outcome.shape[1])
        for start in range(0, place.size, step):
            here = slice(start, start + step)
            part = sums.part(here)
            size = exact.value(part.weight)
            self._error += np.bincount(place[here], self._terms(part.gaps(), size), self._error.size)
            self._weight += np.bincount(place[here], size, self._weight.size)
        self._cells += np.bincount(place, minlength=self._cells.size)

    def _terms(self, gaps: Array, size: Array) -> Array:
        """Size times distance of each cell, from size times the differences of the means."""
        if self._distance == "tv":
            return np.asarray(np.abs(gaps).sum(axis=1) / 2, np.float64)
        squares = np.asarray((gaps**2).sum(axis=1), np.float64)
        return squares / size if self._distance == "squared-euclidean" else np.sqrt(squares)

    def estimate(self) -> Any:
        """The averages, NaN where there are no rows."""
        with np.errstate(invalid="ignore"):
            values = (self._error / self._weight).reshape(self._shape)
        cells = self._cells.tolist() if self._cells.size > 1 else int(self._cells[0])
        return {"": calibration_error(values[..., None], most=2.0, cells=cells)}
