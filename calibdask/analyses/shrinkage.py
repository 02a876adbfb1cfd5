"""`shrink_slices`: errors of many small slices, shrunk towards their mean by empirical Bayes."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr

from calibdask.analyses.analysis import Analysis, Heading, population_sentences
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions, Task
from calibdask.data.population import Population
from calibdask.engine.axes import column_name
from calibdask.engine.plan import run_requests
from calibdask.estimators.about import PartInfo
from calibdask.estimators.checks import check_choice
from calibdask.inference.choice import check_confidence
from calibdask.inference.empirical_bayes import GammaRatios, NormalEffects
from calibdask.inference.slice_sums import SliceSums, slice_sums
from calibdask.results.build import described
from calibdask.results.document import Cell, Document, Section, Sentence, Table, interval, number, text
from calibdask.results.format import PLAIN, counted, figure, percent, plain, slice_text
from calibdask.statistics.exact import Array

Measure = Literal["mean-gap", "observed-expected"]
# Slices are many and small from this number on, if half of them have fewer rows than that.
_MANY_SLICES, _SMALL_ROWS = 20, 1000
# Fewer slices say too little of how effects differ.
_FEWEST_SLICES, _FEW_SLICES = 3, 20
_MOST_LINES = 20
_LEAST_DISPERSION = 0.01
_BEYOND = (
    "Beyond limit: posterior probability, assuming {1} effects with a standard deviation of {0}. Intervals assume no "
    "distribution and allow for larger standard deviations, so that they may extend beyond a limit that is unlikely to "
    "be exceeded."
)
# Probabilities are not known better than this.
_LEAST_SHOWN = 0.001
_ENDS = ("raw", "shrunken", "low", "high")
_VARIABLES: Mapping[str, PartInfo] = {
    "raw": PartInfo("of the rows of the slice alone", "statistic"),
    "shrunken": PartInfo("empirical-Bayes estimate", "statistic"),
    "low": PartInfo("lower end of its interval", "statistic"),
    "high": PartInfo("upper end of its interval", "statistic"),
    "exceeds": PartInfo("posterior probability of an effect beyond the limit", "statistic"),
    "rank": PartInfo("place by size of the shrunken effect, 1 for the largest", "count"),
}
_JSON = """{"format": 1, "rows": int, "passes": int, "calibdask_version": str, "measure": str,
 "confidence": float, "limit": float or null, "mean": float, "deviation": float,
 "slices": [{"by": {COLUMN: value}, "rows": int, "events": float, "raw": float,
             "shrunken": float, "low": float, "high": float, "exceeds": float, "rank": int}]}"""


def shrink_slices(
    data: Any,
    by: Any = None,
    measure: Measure = "mean-gap",
    limit: float | None = None,
    *,
    confidence: float = 0.95,
    y_prob: Any = None,
    sample_weight: Any = None,
    label: Any = None,
    score: Any = None,
    skip_missing: bool = False,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    population: Population | None = None,
) -> xr.Dataset:
    """Estimate the errors of many small slices, each shrunk towards the overall mean according to its noise.

    Parameters
    ----------
    data : summary, container of columns, path, or array of labels
        As ``y_true`` of `calibdask.evaluate`; not needed with a summary. For arrays, the labels, together with
        ``y_prob``.
    by : names of columns or of slices, array, or mapping from name to array
        The slices. None, for a summary: all of its slices.
    measure : {"mean-gap", "observed-expected"}, default "mean-gap"
        The mean of o - s, or observed over expected events, sum o / sum s.
    limit : float, optional
        Adds ``exceeds``: the probability that an effect exceeds this limit in absolute value; for a ratio, the limit is
        above 1, and the probability is that the ratio is above it or below its inverse.
    confidence : float, default 0.95
        Level of the intervals, on average over the slices.
    y_prob, sample_weight, label, score, skip_missing, task, logits, labels, pos_label, ignore_label, population
        As for `calibdask.evaluate`. Ratios do not support weights.

    Returns
    -------
    xarray.Dataset
        By slice: ``raw``, the value of its rows alone; ``shrunken``, the estimate; ``low`` and ``high``; ``exceeds``
        with a limit; ``rank``, 1 for the largest shrunken effect; ``rows`` and ``events``. Slices without rows are NaN.
        Attributes: ``mean`` and ``deviation``, the mean of the effects and their standard deviation, and ``kurtosis``.

    Raises
    ------
    ValueError
        If there are fewer than three slices, no slices, or an impossible limit; and as in `calibdask.evaluate`.

    Notes
    -----
    *Gaps.* y_k ~ N(theta_k, v_k) and theta_k ~ (mu, tau**2), whatever their distribution. v_k = sum w**2 p (1 - p) /
    (sum w)**2 over its rows, with p = s plus the gap of all slices together: with its own, a slice without events would
    seem to be known exactly. tau**2 by Paule & Mandel [3]_. The estimate is w_k y_k + (1 - w_k) mu with w_k = t / (t +
    v_k), where t is tau**2 minus its standard error if there were no effects, so that effects that cannot be
    distinguished from noise are shrunk almost to the mean. Ranking raw gaps of small slices ranks noise; shrunken gaps
    have a smaller mean squared error than raw gaps and, of hundreds of slices of similar sizes, at most about that of
    the overall mean. With fewer slices tau**2 is uncertain, and events in slices of hardly any rows raise it: in
    simulations of 10 and 30 slices without effects the root mean square error was up to 1.6 times that of the overall
    mean, and with outcomes of 2 % and half of the slices of one row 2.7 (200 slices) to 8.5 times (10): leave such
    slices out. Intervals [1]_ are w_k sqrt(v_k) times a critical value that allows for the bias of shrinking, by the
    fourth moment of the effects and an upper limit of the second; where the interval of the rows alone, y_k -+ 1.96
    sqrt(v_k), is shorter, and 10 events and non-events are expected, it is used, extended to the estimate. At least
    95 % of all slices are covered, for any distribution of effects. This holds on average: slices with extreme effects
    are covered less often.

    *Ratios.* O_k ~ Poisson(theta_k E_k) with gamma ratios theta_k, by moments [2]_, with the variance corrected for
    events that are not rare: the estimate is the posterior mean, and each end is the outer one of the posterior
    quantile and the end of the interval of gaps, (O_k - E_k) / E_k.

    ``exceeds`` is the posterior probability for normal (gamma) effects with the estimated variance: intervals, which
    allow for other distributions and larger variances, may extend beyond a limit that is unlikely to be exceeded. One
    pass, 120 bytes for each slice; rows, chunks and summaries give the same numbers, summaries to 1e-8.

    References
    ----------
    .. [1] Armstrong, Kolesár & Plagborg-Møller, Robust empirical Bayes confidence intervals, Econometrica 90, 2022.
    .. [2] Marshall, Mapping disease and mortality rates using empirical Bayes estimators, 1991.
    .. [3] Paule & Mandel, Consensus values and weighting factors, 1982.

    Examples
    --------
    >>> import numpy as np, pandas as pd, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> campaign = np.repeat(np.arange(400), 100)
    >>> effect, score = rng.normal(0, 0.02, 400), rng.uniform(0.1, 0.3, campaign.size)
    >>> frame = pd.DataFrame({"campaign": campaign, "score": score})
    >>> frame["label"] = (rng.random(campaign.size) < score + effect[campaign]).astype(int)
    >>> result = cd.shrink_slices(frame, by="campaign")
    >>> error = lambda name: float(np.mean((result[name] - effect) ** 2) ** 0.5)
    >>> round(error("raw"), 3), round(error("shrunken"), 3), round(result.attrs["deviation"], 3)
    (0.041, 0.017, 0.024)
    """
    options = InputOptions(
        task, logits, labels, pos_label, ignore_label, label=label, score=score, skip_missing=skip_missing
    )
    given = Data.of(data, y_prob, by, sample_weight, InputOptions(**{**vars(options), "population": population}))
    return SliceShrinkage(measure, limit, confidence).run(given)


@dataclass(frozen=True)
class SliceShrinkage(Analysis):
    """Estimate the errors of many small slices, largest first.

    Gaps of small slices are mostly noise. Empirical Bayes shrinks each gap towards the mean of all slices according to
    its noise. DATA is a file of scored rows, as for evaluate, or a summary. Intervals have the stated coverage on
    average over the slices, for any distribution of the effects.

    Parameters
    ----------
    measure : {"mean-gap", "observed-expected"}
        Observed rate minus mean prediction, or observed over expected events.
    limit : float, optional
        Show the probability of an effect beyond this size.
    confidence : float
        Confidence level of the intervals.
    """

    measure: Measure = "mean-gap"
    limit: float | None = None
    confidence: float = 0.95

    name: ClassVar[str] = "shrink"
    heading: ClassVar[Heading] = "Find and watch"
    json_head: ClassVar[Sequence[str]] = (*Analysis.json_head, "measure", "confidence", "limit", "mean", "deviation")
    json_shape: ClassVar[str] = _JSON
    weights: ClassVar[bool] = True
    population: ClassVar[bool] = True
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("calibdask shrink rows.parquet --by campaign", "campaigns that are off beyond noise"),
        ("calibdask shrink summary.zarr --by campaign --limit 0.02", "probability of more than 2 points"),
    )

    def __post_init__(self) -> None:
        check_choice("measure", self.measure, ("mean-gap", "observed-expected"))
        check_confidence(self.confidence)
        least = 1.0 if self.measure == "observed-expected" else 0.0
        if self.limit is not None and not self.limit > least:
            raise ValueError(
                f"limit expects a number above {least:g} for the measure {self.measure}, got {self.limit}."
            )

    def compute(self, data: Data) -> xr.Dataset:
        """The estimates, as `calibdask.shrink_slices` returns them."""
        rows = data.read()
        if rows.batch or rows.batch_names or not rows.by:
            raise ValueError("shrink_slices expects slices of one model: name their columns with by.")
        if self.measure == "observed-expected" and rows.source.layout.weighted:
            raise ValueError(
                "shrink_slices expects rows without weights for observed-expected, whose events are counted."
            )
        answer: Any = run_requests({"sums": slice_sums()}, rows.source).estimates["sums"]
        sums: SliceSums = answer
        filled = sums.rows > 0
        if filled.sum() < _FEWEST_SLICES:
            raise ValueError(
                f"shrink_slices expects at least {_FEWEST_SLICES} slices with rows, whose effects it compares; got "
                f"{int(filled.sum())}."
            )
        is_gap = self.measure == "mean-gap"
        own = sums.at(filled)
        estimates = shrunken_gaps(own, self.confidence, self.limit) if is_gap else self._ratios(own)
        return self._dataset(rows, sums, filled, estimates)

    def _ratios(self, own: SliceSums) -> "ShrunkenEffects":
        if not (own.score > 0).all() or not own.outcome.any():
            raise ValueError("observed-expected expects events, and scores above 0 in every slice.")
        raw = own.outcome / own.score
        dispersion = float((own.square_score - own.square_square).sum() / own.score.sum())
        ratios = GammaRatios.of(own.outcome, own.score, max(dispersion, _LEAST_DISPERSION))
        shrunken = ratios.shrunken(own.outcome, own.score)
        # The outer ends of the posterior distribution and of an interval for any distribution of ratios.
        noise = own.noise((shrunken - 1) * own.score / own.weight) * (own.weight / own.score) ** 2
        effects = NormalEffects.of(raw, noise)
        least, most = effects.ends(raw, noise, self.confidence, own.are_normal(ratios.mean * own.score))
        low, high = ratios.ends(own.outcome, own.score, self.confidence)
        ends = np.maximum(np.minimum(low, least), 0.0), np.maximum(high, most)
        beyond = None if self.limit is None else ratios.beyond(own.outcome, own.score, self.limit)
        moments = {"mean": ratios.mean, "deviation": ratios.variance**0.5}
        with np.errstate(divide="ignore"):
            size = np.abs(np.log(shrunken))
        return ShrunkenEffects(raw, shrunken, *ends, beyond, size, moments)

    def _dataset(self, data: Input, sums: SliceSums, filled: Any, estimates: "ShrunkenEffects") -> xr.Dataset:
        def spread(values: Any, missing: Any = np.nan) -> Any:
            all_slices = np.full(filled.shape, missing)
            all_slices[filled] = values
            return all_slices.reshape(shape)

        axes = data.by
        shape = tuple(axis.size for axis in axes)
        dims: list[Hashable] = [axis.name for axis in axes]
        coordinates: dict[Hashable, Any] = {
            axis.name: (axis.name, axis.labels) for axis in axes if axis.labels is not None
        }
        order = np.empty(estimates.size.size, np.int64)
        order[np.argsort(-estimates.size, kind="stable")] = np.arange(1, estimates.size.size + 1)
        values = {name: spread(getattr(estimates, name)) for name in ("raw", "shrunken", "low", "high")}
        if estimates.exceeds is not None:
            values["exceeds"] = spread(estimates.exceeds)
        values["rank"] = spread(order, 0)
        setting = data.source.layout.setting(None)
        attributes: dict[str, Any] = {"rows": data.source.rows, "measure": self.measure, "confidence": self.confidence}
        attributes |= {} if self.limit is None else {"limit": self.limit}
        attributes |= {**estimates.moments, **data.attributes, "slices": data.slice_names}
        result = described(
            _VARIABLES, values, dims, coordinates, str(setting), data.class_dim(data.options.class_dim), **attributes
        )
        counted_rows = {"rows": sums.rows, "events": sums.outcome}
        totals = {name: (dims, counts.reshape(shape)) for name, counts in counted_rows.items()}
        return result.assign_coords(totals).assign_attrs(passes=data.source.passes)

    def document(self, result: xr.Dataset) -> Document:
        """How much effects differ, and the largest."""
        slices, shown = int((result["rank"] > 0).sum()), ranked_slices(result, _MOST_LINES)
        dims = [str(dim) for dim in result["raw"].dims]
        level = f"{percent(result.attrs['confidence'])} interval"
        heads = ["rows", "raw", "shrunken", level, *(["beyond limit"] if "exceeds" in result else [])]
        columns = [*((column_name(dim), False) for dim in dims), *((head, True) for head in heads)]
        is_gap = result.attrs["measure"] == "mean-gap"
        title = "Observed rate minus mean prediction" if is_gap else "Observed over expected events"
        sentences = [Sentence(_conclusion(result), name="conclusion")]
        if slices < _FEW_SLICES:
            sentences.append(Sentence(f"{slices} slices say little of how effects differ.", quiet=True))
        left = slices - len(shown)
        more = [Sentence(f"{counted(left, 'slice')} with smaller effects are not shown.", quiet=True)] if left else []
        if "exceeds" in result:
            more.append(
                Sentence(_BEYOND.format(figure(result.attrs["deviation"]), "normal" if is_gap else "gamma"), quiet=True)
            )
        table = Table(f"{title}, the largest first", columns, [_cells(one) for one in shown], name="slices")
        elements = [*sentences, table, *more, *population_sentences(result)]
        return Document("Slices, shrunk", "", [Section("slices", "", elements)], name=self.name)

    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """A record for each slice, the largest effect first."""
        return {
            "slices": [
                {"by": {name: plain(label) for name, label in one.labels.items()}}
                | {name: plain(value) for name, value in one.numbers.items()}
                for one in ranked_slices(result)
            ]
        }


def _cells(one: "RankedSlice") -> list[Cell]:
    cells = [text(slice_text(label)) for label in one.labels.values()]
    rows, (raw, shrunken, low, high) = one.numbers["rows"], (float(one.numbers[name]) for name in _ENDS)
    cells += [number(float(rows), f"{int(rows):,}"), number(raw, PLAIN.estimate(raw, low, high))]
    cells.append(number(shrunken, PLAIN.estimate(shrunken, low, high)))
    cells.append(interval(low, high, PLAIN.span(low, high)))
    if "exceeds" in one.numbers:
        cells.append(number(float(one.numbers["exceeds"]), _probability(float(one.numbers["exceeds"]))))
    return cells


def _probability(share: float) -> str:
    return f"< {percent(_LEAST_SHOWN)}" if share < _LEAST_SHOWN else percent(share)


@dataclass(frozen=True)
class ShrunkenEffects:
    """Estimates of slices with rows: raw and shrunken ones, ends, probabilities, sizes to rank by, moments."""

    raw: Array
    shrunken: Array
    low: Array
    high: Array
    exceeds: Array | None
    size: Array
    moments: Mapping[str, float]


def are_many_and_small(rows: Any) -> bool:
    """Whether slices with these numbers of rows are so many and so small that their raw gaps rank noise.

    Examples
    --------
    >>> are_many_and_small(np.full(300, 50)), are_many_and_small(np.full(300, 10_000)), are_many_and_small(np.ones(5))
    (True, False, False)
    """
    return len(rows) >= _MANY_SLICES and bool(np.median(rows) < _SMALL_ROWS)


def shrunken_gaps(sums: SliceSums, confidence: float, limit: float | None = None) -> ShrunkenEffects:
    """Mean gaps of slices with rows, shrunk towards their mean, with intervals that hold on average."""
    raw = (sums.outcome - sums.score) / sums.weight
    # With the gap of all slices: from a slice's own events, one without events would seem to be known exactly.
    pooled = float((sums.outcome - sums.score).sum() / sums.weight.sum())
    noise = sums.noise(np.full(raw.shape, pooled))
    effects = NormalEffects.of(raw, noise)
    shrunken = effects.shrunken(raw, noise)
    low, high = effects.ends(raw, noise, confidence, sums.are_normal(sums.score + pooled * sums.weight))
    ends = np.maximum(low, -1.0), np.minimum(high, 1.0)
    beyond = None if limit is None else effects.beyond(raw, noise, limit)
    moments = {"mean": effects.mean, "deviation": effects.variance**0.5, "kurtosis": effects.kurtosis}
    return ShrunkenEffects(raw, shrunken, *ends, beyond, np.abs(shrunken), moments)


@dataclass(frozen=True)
class RankedSlice:
    """The labels of a slice by dimension, and its numbers by variable."""

    labels: Mapping[str, Any]
    numbers: Mapping[str, Any]


def ranked_slices(result: xr.Dataset, most: int | None = None) -> list[RankedSlice]:
    """The slices with rows in the order of their ranks, the first ``most`` of them."""
    dims = [str(dim) for dim in result["raw"].dims]
    rank = result["rank"].values.ravel()
    order = np.argsort(rank, kind="stable")[(rank == 0).sum() :][:most]
    places = np.unravel_index(order, result["rank"].shape)
    labels = {
        dim: (result[dim].values[place] if dim in result.coords else place)
        for dim, place in zip(dims, places, strict=True)
    }
    names = ["rows", "events", *(str(name) for name in result.data_vars)]
    numbers = {name: result[name].values.ravel()[order] for name in names}
    return [
        RankedSlice(
            {dim: values[position] for dim, values in labels.items()},
            {name: values[position] for name, values in numbers.items()},
        )
        for position in range(order.size)
    ]


def _conclusion(result: xr.Dataset) -> str:
    attributes = result.attrs
    slices = counted(int((result["rank"] > 0).sum()), "slice")
    outside = int(((result["low"] > _neutral(attributes)) | (result["high"] < _neutral(attributes))).sum())
    words = f"{slices}: effects have a mean of {figure(attributes['mean'])} and a standard deviation of "
    return f"{words}{figure(attributes['deviation'])}; {outside:,} of the intervals exclude {_neutral(attributes):g}."


def _neutral(attributes: Mapping[str, Any]) -> float:
    return 0.0 if attributes["measure"] == "mean-gap" else 1.0
