"""The front door: labelled results from labelled or plain arrays."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import xarray as xr

from calibdask import __version__
from calibdask.engine.inputs import Input, read_given
from calibdask.engine.interval_ends import Method, checked_method
from calibdask.engine.intervals import Histogram, checked_interval, intervals
from calibdask.engine.plan import Outcome, run
from calibdask.engine.row_intervals import known_ends, row_ends, row_replicates
from calibdask.engine.source import Source
from calibdask.engine.stored import StoredSource
from calibdask.engine.summaries import is_summary, read_summary
from calibdask.estimators.estimator import Estimate, Estimator
from calibdask.estimators.panel import default_metrics, summary_metrics
from calibdask.labelled import Labelled, check_names
from calibdask.naming import Metrics, named_metrics
from calibdask.statistics.grid import GridHistogram

__all__ = ["evaluate", "usual_metrics"]


def evaluate(
    y_true: Any,
    y_prob: Any = None,
    metrics: Metrics | None = None,
    *,
    by: Any = None,
    sample_weight: Any = None,
    ci: float | None = None,
    ci_method: Method | None = None,
    n_boot: int = 200,
    seed: int = 0,
    keep_replicates: bool = False,
    sample_dim: str = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
) -> xr.Dataset:
    """Evaluate predicted probabilities; all metrics in one pass over the data, adaptive ones in one to three.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers 0..K-1: integers, booleans, or whole floats. NumPy, Dask, xarray, or a column of a pandas or Dask
        data frame. Or, without ``y_prob``: an iterable of blocks ``(y_true, y_prob[, sample_weight])`` that can be
        iterated again, or a function that returns an iterator; or a summary that `calibdask.summarize` made.
    y_prob : array of shape (..., n) or (..., n, K)
        Scores: P(y = 1), or one column for each class. Leading dimensions (models, replicates) stay in the result;
        ``y_true`` may lack them, where names of dimensions or the columns of classes tell them from samples.
    metrics : estimator, sequence, or mapping from name to estimator, optional
        None: a panel for binary or multi-class scores.
    by : array of shape (n,), or mapping from name to array, optional
        Slices: results for every value (every combination of values) get a dimension for each name.
    sample_weight : array of shape (..., n), optional
        Not negative. A row of weight 0 is as good as absent.
    ci : float, optional
        Level of intervals, such as 0.95: variables ``<name>_low`` and ``<name>_high``, for curves also
        ``<name>_median`` and the simultaneous ``<name>_band_low``, ``<name>_band_high``; see Notes.
    ci_method : {"corrected", "percentile", "bca"}, optional
        How ends of numbers follow from replicates; None: corrected ones for calibration errors, percentiles for most
        else. Attributes of the ends say which.
    n_boot : int, default 200
        Number of replicates.
    seed : int, default 0
        Of the random numbers of the replicates; they do not depend on chunks or workers.
    keep_replicates : bool, default False
        With ``ci``: keep the values of all replicates of numbers, as ``<name>_replicates`` along the dimension
        ``replicate``. Then rows are resampled for every number, so that replicates belong together: of all metrics, and
        of other models of the same rows in the same order. A summary has no rows: replicates of its slices, and of
        other summaries, neither belong together nor are independent.
    sample_dim, class_dim : str
        Names of these dimensions in xarray input.
    sum_tolerance : float
        How far the sum of a row of scores may be off 1.

    Returns
    -------
    xarray.Dataset
        One variable for each metric, ``<name>_<part>`` where a metric has several numbers; its bins are the dimension
        ``<name>_bin``. Attributes hold the rows,
        the passes and the version; each variable's attribute ``estimator`` says what it is.

    Raises
    ------
    TypeError
        If a metric is no estimator.
    ValueError
        If the data cannot be what it claims: scores that are not finite or outside [0, 1] by more than 1e-6, rows that
        do not sum to 1, labels that are no class, negative weights, lengths that differ, no rows, all weights zero. The
        message names the number of offending rows, the first one and its value.

    Notes
    -----
    Without weights the result is the same to the last bit for any chunks, any number of workers and any order of tasks;
    with weights within 1e-12. Rows and results never gather in one place: memory is bounded by the chunks.

    *Replicates.* What a fine histogram of the scores tells is computed from ``n_boot`` resampled histograms, at a cost
    that does not depend on the number of rows, for each class and replicate 10 microseconds for sums over bins, else
    0.2 to 2 ms (beta kernel: 200 ms): `ECE`, `MCE`
    and `BrierDecomposition` with right-closed bins on borders of 1/3600 or of equal mass, `CORP`, `ECCE`, `DensityECE`,
    `SmoothECE` and curves. All other metrics are computed from replicates of the rows, each counted as often as a
    Poisson variable says that is keyed by ``seed`` and the number of the row: in the same pass, at ``n_boot`` times the
    cost and the memory (twice that for calibration errors). Edges of bins and bandwidths of kernels on the simplex stay
    those of the data. Means over blocks of rows (`SKCE`) have normal intervals. Tests have none.

    *Ends.* ``"percentile"``: quantiles of the replicates. ``"bca"``: at levels corrected for median bias and skewness,
    which 100 random groups of rows left out in turn tell. ``"corrected"``: the estimate give or take the larger
    distance of the two quantiles; from 0 where models that are calibrated, with the same scores, have such an error by
    chance. A calibration error of resampled rows exceeds that of the rows as that one exceeds the true error, by what
    noise adds to absolute values: percentiles are too high by some twice the bias of the estimate, BCa ends by less,
    and both suit errors far above those of chance only. Terms of decompositions that resampling shifts in the same way
    have corrected ends too.

    *What they cover.* The true number, for binned errors the error that the bins can see: rates are in
    experiments/calibration of the repository. Smoothing has a bias that no resampling shows: where the true curve is
    steep, `DensityECE` is too small for its interval, and `SmoothECE` estimates another, smaller quantity. Histograms
    do not tell how the classes of one row depend on each other: pooled over classes, such intervals hold for any
    dependence and are wider than needed.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2), "brier": cd.BrierScore()})
    >>> f"{float(result.ece):.3f} {float(result.brier):.3f}"
    '0.250 0.150'
    """
    if ci is not None:
        checked_interval(ci, n_boot, seed)
    checked_method(ci_method)
    if keep_replicates and ci is None:
        raise ValueError("keep_replicates belongs to intervals; give ci too, such as ci=0.95.")
    if is_summary(y_true):
        data = _from_summary(y_true, y_prob, by, sample_weight)
    else:
        data = read_given(y_true, y_prob, by, sample_weight, sample_dim, class_dim, sum_tolerance)
    chosen = named_metrics(usual_metrics(data.source) if metrics is None else metrics)
    axes = (*data.batch, *data.by)
    check_names(chosen, axes, class_dim)
    attributes: dict[str, Any] = {}
    if ci is None:
        outcome = run(tuple(chosen.values()), data.source)
        estimates = dict(zip(chosen, outcome.estimates, strict=True))
    else:
        outcome, estimates = _with_intervals(chosen, data, ci, ci_method, n_boot, seed, keep_replicates)
        attributes |= {"ci": ci, "n_boot": n_boot, "seed": seed}
    result = Labelled(data, class_dim)
    for name, estimate in estimates.items():
        result.add(name, chosen[name], estimate, axes)
    counted = {"rows": data.source.rows, "passes": outcome.passes, "calibdask_version": __version__}
    return result.dataset(counted | attributes)


def _with_intervals(
    chosen: Mapping[str, Estimator],
    data: Input,
    level: float,
    method: Method | None,
    n_boot: int,
    seed: int,
    keep: bool,
) -> tuple[Outcome, dict[str, Estimate]]:
    """Estimates with ends: known by themselves, from histograms that are resampled, or from resampled rows."""
    layout, stored = data.source.layout, isinstance(data.source, StoredSource)
    asked = {name: each for name, each in chosen.items() if not each.tests and not each.knows_ends}
    histograms = {name: each.histograms(layout) for name, each in asked.items()}
    told = {name: each for name, each in asked.items() if stored or histograms[name] is not None}
    # Of stored histograms those are known that there are.
    wanted = () if stored else dict.fromkeys(each for name in told for each in histograms[name] or ())
    # Kept replicates are compared: only those of rows belong together.
    by_rows = {name: each for name, each in asked.items() if name not in told or (keep and not stored)}
    replicates = {name: row_replicates(each, method, n_boot, seed) for name, each in by_rows.items()}
    drawn = [each for some in replicates.values() for each in some.values()]
    outcome = run((*chosen.values(), *drawn, *map(Histogram, wanted)), data.source)
    found = iter(outcome.estimates)
    estimates: dict[str, Estimate] = {name: next(found) for name in chosen}
    ends = {name: known_ends(estimates[name], level) for name, each in chosen.items() if each.knows_ends}
    # Of what rows tell as well, histograms tell the bands of curves only.
    banded = [name for name in told if name not in by_rows or _has_curve(estimates[name])]
    if banded:
        estimated = tuple((told[name], estimates[name]) for name in banded)
        limits = intervals(estimated, _resampling(data, outcome), level, method, n_boot, seed, keep)
        ends |= {name: dict(each) for name, each in zip(banded, limits, strict=True)}
    for name, some in replicates.items():
        of_rows = row_ends(estimates[name], {kind: next(found) for kind in some}, level, method, keep)
        ends[name] = {**ends.get(name, {}), **of_rows}
    return outcome, {name: {**estimate, **ends.get(name, {})} for name, estimate in estimates.items()}


def _has_curve(estimate: Estimate) -> bool:
    return any(part.role == "curve" for part in estimate.values())


def usual_metrics(source: Source, setting: str | int | None = None) -> dict[str, Estimator]:
    """What is computed when no metrics are named; of stored histograms, what they tell.

    ``setting`` stands for that of metrics that name none.
    """
    layout = source.layout
    panel = summary_metrics(vector=layout.vector)
    if not isinstance(source, StoredSource):
        return default_metrics(layout.classes, layout.vector)
    # With nothing of the panel known, the source says what there is.
    told = {
        name: source.tells(layout.setting(setting if each.setting is None else each.setting))
        for name, each in panel.items()
    }
    return {name: each for name, each in panel.items() if told[name]} or {**panel}


def _from_summary(summary: xr.Dataset, y_prob: Any, by: Any, sample_weight: Any) -> Input:
    if y_prob is not None:
        raise ValueError("A summary stands for labels and scores; call evaluate(summary, metrics=...).")
    if by is not None or sample_weight is not None:
        raise ValueError("A summary has its weights and slices already; it takes no by and no sample_weight.")
    return read_summary(summary)


def _resampling(data: Input, outcome: Outcome) -> StoredSource:
    """The histograms that are resampled."""
    if isinstance(data.source, StoredSource):
        return data.source
    known = {each: state for each, state in outcome.states.items() if isinstance(each, GridHistogram)}
    return StoredSource(
        {each: partial(known.__getitem__, each) for each in known}, data.source.layout, data.source.rows
    )
