"""The population that numbers are of: its prevalence, that of the training data, and how these were sampled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from calibdask.data.input import Input
from calibdask.engine.sources.viewed import ViewedSource
from calibdask.html_repr import HtmlRepr
from calibdask.statistics import exact
from calibdask.statistics.bins import grid_bins
from calibdask.statistics.bins.grid import UNIT, Grid, GridHistogram, GridState
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.outcome_sums import OutcomeSums
from calibdask.statistics.score_sums import ScoreSumsState
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.population import PopulationView, with_odds
from calibdask.storage.compatibility import POPULATION
from calibdask.storage.summary import Summary
from calibdask.storage.summary_format import SummaryAxes, to_dataset, with_notes

_ROUNDING = 1e-9

Share = float | tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Population(HtmlRepr):
    """The population in which decisions are made, if its prevalence differs from the sample or the training data.

    Parameters
    ----------
    prevalence : float, or sequence of K
        Frequency of y = 1 in the population, or of each class. Rows get the weight t_k / h_k by their label, where h_k
        is the frequency of class k in the sample (with sample weights, the weighted frequency): an enriched sample then
        represents the population.
    train_prevalence : float, or sequence of K
        Frequencies where the scores were learnt. Scores become proportional to s_k t_k / (train)_k: their odds are
        multiplied by the ratio of the odds. Without ``prevalence`` the target t is the sample.
    sampling_rate : float, or sequence of K
        Share of the rows without the outcome (or of each class) that was kept for training; all other rows were kept.
        Scores become s / (s + (1 - s) / rate). Together with it, ``train_prevalence`` is the prevalence before rows
        were dropped.

    Raises
    ------
    ValueError
        If none of them is given, or a number is not a share.

    Notes
    -----
    ``calibdask.evaluate(..., population=...)``, and likewise for `calibdask.summarize`, `calibdask.check`,
    `calibdask.threshold` and reports; at the shell ``--prevalence 0.005 --train-prevalence 0.05 --sampling-rate 0.1``.
    The attribute ``population`` of results, and of each of their variables, reads "at prevalence 0.5 %".

    Exact for rows: the result is the same as with scores and weights changed by hand. With a prevalence, one more pass
    counts the labels of the sample; the attribute ``passes`` includes it. Intervals treat the weights as fixed; they
    include the sampling variation of the prevalence, so they are up to twice as wide as with a fixed one. Slices are
    weighted like all rows, and keep their own prevalence relative to each other.

    From a summary of binary scores: weights exactly, and losses to 2e-8; changed scores at the mean of each cell and
    outcome, to the width of a cell. Summaries of several classes do not hold the label beside each score.

    It is valid if the distribution of scores within each class is the same in both populations (label shift).

    References
    ----------
    .. [1] Elkan, The foundations of cost-sensitive learning, 2001, theorem 2.
    .. [2] He et al., Practical lessons from predicting clicks on ads at Facebook, 2014, section 6.3.

    Examples
    --------
    >>> import calibdask as cd
    >>> y_true, y_prob = [0, 0, 1, 1], [0.01, 0.05, 0.02, 0.2]
    >>> result = cd.evaluate(y_true, y_prob, cd.MeanGap(), population=cd.Population(prevalence=0.02))
    >>> round(float(result.mean_gap_outcome), 6), result.attrs["population"]
    (0.02, 'at prevalence 2 %')
    """

    prevalence: float | Sequence[float] | None = None
    train_prevalence: float | Sequence[float] | None = None
    sampling_rate: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.prevalence is None and self.train_prevalence is None and self.sampling_rate is None:
            raise ValueError("Population expects a prevalence, a train_prevalence or a sampling_rate; got none.")
        for name in ("prevalence", "train_prevalence", "sampling_rate"):
            object.__setattr__(self, name, _checked(name, getattr(self, name)))

    @property
    def text(self) -> str:
        """Description of the population.

        Examples
        --------
        >>> Population(prevalence=0.005, train_prevalence=0.05, sampling_rate=0.1).text
        'at prevalence 0.5 %, scores corrected from prevalence 5 %, negatives kept at 10 %'
        """
        corrected = [] if self.train_prevalence is None else [f"from prevalence {_percent(self.train_prevalence)}"]
        if self.sampling_rate is not None:
            kept = "classes" if isinstance(self.sampling_rate, tuple) else "negatives"
            corrected.append(f"{'' if corrected else 'for '}{kept} kept at {_percent(self.sampling_rate)}")
        where = "in the sample" if self.prevalence is None else f"at prevalence {_percent(self.prevalence)}"
        return ", ".join([where, f"scores corrected {', '.join(corrected)}"] if corrected else [where])

    def check_counts_rows(self, caller: str) -> None:
        """Raise ValueError where rows have weights: a guarantee of the caller counts rows."""
        if self.prevalence is not None:
            raise ValueError(
                f"{caller} expects a population without prevalence, which weights rows: its guarantee counts rows. "
                "Give only train_prevalence or sampling_rate, and choose from rows of the population itself."
            )

    @property
    def needs_frequencies(self) -> bool:
        """Whether the frequencies of the classes in the sample matter."""
        return self.prevalence is not None or self.train_prevalence is not None

    def view(self, classes: int, frequencies: Array | None) -> PopulationView:
        """How rows are seen, given the frequencies of the classes in the sample where these matter."""
        target = _by_class("prevalence", self.prevalence, classes)
        learnt = _by_class("train_prevalence", self.train_prevalence, classes)
        factors, weights = None, None
        if learnt is not None:
            factors = (frequencies if target is None else target) / learnt
        if self.sampling_rate is not None:
            rates = self.sampling_rate
            if isinstance(rates, tuple):
                kept = np.array(rates)
            elif classes == 2:
                kept = np.array([rates, 1.0])
            else:
                raise ValueError(
                    f"sampling_rate expects a share of each of the {classes} classes that was kept, got {rates}."
                )
            if kept.size != classes:
                raise ValueError(f"sampling_rate expects {classes} numbers, one for each class, got {kept.size}.")
            factors = 1 / kept if factors is None else factors / kept
        if target is not None:
            assert frequencies is not None
            if absent := np.flatnonzero(frequencies <= 0).tolist():
                raise ValueError(
                    f"population expects rows of each class, to weight them to a prevalence; none has the label "
                    f"{absent[0]}."
                )
            weights = target / frequencies
        return PopulationView(*(None if of is None else tuple(of.tolist()) for of in (factors, weights)))

    def input_of(self, read: Input) -> Input:
        """The rows of a sample as of this population.

        Raises
        ------
        ValueError
            If it does not fit the classes, or the models have different labels.
        """
        if read.options.task == "multilabel":
            raise ValueError(
                "population expects one problem, but each multilabel column has its own prevalence; evaluate the "
                "columns separately."
            )
        layout = read.source.layout
        frequencies = None
        if self.needs_frequencies:
            (sums,) = read.source.answer((OutcomeSums(_all_classes(layout)),))
            frequencies = _frequencies(exact.value(sums.outcome), exact.value(sums.weight), layout)
        view = self.view(layout.classes, frequencies)
        return replace(read, source=ViewedSource(read.source, view), population=self.text)

    def summary_of(self, summary: Summary) -> Summary:
        """A summary of the sample as one of this population.

        Raises
        ------
        ValueError
            If it is of several classes, or of a population already, or holds no histogram of a class.
        """
        if said := summary.dataset.attrs.get(POPULATION):
            raise ValueError(
                f"This summary already refers to a population: {said}; summarize the rows, or omit population."
            )
        if summary.source.layout.clustered:
            raise ValueError(
                "population expects rows, or a summary without clusters of rows: summarize the rows with population= "
                "and groups=, or drop the clusters by drop_dims('cluster_bucket')."
            )
        slices = [name for name in summary.dataset["rows"].dims if name not in summary.batch]
        summary = Summary.of(summary.dataset.transpose(*summary.batch, *slices, ...), summary.url)
        source, layout = summary.source, summary.source.layout
        stored = [histogram for histogram in source.histograms if histogram.setting.kind in ("class", "classwise")]
        if not layout.vector or not stored:
            raise ValueError(
                "population expects rows, or a summary of binary scores with a histogram of a class: other summaries "
                "do not store the label of each score. Summarize the rows with population=, or evaluate them."
            )
        frequencies = None
        if self.needs_frequencies:
            sums = OutcomeSums(Setting("class", 1)).from_histograms(source)
            frequencies = _frequencies(exact.value(sums.outcome), exact.value(sums.weight), layout)
        view = self.view(2, frequencies)
        states = [(histogram, _seen(source.state(histogram), histogram, view)) for histogram in stored]
        binary = source.finest(Setting("class", 1))
        scores = _scores(_seen(source.state(binary), binary, view), binary.grid, view.layout(layout))
        if source.scores is not None:
            scores = scores._replace(clipped=source.scores().clipped)
        axes = SummaryAxes(
            tuple(axis for axis in summary.axes if axis.name in summary.batch),
            tuple(axis for axis in summary.axes if axis.name not in summary.batch),
            summary.class_labels,
        )
        dataset = with_notes(to_dataset(states, scores, view.layout(layout), axes, "class"), summary.notes)
        return Summary.of(dataset.assign_attrs({**summary.dataset.attrs, POPULATION: self.text}), summary.url)


def _checked(name: str, given: Any) -> Share | None:
    """Shares between 0 and 1; of several classes prevalences add up to 1."""
    if given is None:
        return None
    if np.ndim(given) == 0 and isinstance(given, Real):
        most = 1.0 if name == "sampling_rate" else 1.0 - _ROUNDING
        if not 0 < float(given) <= most:
            raise ValueError(f"{name} expects a share between 0 and 1, such as 0.02, got {given!r}.")
        return float(given)
    try:
        values = tuple(float(value) for value in given)
    except (TypeError, ValueError):
        raise ValueError(f"{name} expects a share, or one for each class, got {given!r}.") from None
    if len(values) < 2 or not all(0 < value <= 1 for value in values):
        raise ValueError(f"{name} expects a share between 0 and 1 for each class, got {given!r}.")
    if name != "sampling_rate" and abs(math.fsum(values) - 1) > _ROUNDING:
        raise ValueError(f"{name} expects shares that add up to 1, got {given!r}, whose sum is {math.fsum(values):g}.")
    return values


def _by_class(name: str, given: Any, classes: int) -> Any:
    """A share for each class."""
    if given is None:
        return None
    if not isinstance(given, tuple):
        if classes != 2:
            raise ValueError(f"{name} expects a share of each of the {classes} classes, got {given}.")
        return np.array([1 - given, given])
    if len(given) != classes:
        raise ValueError(f"{name} expects {classes} shares, one for each class, got {len(given)}.")
    return np.array(given)


def _percent(given: Any) -> str:
    shares = given if isinstance(given, tuple) else (given,)
    return ", ".join(f"{100 * share:g} %" for share in shares)


def _all_classes(layout: Layout) -> Setting:
    return Setting("class", 1) if layout.vector else Setting("classwise")


def _frequencies(outcome: Array, weight: Array, layout: Layout) -> Array:
    """Class frequencies over all slices; models share them."""
    shares = outcome.sum(1) / weight[..., :1].sum(1)
    if not np.allclose(shares, shares[:1], rtol=_ROUNDING, atol=0):
        raise ValueError(
            "population expects the same labels for all models; evaluate models with other labels separately."
        )
    own = shares[0]
    return np.array([1 - own[0], own[0]]) if layout.vector else own


def _seen(state: GridState, histogram: GridHistogram, view: PopulationView) -> GridState:
    """A histogram of binary scores as changed by the view, each cell and outcome at its mean score."""
    classes = range(2) if histogram.setting.kind == "classwise" else [histogram.setting.index]
    columns = [
        _column_seen(state.part((slice(None), slice(None), slice(at, at + 1))), histogram.grid, view, own)
        for at, own in enumerate(classes)
    ]
    return GridState(*(np.concatenate(parts, 2) for parts in zip(*columns, strict=True)))


def _column_seen(state: GridState, grid: Grid, view: PopulationView, own: int) -> GridState:
    """One column, whose outcome is the label ``own``."""
    factors = None if view.factors is None else np.array([view.factors[1 - own], view.factors[own]])
    moved = state if factors is None else _moved(state, grid, factors)
    if view.weights is None:
        return moved
    weights = np.array([view.weights[1 - own], view.weights[own]])
    rows = moved.rows if moved.weighted else moved.mass
    square = moved.square if moved.weighted else moved.mass.astype(np.float64)
    return GridState(moved.mass * weights, moved.distance * weights, square * weights**2, rows)


def _moved(state: GridState, grid: Grid, factors: Array) -> GridState:
    """The rows of each cell and outcome, moved to where their mean score is."""
    mass = np.asarray(state.mass, np.float64)
    filled = np.nonzero(mass)
    position = (state.distance[filled] / mass[filled]).clip(0.0, 1.0)
    edge, step = grid.nearer
    before = (edge[filled[3]] + step[filled[3]] * position).clip(0.0, 1.0)
    after = with_odds(before[:, None], factors, is_vector=True)[:, 0].clip(0.0, 1.0)
    cell = np.clip(np.searchsorted(grid.edges, after, side="left") - 1, 0, grid.size - 1)
    inside = ((after - edge[cell]) / step[cell]).clip(0.0, 1.0)
    at = (*filled[:3], cell, filled[4])

    def added(values: Any, like: Any) -> Any:
        if not like.shape[3]:
            return like
        sums = np.zeros_like(like)
        np.add.at(sums, at, values)
        return sums

    kept = state.mass[filled]
    if state.weighted:
        return GridState(
            added(kept, state.mass),
            added(kept * inside, state.offset),
            added(state.square[filled], state.square),
            added(state.rows[filled], state.rows),
        )
    offset = np.rint(inside / UNIT).astype(np.int64) * kept
    return GridState(added(kept, state.mass), added(offset, state.offset), state.square, state.rows)


def _scores(state: GridState, grid: Grid, layout: Layout) -> ScoreSumsState:
    """Sums of proper scores by the cells of a histogram of the outcome 1."""
    weight, brier, log = grid_bins.binary_scores(state, grid, layout.smallest)
    rows = (state.rows if state.weighted else state.mass)[:, :, 0].sum((-1, -2))
    clipped = np.zeros(rows.shape, np.int64)
    if layout.weighted:
        return ScoreSumsState(rows, clipped, weight, brier, log)
    return ScoreSumsState(rows, clipped, exact.from_counts(rows), *map(exact.from_values, (brier, log)))
