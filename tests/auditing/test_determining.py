"""Features that are the label are named by audits and by maps, also where outcomes are few; honest ones are not."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd

WARNED = "Feature leak determines the outcome: is it the label"


def rare(events: int, n: int = 30_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcomes of so many events, scores that are right, and a feature that tells nothing."""
    rng = np.random.default_rng(0)
    y = np.zeros(n, int)
    y[rng.choice(n, events, replace=False)] = 1
    return y, np.full(n, events / n), rng.random(n)


def without(values: np.ndarray, share: float) -> Any:
    """The values, a share of which is missing."""
    missing = np.random.default_rng(1).random(len(values)) < share
    return np.where(missing, np.nan if values.dtype.kind in "if" else None, values)


Y, P, X = rare(70)
OFTEN = (np.random.default_rng(2).random(len(Y)) < 0.3).astype(int)
TEXTS = np.array(["no", "yes"], object)
LEAKS: dict[str, tuple[np.ndarray, Any]] = {
    "rare numbers": (Y, Y),
    "rare texts": (Y, TEXTS[Y]),
    "rare, the other way": (1 - Y, Y),
    "numbers with missing ones": (OFTEN, without(OFTEN.astype(float), 0.1)),
    "texts with missing ones": (OFTEN, without(TEXTS[OFTEN], 0.1)),
    "rare with missing ones": (Y, without(Y.astype(float), 0.1)),
    "a reason of events alone": (OFTEN, np.where(OFTEN == 1, "reason", None)),
    "an amount of events alone": (Y, np.where(Y == 1, X, np.nan)),
}


@pytest.mark.parametrize("name", LEAKS)
def test_the_label_is_named_however_rare_events_are(name: str) -> None:
    y, leak = LEAKS[name]
    p = np.full(len(y), y.mean())
    with pytest.warns(UserWarning, match=WARNED):
        cd.audit(y, p, {"leak": leak, "x": X}, depth=1)


def test_maps_name_the_label_as_audits_do() -> None:
    with pytest.warns(UserWarning, match=WARNED) as warned:
        cd.MulticalibratedScaling(folds=2, rounds=1).fit(Y, P, features={"leak": Y, "x": X})
    assert [str(one.message).split()[1] for one in warned] == ["leak"]
    assert warned[0].filename == __file__


def test_summaries_name_the_label() -> None:
    summary = cd.summarize(Y, P, features={"leak": Y, "x": X}, depth=1)
    with pytest.warns(UserWarning, match=WARNED):
        cd.audit(summary)


def test_honest_rare_outcomes_name_nothing() -> None:
    """Warnings are errors here: groups without events, and one of events alone, are such by chance."""
    rng = np.random.default_rng(3)
    for events in (5, 12, 70):
        y, p, x = rare(events, 6_000)
        small = np.where(np.arange(6_000) < 40, "small", "large").astype(object)
        alone = np.full(6_000, "rest", object)
        alone[np.flatnonzero(y)[:3]] = "events"
        features = {"small": small, "x": x, "alone": alone, "some": rng.integers(0, 5, 6_000)}
        cd.audit(y, p, features, depth=1, min_rows=10)
        cd.MulticalibratedScaling(folds=2, rounds=1, min_rows=10).fit(y, p, features=features)


def test_values_that_hold_most_but_not_nearly_all_events_do_not_determine() -> None:
    most = OFTEN.copy()
    # Every twentieth event is told by nothing, as of a strong predictor.
    most[np.flatnonzero(OFTEN)[::20]] = 2
    most[np.flatnonzero(OFTEN == 0)[::20]] = 2
    cd.audit(OFTEN, np.full(len(OFTEN), OFTEN.mean()), {"strong": most}, depth=1)


@pytest.mark.parametrize("name", ["numbers", "texts", "missing"])
def test_labels_of_ten_classes_are_named_in_the_setting_of_one(name: str) -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(10), 4_000)
    y = (p.cumsum(1) < rng.random(4_000)[:, None]).sum(1).clip(0, 9)
    texts = np.array([f"class {label}" for label in y], object)
    leak = {"numbers": y, "texts": texts, "missing": without(y.astype(float), 0.1)}[name]
    with pytest.warns(UserWarning, match=WARNED):
        cd.audit(y, p, {"leak": leak, "x": rng.random(4_000)}, depth=1, setting=3)
    # What goes along with the class, and is not it, or is the same in nearly all rows, is not named.
    near, same = np.where(rng.random(4_000) < 0.8, y, rng.integers(0, 10, 4_000)), np.arange(4_000) < 20
    cd.audit(y, p, {"near": near, "same": same}, depth=1, setting=3)
