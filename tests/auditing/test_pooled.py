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
    result = cd.audit(y, p, {"zip": zips, "rare": rare, "few": few}, depth=1)
    assert json.loads(result.attrs["notes"]) == [
        "zip: 46 of 50 values, 92 % of the rows, are pooled as other; more values of a feature (values) tell more of "
        "them apart",
        "rare: 50 of 51 values, 50 % of the rows, are pooled as other; fewer rows a group (min_rows) tell more of them "
        "apart",
    ]
    summary = cd.summarize(y, p, features={"zip": zips}, depth=1)
    assert "zip: 46 of 50 values" in cd.audit(summary).attrs["notes"]
    assert cd.audit(y, p, {"few": few}, depth=1).attrs["notes"] == "[]"
