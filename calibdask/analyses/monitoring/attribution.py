"""`attribute`: a change of the mean gap as other people (mix) and other behaviour (within)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import special

from calibdask.analyses.analysis import Analysis, Heading, Inputs, SettingName, population_sentences
from calibdask.analyses.monitoring.period_sums import PeriodSums
from calibdask.data.data import Data, summary_input
from calibdask.engine.axes import column_name
from calibdask.estimators.about import PartInfo
from calibdask.inference.choice import check_level
from calibdask.inference.sequential.cells import GROUP_EDGES, GROUPS, PeriodCells
from calibdask.results.build import CLUSTER_NOTES, described, sentences_of
from calibdask.results.document import Cell, Document, Element, Section, Sentence, Table, number, numeric, text
from calibdask.results.format import percent, plain, shown_texts, slice_text
from calibdask.safe_text import visible
from calibdask.statistics.exact import Array
from calibdask.storage.summary import Summary
from calibdask.storage.summary_clusters import GROUPS as CLUSTERS

_GROUP = "score_group"
_CHANGES = ("mix", "within", "total")
_JSON = """{"format": 1, "summary": NAME, "rows": int, "period": str, "setting": str, "ci": float,
 ["groups": COLUMN,]
 "all": [{"by": {COLUMN: value}, "mix": float, "mix_low": float or null, "mix_high": float or null, ...}],
 "slices": [{"by": {COLUMN: value}, "mix": float, ..., "rows_before": int,
             "rows_after": int, "gap_before": float, "gap_after": float}]}"""
_DEPENDENT = "Each row counts once, also of a cluster. No intervals: they would assume independent rows."
_MIX, _WITHIN = "by other shares of the slices", "by other gaps within the slices"
CHANGE: Mapping[str, PartInfo] = {
    "mix": PartInfo(f"change of the mean gap {_MIX}", "difference"),
    "within": PartInfo(f"change of the mean gap {_WITHIN}", "difference"),
    "total": PartInfo("change of the mean gap that the slice contributes", "difference"),
    "all_mix": PartInfo(f"change of the mean gap of all rows {_MIX}", "difference"),
    "all_within": PartInfo(f"change of the mean gap of all rows {_WITHIN}", "difference"),
    "all_total": PartInfo("change of the mean gap of all rows", "difference"),
    "rows_before": PartInfo("number of rows before", "count"),
    "rows_after": PartInfo("number of rows after", "count"),
    "gap_before": PartInfo("observed rate minus mean prediction before", "difference"),
    "gap_after": PartInfo("observed rate minus mean prediction after", "difference"),
}


def attribute(
    summary: xr.Dataset,
    before: Any,
    after: Any,
    by: str | Sequence[str] | None = None,
    period: str = "day",
    *,
    setting: str | int | None = None,
    ci: float = 0.95,
) -> xr.Dataset:
    """Split a change of the mean gap between two windows into population (mix) and behaviour (within).

    With the shares w, w' of the slices and their mean gaps m, m' (observed rate minus mean prediction), before and
    after::

        mix = (w' - w) (m' + m) / 2,    within = (m' - m) (w' + w) / 2,    total = mix + within = w' m' - w m

    which sum over the slices to the change of the mean gap of all rows.

    Parameters
    ----------
    summary : xarray.Dataset
        Of `calibdask.summarize`, without weights; the period is one of its slices.
    before, after : label, sequence of labels, or slice of labels
        The periods of the two windows, which must not overlap; as text, ``first..last`` or separated by commas.
    by : str or sequence of str, optional
        Slices. None: 20 groups of scores.
    period : str, default "day"
        The dimension of the periods.
    setting : str or int, optional
        As in `calibdask.watch`.
    ci : float, default 0.95
        Level of the intervals.

    Returns
    -------
    xarray.Dataset
        By slice (and model, and class): ``mix``, ``within``, ``total``; and of all slices together ``all_mix``,
        ``all_within``, ``all_total``; each with ``<name>_low``, ``<name>_high``. ``rows_before``, ``rows_after``,
        ``gap_before``, ``gap_after`` of each slice.

    Raises
    ------
    TypeError
        If the input is not a summary.
    ValueError
        If the summary has weights, or lacks these slices, periods or the setting; if windows overlap or have no rows.

    Notes
    -----
    A slice without rows in one window has no gap there: the gap of the other window is used, and its whole change
    counts as mix. Intervals are normal approximations, from the multinomial variance of shares and the variance of o -
    s within slices in both windows; they are too narrow for slices of a few rows. Of a summary with clusters ends are
    NaN.

    References
    ----------
    .. [1] Kitagawa, Components of a difference between two rates, 1955.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> day, country = np.repeat([0, 1], 5000), rng.random(10_000)
    >>> country = np.where(country < np.where(day == 0, 0.2, 0.6), "new", "old")
    >>> scores = rng.random(10_000)
    >>> outcomes = rng.random(10_000) < scores * np.where(country == "new", 0.8, 1.0)
    >>> summary = cd.summarize(outcomes, scores, by={"day": day, "country": country}, settings=["binary"])
    >>> change = cd.attribute(summary, before=0, after=1, by="country")
    >>> bool(change.all_mix < -0.03), bool(change.all_within_low < 0 < change.all_within_high)
    (True, True)
    """
    slices = (by,) if isinstance(by, str) else tuple(by or ())
    first, last = (tuple(window) if isinstance(window, list) else window for window in (before, after))
    chosen = cast("SettingName | int | None", setting)  # checked where it is used
    analysis = Attribute(first, last, period, chosen, ci)
    return analysis.run(Data(by=slices, summary=Summary.passed_to("attribute", summary)))


@dataclass(frozen=True)
class Attribute(Analysis):
    """Explain a change of the mean gap between two periods.

    The change is the sum of two parts: changed shares of the slices (mix) and changed gaps within the slices. Slices
    are those of --by; without them 20 groups of scores.

    Parameters
    ----------
    before : label, sequence of labels, or slice of labels
        Periods before the change: a label, several between commas, or FIRST..LAST.
    after : label, sequence of labels, or slice of labels
        Periods after it.
    period : str, optional
        Dimension of periods. None: as stored, else day, or the only slices that are dates.
    setting : str or int, optional
        Setting. None: the usual one, or the first.
    ci : float, default 0.95
        Confidence level of the intervals.
    """

    before: str | Sequence[Any] | slice = field(hash=False, metadata={"placeholder": "PERIODS"})
    after: str | Sequence[Any] | slice = field(hash=False, metadata={"placeholder": "PERIODS"})
    period: str | None = field(default=None, metadata={"placeholder": "COLUMN"})
    setting: SettingName | int | None = None
    ci: float = 0.95

    name: ClassVar[str] = "attribute"
    heading: ClassVar[Heading] = "Find and watch"
    inputs: ClassVar[Inputs] = "summary"
    json_head: ClassVar[Sequence[str]] = ("summary", "rows", "calibdask_version", "period", "setting", "ci", "groups")
    json_shape: ClassVar[str] = _JSON
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        (
            "calibdask attribute s.zarr --before 2026-01-01..2026-01-14 --after 2026-01-15..2026-01-31 --by country",
            "slices whose share or gap has changed",
        ),
    )

    def compute(self, data: Data) -> xr.Dataset:
        """Changes by slice and of all rows, as `calibdask.attribute` returns them."""
        summary = Summary.passed_to(self.name, data.summary)
        period = self.period or summary.usual_period
        check_level(self.ci, "ci")
        sums = PeriodSums.of("attribute", summary, period, data.by, self.setting)
        of_before, of_after = _window(sums, "before", self.before), _window(sums, "after", self.after)
        if np.intersect1d(of_before, of_after).size:
            raise ValueError(f"before and after expect different values of {period}, got some in both.")
        by_score = not data.by
        before, after = (_Window.of(sums, positions, by_score=by_score) for positions in (of_before, of_after))
        for name, window in (("before", before), ("after", after)):
            if not (window.rows.sum(window.axes) > 0).all():
                raise ValueError(f"The window {name} has no rows (of a model).")
        dependent = summary.source.layout.clustered or summary.cluster_weighted is not None
        z = math.nan if dependent else float(special.ndtri(0.5 + self.ci / 2))
        values, totals = _changes(before, after, z)
        result = _dataset(sums, values, totals, by_score=by_score, ci=self.ci)
        groups = summary.dataset.attrs.get(CLUSTERS, CLUSTERS)
        return result.assign_attrs({CLUSTERS: groups, CLUSTER_NOTES: [_DEPENDENT]}) if dependent else result

    def document(self, result: xr.Dataset) -> Document:
        """The change of all rows, and a line for each slice, the largest change first."""
        changes = [_sentence(labels, here) for labels, here in _parts(result, "all_total")]
        slices = sorted(_parts(result, "total"), key=lambda part: -abs(float(part[1]["total"])))
        heads = slices[0][0] if slices else ()
        columns = [*((str(head), False) for head in heads), ("rows before", True), ("rows after", True)]
        columns += [(word, True) for name in _CHANGES for word in (name, "low", "high")]
        rows = [[*map(text, map(slice_text, labels.values())), *_cells(here)] for labels, here in slices]
        dependent = " ".join(sentences_of(result, CLUSTER_NOTES))
        level = Sentence(dependent or f"Intervals have the level {percent(result.attrs['ci'])}.", quiet=True)
        elements: list[Element] = [Sentence(words, lead=True, name="change") for words in changes]
        elements += [Table("", columns, rows, name="changes"), level, *population_sentences(result)]
        return Document("Change of the mean gap", "", [Section("changes", "", elements)], name=self.name)

    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """A record for all rows, of each model and class, and one for each slice."""
        parts = {"all": "all_total", "slices": "total"}
        return {
            key: [{"by": labels, **_numbers(here, name.removesuffix("total"))} for labels, here in _parts(result, name)]
            for key, name in parts.items()
        }


def _parts(result: xr.Dataset, name: str) -> Iterator[tuple[dict[str, Any], xr.Dataset]]:
    """Labels, and the part of the result, at each position of a variable; groups of scores by their ends."""
    dims = result[name].dims
    for at in np.ndindex(*result[name].shape):
        here = result.isel(dict(zip(dims, at, strict=True)))
        labels = {str(dim): plain(here[dim].values) for dim in dims if dim != _GROUP}
        if _GROUP in dims:
            labels["scores"] = f"{float(here['score_lower']):.3g} to {float(here['score_upper']):.3g}"
        yield labels, here


def _numbers(here: xr.Dataset, prefix: str) -> dict[str, Any]:
    """All numbers of one slice, or of all rows."""
    names = [f"{prefix}{name}{end}" for name in _CHANGES for end in ("", "_low", "_high")]
    names += [] if prefix else ["rows_before", "rows_after", "gap_before", "gap_after"]
    return {name.removeprefix("all_"): plain(here[name].values) for name in names}


def _cells(here: xr.Dataset) -> list[Cell]:
    rows = [int(here[name]) for name in ("rows_before", "rows_after")]
    cells = [number(count, f"{count:,}") for count in rows]
    for name in _CHANGES:
        values = [float(here[f"{name}{end}"]) for end in ("", "_low", "_high")]
        shown = shown_texts(*values, kind="difference", rows=sum(rows))
        cells += [numeric(value, words) for value, words in zip(values, shown, strict=True)]
    return cells


def _sentence(labels: Mapping[str, Any], here: xr.Dataset) -> str:
    """The change of all rows in words."""
    texts = []
    for name in _CHANGES:
        values = [float(here[f"all_{name}{end}"]) for end in ("", "_low", "_high")]
        change, low, high = shown_texts(*values, kind="difference")
        texts.append(f"{change} ({low} to {high})" if math.isfinite(values[1]) else change)
    mix, within, total = texts
    place = ", ".join(f"{column_name(name)} {slice_text(label)}" for name, label in labels.items())
    return f"{f'{place}: the' if place else 'The'} mean gap changed by {total}: {mix} {_MIX}, {within} {_WITHIN}."


class _Window(NamedTuple):
    """Rows, and sums of o - s and its square, by slice in a window; ``axes`` are the slice axes."""

    rows: Array
    residual: Array
    square: Array
    axes: tuple[int, ...]

    @classmethod
    def of(cls, sums: PeriodSums, positions: list[int], *, by_score: bool) -> "_Window":
        sizes = [labels.size for labels in sums.slices.values()]
        total = np.zeros((3, int(np.prod(sizes)) * sums.columns, GROUPS if by_score else 1))
        for position in positions:
            for block, cells in sums.cells(position):
                total[:, block] += _sums(cells) if by_score else _sums(cells).sum(-1, keepdims=True)
        classes = [sums.columns] if sums.setting.per_class else []
        shape = [*sizes, *classes, *([GROUPS] if by_score else [])]
        slices = range(len(shape) - 1, len(shape)) if by_score else range(len(sums.summary.batch), len(sizes))
        rows, residual, square = total.reshape(3, *shape)
        return cls(rows, residual, square, tuple(slices))


def _sums(cells: PeriodCells) -> Array:
    terms = (cells.rows, cells.events - cells.rows * cells.mean, cells.square)
    return np.stack([cells.by_group(term) for term in terms])


class _Change(NamedTuple):
    """A change, and its variance."""

    value: Array
    variance: Array

    def named(self, name: str, z: float) -> dict[str, Array]:
        reach = z * np.sqrt(self.variance)
        return {name: self.value, f"{name}_low": self.value - reach, f"{name}_high": self.value + reach}


def _changes(before: _Window, after: _Window, z: float) -> tuple[dict[str, Array], dict[str, Array]]:
    """All numbers by slice, and over all slices."""
    axes = before.axes
    rows = [window.rows.sum(axes, keepdims=True) for window in (before, after)]
    shares = [window.rows / total for window, total in zip((before, after), rows, strict=True)]
    known = [_over(window.residual, window.rows) for window in (before, after)]
    # Without rows in one window the gap is that of the other.
    gaps = [np.where(np.isnan(gap), other, gap) for gap, other in zip(known, reversed(known), strict=True)]
    gaps = [np.nan_to_num(gap) for gap in gaps]
    step, middle = gaps[1] - gaps[0], (gaps[0] + gaps[1]) / 2
    moved, weight = shares[1] - shares[0], (shares[0] + shares[1]) / 2
    # Variances of gaps, and what shares of one window contribute to a sum of shares times coefficients.
    noise = [_over(window.square, window.rows) - gap**2 for window, gap in zip((before, after), gaps, strict=True)]
    of_gaps = sum(np.nan_to_num(_over(v, window.rows)) for v, window in zip(noise, (before, after), strict=True))

    def of_shares(factor: Array, *, together: bool) -> Array:
        variance = np.zeros(())
        for share, total in zip(shares, rows, strict=True):
            if together:
                square = (factor**2 * share).sum(axes) - (factor * share).sum(axes) ** 2
                variance = variance + square / total.reshape(square.shape)
            else:
                variance = variance + factor**2 * share * (1 - share) / total
        return np.maximum(variance, 0.0)

    mix, within = moved * middle, step * weight
    total_variance = sum(
        (window.square / size - (share * gap) ** 2) / size
        for window, size, share, gap in zip((before, after), rows, shares, gaps, strict=True)
    )
    changes = {
        "mix": _Change(mix, of_shares(middle, together=False) + moved**2 * of_gaps / 4),
        "within": _Change(within, of_shares(step / 2, together=False) + weight**2 * of_gaps),
        "total": _Change(mix + within, np.maximum(total_variance, 0.0)),
    }
    whole = [
        (window.square.sum(axes) - window.residual.sum(axes) ** 2 / size.reshape(window.square.sum(axes).shape))
        / size.reshape(window.square.sum(axes).shape) ** 2
        for window, size in zip((before, after), rows, strict=True)
    ]
    together = {
        "all_mix": _Change(mix.sum(axes), of_shares(middle, together=True) + (moved**2 * of_gaps).sum(axes) / 4),
        "all_within": _Change(within.sum(axes), of_shares(step / 2, together=True) + (weight**2 * of_gaps).sum(axes)),
        "all_total": _Change(mix.sum(axes) + within.sum(axes), np.maximum(whole[0] + whole[1], 0.0)),
    }
    values: dict[str, Any] = {}
    for name, change in changes.items():
        values |= change.named(name, z)
    for word, window, gap in zip(("before", "after"), (before, after), known, strict=True):
        values |= {f"rows_{word}": window.rows.astype(np.int64), f"gap_{word}": gap}
    totals: dict[str, Array] = {}
    for name, change in together.items():
        totals |= change.named(name, z)
    return values, totals


def _window(sums: PeriodSums, name: str, given: Any) -> list[int]:
    """Positions of the periods of a window."""
    labels, window = sums.periods, _parsed(given, sums.periods)
    index = xr.Dataset(coords={sums.period: labels}).assign(at=(sums.period, np.arange(labels.size)))
    dtype = labels.dtype if labels.dtype.kind == "M" else None
    try:
        wanted = window if isinstance(window, slice) else np.atleast_1d(np.asarray(window, dtype))
        chosen = index.sortby(sums.period).sel({sums.period: wanted})["at"].values
    except (KeyError, TypeError, ValueError):
        chosen = np.zeros(0, np.int64)
    if not chosen.size:
        known = f"{name} expects values of {sums.period} that the summary has (FIRST..LAST, in Python a slice)"
        raise ValueError(f"{known}, got {visible(given)}.")
    return sorted(set(chosen.tolist()))


def _parsed(given: Any, labels: npt.NDArray[Any]) -> Any:
    """Parse a window written as ``first..last``, or as labels between commas."""
    if not isinstance(given, str) or given in (labels.tolist() if labels.dtype.kind == "U" else ()):
        return given
    words = [word.strip() for word in (given.split("..") if ".." in given else given.split(","))]
    try:
        typed = words if labels.dtype.kind in "MU" else np.array(words).astype(labels.dtype).tolist()
    except ValueError:
        return given
    return slice(*typed) if ".." in given else typed if len(typed) > 1 else typed[0]


def _over(sums: Array, count: Array) -> Array:
    return np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)


def _dataset(
    sums: PeriodSums, values: dict[str, Array], totals: dict[str, Array], *, by_score: bool, ci: float
) -> xr.Dataset:
    summary = sums.summary
    class_dim = summary_input(summary).class_dim("class")
    coordinates: dict[Any, Any] = {name: (name, labels) for name, labels in sums.slices.items()}
    classes = [class_dim] if sums.setting.per_class else []
    if classes:
        coordinates[class_dim] = (class_dim, summary.classes)
    dims = [*sums.slices, *classes]
    if by_score:
        dims.append(_GROUP)
        edges: npt.NDArray[np.float64] = np.r_[0.0, GROUP_EDGES, 1.0]
        coordinates |= {"score_lower": (_GROUP, edges[:-1]), "score_upper": (_GROUP, edges[1:])}
    attributes: dict[str, Any] = {"rows": summary.rows, "ci": ci, "period": sums.period}
    attributes |= {"slices": [name for name in dims if name not in (*summary.batch, class_dim)]}
    if summary.batch:
        attributes["batch"] = [*summary.batch]
    whole = [*summary.batch, *classes]
    words = (coordinates, str(sums.setting), class_dim)
    result = described(CHANGE, values, dims, *words, **attributes)
    return result.assign(described(CHANGE, totals, whole, *words).data_vars)
