"""`watch`, `watch_power` and `attribute` from summaries."""

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.results.values import Results

DAYS = np.arange("2026-01-01", "2026-01-21", dtype="datetime64[D]").astype("datetime64[ns]")


def summary(
    days: Any = DAYS, *, shift: float = 0.0, classes: int = 0, countries: Any = ("a", "b", "c"), **more: Any
) -> Any:
    """20 days of 600 rows; from the 13th on outcomes of country b are more frequent."""
    rng = np.random.default_rng(0)
    day, country = np.repeat(DAYS, 600), rng.choice(["a", "b", "c"], 20 * 600)
    if classes:
        scores = rng.dirichlet(np.ones(classes), day.size)
        labels = (rng.random((day.size, 1)) > scores.cumsum(-1)).sum(-1).clip(max=classes - 1)
    else:
        scores = rng.random(day.size)
        drift = np.where((country == "b") & (day >= DAYS[12]), shift, 0.0)
        labels = (rng.random(day.size) < scores + drift).astype(int)
    kept = np.isin(day, days) & np.isin(country, countries)
    by = {"day": day[kept], "country": country[kept]}
    settings = ["confidence", "classwise"] if classes else ["binary"]
    return cd.summarize(labels[kept], scores[kept], by=by, settings=settings, **more)


def assert_same_bits(a: xr.Dataset, b: xr.Dataset) -> None:
    assert set(a.variables) == set(b.variables)
    for name in a.variables:
        xr.testing.assert_identical(a[name].variable, b[name].variable)


@pytest.fixture(scope="module")
def drifted() -> Any:
    return summary(shift=0.2)


def test_drift_is_found_where_and_since_when(drifted: xr.Dataset) -> None:
    result = cd.watch(drifted, by="country")
    assert result.log_e.dims == ("country", "day")
    assert result.alarm.isel(day=-1).values.tolist() == [False, True, False]
    assert result.found.isel(day=-1).values.tolist() == [False, True, False]
    assert not result.alarm.isel(day=slice(0, 12)).any()
    assert abs(result.since.sel(country="b")[-1].values - DAYS[12]) <= np.timedelta64(1, "D")
    np.testing.assert_allclose(result.pvalue, np.exp(-np.maximum.accumulate(result.log_e.values.clip(0), -1)))
    assert ((result.gap_low <= result.gap) & (result.gap <= result.gap_high)).all()
    assert ((result.error_low <= result.error) & (result.error <= result.error_high)).all()
    assert result.gap_low.sel(country="b")[-1] > 0
    daily = cd.evaluate(drifted, metrics=cd.MeanGap(), ci=0.95)
    for bound in ("", "_low", "_high"):
        expected = daily[f"mean_gap{bound}"].transpose("country", "day")
        np.testing.assert_allclose(result[f"period_gap{bound}"], expected, atol=1e-7)
    for name in ("rows", "events", "mean_score", "frequency"):
        np.testing.assert_allclose(result[name], daily[name].transpose("country", "day"))
    last = cd.evaluate(drifted.sum("day"), metrics=cd.MeanGap()).mean_gap
    np.testing.assert_allclose(result.gap.isel(day=-1), last, atol=1e-12)


def test_without_by_all_rows_are_one_stream(drifted: xr.Dataset) -> None:
    assert_same_bits(cd.watch(drifted), cd.watch(drifted.sum("country")))


@pytest.mark.parametrize("setting", ["confidence", "classwise", 2])
def test_settings(setting: Any) -> None:
    stored = summary(classes=3)
    result = cd.watch(stored, setting=setting, by=["country"])
    assert result.log_e.dims == (("country", "class", "day") if setting == "classwise" else ("country", "day"))
    assert not result.alarm.any()
    if setting == 2:
        classwise = cd.watch(stored, setting="classwise", by=["country"])
        assert (result.log_e == classwise.log_e.isel({"class": 2})).all()


@pytest.mark.parametrize("as_text", [True, False])
def test_day_by_day_is_all_at_once_to_the_last_bit(drifted: xr.Dataset, as_text: bool) -> None:
    whole = cd.watch(drifted, by="country", tolerance=0.01)
    state: Any = None
    for days in (slice(0, 10), slice(10, 11), slice(11, 20)):
        part = cd.watch(drifted.isel(day=days), by="country", tolerance=0.01, state=state)
        assert_same_bits(part, whole.isel(day=days))
        state = part.attrs["state"] if as_text else json.loads(part.attrs["state"])
    assert state == (whole.attrs["state"] if as_text else json.loads(whole.attrs["state"]))
    assert len(whole.attrs["state"]) < 20_000


