"""Measure the promises, or what is missing of them, and write the tables: the page of the documentation too."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from scipy import stats

import calibdask as cd
from calibdask.storage.atomic_replace import atomic_replacement, write_text
from calibdask.storage.cube_layout import DONE
from experiments.calibration.cases import CASES, OFF
from experiments.calibration.declared import FAMILIES, PROMISES, Promise
from experiments.calibration.study import Promises

FOLDER = Path(__file__).with_name("results")
RESULTS = FOLDER / "promises.nc"
PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "intervals.md"
BEGIN, END = "<!-- written by experiments.calibration.outcome -->", "<!-- end of what is written -->"
# A promise is broken beyond so many standard errors, or if as many misses are as unlikely where it holds.
_ERRORS = 3.0
_CHANCE = float(stats.norm.sf(_ERRORS))
_TITLES = {
    "interval": "Intervals cover the true value in 90 % of data sets or more (95 % where stated)",
    "test": "Tests at 5 % reject at most 5 % of calibrated models",
    "gate": "Gates whose limit is the true value decide in at most 2.5 % each way",
    "guarantee": "Guarantees",
}


def summary_of(store: str) -> xr.Dataset:
    """The cells of a cube that are done, by promise, case, model and rows; others are NaN.

    A promise is measured in the cells of one family.
    """
    cube = cd.open_cube(store)
    done = cube["status"].load() == DONE
    result = cube[[*Promises.outputs]].load().where(done).max("family")
    others = [dim for dim in done.dims if dim != "family"]
    counts = {"cells": done.count(others), "cells_done": done.sum(others)}
    return result.assign(counts).drop_attrs().assign_attrs(study="Promises")


def updated(summary: xr.Dataset, earlier: xr.Dataset, *, whole: bool = True) -> xr.Dataset:
    """An earlier summary with the cells and promises that this one has measured in place of its own.

    One of other models stays by itself. Cells are counted as done where they are ``whole``, not of some promises,
    cases or numbers of rows alone.
    """
    if not summary["model"].equals(earlier["model"]):
        return summary
    axes = {
        "rows": sorted({*summary["rows"].values.tolist(), *earlier["rows"].values.tolist()}),
        "promise": [*PROMISES],
        "case": [case for case in CASES if case in {*summary["case"].values, *earlier["case"].values}],
    }
    new, old = summary.reindex(axes), earlier.reindex(axes)
    measured = new["sets"].notnull()
    merged = xr.Dataset({name: xr.where(measured, new[name], old[name], keep_attrs=False) for name in Promises.outputs})
    families = [name for name in FAMILIES if name in {*summary["family"].values, *earlier["family"].values}]
    first, second = (summary, earlier) if whole else (earlier, summary)
    counts = {name: first[name].combine_first(second[name]).sel(family=families) for name in ("cells", "cells_done")}
    return merged.assign(counts).assign_attrs(summary.attrs)


def is_broken(promise: Promise, share: float, error: float, sets: float) -> bool:
    """Whether a share is further from what is promised than chance explains.

    Either by more than three standard errors, which are small for shares of many points in each data set, or by a
    number of data sets that is as unlikely as that if the promise just holds.
    """
    beyond = promise.share - share if promise.at_least else share - promise.share
    wrong = round(sets * (1 - share if promise.at_least else share))
    allowed = 1 - promise.share if promise.at_least else promise.share
    return bool(beyond > _ERRORS * error or stats.binom.sf(wrong - 1, round(sets), allowed) < _CHANCE)


def worst(promise: Promise, cells: xr.Dataset) -> str:
    """The cell that is furthest from what is promised, as text; "" if none is measured.

    Examples
    --------
    >>> cells = xr.Dataset(
    ...     {
    ...         name: ("rows", values)
    ...         for name, values in {
    ...             "share": [0.9, 0.5],
    ...             "standard_error": [0.02, 0.03],
    ...             "given": [1.0, 0.8],
    ...             "sets": [200, 200],
    ...         }.items()
    ...     }
    ... )
    >>> worst(Promise("interval", 0.9, at_least=True), cells)
    '**0.50 ± 0.03** (80 % given)'
    """
    columns = ("share", "standard_error", "given", "sets")
    share, error, given, sets = (cells[name].values.ravel() for name in columns)
    if np.isnan(given).all():
        return ""
    if np.isnan(share).all():
        return "refused"
    beyond = (promise.share - share if promise.at_least else share - promise.share) / error
    at = int(np.nanargmax(beyond))
    text = f"{share[at]:.{_digits(promise)}f} ± {error[at]:.{_digits(promise)}f}"
    text = f"**{text}**" if is_broken(promise, share[at], error[at], sets[at]) else text
    return text if given[at] > 0.995 else f"{text} ({given[at]:.0%} given)".replace("%", " %")


def _digits(promise: Promise) -> int:
    return 2 if promise.at_least else 3


def tables(summary: xr.Dataset, columns: dict[str, Callable[[xr.Dataset], xr.Dataset]]) -> Iterator[str]:
    """A table for each kind of promise; what is not measured in any column has no line."""
    for kind, title in _TITLES.items():
        lines = []
        for name, promise in PROMISES.items():
            if promise.kind == kind and name in summary["promise"].values:
                cells = [worst(promise, choose(summary.sel(promise=name))) for choose in columns.values()]
                lines += (
                    [f"| {_name(name, promise)} | {' | '.join(cell or '–' for cell in cells)} |"] if any(cells) else []
                )
        if lines:
            yield from ["", f"| {title} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|", *lines]


def _name(name: str, promise: Promise) -> str:
    if promise.kind != "guarantee":
        return name
    return f"{name}: {'at least' if promise.at_least else 'at most'} {promise.share:g}"


def page_lines(summary: xr.Dataset) -> list[str]:
    """What the page of the documentation says: the worst cell of each promise and case."""
    columns: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
        CASES[str(case)].label: lambda of, case=case: of.sel(case=case)  # type: ignore[misc]
        for case in summary["case"].values
    }
    measured = {
        f"{number:,}": int(summary["sets"].sel(rows=number).notnull().sum()) for number in summary["rows"].values
    }
    rows = " and ".join(number for number, count in measured.items() if 2 * count > max(measured.values()))
    further = [number for number, count in measured.items() if 0 < 2 * count <= max(measured.values())]
    also = f" (calibration errors also of {' and '.join(further)})" if further else ""
    sets = summary["sets"].values
    sizes = sorted({int(number) for number in sets[~np.isnan(sets)]})
    missing, cells = int((summary["cells"] - summary["cells_done"]).sum()), int(summary["cells"].sum())
    if not sizes:
        return ["Nothing has been measured yet.", ""]
    return [
        f"Measured in data sets of {rows} rows{also}, {sizes[0]:,} to {sizes[-1]:,} of each kind, for calibrated and "
        "miscalibrated models. Each entry is the worst case, with its standard error; **bold** if it violates the "
        'guarantee by more than three standard errors. "Given" is the share of data sets with a result (without a '
        'result, an interval does not miss, a test does not reject and a gate does not decide); "refused": no results; '
        "–: not measured." + (f" **{missing} of {cells} cells are missing.**" if missing else ""),
        *tables(summary, columns),
        "",
    ]


def all_lines(summary: xr.Dataset) -> list[str]:
    """All cells, case by case."""
    lines = ["# Promises, cell by cell", "", "Entries are those of the page on intervals.", ""]
    for case in summary["case"].values:
        columns: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
            f"{'off' if model == OFF else model}, {rows:,} rows": lambda of, case=case, model=model, rows=rows: of.sel(  # type: ignore[misc]
                case=case, model=model, rows=rows
            )
            for model in summary["model"].values
            for rows in summary["rows"].values
        }
        lines += [f"## {CASES[str(case)].label}", *tables(summary, columns), ""]
    return lines


def written(page: str, summary: xr.Dataset) -> str:
    """The page with what is written anew between its marks."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n".join([f"{before}{BEGIN}", "", *page_lines(summary), f"{END}{after}"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study as far as it is missing in the cube, and write all tables; 1 where cells failed."""
    parser = argparse.ArgumentParser("python -m experiments.calibration.outcome", description=__doc__)
    parser.add_argument("cube", nargs="?", help="cube of the study, begun or continued; without one tables only")
    parser.add_argument("--cluster", default="local:2", help="where cells are computed")
    parser.add_argument(
        "--families", nargs="+", choices=FAMILIES, help="measure these, and keep the others as they are"
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, help="measure these, and keep the others as they are")
    parser.add_argument(
        "--rows", nargs="+", type=int, help="numbers of rows to measure, keeping the others as they are"
    )
    parser.add_argument("--only", nargs="+", metavar="PROMISE", help="measure these, and keep the others as they are")
    parser.add_argument("--preset", choices=[*Promises.presets], help="other sizes, into a cube of their own")
    chosen = parser.parse_args(arguments)
    FOLDER.mkdir(exist_ok=True)
    failed = 0
    if chosen.cube:
        some = {
            name: tuple(getattr(chosen, name))
            for name in ("families", "cases", "rows", "only")
            if getattr(chosen, name)
        }
        study = Promises(**{**Promises.presets.get(chosen.preset, {}), **some})
        failed = cd.run(study, chosen.cube, cluster=chosen.cluster).failed
        measured = summary_of(chosen.cube)
        if some and RESULTS.exists():
            whole = not (chosen.cases or chosen.rows or chosen.only)
            measured = updated(measured, xr.load_dataset(RESULTS, engine="scipy"), whole=whole)
        with atomic_replacement(RESULTS) as part:
            measured.to_netcdf(part, engine="scipy")
    summary = xr.load_dataset(RESULTS, engine="scipy")
    write_text(FOLDER / "promises.md", "\n".join(all_lines(summary)))
    write_text(PAGE, written(PAGE.read_text(encoding="utf-8"), summary))
    if failed:
        print(f"{parser.prog}: {failed} cells failed; see calibdask status {chosen.cube}", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
