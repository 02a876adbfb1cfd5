"""Comparisons of models as lines of text."""

from collections.abc import Iterator, Sequence

import xarray as xr

from calibdask.render.text_layout import Column, Line, aligned, table_lines, wrapped
from calibdask.render.text_table import MOST_SLICES, label_of
from calibdask.results.comparison import Comparison, Difference, comparisons, verdicts
from calibdask.results.format import shown_texts


def comparison_lines(dataset: xr.Dataset, width: int, *, rule: str = "─") -> Iterator[Line]:
    """Who is better, in sentences, and a line for each number, model and slice.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> from calibdask.render.text_layout import joined
    >>> scores = np.linspace(0, 1, 100)
    >>> result = cd.compare(scores > 0.5, {"old": scores, "new": scores**2}, metrics=cd.BrierScore(), n_boot=20)
    >>> [*map(joined, comparison_lines(result, 100))][-4].split()
    ['metric', 'old', 'new', 'difference', 'low', 'high', 'p']
    """
    for sentence in verdicts(dataset):
        yield from (((line, "head"),) for line in wrapped(sentence, width))
    yield ()
    every = list(comparisons(dataset))
    for model in dict.fromkeys(one.model for one in every):
        of_model = [one for one in every if one.model == model]
        yield from table_lines(_columns(of_model[:MOST_SLICES]), rule)
        if len(of_model) > MOST_SLICES:
            yield ((f"... and {len(of_model) - MOST_SLICES:,} more slices; --out or --json give them all.", "aside"),)
        yield ()


def _columns(of_model: Sequence[Comparison]) -> list[Column]:
    first = of_model[0]
    rows: list[tuple[Comparison, Difference, bool]] = [
        (one, difference, not place) for one in of_model for place, difference in enumerate(one.differences)
    ]
    columns = [
        Column([label_of(dim)], [[label_of(one.labels[dim]) if is_first else ""] for one, _, is_first in rows])
        for dim in first.labels
    ]
    if first.labels:
        counts = [shown_texts(one.rows, kind="count") if is_first else [""] for one, _, is_first in rows]
        columns.append(aligned(["rows"], counts, role="aside"))
    columns.append(Column(["metric"], [[difference.name] for _, difference, _ in rows]))
    headings = (label_of(first.baseline), label_of(first.model), "difference", "low", "high")
    texts = [difference.texts for _, difference, _ in rows]
    columns += [aligned([heading], [of[i : i + 1] for of in texts]) for i, heading in enumerate(headings)]
    adjusted = any("pvalue_holm" in difference.pvalues for _, difference, _ in rows)
    pvalues = [shown_texts(difference.pvalue, kind="pvalue") for _, difference, _ in rows]
    return [*columns, aligned(["p, adjusted" if adjusted else "p"], pvalues)]
