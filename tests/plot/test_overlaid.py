"""Several results in one picture: what is in it, and that it is written in every format."""

from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.plot import overlaid, save
from calibdask.plot.style import SERIES

RNG = np.random.default_rng(5)
SCORES = RNG.random(800)
LABELS = (RNG.random(800) < SCORES**2).astype(int)
GROUP = RNG.choice(["a", "b"], 800)


def curves(**options: Any) -> dict[str, xr.Dataset]:
    scores = {"raw": SCORES, "mended": SCORES**2}
    return {
        name: cd.evaluate(LABELS, probabilities, cd.ReliabilityCurve(), **options)
        for name, probabilities in scores.items()
    }


def diagrams() -> dict[str, xr.Dataset]:
    return {"raw": cd.reliability_diagram(LABELS, SCORES), "few": cd.reliability_diagram(LABELS, SCORES, bins=4)}


def parts(overlay: hv.Overlay, kind: type) -> list[Any]:
    return [element for element in overlay if type(element) is kind]


@pytest.mark.parametrize("options", [{}, {"ci": 0.9, "n_boot": 10}])
def test_curves_over_each_other(options: dict[str, Any]) -> None:
    results = curves(**options)
    above, beneath = overlaid(results, title="Two models")
    assert above.label == "Two models"
    lines, bands = parts(above, hv.Curve), parts(above, hv.Area)
    assert [line.label for line in lines] == ["raw", "mended"]
    assert len(bands) == (2 if options else 0)
    for line, result in zip(lines, results.values(), strict=True):
        np.testing.assert_array_equal(line.dimension_values(1), result.reliability_curve_reliability)
    for band, result in zip(bands, results.values(), strict=False):
        np.testing.assert_array_equal(band.dimension_values("low"), result.reliability_curve_reliability_low)
    for area, result in zip(parts(beneath, hv.Area), results.values(), strict=True):
        np.testing.assert_array_equal(area.dimension_values(1), result.reliability_curve_density)


def test_diagrams_over_each_other() -> None:
    results = diagrams()
    above, beneath = overlaid(results)
    for points, result in zip(parts(above, hv.Scatter), results.values(), strict=True):
        np.testing.assert_array_equal(points.dimension_values(1), result.outcome)
    for area, result in zip(parts(beneath, hv.Area), results.values(), strict=True):
        share = result.weight.values / result.weight.values.sum()
        edges, heights = area.dimension_values(0), area.dimension_values(1)
        np.testing.assert_allclose(heights.reshape(-1, 4)[:, 1:3], share[:, None] * np.ones(2))
        assert np.trapezoid(heights, edges) == pytest.approx((share * (result.upper - result.lower)).sum())


def test_slices_have_a_panel_each_and_one_legend() -> None:
    plot = overlaid(curves(by={"group": GROUP}))
    above = [element for element in plot if isinstance(element, hv.Overlay) and element.group == "Reliability"]
    assert [element.label for element in above] == ["a", "b"]
    assert [[line.label for line in parts(element, hv.Curve)] for element in above] == [["raw", "mended"], ["", ""]]


@pytest.mark.parametrize(
    ("suffix", "results"),
    [(".html", curves(ci=0.9, n_boot=10)), (".png", curves(ci=0.9, n_boot=10)), (".svg", diagrams())],
    ids=["page of curves", "picture of curves", "drawing of diagrams"],
)
def test_files(results: dict[str, xr.Dataset], suffix: str, tmp_path: Path) -> None:
    save(overlaid(results), tmp_path / f"plot{suffix}")
    written = (tmp_path / f"plot{suffix}").read_bytes()
    assert len(written) > 5000
    if suffix != ".png":
        for color in SERIES[:2]:
            assert color.lower().encode() in written.lower()


def test_what_does_not_fit_is_refused() -> None:
    one = curves()
    with pytest.raises(ValueError, match="expects two to 5 results, got 1"):
        overlaid({"raw": one["raw"]})
    with pytest.raises(ValueError, match="ReliabilityCurve each"):
        overlaid({"raw": one["raw"], "other": diagrams()["raw"]})
    with pytest.raises(ValueError, match="same panels, got raw: a, b; mended: none"):
        overlaid({"raw": curves(by={"group": GROUP})["raw"], "mended": one["mended"]})
