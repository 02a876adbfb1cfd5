"""How often gates decide about limits that are the true values."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

import calibdask as cd
from experiments.calibration.cases import OFF, Floats, Sample
from experiments.calibration.declared import FITTED_GATES, GATES, Gated
from experiments.calibration.measured import Measured, Measurement, log_loss

# A limit of each data set by the name of the metric.
Limits = Mapping[str, float | str]


# A limit at the largest value that there is, which balanced outcomes have, is met rightly.
_GREATEST = {
    "brier-decomposition.uncertainty": 0.25,
    "corp.uncertainty": 0.25,
    "log-loss-decomposition.uncertainty": np.log(2.0),
}
_ROUNDING = 1e-6


def gates(of: Measurement) -> Iterator[tuple[str, Measured]]:
    """Every gate, for models that are off: met and broken may each be decided in 2.5 % of data sets."""
    if of.model != OFF or not of.replicated_sets:
        return
    sample = of.sample(of.replicated_sets, "gates")
    for text, gated in GATES.items():
        if _is_measured(of, text) and of.rows <= gated.rows:
            value = _true_value(of, text, gated)
            limit = None if value > _GREATEST.get(text, np.inf) - _ROUNDING else _limit(gated, value)
            yield from _decided(of, sample, text, [limit] * len(sample.labels))
    for text, gated in FITTED_GATES.items():
        if _is_measured(of, text):
            values = _FITTED[text](of, sample)
            yield from _decided(of, sample, text, [_limit(gated, float(value)) for value in values])
    if "compare, gate on a worse Brier score: not worse" in of.only:
        yield from _differences(of)


def _is_measured(of: Measurement, text: str) -> bool:
    return not of.only.isdisjoint(f"{text}: {outcome}" for outcome in ("met", "broken"))


def _limit(gated: Gated, value: float) -> float | str | None:
    """None where the population has no such number."""
    if not np.isfinite(value):
        return None
    if gated.rule == "size":
        return abs(value)
    return f"..{value!r}" if gated.rule == "most" else f"{value!r}.."


def _true_value(of: Measurement, text: str, gated: Gated) -> float:
    if gated.truth:
        return float(gated.truth(of.case.population(of.model), {}, ""))
    arguments = text.rfind(")") + 1
    metric, _, part = text[arguments:].partition(".")
    found = of.truth(text[:arguments] + metric)
    return float(np.ravel(found[f"x_{part}" if part else "x"].values)[0])


def _decided(
    of: Measurement, sample: Sample, text: str, limits: list[float | str | None]
) -> Iterator[tuple[str, Measured]]:
    """How often a limit is met and broken; refused if the first data set refuses it."""
    outcomes = []
    for number, limit in enumerate(limits):
        weights = None if sample.weights is None else sample.weights[number]
        labels, scores = sample.labels[number], sample.scores[number]
        options = {"sample_weight": weights, "n_boot": of.n_boot, "seed": number}
        try:
            outcome = "" if limit is None else _outcome(labels, scores, {text: limit}, options)
        except ValueError:
            outcome = ""
        outcomes.append(outcome)
        if not outcomes[0]:
            break
    given = [outcome != "" for outcome in outcomes]
    for kind in ("met", "broken"):
        refused = Measured.refused(len(sample.labels))
        happened = [outcome == kind for outcome in outcomes]
        yield f"{text}: {kind}", Measured.of(happened, given) if given[0] else refused


def _outcome(labels: Floats, scores: Floats, limits: Limits, options: Mapping[str, object]) -> str:
    gate = cd.check(labels, scores, limits, task="binary", **options)  # type: ignore[arg-type]
    return gate.judgements[0].outcome


def _coverage(of: Measurement, sample: Sample) -> Floats:
    """The share of the population whose conformal set holds the outcome, by the threshold of each data set."""
    return _sets_of_population(of, sample)[0]


def _size(of: Measurement, sample: Sample) -> Floats:
    return _sets_of_population(of, sample)[1]


def _sets_of_population(of: Measurement, sample: Sample) -> tuple[Floats, Floats]:
    population = of.case.population(of.model)
    found = of.evaluated(sample, cd.ConformalThreshold())
    if not found:
        nothing = np.full(len(sample.labels), np.nan)
        return nothing, nothing
    cut = found["x_threshold"][:, None]
    holds_one, holds_zero = 1 - population.scores <= cut, population.scores <= cut
    coverage = population.chances * holds_one + (1 - population.chances) * holds_zero
    return coverage.mean(-1), (holds_one * 1.0 + holds_zero).mean(-1)


def _calibrated_loss(of: Measurement, sample: Sample) -> Floats:
    """The log loss of the population after calibration by the map of each data set."""
    population = of.case.population(of.model)
    losses = np.full(len(sample.labels), np.nan)
    for number, (labels, scores) in enumerate(zip(sample.labels, sample.scores, strict=True)):
        if labels.min() == labels.max():
            continue
        weights = None if sample.weights is None else sample.weights[number]
        fitted = cd.PlattScaling().fit(labels, scores, sample_weight=weights)
        losses[number] = log_loss(fitted.predict_proba(population.scores)[:, 1], population.chances)
    return losses


_FITTED: dict[str, Callable[[Measurement, Sample], Floats]] = {
    "conformal-threshold.coverage": _coverage,
    "conformal-threshold.size": _size,
    "refinement": _calibrated_loss,
}


def _differences(of: Measurement) -> Iterator[tuple[str, Measured]]:
    """A margin that is the true difference of Brier scores is kept in 2.5 % of data sets at most."""
    sample = of.sample(of.replicated_sets, "gates of differences")
    other, margin = of.other_scores()
    met = []
    for number in range(len(sample.labels)):
        weights = None if sample.weights is None else sample.weights[number]
        labels, scores = sample.labels[number], sample.scores[number]
        # The scores that are worse are held against the others.
        models = (other(scores), scores) if margin > 0 else (scores, other(scores))
        gate = cd.check(
            labels,
            models[0],
            not_worse={"brier-score": abs(margin)},
            baseline=models[1],
            task="binary",
            sample_weight=weights,
            n_boot=of.n_boot,
            seed=number,
        )
        met.append(gate.judgements[0].outcome == "met")
    yield "compare, gate on a worse Brier score: not worse", Measured.of(met)
