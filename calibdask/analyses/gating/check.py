"""`check`: limits that were declared beforehand, each met, broken or undecided."""

from collections.abc import Mapping, Sequence
from typing import Any

from calibdask.analyses.comparison import compare
from calibdask.analyses.evaluation import interval_choice
from calibdask.analyses.gating.gate import Gate
from calibdask.analyses.gating.judging import Judges, difference_judged
from calibdask.analyses.gating.limits import Limit, limits_of
from calibdask.analyses.gating.profiles import profile_of
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions, Task
from calibdask.data.population import Population
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.inference.choice import check_confidence
from calibdask.results.build import MISSING_SLICES
from calibdask.safe_text import listed

# What limits are given as.
LimitSource = str | Mapping[str, Any] | Sequence[str | Limit] | None


def check(
    y_true: Any,
    y_prob: Any = None,
    limits: LimitSource = None,
    *,
    slice_limits: LimitSource = None,
    by: Any = None,
    not_worse: LimitSource = None,
    baseline: Any = None,
    profile: str = "",
    sample_weight: Any = None,
    confidence: float = 0.95,
    n_boot: int = 1000,
    seed: int = 0,
    label: Any = None,
    score: Any = None,
    skip_missing: bool = False,
    groups: Any = None,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    population: Population | None = None,
) -> Gate:
    """Test numbers against limits that were declared beforehand: each is met, broken or undecided.

    Parameters
    ----------
    y_true, y_prob : array of shape (n,); y_prob (n,) or (n, K)
        As in `calibdask.evaluate`; or, without ``y_prob``, a data frame, the path of a file, or a summary.
    limits : mapping from metric to number, or texts such as ``"ece=0.03"``
        Limits for all rows. A number is the maximum of a loss or of the absolute value of an error or difference, or
        the minimum of a metric for which higher is better; ``(0.9, 1.1)``, or as text
        ``"calibration-slope.slope=0.9..1.1"``, is a range. Metrics are written as on the command line, parts follow a
        dot.
    slice_limits : the same, optional
        Limits for each slice; by default the limits for all rows.
    by : array, mapping from name to array, or names of columns, optional
        Slices; each name is handled separately. For a summary: names of its slices.
    not_worse : the same as limits, optional
        By how much the scores may be worse than the baseline, such as ``{"log-loss": 0.001}``.
    baseline : array of the shape of y_prob, optional
        Scores of another model for the same rows.
    profile : {"", "default", "ml", "clinical", "credit", "ads", "forecast"}
        Profile of additional numbers, see Notes.
    confidence : float, default 0.95
        Each decision uses intervals of this level; for slices the level is 1 - (1 - confidence) / slices, so that all
        of them hold simultaneously.
    n_boot, seed : int
        Number of replicates for intervals that need them (more are used if many slices raise the level), and their
        seed.
    sample_weight, label, score, skip_missing, task, logits, labels, pos_label, ignore_label
        As in `calibdask.evaluate`.
    population : Population, optional
        The population to which the limits refer, as for `calibdask.evaluate`. A prevalence weights the rows, and events
        count as with weights, see Notes.
    groups : array of shape (n,), or name of a column, optional
        The cluster of each row, as for `calibdask.evaluate`: intervals allow for clusters, events count as the
        equivalent number of independent rows, and with fewer than 10 clusters nothing is decided.

    Returns
    -------
    Gate
        With ``outcome``, ``judgements`` and the measured numbers.

    Raises
    ------
    ValueError
        If there are no limits and no profile, or no such metrics; if a limit does not define which values meet it; and
        as in `calibdask.evaluate`.

    Notes
    -----
    A limit is *met* if the whole interval keeps it, *broken* if none of it does, and else *cannot be decided*: a limit
    that is the true value is met in about (1 - confidence) / 2 of data sets at most. Intervals of binned calibration
    errors and of mean gaps are widened so that they are also valid with few rows and few events. Other intervals are
    valid only with enough events: with fewer than 20 events, or fewer than 20 rows without one (for several classes:
    right and wrong predictions, or rows of the class of the metric), they decide nothing unless they are exact. With
    weights no interval is exact, and events count as (sum w)**2 / sum w**2 over those with the outcome: at most their
    actual number, whatever the weights. Slices of fewer than 10 rows are never decided.

    Means over rows, such as the Brier score, have ends that allow for large losses that did not occur: the limits of
    Clopper & Pearson for a mean of the same variance. The log loss is unbounded: a limit on it is undecided unless it
    states a bound, as in ``"log-loss(clip=0.001)=0.4"``.

    Profiles: ``default`` (six numbers), ``ml`` (calibration errors, proper scores, risk and coverage, conformal sets),
    ``clinical`` (observed to expected, calibration intercept and slope, ICI, belt, net benefit, c statistic, Brier
    score), ``credit`` (observed to expected, tests of grades, Hosmer-Lemeshow, AUC; the first two of each slice too),
    ``ads`` (normalized entropy and observed to expected, also by slice; calibration by score decile),
    ``forecast`` (decompositions of Brier score and log loss, reliability with consistency bars, CORP, Murphy curve).

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(20_000)
    >>> cd.check(rng.random(20_000) < scores, scores, {"ece": 0.03}).outcome
    'met'
    >>> cd.check(rng.random(20_000) < scores**2, scores, "ece=0.03").outcome
    'broken'
    """
    check_confidence(confidence)
    choice = interval_choice(confidence, None, n_boot, seed)
    assert choice is not None
    whole, margins = limits_of(limits), limits_of(not_worse)
    of_slices = limits_of(slice_limits, of_slices=True) or limits_of(
        [Limit(one.metric, one.part, one.bound, one.low, one.high, of_slices=True) for one in whole]
    )
    if not (whole or margins or slice_limits or profile):
        raise ValueError('check expects limits, such as {"ece": 0.03}.')
    if bool(margins) != (baseline is not None):
        raise ValueError("not_worse and baseline go together: by how much worse than which scores?")
    options = InputOptions(
        task,
        logits,
        labels,
        pos_label,
        ignore_label,
        label=label,
        score=score,
        skip_missing=skip_missing,
        population=population,
        groups=groups,
        cluster_check=True,
    )
    given = Data.of(y_true, y_prob, by, sample_weight, options).pooled()
    if margins and not given.has_rows:
        raise ValueError("not_worse compares scores of the same rows; a summary has none.")
    if slice_limits and not given.slice_names:
        raise ValueError("slice_limits expects slices; give by too.")
    data = given.sliced(()).read(takes_groups=True)
    for margin in margins:
        margin.check_margin(data.source.layout)
    sliced = [given.sliced((name,)).read(takes_groups=True) for name in given.slice_names]
    if data.batch:
        raise ValueError(f"check expects one model, got several along {listed([str(a.name) for a in data.batch])}.")
    layout = data.source.layout
    chosen = profile_of(profile)
    shown = _of_this_grid(chosen.metrics(layout) or ({} if whole else {"mean_gap": MeanGap()}), data)
    judgements, result = Judges.of(whole, layout).judge(data, choice, shown)
    measured = {}
    # Not every profile has numbers of slices.
    for one in sliced if of_slices or chosen.of_slices else ():
        own, by_slice = Judges.of(of_slices, layout).judge(
            one, choice, _of_this_grid(chosen.metrics(layout, of_slices=True), one)
        )
        judgements += own
        measured[", ".join(str(axis.name) for axis in one.by)] = by_slice
    if any(MISSING_SLICES in one.attrs for one in measured.values()):
        counted = sum(int(one.attrs[MISSING_SLICES]) for one in measured.values())
        result = result.assign_attrs({MISSING_SLICES: counted})
    if margins:
        metrics = {str(limit.metric): limit.metric.make() for limit in margins}
        both = given.sliced(()).with_scores({"baseline": baseline, "model": given.scores})
        compared = compare(both, metrics=metrics, ci=confidence, n_boot=n_boot, seed=seed)
        judgements += [difference_judged(limit, compared.isel(challenger=0), data) for limit in margins]
    return Gate(tuple(judgements), result, confidence, profile, measured)


def _of_this_grid(metrics: Mapping[str, Estimator], data: Input) -> dict[str, Estimator]:
    """Metrics of a profile; for a summary, on its own grid."""
    return on_grid(metrics, data.source.step)
