"""Caveats on results: thresholds and sentences shared by reports, pages and terminals."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from calibdask.results.format import POINTS, counted, figure, joined, named, percent, points
from calibdask.results.reliability import Array
from calibdask.results.values import PartResult, Value

# Below the second number nothing is said of a model at all.
FEW_ROWS, FEWEST_ROWS = 300, 30
# With so many rows tests of calibration reject negligible errors too.
MANY_ROWS = 100_000
# Slices below the second number have no intervals: the replicates of one row are that row, and look certain.
FEW_IN_A_SLICE, TOO_FEW_IN_A_SLICE = 100, 10
_FEW_IN_A_BIN = 10
# The share of the rows in one bin from which a binned error no longer sees where scores are off.
_CROWDED = 0.8
# Up to the second number of different scores, no curve between them is put into words.
_FEW_SCORES, FEWEST_SCORES = 50, 20
# Fewer different scores than this share of the rows are tied.
_TIED = 0.5
_SATURATED = 0.001
# Scores are suspected to be those of another class from so many rows on, if accuracy and Brier score would be better by
# as much; and by as many standard errors as a calibrated model shows in one of a million data sets at most: by
# Hoeffding's inequality a mean of n numbers from [0, 1] is above its expectation by c / sqrt(n) with probability
# exp(-2 c**2).
_SUSPECT_ROWS, _FAR, _CHANCE = 100, 0.1, 2.63
# By so many standard errors those with the outcome have lower scores than those without.
_REVERSED = 4.0
# The share of scores beside edges of bins from which they are decimals: of other scores one in millions is.
_BESIDE = 0.01
# What slices are called that are models: they may have scored the same rows.
MODEL_DIMS = ("model", "models", "classifier", "estimator")
# Kish's effective number over the rows below which weights cost much.
_UNEQUAL = 0.5
# By how much, and by what factor, a binned error exceeds the smooth ones where that deserves a sentence.
_BIAS, _BIAS_FACTOR = 0.005, 1.3
# The width of an interval of a slice beyond which little is known of its error, and how many such slices are named.
_WIDE, _MOST_NAMED = 0.05, 5


def few_rows(rows: int) -> Iterator[str]:
    """Few rows in all.

    Examples
    --------
    >>> next(few_rows(100)).partition(".")[0]
    'There are only 100 rows'
    >>> list(few_rows(1000))
    []
    """
    if rows < FEW_ROWS:
        yield (
            f"There are only {counted(rows, 'row')}. Below about {FEW_ROWS}, most of a binned calibration error can "
            "be due to chance, and intervals are rough."
        )


def unequal_weights(rows: int, effective: float) -> Iterator[str]:
    """Weights that leave little of many rows; ``effective`` is Kish's number of rows."""
    if effective < _UNEQUAL * rows:
        yield f"The weights are so unequal that the rows carry no more information than {effective:,.0f} equal ones."


def few_in_bins(count: Array) -> Iterator[str]:
    """Bins of few rows; ``count`` holds the rows of those that have any."""
    few = int((count < _FEW_IN_A_BIN).sum())
    if few:
        hold, their = ("holds", "its gap is") if few == 1 else ("hold", "their gaps are")
        yield (
            f"{few} of {counted(count.size, 'nonempty bin')} of binned errors such as ECE and MCE {hold} fewer than "
            f"{_FEW_IN_A_BIN} rows: {their} mostly noise, and so may be the largest gap (MCE)."
        )


def crowded_bin(count: Array, bins: int) -> Iterator[str]:
    """One bin of equal width that holds nearly all rows; ``count`` is that of the bins that have any.

    Examples
    --------
    >>> next(crowded_bin(np.array([900.0, 100.0]), 15)).partition(":")[0]
    '90 % of the rows are in one of the 15 bins of equal width'
    >>> list(crowded_bin(np.array([600.0, 400.0]), 15))
    []
    """
    share = float(count.max(initial=0.0)) / max(float(count.sum()), 1.0)
    if bins > 1 and share > _CROWDED:
        yield (
            f"{percent(share)} of the rows are in one of the {bins} bins of equal width: gaps of opposite sign cancel "
            "within it, so the ECE hardly exceeds the mean gap. Use smooth_ece, or bins of equal mass."
        )


def few_scores(distinct: float, rows: int) -> Iterator[str]:
    """Scores of few different values, as of rounded or tied scores: of few rows few scores tell nothing."""
    if distinct <= _FEW_SCORES and distinct < _TIED * rows:
        yield (
            f"The scores take only {distinct:.0f} different values. Between these the curve and the density are "
            "interpolated, not measured; trust the diagram."
        )


