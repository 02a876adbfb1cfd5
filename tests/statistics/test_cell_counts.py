"""Counts of cells in replicates: their laws, against scipy, and that each replicate is by itself."""

import numpy as np
import pytest
import scipy.stats

from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.replicates.histograms import BinomialCounts, MultinomialCounts, PoissonCounts

KEY = philox_key(3, 0, 1)
CELLS = np.arange(400)
REPLICATES = range(500)


def assert_of_law(counts: np.ndarray, law: scipy.stats.rv_discrete) -> None:
    """Counts moved to uniform numbers by their distribution function, within cells at random, are uniform."""
    at_random = np.random.default_rng(0).random(counts.shape)
    uniform = (law.cdf(counts - 1) + at_random * law.pmf(counts)).ravel()
    assert scipy.stats.chisquare(np.histogram(uniform, 100, (0, 1))[0]).pvalue > 1e-3
    tail = 1e-3 * uniform.size
    for beyond in (uniform < 1e-3, uniform > 1 - 1e-3):
        assert abs(beyond.sum() - tail) < 4 * np.sqrt(tail)


@pytest.mark.parametrize("mean", [1e-3, 0.4, 9.99, 10.0, 137.0, 5e4, 3e8])
def test_poisson_counts_have_their_law(mean: float) -> None:
    """By inversion below a mean of 10, by rejection from there on."""
    counts = PoissonCounts(np.full(CELLS.size, mean), CELLS, KEY).draw(REPLICATES)
    assert_of_law(counts, scipy.stats.poisson(mean))


@pytest.mark.parametrize(
    ("rows", "chance"),
    [(1, 0.3), (7, 0.5), (40, 0.9), (277, 0.03), (277, 0.5), (3000, 0.8), (10**6, 1e-6), (10**9, 0.4)],
)
def test_binomial_counts_have_their_law(rows: int, chance: float) -> None:
    """Of few and of many rows, of rare and of frequent outcomes."""
    laws = BinomialCounts(np.full(CELLS.size, rows), np.full(CELLS.size, chance), CELLS, KEY)
    assert_of_law(laws.draw(REPLICATES), scipy.stats.binom(rows, chance))


def test_certain_outcomes_are_certain() -> None:
    """Chances of 0 and 1, and no cells at all."""
    counts = BinomialCounts(np.array([5, 5]), np.array([0.0, 1.0]), np.arange(2), KEY).draw(range(9))
    np.testing.assert_array_equal(counts, [[0, 5]] * 9)
    assert MultinomialCounts(0, np.empty(0), np.empty(0, np.int64), KEY).draw(range(3)).shape == (3, 0)


@pytest.mark.parametrize("rows", [20, 1000, 10**5, 10**10])
def test_rows_distributed_over_cells_have_the_multinomial_law(rows: int) -> None:
    """As many rows as there are, each cell binomial, each sum of cells too."""
    shares = np.random.default_rng(1).dirichlet(np.full(20, 2.0))
    counts = MultinomialCounts(rows, shares, np.arange(20), KEY).draw(range(20_000))
    assert (counts >= 0).all()
    np.testing.assert_array_equal(counts.sum(-1), rows)
    assert_of_law(counts[:, 7], scipy.stats.binom(rows, shares[7]))
    assert_of_law(counts[:, :10].sum(-1), scipy.stats.binom(rows, shares[:10].sum()))


def test_a_replicate_is_the_same_whichever_others_are_drawn() -> None:
    """And a cell whichever cells there are, where its count does not depend on theirs."""
    means = np.linspace(0.1, 300, CELLS.size)
    poisson = PoissonCounts(means, CELLS, KEY)
    np.testing.assert_array_equal(poisson.draw(range(40))[17:30], poisson.draw(range(17, 30)))
    np.testing.assert_array_equal(
        poisson.draw(range(9))[:, 100:], PoissonCounts(means[100:], CELLS[100:], KEY).draw(range(9))
    )
    rows = MultinomialCounts(100_000, means / means.sum(), CELLS, KEY)
    np.testing.assert_array_equal(rows.draw(range(200))[90:], rows.draw(range(90, 200)))


def test_replicates_cells_and_keys_have_numbers_of_their_own() -> None:
    """Counts are not correlated."""
    laws = [PoissonCounts(np.full(CELLS.size, 50.0), CELLS, key) for key in (KEY, philox_key(3, 1, 1))]
    one, other = (law.draw(REPLICATES) for law in laws)
    for a, b in ((one[1:], one[:-1]), (one[:, 1:], one[:, :-1]), (one, other)):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / np.sqrt(a.size)
