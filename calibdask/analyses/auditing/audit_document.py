"""The document of an audit: miscalibrated subgroups, errors that cannot be ruled out, each column by itself."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.auditing.audit_charts import funnel_picture, guarantee_picture
from calibdask.analyses.auditing.audit_texts import points_up, signed_points, small_pvalue
from calibdask.estimators.about import PVALUE, PartInfo
from calibdask.markup import Html
from calibdask.render.drawing import forest, forest_axis, forest_range
from calibdask.results.document import (
    Cell,
    Document,
    Element,
    Figure,
    Figures,
    Heading,
    Links,
    Listing,
    Section,
    Sentence,
    Table,
    Terms,
    interval,
    number,
    text,
)
from calibdask.results.format import counted, figure, percent, rests_on, shown_texts
from calibdask.safe_text import visible
from calibdask.statistics.lattice.coding import DATE_PARTS

OF_SEGMENTS: Mapping[str, PartInfo] = {
    "gap": PartInfo("observed rate minus mean prediction", "difference"),
    "cluster_weight": PartInfo("clusters, each by the share of its rows that are in the segment", "statistic"),
    "ece": PartInfo("mean absolute gap over cells of scores", "error"),
    "ece_chance": PartInfo("expected mean absolute gap of a calibrated model", "statistic"),
    "ecce": PartInfo("range of the cumulative differences of outcomes and scores", "error"),
    "sigma": PartInfo("scale of the range of the cumulative differences by chance", "statistic"),
    "slope": PartInfo("slope of the log-odds of outcomes on the log-odds of scores", "statistic"),
    "pvalue": PartInfo(PVALUE, "pvalue"),
    "pvalue_adjusted": PartInfo("p-value adjusted for all segments (familywise)", "pvalue"),
    "log_e": PartInfo("logarithm of the e-value against calibration", "statistic"),
    "found": PartInfo("whether the adjusted p-value is at most alpha", "choice"),
    "discovery": PartInfo("whether the segment is a discovery of e-BH", "choice"),
    "described": PartInfo("whether the segment belongs to the smallest set that explains the miscalibration", "choice"),
}

_GAP = ("gap", "gap_low", "gap_high")
_MOST_GROUPS, _MOST_FURTHER, _MOST_COLUMNS, _MOST_VALUES = 40, 10, 60, 30
_READING_FUNNEL = (
    "Each point is a subgroup, by its number of rows and its observed rate minus mean prediction. Coloured subgroups "
    "are "
    "significantly miscalibrated: scores too high (orange, full), or too low (blue, hollow); large points are listed "
    "in the first table. Dotted: simultaneous bounds for subgroups of this size."
)
_READING_GUARANTEE = (
    "Upper bound of the error in percentage points, simultaneous for all subgroups of at least this many rows."
)
_GAP_TERM = (
    "Observed rate minus mean prediction, in percentage points: below 0 the scores are too high. Pointwise interval"
)
_PVALUE_TERM = (
    "P-value adjusted for all subgroups: the probability that a calibrated model has an error this large in any "
    "of them, from tail bounds that are valid for"
)
_CHANCE_TERM = "Mean absolute gap over cells of scores, and its expected value for a calibrated model"
_TERMS = (
    ("gap", f"{_GAP_TERM}.", ""),
    ("p, adjusted", f"{_PVALUE_TERM} few rows.", "Hoeffding 1956; Holm 1979"),
    ("ECE, by chance", f"{_CHANCE_TERM} with as many rows.", ""),
    (
        "subgroups that explain the miscalibration",
        "The smallest set: a subgroup is listed if it differs significantly from the rest of each larger subgroup "
        "that contains it, and is significantly miscalibrated given the other listed subgroups, with which it "
        "may share rows.",
        "",
    ),
    (
        "not excluded",
        "Errors within the exact simultaneous limits of the observed rates.",
        "Clopper & Pearson 1934",
    ),
)
# Of rows in clusters, in place of these.
_CLUSTER_TERMS = (
    (
        "gap",
        f"{_GAP_TERM}, Chernoff's for the observed rate: valid for any dependence within clusters, and wide; it may "
        "include 0 where p is small, which rests on the scores too.",
        "",
    ),
    ("p, adjusted", f"{_PVALUE_TERM} few clusters and any dependence within them.", "Chernoff 1952; Holm 1979"),
    ("ECE, by chance", f"{_CHANCE_TERM}, at most, whatever the dependence within clusters.", ""),
    _TERMS[-2],
    ("not excluded", "Errors within simultaneous limits of the observed rates.", "Chernoff 1952"),
)


def audit_document(result: xr.Dataset, *, one_way_only: bool = False, anchors: str = "column") -> Document:
    """The document of a result of `calibdask.audit`.

    ``one_way_only``: each column by itself in place of the subgroups; otherwise columns are an appendix. ``anchors``:
    the beginning of the anchors of columns, which a page with several audits needs to be its own.
    """
    columns = Section("columns", "One column at a time", list(one_way(result, anchors)), appendix=not one_way_only)
    conclusion = Section("conclusion", "", list(_conclusion(result)))
    groups = Section("groups", "Subgroups", list(audit_group_elements(result)))
    excluded = Section("excluded", "Errors that cannot be ruled out", list(not_excluded(result)))
    audited = Section("audited", "Data and settings", [Listing(list(_audited(result)))])
    terms = _CLUSTER_TERMS if "clusters" in result.attrs else _TERMS
    meanings = Section("meanings", "Definitions", [Terms(terms)], appendix=True)
    if one_way_only:
        sections = [conclusion, columns, audited, meanings]
    else:
        sections = [conclusion, groups, excluded, columns, audited, meanings]
    return Document("Calibration audit", "", [section for section in sections if section.elements], name="audit")


def _conclusion(result: xr.Dataset) -> Iterator[Element]:
    """The conclusion, and the gap of all rows, against which subgroups are read."""
    yield Sentence(conclusion_of(result), lead=True, name="conclusion")
    whole = result.isel(segment=(result.depth == 0).values)
    if whole.sizes["segment"]:
        gap, low, high = (signed_points(float(whole[name][0])).replace("-", "−") for name in _GAP)
        yield Sentence(
            f"All rows: observed rate minus mean prediction {gap} points ({low} to {high}).", name="all-rows"
        )


def _audited(result: xr.Dataset) -> Iterator[str]:
    """Rows, subgroups, level and cutting."""
    attributes = result.attrs
    depth, least = attributes["depth"], attributes["min_rows"]
    yield f"{', '.join(rests_on(attributes))}; scores and outcomes: {attributes['setting']}."
    yield (
        f"All subgroups of up to {counted(depth, 'column')} with at least {least:,} rows: "
        f"{attributes['segments']:,}. False alarms: at most {percent(attributes['alpha'])} of calibrated models."
    )
    yield (
        f"Up to {attributes['values']} values per column plus missing; calibration errors over "
        f"{attributes['score_cells']} cells of scores."
    )
    if "clusters" in attributes:
        yield (
            f"{counted(attributes['clusters'], 'cluster')} of dependent rows ({visible(attributes['groups'])}): each "
            "of the m rows of a cluster has the weight 1/m, in all numbers except rows and events."
        )
    for name, why in (("rows_skipped", "without a label, a score or a weight"), ("rows_ignored", "by their label")):
        if attributes.get(name):
            yield f"{counted(attributes[name], 'row')} left out, {why}."
    if passes := attributes.get("passes_why"):
        yield f"{passes}."
    yield from (f"{note}." for note in json.loads(attributes.get("notes", "[]")))


def conclusion_of(result: xr.Dataset) -> str:
    """Conclusion of an audit with typographic minus signs; names are unchanged."""
    return str(result.attrs["conclusion"]).replace("(-", "(−")


def is_audit(given: Any) -> bool:
    """Whether this is a result of `calibdask.audit`."""
    return isinstance(given, xr.Dataset) and {"not_excluded", "conclusion"} <= given.attrs.keys()


def rows_of_rare_values(result: xr.Dataset, values: xr.Dataset) -> str:
    """Number of rows without any listed value of a column, as text; empty if there are none."""
    whole = result.rows.values[result.depth.values == 0]
    rest = int(whole.sum() - values.rows.values.sum() - _missing_of_date(result, values))
    least = result.attrs["min_rows"]
    return f"{counted(rest, 'further row')} in values with fewer than {least:,} rows each." if rest > 0 else ""


def _missing_of_date(result: xr.Dataset, values: xr.Dataset) -> int:
    """Rows of an audit that miss a date, for values of a part other than the first."""
    date, _, part = str(values["features"].values[0]).rpartition(".")
    missing = f"{date} missing" if part in DATE_PARTS else ""
    there = result.segment.values == missing
    return 0 if missing in values.segment.values else int(result.rows.values[there].sum())


def audit_group_elements(result: xr.Dataset) -> Iterator[Element]:
    """The subgroups that explain the miscalibration, the strongest evidence first, and further ones that were found."""
    level = percent(1 - result.attrs["alpha"])
    described = result.isel(segment=result.described.values)
    further = result.isel(segment=(result.found & ~result.described).values)
    count = described.sizes["segment"]
    if not result.sizes["segment"]:
        return
    if count:
        yield _groups(
            "Subgroups that explain the miscalibration, the strongest evidence first",
            described,
            _MOST_GROUPS,
            level,
            "groups",
        )
    else:
        yield Sentence(f"No subgroup is significantly miscalibrated, of {_looked_at(result)}.")
        further = result.isel(segment=(result.depth > 0).values)
    if further.sizes["segment"]:
        what = (
            f"Further subgroups that overlap with {'it' if count == 1 else 'these'}"
            if count
            else "Subgroups with the strongest evidence (none significant)"
        )
        yield _groups(what, further, _MOST_FURTHER, level, "further subgroups")


def not_excluded(result: xr.Dataset) -> Iterator[Element]:
    """How large an error may have been missed."""
    excluded = {int(size): float(error) for size, error in json.loads(result.attrs["not_excluded"]).items()}
    if not excluded:
        return
    yield Figures(
        [
            Figure(guarantee_picture(excluded), _READING_GUARANTEE),
            Figure(funnel_picture(result, excluded), _READING_FUNNEL),
        ]
    )
    level = percent(1 - result.attrs["alpha"])
    rows = [[text(f"{size:,}"), number(100 * error, points_up(error))] for size, error in excluded.items()]
    columns = [("rows at least", True), ("error up to, points", True)]
    note = f"With {level} confidence, for any outcome probabilities, over {_looked_at(result)}."
    yield Table("", columns, rows, note, name="excluded")


def one_way(result: xr.Dataset, prefix: str = "column") -> Iterator[Element]:
    """Each column by its values, the strongest evidence first."""
    single = result.isel(segment=(result.depth == 1).values)
    if not single.sizes["segment"]:
        return
    names = list(dict.fromkeys(single["features"].values.tolist()))
    shown = names[:_MOST_COLUMNS]
    if len(shown) > 1:
        yield Links([(f"{prefix}-{place}", name) for place, name in enumerate(shown, 1)])
    ends = single.isel(segment=np.isin(single["features"].values, shown))
    reach = _reach(ends)
    whole = result.isel(segment=(result.depth == 0).values)
    for place, name in enumerate(shown, 1):
        here = single.isel(segment=(single["features"] == name).values)
        yield Heading(name, anchor=f"{prefix}-{place}")
        yield _one_way_table(name, here, whole, reach, rows_of_rare_values(result, here))
    if hidden := len(names) - len(shown):
        yield Sentence(f"{counted(hidden, 'further column')} with less evidence not shown.", quiet=True)


def _looked_at(result: xr.Dataset) -> str:
    least = result.attrs["min_rows"]
    return f"{counted(int(result.attrs['segments']), 'subgroup')} of at least {least:,} rows"


def _reach(groups: xr.Dataset) -> tuple[float, float]:
    return forest_range([100 * float(end) for name in ("gap", "gap_low", "gap_high") for end in groups[name].values])


def _groups(caption: str, groups: xr.Dataset, most: int, level: str, name: str) -> Table:
    shown = groups.isel(segment=slice(0, most))
    reach = _reach(shown)
    rows = [[text(str(shown.segment.values[i])), *_numbers(shown, i, reach), *_errors(shown, i)] for i in _range(shown)]
    rows.append([Cell(), Cell(), Cell(picture=_axis(reach)), Cell(), Cell(), Cell()])
    hidden = groups.sizes["segment"] - len(rows) + 1
    note = f"{counted(hidden, 'further subgroup')} not shown." if hidden else ""
    columns = [("subgroup", False), *_columns(level), ("ECE", True)]
    return Table(caption, columns, rows, note, name=name)


def _one_way_table(name: str, values: xr.Dataset, whole: xr.Dataset, reach: tuple[float, float], rest: str) -> Table:
    """The values of a column in their order; of very many those with the strongest evidence."""
    level = percent(1 - values.attrs["alpha"])
    shown = values.isel(segment=slice(0, _MOST_VALUES)).sortby("number")
    rows = [[text(str(shown.segment.values[i])), *_numbers(shown, i, reach), *_means(shown, i)] for i in _range(shown)]
    if whole.sizes["segment"]:
        rows.append([text("all rows"), *_numbers(whole, 0, reach), *_means(whole, 0)])
    rows.append([Cell(), Cell(), Cell(picture=_axis(reach)), *([Cell()] * 4)])
    hidden = values.sizes["segment"] - shown.sizes["segment"]
    note = f"{counted(hidden, 'further value')} with less evidence not shown." if hidden else ""
    note = " ".join(filter(None, (note, rest)))
    columns = [("value", False), *_columns(level), ("mean score", True), ("frequency", True)]
    return Table(f"{name}, by value", columns, rows, note, name=f"by {name}")


def _range(groups: xr.Dataset) -> range:
    return range(groups.sizes["segment"])


def _columns(level: str) -> Sequence[tuple[str, bool]]:
    return [("rows", True), (f"{level} interval", False), ("gap, points", True), ("p, adjusted", True)]


def _axis(reach: tuple[float, float]) -> Html:
    return forest_axis(reach, lambda points: f"{points:+.1f}".replace("-", "−"))


def _numbers(groups: xr.Dataset, at: int, reach: tuple[float, float]) -> list[Cell]:
    """Rows, the interval as a picture and as numbers, and the evidence."""
    one = {name: float(groups[name].values[at]) for name in ("rows", "gap", "gap_low", "gap_high", "pvalue_adjusted")}
    gap, low, high = (100 * one[name] for name in ("gap", "gap_low", "gap_high"))
    side = ("over" if gap < 0 else "under") if groups.found.values[at] else ""
    shown = [word.replace("-", "−") for word in shown_texts(gap, low, high, kind="difference")]
    return [
        number(one["rows"], figure(int(one["rows"]))),
        interval(low, high, f"{shown[1]} to {shown[2]}", forest(gap, low, high, reach, side)),
        number(gap, shown[0], f"{shown[1]} to {shown[2]}"),
        number(one["pvalue_adjusted"], small_pvalue(one["pvalue_adjusted"]).replace("-", "−")),
    ]


def _errors(groups: xr.Dataset, at: int) -> list[Cell]:
    ece, chance = (float(groups[name].values[at]) for name in ("ece", "ece_chance"))
    return [number(ece, figure(ece), f"by chance {figure(chance)}")]


def _means(groups: xr.Dataset, at: int) -> list[Cell]:
    return [number(mean, figure(mean)) for mean in (float(groups[n].values[at]) for n in ("mean_score", "frequency"))]
