"""How often promises are kept in data sets of one case: shares with their standard errors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import calibdask as cd
from experiments.calibration.cases import CALIBRATED, OFF, Case, Floats, Sample
from experiments.calibration.coverage import kernel_error
from experiments.calibration.declared import GATES, INTERVALS, LEVEL, SIGNIFICANCE, SLOW, TESTS

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
    """

    case: Case
    model: str
    rows: int
    sets: int
    replicated_sets: int
    n_boot: int
    generator: Callable[[str], np.random.Generator]

    def all(self) -> Iterator[tuple[str, Measured]]:
        """Every promise that is measured in this case."""
        yield from self._intervals()
        if self.model == CALIBRATED:
            yield from self._tests()
        if self.replicated_sets:
            yield from self._difference()
            if self.model == OFF:
                yield from self._gates()
        if not self.case.weighted:
            yield from self._decisions()
            if self.model == CALIBRATED:
                yield from self._watched()
                yield from self._planned()
                if self.replicated_sets:
                    yield from self._audited()
        if self.replicated_sets and self.case.label.startswith("Balanced") and self.model == OFF and self.rows >= 500:
            yield from self._mended()

    def _sample(self, sets: int, name: str) -> Sample:
        return self.case.sample(self.model, sets, self.rows, self.generator(name))

    def _evaluated(self, sample: Sample, metric: Any, **options: Any) -> dict[str, Any]:
        """Variables by name, data sets along the first axis; none where the metric refuses such data."""
        found: dict[str, list[Any]] = {}
        for start in range(0, len(sample.labels), _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            weights = None if sample.weights is None else sample.weights[here]
            given = sample.labels[here], sample.scores[here], {"x": metric}
            try:
                result = cd.evaluate(*given, task="binary", sample_weight=weights, seed=start, **options)
            except ValueError:
                return {}
            for name in result:
                found.setdefault(str(name), []).append(result[name].values)
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def _truth(self, metric: Any) -> Any:
        """The result of the whole population, in which rows stand for their probabilities."""
        labels, scores, weights = self.case.population(self.model).rows
        return cd.evaluate(labels, scores, {"x": metric}, task="binary", sample_weight=weights)

    def _intervals(self) -> Iterator[tuple[str, Measured]]:
        samples = {
            of: self._sample(self.replicated_sets if of else self.sets, f"intervals {of}") for of in (True, False)
        }
        for of in INTERVALS.values():
            if self.rows > of.rows or (of.replicates and not self.replicated_sets):
                continue
            sample = samples[of.replicates]
            found = self._evaluated(sample, of.metric, ci=LEVEL, n_boot=self.n_boot)
            for part, title in of.parts.items():
                name = f"x_{part}" if part else "x"
                if f"{name}_low" not in found:
                    yield title, Measured.refused(len(sample.labels))
                    continue
                low, high = found[f"{name}_low"], found[f"{name}_high"]
                yield title, _held(low, high, self._true_values(of.metric, name), whole=part.endswith("_band"))

    def _true_values(self, metric: Any, name: str) -> Floats:
        scores, chances = self.case.population(self.model)
        if isinstance(metric, cd.SKCE):
            return np.asarray(kernel_error(scores, chances))
        truth = self._truth(metric)
        if name == "x_reliability_band":
            return np.interp(truth["x_score"].values, scores, chances)
        return np.asarray(truth[name].values, np.float64)

    def _tests(self) -> Iterator[tuple[str, Measured]]:
        for title, (metric, part, most) in TESTS.items():
            if self.rows > most or (title in SLOW and not self.replicated_sets):
                continue
            sample = self._sample(self.sets // 4 if title in SLOW else self.sets, "tests")
            found = self._evaluated(sample, metric)
            name = f"{title}, test" if title in ("ECCE", "CalibrationSlope") else title
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

    def _gates(self) -> Iterator[tuple[str, Measured]]:
        """Limits that are the true values: met and broken may each be decided in 2.5 % of data sets."""
        limits: dict[str, Any] = {}
        for text, rule in GATES.items():
            value = self._truth_of_text(text)
            limits[text] = {"size": abs(value), "most": f"..{value!r}", "least": f"{value!r}.."}[rule]
        sample = self._sample(self.replicated_sets, "gates")
        outcomes: dict[str, list[str]] = {text: [] for text in limits}
        for number in range(len(sample.labels)):
            for text, limit in limits.items():
                outcomes[text] += self._decided(sample, number, {text: limit})
        for text, decided in outcomes.items():
            for outcome in ("met", "broken"):
                name = f"{text}: {outcome}"
                happened = [one == outcome for one in decided]
                yield name, Measured.of(happened) if decided else Measured.refused(len(sample.labels))

    def _decided(self, sample: Sample, number: int, limits: dict[str, Any]) -> list[str]:
        """The outcome of limits for one data set; none where the limit is refused."""
        weights = None if sample.weights is None else sample.weights[number]
        options: dict[str, Any] = {"sample_weight": weights, "n_boot": self.n_boot, "seed": number}
        try:
            gate = cd.check(sample.labels[number], sample.scores[number], limits, task="binary", **options)
        except ValueError:
            return []
        return [judgement.outcome for judgement in gate.judgements]

    def _difference(self) -> Iterator[tuple[str, Measured]]:
        """Brier scores of these scores and of others that are nearer to the rate."""
        sample = self._sample(self.replicated_sets, "difference")
        population = self.case.population(self.model)
        rate = population.chances.mean()

        def other(scores: Floats) -> Floats:
            return 0.5 * scores + 0.5 * rate

        options: dict[str, Any] = {
            "task": "binary",
            "ci": LEVEL,
            "n_boot": self.n_boot,
            "sample_weight": sample.weights,
        }
        compared = cd.compare(sample.labels, sample.scores, other(sample.scores), {"x": cd.BrierScore()}, **options)
        labels, scores, weights = population.rows
        losses = ((one - labels) ** 2 @ weights / weights.sum() for one in (other(scores), scores))
        truth = next(losses) - next(losses)
        low, high = (compared[f"x_difference_{end}"].values for end in ("low", "high"))
        yield "compare, difference of Brier scores", _held(low, high, np.asarray(truth))

    def _decisions(self) -> Iterator[tuple[str, Measured]]:
        sample, population = self._sample(self.sets, "decisions"), self.case.population(self.model)
        confidence = np.maximum(population.scores, 1 - population.scores)
        wrong = np.where(population.scores > 0.5, 1 - population.chances, population.chances)
        above, covered = [], []
        for labels, scores in zip(sample.labels, sample.scores, strict=True):
            chosen = float(cd.threshold(labels, scores, _RISK, task="binary").threshold)
            out = confidence > chosen
            above.append(np.nan if np.isnan(chosen) else float(out.any() and wrong[out].mean() > _RISK + _ROUNDING))
        found = self._evaluated(sample, cd.ConformalThreshold(alpha=0.1))
        for cut in found["x_threshold"]:
            holds = population.chances * (1 - population.scores <= cut) + (1 - population.chances) * (
                population.scores <= cut
            )
            covered.append(holds.mean())
        yield "threshold, risk above the limit", Measured.of(np.nan_to_num(above), ~np.isnan(above))
        yield "ConformalThreshold, sets that hold the outcome", Measured.of(covered)

    def _watched(self) -> Iterator[tuple[str, Measured]]:
        """Each data set is a period; and its rows are those of ten periods of a slice."""
        rng, sample = self.generator("watched"), self._sample(self.sets, "watched rows")
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
        rng, sample = self.generator("features"), self._sample(self.replicated_sets, "audited")
        found, discovered = [], []
        for labels, scores in zip(sample.labels, sample.scores, strict=True):
            features = {name: rng.integers(0, 3, self.rows) for name in ("a", "b", "c")}
            if labels.min() == labels.max():
                continue
            result = cd.audit(labels, scores, features)
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
        before, inside = _log_loss(scores, chances), []
        for _ in range(self.replicated_sets):
            features, own, of_own = drawn(2 * self.rows)
            fitted = cd.MulticalibratedScaling().fit(rng.random(own.size) < of_own, own, features=features)
            gain = before - _log_loss(fitted.predict_proba(scores, everybody)[:, 1], chances)
            low, high = float(fitted.improvement_low_), float(fitted.improvement_high_)
            inside.append(low - _ROUNDING <= gain <= high + _ROUNDING)
        yield "MulticalibratedScaling, improvement (95 %)", Measured.of(inside)

    def _truth_of_text(self, text: str) -> float:
        """The number of a limit for the whole population."""
        metric, _, part = text.partition(".")
        found = self._truth(metric)
        return float(np.ravel(found[f"x_{part}" if part else "x"].values)[0])


def _log_loss(scores: Floats, chances: Floats) -> float:
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
