"""What reports show of an audit: the groups that are off, what is not excluded, and each column by itself."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from calibdask.analyses.auditing.audit_document import conclusion_of, rows_of_rare_values, small_pvalue
from calibdask.markup import Html
from calibdask.report.audit_drawing import funnel_picture, guarantee_picture
from calibdask.report.drawing import forest, forest_axis, forest_range
from calibdask.report.model_result import ModelResult
from calibdask.results.document import (
    Cell,
    Element,
    Figure,
    Figures,
    Heading,
    Links,
    Sentence,
    Table,
    Terms,
    number,
    text,
)
from calibdask.results.format import counted, figure, percent, shown_texts

_MOST_GROUPS, _MOST_FURTHER, _MOST_COLUMNS, _MOST_VALUES = 40, 10, 60, 30
_READING_FUNNEL = (
    "Each point is a subgroup, by its number of rows and its observed rate minus mean prediction. Coloured subgroups "
    "are "
    "significantly miscalibrated: scores too high (orange, full), or too low (blue, hollow); large points are listed "
    "in the first table. Dotted: "
    "simultaneous bounds for subgroups of this size."
)
_READING_GUARANTEE = (
    "Upper bound of the error in percentage points, simultaneous for all subgroups of at least this many rows."
)
_TERMS = (
    (
        "gap",
        "Observed rate minus mean prediction, in percentage points: below 0 the scores are too high. Pointwise "
        "interval.",
        "",
    ),
    (
        "p, adjusted",
        "P-value adjusted for all subgroups: the probability that a calibrated model has an error this large in any "
        "of them, from tail bounds that are valid for few rows.",
        "Hoeffding 1956; Holm 1979",
    ),
    (
        "ECE, by chance",
        "Mean absolute gap over cells of scores, and its expected value for a calibrated model with as many rows.",
        "",
    ),
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


def audit_blocks(models: Sequence[ModelResult]) -> Iterator[Element]:
    """The elements of all models that have been audited."""
    given = [(model.name, model.measured.audited) for model in models]
    shown = [(name, result) for name, result in given if result is not None]
    for place, (name, result) in enumerate(shown, 1):
        if len(models) > 1:
            yield Heading(name)
        yield Sentence(conclusion_of(result))
        yield from audit_group_blocks(result)
        yield from not_excluded(result)
        yield from one_way(result, f"column-{place}")
    if shown:
        yield from meanings()


def audit_group_blocks(result: xr.Dataset) -> Iterator[Element]:
    """The subgroups that explain the miscalibration, the strongest evidence first, and further ones that were found."""
    level = percent(1 - result.attrs["alpha"])
    described = result.isel(segment=result.described.values)
    further = result.isel(segment=(result.found & ~result.described).values)
    count = described.sizes["segment"]
    if not result.sizes["segment"]:
        return
    if count:
        yield _groups(
            "Subgroups that explain the miscalibration, the strongest evidence first", described, _MOST_GROUPS, level
        )
    else:
        yield Sentence(f"No group is significantly miscalibrated, of {_looked_at(result)}.")
        further = result.isel(segment=(result.depth > 0).values)
    if further.sizes["segment"]:
        what = (
            f"Further groups that were found, which share rows with {'it' if count == 1 else 'these'}"
            if count
            else "Subgroups with the strongest evidence (none significant)"
        )
        yield _groups(what, further, _MOST_FURTHER, level)


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
    yield Sentence(f"With {level} confidence, for outcomes of any probabilities, of {_looked_at(result)}.", quiet=True)


def one_way(result: xr.Dataset, prefix: str = "column") -> Iterator[Element]:
    """Each column by its values, those with the strongest evidence first."""
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


def meanings() -> Iterator[Element]:
    """Definitions."""
    yield Terms(_TERMS)


def _looked_at(result: xr.Dataset) -> str:
    least = result.attrs["min_rows"]
    return f"{counted(int(result.attrs['segments']), 'group')} of at least {least:,} rows"


def _reach(groups: xr.Dataset) -> tuple[float, float]:
    return forest_range([100 * float(end) for name in ("gap", "gap_low", "gap_high") for end in groups[name].values])


def _groups(caption: str, groups: xr.Dataset, most: int, level: str) -> Table:
    shown = groups.isel(segment=slice(0, most))
    reach = _reach(shown)
    rows = [[text(str(shown.segment.values[i])), *_numbers(shown, i, reach), *_errors(shown, i)] for i in _range(shown)]
    rows.append([Cell(), Cell(), Cell(picture=_axis(reach)), Cell(), Cell(), Cell()])
    hidden = groups.sizes["segment"] - len(rows) + 1
    note = f"{counted(hidden, 'further group')} not shown." if hidden else ""
    columns = [("group", False), *_columns(level), ("ECE", True)]
    return Table(caption, columns, rows, note)


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
    return Table(f"{name}, by value", columns, rows, note)


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
        Cell(picture=forest(gap, low, high, reach, side)),
        number(gap, shown[0], f"{shown[1]} to {shown[2]}"),
        number(one["pvalue_adjusted"], small_pvalue(one["pvalue_adjusted"]).replace("-", "−")),
    ]


def _errors(groups: xr.Dataset, at: int) -> list[Cell]:
    ece, chance = (float(groups[name].values[at]) for name in ("ece", "ece_chance"))
    return [number(ece, figure(ece), f"by chance {figure(chance)}")]


def _means(groups: xr.Dataset, at: int) -> list[Cell]:
    return [number(mean, figure(mean)) for mean in (float(groups[n].values[at]) for n in ("mean_score", "frequency"))]
