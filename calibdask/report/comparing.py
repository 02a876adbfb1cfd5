"""Paired comparison of the models of a page with the first: differences with intervals."""

from collections.abc import Iterator

import xarray as xr

from calibdask.render.drawing import forest, forest_range
from calibdask.report.human_names import human
from calibdask.results.comparison import Comparison, Difference, comparisons, verdicts
from calibdask.results.document import Cell, Element, Listing, Sentence, Table, number, text
from calibdask.results.format import counted, minus, percent

_READING = (
    "Differences are model minus first model. In every bootstrap replicate all models are evaluated on the same "
    "resampled rows, so differences are precise. Lower scores and errors are better."
)


def compared(result: xr.Dataset | str) -> Iterator[Element]:
    """Sentences on which model is better, and all differences; or the reason why there is no comparison."""
    if isinstance(result, str):
        if result:
            yield Sentence(f"The models are not compared by pairs of rows: {result}")
        return
    yield Listing([minus(words) for words in verdicts(result)])
    yield _table(list(comparisons(result)), float(result.attrs["ci"]))
    skipped = result.attrs.get("rows_skipped", 0)
    left_out = f" {counted(skipped, 'row')} without a label or a score are excluded." * bool(skipped)
    yield Sentence(f"{_READING}{left_out}", quiet=True)


def _table(every: list[Comparison], level: float) -> Table:
    reaches = {
        name: forest_range([end for one in every for own in one.differences if own.name == name for end in _ends(own)])
        for name in dict.fromkeys(own.name for one in every for own in one.differences)
    }
    rows: list[list[Cell]] = []
    for name, reach in reaches.items():
        for one in every:
            rows += [_row(one, own, reach) for own in one.differences if own.name == name]
    adjusted = any("pvalue_holm" in own.pvalues for one in every for own in one.differences)
    columns = [("number", False), (f"{percent(level)} interval; the line is 0", False)]
    columns += [("difference", True), ("of each", True), ("p, adjusted" if adjusted else "p", True)]
    return Table(f"Differences from {every[0].baseline}", columns, rows)


def _row(one: Comparison, own: Difference, reach: tuple[float, float]) -> list[Cell]:
    baseline, model, *difference = own.texts
    shown, *ends = (minus(word) for word in difference)
    return [
        text(_title(own), f"{one.model} less {one.baseline}"),
        Cell(picture=forest(own.difference, own.low, own.high, reach)),
        number(own.difference, shown, " to ".join(ends)),
        Cell(f"{model} and {baseline}", numeric=True),
        number(own.pvalue, own.pvalue_text.removeprefix("p = ").removeprefix("p ")),
    ]


def _title(own: Difference) -> str:
    return f"{own.part.title}, debiased" if own.part.choices.get("debias") else human(own.part.title)


def _ends(own: Difference) -> tuple[float, float, float]:
    return own.difference, own.low, own.high
