"""What the paper says of its estimators, held against a summary of our run by rules that are fixed in advance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from experiments.ece_benchmark.estimators import PAPER
from experiments.ece_benchmark.summaries import PUBLISHED
from experiments.ece_benchmark.tables import table

__all__ = ["CLAIMS", "VERDICTS", "Claim", "Judgement", "View", "judged", "markdown"]

FAMILIES = ("l", "a", "c", "ac")
BINS = ("10", "30", "sqrt")
SILVERMAN = "euranova-d-silverman"
HOLDS, IN_PART, FAILS, UNJUDGED = "holds", "holds in part", "does not hold", "not judged"
VERDICTS = (HOLDS, IN_PART, FAILS)
# What counts as nearly all of the cases, as half of them, and as close to the smallest error.
MOST, HALF, CLOSE, SIMILAR = 0.9, 0.5, 1.1, 1.25
MEASURES = ("absolute", "relative")
PAPER_TRUTH = "_paper_truth"


@dataclass(frozen=True)
class Judgement:
    """A verdict and the numbers that it rests on."""

    verdict: str
    numbers: str


@dataclass(frozen=True)
class View:
    """The summary of one choice of means, and the variable of it that counts as the error."""

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
        error = self.summary[self.measure].sel(setting=setting)
        there = error.dropna("estimator", how="all").estimator.values.tolist()
        missing = [name for name in names if name not in there]
        if missing:
            raise LookupError(f"no {', '.join(missing)}")
        chosen = error.sel(estimator=list(names) or [name for name in PAPER if name in there])
        chosen = chosen.isel(size=np.flatnonzero((error["size"] > above) & (error["size"] <= below)))
        chosen = chosen.dropna("size")
        if not chosen.size:
            raise LookupError(f"no sizes above {above:g} up to {below:g}")
        return chosen


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, its words, the rule of the verdict in plain words, and the rule itself."""

    sentence: str
    quote: str
    rule: str
    judge: Callable[[View], Judgement]


def by_share(share: float) -> str:
    """Holds in nine tenths of the cases or more, in part in half of them or more."""
    return HOLDS if share >= MOST else IN_PART if share >= HALF else FAILS


def smallest(setting: str, name: str, above: float = 0, below: float = PUBLISHED) -> Callable[[View], Judgement]:
    """Whether an estimator has the smallest error of all at the sizes between; ties count."""

    def judge(view: View) -> Judgement:
        view.errors(setting, [name])
        errors = view.errors(setting, above=above, below=below)
        ratio = errors.sel(estimator=name) / errors.min("estimator")
        rank = 1 + (errors < errors.sel(estimator=name)).sum("estimator")
        first, close = (rank == 1), float((ratio <= CLOSE).mean())
        verdict = by_share(float(first.mean()))
        verdict = IN_PART if verdict == FAILS and close >= MOST else verdict
        numbers = (
            f"smallest at {int(first.sum())} of {first.size} sizes, median rank {float(rank.median()):g} of "
            f"{errors.sizes['estimator']}, {_span(ratio.values)} times the smallest; {_leaders(errors)}"
        )
        return Judgement(verdict, f"{numbers}; {_wins(view, setting, name, errors)}")

    return judge


def pairs(setting: str, better: str, worse: str) -> Callable[[View], Judgement]:
    """Whether one family of binned estimators has smaller errors than another, for the same bins and size."""

    def judge(view: View) -> Judgement:
        ratio = _over(view, setting, [f"{better}-{bins}" for bins in BINS], [f"{worse}-{bins}" for bins in BINS])
        wins = ratio < 1
        each = ", ".join(f"{bins} {int(won.sum())}" for bins, won in zip(BINS, wins, strict=True))
        numbers = (
            f"smaller in {int(wins.sum())} of {wins.size} pairs ({each} of {wins.shape[1]}); error of {better} over "
            f"that of {worse} {np.median(ratio):.2f} in the median, {_span(ratio)}"
        )
        return Judgement(by_share(float(wins.mean())), numbers)

    return judge


def square_root(setting: str) -> Callable[[View], Judgement]:
    """Whether 10 bins do better than the square root where that is more than 10, and more so as rows increase."""

    def judge(view: View) -> Judgement:
        fine, coarse = ([f"{family}-{bins}" for family in FAMILIES] for bins in ("sqrt", "10"))
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


def similar(setting: str, above: float) -> Callable[[View], Judgement]:
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


def no_outperformer(setting: str) -> Callable[[View], Judgement]:
    """Whether no single estimator has the smallest error at all sizes."""

    def judge(view: View) -> Judgement:
        errors = view.errors(setting)
        most = float((errors <= errors.min("estimator")).mean("size").max())
        return Judgement(FAILS if most == 1 else IN_PART if most >= MOST else HOLDS, _leaders(errors))

    return judge


