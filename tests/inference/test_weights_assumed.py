"""Numbers that take weights as independent of the outcome, with a caution that says so."""

import numpy as np
import pytest

import calibdask as cd
from calibdask.render.table import ResultTable

ASSUMING = {
    "test": cd.ConsistencyTest(resamples=9),
    "floor": cd.NoiseFloor(resamples=9),
    "belt": cd.CalibrationBelt(points=2),
}


@pytest.mark.parametrize("name", [*ASSUMING])
def test_numbers_that_take_weights_as_independent_of_the_outcome_say_so(name: str) -> None:
    rng = np.random.default_rng(3)
    scores = rng.random(200)
    labels = (rng.random(200) < scores).astype(int)
    metrics = {name: ASSUMING[name]}
    weights = rng.uniform(1, 3, 200)
    weighted, plain = (cd.evaluate(labels, scores, metrics, sample_weight=of, task="binary") for of in (weights, None))
    numbers = [of for of in weighted.data_vars.values() if "assumes" in of.attrs]
    assert numbers
    for number in numbers:
        assert "weights do not depend on the outcome" in number.attrs["assumes"]
        assert "weights are assumed not to depend" in number.attrs["weights_assumed"]
    assert not any("weights_assumed" in of.attrs for of in plain.data_vars.values())
    assert "weights are assumed not to depend" in str(ResultTable(weighted))
    assert "weights are assumed" not in str(ResultTable(plain))
