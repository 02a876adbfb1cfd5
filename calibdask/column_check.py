"""Checks for swapped columns, hard decisions and rounded scores, from sums that metrics need anyway."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.data.input import Input
from calibdask.engine.row_notes import level_of_caller
from calibdask.errors import SuspectScoresWarning
from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, Part
from calibdask.results.build import SCORE_CAUTIONS
from calibdask.results.cautions import (
    below_chance,
    hard_predictions,
    overconfidence_excludes_chance,
    permuted_columns,
    reversed_scores,
    scores_beside_edges,
)
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSumsState
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.confusion import Confusion
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# More classes than this have no confusion matrix, and so many suspect models are named.
_MOST_CLASSES, _MOST_NAMED = 200, 3
# Counting predictions costs about as much as one metric.
_FEWEST_METRICS = 4
# Sums of scores are exact to this number for each row.
_EXACT = 2.0**-44


# The name of the check among metrics, and of what it found.
_CHECK = ""


def column_check(metrics: Mapping[str, Estimator], data: Input) -> dict[str, Estimator]:
    """The check that goes with these metrics, under a name of no metric; none where it would cost a pass.

    Scores are checked where a metric asks for their bins of equal width. For columns of several classes predictions
    are counted too, which is a small part of the pass beside some other metrics.
    """
    layout = data.source.layout
    default = layout.setting(None)
    binned = [metric for metric in metrics.values() if isinstance(metric, BinnedEstimator)]
    if data.batch_names or data.are_ranks:
        return {}
    counts_predictions = (
        len(metrics) >= _FEWEST_METRICS
        and not layout.vector
        and data.source.has_rows
        and layout.classes <= _MOST_CLASSES
    )
    uniform = [
        metric
        for metric in binned
        if metric.binning == "uniform"
        and metric.bins != "sqrt"
        and getattr(metric, "mapping", "hard") == "hard"
        and layout.setting(metric.measured(layout), metric.k) == default
    ]
    if not uniform:
        return {}
    return {_CHECK: ColumnCheck(uniform[0], counts_predictions)}


def score_cautions(estimates: Mapping[str, Estimate]) -> dict[str, str]:
    """The attribute of a result with all that the checks found; empty if they found nothing."""
    found = estimates[_CHECK][SCORE_CAUTIONS].values if _CHECK in estimates else ()
    return {SCORE_CAUTIONS: " ".join(map(str, found))} if len(found) else {}


@dataclass(frozen=True)
class ColumnCheck(Estimator):
    """Warns if one minus the scores, or a permutation of their columns, fits the labels far better.

    Parameters
    ----------
    metric : BinnedEstimator
        Whose sums over bins tell.
    counts_predictions : bool
        Whether predictions are counted by label, which tells how columns are swapped.
    """

    metric: BinnedEstimator
    counts_predictions: bool = False

    def interval(self, layout: Layout) -> NoInterval:
        """None: it gives no numbers."""
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        # Requested first, to be counted in the same pass as the bins.
        confusion = (yield from Confusion()) if self.counts_predictions else None
        _, edges, sums, _ = yield from self.metric.binned("hard")
        elements = [_Bins.of(sums, b) for b in range(layout.batch)]
        if confusion is None and not layout.vector:
            found = [list(bins.below_chance(layout.classes)) for bins in elements]
        elif confusion is None:
            found = [list(reversed_scores(bins.rows, bins.weight, bins.score, bins.outcome)) for bins in elements]
        else:
            found = [list(bins.permuted_columns(counts)) for counts, bins in zip(confusion.rows, elements, strict=True)]
        hard = [list(hard_predictions(bins.rows, bins.weight, bins.score, vector=layout.vector)) for bins in elements]
        beside = [list(bins.beside_edges(edges, layout)) for bins in elements] if layout.vector else []
        return _warned([*_messages(found), *_messages(hard), *_messages(beside)])


def _warned(found: list[str]) -> Estimate:
    """Issue warnings, with the sentences for the numbers."""
    for message in found:
        warnings.warn(message, SuspectScoresWarning, stacklevel=level_of_caller())
    return {SCORE_CAUTIONS: Part(np.array(found, object))}


@dataclass(frozen=True, eq=False)
class _Bins:
    """Bins of all slices of one model: effective number of rows; weight, mean score and frequency by bin."""

    rows: float
    weight: Array
    score: Array
    outcome: Array

    @classmethod
    def of(cls, sums: BinSumsState, b: int) -> "_Bins":
        parts = (sums.weight, sums.weight_square, sums.score, sums.outcome)
        weight, square, score, outcome = (exact.value(exact.pooled(part[b], 0))[0] for part in parts)
        filled = weight > 0
        weight = weight[filled]
        # Kish's number: without weights that of the rows.
        rows = float(weight.sum() ** 2 / square.sum()) if filled.any() else 0.0
        return cls(rows, weight, score[filled] / weight, outcome[filled] / weight)

    def permuted_columns(self, counts: Counts) -> Iterator[str]:
        """Sentence on predictions by label, if accuracy is significantly far below the confidence."""
        if overconfidence_excludes_chance(self.rows, self.confidence, self.accuracy):
            yield from permuted_columns(counts, self.confidence)

    def below_chance(self, classes: int) -> Iterator[str]:
        """Sentence on an accuracy below that of guesses."""
        if self.rows:
            yield from below_chance(self.rows, self.confidence, self.accuracy, classes)

    def beside_edges(self, edges: Edges, layout: Layout) -> Iterator[str]:
        """Sentence on bins whose scores all equal one of their edges, after rounding to the score type.

        Counting rounded edges among other scores of a bin would take 3 to 5 ns for a row, a third of a pass; the mean
        of a bin of nothing else is known anyway, and these are the rows by which bins are empty or hold two decimals.
        """
        dtype = "float16" if layout.half else layout.dtype
        inner = edges.values.ravel()[1:-1]
        rounded = inner.astype(dtype).astype(np.float64)
        is_inexact = rounded != inner
        at = np.abs(self.score[:, None] - rounded[is_inexact]) <= _EXACT
        share = float(self.weight @ at.any(axis=1) / self.weight.sum()) if self.rows else 0.0
        shown = inner[is_inexact][at.any(axis=0)].tolist()
        yield from scores_beside_edges(share, self.rows, shown, dtype)

    @property
    def confidence(self) -> float:
        return float(self.weight @ self.score / self.weight.sum()) if self.rows else np.nan

    @property
    def accuracy(self) -> float:
        return float(self.weight @ self.outcome / self.weight.sum()) if self.rows else np.nan


def _messages(found: list[list[str]]) -> Iterator[str]:
    """Sentences on each suspect model."""
    suspect = [(number, sentences[0]) for number, sentences in enumerate(found) if sentences]
    for number, sentence in suspect[:_MOST_NAMED]:
        yield sentence if len(found) == 1 else f"Model {number + 1} of {len(found)}: {sentence}"
