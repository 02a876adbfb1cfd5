"""What groups are called: every group by a text of its own, and gaps in digits that say something."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import calibdask as cd
from calibdask.analyses.auditing.audit_document import audit_document
from calibdask.analyses.auditing.audit_texts import signed_points
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.lattice.coding import Cut

pytestmark = pytest.mark.usefixtures("without_recalibration")

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
    table = [" ".join(line.split()) for line in audit_document(rare).to_text().splitlines()]
    assert any(line.startswith("g = True 17,000 +0.043 to ") for line in table), table
    single = cd.audit(rows == 5, np.zeros(rows.size), {"g": rows % 2 == 0})
    assert single.attrs["conclusion"].endswith(": all rows (+0.0050 points).")
    # Two digits or more, and never nothing of what is off.
    assert [signed_points(gap) for gap in (-0.2, 0.0123, -0.00123, 2e-10)] == ["-20.0", "+1.2", "-0.12", "+2.0e-08"]


def test_few_whole_numbers_are_called_by_themselves() -> None:
    label, score, rng = rows()
    features = {"c": rng.integers(0, 2, N), "year": rng.choice([2023.0, 2024.0, np.nan], N), "x": rng.integers(0, 9, N)}
    result = cd.audit(label, score, features, depth=1).sortby("number")
    texts = result.segment.values.tolist()
    assert texts[:6] == ["all rows", "c = 0", "c = 1", "year = 2023", "year = 2024", "year missing"]
    assert texts[6] == "x <= 1"
    assert result.rows.values[1:3].tolist() == np.bincount(features["c"]).tolist()
    # Edges that are given are what groups are called by.
    edges = cd.audit(label, score, {"c": features["c"]}, depth=1, edges={"c": [0]}).sortby("number")
    assert edges.segment.values.tolist() == ["all rows", "c <= 0", "c > 0"]


def test_rows_with_other_numbers_than_cuts_know_are_told() -> None:
    label, score, rng = rows()
    first = cd.summarize(label, score, features={"c": rng.integers(0, 2, N)}, depth=1)
    again = cd.summarize(label, score, features={"c": rng.integers(0, 2, N)}, cuts=first)
    assert set(cd.audit(cd.merge(first, again)).segment.values.tolist()) == {"all rows", "c = 0", "c = 1"}
    for values in (rng.integers(0, 3, N), rng.choice([0, 0.5], N)):
        with pytest.warns(UserWarning, match="Feature c has numbers other than 0, 1, from which its cuts"):
            cd.summarize(label, score, features={"c": values}, cuts=first)


def test_years_to_come_belong_to_the_last() -> None:
    label, score, rng = rows()
    dates = np.datetime64("2024-01-01") + rng.integers(0, 700, N).astype("m8[D]")
    first = cd.summarize(label, score, features={"d": dates}, depth=1)
    cd.summarize(label, score, features={"d": dates + np.timedelta64(500, "D")}, cuts=first)
    assert {"d.year <= 2024", "d.year > 2024"} < set(cd.audit(first).segment.values.tolist())


@pytest.mark.parametrize("container", ["numpy", "pandas", "dask"])
def test_durations_have_their_unit(container: str) -> None:
    label, score, rng = rows()
    waits = pd.Series(pd.to_timedelta(rng.integers(0, 5400, N), unit="s"))
    if container == "dask":
        dd = pytest.importorskip("dask.dataframe")
        frame = dd.from_pandas(pd.DataFrame({"label": label, "score": score, "wait": waits}), npartitions=3)
        result = cd.audit(frame, depth=1, values=2)
    else:
        result = cd.audit(
            label, score, {"wait": waits.to_numpy() if container == "numpy" else waits}, depth=1, values=2
        )
    edge = int(np.sort(waits.dt.total_seconds())[N // 2 - 1])
    assert set(result.segment.values.tolist()) == {"all rows", f"wait <= {edge} s", f"wait > {edge} s"}
