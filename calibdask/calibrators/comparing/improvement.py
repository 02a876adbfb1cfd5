"""How much cross-fitted maps take away from a loss, with the error of that: from sums and products of losses."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy import special, stats

from calibdask.statistics import exact
from calibdask.statistics.cluster_sums import MOST_OF_A_CLUSTER
from calibdask.statistics.exact import Array
from calibdask.statistics.paired_losses import BRIER, LOG, PairedLossesState, pairs

Rule = Literal["log", "brier"]
# Of fewer rows of the rarer outcome differences vary in ways that these rows do not show.
FEWEST_OUTCOMES = 5


def check_rule(rule: object) -> None:
    """Raise ValueError unless this is a rule."""
    if rule not in get_args(Rule):
        raise ValueError(f"rule expects 'log' or 'brier', got {rule!r}.")


class Mean(NamedTuple):
    """A mean over rows with its standard error and the degrees of freedom of that, each (batch, groups)."""

    value: Array
    error: Array
    freedom: Array

    def ends(self, level: float) -> tuple[Array, Array]:
        """Ends of the interval of Student's t."""
        with np.errstate(invalid="ignore"):
            reach = self._quantile((1 + level) / 2) * self.error
        return self.value - reach, self.value + reach

    @property
    def pvalue(self) -> Array:
        """Two-sided p-value of a mean of 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.value == 0, 0.0, self.value / self.error)
            return np.asarray(2 * stats.t.sf(np.abs(t), self.freedom), np.float64)

    def _quantile(self, share: float) -> Array:
        return np.asarray(special.stdtrit(self.freedom, share), np.float64)


@dataclass(frozen=True)
class LossMeans:
    """Means of losses before and after each of several maps, and of differences between them.

    Notes
    -----
    The error of a mean over cross-fitted rows has two parts: that of the rows, given the maps; and that of the maps,
    which the folds share: what a row does to the maps of other folds, those rows do to its own. For smooth maps of p
    parameters the second adds p F / (F - 1) / n**2 in either part where the true map is the identity. It is
    estimated by the mean square of e, the difference between the losses under the maps of two folds, which is 2 / (F -
    1) of it::

        error**2 = sum (d - mean)**2 / (n (n - 1)) + (F - 1) / 2 * sum e**2 / n**2

    It is NaN where one cluster has more than a quarter of the weight.
    """

    state: PairedLossesState
    folds: int

    def before(self, rule: Rule) -> Mean:
        """The loss of the scores as they are."""
        return self._mean(rule, {1: 1.0}, {})

    def after(self, rule: Rule, model: int) -> Mean:
        """The loss of scores calibrated by a map."""
        return self._mean(rule, {1: 1.0, 2 + model: -1.0}, {model: 1.0})

    def improvement(self, rule: Rule, model: int) -> Mean:
        """Mean loss removed by the map."""
        return self._mean(rule, {2 + model: 1.0}, {model: 1.0})

    def advantage(self, rule: Rule, model: int, other: int) -> Mean:
        """Mean loss that one map removes beyond another."""
        if model == other:
            nothing = np.zeros(self._rows.shape)
            return Mean(nothing, nothing, self._rows - 1.0)
        return self._mean(rule, {2 + model: 1.0, 2 + other: -1.0}, {model: 1.0, other: -1.0})

    def correlations(self, rule: Rule, models: int) -> Array:
        """Correlations of the improvements of all maps, (models, models); of one slice."""
        error = np.array([self.improvement(rule, model).error[0, 0] for model in range(models)])
        result = np.eye(models)
        for one, other in combinations(range(models), 2):
            total = self._mean(rule, {2 + one: 1.0, 2 + other: 1.0}, {one: 1.0, other: 1.0}).error[0, 0]
            apart = self.advantage(rule, one, other).error[0, 0]
            result[one, other] = result[other, one] = (total**2 - apart**2) / (4 * error[one] * error[other])
        return result

    @property
    def _rows(self) -> Array:
        return np.asarray(self.state.rows.sum(-1), np.float64)

    def _mean(self, rule: Rule, terms: Mapping[int, float], noise: Mapping[int, float]) -> Mean:
        """The mean of a combination of terms, and its error."""
        which = LOG if rule == "log" else BRIER
        sums, products = exact.value(self.state.sums)[which], exact.value(self.state.products)[which]
        linear = _combined(sums, terms)
        weight = sums[0].sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = linear.sum(-1) / weight
            centred = {**terms, 0: -mean}
            shared = (self.folds - 1) / 2
            if self.state.rows.shape[-1] > 1:
                # Rows of one cluster vary together.
                count = (self.state.rows > 0).sum(-1)
                residual = _combined(sums, {number: _wide(factor) for number, factor in centred.items()})
                of_rows = (residual**2).sum(-1) * count / (count - 1.0)
                of_rows = np.where(sums[0].max(-1) > MOST_OF_A_CLUSTER * weight, np.nan, of_rows)
                of_maps = (_combined(exact.value(self.state.noise)[which], noise) ** 2).sum(-1)
                freedom = count - 1.0
            else:
                effective = weight**2 / products[0]
                of_rows = _squared(products, centred, len(sums)) * effective / (effective - 1)
                of_noise = exact.value(self.state.noise_products)[which]
                of_maps = _squared(of_noise, noise, self.state.noise.shape[1])
                freedom = effective - 1
            error = np.sqrt(np.maximum(of_rows, 0) + shared * of_maps) / weight
        return Mean(mean, error, np.where(freedom > 0, freedom, np.nan))


def _wide(factor: Array | float) -> Array | float:
    return factor[..., None] if isinstance(factor, np.ndarray) else factor


def _combined(sums: Array, factors: Mapping[int, Array | float]) -> Array:
    """The linear combination of the first axis."""
    return np.asarray(sum((factor * sums[number] for number, factor in factors.items()), np.zeros(sums.shape[1:])))


def _squared(products: Array, factors: Mapping[int, Array | float], terms: int) -> Array:
    """The sum of squares of a linear combination of terms, from the sums of their products."""
    total = np.zeros(products.shape[1:])
    for number, (first, second) in enumerate(pairs(terms)):
        if first in factors and second in factors:
            twice = 1.0 if first == second else 2.0
            total = total + twice * factors[first] * factors[second] * products[number]
    return total
