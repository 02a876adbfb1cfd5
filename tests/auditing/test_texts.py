"""What groups are called: every group by a text of its own, and gaps in digits that say something."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import calibdask as cd
from calibdask.results.audited import audit_lines, signed_points
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.lattice.coding import Cut

N = 4000


def rows() -> tuple[NDArray[np.bool_], NDArray[np.float64], np.random.Generator]:
    rng = np.random.default_rng(0)
    score = rng.beta(2, 4, N)
    return rng.random(N) < score, score, rng


def cut(*edges: float) -> Cut:
    return Cut("x", 0, FrozenArray(np.array(edges)), missing=True)


@pytest.mark.parametrize(
    ("start", "width"), [(1_700_000_000, 1000), (20_240_101, 300), (1_700_000_000_000_000_000, 1e12), (1e6, 1.0)]
)
def test_groups_of_close_numbers_have_texts_of_their_own(start: float, width: float) -> None:
    label, score, rng = rows()
    values = start + rng.random(N) * width
    result = cd.audit(label, score, {"ts": values}, values=8)
    texts = result.segment.values.tolist()
    assert len(texts) == len(set(texts)) == 9
    assert all(result.sel(segment=text).gap.ndim == 0 for text in texts)


def test_edges_have_as_few_digits_as_tell_them_apart() -> None:
    # Six wherever they suffice, and the same for all edges of a feature.
    assert cut(1 / 3, 1e7 / 3).texts == ("x <= 0.333333", "0.333333 < x <= 3.33333e+06", "x > 3.33333e+06", "x missing")
    assert cut(1 / 3, 0.33333341).texts[1] == "0.3333333 < x <= 0.3333334"
    closest = cut(0.1, np.nextafter(0.1, 1)).texts
    assert [float(text.split()[-1]) for text in (closest[0], closest[2])] == [0.1, np.nextafter(0.1, 1)]


def test_parts_of_dates_and_columns_of_the_same_name_are_refused() -> None:
    label, score, rng = rows()
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 1000, N), unit="D")
    features = {"d": dates, "d.year": rng.integers(0, 5, N)}
    for measure in (cd.audit, cd.summarize):
        with pytest.raises(ValueError, match=r"got two that are called d\.year: .*rename one"):
            measure(label, score, features=features)


def test_gaps_of_rare_outcomes_have_digits() -> None:
    rows = np.arange(20_000)
    # 17 events where 2.6 were expected; and one of scores of 0.
    group = rows < 17_000
    rare = cd.audit((rows % 1000 == 0) & group, np.full(rows.size, 0.00015), {"g": group})
    assert rare.attrs["conclusion"].endswith(": g = True (+0.085 points).")
    table = [" ".join("".join(text for text, _ in line).split()) for line in audit_lines(rare, "-", 20)]
    assert any(line.startswith("g = True 17,000 0.00015 0.00100 0.00085 0.00047 ") for line in table)
    single = cd.audit(rows == 5, np.zeros(rows.size), {"g": rows % 2 == 0})
    assert single.attrs["conclusion"].endswith(": all rows (+0.0050 points).")
    # Two digits or more, and never nothing of what is off.
    assert [signed_points(gap) for gap in (-0.2, 0.0123, -0.00123, 2e-10)] == ["-20.0", "+1.2", "-0.12", "+2.0e-08"]