def test_slices_come_and_go() -> None:
    """A country that is new, and one without rows from some day on."""
    early, late = summary(DAYS[:10], countries=["a", "c"]), summary(DAYS[10:], countries=["b", "c"])
    whole = cd.watch(cd.merge(early, late), by="country")
    first = cd.watch(early, by="country")
    second = cd.watch(late, by="country", state=first.attrs["state"])
    assert_same_bits(second.drop_vars("rows"), whole.isel(day=slice(10, 20)).drop_vars("rows"))
    gone = whole.sel(country="a")
    for name in ("log_e", "log_detector", "run_length", "gap", "gap_low", "since"):
        assert (gone[name].values[10:] == gone[name].values[9]).all(), name
    assert np.isnan(gone.period_gap[10:]).all()
    unseen = whole.sel(country="b")
    assert (unseen.log_e[:10] == 0).all()
    assert np.isnan(unseen.gap_low[:10]).all()
    assert (unseen.since.values[:10] == DAYS[:10]).all()


def test_models_are_watched_apart() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(4000)
    labels, day = (rng.random(4000) < scores).astype(int), np.repeat(np.arange(4), 1000)
    both = xr.DataArray([scores, scores**2], dims=["model", "sample"])
    stored = cd.summarize(labels, both, by={"day": day}, settings=["binary"], task="binary")
    result = cd.watch(stored)
    assert result.alarm.values[:, -1].tolist() == [False, True]
    assert result.found.values[:, -1].tolist() == [False, True]


def test_result_is_read_like_others(drifted: xr.Dataset, tmp_path: Any) -> None:
    result = cd.watch(drifted, by="country")
    kinds = {part.variable: part.kind for part in Results(result.isel(day=-1))}
    assert kinds["gap"] == "difference"
    assert kinds["pvalue"] == "pvalue"
    parts = {part.variable: part for part in Results(result.isel(day=-1, country=0))}
    assert parts["gap"].has_interval
    assert parts["error"].value().low is not None
    result.to_netcdf(tmp_path / "watched.nc")
    with xr.open_dataset(tmp_path / "watched.nc") as read:
        assert (
            cd.watch(
                summary(DAYS[:1]).assign_coords(day=DAYS[-1:] + np.timedelta64(1, "D")),
                by="country",
                state=read.attrs["state"],
            ).sizes["day"]
            == 1
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"period": "week"}, "period expects one of the slices"),
        ({"by": "day"}, "not in by"),
        ({"by": "city"}, "by expects slices of the summary"),
        ({"tolerance": -0.1}, "tolerance expects"),
        ({"alpha": 1.0}, "alpha expects"),
        ({"setting": "confidence"}, "confidence"),
        ({"state": "{"}, "JSON text"),
        ({"state": {}}, "state expects"),
        ({"state": {"format": 99}}, "formats up to 2, got 99"),
        ({"state": {"format": 1}}, "damaged"),
    ],
)
def test_misuse_is_told(drifted: xr.Dataset, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cd.watch(drifted, **change)


def test_states_of_other_choices_are_refused(drifted: xr.Dataset) -> None:
    state = cd.watch(drifted.isel(day=slice(0, 10)), by="country").attrs["state"]
    later = drifted.isel(day=slice(10, 20))
    for change, words in (
        ({"alpha": 0.01}, "made with alpha 0.05, and this watch has alpha 0.01"),
        ({"alpha": 0.01, "tolerance": 0.1}, "with tolerance 0.0, alpha 0.05, and this watch has tolerance 0.1, alpha"),
    ):
        with pytest.raises(ValueError, match=words):
            cd.watch(later, by="country", state=state, **change)
    with pytest.raises(ValueError, match="the same by"):
        cd.watch(later, state=state)
    damaged = json.loads(state)
    damaged["processes"]["largest"] = damaged["processes"]["largest"][:-1]
    with pytest.raises(ValueError, match="damaged"):
        cd.watch(later, by="country", state=damaged)


def test_weights_and_others_are_refused() -> None:
    weighted = cd.summarize([0, 1], [0.2, 0.7], by={"day": [0, 1]}, sample_weight=[1.0, 2.0], settings=["binary"])
    for function in (cd.watch, lambda given: cd.attribute(given, 0, 1)):
        with pytest.raises(ValueError, match="without weights"):
            function(weighted)
        with pytest.raises(TypeError, match="expects a summary"):
            function([1, 2])


def test_power_grows_with_traffic_and_shift() -> None:
    slow, fast = cd.watch_power(200, 0.05, streams=200), cd.watch_power(2000, 0.05, streams=200)
    assert fast.median_caught < slow.median_caught
    assert fast.supported_tolerance < slow.supported_tolerance
    assert (np.diff(slow.caught) >= 0).all()
    never = cd.watch_power(100_000, 0.005, tolerance=0.01, periods=20, streams=100)
    assert never.caught[-1] == 0
    assert np.isnan(never.median_caught)
    with pytest.raises(ValueError, match="shift expects"):
        cd.watch_power(100, 1.5)


@pytest.mark.parametrize(("scores", "sign"), [(None, 1), (None, -1), ([0.01], 1), ([0.002, 0.05], 1)])
def test_twice_the_supported_tolerance_is_caught_in_the_first_period(scores: Any, sign: int) -> None:
    plan = cd.watch_power(5000, sign * 0.03, streams=400, periods=1, scores=scores)
    supported = float(plan.supported_tolerance)
    shift = 2 * sign * supported
    watched = cd.watch_power(5000, shift, tolerance=supported, streams=1000, periods=1, scores=scores, seed=1)
    # At least 0.9 at a confidence of 97.5 %, within three standard errors of the second simulation.
    assert 0.88 < float(watched.caught[0]) < 0.98
    assert np.isnan(cd.watch_power(5, 0.03, streams=50, periods=1).supported_tolerance)


SHARES, GAPS = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]), np.array([[0.1, 0.0, -0.1], [0.1, 0.1, -0.1]])


