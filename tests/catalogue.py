"""Every estimator and every statistic once or more; what holds of all of them is tested over these lists.

A new one joins by a line. `tests.laws.test_catalogue` says which are missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import calibdask as cd
from calibdask.analyses.auditing.label_leakage import LabelCounts
from calibdask.estimators.estimator import Estimator
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import Explicit, Uniform
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.bins.grid import Grid, GridHistogram, support
from calibdask.statistics.bins.sparse_grid import SparseHistogram
from calibdask.statistics.bins.tail_sums import TailSums
from calibdask.statistics.cluster_cells import ClusterCells
from calibdask.statistics.cluster_sizes import ClusterSizes
from calibdask.statistics.cluster_sums import ClusterSums
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.confusion import Confusion
from calibdask.statistics.counts import RowCount
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.identifier_sums import IdentifierSums
from calibdask.statistics.label_sets import LabelSets
from calibdask.statistics.lattice.coding import Categories, Cut
from calibdask.statistics.lattice.lattice_sums import LatticeSums
from calibdask.statistics.lattice.overlap_sums import OverlapSums
from calibdask.statistics.lattice.segments import subsets_of
from calibdask.statistics.lattice.value_counts import CodeCounts, TextCounts, ValueKeys
from calibdask.statistics.lattice.whole_numbers import WholeNumbers
from calibdask.statistics.layout import Layout
from calibdask.statistics.order.distinct import DistinctScores
from calibdask.statistics.order.medians import SetKeys
from calibdask.statistics.order.ranks import KeyCounts, WindowCounts
from calibdask.statistics.outcome_sums import OutcomeSums
from calibdask.statistics.paired_losses import PairedLosses
from calibdask.statistics.pairs.block_means import BlockMeans
from calibdask.statistics.pairs.bootstrap import PairDraws
from calibdask.statistics.pairs.features import FeatureSums
from calibdask.statistics.pairs.locations import LocationSums
from calibdask.statistics.pairs.neighbours import NeighbourSums
from calibdask.statistics.pairs.pair_kernel import KernelTerm, PairKernel
from calibdask.statistics.pairs.pair_statistic import PairStatistic
from calibdask.statistics.pairs.pair_sums import PairSums
from calibdask.statistics.pairs.target_reduction import TargetReduction
from calibdask.statistics.row_hashes import RowHashes
from calibdask.statistics.row_terms import RowTerms
from calibdask.statistics.sample import RowSample
from calibdask.statistics.score_sums import ScoreSums
from calibdask.statistics.settings import Setting
from calibdask.statistics.simplex.actions import ActedCells, FrequencyMap
from calibdask.statistics.simplex.cells import CellSums, UniformCells
from calibdask.statistics.simplex.tree import Tree, planted
from calibdask.statistics.softmax import NO_TEMPERING, SoftmaxSums
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.temperature import TemperatureSums
from calibdask.statistics.validity import Validity
from calibdask.statistics.views.drawn_labels import DrawnLabels
from calibdask.statistics.views.folds import FoldRows, RowFolds
from calibdask.statistics.views.lens import Lens
from calibdask.statistics.views.pooled import Pooled
from calibdask.statistics.views.view import View, view_requests


@dataclass(frozen=True)
class Entry:
    """An estimator, and which data it is for."""

    estimator: Estimator
    # The classes that the data must have; any number where None, and a vector of scores too.
    classes: int | None = None
    # Whether a summary holds what it asks for.
    summary: bool = False
    # Parts that a summary does not tell: they are NaN.
    untold: tuple[str, ...] = ()
    # Parts whose random numbers go by the place of a slice or a model among others: alone it has other ones.
    drawn: tuple[str, ...] = ()


MATRIX = [[1.0, 0.2, 0.0], [0.2, 0.7, -0.1], [0.0, -0.1, 0.4]]
COSTS = [[0, 3.1, 1], [2, 0, 2.3], [0.7, 0.9, 0.8]]
LOCATIONS = (np.array([[0.6, 0.2, 0.2], [0.1, 0.2, 0.7]]), np.array([0, 2]))
SUM = (cd.Kernel(bandwidth=0.2), cd.Kernel(profile="gaussian", distance="euclidean"))
GROUPS, TWO = cd.Lens.groups([[0, 2], [1]]), cd.Lens.largest(2)
FREE = "distribution-free"

ENTRIES: dict[str, Entry] = {
    # Scores.
    "brier_score": Entry(cd.BrierScore(), summary=True),
    "log_loss": Entry(cd.LogLoss(), summary=True),
    "brier_decomposition": Entry(cd.BrierDecomposition(bins=6), summary=True),
    "log_loss_decomposition": Entry(cd.LogLossDecomposition(bins=5), summary=True),
    "mean_gap": Entry(cd.MeanGap(), summary=True),
    "normalized_entropy": Entry(cd.NormalizedEntropy(), summary=True),
    "brier_skill_score": Entry(cd.BrierSkillScore(), summary=True),
    "log_skill_score": Entry(cd.LogSkillScore(), summary=True),
    "sharpness": Entry(cd.Sharpness(), summary=True),
    "saturation": Entry(cd.Saturation(), summary=True),
    # Of the folds of the rows, which go by their numbers.
    "refinement": Entry(cd.Refinement(folds=3), drawn=("", "calibration")),
    # By bins.
    "ece": Entry(cd.ECE(), summary=True),
    "ece_left": Entry(cd.ECE(bins=7, setting="classwise", closed="left")),
    "ece_equal_mass": Entry(cd.ECE(bins=5, binning="equal-mass", setting="classwise"), summary=True),
    "ece_convex": Entry(cd.ECE(bins=4, mapping="convex"), summary=True),
    "ece_inverted": Entry(cd.ECE(bins=4, mapping="inverted", binning="equal-mass")),
    "ece_sqrt": Entry(cd.ECE(bins="sqrt")),
    "ece_edges": Entry(cd.ECE(bins=(0, 0.25, 0.5, 1)), summary=True),
    "ece_top_k": Entry(cd.ECE(setting="top-k", k=2)),
    "ece_of_a_class": Entry(cd.ECE(setting=1, bins=10), summary=True),
    "ece_debiased": Entry(cd.ECE(bins=100, norm="l2", debias=True), summary=True),
    "ece_netcal": Entry(cd.ECE(compat="netcal")),
    "mce": Entry(cd.MCE(), summary=True),
    "reliability_diagram": Entry(cd.ReliabilityDiagram(bins=6, binning="equal-mass"), summary=True),
    "multiclass_ece": Entry(cd.MulticlassECE(bins=3)),
    "multiclass_ece_sets": Entry(cd.MulticlassECE(partition="median-variance")),
    "multiclass_ece_lens": Entry(cd.MulticlassECE(bins=4, setting=TWO)),
    # Smoothed.
    "density_ece": Entry(cd.DensityECE(), summary=True),
    "density_ece_classwise": Entry(cd.DensityECE(bandwidth=0.05, setting="classwise"), summary=True),
    "residual_ece": Entry(cd.ResidualECE(bandwidth=0.03, kernel="gaussian"), summary=True),
    "smooth_ece": Entry(cd.SmoothECE(), summary=True),
    "reliability_curve": Entry(cd.ReliabilityCurve(points=11), summary=True),
    "local_calibration_error": Entry(cd.LocalCalibrationError(points=11), summary=True),
    # In the order of the scores.
    "corp": Entry(cd.CORP(), summary=True),
    "corp_log": Entry(cd.CORP(rule="log"), summary=True),
    "ecce": Entry(cd.ECCE(), summary=True),
    "ecce_range": Entry(cd.ECCE(kind="range"), summary=True),
    "cutoff_error": Entry(cd.CutoffError(), summary=True),
    "cutoff_error_classwise": Entry(cd.CutoffError(setting="classwise", method="freedman"), summary=True),
    # Of decisions.
    "excess_cost": Entry(cd.ExcessCost()),
    "excess_cost_of_costs": Entry(cd.ExcessCost(costs=COSTS, bins=3), classes=3),
    "excess_cost_classwise": Entry(cd.ExcessCost(calibration="classwise")),
    "excess_cost_equal_mass": Entry(cd.ExcessCost(calibration="classwise", bins=5, binning="equal-mass")),
    # Of validators.
    "calibration_slope": Entry(cd.CalibrationSlope(), summary=True),
    "c_statistic": Entry(cd.CStatistic(), summary=True),
    "consistency_bars": Entry(cd.ConsistencyBars(bins=6), summary=True),
    "observed_expected": Entry(cd.ObservedExpected(), summary=True),
    "ici": Entry(cd.ICI(), summary=True),
    "ici_lowess": Entry(cd.ICI(smoother="lowess"), summary=True),
    "hosmer_lemeshow": Entry(cd.HosmerLemeshow(groups=5), summary=True),
    "hosmer_lemeshow_same_data": Entry(cd.HosmerLemeshow(groups=4, same_data=True), summary=True),
    "calibration_belt": Entry(cd.CalibrationBelt(points=11), summary=True),
    "grade_tests": Entry(cd.GradeTests(), summary=True),
    "grade_tests_edges": Entry(cd.GradeTests(edges=(0, 0.2, 0.5, 1)), summary=True),
    "conformal_threshold": Entry(cd.ConformalThreshold(), summary=True, untold=("class_size",)),
    "conformal_threshold_given": Entry(cd.ConformalThreshold(threshold=0.7), summary=True, untold=("class_size",)),
    "risk_coverage": Entry(cd.RiskCoverage(), summary=True),
    "risk_coverage_curve": Entry(cd.RiskCoverageCurve(points=7), summary=True),
    "net_benefit": Entry(cd.NetBenefit(thresholds=(0.1, 0.25, 0.5)), summary=True),
    "net_benefit_standardized": Entry(cd.NetBenefit(thresholds=(0.1, 0.25), standardized=True), summary=True),
    "net_benefit_left": Entry(cd.NetBenefit(thresholds=(0.1, 0.25), closed="left", setting="confidence")),
    "murphy_curve": Entry(cd.MurphyCurve(thresholds=(0.1, 0.25, 0.5)), summary=True),
    "atb": Entry(cd.ATB(), summary=True),
    # With kernels.
    "skce": Entry(cd.SKCE()),
    "skce_biased": Entry(cd.SKCE(estimator="biased", kernel="gaussian", bandwidth="median-full")),
    "skce_linear": Entry(cd.SKCE(estimator="linear", distance="euclidean")),
    "skce_block": Entry(cd.SKCE(estimator="block", block=3, bandwidth=0.3)),
    "skce_matrix": Entry(cd.SKCE(bandwidth=0.3, matrix=MATRIX), classes=3),
    "skce_sum": Entry(cd.SKCE(kernel=SUM)),
    "skce_features": Entry(cd.SKCE(estimator="features", features=64, bandwidth=0.5)),
    "skce_features_biased": Entry(cd.SKCE(estimator="features-biased", features=64, bandwidth=0.5)),
    "skce_confidence": Entry(cd.SKCE(setting="confidence")),
    "skce_of_a_class": Entry(cd.SKCE(setting=1, estimator="biased", bandwidth=0.4)),
    "skce_groups": Entry(cd.SKCE(setting=GROUPS, estimator="linear"), classes=3),
    "skce_lens": Entry(cd.SKCE(setting=TWO)),
    "mmce": Entry(cd.MMCE()),
    "mmce_features": Entry(cd.MMCE(estimator="features-biased", features=16)),
    "kernel_canonical_ece": Entry(cd.KernelCanonicalECE()),
    "kernel_canonical_ece_fixed": Entry(cd.KernelCanonicalECE(bandwidth=0.2)),
    # Tests.
    "skce_test": Entry(cd.SKCETest(draws=30), drawn=("pvalue",)),
    "skce_test_lens": Entry(cd.SKCETest(draws=30, setting=TWO, bandwidth=0.5), drawn=("pvalue",)),
    "skce_test_features": Entry(cd.SKCETest(estimator="features", features=32, draws=30), drawn=("pvalue",)),
    "skce_test_linear": Entry(cd.SKCETest(estimator="linear")),
    "skce_test_block": Entry(cd.SKCETest(estimator="block", block=4, delta=0.1, bandwidth=0.5, setting="confidence")),
    "skce_test_free": Entry(cd.SKCETest(method=FREE)),
    "skce_test_free_biased": Entry(cd.SKCETest(method=FREE, estimator="biased", bandwidth=0.5)),
    "skce_test_free_block": Entry(cd.SKCETest(method=FREE, estimator="block", block=3, delta=0.5, bandwidth=0.5)),
    "consistency_test": Entry(cd.ConsistencyTest(resamples=20), drawn=("pvalue",)),
    "noise_floor": Entry(cd.NoiseFloor(resamples=20), drawn=("mean", "high")),
    "consistency_test_resampled": Entry(cd.ConsistencyTest(resamples=20, predictions="resampled"), drawn=("pvalue",)),
    "consistency_test_of_skce": Entry(
        cd.ConsistencyTest(statistic=cd.SKCE(estimator="linear", bandwidth=0.5), resamples=20), drawn=("pvalue",)
    ),
    "cme_test": Entry(cd.CMETest(), drawn=("statistic", "pvalue")),
    "cme_test_at_locations": Entry(cd.CMETest(locations=LOCATIONS), classes=3),
    "spiegelhalter_test": Entry(cd.SpiegelhalterTest(), summary=True),
    "spiegelhalter_test_classwise": Entry(cd.SpiegelhalterTest(setting="classwise"), summary=True),
}
ESTIMATORS: dict[str, Estimator] = {name: entry.estimator for name, entry in ENTRIES.items()}
# A median distance of rows that are mostly alike is 0, and refused as a bandwidth.
ANY_ROWS = tuple(
    name
    for name, entry in ENTRIES.items()
    if entry.classes is None and "bandwidth='median" not in repr(entry.estimator)
)
WEIGHTED = tuple(name for name, estimator in ESTIMATORS.items() if estimator.supports_weights)


def depends_on_place(variable: str) -> bool:
    """Whether a variable of a result is one whose random numbers go by its place; see `Entry`."""
    drawn = [(name, part) for name, entry in ENTRIES.items() for part in entry.drawn]
    return any(variable == "_".join(filter(None, names)) for names in drawn)


SETTINGS = (Setting("class", 1), Setting("classwise"), Setting("confidence"), Setting("top-k", 2))


def finished(requests: object) -> Edges:
    """Edges of a binning that asks for nothing."""
    try:
        next(requests)  # type: ignore[call-overload]
    except StopIteration as stop:
        return stop.value
    raise AssertionError("this binning asks for data")


def windows(setting: Setting, layout: Layout) -> WindowCounts:
    """Two windows in every place, one of them with cells of many keys."""
    keys = np.array([0.1, 0.3, 0.5, 0.9]).view(np.int64)
    shape = (layout.batch, layout.groups, setting.columns(layout.classes), 1)
    low, high, shift = (np.tile(a, shape) for a in ([keys[0], keys[2]], [keys[1], keys[3]], [0, 40]))
    return WindowCounts(setting, FrozenArray(low), FrozenArray(high), FrozenArray(shift), rows=1000)


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


def kernel(layout: Layout) -> PairKernel:
    """A sum of kernels, one of them with a matrix."""
    rng = np.random.default_rng(layout.classes)
    root = rng.normal(size=(layout.classes, layout.classes))
    terms = (KernelTerm("exponential", "tv"), KernelTerm("gaussian", "euclidean", FrozenArray(root @ root.T)))
    return PairKernel(terms, FrozenArray(rng.uniform(0.1, 2.0, (2, layout.batch, layout.groups))))


def softmax_sums(layout: Layout) -> list[Statistic]:
    """Sums of a diagonal with and without pairs of classes, and of a matrix, by other parameters in each slice."""
    rng, groups, classes = np.random.default_rng(6), layout.groups, layout.classes
    tempering = FrozenArray(np.stack([rng.uniform(0.5, 2.0, groups), rng.uniform(0.0, 0.1, groups)], 1))
    intercepts = FrozenArray(rng.normal(size=(groups, classes)))
    diagonal = FrozenArray(rng.normal(1.0, 0.3, (groups, classes)))
    matrix = FrozenArray(rng.normal(0.3, 0.3, (groups, classes, classes)))
    return [
        SoftmaxSums(diagonal, intercepts, True, tempering),
        SoftmaxSums(diagonal, intercepts, False, NO_TEMPERING),
        SoftmaxSums(matrix, intercepts, False, tempering),
    ]


def viewed(view: View) -> Any:
    """Sums of scores through a view."""

    def requests() -> Any:
        yield ScoreSums()

    return next(view_requests(view, requests()))


def statistics(layout: Layout) -> list[Statistic]:
    """Statistics of blocks in any order, for data of a layout."""
    made: list[Statistic] = [
        Validity(),
        RowCount(),
        Confusion(),
        ScoreSums(),
        ScoreSums(brier=False),
        ColumnSums(Setting("class", 1)),
        ClusterSums(Setting("class", 1)),
        ClusterCells(16),
        ClusterSizes(),
        ClusterSizes(FrozenArray(np.arange(layout.groups) % 2), most=3),
        IdentifierSums(Setting("class", 1), 2),
        OutcomeSums(Setting("classwise")),
        RowHashes(FrozenArray(np.arange(layout.groups))),
    ]
    made += [TemperatureSums(), *softmax_sums(layout)]
    tree = grown(layout)
    made += [CellSums(UniformCells(4)), CellSums(UniformCells(300)), set_keys(tree)]
    made += [CellSums(partition, squares=True) for partition in (UniformCells(2), planted(layout), tree)]
    made += [ValueKeys(0, "", ((48, -(1 << 15)),), 16), ValueKeys(3, "month", ((46, 65536),), 8)]
    made += [WholeNumbers(0, "", 3), WholeNumbers(3, "month", 4), WholeNumbers(3, "weekday")]
    made += [TextCounts(1), CodeCounts(2, 3), lattice(), overlaps()]
    made.append(LabelCounts(lattice().setting, lattice().features))
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
    limits = FrozenArray(np.resize([0.8, 0.3], (1, layout.groups)))
    made += [KeyCounts(Setting("label")), LabelSets(limits)]
    for setting in SETTINGS:
        made += [KeyCounts(setting), windows(setting, layout)]
        made.append(GridHistogram(setting, Grid(300, support(setting, layout.classes), refined=setting.per_class)))
        made.append(SparseHistogram(made[-1]))
        made.append(TailSums(setting, finished(Uniform(5).edges(setting))))
        for edges in binnings:
            made += [BinSums(setting, finished(edges(setting)), second) for second in ("none", "squares", "offsets")]
    return made


def lattice() -> LatticeSums:
    """Segments of the features of the strategies."""
    codings = (
        Cut("number", 0, FrozenArray([-0.5, 0.5]), missing=True),
        Categories("country", 1, ("be", "fr"), other=True, missing=True),
        Categories("category", 2, (0, 2), other=True, missing=True, labels=("a", "b", "c")),
        Cut("date", 3, FrozenArray([3.0, 9.0]), missing=True, part="month"),
    )
    return LatticeSums(Setting("class", 1), finished(Uniform(5).edges(Setting("class", 1))), codings, subsets_of(4, 3))


def overlaps() -> OverlapSums:
    """What some of these segments share."""
    of = lattice()
    segments = (((), ()), ((0,), (2,)), ((1, 2), (0, 1)), ((0, 3), (2, 1)), ((0, 1, 3), (0, 2, 0)))
    return OverlapSums(of.setting, of.edges, FrozenArray([0.1, 0.3, 0.5, 0.7, 0.9]), of.features, segments)


def ordered_statistics(layout: Layout, rows: NDArray[np.int64]) -> list[Statistic]:
    """Statistics of blocks that know their place among the rows, of which each slice has so many."""
    k, rng = kernel(layout), np.random.default_rng(5)
    made: list[Statistic] = [RowSample(7, 3), RowSample(1000, 3), FeatureSums(k, 5, 1)]
    made += [
        RowTerms(Setting("class", 1), "spiegelhalter"),
        RowTerms(Setting("classwise"), "logarithm", layout.smallest),
    ]
    made += [DistinctScores(setting) for setting in (Setting("class", 1), Setting("classwise"))]
    made.append(viewed(DrawnLabels(3, 5)))
    made.append(viewed(FoldRows(RowFolds(3, 1), 2)))
    clusters = FrozenArray(np.arange(layout.groups) % 2)
    for of_groups in (None, clusters):
        made.append(PairedLosses((DrawnLabels(1, 5), DrawnLabels(1, 6)), (DrawnLabels(1, 7), Pooled()), of_groups))
    if layout.classes > 2:
        made.append(viewed(Lens.largest(2)))
    if not layout.weighted:
        locations = rng.dirichlet(np.ones(layout.classes), (layout.batch, layout.groups, 3))
        labels = rng.integers(0, layout.classes, locations.shape[:-1])
        made += [
            LocationSums(k, FrozenArray(locations), FrozenArray(labels), calibrated) for calibrated in (True, False)
        ]
        made += [BlockMeans(k, 2), BlockMeans(k, 5), viewed(DrawnLabels(2, 5, FrozenArray(rows)))]
    return made


def pair_statistics(layout: Layout, rows: NDArray[np.int64]) -> list[PairStatistic]:
    """Statistics of pairs of rows, of which each slice has so many."""
    made: list[PairStatistic] = [PairSums(kernel(layout))]
    return made if layout.weighted else [*made, PairDraws(kernel(layout), FrozenArray(rows), 6, 2)]


def target_reductions(layout: Layout) -> list[TargetReduction]:
    """Statistics of each row against all others."""
    return [NeighbourSums(FrozenArray(np.full((layout.batch, layout.groups), 0.1)), "tv")]
