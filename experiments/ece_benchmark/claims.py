"""The claims of the paper about its estimators, evaluated on a summary of our run by rules fixed in advance."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from experiments.ece_benchmark.rules import (
    MEASURES,
    SILVERMAN,
    UNJUDGED,
    Judgement,
    Rule,
    a_tenth,
    judged,
    less_good,
    no_outperformer,
    pairs,
    similar,
    smallest,
    square_root,
)
from experiments.ece_benchmark.summaries import KEPT
from experiments.ece_benchmark.tables import CONVEX_NOTE, table

PAPER_TRUTH = "_paper_truth"


@dataclass(frozen=True)
class Further:
    """Other estimators, or another setting, that the rule of a claim is applied to; nothing that the paper claims."""

    words: str
    judge: Rule


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, its words, the rule of the verdict in plain words, and the rule itself."""

    sentence: str
    quote: str
    rule: str
    judge: Rule
    further: tuple[Further, ...] = ()


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


def _mappings(convex: str, hard: str, ours: str) -> tuple[Further, ...]:
    """The same for pairs that only differ in the mapping, and class-wise."""
    proper, inverted = ((f"{ours}-{mapping}", f"{ours}-hard") for mapping in ("convex", "inverted"))
    return (
        Further("confidence, our convex mapping", pairs("confidence", *proper)),
        Further("confidence, the inverted one on [0, 1]", pairs("confidence", *inverted)),
        Further("class-wise, the paper's entries", pairs("classwise", convex, hard)),
        Further("class-wise, our convex mapping", pairs("classwise", *proper)),
        Further("class-wise, the inverted one of ours", pairs("classwise", *inverted)),
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
        pairs("confidence", "euranova-c", "euranova-l"),
        _mappings("euranova-c", "euranova-l", "uniform"),
    ),
    Claim(
        "Confidence: the convex mapping improves adaptive bins.",
        "[it] improves the performance of ... the one using the adaptive binning",
        _PAIRS.format(words="the error of ECE_ac is smaller than that of ECE_a"),
        pairs("confidence", "euranova-ac", "euranova-a"),
        _mappings("euranova-ac", "euranova-a", "equal-mass"),
    ),
    Claim(
        "Confidence: adaptive bins alone underperform.",
        "the adaptive binning, which underperforms when alone",
        _PAIRS.format(words="the error of ECE_l is smaller than that of ECE_a"),
        pairs("confidence", "euranova-l", "euranova-a"),
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


def statements() -> dict[str, Rule]:
    """All claims by name: the number of the claim, followed by a description for additional ones."""
    rules: dict[str, Rule] = {}
    for i, claim in enumerate(CLAIMS, 1):
        rules |= {str(i): claim.judge} | {f"{i}, {other.words}": other.judge for other in claim.further}
    return rules


def with_stability(summary: xr.Dataset) -> xr.Dataset:
    """The summary of one choice of means with the stability of verdicts in place of its resampled medians.

    ``stability`` is the share of the resamples in which the verdict is that of the summary itself.
    """
    draws = [
        summary[["best"]].assign({name: summary[f"{name}_draws"].isel(resample=i) for name in MEASURES})
        for i in range(summary.sizes["resample"])
    ]
    shares = np.full((len(statements()), len(MEASURES)), np.nan, np.float32)
    for i, rule in enumerate(statements().values()):
        for j, measure in enumerate(MEASURES):
            verdict = judged(rule, summary, measure).verdict
            if verdict != UNJUDGED:
                shares[i, j] = np.mean([judged(rule, draw, measure).verdict == verdict for draw in draws])
    coords = {"statement": list(statements()), "measure": list(MEASURES)}
    return summary.drop_dims("resample").assign(stability=xr.DataArray(shares, coords, ("statement", "measure")))


def _stability(summary: xr.Dataset, statement: str, measure: str) -> str:
    """The share in percent, empty where there is none."""
    if "stability" not in summary:
        return ""
    share = float(summary["stability"].sel(statement=statement, measure=measure))
    return "" if np.isnan(share) else f"{share:.0%}"


def markdown(summary: xr.Dataset) -> str:
    """All claims: a table of verdicts, then each claim with its words, its rule and the numbers."""
    by_means = {means: summary.sel(means=means) for means in summary.means.values.tolist()}
    columns = [(means, measure) for means in by_means for measure in MEASURES]
    judgements = {
        (statement, *column): judged(rule, by_means[column[0]], column[1])
        for statement, rule in statements().items()
        for column in columns
    }
    stable = {key: _stability(by_means[key[1]], key[0], key[2]) for key in judgements}
    verdicts = [
        [
            f"{i}. {claim.sentence}",
            *(
                f"{judgements[key].verdict} {stable[key] and f'({stable[key]})'}".strip()
                for key in _keys(str(i), columns)
            ),
        ]
        for i, claim in enumerate(CLAIMS, 1)
    ]
    lines = [
        "# The paper's claims",
        "",
        f"{CONVEX_NOTE} For the confidence ECE_l has its bins on [0, 1] while ECE_c has its centres on [1/K, 1], so "
        "that claim 2 is no comparison of mappings alone; the further pairs below are.",
        "",
        "Verdicts follow from rules that are stated with each claim. Errors are medians over the score distributions "
        "of the 95th percentile over replicates, against the best truth; the relative ones without flagged "
        f"distributions. The share beside a verdict is that of the {KEPT} resamples of whole data distributions in "
        "which the verdict is the same.",
        "",
        *table(["claim", *(", ".join(column) for column in columns)], verdicts),
        _against_paper_truth(by_means, judgements),
        "",
    ]
    for i, claim in enumerate(CLAIMS, 1):
        lines += [f"## {i}. {claim.sentence}", "", f'> "{claim.quote}"', "", claim.rule, ""]
        keys = _keys(str(i), columns)
        rows = [[*key[1:], judgements[key].verdict, stable[key], judgements[key].numbers] for key in keys]
        lines += table(["means", "error", "verdict", "in resamples", "numbers"], rows)
        if claim.further:
            rows = [
                [other.words, *key[1:], judgements[key].verdict, stable[key], judgements[key].numbers]
                for other in claim.further
                for key in _keys(f"{i}, {other.words}", columns)
            ]
            lines += ["By the same rule:", ""]
            lines += table(["pairs", "means", "error", "verdict", "in resamples", "numbers"], rows)
    return "\n".join(lines)


def _keys(statement: str, columns: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(statement, *column) for column in columns]


def _against_paper_truth(by_means: dict[str, xr.Dataset], judgements: dict[tuple[str, str, str], Judgement]) -> str:
    """Verdicts on claims that change if errors are relative to the paper's own true error."""
    changed, total = [], 0
    for i, claim in enumerate(CLAIMS, 1):
        for _, means, measure in (key for key in judgements if key[0] == str(i)):
            total += 1
            other = judged(claim.judge, by_means[means], measure + PAPER_TRUTH)
            if other.verdict != judgements[str(i), means, measure].verdict:
                changed.append(f"- claim {i}, {means}, {measure}: {other.verdict} ({other.numbers})")
    verb = "is another." if len(changed) == 1 else "are others."
    return (
        f"Against the paper's own truth {len(changed) or 'none'} of the {total} verdicts {verb} For relative errors "
        "this changes two things: the truth, and the distributions, of which all count, as in the paper, flagged ones "
        "too." + "".join(f"\n{line}" for line in changed)
    )
