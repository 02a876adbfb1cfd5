"""Pictures of reliability curves: what is in them, and that they are written in every format."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pytest
import xarray as xr
from bokeh.models import HoverTool

import calibdask as cd
from calibdask.plot import reliability_curve, reliability_diagram, save

SCORE = np.linspace(0, 1, 41)
# Above the diagonal up to 0.5, then below, with a sampling wave: crosses it several times.
WAVE = np.clip(SCORE + 0.1 * np.sin(2 * np.pi * SCORE) + 0.03 * np.sin(14 * SCORE), 0, 1)
DENSITY = 1 + 0.8 * np.cos(4 * np.pi * SCORE)


def curve(*, bands: bool = False, reliability: np.ndarray = WAVE, **attrs: Any) -> xr.Dataset:
    """A curve in the schema of cd.reliability_curve."""
    values = {"reliability": reliability, "density": DENSITY}
    if bands:
        for name, factor in {"low": -1, "high": 1, "band_low": -1.6, "band_high": 1.6, "median": 0.02}.items():
            values[f"reliability_{name}"] = np.clip(reliability + factor * 0.05, 0, 1)
        values |= {"density_low": 0.9 * DENSITY, "density_high": 1.1 * DENSITY}
    dataset = xr.Dataset({name: ("score", value) for name, value in values.items()}, {"score": SCORE}, attrs)
    return dataset.assign(bandwidth=0.03)


def classes(*names: Any, **options: Any) -> xr.Dataset:
    return xr.concat([curve(**options)] * len(names), dim=xr.DataArray(list(names), dims="class", name="class"))


def panels(plot: hv.Layout) -> list[tuple[hv.Overlay, hv.Overlay]]:
    """Curves with the densities beneath them."""
    columns = plot._max_cols
    parts = list(plot)
    lines = [parts[i : i + columns] for i in range(0, len(parts), columns)]
    pairs = [pair for above, below in list(pairwise(lines))[::2] for pair in zip(above, below, strict=True)]
    return [pair for pair in pairs if isinstance(pair[0], hv.Overlay)]


def parts(overlay: hv.Overlay) -> dict[str, Any]:
    return {f"{type(element).__name__} {element.group}": element for element in overlay}


def joined(over: Any, under: Any) -> np.ndarray:
    """The whole curve from its two sides."""
    one, other = over.dimension_values("reliability"), under.dimension_values("reliability")
    both = np.isfinite(one) & np.isfinite(other)
    np.testing.assert_array_equal(one[both], other[both])
    return np.where(np.isnan(one), other, one)


def test_curve_without_bands() -> None:
    ((above, below),) = panels(reliability_curve(curve()))
    drawn = parts(above)
    assert set(drawn) == {"Slope Annotation", "Area Over", "Area Under", "Curve Over", "Curve Under"}
    score = drawn["Curve Over"].dimension_values("score")
    whole = joined(drawn["Curve Over"], drawn["Curve Under"])
    # All points of the data, and between them those where the line crosses the diagonal.
    assert set(SCORE) <= set(score)
    np.testing.assert_allclose(whole, np.interp(score, SCORE, WAVE), rtol=1e-12)
    assert len(score) > len(SCORE)
    assert np.all(np.diff(score) > 0)
    np.testing.assert_array_equal(parts(below)["Area Density"].dimension_values("density"), DENSITY)
    assert set(parts(below)) == {"Area Density", "Curve Density"}


def test_sides_of_the_diagonal() -> None:
    ((above, _),) = panels(reliability_curve(curve()))
    drawn = parts(above)
    for side, sign in (("Over", -1), ("Under", 1)):
        line = drawn[f"Curve {side}"]
        gap = line.dimension_values("reliability") - line.dimension_values("score")
        assert np.nanmin(gap * sign) >= -1e-15
        assert np.nanmax(gap * sign) > 0.05
        tint = drawn[f"Area {side}"]
        expected = np.maximum((WAVE - SCORE) * sign, 0)
        depth = (tint.dimension_values("reliability") - tint.dimension_values("diagonal")) * sign
        np.testing.assert_allclose(depth, expected, atol=1e-15)


def test_heading() -> None:
    def labels(dataset: xr.Dataset, **options: Any) -> list[str]:
        return [above.label for above, _ in panels(reliability_curve(dataset, **options))]

    expected = np.trapezoid(np.abs(WAVE - SCORE) * DENSITY, SCORE)
    numbers = f"density ECE {expected:.4f} · h 0.03"
    assert labels(curve()) == [numbers]
    assert labels(curve(), title="forest") == [f"forest\n{numbers}"]
    assert labels(curve().drop_vars("bandwidth")) == [numbers.partition(" · ")[0]]
    # Points that miss the peaks of the density say nothing about the error.
    assert labels(curve() * xr.Dataset({"reliability": 1, "density": 0.5, "bandwidth": 0.1})) == ["h 0.003"]


def test_bands() -> None:
    data = curve(bands=True, ci=0.95)
    ((above, below),) = panels(reliability_curve(data))
    drawn = parts(above)
    lines = {"Curve Median", "Curve Over with band", "Curve Under with band"}
    # No tint between bands.
    assert set(drawn) == {"Slope Annotation", "Area Simultaneous", "Area Pointwise", *lines}
    for group, name in (("Pointwise", "reliability"), ("Simultaneous", "reliability_band")):
        band = drawn[f"Area {group}"]
        np.testing.assert_array_equal(band.dimension_values("reliability"), data[f"{name}_high"])
        np.testing.assert_array_equal(band.dimension_values("low"), data[f"{name}_low"])
        assert band.label == f"95 % {group.lower()}"
    np.testing.assert_array_equal(drawn["Curve Median"].dimension_values("reliability"), data.reliability_median)
    spread = parts(below)["Area Spread"]
    np.testing.assert_array_equal(spread.dimension_values("low"), data.density_low)


def test_bands_of_no_known_level_or_only_pointwise() -> None:
    data = curve(bands=True).drop_vars(["reliability_band_low", "reliability_band_high", "reliability_median"])
    ((above, _),) = panels(reliability_curve(data))
    drawn = parts(above)
    assert "Area Simultaneous" not in drawn
    assert "Curve Median" not in drawn
    assert drawn["Area Pointwise"].label == "pointwise"


def test_pointer_shows_numbers_in_every_panel() -> None:
    for bands in (False, True):
        figure = hv.render(reliability_curve(classes("cat", "dog", bands=bands)), backend="bokeh")
        for tool in figure.select({"type": HoverTool}):
            words = [word for word, _ in tool.tooltips]
            assert words[:2] == ["score", "probability"]
            assert ("band" in words) == bands


@pytest.mark.parametrize("bands", [False, True])
def test_no_density_breaks_the_line(bands: bool, tmp_path: Path) -> None:
    hole = (SCORE > 0.4) & (SCORE < 0.6)
    data = curve(bands=bands, reliability=np.where(hole, np.nan, WAVE))
    ((above, _),) = panels(reliability_curve(data))
    kind = " with band" if bands else ""
    line = parts(above)[f"Curve Over{kind}"]
    inside = (line.dimension_values("score") > 0.41) & (line.dimension_values("score") < 0.59)
    assert np.isnan(joined(line, parts(above)[f"Curve Under{kind}"])[inside]).all()
    assert np.isfinite(joined(line, parts(above)[f"Curve Under{kind}"])[~inside]).any()
    error = np.trapezoid(np.nan_to_num(np.abs(data.reliability - SCORE)) * DENSITY, SCORE)
    assert above.label.startswith(f"density ECE {error:.4f}")
    save(reliability_curve(data), tmp_path / ("page.html" if bands else "picture.png"))


@pytest.mark.parametrize("density", [0.0, np.nan])
def test_a_slice_without_rows(density: float, tmp_path: Path) -> None:
    data = classes("some", "none", bands=True)
    empty = data.sel({"class": "none"}) * np.nan
    data = xr.concat([data.sel({"class": "some"}), empty.assign(density=empty.density.fillna(density))], dim="class")
    (_, (above, _)) = panels(reliability_curve(data))
    assert above.label == "none\nno rows"
    save(reliability_curve(data), tmp_path / ("picture.png" if density == 0 else "page.html"))


def test_panels_for_classes_and_slices() -> None:
    data = xr.concat([classes("cat", "dog", "fish", bands=True)] * 2, dim="day")
    drawn = panels(reliability_curve(data, title="forest"))
    assert [above.label.split("\n")[0] for above, _ in drawn] == [
        f"forest · day {day} · {name}" for day in (0, 1) for name in ("cat", "dog", "fish")
    ]
    # One legend serves all.
    legends = [[element.label for element in above if element.label] for above, _ in drawn]
    assert legends == [["simultaneous", "pointwise", "median"], *[[]] * 5]


def test_only_outer_axes_have_words() -> None:
    drawn = panels(reliability_curve(classes(*range(7))))
    across = [parts(below)["Area Density"].kdims[0].label.strip() for _, below in drawn]
    upward = [parts(below)["Area Density"].vdims[0].label.strip() for _, below in drawn]
    assert across == ["", "", "", "score", "score", "score", "score"]
    assert upward == ["density", "", "", "", "density", "", ""]
    # The densities are what they were: equal words would make one dimension of two.
    for _, below in drawn:
        np.testing.assert_array_equal(parts(below)["Area Density"].dimension_values(1), DENSITY)


def test_results_of_evaluate() -> None:
    def named(prefix: str) -> xr.Dataset:
        data = curve(bands=True)
        for name, variable in data.variables.items():
            part, _, bound = str(name).partition("_")
            variable.attrs |= {"metric": prefix, "part": part, **({"bound": bound} if bound else {})}
        return data.rename({name: f"{prefix}_{name}" for name in [*data.data_vars, "score"]})

    everything = named("shown").assign(ece=0.1, local_lce=("shown_score", WAVE), local_density=("shown_score", DENSITY))
    ((above, _),) = panels(reliability_curve(everything))
    ((expected, _),) = panels(reliability_curve(curve(bands=True)))
    assert above.label == expected.label
    assert set(parts(above)) == set(parts(expected))
    with pytest.raises(ValueError, match="got 2 curves among"):
        reliability_curve(xr.merge([named("a"), named("b")]))


def test_what_the_package_computes(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    scores = rng.dirichlet(np.ones(3), 300)
    labels = rng.integers(0, 3, 300)
    one = cd.reliability_curve(labels == 0, scores[:, 0], ci=0.9, n_boot=20)
    ((above, below),) = panels(reliability_curve(one))
    assert {"Area Simultaneous", "Area Pointwise", "Curve Median"} <= set(parts(above))
    assert parts(above)["Area Pointwise"].label == "90 % pointwise"
    assert "Area Spread" not in parts(below)
    error = cd.density_ece(labels == 0, scores[:, 0])
    assert float(above.label.split()[2]) == pytest.approx(error, abs=2e-4)
    metrics = {"c": cd.ReliabilityCurve(setting="classwise"), "l": cd.LocalCalibrationError(), "e": cd.ECE()}
    many = cd.evaluate(labels, scores, metrics, by={"day": np.arange(300) % 2})
    drawn = panels(reliability_curve(many))
    assert [above.label.split("\n")[0] for above, _ in drawn] == [
        f"day {d} · class {c}" for d in (0, 1) for c in range(3)
    ]
    save(reliability_curve(many), tmp_path / "page.html")


def test_refused() -> None:
    with pytest.raises(ValueError, match=r"with reliability, score, density of one cd.Reliab.* got 0 curves among ece"):
        reliability_curve(xr.Dataset({"ece": 0.1}))
    with pytest.raises(ValueError, match="got 0 curves among density"):
        reliability_curve(curve()[["density"]])
    with pytest.raises(ValueError, match=r"at most 60 curves, got 61 \(class: 61\); select some"):
        reliability_curve(classes(*range(61)))


def test_saved_as_svg(tmp_path: Path) -> None:
    save(reliability_curve(classes("cat", "dog")), tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_bytes().startswith(b"<?xml")


def test_pages_explain_what_they_show(tmp_path: Path) -> None:
    diagram = reliability_diagram(cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2))
    words = {"bins": "Each point is a bin", "curves": "Each curve is the probability", "bands": "The dark band"}

    def explained(**plots: Any) -> set[str]:
        save(plots, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        return {kind for kind, start in words.items() if start in page}

    assert explained(a=diagram) == {"bins"}
    assert explained(a=reliability_curve(curve())) == {"curves"}
    assert explained(a=diagram, b=reliability_curve(curve(bands=True))) == {"bins", "curves", "bands"}
