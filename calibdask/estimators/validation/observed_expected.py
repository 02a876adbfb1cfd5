"""The ratio of observed to expected outcomes."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.parts import Estimate, FixedPart, Number
from calibdask.estimators.sampling_variance import WeightedMean, rarer_rows, share_of
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, Uniform
from calibdask.statistics.exact import Array, Sums
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import together
from calibdask.statistics.request import Requests
from calibdask.statistics.square_sums import SquareSums

# With fewer rows of either outcome the logarithm of the ratio is far from normal.
_FEW = 10


@dataclass(frozen=True, kw_only=True)
class ObservedExpected(ColumnEstimator):
    """Observed over expected outcomes, O:E = sum w o / sum w s.

    Above 1: there are more outcomes than the scores predict; below 1: fewer.

    Parameters
    ----------
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (each class by itself); None: binary for a
        vector of scores and class-wise for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If the setting is unknown.

    Notes
    -----
    Parts: the ratio itself, ``observed`` and ``expected`` outcomes, sum w o and sum w s. If all scores are 0, it is
    infinite if any row has the outcome, and otherwise NaN, like its interval.

    With ``ci``, with N rows::

        log O:E +- z sqrt((1 - O / N) / O)

    and with fewer than 10 rows of either outcome (including O = 0), the limits of Clopper & Pearson for O / N divided
    by the mean score, which are valid for any number of rows. The attribute ``few_outcomes`` counts the columns of
    scores for which these limits are used. Both treat the expected number as known; for informative scores they are too
    wide, as outcomes then vary less than those of N equal rows.

    With weights the expected number depends on them too, and N is the number of equal rows with the sampling variance
    of the sandwich form::

        Var(log O:E) = max(sum w**2 (o - f)**2, sum w**2 (o - O:E s)**2) / (sum w o)**2,  f = sum w o / sum w

    Errors of opposite sign at different scores cancel, as in `calibdask.MeanGap`, which is the difference instead of
    the ratio. One pass; can be computed from a summary.

    References
    ----------
    .. [1] Debray et al., A guide to systematic review and meta-analysis of prediction model performance, 2017.
    .. [2] Clopper & Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial, 1934.

    Examples
    --------
    >>> import calibdask as cd
    >>> round(float(cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ObservedExpected()).observed_expected), 6)
    1.5
    """

    about = About(
        "Observed over expected outcomes (O:E)",
        "The number of outcomes over the sum of the scores, sum w o / sum w s. A calibrated model has 1; errors of "
        "opposite sign cancel.",
        "Debray et al., A guide to systematic review and meta-analysis of prediction model performance, 2017",
        "O:E",
    )

    usual_setting = "classwise"

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "": PartInfo(
                "observed over expected outcomes, 1 if calibrated", "number", quantity="ratio", bounds=(0.0, np.inf)
            ),
            "observed": PartInfo("outcomes", "count"),
            "expected": PartInfo("sum of the scores", "count"),
        }

    def interval(self, layout: Layout) -> KnownEnds:
        """Of the logarithm, or exact."""
        return KnownEnds()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        setting = self.measured(layout)
        request = BinSums(setting, (yield from BinEdges(Uniform(1), setting)))
        squares_request = SquareSums(replace(request, second="squares") if layout.weighted else request)
        sums, squares = yield from together([request, squares_request])

        def total(of: Sums) -> Array:
            return setting.by_class(exact.value(of)[..., 0])

        weight, observed, expected = map(total, (sums.weight, sums.outcome, sums.score))
        square, square_outcome = map(total, (squares.weight, squares.outcome))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, mean = observed / expected, expected / weight
        frequency = share_of(weight, square, observed, square_outcome)
        if layout.weighted:
            score_square, product = map(total, squares.second)
            of_ratio = square_outcome - 2 * ratio * product + ratio**2 * score_square
            frequency = frequency.with_variance(of_ratio / weight**2)
        few = rarer_rows(weight, square, observed, square_outcome) < _FEW - 0.5
        notes = {"few_outcomes": int(few.sum())}
        return {
            "": Number(
                ratio,
                setting.dims,
                notes,
                limits=(0.0, np.inf),
                known_ends=partial(_ends, frequency, mean, few),
                ends_method="log",
            ),
            "observed": FixedPart(np.where(weight > 0, observed, np.nan), setting.dims),
            "expected": FixedPart(np.where(weight > 0, expected, np.nan), setting.dims),
        }


def _ends(frequency: WeightedMean, mean: Array, few: npt.NDArray[np.bool_], level: float) -> tuple[Array, Array]:
    """Ends of the ratio from the ends of the observed rate."""
    rows, share = frequency.effective_rows, frequency.mean
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.exp(scipy.special.ndtri(0.5 + level / 2) * np.sqrt((1 - share) / (rows * share)))
        exact_low, exact_high = frequency.bounded(0.0, 1.0).ends(level)
        low, high = np.where(few, exact_low, share / reach), np.where(few, exact_high, share * reach)
        known = (mean > 0) | (share > 0)
        return np.where(known, low / mean, np.nan), np.where(known, high / mean, np.nan)