def saturated(at_zero: float, at_one: float) -> Iterator[str]:
    """Scores next to 0 and 1, as shares."""
    ends = [
        f"{percent(share)} of the scores are {end}"
        for end, share in enumerate((at_zero, at_one))
        if share >= _SATURATED
    ]
    if ends:
        yield (
            f"{joined(ends)} or next to it. Such scores claim certainty: a single error makes the log loss very "
            "large, and no monotone recalibration can separate them."
        )


def clipped_rows(metric: str, rows: int, clip: float) -> Iterator[str]:
    """Rows whose label had a score below ``clip``, or 0 without one, which a metric has clipped.

    Examples
    --------
    >>> [*clipped_rows("log-loss(clip=0.001)", 21, 0.001)]
    ['In 21 rows the observed label had a score below 0.001; log-loss(clip=0.001) replaces it by 0.001.']
    """
    if rows and clip:
        yield (
            f"In {counted(rows, 'row')} the observed label had a score below {clip:g}; {metric} replaces it by "
            f"{clip:g}."
        )
    elif rows:
        yield (
            f"In {counted(rows, 'row')} the observed label had the score 0. The log loss of such a row is infinite; "
            f"{metric} replaces the score by the smallest positive number."
        )


def missing_numbers(title: str, reason: str) -> Iterator[str]:
    """Numbers, or their intervals, that the rows do not determine, or not as assumed.

    Examples
    --------
    >>> [*missing_numbers("calibration slope", "all outcomes are equal")]
    ['calibration slope: all outcomes are equal.']
    """
    if reason:
        yield f"{title}: {reason}."


def clipped_logits(title: str, weight: float) -> Iterator[str]:
    """Rows with scores of 0 and 1, whose logits are infinite."""
    if weight > 0:
        yield (
            f"{title}: scores of exactly 0 or 1, in rows of weight {weight:,.6g}, have infinite logits, which were "
            "clipped; such rows may dominate the result."
        )


_NOTES = ("undefined", "clipped_logits", "no_interval", "no_replicates", "clipped_rows", "clip", "uneven_weights")


def of_metrics(parts: Iterable[PartResult]) -> Iterator[str]:
    """Notes of metrics on missing, clipped or interval-free numbers, and on weights, once each."""
    distinct = {(part.metric, part.label, tuple(part.notes.get(note) for note in _NOTES)) for part in parts}
    of_weights: dict[str, list[str]] = {}
    for _, label, (reason, weight, no_interval, no_replicates, clipped, clip, uneven) in sorted(distinct, key=str):
        # Counts of columns are no reasons.
        yield from missing_numbers(label, reason if isinstance(reason, str) else "")
        yield from clipped_logits(label, float(weight or 0.0))
        yield from missing_numbers(label, f"no interval {no_interval}" if no_interval else "")
        yield from missing_numbers(label, str(no_replicates or ""))
        yield from clipped_rows(label, int(clipped or 0), float(clip or 0.0))
        if uneven:
            of_weights.setdefault(str(uneven), []).append(label)
    for reason, labels in of_weights.items():
        yield from missing_numbers(named([*dict.fromkeys(labels)]), reason)


def unseen_classes(labels: Sequence[str]) -> Iterator[str]:
    """Classes that no row has as its label."""
    if labels:
        occur, their = ("occurs", "its") if len(labels) == 1 else ("occur", "their")
        yield (
            f"{counted(len(labels), 'class', 'classes')} never {occur} as a label ({named(labels)}): the calibration "
            "of "
            f"{their} scores is unknown, except that they should be 0 here."
        )


def one_sided(frequency: float) -> Iterator[str]:
    """Outcomes that are all alike."""
    if frequency in (0.0, 1.0):
        yield (
            f"The outcome {'always' if frequency else 'never'} occurred: these rows contain little information on "
            "calibration."
        )


def interval_from_zero(label: str, error: Value) -> Iterator[str]:
    """A calibration error that may be due to chance."""
    if error.has_interval and error.low == 0:
        yield f"The interval of the {label} begins at 0: such an error is consistent with calibration."


def binned_above_smooth(binned: Value, smooth: Sequence[Value]) -> Iterator[str]:
    """An error that bins see and smooth estimates do not."""
    smooth = [error for error in smooth if np.isfinite(error.value)]
    largest = max((error.value for error in smooth), default=np.nan)
    if binned.value > _BIAS_FACTOR * largest and binned.value - largest > _BIAS:
        others = joined([f"{error.name} {figure(error.value)}" for error in smooth])
        yield (
            f"The binned error ({binned.name} {figure(binned.value)}) is well above the smooth ones ({others}). The "
            "mean of absolute gaps is inflated by noise in bins with few rows; smooth estimates are less prone to that."
        )


