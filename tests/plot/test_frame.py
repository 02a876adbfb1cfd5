"""The frame that all pictures share: ends and ticks of axes, what stands at the edge, and what is said of the rest."""

import re
from typing import Any

import holoviews as hv
import numpy as np
import pytest

import calibdask as cd
from calibdask.estimators.smooth.adaptive import AdaptiveCurve, AdaptiveDiagram
from calibdask.plot import decision_curve, overlaid, reliability_curve, reliability_diagram
from calibdask.plot.frame import Frame, interval_name, notes
from calibdask.plot.options import styled
from calibdask.render.drawing import curve_picture, diagram_picture
from calibdask.results.reliability import BinnedReliability, SmoothReliability

RNG = np.random.default_rng(6)
ROWS = 4000
SKEWED = 0.3 * RNG.beta(1, 4, ROWS)
RARE = 1 / (1 + np.exp(-RNG.normal(-5, 1.3, ROWS)))
EVEN = RNG.random(ROWS)
SCORES = {"skewed": SKEWED, "rare": RARE, "even": EVEN}


def read(name: str, **options: Any) -> tuple[BinnedReliability, SmoothReliability]:
    scores = SCORES[name]
    labels = np.random.default_rng(1).random(ROWS) < scores
    metrics = {"d": AdaptiveDiagram(**options), "c": AdaptiveCurve(**options)}
    result = cd.evaluate(labels, scores, metrics, ci=0.95)
    return BinnedReliability.of(result, "d"), SmoothReliability.of(result, "c")


def test_full_axes_are_as_ever() -> None:
    frame = Frame.of(read("even"))
    assert frame.is_full
    assert (frame.across, frame.upward) == ((-0.02, 1.02), (-0.02, 1.02))
    assert [label for _, label in frame.x_ticks] == ["0", "0.25", "0.5", "0.75", "1"]
    assert notes(read("even")[0]) == notes(read("even")[1]) == []


@pytest.mark.parametrize("name", ["skewed", "rare"])
def test_all_that_is_drawn_is_on_the_axes(name: str) -> None:
    bins, curve = read(name)
    frame = Frame.of([bins, curve])
    assert frame.axis.right < 0.35
    assert frame.axis.logit == (name == "rare")
    left, right = frame.across
    low, high = frame.upward
    for place, _ in frame.x_ticks:
        assert left <= place <= right
    for place, _ in frame.y_ticks:
        assert low <= place <= high
    assert 3 <= len(frame.x_ticks) <= 8
    on = frame.inside(bins)
    places = frame.x(bins.score[on])
    assert np.isfinite(places).all()
    assert np.isnan(frame.x(bins.score[~on])).all()
    upward = frame.y(bins.outcome[on])
    assert ((low <= upward) & (upward <= high)).all()
    drawn = bins.outcome[on] > 0
    if name == "skewed":
        np.testing.assert_array_equal(upward, bins.outcome[on])
    else:
        frequency = bins.outcome[on][drawn]
        np.testing.assert_allclose(upward[drawn], np.log(frequency / (1 - frequency)))
        assert (upward[~drawn] == low).all(), "frequencies of 0 stand at the edge"
    borders, rows = frame.bars(bins.drawn)  # type: ignore[arg-type]
    assert (np.diff(borders) > 0).all()
    assert rows.sum() + bins.drawn.axis.below + bins.drawn.axis.above == ROWS  # type: ignore[union-attr]


def test_what_is_left_out_is_said() -> None:
    bins, curve = read("skewed")
    above = int((bins.drawn.axis.right < SKEWED).sum())  # type: ignore[union-attr]
    assert above > 0
    assert notes(bins)[0].endswith(f"the 99.5th percentile: {above} rows beyond.")
    rare, tail = read("rare")
    said = " ".join(notes(rare))
    below = int((rare.drawn.axis.left > RARE).sum())  # type: ignore[union-attr]
    assert re.search(rf"Logit scale, \S+ to \S+; {below} rows below", said)
    edge = int((rare.outcome[Frame.of([rare]).inside(rare)] == 0).sum())
    assert f"{edge} points at the edge: frequency 0 or 1." in said
    assert "No curve where under 20 rows, or 5 expected events, are near." in notes(tail)
    both = notes({"a": bins, "b": read("even")[0]})
    assert [line[:3] for line in both] == ["a: "] * len(both)
    assert notes({"a": curve, "b": curve}) == notes(curve), "what is true of both is said once"


