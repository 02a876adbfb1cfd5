"""Pictures: what is in them, and that they are written in every format."""

import re
from pathlib import Path
from typing import Any

import holoviews as hv
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.plot import reliability_diagram, save

RNG = np.random.default_rng(5)
SCORES = RNG.random(500)
LABELS = RNG.random(500) < np.where(SCORES < 0.5, SCORES**0.5, SCORES**2)
MATRIX = RNG.dirichlet(np.ones(3), 500)
CLASSES = RNG.integers(0, 3, 500)


def diagram(**options: Any) -> xr.Dataset:
    return cd.reliability_diagram(LABELS, SCORES, **options)


def panels(plot: hv.Layout) -> list[tuple[hv.Overlay, hv.Rectangles]]:
    """Curves with the histograms beneath them."""
    columns = plot._max_cols
    parts = list(plot)
    lines = [parts[i : i + columns] for i in range(0, len(parts), columns)]
    pairs = [pair for i in range(0, len(lines), 2) for pair in zip(lines[i], lines[i + 1], strict=True)]
    return [pair for pair in pairs if isinstance(pair[0], hv.Overlay)]


def element(curve: hv.Overlay, kind: type) -> Any:
    return next(part for part in curve if isinstance(part, kind))


def test_labels_are_no_formulas_of_matplotlib(tmp_path: Path) -> None:
    names = ["$\\bad{$", "$$x$$", "from $5 to $10", "a_b"]
    by = {"country": np.array(names, object)[np.arange(40) % len(names)]}
    result = cd.reliability_diagram(np.arange(40) % 2, np.linspace(0.1, 0.9, 40), by=by, bins=2)
    save(reliability_diagram(result), tmp_path / "picture.svg")
    titles = [hv.render(upper).title.text for upper, _ in panels(reliability_diagram(result))]
    assert not [title for title in titles if "$$" in title]
    # Texts are paths; Matplotlib notes which text each of them is.
    assert "from $5 to $10" in (tmp_path / "picture.svg").read_text()


def test_single_curve() -> None:
    bins = diagram(bins=5)
    ((curve, bars),) = panels(reliability_diagram(bins))
    points = element(curve, hv.Points)
    np.testing.assert_array_equal(points.dimension_values("score"), bins.score)
    np.testing.assert_array_equal(points.dimension_values("outcome"), bins.outcome)
    np.testing.assert_array_equal(points.dimension_values("rows"), bins["count"])
    np.testing.assert_array_equal(bars.dimension_values("top"), bins["count"])
    np.testing.assert_array_equal(bars.dimension_values("left"), bins.lower)
    sticks = element(curve, hv.Segments)
    np.testing.assert_allclose(
        sticks.dimension_values("y1") - sticks.dimension_values("outcome"), bins.outcome - bins.score
    )
    assert curve.label == f"ECE {cd.ece(LABELS, SCORES, bins=5):.4f}"
    assert reliability_diagram(bins, title="forest").Diagram.values()[0].label.startswith("forest\n")


def test_over_and_under_differ_in_colour() -> None:
    bins = diagram(bins=10)
    ((curve, _),) = panels(reliability_diagram(bins))
    colors = element(curve, hv.Points).dimension_values("color")
    below = (bins.outcome < bins.score).values
    assert len(set(colors[below])) == 1
    assert len(set(colors)) == 2


def test_empty_bins_are_left_out() -> None:
    bins = cd.reliability_diagram([0, 1, 1], [0.12, 0.15, 0.95], bins=10)
    ((curve, bars),) = panels(reliability_diagram(bins))
    assert len(element(curve, hv.Points)) == len(bars) == 2
    nothing = bins.assign(count=bins["count"] * 0)
    ((curve, bars),) = panels(reliability_diagram(nothing))
    assert curve.label == "no rows"
    assert len(bars) == 0


def test_equal_mass_bins_of_different_numbers(tmp_path: Path) -> None:
    group = np.where(np.arange(500) < 30, "few", "many")
    result = diagram(bins="sqrt", binning="equal-mass", by={"group": group})
    drawn = panels(reliability_diagram(result))
    assert [curve.label.split("\n")[0] for curve, _ in drawn] == ["few", "many"]
    for _, bars in drawn:
        assert np.isfinite(bars.dimension_values("left")).all()
    save(reliability_diagram(result), tmp_path / "page.html")


def test_panels_for_classes_and_slices() -> None:
    result = cd.reliability_diagram(CLASSES, MATRIX, setting="classwise", by={"day": np.arange(500) % 2})
    labels = [curve.label.split("\n")[0] for curve, _ in panels(reliability_diagram(result))]
    assert labels == [f"day {day} · class {c}" for day in (0, 1) for c in range(3)]
    everything = cd.evaluate(CLASSES, MATRIX, {"ece": cd.ECE(), "shown": cd.ReliabilityDiagram()})
    assert len(panels(reliability_diagram(everything))) == 1


def test_a_short_last_line_keeps_histograms_beneath() -> None:
    result = cd.reliability_diagram(LABELS, SCORES, by={"day": np.arange(500) % 7})
    drawn = panels(reliability_diagram(result))
    assert len(drawn) == 7
    for day, (curve, bars) in enumerate(drawn):
        assert curve.label.startswith(f"day {day}\n")
        counts = result.sel(day=day)["count"].values
        np.testing.assert_array_equal(bars.dimension_values("top"), counts[counts > 0])


def test_refused() -> None:
    with pytest.raises(ValueError, match="got 0 diagrams among ece"):
        reliability_diagram(cd.evaluate(LABELS, SCORES, cd.ECE()))
    two = cd.evaluate(LABELS, SCORES, {"a": cd.ReliabilityDiagram(), "b": cd.ReliabilityDiagram(bins=5)})
    with pytest.raises(ValueError, match="got 2 diagrams"):
        reliability_diagram(two)
    with pytest.raises(ValueError, match=r"at most 60 curves, got 100 \(row: 100\)"):
        reliability_diagram(diagram(by={"row": np.arange(500) % 100}))
    with pytest.raises(ValueError, match=r"ends in one of \.html"):
        save(reliability_diagram(diagram()), "page.pdf")
    with pytest.raises(ValueError, match=r"Several plots expect an \.html"):
        save({"one": reliability_diagram(diagram())}, "page.png")


def test_page_needs_no_network(tmp_path: Path) -> None:
    plots = {"<First>": reliability_diagram(diagram()), "Second": reliability_diagram(diagram(bins=5))}
    save(plots, tmp_path / "page.html", title="R & D", lead="What this is.")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"<script[^>]+src", page)
    assert not re.search(r"(src|href)\s*=", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert "<title>R &amp; D</title>" in page
    assert page.index("&lt;First&gt;") < page.index("<h2>Second</h2>")
    assert "What this is." in page


def test_images_are_of_own_plots(tmp_path: Path) -> None:
    own = reliability_diagram(cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2))
    curve = hv.Curve([1, 2, 3])
    path = tmp_path / "picture.png"
    for plot in (curve, curve * curve, curve + curve, own + curve):
        with pytest.raises(ValueError, match=r"expects a plot of calibdask\.plot, got (Curve|Overlay|Layout)\. Write"):
            save(plot, path)
        assert not path.exists()
    save(own + curve, tmp_path / "page.html")
    save(own, path)
    assert path.read_bytes().startswith(b"\x89PNG")