def few_in_slices(name: str, labels: Sequence[str]) -> Iterator[str]:
    """Slices, by their labels, of fewer rows than `FEW_IN_A_SLICE`."""
    if labels:
        yield (
            f"{counted(len(labels), 'slice')} of {name} {'has' if len(labels) == 1 else 'have'} fewer than "
            f"{FEW_IN_A_SLICE} rows ({named(labels)}): their intervals are wide and rough."
        )


def wide_slices(name: str, rows: Mapping[str, float], errors: Mapping[str, Value]) -> Iterator[str]:
    """Slices whose error, in percentage points, is hardly known, the widest intervals first; both by their labels."""
    widths = {label: error.high - error.low for label, error in errors.items() if error.has_interval}
    wide = sorted((label for label, width in widths.items() if width > _WIDE), key=lambda label: -widths[label])
    for label in wide[:_MOST_NAMED]:
        number = "an unknown number of rows" if np.isnan(rows[label]) else counted(int(rows[label]), "row")
        yield (
            f"{name} {label} has {number}: its calibration error may be anything from "
            f"{POINTS.span(errors[label].low, errors[label].high)} percentage points."
        )
    if len(wide) > _MOST_NAMED:
        yield (
            f"The intervals of {counted(len(wide) - _MOST_NAMED, 'further slice')} of {name} are wider than "
            f"{points(_WIDE)} percentage points too."
        )


def many_slices(name: str, number: int, level: float | None) -> Iterator[str]:
    """So many slices that some intervals miss by chance."""
    if level is not None and number * (1 - level) >= 1:
        yield (
            f"There are {number} slices of {name}: among this many {percent(level)} intervals some miss the true "
            f"error by chance, and the worst slice looks worse than it is."
        )


def pooled_models(name: str, number: int) -> Iterator[str]:
    """Slices by a column that names models, whose rows are pooled in the numbers of all rows.

    Examples
    --------
    >>> next(pooled_models("model", 2)).partition(":")[0]
    'The numbers of all rows pool 2 models'
    """
    if name in MODEL_DIMS and number > 1:
        yield (
            f"The numbers of all rows pool {counted(number, 'model')}: they describe no single model, and rows scored "
            "by several models count several times. Read the slices separately, or use one file per model."
        )


def reversed_scores(rows: float, weight: Array, score: Array, outcome: Array) -> Iterator[str]:
    """Scores that fit far better if they are subtracted from 1.

    Of the effective number of rows, and the weight, mean score and frequency by bin.

    A calibrated model is hardly ever suspected: of its rows, the Brier score of 1 - s is above that of s by
    (1 - 2 s)**2 on average. A biased one is not either: of scores that are only too high, those of rows with the
    outcome are higher than those of others.

    Examples
    --------
    >>> score, outcome = np.array([0.1, 0.9]), np.array([0.85, 0.12])
    >>> next(reversed_scores(1000, np.array([500.0, 500.0]), score, outcome)).partition(":")[2].partition(".  ")[0][:38]
    ' accuracy 0.8650 instead of 0.1350, Br'
    >>> list(reversed_scores(1000, np.array([500.0, 500.0]), score, 1 - outcome))
    []
    """
    if rows < _SUSPECT_ROWS or not 0 < (weight * outcome).sum() < weight.sum():
        return
    share = weight / weight.sum()
    brier, other = (float(share @ (s**2 * (1 - outcome) + (1 - s) ** 2 * outcome)) for s in (score, 1 - score))
    right, other_right = (float(share @ np.where(s > 0.5, outcome, 1 - outcome)) for s in (score, 1 - score))
    means, variances = np.empty(2), np.empty(2)
    for side, part in enumerate((share * (1 - outcome), share * outcome)):
        means[side] = part @ score / part.sum()
        variances[side] = part @ (score - means[side]) ** 2 / (rows * part.sum() ** 2)
    is_reversed = means[0] - means[1] > _REVERSED * np.sqrt(variances.sum())
    # Differences of two numbers from [0, 1] lie in [-1, 1].
    least = max(_FAR, 2 * _CHANCE / np.sqrt(rows))
    if is_reversed and other < brier / 2 and min(brier - other, other_right - right) > least:
        yield (
            f"One minus the scores fits the outcomes far better: accuracy {figure(other_right)} instead of "
            f"{figure(right)}, Brier score {figure(other)} instead of {figure(brier)} (both by bins). These may be the "
            "scores of the other class, or the labels are swapped."
        )