def test_several_share_an_axis() -> None:
    skewed, even = read("skewed")[0], read("even")[0]
    assert Frame.of([skewed, even]).is_full
    assert not Frame.of([read("rare")[0], skewed]).axis.logit


def test_intervals_say_what_they_are() -> None:
    bins, curve = read("even")
    assert (interval_name(bins), interval_name(curve)) == ("95 % confidence interval", "95 % confidence band")
    without = cd.evaluate([0, 1], [0.1, 0.9], {"d": cd.ReliabilityDiagram()})
    assert interval_name(BinnedReliability.of(without, "d")) == ""


@pytest.mark.parametrize("name", SCORES)
def test_reports_draw_within_their_frame(name: str) -> None:
    bins, curve = read(name)
    for picture in (diagram_picture(bins, name), curve_picture(curve, name)):
        assert not re.search(r"nan|inf", str(picture))
        numbers = [float(x) for x in re.findall(r'(?:c?x)="(-?[\d.]+)"', str(picture))]
        assert min(numbers) >= 0
        assert max(numbers) <= 334


@pytest.mark.parametrize("name", SCORES)
def test_pages_have_the_same_axes(name: str) -> None:
    scores = SCORES[name]
    result = cd.evaluate(scores > EVEN, scores, {"d": AdaptiveDiagram(), "c": AdaptiveCurve()}, ci=0.95)
    for draw, shown in (
        (reliability_diagram, BinnedReliability.of(result, "d")),
        (reliability_curve, SmoothReliability.of(result, "c")),
    ):
        frame = Frame.of([shown])
        figure = hv.render(draw(result), backend="bokeh").children[0][0]
        assert (figure.x_range.start, figure.x_range.end) == pytest.approx(frame.across)
        assert (figure.y_range.start, figure.y_range.end) == pytest.approx(frame.upward)
        if not frame.is_full:
            assert figure.xaxis[0].major_label_overrides == dict(frame.x_ticks)
            assert figure.xgrid[0].ticker.ticks == [place for place, _ in frame.x_ticks]
        assert [item.label.value for item in figure.legend[0].items] == [interval_name(shown)]
    beneath = next(part for part in reliability_diagram(result) if isinstance(part, hv.Rectangles))
    said = beneath.kdims[0].label.replace("\n", " ")
    assert all(sentence in said for sentence in notes(BinnedReliability.of(result, "d")))


def matplotlib_axes(plot: Any) -> Any:
    return hv.render(styled(plot, "matplotlib", plot._max_cols), backend="matplotlib").axes[0]


def test_images_have_the_same_axes() -> None:
    result = cd.evaluate(RARE > EVEN, RARE, {"d": AdaptiveDiagram()}, ci=0.95)
    frame = Frame.of([BinnedReliability.of(result, "d")])
    axes = matplotlib_axes(reliability_diagram(result))
    assert (axes.get_xlim(), axes.get_ylim()) == (pytest.approx(frame.across), pytest.approx(frame.upward))
    assert [text.get_text() for text in axes.get_xticklabels()] == [label for _, label in frame.x_ticks]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["95 % confidence interval"]


def test_images_have_grid_lines() -> None:
    axes = matplotlib_axes(decision_curve(cd.evaluate(SKEWED > EVEN, SKEWED, cd.NetBenefit())))
    assert all(line.get_visible() for line in axes.get_xgridlines())


def test_results_over_each_other_draw_intervals() -> None:
    results = {
        name: cd.evaluate(SCORES[name] > EVEN, SCORES[name], AdaptiveDiagram(), ci=0.95) for name in ("skewed", "even")
    }
    above, beneath = overlaid(results)
    ends = [part for part in above if isinstance(part, hv.Segments)]
    assert [part.label for part in ends] == ["95 % confidence interval", ""]
    low = BinnedReliability.of(results["skewed"], "adaptive_diagram").low
    np.testing.assert_array_equal(ends[0].dimension_values(1), low)
    assert "skewed: axis to" in next(iter(beneath)).kdims[0].label