def less_good(name: str, here: str, there: str) -> Callable[[View], Judgement]:
    """Whether an estimator is farther from the smallest error in one setting than in another."""

    def judge(view: View) -> Judgement:
        ratios, ranks = [], []
        for setting in (here, there):
            view.errors(setting, [name])
            errors = view.errors(setting)
            ratios.append(errors.sel(estimator=name) / errors.min("estimator"))
            ranks.append(float((1 + (errors < errors.sel(estimator=name)).sum("estimator")).median()))
        one, other = xr.align(*ratios, join="inner")
        farther = one > other
        numbers = (
            f"farther at {int(farther.sum())} of {farther.size} sizes; {float(one.median()):.2f} times the smallest "
            f"error (median rank {ranks[0]:g}) against {float(other.median()):.2f} (median rank {ranks[1]:g})"
        )
        return Judgement(by_share(float(farther.mean())), numbers)

    return judge


def a_tenth(below: float) -> Callable[[View], Judgement]:
    """Whether errors at small sizes are about a tenth of the truth, or at least about 0.1."""

    def judge(view: View) -> Judgement:
        kinds = {kind: view.measure.replace("absolute", kind).replace("relative", kind) for kind in MEASURES}
        median, words = {}, []
        for kind, measure in kinds.items():
            other = View(view.summary, measure)
            every = [other.errors(setting, below=below).values.ravel() for setting in ("confidence", "classwise")]
            median[kind] = np.median(np.concatenate(every))
            texts = [f"{np.median(each):.3g} (from {each.min():.2g} to {each.max():.2g})" for each in every]
            words.append(f"{kind} error {texts[0]} confidence, {texts[1]} class-wise")
        about = {kind: 0.05 <= value <= 0.2 for kind, value in median.items()}
        verdict = HOLDS if about["relative"] else IN_PART if about["absolute"] else FAILS
        return Judgement(verdict, "; ".join(words))

    return judge


def _over(
    view: View, setting: str, upper: Sequence[str], lower: Sequence[str], above: float = 0
) -> NDArray[np.float64]:
    """Errors of some estimators over those of others, each (pair, size), names without their common beginning."""
    names = [f"euranova-{name}" for name in (*upper, *lower)]
    errors = view.errors(setting, names, above=above)
    one, other = (errors.sel(estimator=some).values for some in (names[: len(upper)], names[len(upper) :]))
    ratio: NDArray[np.float64] = one / other
    return ratio


def _near(errors: xr.DataArray) -> NDArray[np.int64]:
    """How many estimators are within a quarter of the smallest error, by size."""
    near: NDArray[np.int64] = (errors <= SIMILAR * errors.min("estimator")).sum("estimator").values
    return near


