"""Comparisons of models read back: which is better, by how much, or that it is inconclusive."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from calibdask.inference.methods import TIED
from calibdask.results.format import counted, percent, plain, pvalue_text, shown_texts
from calibdask.results.values import PartResult, Results

_MODEL, _CHALLENGER, _DIFFERENCE = "model", "challenger", "difference"
# The smaller is better.
_DOWN = ("lower", "zero")
_ROUNDING = 1e-9
# Points of a curve, and classes, in a table.
_MOST_POINTS, _MOST_CLASSES = 11, 10
# Of other curves, such as densities, neither model has the better one.
_COMPARED = ("zero", "lower", "higher")


@dataclass(frozen=True)
class Difference:
    """A number of a model and of the baseline, their difference with its interval, and p-values by name.

    ``smallest`` is the smallest p-value that this number of replicates allows; ``point`` the position on a curve;
    ``of_class`` the class of a metric by class; ``no_interval`` the reason for a missing interval in some slice;
    ``is_tied`` whether resampled differences are 0 in some slice.
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
    of_class: str | None = None
    no_interval: str = ""
    is_tied: bool = False

    @property
    def name(self) -> str:
        """The name of the variable; with the class, and the point of a curve."""
        return self.part.variable + self.place

    @property
    def place(self) -> str:
        """The class, and the point of a curve, after the name of a metric."""
        of_class = "" if self.of_class is None else f" of class {self.of_class}"
        return of_class if self.point is None else f"{of_class} at {self.point:g}"

    @property
    def is_whole(self) -> bool:
        """Whether this is the one number of its metric: of no class alone, and of no point."""
        return self.point is None and self.of_class is None

    @property
    def is_informative(self) -> bool:
        """Whether it says something: not that of densities, nor one of curves that both models share."""
        return self.point is None or (self.part.direction in _COMPARED and not self.is_same)

    @property
    def is_same(self) -> bool:
        """Whether the numbers of both models are equal in all replicates, as for treating all."""
        # The interval of a tied loss allows for rows that did not occur; it has a p-value only if all replicates are 0.
        is_tied = self.is_tied and self.pvalues["pvalue"] == 1
        reach = 0.0 if is_tied else max(abs(self.low), abs(self.high))
        return max(abs(self.difference), reach) < _ROUNDING

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
        ranked = [one for one in self.differences if one.part.direction in (*_DOWN, "higher") and one.is_whole]
        return next((one for one in ranked if one.part.kind == "score"), ranked[0] if ranked else None)

    @property
    def calibration(self) -> Difference | None:
        """The difference of the first calibration error."""
        return next((one for one in self.differences if one.part.kind == "error" and one.is_whole), None)

    @cached_property
    def table_rows(self) -> list[Difference]:
        """The differences of a table; of curves at some points where models differ, of classes the largest."""
        shown = [one for one in self.differences if one.is_whole]
        metrics: dict[str, dict[str | None, list[Difference]]] = {}
        for one in self.differences:
            if not one.is_whole and one.is_informative:
                metrics.setdefault(one.part.variable, {}).setdefault(one.of_class, []).append(one)
        for by_class in metrics.values():
            largest = sorted(by_class.values(), key=_largest, reverse=True)
            is_curve = any(one.point is not None for one in largest[0])
            # A curve has many lines: that of the class where models differ most.
            for of_class in largest[: 1 if is_curve else _MOST_CLASSES]:
                steps = np.linspace(0, len(of_class) - 1, min(_MOST_POINTS, len(of_class))).round().astype(int)
                shown += [of_class[step] for step in steps]
        return shown

    @property
    def hidden_count(self) -> int:
        """The number of differences that a table leaves out."""
        return sum(one.is_informative for one in self.differences) - len(self.table_rows)


def _largest(differences: Sequence[Difference]) -> float:
    """The largest difference, whichever the better model is."""
    return max((abs(one.difference) for one in differences if np.isfinite(one.difference)), default=0.0)


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
    dataset = _with_challengers(dataset)
    results = Results(dataset)
    baseline = str(dataset.attrs["baseline"])
    for at, labels in results.strata():
        stratum = dataset.isel(at)
        for model in map(str, dataset[_CHALLENGER].values):
            here = stratum.sel({_MODEL: [baseline, model], _CHALLENGER: model})
            rows = here["rows"].values[0].item()
            yield Comparison(
                model, baseline, labels, rows, tuple(_differences(Results(here), rows, _smallest(dataset)))
            )


def _with_challengers(dataset: xr.Dataset) -> xr.Dataset:
    """The comparison with the dimension of challengers, which that of two models without names lacks."""
    if _CHALLENGER in dataset.dims:
        return dataset
    challengers = [model for model in dataset[_MODEL].values.tolist() if model != dataset.attrs["baseline"]]
    differences = {name: one for name, one in dataset.data_vars.items() if _MODEL not in one.dims}
    return dataset.assign({name: one.expand_dims({_CHALLENGER: challengers}) for name, one in differences.items()})


def _smallest(dataset: xr.Dataset) -> float:
    """The least p-value of so many replicates, of one difference."""
    return 2 / (int(dataset.attrs["n_boot"]) + 1)


def _differences(results: Results, rows: float, smallest: float) -> Iterator[Difference]:
    # P-values are parts of the same name too.
    of_difference = {f"{part.metric}_{part.part}": part for part in results if part.kind == "difference"}
    for part in results:
        name = f"{part.metric}_" + "_".join(filter(None, (part.part, _DIFFERENCE)))
        model, *others = part.values.dims or ("",)
        curve = [dim for dim in others if dim != results.class_dim]
        if model != _MODEL or len(curve) > 1 or name not in of_difference:
            continue
        difference = of_difference[name]
        for place in np.ndindex(part.values.shape[1:]):
            at = dict(zip(others, place, strict=True))
            bounds = {word: float(bound.isel(at)) for word, bound in difference.bounds.items()}
            pvalues = {word: value for word, value in bounds.items() if word.startswith("pvalue")}
            of_baseline, of_model = map(float, part.values.isel(at).values)
            numbers = (float(difference.values.isel(at)), bounds["low"], bounds["high"])
            where = {dim: part.values[dim].values[index] for dim, index in at.items()}
            point = float(where[curve[0]]) if curve else None
            of_class = str(plain(where[results.class_dim])) if results.class_dim in where else None
            reason = str(difference.notes.get("no_interval", ""))
            is_tied = TIED in str(difference.notes.get("no_replicates", reason))
            yield Difference(
                part, of_baseline, of_model, *numbers, pvalues, rows, smallest, point, of_class, reason, is_tied
            )


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
    if not any(sentences) and any(one.of_class is not None for own in every for one in own.differences):
        sentences.append("Metrics by class do not say which model is better as a whole: see each class.")
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
        reason = difference.no_interval
        interval = f"no interval {reason}" if reason else "too few rows, or too few of an outcome, for an interval"
    name = _name(difference)
    if difference.is_same:
        return f"{model} and {baseline} do not differ: both have {name} {first}, also in all resampled rows."
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
    same = sum(difference.is_same for difference in decided)
    better, worse, unknown = (verdicts.count(verdict) for verdict in (True, False, None))
    unknown -= same
    equal = f", identical in {same:,}" if same else ""
    few = " With more replicates (n_boot) smaller p-values would be possible." if unknown else ""
    few = few if smallest * len(decided) >= 1 - level else ""
    return (
        f"By the {name}, {model} is better than {baseline} in {better:,} of {slices}, worse in {worse:,}{equal} and "
        f"inconclusive in {unknown:,}. P-values are adjusted for the number of slices.{few}"
    )
