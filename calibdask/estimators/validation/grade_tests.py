"""Tests of rating grades: whether there are more defaults than their probabilities of default expect."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart, Part
from calibdask.estimators.validation.by_column import undefined
from calibdask.statistics import exact
from calibdask.statistics.bins.binnings import BinEdges, Explicit, Uniform, binned_sums
from calibdask.statistics.bins.edges import Closed
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

GREEN, YELLOW, RED = 0.0, 1.0, 2.0
# Jeffreys' p-values are refused where they would reject so many times as many good grades as they say.
_MOST_TIMES = 2.0


@dataclass(frozen=True, kw_only=True)
class GradeTests(ColumnEstimator):
    """Tests of rating grades: whether there are more defaults than the mean probability of default (PD) predicts.

    ::

        binomial = I_PD(k, N - k + 1) = P(at least k defaults),       jeffreys = I_PD(k + 1/2, N - k + 1/2)

    with N rows, k defaults (outcomes) and the mean score PD of a grade; I is the regularised incomplete beta function.
    Both are one-sided: small if the PD is too low.

    Parameters
    ----------
    edges : sequence of float, optional
        Edges of the grades on the scores, from the best to the worst, such as those of a master scale. None: all rows
        of a slice are one grade, so that ``by="grade"`` (a column) tests each grade, and without slices the portfolio
        is tested.
    closed : {"right", "left"}, default "right"
        Which end is included in a grade.
    lights : pair of float, default (0.05, 0.001)
        The light is green from the first binomial p-value on, red below the second, yellow between them.
    confidence : float, default 0.95
        Level of the upper bound.
    setting : str, int or None
        ``"binary"``, a class, ``"classwise"``, ...; None: binary for a vector of scores and class-wise for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If a parameter is invalid or out of range.

    Notes
    -----
    Parts: ``pvalue``, the smallest binomial p-value of a grade times the number of grades (Bonferroni), for all grades
    together; and, with a dimension ``grade`` if edges are given, the p-values ``binomial`` and ``jeffreys``,
    ``jeffreys_level``, ``light`` (0 green, 1 yellow, 2 red), ``bound``, ``count`` (N), ``defaults`` (k), ``pd``,
    ``rate`` (k / N), and the ``lower`` and ``upper`` edges. They are NaN for an empty grade.

    ``bound`` is the upper bound of Pluto & Tasche for the rate of a grade and all worse ones together: the quantile of
    the beta distribution (d + 1, n - d) of their d defaults among n rows. It is valid even for a grade without
    defaults, provided that rates do not decrease towards worse grades. Without edges it uses the slice alone, as slices
    have no order.

    The binomial test is exact for equal PDs and slightly conservative if they differ within a grade; as the number of
    defaults is discrete, it rejects less often than its level.

    Jeffreys' p-value, which the ECB's instructions require, lies between P(more than k defaults) and P(at least k
    defaults), and has its nominal level only on average. ``jeffreys_level`` is the exact probability that it is at most
    the first of the ``lights``, 0.05, if the PD is correct: 0.002 to 0.16 for fewer than one expected default,
    depending on their number, up to 0.09 from one on, up to 0.07 from 2.5 on, and 1 below 0.002, where even no default
    leads to rejection. If it is more than twice as large as the light, the p-value is NaN (attribute ``undefined``):
    use ``binomial``.

    Weaknesses: both assume independent defaults; in a recession defaults are dependent, and both tests then reject
    well-calibrated grades. Lights and p-values of single grades are not corrected for the number of grades (at 5 %, one
    of 20 calibrated grades is yellow or red). Neither test detects PDs that are too high. Weights are not supported.
    One pass; also from a summary, if the edges are edges of its cells.

    References
    ----------
    .. [1] European Central Bank, Instructions for reporting the validation results of internal models, 2019, section
       2.5.3, for the Jeffreys test.
    .. [2] Tasche, A traffic lights approach to PD validation, 2003.
    .. [3] Pluto & Tasche, Thinking positively, 2005.

    Examples
    --------
    >>> import calibdask as cd
    >>> grades = cd.GradeTests(edges=(0, 0.1, 1))
    >>> result = cd.evaluate([0, 0, 1, 0, 1, 1], [0.02, 0.05, 0.03, 0.2, 0.3, 0.4], grades)
    >>> result.grade_tests_jeffreys.round(3).values.tolist(), result.grade_tests_light.values.tolist()
    ([0.02, 0.089], [0.0, 0.0])
    """

    about = About(
        "Tests of grades",
        "For each grade with N rows, k defaults and mean score PD: the chance of at least k defaults, and Jeffreys' "
        "p-value I_PD(k + 1/2, N - k + 1/2), both one-sided; a traffic light by the former; and the upper bound of "
        "Pluto & Tasche for the rate of the grade and all worse ones.",
        "European Central Bank, Instructions for reporting the validation results of internal models, 2019",
        "grades",
    )

    usual_setting = "classwise"

    edges: tuple[float, ...] | None = None
    closed: Closed = "right"
    lights: tuple[float, float] = (0.05, 0.001)
    confidence: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("closed", self.closed, ("right", "left"))
        if self.edges is not None:
            object.__setattr__(self, "edges", _checked("edges", self.edges))
        lights = _checked("lights", (0.0, *reversed(_pair(self.lights)), 1.0))
        object.__setattr__(self, "lights", (lights[2], lights[1]))
        if isinstance(self.confidence, bool) or not 0 < self.confidence < 1:
            raise ValueError(f"confidence expects a number between 0 and 1, got {self.confidence!r}.")

    @property
    @override
    def supports_weights(self) -> bool:
        return False

    @override
    def describe(self, layout: Layout) -> Description:
        usual = self.lights[0]
        edges = {"lower": PartInfo("lower edge", "choice"), "upper": PartInfo("upper edge", "choice")}
        return {
            "pvalue": PartInfo("smallest binomial p-value of a grade times the number of grades", "pvalue"),
            "binomial": PartInfo("chance of as many defaults if the PD is right", "statistic"),
            "jeffreys": PartInfo("Jeffreys' p-value for a PD that is not too low", "statistic"),
            "jeffreys_level": PartInfo(
                f"chance of a p-value of Jeffreys up to {usual:.4g} if the PD is right", "statistic"
            ),
            "light": PartInfo("traffic light: 0 green, 1 yellow, 2 red", "statistic"),
            "bound": PartInfo(f"upper bound of the rate at {self.confidence:.4g}, with worse grades", "statistic"),
            "count": PartInfo("rows", "count"),
            "defaults": PartInfo("defaults", "count"),
            "pd": PartInfo("mean score", "statistic"),
            "rate": PartInfo("share of defaults", "statistic"),
            **(edges if self.edges is not None else {}),
        }

    def interval(self, layout: Layout) -> NoInterval:
        """None: tests have p-values instead."""
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        if layout.weighted:
            raise ValueError("GradeTests counts rows and defaults and does not support sample_weight; leave it out.")
        setting = self.measured(layout)
        rule = Uniform(1) if self.edges is None else Explicit(self.edges, self.closed)
        edges = yield from BinEdges(rule, setting)
        sums = yield from binned_sums(setting, edges)
        rows, defaults = sums.rows.astype(np.float64), exact.value(sums.outcome)
        with np.errstate(divide="ignore", invalid="ignore"):
            pd, rate = np.clip(exact.value(sums.score) / rows, 0.0, 1.0), defaults / rows
        at_least = _beta(defaults, rows - defaults + 1, pd)
        usual, least = self.lights
        light = np.where(at_least < least, RED, np.where(at_least < usual, YELLOW, GREEN))
        # Those of a grade and all worse ones.
        pooled, bad = (np.cumsum(of[..., ::-1], -1)[..., ::-1] for of in (rows, defaults))
        bound = scipy.special.betaincinv(bad + 1, np.maximum(pooled - bad, 1), self.confidence)
        bound = np.where(bad < pooled, bound, 1.0)
        level = _jeffreys_level(rows, pd, usual)
        liberal = level > _MOST_TIMES * usual
        values = {
            "binomial": at_least,
            "jeffreys": np.where(liberal, np.nan, _jeffreys(rows, defaults, pd)),
            "jeffreys_level": level,
            "light": np.where(rows > 0, light, np.nan),
            "bound": np.where(pooled > 0, bound, np.nan),
            "count": sums.rows,
            "defaults": defaults.astype(np.int64),
            "pd": pd,
            "rate": rate,
        }
        notes = {
            "assumes": "defaults are independent",
            "null_hypothesis": "the rate of defaults is at most the mean score",
        }
        reason = (
            f"Jeffreys' p-value is at most {usual:.4g} with a probability above {_MOST_TIMES * usual:.4g} where the PD "
            "is right; see jeffreys_level, and take the binomial test"
        )
        refused = {**notes, **undefined({reason: int(liberal.sum())} if liberal.any() else {}, level.size, "grades")}
        # By Bonferroni: the chance that a grade of a good model is as far off.
        smallest = np.min(np.where(rows > 0, at_least, np.inf), -1)
        known = (rows > 0).sum(-1)
        overall = np.where(known > 0, np.minimum(known * np.where(known > 0, smallest, 0.0), 1.0), np.nan)
        parts: dict[str, Part] = {"pvalue": FixedPart(setting.by_class(overall), setting.dims, notes)}
        if self.edges is None:
            dims, values = setting.dims, {name: of[..., 0] for name, of in values.items()}
        else:
            dims = (*setting.dims, "grade")
            ends = {"lower": edges.values[..., :-1], "upper": edges.values[..., 1:]}
            values |= {name: np.broadcast_to(of, rows.shape) for name, of in ends.items()}
        of_part = {"jeffreys": refused}
        return parts | {
            name: FixedPart(setting.by_class(of), dims, of_part.get(name, notes)) for name, of in values.items()
        }


def _beta(a: Array, b: Array, x: Array) -> Array:
    """The regularised incomplete beta function, which is 1 where a is 0; NaN where x is."""
    return np.where(np.isnan(x), np.nan, np.where(a > 0, scipy.special.betainc(np.where(a > 0, a, 1.0), b, x), 1.0))


def _jeffreys(rows: Array, defaults: Array, pd: Array) -> Array:
    return _beta(defaults + 0.5, rows - defaults + 0.5, pd)


def _jeffreys_level(rows: Array, pd: Array, most: float) -> Array:
    """P(Jeffreys' p-value is at most ``most``) for a binomial number of defaults; NaN without rows.

    The p-value for k defaults is at least P(more than k) and at most P(at least k): the smallest number that is
    rejected is the quantile of the number of defaults, or the next one.
    """
    with np.errstate(invalid="ignore"):
        quantile = np.nan_to_num(np.ceil(scipy.special.bdtrik(1 - most, rows, pd)))
    fewest = np.clip(quantile - 1, 0, rows)
    for _ in range(3):
        fewest = np.where(_jeffreys(rows, np.minimum(fewest, rows), pd) > most, fewest + 1, fewest)
    return np.where(fewest > rows, 0.0, _beta(fewest, rows - fewest + 1, pd))


def _pair(lights: Any) -> tuple[Any, Any]:
    if not isinstance(lights, Sequence) or isinstance(lights, str) or len(lights) != 2:
        raise ValueError(f"lights expects two p-values, the larger one first, got {lights!r}.")
    return lights[0], lights[1]


def _checked(name: str, given: Any) -> tuple[float, ...]:
    """Increasing numbers of [0, 1], as a tuple."""
    values = np.asarray(given, np.float64).ravel()
    if values.size < 2 or not (np.diff(values) > 0).all() or not (values[0] >= 0 and values[-1] <= 1):
        order = "two decreasing p-values between 0 and 1" if name == "lights" else "increasing numbers from 0 to 1"
        raise ValueError(f"{name} expects {order}, got {given!r}.")
    return tuple(values.tolist())
