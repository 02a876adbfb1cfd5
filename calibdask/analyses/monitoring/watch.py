"""`watch`: calibration over time, with alarms that hold at whatever times one looks."""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, cast

import numpy as np
import xarray as xr

from calibdask.analyses.analysis import Analysis, Heading, Inputs, Outcome, SettingName, population_sentences
from calibdask.analyses.monitoring.alarms import Alarm, WatchResult, raised_alarms, slice_key, slice_labels
from calibdask.analyses.monitoring.watch_run import run_watch
from calibdask.data.data import Data
from calibdask.engine.axes import column_name
from calibdask.render.text_table import MOST_SLICES, label_of
from calibdask.results.document import Cell, Document, Element, Section, Sentence, Table, numeric, text
from calibdask.results.format import counted, named, points, points_of, shown_number, shown_texts, slice_text
from calibdask.storage.summary import Summary

_MOST_ALARMS = 10
_COLUMNS = (
    ("rows", True),
    ("gap", True),
    ("low", True),
    ("high", True),
    ("error at least", True),
    ("log E", True),
    ("p", True),
    ("since", False),
    ("alarm", False),
)

_JSON = """{"format": 1, "summary": NAME, "setting": str, "tolerance": float, "alpha": float,
 "by": {COLUMN: value}, "period": value, "since": value, "rows": int,
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
        Of `calibdask.summarize`, without weights; the period is one of its slices.
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
        ``rows``, ``events``, ``mean_score`` and ``frequency`` of the period.

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
        If the summary has weights, or lacks these slices or the setting; if the state was made with other settings, or
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
    time. Rows of one customer, or repeated rows, are dependent, and their evidence is overstated here.

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
    each alarm is "new" once, and --on-alarm runs once for it.

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
    json_head: ClassVar[Sequence[str]] = ("summary", "setting", "tolerance", "alpha")
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


def watch_document(dataset: xr.Dataset) -> Document:
    """The document of a result of `calibdask.watch`."""
    run = WatchResult.of(dataset)
    alarms = [Alarm.from_dict(record) for record in run.alarms]
    new = [alarm.key for alarm, record in zip(alarms, run.alarms, strict=True) if record["new"]]
    elements: list[Element] = [Sentence(words, lead=True, name="verdict") for words in _verdict(run, alarms, new)]
    shown = sorted(alarms, key=lambda alarm: alarm.key not in new)
    elements += [Sentence(alarm_sentence(alarm, new), name="alarm") for alarm in shown[:_MOST_ALARMS]]
    if len(shown) > _MOST_ALARMS:
        more = counted(len(shown) - _MOST_ALARMS, "more alarm")
        elements.append(Sentence(f"... and {more}; --json gives them all.", quiet=True))
    if run.saved.periods.size:
        elements.append(_table(run, {alarm.key: alarm for alarm in alarms}))
    late = f"ignored, as they arrived late: {named([*map(slice_text, run.late)])}" if run.late else ""
    notes = filter(None, (_foot(run), _pending(run), late))
    elements += [Sentence(note, quiet=True) for note in notes]
    elements += population_sentences(dataset)
    return Document(f"Calibration over time of {run.name}", "", [Section("watch", "", elements)], name="watch")


def alarm_sentence(alarm: Alarm, new: Collection[str]) -> str:
    """Where, since when, and how far."""
    where = ", ".join(f"{column_name(dim)} {slice_text(label)}" for dim, label in alarm.by.items()) or "all rows"
    news = "new alarm" if alarm.key in new else "alarm"
    return (
        f"{where}: off since {slice_text(alarm.since)}, {news} on {slice_text(alarm.period)}; by then {_size(alarm)}."
    )


def _size(alarm: Alarm) -> str:
    if alarm.gap_low > 0 or alarm.gap_high < 0:
        low, high = sorted((abs(alarm.gap_low), abs(alarm.gap_high)))
        word = "more" if alarm.gap > 0 else "less"
        value, least, most = points_of(abs(alarm.gap), low, high)
        span = f"{least} to {most}"
        return f"outcomes were {value} points {word} frequent than predicted, {span}"
    if alarm.error_low > 0:
        return f"the calibration error over all rows was {points(alarm.error_low)} points or more"
    return "the error over all rows was too small to estimate"


def _verdict(run: WatchResult, alarms: Sequence[Alarm], new: Collection[str]) -> Iterator[str]:
    name, watched, periods = run.name, run.saved.watched, run.saved.periods
    if not periods.size:
        first = run.pending[0] if run.pending else {"due": "later"}
        count = f"{len(run.pending):,} pending, the first is due on {first['due']}"
        yield f"{name}: nothing to watch yet: no {watched.period} is due, {count}."
        return
    until = f"{counted(periods.size, 'period')} up to {slice_text(periods[-1])}"
    slices = int(np.prod(run.standing["log_e"].shape))
    within = f" within {watched.tolerance:g}" if watched.tolerance else ""
    if not alarms:
        yield f"{name}: quiet. No alarm in {until}."
        return
    count = counted(len(alarms), "alarm") + (f" in {slices:,} slices" if slices > 1 else "")
    fresh = sum(alarm.key in new for alarm in alarms)
    yield f"{name}: NOT calibrated{within}: {count}, {fresh or 'none'} new, in {until}."


def _table(run: WatchResult, alarms: Mapping[str, Alarm]) -> Table:
    """A line for each slice, those with alarms first, then by their evidence."""
    standing = run.standing
    dims, shape = standing["log_e"].dims, standing["log_e"].shape
    slices = [slice_labels(standing, dict(zip(dims, at, strict=True))) for at in np.ndindex(*shape)]
    log_e = standing["log_e"].values.ravel()
    order = sorted(range(len(slices)), key=lambda place: (slice_key(slices[place]) not in alarms, -log_e[place]))
    rows = []
    for place in order[:MOST_SLICES]:
        labels = [text(label_of(slices[place][str(dim)])) for dim in dims]
        alarm = alarms.get(slice_key(slices[place]))
        rows.append([*labels, *_numbers(run, place), *_alarm_cells(run, place, alarm)])
    columns = [*((column_name(dim), False) for dim in dims), *_COLUMNS]
    return Table("", columns, rows, _remainder(run), name="slices")


def _numbers(run: WatchResult, place: int) -> list[Cell]:
    """Rows, gap, error and evidence of one slice at the end of the last period."""

    def value(variable: str) -> float:
        number: float = run.standing[variable].values.ravel()[place].item()
        return number

    rows, gap, low, high = map(value, ("rows", "gap", "gap_low", "gap_high"))
    error, log_e, pvalue = map(value, ("error_low", "log_e", "pvalue"))
    gaps = shown_texts(gap, low, high, kind="difference", rows=rows)
    (least,) = shown_texts(error, rows=rows)
    (shown_pvalue,) = shown_texts(pvalue, kind="pvalue")
    numbers = [(rows, shown_number(rows)), *zip((gap, low, high), gaps, strict=True)]
    numbers += [(error, least), (log_e, f"{log_e:,.2f}"), (pvalue, shown_pvalue)]
    return [numeric(number, shown) for number, shown in numbers]


def _alarm_cells(run: WatchResult, place: int, alarm: Alarm | None) -> list[Cell]:
    """Since when scores are off, and the period of the alarm; without one since when there is evidence, if any."""
    if alarm is None:
        standing = run.standing
        has_evidence = standing["log_e"].values.ravel()[place] > 0
        return [text(slice_text(standing["since"].values.ravel()[place]) if has_evidence else "-"), text("-")]
    return [text(slice_text(alarm.since)), text(slice_text(alarm.period))]


def _remainder(run: WatchResult) -> str:
    more = int(np.prod(run.standing["log_e"].shape)) - MOST_SLICES
    return f"... and {more:,} more slices; --out or --metrics-file give them all." if more > 0 else ""


def _foot(run: WatchResult) -> str:
    watched = run.saved.watched
    batch = run.dataset.attrs.get("batch", ())
    slices = math.prod(size for dim, size in run.standing["log_e"].sizes.items() if dim not in batch)
    first = slices / watched.alpha
    level = f"alarms at E of {first:g} (log E {math.log(first):.2f})"
    if slices > 1:
        level = (
            f"with {slices:,} slices the first alarm needs E of {first:g} (log E {math.log(first):.2f}), k alarms E of "
            f"{first:g} / k each (e-BH)"
        )
    ends = f"intervals and lower bounds are valid at all times with probability {100 * (1 - watched.alpha):g} %"
    return f"setting {watched.setting}, tolerance {watched.tolerance:g}; {level}; {ends}"


def _pending(run: WatchResult) -> str:
    """Periods that are not due, each with its rows."""
    period = run.saved.watched.period
    texts = [f"{slice_text(one[period])} ({counted(one['rows'], 'row')}, due {one['due']})" for one in run.pending]
    return f"pending, not watched: {named(texts)}" if texts else ""
