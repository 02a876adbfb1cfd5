"""Comparisons of models read back: which is better, by how much, or that it is inconclusive."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from calibdask.results.format import counted, percent, pvalue_text, shown_texts
from calibdask.results.values import PartResult, Results

_MODEL, _CHALLENGER, _DIFFERENCE = "model", "challenger", "difference"
# The smaller is better.
_DOWN = ("lower", "zero")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Difference:
    """A number of a model and of the baseline, their difference with its interval, and p-values by name.

    ``smallest`` is the least p-value that so many replicates can show; ``point`` is where on a curve, if it is one.
    """

    part: PartResult
    baseline: float
    model: float
    difference: float
    low: float
    high: float
    pvalues: Mapping[str, float]
    rows: float = 0
    smallest: float = 0
    point: float | None = None

    @property
    def name(self) -> str:
        """The name of the variable; of a curve with the point."""
        return self.part.variable if self.point is None else f"{self.part.variable} at {self.point:g}"

    @property
    def is_same(self) -> bool:
        """Whether the numbers of both models are equal in all replicates, as for treating all."""
        return max(abs(self.difference), abs(self.low), abs(self.high)) < _ROUNDING

    @property
    def pvalue(self) -> float:
        """The p-value; adjusted by Holm's method where there are several slices or models."""
        return self.pvalues.get("pvalue_holm", self.pvalues["pvalue"])

    @property
    def pvalue_text(self) -> str:
        """The p-value; of the smallest that the replicates can show, that it may be smaller."""
        text = pvalue_text(self.pvalue)
        return text.replace("=", "≤") if self.pvalues["pvalue"] <= self.smallest * (1 + _ROUNDING) else text

    def better(self, level: float) -> bool | None:
        """Whether the model is better than the baseline; None if inconclusive."""
        if not self.pvalue < 1 - level or not self.difference:
            return None
        return bool((self.difference < 0) == (self.part.direction in _DOWN))

    @cached_property
    def texts(self) -> list[str]:
        """Both numbers, the difference and its ends in the digits that its interval leaves."""
        difference = shown_texts(self.difference, self.low, self.high, kind="difference", rows=self.rows)
        decimals = len(difference[0].partition(".")[2])
        numbers = (f"{number:,.{decimals}f}" if np.isfinite(number) else "-" for number in (self.baseline, self.model))
        return [*numbers, *difference]


@dataclass(frozen=True)
class Comparison:
    """A model and the baseline in a slice: the labels of the slice, its rows, and the differences by number."""

    model: str
    baseline: str
    labels: Mapping[str, Any]
    rows: float
    differences: tuple[Difference, ...]

    @property
    def decisive(self) -> Difference | None:
        """The difference that says which model is better: that of the first score, else of the first error."""
        ranked = [one for one in self.differences if one.part.direction in (*_DOWN, "higher") and one.point is None]
        return next((one for one in ranked if one.part.kind == "score"), ranked[0] if ranked else None)

    @property
    def calibration(self) -> Difference | None:
        """The difference of the first calibration error."""
        return next((one for one in self.differences if one.part.kind == "error"), None)


def comparisons(dataset: xr.Dataset) -> Iterator[Comparison]:
    """Each model against the baseline, in each slice.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> scores = np.linspace(0, 1, 100)
    >>> result = cd.compare(scores > 0.5, {"old": scores, "new": scores**2}, metrics=cd.BrierScore(), n_boot=20)
    >>> [(one.model, one.baseline, one.rows) for one in comparisons(result)]
    [('new', 'old', 100)]
    """
    results = Results(dataset)
    if _CHALLENGER not in dataset.dims:
        raise ValueError("A comparison of named models is expected: cd.compare(y_true, {name: scores, ...}).")
    baseline = str(dataset.attrs["baseline"])
    for at, labels in results.strata():
        stratum = dataset.isel(at)
        for model in map(str, dataset[_CHALLENGER].values):
            here = stratum.sel({_MODEL: [baseline, model], _CHALLENGER: model})
            rows = here["rows"].values[0].item()
            yield Comparison(
                model, baseline, labels, rows, tuple(_differences(Results(here), rows, _smallest(dataset)))
            )


def _smallest(dataset: xr.Dataset) -> float:
    """The least p-value of so many replicates, of one difference."""
    return 2 / (int(dataset.attrs["n_boot"]) + 1)


