"""How often promises are kept in data sets of one case: shares with their standard errors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import calibdask as cd
from experiments.calibration.cases import CALIBRATED, OFF, Case, Floats, Sample
from experiments.calibration.declared import INTERVALS, LEVEL, PROMISES, SIGNIFICANCE, SLOW, TESTS, Interval

_AT_ONCE = 50
_TOLERANCE, _PERIODS, _RISK = 0.01, 10, 0.1
_STREAMS = 400
_ROUNDING = 1e-9


class Measured(NamedTuple):
    """Data sets, the share of them that have a result, the share in which something happens, and its error."""

    sets: int
    given: float
    share: float
    error: float

    @classmethod
    def of(cls, happened: npt.ArrayLike, given: npt.ArrayLike = True) -> "Measured":
        """From what happened in each data set, and whether there was a result.

        Without a result an interval does not miss, a test does not reject and a gate does not decide. The standard
        error of what always or never happens is that of one exception.
        """
        values = np.asarray(happened, np.float64)
        share = float(np.broadcast_to(given, values.shape).mean())
        if share == 0:
            return cls.refused(values.size)
        exception = np.sqrt(1 - 1 / values.size) / values.size
        error = max(float(values.std()) / np.sqrt(values.size), exception)
        return cls(values.size, share, float(values.mean()), error)

    @classmethod
    def refused(cls, sets: int) -> "Measured":
        """No result in any data set."""
        return cls(sets, 0.0, np.nan, np.nan)


@dataclass(frozen=True)
class Measurement:
    """One case, model and number of rows.

    Parameters
    ----------
    case : Case
    model : str
        `CALIBRATED` or `OFF`.
    rows : int
    sets, replicated_sets : int
        Data sets of formulas and tests, and of all that takes time.
    n_boot : int
    generator : callable
        Random numbers by a name.
    only : frozenset of str
        Names of the promises that are measured.
    """

    case: Case
    model: str
    rows: int
    sets: int
    replicated_sets: int
    n_boot: int
    generator: Callable[[str], np.random.Generator]
    only: frozenset[str] = frozenset(PROMISES)

    def measured(self, family: str) -> Iterator[tuple[str, Measured]]:
        """Every promise of one of `FAMILIES` that is measured in this case, except gates."""
        if family == "formulas":
            yield from self._intervals(replicates=False)
        elif family == "replicates" and self.replicated_sets:
            yield from self._intervals(replicates=True)
            if "compare, difference of Brier scores" in self.only:
                yield from self._difference()
            if "Refinement, calibration" in self.only:
                yield from self._refined()
        elif family == "tests" and self.model == CALIBRATED:
            yield from self._tests()
            if self.replicated_sets and "NoiseFloor, errors of calibrated models above it" in self.only:
                yield from self._noise_floors()
        elif family == "guarantees":
            yield from self._guarantees()

    def _guarantees(self) -> Iterator[tuple[str, Measured]]:
        if not self.case.weighted:
            yield from self._decisions()
            if self.model == CALIBRATED:
                yield from self._watched()
                yield from self._planned()
        if self.replicated_sets and self.model == CALIBRATED:
            yield from self._audited()
        if self.replicated_sets and self.case.label.startswith("Balanced") and self.model == OFF and self.rows >= 500:
            yield from self._mended()

    def sample(self, sets: int, name: str) -> Sample:
        """Data sets, drawn by random numbers of this name."""
        return self.case.sample(self.model, sets, self.rows, self.generator(name))

    def evaluated(self, sample: Sample, metric: Any, **options: Any) -> dict[str, Any]:
        """Variables and coordinates by name, data sets along the first axis; none where the metric refuses them."""
        return self._evaluated_together(sample, [metric], **options)[0]

    def _evaluated_together(self, sample: Sample, metrics: Sequence[Any], **options: Any) -> list[dict[str, Any]]:
        """As `evaluated` for each of several metrics, which share the draws of their replicates."""
        named = {f"x{number}": metric for number, metric in enumerate(metrics)}
        found: dict[str, list[Any]] = {}
        positions: dict[str, Any] = {}
        for start in range(0, len(sample.labels), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            weights = None if sample.weights is None else sample.weights[here]
            given = sample.labels[here], sample.scores[here], named
            try:
                result = cd.evaluate(*given, task="binary", sample_weight=weights, seed=start, **options)
            except ValueError:
                if len(metrics) == 1:
                    return [{}]
                return [self.evaluated(sample, metric, **options) for metric in metrics]
            for name in result:
                found.setdefault(str(name), []).append(result[name].values)
            positions = {str(name): of.values for name, of in result.coords.items()}
        values = positions | {name: np.concatenate(parts) for name, parts in found.items()}
        return [_of_metric(name, values) for name in named]

    def truth(self, metric: Any) -> Any:
        """The result of the whole population, in which rows stand for their probabilities."""
        labels, scores, weights = self.case.population(self.model).rows
        return cd.evaluate(labels, scores, {"x": metric}, task="binary", sample_weight=weights)

    def _intervals(self, *, replicates: bool) -> Iterator[tuple[str, Measured]]:
        sample = self.sample(self.replicated_sets if replicates else self.sets, f"intervals {replicates}")
        chosen = [of for of in INTERVALS.values() if of.replicates == replicates and self._is_measured(of)]
        metrics = [of.metric for of in chosen]
        together = self._evaluated_together(sample, metrics, ci=LEVEL, n_boot=self.n_boot) if metrics else []
        for of, found in zip(chosen, together, strict=True):
            truth = {} if of.truth else self.truth(of.metric)
            for part, title in of.parts.items():
                name = f"x_{part}" if part else "x"
                if f"{name}_low" not in found:
                    yield title, Measured.refused(len(sample.labels))
                    continue
                low, high = found[f"{name}_low"], found[f"{name}_high"]
                true = of.truth(self.case.population(self.model), found, name) if of.truth else truth[name].values
                yield title, _held(low, high, np.asarray(true, np.float64), whole=part.endswith("band"))

    def _is_measured(self, of: Interval) -> bool:
        """Whether an interval is measured with these rows, of this model."""
        is_for_these = self.rows <= of.rows and not (of.calibrated_only and self.model == OFF)
        return is_for_these and not self.only.isdisjoint(of.parts.values())

    def _tests(self) -> Iterator[tuple[str, Measured]]:
        for title, (metric, part, most) in TESTS.items():
            if self.rows > most or (title in SLOW and not self.replicated_sets):
                continue
            name = f"{title}, test" if title in ("ECCE", "CalibrationSlope") else title
            if name not in self.only:
                continue
            sample = self.sample(self.sets // 4 if title in SLOW else self.sets, "tests")
            found = self.evaluated(sample, metric)
            if not found:
                yield name, Measured.refused(len(sample.labels))
                continue
            pvalue = found[f"x_{part}"]
            yield name, Measured.of(pvalue <= SIGNIFICANCE, ~np.isnan(pvalue))
            if title == "GradeTests, Jeffreys":
                # 0.05 where the level is that which is stated.
                stated = np.where(np.isnan(pvalue), 0.0, found["x_jeffreys_level"])
                excess = (pvalue <= SIGNIFICANCE) - stated + SIGNIFICANCE
                yield f"{title}: at the level that it states", Measured.of(excess, ~np.isnan(pvalue))

    def _difference(self) -> Iterator[tuple[str, Measured]]:
        """Brier scores of these scores and of others that are nearer to the rate."""
        sample = self.sample(self.replicated_sets, "difference")
        other, truth = self.other_scores()
        options: dict[str, Any] = {
            "task": "binary",
            "ci": LEVEL,
            "n_boot": self.n_boot,
            "sample_weight": sample.weights,
        }
        compared = cd.compare(sample.labels, sample.scores, other(sample.scores), {"x": cd.BrierScore()}, **options)
        low, high = (compared[f"x_difference_{end}"].values for end in ("low", "high"))
        yield "compare, difference of Brier scores", _held(low, high, np.asarray(truth))

    def other_scores(self) -> tuple[Callable[[Floats], Floats], float]:
        """Scores nearer to the rate, and by how much their Brier score is larger in the population."""
        population = self.case.population(self.model)
        rate = population.chances.mean()

        def other(scores: Floats) -> Floats:
            return 0.5 * scores + 0.5 * rate

        labels, scores, weights = population.rows
        of_other, own = (float((one - labels) ** 2 @ weights / weights.sum()) for one in (other(scores), scores))
        return other, of_other - own

    def _refined(self) -> Iterator[tuple[str, Measured]]:
        """What the map that is fitted to all rows takes away from the loss of the population."""
        name = "Refinement, calibration"
        sample, population = self.sample(self.replicated_sets, "refined"), self.case.population(self.model)
        found = self.evaluated(sample, cd.Refinement(), ci=LEVEL)
        if "x_calibration_low" not in found:
            yield name, Measured.refused(len(sample.labels))
            return
        low, high = found["x_calibration_low"], found["x_calibration_high"]
        truth = np.full(low.shape, np.nan)
        for number in np.flatnonzero(np.isfinite(low)):
            weights = None if sample.weights is None else sample.weights[number]
            fitted = cd.PlattScaling().fit(sample.labels[number], sample.scores[number], sample_weight=weights)
            calibrated = fitted.predict_proba(population.scores)[:, 1]
            truth[number] = log_loss(*population) - log_loss(calibrated, population.chances)
        yield name, _held(low, high, truth)

    def _noise_floors(self) -> Iterator[tuple[str, Measured]]:
        name = "NoiseFloor, errors of calibrated models above it"
        sample = self.sample(self.replicated_sets, "noise floors")
        floors = self.evaluated(sample, cd.NoiseFloor(resamples=199))
        if not floors:
            yield name, Measured.refused(len(sample.labels))
            return
        yield name, Measured.of(self.evaluated(sample, cd.ECE())["x"] > floors["x_high"] + _ROUNDING)

    def _decisions(self) -> Iterator[tuple[str, Measured]]:
        sample, population = self.sample(self.sets, "decisions"), self.case.population(self.model)
        confidence = np.maximum(population.scores, 1 - population.scores)
        wrong = np.where(population.scores > 0.5, 1 - population.chances, population.chances)
        above, covered, sizes = [], [], []
        for labels, scores in zip(sample.labels, sample.scores, strict=True):
            chosen = float(cd.threshold(labels, scores, _RISK, task="binary").threshold)
            out = confidence > chosen
            above.append(np.nan if np.isnan(chosen) else float(out.any() and wrong[out].mean() > _RISK + _ROUNDING))
        found = self.evaluated(sample, cd.ConformalThreshold(alpha=0.1), ci=LEVEL)
        for cut in found["x_threshold"]:
            with_one, with_zero = 1 - population.scores <= cut, population.scores <= cut
            covered.append((population.chances * with_one + (1 - population.chances) * with_zero).mean())
            sizes.append((with_one * 1.0 + with_zero).mean())
        yield "threshold, risk above the limit", Measured.of(np.nan_to_num(above), ~np.isnan(above))
        yield "ConformalThreshold, sets that hold the outcome", Measured.of(covered)
        for part, true in (("coverage", covered), ("size", sizes)):
            low, high = found[f"x_{part}_low"], found[f"x_{part}_high"]
            yield f"ConformalThreshold, {part}", _held(low, high, np.array(true))

    def _watched(self) -> Iterator[tuple[str, Measured]]:
        """Each data set is a period; and its rows are those of ten periods of a slice."""
        rng, sample = self.generator("watched"), self.sample(self.sets, "watched rows")
        sets, scores = np.repeat(np.arange(self.sets), self.rows), sample.scores.ravel()
        drawn = rng.random(scores.size)
        for tolerance, name in ((0.0, "watch, period_pvalue"), (_TOLERANCE, "watch, period_pvalue with a tolerance")):
            labels = (drawn < np.minimum(scores + tolerance, 1)).astype(np.int8)
            summary = cd.summarize(labels, scores, by={"day": sets}, settings=["binary"], step=0.01)
            pvalues = cd.watch(summary, tolerance=tolerance).period_pvalue.values
            yield name, Measured.of(pvalues <= SIGNIFICANCE, ~np.isnan(pvalues))
        if not self.replicated_sets:
            return
        few = sets < self.replicated_sets
        by = {"model": sets[few], "day": np.tile(np.arange(self.rows) % _PERIODS, self.replicated_sets)}
        summary = cd.summarize(sample.labels.ravel()[few], scores[few], by=by, settings=["binary"], step=0.01)
        yield "watch, any alarm in 10 periods", Measured.of(cd.watch(summary, by="model").alarm.values[:, -1])

    def _planned(self) -> Iterator[tuple[str, Measured]]:
        scores = self.case.population(self.model).scores[20::40]
        options: dict[str, Any] = {"scores": scores, "periods": 1, "streams": _STREAMS}
        name = "watch_power, caught within twice the supported tolerance"
        supported = float(cd.watch_power(self.rows, 0.03, **options).supported_tolerance)
        if np.isnan(supported):
            yield name, Measured.refused(_STREAMS)
            return
        caught = float(cd.watch_power(self.rows, 2 * supported, tolerance=supported, seed=1, **options).caught[0])
        # Both simulations have an error.
        yield name, Measured(_STREAMS, 1.0, caught, np.sqrt(2 * 0.9 * 0.1 / _STREAMS))

    def _audited(self) -> Iterator[tuple[str, Measured]]:
        if self.rows < 500:
            return
        rng, sample = self.generator("features"), self.sample(self.replicated_sets, "audited")
        found, discovered = [], []
        for number, (labels, scores) in enumerate(zip(sample.labels, sample.scores, strict=True)):
            features = {name: rng.integers(0, 3, self.rows) for name in ("a", "b", "c")}
            if labels.min() == labels.max():
                continue
            weights = None if sample.weights is None else sample.weights[number]
            result = cd.audit(labels, scores, features, sample_weight=weights)
            found.append(bool(result.found.any()))
            discovered.append(bool(result.discovery.any()))
        yield "audit, a segment found", Measured.of(found)
        yield "audit, a discovery", Measured.of(discovered)

    def _mended(self) -> Iterator[tuple[str, Measured]]:
        """One of six groups is off by 0.3: what the map takes away from the log loss of the population."""
        rng = self.generator("mended")

        def drawn(rows: int) -> tuple[dict[str, Any], Floats, Floats]:
            features = {"a": rng.integers(0, 3, rows), "c": rng.random(rows) < 0.4}
            scores = rng.beta(2, 4, rows)
            off = (features["a"] == 1) & features["c"]
            return features, scores, np.where(off, np.clip(scores + 0.3, 0.01, 0.99), scores)

        everybody, scores, chances = drawn(50_000)
        before, inside = log_loss(scores, chances), []
        for _ in range(self.replicated_sets):
            features, own, of_own = drawn(2 * self.rows)
            fitted = cd.MulticalibratedScaling().fit(rng.random(own.size) < of_own, own, features=features)
            gain = before - log_loss(fitted.predict_proba(scores, everybody)[:, 1], chances)
            low, high = float(fitted.improvement_low_), float(fitted.improvement_high_)
            inside.append(low - _ROUNDING <= gain <= high + _ROUNDING)
        yield "MulticalibratedScaling, improvement (95 %)", Measured.of(inside)


def _of_metric(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The variables and coordinates of one metric, with the name "x"."""
    own = {key: of for key, of in values.items() if key == name or key.startswith(f"{name}_")}
    return {f"x{key.removeprefix(name)}": of for key, of in own.items()}


def log_loss(scores: Floats, chances: Floats) -> float:
    """Of the population, scores clipped at 1e-12."""
    scores = np.clip(scores, 1e-12, 1 - 1e-12)
    return float(-(chances * np.log(scores) + (1 - chances) * np.log1p(-scores)).mean())


def _held(low: Floats, high: Floats, truth: Floats, whole: bool = False) -> Measured:
    """Of data sets along the first axis: the share of their intervals that hold, or whether all of them do."""
    given = np.isfinite(low) & np.isfinite(high) & np.isfinite(truth)
    holds = (low <= truth + _ROUNDING) & (truth - _ROUNDING <= high)
    axes = tuple(range(1, low.ndim))
    if whole:
        return Measured.of((holds | ~given).all(axes), given.any(axes))
    return Measured.of((holds | ~given).mean(axes), given.mean(axes))
