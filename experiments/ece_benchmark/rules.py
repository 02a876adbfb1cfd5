"""Rules that evaluate a claim about estimators on a summary: each returns a verdict and the numbers behind it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from experiments.ece_benchmark.estimators import PAPER
from experiments.ece_benchmark.summaries import PUBLISHED

FAMILIES = ("l", "a", "c", "ac")
BINS = ("10", "30", "sqrt")
SILVERMAN = "euranova-d-silverman"
HOLDS, IN_PART, FAILS, UNJUDGED = "holds", "holds in part", "does not hold", "not judged"
VERDICTS = (HOLDS, IN_PART, FAILS)
# What counts as nearly all of the cases, as half of them, and as close to the smallest error.
MOST, HALF, CLOSE, SIMILAR = 0.9, 0.5, 1.1, 1.25
MEASURES = ("absolute", "relative")
# Equal but for rounding: the square root of the rows is 10 bins at one of the sizes.
_EQUAL = 1 + 1e-6


@dataclass(frozen=True)
class Judgement:
    """A verdict and the numbers behind it."""

    verdict: str
    numbers: str


@dataclass(frozen=True)
class View:
    """The summary of one choice of means, and its variable that serves as the error."""

    summary: xr.Dataset
    measure: str

    def errors(
        self, setting: str, names: Sequence[str] = (), above: float = 0, below: float = PUBLISHED
    ) -> xr.DataArray:
        """Errors (estimator, size) of the paper's estimators, or of those named, at the published sizes between.

        Raises
        ------
        LookupError
            If an estimator, or all sizes, are missing.
        """
        error = self.summary[self.measure].sel(setting=setting).transpose("estimator", "size")
        values, every, size = error.values, error.estimator.values.tolist(), error["size"].values
        there = [name for name, known in zip(every, np.isfinite(values).any(1), strict=True) if known]
        missing = [name for name in names if name not in there]
        if missing:
            raise LookupError(f"no {', '.join(missing)}")
        chosen = list(names) or [name for name in PAPER if name in there]
        values = values[[every.index(name) for name in chosen]]
        columns = np.flatnonzero((size > above) & (size <= below) & ~np.isnan(values).any(0))
        if not chosen or not columns.size:
            raise LookupError(f"no sizes above {above:g} up to {below:g}")
        coords = {"estimator": chosen, "size": size[columns]}
        return xr.DataArray(values[:, columns], coords, ("estimator", "size"))


Rule = Callable[[View], Judgement]


def judged(rule: Rule, summary: xr.Dataset, measure: str) -> Judgement:
    """The verdict for one choice of means and one variable of its summary."""
    try:
        return rule(View(summary, measure))
    except LookupError as error:
        return Judgement(UNJUDGED, str(error.args[0]))


def by_share(share: float) -> str:
    """Holds in nine tenths of the cases or more, in part in half of them or more."""
    return HOLDS if share >= MOST else IN_PART if share >= HALF else FAILS


def smallest(setting: str, name: str, above: float = 0, below: float = PUBLISHED) -> Rule:
    """Whether an estimator has the smallest error of all at the sizes between; ties count."""

    def judge(view: View) -> Judgement:
        view.errors(setting, [name])
        errors = view.errors(setting, above=above, below=below)
        ratio, rank = errors.sel(estimator=name) / errors.min("estimator"), _rank(errors, name)
        first, close = (rank == 1), float((ratio <= CLOSE).mean())
        tied = first & (_least(errors).sum("estimator") > 1)
        verdict = by_share(float(first.mean()))
        verdict = IN_PART if verdict == FAILS and close >= MOST else verdict
        numbers = (
            f"smallest at {int(first.sum())} of {first.size} sizes{_tied(int(tied.sum()))}, median rank "
            f"{float(rank.median()):g} of {errors.sizes['estimator']}, {_span(ratio.values)} times the smallest; "
            f"{_leaders(errors)}"
        )
        return Judgement(verdict, f"{numbers}; {_wins(view, setting, name, errors)}")

    return judge


def pairs(setting: str, better: str, worse: str) -> Rule:
    """Whether one family of binned estimators has smaller errors than another, for the same bins and size."""

    def judge(view: View) -> Judgement:
        ratio = _over(view, setting, [f"{better}-{bins}" for bins in BINS], [f"{worse}-{bins}" for bins in BINS])
        wins = ratio < 1
        by_bins = ", ".join(f"{bins} {int(won.sum())}" for bins, won in zip(BINS, wins, strict=True))
        numbers = (
            f"smaller in {int(wins.sum())} of {wins.size} pairs ({by_bins} of {wins.shape[1]}); error of {better} over "
            f"that of {worse} {np.median(ratio):.2f} in the median, {_span(ratio)}"
        )
        return Judgement(by_share(float(wins.mean())), numbers)

    return judge


def square_root(setting: str) -> Rule:
    """Whether 10 bins do better than the square root where that is more than 10, and more so as rows increase."""

    def judge(view: View) -> Judgement:
        fine, coarse = ([f"euranova-{family}-{bins}" for family in FAMILIES] for bins in ("sqrt", "10"))
        # From 121 rows on the square root is 11 or more.
        ratio = _over(view, setting, fine, coarse, above=120)
        losses, mean = ratio > 1, np.exp(np.log(ratio).mean(0))
        grows = bool(mean[-1] > mean[0])
        verdict = by_share(float(losses.mean()))
        numbers = (
            f"larger with the square root in {int(losses.sum())} of {losses.size} pairs of family and size; "
            f"{mean[0]:.2f} times the error with 10 bins at the first of these sizes, {mean[-1]:.2f} at the last"
        )
        return Judgement(IN_PART if verdict == HOLDS and not grows else verdict, numbers)

    return judge


def similar(setting: str, above: float) -> Rule:
    """Whether half of the estimators come close to the smallest error at every size above."""

    def judge(view: View) -> Judgement:
        near = _near(view.errors(setting, above=above))
        few = _near(view.errors(setting))
        total = view.errors(setting).sizes["estimator"]
        verdict = HOLDS if near.min() >= total / 2 else IN_PART if near.min() >= total / 3 else FAILS
        numbers = (
            f"{near.min()} to {near.max()} of {total} within a quarter of the smallest; at the first size {few[0]}"
        )
        return Judgement(verdict, numbers)

    return judge


def no_outperformer(setting: str) -> Rule:
    """Whether no single estimator has the smallest error at all sizes."""

    def judge(view: View) -> Judgement:
        errors = view.errors(setting)
        most = float(_least(errors).mean("size").max())
        return Judgement(FAILS if most == 1 else IN_PART if most >= MOST else HOLDS, _leaders(errors))

    return judge


def less_good(name: str, here: str, there: str) -> Rule:
    """Whether an estimator is farther from the smallest error in one setting than in another."""

    def judge(view: View) -> Judgement:
        ratios, ranks = [], []
        for setting in (here, there):
            view.errors(setting, [name])
            errors = view.errors(setting)
            ratios.append(errors.sel(estimator=name) / errors.min("estimator"))
            ranks.append(float(_rank(errors, name).median()))
        one, other = xr.align(*ratios, join="inner")
        farther = one > other
        numbers = (
            f"farther at {int(farther.sum())} of {farther.size} sizes; {float(one.median()):.2f} times the smallest "
            f"error (median rank {ranks[0]:g}) against {float(other.median()):.2f} (median rank {ranks[1]:g})"
        )
        return Judgement(by_share(float(farther.mean())), numbers)

    return judge


def a_tenth(below: float) -> Rule:
    """Whether errors at small sizes are about a tenth of the truth, or at least about 0.1."""

    def judge(view: View) -> Judgement:
        kinds = {kind: view.measure.replace("absolute", kind).replace("relative", kind) for kind in MEASURES}
        median, words = {}, []
        for kind, measure in kinds.items():
            other = View(view.summary, measure)
            every = [other.errors(setting, below=below).values.ravel() for setting in ("confidence", "classwise")]
            median[kind] = np.median(np.concatenate(every))
            texts = [f"{np.median(errors):.3g} (from {errors.min():.2g} to {errors.max():.2g})" for errors in every]
            words.append(f"{kind} error {texts[0]} confidence, {texts[1]} class-wise")
        about = {kind: 0.05 <= value <= 0.2 for kind, value in median.items()}
        verdict = HOLDS if about["relative"] else IN_PART if about["absolute"] else FAILS
        return Judgement(verdict, "; ".join(words))

    return judge


def _over(
    view: View, setting: str, upper: Sequence[str], lower: Sequence[str], above: float = 0
) -> NDArray[np.float64]:
    """Ratios of the errors of estimators to those of others, (pair, size)."""
    errors = view.errors(setting, [*upper, *lower], above=above).values
    ratio: NDArray[np.float64] = errors[: len(upper)] / errors[len(upper) :]
    return ratio


def _near(errors: xr.DataArray) -> NDArray[np.int64]:
    """How many estimators are within a quarter of the smallest error, by size."""
    near: NDArray[np.int64] = (errors <= SIMILAR * errors.min("estimator")).sum("estimator").values
    return near


def _least(errors: xr.DataArray) -> xr.DataArray:
    """Which estimators have the smallest error; equals count."""
    return errors <= _EQUAL * errors.min("estimator")


def _rank(errors: xr.DataArray, name: str) -> xr.DataArray:
    """How many estimators have a smaller error than one, and one more."""
    return 1 + (_EQUAL * errors < errors.sel(estimator=name)).sum("estimator")


def _tied(count: int) -> str:
    return f" (at {count} with equals)" if count else ""


def _leaders(errors: xr.DataArray) -> str:
    """Which estimators have the smallest error at how many sizes; those that share it are named together."""
    names = errors.estimator.values
    counts = Counter(" = ".join(names[row]) for row in _least(errors).transpose("size", "estimator").values)
    return "smallest error: " + ", ".join(f"{leaders} at {count}" for leaders, count in counts.most_common())


def _wins(view: View, setting: str, name: str, errors: xr.DataArray) -> str:
    """Share of the score distributions in which an estimator is best, and the estimator that is best most often."""
    best = view.summary["best"].sel(setting=setting, estimator=errors.estimator, size=errors["size"]).mean("size")
    first = str(best.estimator.values[best.values.argmax()])
    other = "" if first == name else f", {first} in {float(best.max()):.0%}"
    return f"best in {float(best.sel(estimator=name)):.0%} of the distributions{other}"


def _span(values: NDArray[np.float64]) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