def _differences(results: Results, rows: float, smallest: float) -> Iterator[Difference]:
    # P-values are parts of the same name too.
    of_difference = {f"{part.metric}_{part.part}": part for part in results if part.kind == "difference"}
    for part in results:
        name = f"{part.metric}_" + "_".join(filter(None, (part.part, _DIFFERENCE)))
        if part.values.dims[:1] != (_MODEL,) or part.values.ndim > 2 or name not in of_difference:
            continue
        difference = of_difference[name]
        points = part.values.dims[1:]
        if points and points[0] == results.class_dim:
            continue
        for place in range(part.values.shape[-1] if points else 1):
            at = dict.fromkeys(points, place)
            bounds = {word: float(bound.isel(at)) for word, bound in difference.bounds.items()}
            pvalues = {word: value for word, value in bounds.items() if word.startswith("pvalue")}
            baseline, model = map(float, part.values.isel(at).values)
            numbers = (float(difference.values.isel(at)), bounds["low"], bounds["high"])
            point = float(part.values[points[0]][place]) if points else None
            yield Difference(part, baseline, model, *numbers, pvalues, rows, smallest, point)


def metrics_without_differences(dataset: xr.Dataset) -> list[str]:
    """Metrics of a comparison that have values of the models only, such as diagrams."""
    parts = Results(dataset).parts
    compared = {part.metric for part in parts if part.kind == "difference"}
    return [name for name in dict.fromkeys(part.metric for part in parts) if name not in compared]


def verdicts(dataset: xr.Dataset) -> list[str]:
    """Sentences on which model is better, by how much and with which interval, or that it is inconclusive.

    The first proper score decides, which measures calibration and discrimination; a calibration error has a sentence of
    its own. With slices, the sentence counts the slices in which a model is better, by adjusted p-values.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> scores = np.linspace(0, 1, 100)
    >>> result = cd.compare(scores > 0.5, {"old": scores, "new": scores**2}, metrics=cd.BrierScore(), n_boot=20)
    >>> verdicts(result)[0].partition(":")[0]
    'It is inconclusive whether new or old is better'
    """
    level = float(dataset.attrs["ci"])
    every = list(comparisons(dataset))
    sentences = []
    for model in dict.fromkeys(one.model for one in every):
        of_model = [one for one in every if one.model == model]
        if any(one.labels for one in of_model):
            sentences.append(_of_slices(of_model, level, _smallest(dataset)))
        else:
            sentences += _of_model(of_model[0], level)
    return list(filter(None, sentences))


def _of_model(comparison: Comparison, level: float) -> Iterator[str]:
    decisive, calibration = comparison.decisive, comparison.calibration
    if decisive is not None and decisive is not calibration:
        yield _sentence(comparison, decisive, "better", level)
    if calibration is not None:
        yield _sentence(comparison, calibration, "better calibrated", level)


def _sentence(comparison: Comparison, difference: Difference, word: str, level: float) -> str:
    model, baseline = comparison.model, comparison.baseline
    is_better = difference.better(level)
    first, second, _, _, _ = difference.texts
    step, *ends = shown_texts(abs(difference.difference), *_ends_of_size(difference), rows=difference.rows)
    side = "lower" if difference.difference < 0 else "higher"
    interval = f"{percent(level)} interval {ends[0]} to {ends[1]}, {difference.pvalue_text}"
    if not np.isfinite(difference.pvalue):
        interval = "too few rows, or too few of an outcome, for an interval"
    name = _name(difference)
    if not difference.difference:
        return f"It is inconclusive whether {model} or {baseline} is {word}: both have {name} {first}."
    if is_better is None:
        return (
            f"It is inconclusive whether {model} or {baseline} is {word}: the {name} of {model} is {side} by {step} "
            f"({second} against {first}; {interval})."
        )
    better, other = (model, baseline) if is_better else (baseline, model)
    return (
        f"{better} is {word} than {other}: the {name} of {model} is {side} by {step} "
        f"({second} against {first}; {interval})."
    )


def _name(difference: Difference) -> str:
    """Name of the number in a sentence."""
    return difference.part.label.partition(",")[0] or difference.part.title


def _ends_of_size(difference: Difference) -> tuple[float, float]:
    """The ends of the interval of the difference without its sign."""
    low, high = difference.low, difference.high
    return (-high, -low) if difference.difference < 0 else (low, high)


def _of_slices(of_model: list[Comparison], level: float, smallest: float) -> str:
    decided = [difference for one in of_model if (difference := one.decisive) is not None]
    if not decided:
        return ""
    verdicts = [difference.better(level) for difference in decided]
    slices, name = counted(len(decided), "slice"), _name(decided[0])
    model, baseline = of_model[0].model, of_model[0].baseline
    better, worse, unknown = (verdicts.count(verdict) for verdict in (True, False, None))
    few = " With more replicates (n_boot) smaller p-values would be possible." if unknown else ""
    few = few if smallest * len(decided) >= 1 - level else ""
    return (
        f"By the {name}, {model} is better than {baseline} in {better:,} of {slices}, worse in {worse:,} and "
        f"inconclusive in {unknown:,}. P-values are adjusted for the number of slices.{few}"
    )