def _leaders(errors: xr.DataArray) -> str:
    """Which estimators have the smallest error at how many sizes."""
    names, counts = np.unique(errors.estimator.values[errors.argmin("estimator").values], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return "smallest error: " + ", ".join(f"{names[i]} at {counts[i]}" for i in order)


def _wins(view: View, setting: str, name: str, errors: xr.DataArray) -> str:
    """In what share of the score distributions an estimator is the best, and which one most often is."""
    best = view.summary["best"].sel(setting=setting, estimator=errors.estimator, size=errors["size"]).mean("size")
    first = str(best.estimator.values[best.values.argmax()])
    other = "" if first == name else f", {first} in {float(best.max()):.0%}"
    return f"best in {float(best.sel(estimator=name)):.0%} of the distributions{other}"


def _span(values: NDArray[np.float64]) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"


_SMALLEST = (
    "Holds if its error is the smallest of the paper's estimators at nine tenths of the {sizes} or more; in part if at "
    "half of them or more, or if it is within 10 % of the smallest at nine tenths; otherwise not."
)
_PAIRS = (
    "Pairs with the same bins (10, 30, square root) at the same published size. Holds if {words} in nine tenths of the "
    "pairs or more; in part in half or more; otherwise not."
)
_ROOT = (
    "Families l, a, c and ac at the published sizes whose square root exceeds 10. Holds if the error with 10 bins is "
    "smaller in nine tenths of the pairs or more, and the mean ratio of errors is larger at the last of these sizes "
    "than at the first; in part if it is smaller in half or more; otherwise not."
)

CLAIMS = (
    Claim(
        "Confidence: ECE_d with Silverman's rule is the best in almost all regimes.",
        "the best performing estimator in almost all data regimes is the ECE_d^conf with Silverman's rule",
        _SMALLEST.format(sizes="published sizes"),
        smallest("confidence", SILVERMAN),
    ),
    Claim(
        "Confidence: the convex mapping improves uniform bins.",
        "the convex mapping scheme empirically improves the performance of the legacy estimator",
        _PAIRS.format(words="the error of ECE_c is smaller than that of ECE_l"),
        pairs("confidence", "c", "l"),
    ),
    Claim(
        "Confidence: the convex mapping improves adaptive bins.",
        "[it] improves the performance of ... the one using the adaptive binning",
        _PAIRS.format(words="the error of ECE_ac is smaller than that of ECE_a"),
        pairs("confidence", "ac", "a"),
    ),
    Claim(
        "Confidence: adaptive bins alone underperform.",
        "the adaptive binning, which underperforms when alone",
        _PAIRS.format(words="the error of ECE_l is smaller than that of ECE_a"),
        pairs("confidence", "l", "a"),
    ),
    Claim(
        "Confidence: the square root of the rows grows too fast as a number of bins.",
        "the number of bins grows slightly too fast in average with an increasing amount of samples",
        _ROOT,
        square_root("confidence"),
    ),
    Claim(
        "Confidence: above 300 rows many estimators are alike.",
        "above 300 samples, a lot of the estimators show similar performances",
        "Holds if at every published size above 300 half of the paper's estimators or more are within a quarter of the "
        "smallest error; in part if a third or more; otherwise not.",
        similar("confidence", 300),
    ),
    Claim(
        "Class-wise: no estimator is the best throughout.",
        "there is no clear outperformer in all data regimes among the tested estimators",
        "Holds if no estimator has the smallest error at nine tenths of the published sizes or more; in part if one "
        "has, but not at all of them; otherwise not.",
        no_outperformer("classwise"),
    ),
    Claim(
        "Class-wise, below 100 rows: ECE_ac with the square root is the best.",
        "For less than 100 samples, the ECE_ac^cw with the square root heuristic seems to be the best choice",
        _SMALLEST.format(sizes="sizes below 100"),
        smallest("classwise", "euranova-ac-sqrt", below=99.5),
    ),
    Claim(
        "Class-wise, from 100 rows: ECE_ac with few bins is the best.",
        "The same estimator, this time with a fixed small number of bins, is then the most precise one",
        _SMALLEST.format(sizes="published sizes from 100") + " Few bins: 10.",
        smallest("classwise", "euranova-ac-10", above=99.5),
    ),
    Claim(
        "Class-wise: the square root grows too fast here too.",
        "The observation made earlier about the square root heuristic still holds",
        _ROOT,
        square_root("classwise"),
    ),
    Claim(
        "Silverman's rule is less good class-wise than for the confidence.",
        "Silverman's heuristic for the bandwidth seems to be a less relevant choice in the class-wise setting",
        "ECE_d with Silverman's rule over the smallest error of the paper's estimators at the same size. Holds if this "
        "ratio is larger class-wise at nine tenths of the published sizes or more; in part at half or more; otherwise "
        "not.",
        less_good(SILVERMAN, "classwise", "confidence"),
    ),
    Claim(
        "With few rows errors are about 10 % of the true value.",
        "the error of all estimators is very high for small data regimes (... around 10% of the true value)",
        "Median error of the paper's estimators over sizes below 100 and both settings. Holds if the relative one is "
        "between 5 % and 20 %; in part if it is not, but the absolute one is between 0.05 and 0.2; otherwise not. "
        "Looks at both errors, so their verdicts are the same.",
        a_tenth(99.5),
    ),
)


def judged(claim: Claim, summary: xr.Dataset, means: str, measure: str) -> Judgement:
    """The verdict on a claim for one choice of means and one variable of the summary."""
    try:
        return claim.judge(View(summary.sel(means=means), measure))
    except LookupError as error:
        return Judgement(UNJUDGED, str(error.args[0]))


def markdown(summary: xr.Dataset) -> str:
    """All claims: a table of verdicts, then each claim with its words, its rule and the numbers."""
    places = [(means, measure) for means in summary.means.values.tolist() for measure in MEASURES]
    found = {(i, *place): judged(claim, summary, *place) for i, claim in enumerate(CLAIMS) for place in places}
    verdicts = [
        [f"{i + 1}. {claim.sentence}", *(found[i, *place].verdict for place in places)]
        for i, claim in enumerate(CLAIMS)
    ]
    lines = [
        "# The paper's claims",
        "",
        "Verdicts follow from rules that are stated with each claim. Errors are medians over the score distributions "
        "of the 95th percentile over replicates, against the best truth; the relative ones without flagged "
        "distributions.",
        "",
        *table(["claim", *(", ".join(place) for place in places)], verdicts),
        _against_paper_truth(summary, found),
        "",
    ]
    for i, claim in enumerate(CLAIMS):
        numbers = [[*place, found[i, *place].verdict, found[i, *place].numbers] for place in places]
        lines += [f"## {i + 1}. {claim.sentence}", "", f'> "{claim.quote}"', "", claim.rule, ""]
        lines += table(["means", "error", "verdict", "numbers"], numbers)
    return "\n".join(lines)


def _against_paper_truth(summary: xr.Dataset, found: dict[tuple[int, str, str], Judgement]) -> str:
    """Which verdicts are others if errors are taken against the paper's own truth."""
    changed = []
    for (i, means, measure), one in found.items():
        other = judged(CLAIMS[i], summary, means, measure + PAPER_TRUTH)
        if other.verdict != one.verdict:
            changed.append(f"- claim {i + 1}, {means}, {measure}: {other.verdict} ({other.numbers})")
    head = f"Against the paper's own truth {len(changed) or 'none'} of the {len(found)} verdicts "
    return head + ("is another." if len(changed) == 1 else "are others.") + "".join(f"\n{line}" for line in changed)
