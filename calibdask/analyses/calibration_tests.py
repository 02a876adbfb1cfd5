"""The document of calibration tests: estimates and p-values, a column for each model or slice."""

from collections.abc import Iterator, Sequence
from string import ascii_lowercase

import numpy as np
import xarray as xr

from calibdask.render.text_table import label_of
from calibdask.results.build import METRICS_LEFT_OUT, sentences_of
from calibdask.results.document import Cell, Document, Element, Section, Sentence, Table, numeric, text
from calibdask.results.format import counted, rests_on, shown_texts
from calibdask.results.values import PartResult, Results

_LONGEST = 20


def document_of_tests(result: xr.Dataset) -> Document:
    """Document of a result of estimates and tests.

    Parameters
    ----------
    result : xarray.Dataset
        A result of `calibdask.evaluate`.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2), "z": cd.SpiegelhalterTest()})
    >>> print(document_of_tests(result).to_text())
    Estimates
                 all rows
    ─────────────────────
    rows             4
    ECE, 2 bins      0.25
    <BLANKLINE>
    p-values
                              all rows
    ──────────────────────────────────
    Spiegelhalter's test (a)     0.585
    <BLANKLINE>
    a: rows are independent and many: the statistic is approximately normal
    Small p-values speak against calibration.
    4 rows, 1 pass over the data
    """
    results = Results(result)
    tests = [part for part in results.numbers if part.part == "pvalue"]
    tested = {part.metric for part in tests}
    estimates = [part for part in results.numbers if part.metric not in tested and not part.part]
    texts = list(dict.fromkeys(str(part.notes["assumes"]) for part in tests if part.notes.get("assumes")))
    letters = dict(zip(texts, ascii_lowercase, strict=False))
    rows = _row_counts(results)
    counts = [text("rows"), *(numeric(count, f"{count:,}") for count in rows)]
    elements: list[Element] = [
        _table(results, "Estimates", [counts, *_lines(results, estimates, rows, letters)]),
        _table(results, "p-values", [*_lines(results, tests, rows, letters)]),
        *_remarks(results, [*estimates, *tests], letters),
    ]
    several = results.shared_dims
    lead = counted(result.attrs["rows"], "row") if not several else ""
    return Document("Calibration tests", lead, [Section("tests", "Calibration tests", elements)], name="tests")


def _table(results: Results, caption: str, lines: Sequence[Sequence[Cell]]) -> Table:
    """Table with a column for each model or slice."""
    headings = [
        ", ".join(label_of(label, _LONGEST) for label in labels.values()) or "all rows"
        for _, labels in results.strata()
    ]
    columns = [("", False), *((heading, True) for heading in headings)]
    return Table(caption, columns, lines, name=caption)


def _lines(
    results: Results, parts: Sequence[PartResult], rows: Sequence[int], letters: dict[str, str]
) -> Iterator[list[Cell]]:
    """Cells of each number, whose letter refers to the assumptions below the tables."""
    strata = list(results.strata())
    for part in parts:
        letter = letters.get(str(part.notes.get("assumes", "")), "")
        numbers = [part.at(at).value().value for at, _ in strata]
        cells = [
            numeric(number, shown)
            for number, count in zip(numbers, rows, strict=True)
            for shown in shown_texts(number, kind=part.kind, rows=count)
        ]
        yield [text(part.label + (f" ({letter})" if letter else "")), *cells]


def _row_counts(results: Results) -> list[int]:
    """The rows of each model or slice."""
    variable = results.totals.get("rows")
    if variable is None:
        return [int(results.dataset.attrs["rows"]) for _ in results.strata()]
    return [int(variable[{dim: i for dim, i in at.items() if dim in variable.dims}]) for at, _ in results.strata()]


def _remarks(results: Results, parts: Sequence[PartResult], letters: dict[str, str]) -> Iterator[Sentence]:
    """What p-values rest on, and why numbers are missing."""
    for assumption, letter in letters.items():
        yield Sentence(f"{letter}: {assumption}", quiet=True)
    for reason in sentences_of(results.dataset, METRICS_LEFT_OUT):
        yield Sentence(f"left out: {reason}", quiet=True)
    if any(np.isnan(part.values.values).any() for part in parts):
        yield Sentence("-: left out, or undefined, such as a p-value of one row", quiet=True)
    yield Sentence("Small p-values speak against calibration.", quiet=True)
    yield Sentence(", ".join(rests_on(results.dataset.attrs)), quiet=True)
