"""p-values of numbers of outcomes: exact for equal probabilities, at their level for different ones."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import calibdask as cd
from calibdask.inference.outcome_counts import tails

Floats = npt.NDArray[np.float64]


def distribution(chances: Floats) -> Floats:
    """P(k outcomes) for each k."""
    masses = np.ones(1)
    for chance in chances:
        masses = np.convolve(masses, [1 - chance, chance])
    return masses


def all_tails(chances: Floats) -> tuple[Floats, Floats]:
    """Both tails for every number of outcomes."""
    count = np.arange(chances.size + 1.0)
    moments = (np.full(count.size, of) for of in (chances.size, chances.sum(), (chances * (1 - chances)).sum()))
    return tails(count, *moments)


@given(st.integers(1, 60), st.floats(0.001, 0.999))
def test_tails_of_equal_chances_are_binomial(rows: int, chance: float) -> None:
    more, fewer = all_tails(np.full(rows, chance))
    count = np.arange(rows + 1)
    np.testing.assert_allclose(more, stats.binom.sf(count - 1, rows, chance), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fewer, stats.binom.cdf(count, rows, chance), rtol=1e-6, atol=1e-9)


@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0, 1)), min_size=1, max_size=4), st.sampled_from([0.05, 0.01]))
def test_tails_of_different_chances_reject_at_their_level(groups: list[tuple[int, float]], level: float) -> None:
    chances = np.concatenate([np.full(rows, chance) for rows, chance in groups])
    masses = distribution(chances)
    for tail in all_tails(chances):
        assert masses[tail <= level].sum() <= 1.05 * level


def test_outcomes_that_certain_scores_exclude() -> None:
    more, fewer = all_tails(np.zeros(3))
    assert more.tolist() == [1, 0, 0, 0]
    assert fewer.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("events", [0, 2, 9, 40])
def test_the_pvalue_of_a_period_is_at_the_edge_of_the_tolerance(events: int) -> None:
    labels = np.arange(200) < events
    summary = cd.summarize(labels, np.full(200, 0.03), by={"day": np.zeros(200, np.int64)}, settings=["binary"])
    pvalue = cd.watch(summary, tolerance=0.01).period_pvalue.item()
    more, fewer = stats.binom.sf(events - 1, 200, 0.04), stats.binom.cdf(events, 200, 0.02)
    assert pvalue == pytest.approx(min(1, 2 * more, 2 * fewer), rel=1e-5)
