"""What is said of values that are pooled as other."""

import json

import numpy as np

import calibdask as cd


def test_notes_tell_how_much_is_pooled_and_what_tells_it_apart() -> None:
    rng = np.random.default_rng(0)
    n = 6_000
    p = rng.random(n)
    y = rng.random(n) < p
    zips = np.array([f"z{number}" for number in np.arange(n) % 50], object)
    # Half of the rows have one value, the others one of fifty that are rarer than a group may be.
    rare = np.where(np.arange(n) < n / 2, "usual", zips)
    few = np.where(np.arange(n) % 20 == 0, zips, "usual")
    result = cd.audit(y, p, {"zip": zips, "rare": rare, "few": few}, depth=1, values=5)
    assert json.loads(result.attrs["notes"]) == [
        "zip: 46 of 50 values, 92 % of the rows, are pooled as other; more values of a feature (values) tell more of "
        "them apart",
        "rare: 50 of 51 values, 50 % of the rows, are pooled as other; fewer rows a subgroup (min_rows) tell more of "
        "them apart",
    ]
    summary = cd.summarize(y, p, features={"zip": zips}, depth=1, values=5)
    assert "zip: 46 of 50 values" in cd.audit(summary).attrs["notes"]
    assert cd.audit(y, p, {"few": few}, depth=1).attrs["notes"] == "[]"


def test_as_many_categories_as_suit_the_number_of_columns() -> None:
    """Rare countries have names where columns are few; with many columns of them, fewer have."""
    rng = np.random.default_rng(3)
    scores = rng.random(20_000)
    outcomes = rng.random(20_000) < scores
    country = np.array([f"c{number:02}" for number in rng.integers(0, 12, 20_000)])
    few = cd.audit(outcomes, scores, {"country": country}, depth=1)
    assert few.sizes["segment"] == 1 + 12
    assert few.attrs["values"] == 50
    many = cd.audit(outcomes[:2000], scores[:2000], {f"f{number}": country[:2000] for number in range(45)}, depth=2)
    # 45 columns of v values and missing ones have 1 + 45 (v + 1) + 990 (v + 1)**2 segments.
    assert many.attrs["values"] == 9
    assert json.loads(many.attrs["notes"])[0].startswith("f0: 4 of 12 values")
    chosen = cd.audit(outcomes, scores, {"country": country}, depth=1, values=5)
    assert chosen.sizes["segment"] == 1 + 5