def hard_predictions(rows: float, weight: Array, score: Array, *, vector: bool) -> Iterator[str]:
    """Scores that are decisions: of the effective number of rows, and the weight and mean score by bin.

    A vector of P(y = 1) holds both then: scores that are all alike are those of an outcome that nobody expects.

    Examples
    --------
    >>> next(hard_predictions(1000, np.array([400.0, 600.0]), np.array([0.0, 1.0]), vector=True))[:28]
    'All scores are 0 or 1, as of'
    """
    if rows >= _SUSPECT_ROWS and {*score[weight > 0].tolist()} == ({0.0, 1.0} if vector else {1.0}):
        yield (
            "All scores are 0 or 1, as of predict(): these are decisions, not probabilities. Give predicted "
            "probabilities, as of predict_proba(); the log loss of each wrong decision is infinite."
        )


def scores_beside_edges(share: float, rows: float, edges: Sequence[float], dtype: str) -> Iterator[str]:
    """A share of the scores that are edges of bins but for the rounding of their type.

    Examples
    --------
    >>> next(scores_beside_edges(0.4, 1000, (0.05, 0.1), "float32"))[:69]
    'At least 400 of 1,000 scores are an edge of a bin rounded to float32 '
    """
    if rows >= _SUSPECT_ROWS and share >= _BESIDE:
        shown = named([f"{edge:.6g}" for edge in edges])
        yield (
            f"At least {share * rows:,.0f} of {rows:,.0f} scores are an edge of a bin rounded to {dtype} ({shown}): "
            "rounding puts them into the bin below or above, and leaves others empty. Where decimals are meant, give "
            "them in 64 bits: scores.astype(float).round(6)."
        )


def overconfidence_excludes_chance(rows: float, confidence: float, accuracy: float) -> bool:
    """Whether accuracy is significantly far below the mean confidence, as for swapped columns."""
    return rows >= _SUSPECT_ROWS and confidence - accuracy > max(_FAR, _CHANCE / np.sqrt(rows))


def below_chance(rows: float, confidence: float, accuracy: float, classes: int) -> Iterator[str]:
    """Predictions that are right less than half as often as guesses, and significantly: columns in another order.

    Examples
    --------
    >>> next(below_chance(20_000, 0.92, 0.024, 10)).partition(",")[0]
    'Only 0.0240 of the predictions are right'
    >>> list(below_chance(20_000, 0.92, 0.1, 10))
    []
    """
    chance = 1 / classes
    far = accuracy < chance / 2 and accuracy < chance - _CHANCE * np.sqrt(chance / max(rows, 1.0))
    if far and overconfidence_excludes_chance(rows, confidence, accuracy):
        yield (
            f"Only {figure(accuracy)} of the predictions are right, fewer than of guesses among {classes} classes, at "
            f"a mean confidence of {figure(confidence)}. The columns of scores may be in another order than the labels."
        )


def permuted_columns(counts: npt.NDArray[np.int64], confidence: float) -> Iterator[str]:
    """Columns that fit far better in another order: rows by label and predicted class, and the mean confidence.

    Examples
    --------
    >>> next(permuted_columns(np.array([[5, 90, 5], [80, 10, 10], [0, 10, 90]]), 0.88)).partition(":")[0]
    'In another order the columns of scores fit the labels far better'
    >>> list(permuted_columns(np.diag([100, 100, 100]), 0.99))
    []
    """
    from scipy.optimize import linear_sum_assignment

    rows = counts.sum()
    accuracy = float(np.trace(counts) / max(1, rows))
    if not overconfidence_excludes_chance(rows, confidence, accuracy):
        return
    labels, columns = linear_sum_assignment(counts, maximize=True)
    other = float(counts[labels, columns].sum() / rows)
    is_calibrated = abs(confidence - other) < (confidence - accuracy) / 2
    if is_calibrated and other - accuracy > max(_FAR, _CHANCE / np.sqrt(rows)):
        moved = [
            f"{label} by column {column}" for label, column in zip(labels, columns, strict=True) if label != column
        ]
        yield (
            f"In another order the columns of scores fit the labels far better: accuracy {figure(other)} instead of "
            f"{figure(accuracy)}, at a mean confidence of {figure(confidence)}. By the predictions, class "
            f"{named(moved)}, counted from 0. Columns may be swapped, or labels shifted."
        )
