"""What the numbers of `calibdask.audit` are, by the name of the variable, and how they are shown as text."""

import json
import math
from collections.abc import Mapping
from typing import Any

import xarray as xr

from calibdask.estimators.about import PVALUE, PartInfo
from calibdask.render.text_layout import Line, plain_columns
from calibdask.results.format import counted
from calibdask.statistics.lattice.coding import DATE_PARTS

OF_SEGMENTS: Mapping[str, PartInfo] = {
    "gap": PartInfo("mean outcome less mean score", "difference"),
    "ece": PartInfo("mean absolute gap over cells of scores", "error"),
    "ece_chance": PartInfo("expected mean absolute gap of a calibrated model", "statistic"),
    "ecce": PartInfo("range of the cumulative differences of outcomes and scores", "error"),
    "sigma": PartInfo("scale of the range of the cumulative differences by chance", "statistic"),
    "slope": PartInfo("slope of the log-odds of outcomes along those of scores", "statistic"),
    "pvalue": PartInfo(PVALUE, "pvalue"),
    "pvalue_adjusted": PartInfo("p-value adjusted for all segments (familywise)", "pvalue"),
    "log_e": PartInfo("logarithm of the e-value against calibration", "statistic"),
    "found": PartInfo("whether the adjusted p-value is at most alpha", "choice"),
    "discovery": PartInfo("whether the segment is a discovery of e-BH", "choice"),
    "described": PartInfo("whether the segment belongs to the smallest set that says what is wrong", "choice"),
}

_HEADS = ("rows", "mean score", "frequency", "gap", "from", "to", "p adjusted")
# Digits after the point: of tables, and beyond which there is an exponent.
_TABLE_DECIMALS, _MOST_DECIMALS = 4, 7
_SMALLEST_PVALUE = 1e-300


def points_up(error: float) -> str:
    """An error that is not excluded, in points, rounded up: a smaller number would promise too much.

    Examples
    --------
    >>> points_up(0.0781), points_up(0.078)
    ('7.9', '7.8')
    """
    return f"{math.ceil(1000 * error - 1e-9) / 10:.1f}"


def signed_points(gap: float) -> str:
    """A gap in points with its sign, in two significant digits or more: those of rare outcomes are small.

    Examples
    --------
    >>> signed_points(-0.1064), signed_points(0.000145), signed_points(1e-9)
    ('-10.6', '+0.015', '+1.0e-07')
    """
    if not gap:
        # Too high for some scores, and too low for others.
        return "±0"
    decimals = _decimals(100 * gap, 1)
    return f"{100 * gap:+.{decimals}f}" if decimals <= _MOST_DECIMALS else f"{100 * gap:+.1e}"


def small_pvalue(pvalue: float) -> str:
    """A p-value in two digits, or that it is smaller than numbers are told apart.

    Examples
    --------
    >>> small_pvalue(0.0316), small_pvalue(1.2e-46), small_pvalue(0.0)
    ('0.032', '1.2e-46', '<1e-300')
    """
    return f"{pvalue:.2g}" if pvalue >= _SMALLEST_PVALUE else f"<{_SMALLEST_PVALUE:g}"


def _decimals(size: float, fewest: int) -> int:
    """Digits after the point that two significant ones take."""
    return max(fewest, 1 - math.floor(math.log10(abs(size)))) if 0 < abs(size) < math.inf else fewest


def conclusion_of(result: xr.Dataset) -> str:
    """What an audit concludes, with the minus sign that pages write before its numbers; names are left as they are."""
    return str(result.attrs["conclusion"]).replace("(-", "(−")


def is_audit(given: Any) -> bool:
    """Whether this is a result of `calibdask.audit`."""
    return isinstance(given, xr.Dataset) and {"not_excluded", "conclusion"} <= given.attrs.keys()


def audit_lines(result: xr.Dataset, rule: str, most: int) -> list[Line]:
    """What an audit found, in words and as a table, and what is not excluded."""
    described = result.isel(segment=result.described.values)
    lines: list[Line] = [((result.attrs["conclusion"], "head"),)]
    if described.sizes["segment"]:
        lines += [(), *_table(described.isel(segment=slice(0, most)), "group", rule)]
        further = int(result.found.sum()) - min(most, described.sizes["segment"])
        if further > 0:
            share = "that was found shares" if further == 1 else "that were found share"
            these = "it" if described.sizes["segment"] == 1 else "these"
            lines += [((f"{counted(further, 'further group')} {share} rows with {these}.", "aside"),)]
    excluded = json.loads(result.attrs["not_excluded"])
    lines += [()] if excluded else []
    for size, error in excluded.items():
        least = f"for groups of at least {int(size):,} rows."
        lines.append(((f"Errors of up to {points_up(error)} points are not excluded {least}", ""),))
    return [*lines, ((f"{result.attrs['segments']:,} groups of at least {result.attrs['min_rows']:,} rows.", "aside"),)]


def one_way_lines(result: xr.Dataset, rule: str) -> list[Line]:
    """Each feature by itself: its values with their gaps, p-values adjusted for all segments."""
    single = result.isel(segment=(result.depth == 1).values)
    lines: list[Line] = [((result.attrs["conclusion"], "head"),)]
    for name in dict.fromkeys(single.features.values.tolist()):
        here = single.isel(segment=(single.features == name).values).sortby("number")
        lines += [(), *_table(here, str(name), rule)]
        if rest := rows_of_rare_values(result, here):
            lines += [((rest, "aside"),)]
    return lines


def rows_of_rare_values(result: xr.Dataset, values: xr.Dataset) -> str:
    """How many rows of an audit have none of these values of a column, each of which has enough rows; else empty."""
    whole = result.rows.values[result.depth.values == 0]
    rest = int(whole.sum() - values.rows.values.sum() - _missing_of_date(result, values))
    least = result.attrs["min_rows"]
    return f"{counted(rest, 'further row')} in values with fewer than {least:,} rows each." if rest > 0 else ""


def _missing_of_date(result: xr.Dataset, values: xr.Dataset) -> int:
    """Rows of an audit that miss a date, where these values are those of a part other than its first."""
    date, _, part = str(values["features"].values[0]).rpartition(".")
    missing = f"{date} missing" if part in DATE_PARTS else ""
    there = result.segment.values == missing
    return 0 if missing in values.segment.values else int(result.rows.values[there].sum())


def _table(segments: xr.Dataset, head: str, rule: str) -> list[Line]:
    rows: list[tuple[str, ...]] = [(head, *_HEADS)]
    for i in range(segments.sizes["segment"]):
        one = segments.isel(segment=i)
        # Narrow intervals are those of rare outcomes, or of very many rows.
        decimals = min(_decimals(float(one.gap_high - one.gap_low) / 2, _TABLE_DECIMALS), _MOST_DECIMALS)
        means = ("mean_score", "frequency", "gap", "gap_low", "gap_high")
        numbers = [f"{float(one[name]):.{decimals}f}" for name in means]
        rows.append((str(one.segment.values), f"{int(one.rows):,}", *numbers, small_pvalue(float(one.pvalue_adjusted))))
    first, *others = plain_columns(rows)
    return [((first, "head"),), ((rule * len(first.rstrip()), "aside"),), *(((line, ""),) for line in others)]
