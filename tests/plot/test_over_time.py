"""Pictures of calibration over time: what is drawn, and that words stay in the picture and apart."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import calibdask as cd
from calibdask.plot.changes import change_list, change_picture, change_text
from calibdask.plot.over_time import Pending, evidence_picture, gap_picture, small_picture, small_range, style
from calibdask.plot.svg import nice_ticks
from calibdask.results.over_time import Mark, OverTime, headline, others_text, ranked, sentence
from tests.monitoring.drifted import DAYS, FROM, drifted_rows, drifted_summary

SIGN = 6.0


def processes(*by: str, days: Any = slice(None), **options: Any) -> list[OverTime]:
    return OverTime.all_of(cd.watch(drifted_summary("day", *by, **options).isel(day=days), by=by))


@pytest.fixture(scope="module")
def slices() -> list[OverTime]:
    return processes("country")


def drawn(picture: str) -> Any:
    root = ElementTree.fromstring(picture)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for text in root.iter("text"):
        if "transform" in text.attrib:
            continue
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        wide = SIGN * len(text.text or "") * (1.2 if "mini" in root.attrib["class"] else 1)
        start = x - {"start": 0, "middle": wide / 2, "end": wide}[text.attrib["text-anchor"]]
        assert start >= -2, text.text
        assert start + wide <= width + 2, text.text
        assert 0 < y <= height
    for element in root.iter():
        # Nothing is drawn at places that are no numbers.
        assert "nan" not in " ".join(element.attrib.values())
        assert "inf" not in " ".join(element.attrib.values()).replace("finf", "")
    return root


def texts(root: Any) -> list[str]:
    return [element.text or "" for element in root.iter("text")]


def named(root: Any, name: str) -> list[Any]:
    return [element for element in root.iter() if name in element.attrib.get("class", "").split()]


def points(element: Any) -> np.ndarray:
    return np.array(re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", element.attrib["d"]), float)


def test_evidence_is_on_a_log_axis_with_its_line(slices: list[OverTime]) -> None:
    process = slices[1]
    root = drawn(evidence_picture(process))
    (line,), (alarm,) = named(root, "evidence"), named(root, "alarm")
    at, threshold = points(line), float(alarm.attrib["y1"])
    assert len(at) == DAYS.size
    np.testing.assert_array_equal(at[:, 1] < threshold - 0.06, process.log_e > process.threshold + 1e-9)
    slope = np.polyfit(process.log_e, at[:, 1], 1)
    np.testing.assert_allclose(np.polyval(slope, process.log_e), at[:, 1], atol=0.06)
    assert "alarm at 1 / 0.05 = 20" in texts(root)
    assert "since 2026-01-19" in texts(root)
    (since,) = named(root, "since")
    gap = at[1, 0] - at[0, 0]
    start = at[np.searchsorted(DAYS, FROM), 0] - gap / 2
    assert float(since.attrib["x"]) == pytest.approx(start, abs=0.2)
    assert float(since.attrib["width"]) == pytest.approx(at[-1, 0] + gap / 2 - start, abs=0.2)


def test_gaps_are_in_points_with_days_behind(slices: list[OverTime]) -> None:
    process = slices[1]
    root = drawn(gap_picture(process))
    ticks = {element.text: float(element.attrib["y"]) - 3.5 for element in root.iter("text") if "y" in element.attrib}
    at = points(named(root, "running")[0])
    zero, ten = ticks["0"], ticks["+10"]
    np.testing.assert_allclose((zero - at[10:, 1]) / (zero - ten) * 10, 100 * process.gap[10:], atol=0.05)
    assert {"once", "day", "sequence", "rows"} <= {element.attrib.get("class") for element in root.iter()}
    hints = [title.text or "" for title in root.iter("title")]
    assert len(hints) == DAYS.size
    assert hints[3].startswith(f"2026-01-04 · {int(process.rows[3])} rows · so far ")


def test_days_that_raised_the_alarm_are_within_the_axis(slices: list[OverTime]) -> None:
    process = slices[1]
    assert process.is_off
    late = process.periods >= process.since
    gaps = np.where(late & (np.arange(late.size) % 4 == 0), process.period_gap + 0.3, process.period_gap)
    root = drawn(gap_picture(replace(process, period_gap=gaps)))
    ticks = {element.text: float(element.attrib["y"]) - 3.5 for element in root.iter("text") if "y" in element.attrib}
    highest = max(float((text or "0").removeprefix("+")) for text in ticks if (text or "").startswith("+"))
    assert highest >= 100 * gaps[late].max() - 20


def test_versions_and_pending_periods(slices: list[OverTime]) -> None:
    pending = Pending(np.array(["2026-01-31", "2026-02-01"], "M8[ns]"), np.array([70, 80]))
    marks = [Mark(DAYS[0], "v0"), Mark(DAYS[15], "v1 <b>"), Mark(DAYS[16], "a name that is too long for it")]
    root = drawn(gap_picture(slices[0], marks, pending))
    # Nothing is new on the first day; of words that would cover each other the later ones are left out.
    assert len(named(root, "mark")) == 2
    assert [text for text in texts(root) if text.startswith(("v", "a name"))] == ["v1 <b>"]
    assert "pending: 150 rows not due" in texts(root)
    assert len(named(root, "pending")) == 2
    assert len(points(named(root, "running")[0])) == DAYS.size
    assert named(drawn(gap_picture(slices[0])), "pending") == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_periods(count: int) -> None:
    (process,) = processes(days=slice(0, count))
    for picture in (gap_picture(process), evidence_picture(process), small_picture(process, small_range([process]))):
        root = drawn(picture)
        assert texts(root).count("2026-01-01") == 1
    assert sentence(process).startswith(f"No evidence in {count} period")


def test_many_periods_have_few_labels() -> None:
    (short,) = processes()
    arrays = ("rows", "gap", "gap_low", "gap_high", "period_gap", "period_low", "period_high", "log_e", "alarm")
    long = {name: np.tile(getattr(short, name), 30) for name in arrays}
    process = replace(short, periods=np.arange(900), since=840, **long)
    marks = [Mark(day, f"version {day}") for day in range(50, 900, 10)]
    root = drawn(gap_picture(process, marks))
    assert len(named(root, "mark")) == 85
    assert 2 <= len(named(root, "new")) <= 8
    assert len([*root.iter("title")]) < 420
    assert {"0", "899"} <= set(texts(root))


def test_a_slice_without_rows() -> None:
    labels, scores, by = drifted_rows(days=DAYS[:3])
    kept = by["country"] == np.where(by["day"] == DAYS[0], "a", "b")
    by = {name: by[name][kept] for name in ("day", "country")}
    summary = cd.summarize(labels[kept], scores[kept], by=by, settings=["binary"], step=0.003)
    empty, _ = OverTime.all_of(cd.watch(summary.isel(day=slice(1, 3)), by="country"))
    assert named(drawn(gap_picture(empty)), "running") == []
    drawn(evidence_picture(empty))
    assert sentence(empty) == "There are no rows for country=a yet."
    assert ranked([empty]) == []
    # Before its first rows nothing is drawn of the gap of a slice, and its evidence is 1.
    _, late = OverTime.all_of(cd.watch(summary, by="country"))
    assert len(points(named(drawn(gap_picture(late)), "running")[0])) == 2
    assert len(points(named(drawn(evidence_picture(late)), "evidence")[0])) == 3


def test_small_pictures_share_their_axis(slices: list[OverTime]) -> None:
    powers = small_range(slices)
    assert powers[1] == pytest.approx(4 * np.log10(20))
    lines = {float(named(drawn(small_picture(one, powers)), "alarm")[0].attrib["y1"]) for one in slices}
    assert len(lines) == 1
    assert points(named(drawn(small_picture(slices[1], powers)), "evidence")[0])[:, 1].min() >= 6.0


def test_changes_are_drawn_as_attribute_gives_them() -> None:
    summary = drifted_summary("day", "country")
    change = cd.attribute(summary, slice(None, DAYS[17]), slice(FROM, None), by="country")
    changes = change_list(change, 2)
    assert [one.label for one in changes] == [
        "all rows",
        "country=b",
        f"country={'ac'[int(abs(change.total[2]) > abs(change.total[0]))]}",
    ]
    assert changes[1].within == tuple(float(change[f"within{end}"].sel(country="b")) for end in ("", "_low", "_high"))
    root = drawn(change_picture(changes, "change"))
    reaches = [element for element in named(root, "reach") if "within" in element.attrib["class"]]
    assert len(reaches) == 3
    zero = next(float(element.attrib["x"]) for element in root.iter("text") if element.text == "0")
    # All rows, and country b, have changed for certain; the third has not.
    assert [float(reach.attrib["x1"]) > zero for reach in reaches] == [True, True, False]
    assert f"{100 * float(change.all_within):+.1f} points from behaviour" in change_text(changes[0])


def test_the_first_sentence(slices: list[OverTime]) -> None:
    whole = processes()
    leading = headline(whole, slices)
    assert leading is slices[1]
    assert sentence(leading).startswith("Since 2026-01-19 country=b is off: scores ")
    assert "points too low" in sentence(leading)
    assert sentence(leading).endswith("against a threshold of 20, a discovery among 3 (e-BH).")
    assert others_text(leading, slices) == ""
    assert others_text(leading, [*whole, *slices]) == "Also off: all rows."
    assert headline(processes(shift=0.5), []).label == ""
    alike = headline(processes(shift=0.0), processes("country", shift=0.0))
    assert sentence(alike).startswith("No evidence in 30 periods that the model is off: scores are ")


def test_looks_are_of_one_sheet() -> None:
    assert "$" not in style()
    assert nice_ticks(-0.1, 0.1, 5) == [-0.1, -0.05, 0.0, 0.05, 0.1]
