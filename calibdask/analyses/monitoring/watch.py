"""`watch`: calibration over time, with alarms that hold at whatever times one looks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, cast

import numpy as np
import xarray as xr

from calibdask.analyses.analysis import Analysis, Heading, Inputs, Outcome, SettingName
from calibdask.analyses.monitoring.alarms import raised_alarms
from calibdask.analyses.monitoring.watch_document import watch_document
from calibdask.analyses.monitoring.watch_run import run_watch
from calibdask.data.data import Data
from calibdask.results.document import Document
from calibdask.storage.summary import Summary

_JSON = """{"format": 1, "summary": NAME, "setting": str, "tolerance": float, "alpha": float,
 ["groups": COLUMN,] "by": {COLUMN: value}, "period": value, "since": value, "rows": int,
 "log_e": float, "pvalue": float, "gap": float, "gap_low": float, "gap_high": float,
 "error": float, "error_low": float, "error_high": float, "new": bool}
Numbers refer to all rows of the slice up to the end of the period of the alarm."""


def watch(
    summary: xr.Dataset,
    period: str = "day",
    by: str | Sequence[str] | None = None,
    tolerance: float = 0.0,
    alpha: float = 0.05,
    *,
    setting: str | int | None = None,
    state: Mapping[str, Any] | str | None = None,
    due: str | timedelta | np.timedelta64 | None = None,
    now: str | datetime | np.datetime64 | None = None,
    features: bool = False,
) -> xr.Dataset:
    r"""Monitor calibration over time by e-processes whose false-alarm rate is guaranteed.

    At most a share alpha of the models that are calibrated within the tolerance ever raises an alarm, however long and
    however often one looks.

    Parameters
    ----------
    summary : xarray.Dataset
        Of `calibdask.summarize`, without weights; the period is one of its slices. Made with ``groups``, each cluster
        of dependent rows counts once in each period.
    period : str, default "day"
        The dimension of the periods, which are taken in the order of their labels.
    by : str or sequence of str, optional
        Other slices, each monitored separately; slices that are not named are pooled.
    tolerance : float, default 0
        The null hypothesis is \|P(o = 1 | past, s) - s\| <= tolerance for every row with score s and outcome o.
    alpha : float, default 0.05
        An alarm is raised at E >= 1 / alpha; intervals have the level 1 - alpha.
    setting : str or int, optional
        ``"binary"``, ``"confidence"``, ``"classwise"`` or the number of a class. None: as in `calibdask.evaluate`, or
        the first that the summary has.
    state : mapping or str, optional
        The attribute ``state`` of an earlier result, from which monitoring continues: periods of the summary that it
        includes are skipped. The result then has only the new periods, and the slices of this summary and of earlier
        ones.
    due : str or timedelta, optional
        How long after the end of a period its outcomes are all known, such as ``"30d"``, ``"12h"``, ``"2w"`` or
        ``"12m"``, calendar months; periods are cohorts by the date of the prediction. Periods that are not due are
        pending: they are neither monitored nor part of the state. Their labels are dates, ISO texts such as
        ``"2026-11-22"``, or months ``"2026-11"`` and weeks ``"2026-W47"``; if dates are further apart, a period is as
        long as the shortest step between them.
    now : str or datetime, optional
        The time (UTC) at which periods must be due. None: now.
    features : bool, default False
        Watch every value of each feature of a summary that `calibdask.summarize` made with features, and all rows:
        slices are along ``segment``, and ``found`` marks discoveries among all of them.

    Returns
    -------
    xarray.Dataset
        For each slice (and model, and class) and period, at the end of the period:

        ``log_e``, the logarithm of the e-process E; ``pvalue``, min(1, 1 / max E), valid at all periods together;
        ``alarm``, whether E of this slice, taken alone, has reached 1 / alpha by then; ``since``, the period from which
        the evidence is largest (the period itself before any rows); ``found``, whether the slice is a discovery of
        e-BH over all m slices and classes, with a false discovery rate of at most alpha: k slices are found if k have E
        of m / (k alpha) or more. With one slice both agree; with several ``found`` is the alarm that the command
        reports, and ``alarm`` holds only for a slice that was chosen before looking.

        ``gap``, the mean of o - s over all rows so far, with ``gap_low``, ``gap_high``, a confidence sequence of the
        mean offset P(o = 1 | past, s) - s: with probability 1 - alpha it covers the mean offset at all periods.
        ``error``, the sum over 20 groups of scores of their share times the absolute gap, with ``error_low``,
        ``error_high``: a tolerance below ``error_low`` is refuted.

        ``log_detector``, ``detected``, ``run_length``: a detector with limited memory, which restarts after each
        detection.

        ``period_gap``, ``period_gap_low``, ``period_gap_high``, ``period_pvalue``: for the period alone, valid for a
        single look; used repeatedly, they raise false alarms for calibrated models. The p-value is twice the smaller
        tail probability of the number of outcomes, with every score off by the whole tolerance. Coordinates
        ``rows``, ``events``, ``mean_score`` and ``frequency`` of the period; of clusters also ``clusters``, the sum of
        the weights of the rows, to which all but ``rows`` refer. How they count is the attribute ``cluster_notes``.

        The attribute ``state`` is a JSON text from which `watch` continues, bit for bit as in one call; ``pending``
        is a JSON list of the periods that are not due, each with its rows and the time when it will be.

    Warns
    -----
    UserWarning
        If a new period is not later than all periods of the state: it is left out.

    Raises
    ------
    TypeError
        If the input is not a summary.
    ValueError
        If the summary has weights, or lacks these slices or the setting; if it has clusters, and was written by an
        earlier version, or from a reader that can be read only once; if the state was made with other settings, or
        from other rows of a period; if ``due`` is given and the labels of periods are not dates.

    Notes
    -----
    A bet that outcomes are more (or less) frequent than the scores predict, by the tilt t of the log-odds, multiplies
    its capital by e**(t o) / (1 + (e**t - 1) s') for each row, where s' is the score moved by the tolerance towards the
    tilt, within [0, 1]. Under the null hypothesis the expected capital never grows. From the N rows, the Y outcomes and
    the mean score of each fine cell of a period it is computed as

        log e = sum over cells of (t Y - N log(1 + (e**t - 1) s')),

    at most the logarithm of the product over rows, and smaller by at most 0.01 for 2 * 10**5 rows. E is half the
    capital of a bet whose tilts by 20 groups of scores are learnt from earlier periods (level, slope and groups, shrunk
    towards 0), and half the mean capital of the fixed tilts +-0.02, +-0.05, +-0.1, +-0.25, +-0.5 and +-1. Nothing is
    learnt within a period: an offset that exceeds the tolerance by less than about 0.01 in the log-odds is detected
    from the second period on.

    The detector of each bet is M = e (M + 1), with its factor e of the period; their mean, by shares of capital, is at
    least 1 / alpha after 1 / alpha periods or more on average if the model is calibrated. Use it for a model that may
    change after being calibrated for a long time: E has to regain the capital lost before the change, the detector has
    not. It counts periods, even those without a bet, and raises a false detection about every 1 / alpha to 2 / alpha
    periods: with alpha = 0.05 / 365 at most 5 % of calibrated models are detected within 365 periods.

    The confidence sequence of the gap covers the running mean of the offsets, which may differ between rows and over
    time. Rows of one customer, or repeated rows, are dependent, and their evidence is overstated unless the summary was
    made with ``groups``.

    *Clusters.* Each of the m rows of a cluster within a period enters the bets with the exponent 1 / m. By Hoelder's
    inequality the expected capital never grows whatever the dependence within the cluster, if clusters are independent
    given the past, and the null hypothesis holds whatever the number of rows of a cluster; in slices the exponents of a
    cluster add up to less than 1. Gaps, rates and errors are means with these weights: each cluster counts once in a
    period. ``period_gap_low``, ``period_gap_high`` and ``period_pvalue`` are bounds of Hoeffding and Bennett. The null
    hypothesis is conditional on the past: if the outcomes of a customer persistently differ from the scores, later
    periods are miscalibrated given the earlier ones, and an alarm is right. Exponents are counted within the slices
    that `calibdask.summarize` takes for periods. Where several parts of a period were merged, or shorter periods are
    added up, a cluster may be in each of them: exponents are divided by their number, and ``cluster_notes`` says so.

    Delayed outcomes: monitor a period once all of its outcomes are known (``due``). The outcomes known early, such as
    loans that default in their first month, are not a representative sample. Each period counts once; the state keeps a
    digest of its rows, so that later changes are detected.

    References
    ----------
    .. [1] Arnold, Henzi & Ziegel, Sequentially valid tests for forecast calibration, 2021.
    .. [2] Henzi, Shen, Law & Bossuyt, sequential calibration, New England Journal of Statistics in Data Science, 2024.
    .. [3] Wang & Ramdas, False discovery rate control with e-values, 2022.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(20_000), np.repeat(np.arange(10), 2_000)
    >>> drifted = scores + np.where(day >= 6, 0.1, 0.0)
    >>> summary = cd.summarize(rng.random(20_000) < drifted, scores, by={"day": day}, settings=["binary"])
    >>> result = cd.watch(summary)
    >>> result.alarm.values.astype(int).tolist(), int(result.since[-1])
    ([0, 0, 0, 0, 0, 0, 1, 1, 1, 1], 6)

    Day by day, the result is the same:

    >>> first = cd.watch(summary.isel(day=slice(0, 7)))
    >>> later = cd.watch(summary, state=first.attrs["state"])
    >>> bool((later.log_e == result.log_e[7:]).all())
    True
    """
    slices = (by,) if isinstance(by, str) else tuple(by or ())
    chosen = cast("SettingName | int | None", setting)  # checked where it is used
    analysis = Watch(period, features, chosen, tolerance, alpha, due, now, state)
    return analysis.run(Data(by=slices, summary=Summary.passed_to("watch", summary)))


@dataclass(frozen=True)
class Watch(Analysis):
    """Monitor calibration with a guaranteed false-alarm rate.

    The share of models calibrated within the tolerance that ever raise a false alarm is at most alpha, however often
    one looks. With several slices or classes, alarms are discoveries of e-BH. Alarms persist: every later run exits
    with status 1 until monitoring restarts without the state, for example after the model was repaired. With --state,
    each alarm is "new" once, and --on-alarm runs once for it. Of a summary made with --groups, each cluster of
    dependent rows counts once in a period.

    Parameters
    ----------
    period : str, optional
        Dimension of periods. None: as stored, else day, or the only slices that are dates.
    features : bool, default False
        Monitor each value of the columns given to summarize --features.
    setting : str or int, optional
        Setting to monitor. None: the usual one, or the first.
    tolerance : float, default 0
        Allowed difference of observed rate and mean prediction.
    alpha : float, default 0.05
        Share of calibrated models that ever raise a false alarm.
    due : str or timedelta, optional
        Delay until the outcomes of a period are known, such as 30d or 12m (months); until then it is pending.
    now : str or datetime, optional
        Current time in UTC, with --due. None: now.
    state : mapping or str, optional
        The state that an earlier result has as an attribute.
    """

    period: str | None = field(default=None, metadata={"placeholder": "COLUMN"})
    features: bool = False
    setting: SettingName | int | None = None
    tolerance: float = 0.0
    alpha: float = 0.05
    due: str | timedelta | np.timedelta64 | None = field(default=None, metadata={"placeholder": "TIME"})
    now: str | datetime | np.datetime64 | None = field(default=None, metadata={"placeholder": "DATE"})
    state: Mapping[str, Any] | str | None = field(
        default=None, hash=False, metadata={"shell": False, "recorded": False}
    )

    name: ClassVar[str] = "watch"
    heading: ClassVar[Heading] = "Find and watch"
    inputs: ClassVar[Inputs] = "summary"
    resumes: ClassVar[bool] = True
    json_head: ClassVar[Sequence[str]] = ("summary", "setting", "tolerance", "alpha", "groups")
    json_lines: ClassVar[str] = "alarms"
    json_shape: ClassVar[str] = _JSON
    statuses: ClassVar[Mapping[Outcome, str]] = {"met": "no alarm", "found": "alarm"}
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("calibdask watch summary.zarr --dry-run", "show past alarms; write nothing"),
        ("calibdask watch summary.zarr --by country --tolerance 0.01", "each country, with a tolerance of 0.01"),
        ("calibdask watch summary.zarr --state watch.json --on-alarm 'mail -s alarm me@example.org'", "a daily job"),
        ("calibdask watch summary.zarr --features", "each value of each feature"),
        (
            "calibdask watch summary.zarr --state watch.json --due 30d --metrics-file model.prom",
            "outcomes known after 30 days",
        ),
    )

    def compute(self, data: Data) -> xr.Dataset:
        """Evidence and gaps by slice and period, as `calibdask.watch` returns them."""
        summary = Summary.passed_to(self.name, data.summary)
        period = self.period or summary.usual_period
        choices = (self.tolerance, self.alpha, self.setting, self.state, self.due, self.now, self.features)
        result = run_watch(summary, period, data.by, *choices)
        alarms = [alarm.to_dict() | {"new": True} for alarm in raised_alarms(result)]
        return result.dataset.assign_attrs(alarms=json.dumps(alarms))

    def document(self, result: xr.Dataset) -> Document:
        """The verdict, alarms, slices by evidence, and pending periods."""
        return watch_document(result)

    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """A record for each alarm that stands."""
        return {"alarms": json.loads(result.attrs["alarms"])}

    def outcome(self, result: xr.Dataset) -> Outcome:
        """Found if there is an alarm."""
        return "found" if json.loads(result.attrs["alarms"]) else "met"