def windows(pairs: int) -> Any:
    """Labels, scores, days and countries of pairs of days with other shares and other gaps."""
    rng = np.random.default_rng(1)
    day = np.repeat(np.arange(2 * pairs), 800)
    country = np.concatenate([rng.choice(3, 800, p=SHARES[number % 2]) for number in range(2 * pairs)])
    scores = rng.uniform(0.2, 0.8, day.size)
    return (rng.random(day.size) < scores + GAPS[day % 2, country]).astype(int), scores, day, country


def test_attribution_adds_up_and_is_that_of_the_definition() -> None:
    labels, scores, day, country = windows(1)
    country = np.where((day == 0) & (country == 1), 0, country)
    by = {"day": day, "country": country}
    result = cd.attribute(cd.summarize(labels, scores, by=by, settings=["binary"]), 0, [1], by="country")
    for number in range(3):
        at = [(day == window) & (country == number) for window in (0, 1)]
        w, w2 = (here.sum() / (day == window).sum() for window, here in enumerate(at))
        m, m2 = ((labels - scores)[here].mean() if here.any() else np.nan for here in at)
        m = m2 if np.isnan(m) else m
        here = result.isel(country=number)
        assert float(here.mix) == pytest.approx((w2 - w) * (m2 + m) / 2, abs=1e-10)
        assert float(here.within) == pytest.approx((m2 - m) * (w2 + w) / 2, abs=1e-10)
    assert (result.mix + result.within == result.total).all()
    change = (labels - scores)[day == 1].mean() - (labels - scores)[day == 0].mean()
    assert float(result.all_total) == pytest.approx(change, abs=1e-10)
    assert float(result.total.sum()) == pytest.approx(change, abs=1e-10)
    by_score = cd.attribute(cd.summarize(labels, scores, by=by, settings=["binary"]), 0, 1)
    assert float(by_score.all_total) == pytest.approx(change, abs=1e-10)
    assert int(by_score.rows_after.sum()) == 800


def test_intervals_of_attribution_cover() -> None:
    """Normal intervals at 95 %, over 60 pairs of windows; seeds are fixed."""
    labels, scores, day, country = windows(60)
    stored = cd.summarize(labels, scores, by={"day": day, "country": country}, settings=["binary"])
    truth = {
        "mix": (SHARES[1] - SHARES[0]) * (GAPS[1] + GAPS[0]) / 2,
        "within": (GAPS[1] - GAPS[0]) * (SHARES[1] + SHARES[0]) / 2,
        "total": SHARES[1] * GAPS[1] - SHARES[0] * GAPS[0],
    }
    truth |= {f"all_{name}": values.sum() for name, values in truth.items()}
    covered: dict[str, list[Any]] = {name: [] for name in truth}
    for first in range(0, 120, 2):
        result = cd.attribute(stored.isel(day=slice(first, first + 2)), first, first + 1, by="country")
        for name, values in truth.items():
            low, high = result[f"{name}_low"].values, result[f"{name}_high"].values
            covered[name].append((low <= values) & (values <= high))
    for name, hits in covered.items():
        assert (np.mean(hits, 0) > 0.85).all(), name
        assert np.mean(hits) <= 0.995, name


def test_windows_are_checked(drifted: xr.Dataset) -> None:
    result = cd.attribute(drifted, slice("2026-01-01", "2026-01-12"), slice("2026-01-13", None), by="country")
    assert result.within.values.argmax() == 1
    assert result.within_low[1] > 0
    with pytest.raises(ValueError, match="got some in both"):
        cd.attribute(drifted, DAYS[:5], DAYS[4:6])
    with pytest.raises(ValueError, match="after expects values of day"):
        cd.attribute(drifted, DAYS[:5], ["2027-01-01"])
    with pytest.raises(ValueError, match=r"^before expects .*FIRST\.\.LAST.*, got 2026-01-01:2026-01-08\.$"):
        cd.attribute(drifted, "2026-01-01:2026-01-08", DAYS[8:])


def test_texts_as_zarr_stores_them() -> None:
    """Numpy does not cast their type."""
    given = summary().assign_coords(day=np.datetime_as_string(DAYS, "D"))
    texts = {
        name: (name, np.array(given[name].values.tolist(), np.dtypes.StringDType())) for name in ("day", "country")
    }
    expected, result = cd.watch(given, by="country"), cd.watch(given.assign_coords(texts), by="country")
    np.testing.assert_array_equal(expected.log_e, result.log_e)
    assert result.since.values.tolist() == expected.since.values.tolist()
