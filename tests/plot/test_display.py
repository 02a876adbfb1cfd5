"""`ReliabilityDisplay` on Matplotlib axes: lines, intervals, several classifiers, and what the axes say."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import calibdask as cd

RNG = np.random.default_rng(2)
ROWS = 3000
EVEN = RNG.random(ROWS)
SKEWED = 0.3 * RNG.beta(1, 4, ROWS)
RARE = 1 / (1 + np.exp(-RNG.normal(-5, 1.3, ROWS)))


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        yield
    plt.close("all")


def display(scores: np.ndarray, **options: Any) -> cd.ReliabilityDisplay:
    return cd.ReliabilityDisplay.from_predictions(EVEN[::-1] < scores, scores, **options)


def words(display: cd.ReliabilityDisplay) -> list[str]:
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.mark.parametrize("kind", ["diagram", "curve"])
def test_it_draws_what_it_has(kind: Any) -> None:
    shown = display(EVEN, name="forest")
    assert shown.plot(kind) is shown
    result = shown.result
    main = {"diagram": "diagram_outcome", "curve": "curve_reliability"}[kind]
    expected = result[main].values[np.isfinite(result[main].values)]
    drawn = shown.line_.get_ydata()
    np.testing.assert_array_equal(drawn[np.isfinite(drawn)], expected)
    assert words(shown) == ["forest", f"95 % confidence {'interval' if kind == 'diagram' else 'band'}", "calibrated"]
    assert shown.figure_ is shown.ax_.figure
    if kind == "diagram":
        (sticks,) = shown.ax_.collections
        ends = np.array([[low, high] for (_, low), (_, high) in sticks.get_segments()])
        both = np.stack([result.diagram_outcome_low, result.diagram_outcome_high], -1)
        np.testing.assert_array_equal(ends, both[np.isfinite(result.diagram_outcome)])


def test_no_intervals_and_no_line_of_reference() -> None:
    shown = display(EVEN, ci=None).plot(ref_line=False)
    assert not shown.ax_.collections
    assert shown.ax_.get_legend() is None


def test_given_axes_sizes_and_styles(tmp_path: Path) -> None:
    figure, axes = plt.subplots(1, 2)
    shown = display(EVEN, name="a").plot(ax=axes[1], color="black", name="b")
    assert (shown.ax_, shown.figure_, shown.line_.get_color()) == (axes[1], figure, "black")
    assert words(shown)[0] == "b"
    assert not axes[0].lines
    at_once = display(EVEN, ax=axes[0], ref_line=False)
    assert at_once.line_.axes is axes[0]
    sized = display(EVEN).plot(figsize=(4, 3), dpi=50)
    sized.figure_.savefig(tmp_path / "a.png")
    assert plt.imread(tmp_path / "a.png").shape[:2] == (150, 200)


@pytest.mark.parametrize("scores", [(EVEN, SKEWED), (RARE, SKEWED)])
def test_several_share_axes(scores: tuple[np.ndarray, np.ndarray]) -> None:
    first = display(scores[0], name="first").plot()
    second = display(scores[1], name="second").plot(ax=first.ax_)
    assert words(first) == ["first", "95 % confidence interval", "calibrated", "second"]
    ends = first.ax_.get_xlim()
    for shown in (first, second):
        at = shown.line_.get_xdata()
        assert ((ends[0] <= at) & (at <= ends[1])).all()
    said = first.figure_.axes[1].get_xlabel()
    beyond = int(second.result.diagram_above)
    assert "second: " in said or not beyond
    assert not beyond or f"{beyond} rows" in said.replace("\n", " ")


def test_rare_events_have_logits() -> None:
    shown = display(RARE).plot()
    assert shown.ax_.get_xscale() == shown.ax_.get_yscale() == "logit"
    assert np.isfinite(shown.line_.get_ydata()).all()
    assert (shown.line_.get_ydata() > 0).all(), "frequencies of 0 stand at the edge"
    assert display(RARE, axis="full").plot().ax_.get_xscale() == "linear"


def test_scales_are_said_as_they_are() -> None:
    """On the axes of others the scale is theirs; what is beyond its own axis is still said."""
    first = display(SKEWED).plot()
    second = display(RARE, name="rare").plot(ax=first.ax_)
    assert display(RARE).plot().ax_.get_xscale() == "logit"
    assert first.ax_.get_xscale() == "linear"
    said = first.figure_.axes[1].get_xlabel().replace("\n", " ")
    assert "ogit scale" not in said
    assert f"{int(second.result.diagram_above)} rows beyond" in said


@pytest.mark.parametrize("kind", ["diagram", "curve"])
def test_answers_have_confidence_and_accuracy(kind: Any) -> None:
    matrix = RNG.dirichlet(np.ones(3), 500)
    labels = RNG.integers(0, 3, 500)
    names = {}
    for setting in ("confidence", "classwise"):
        shown = cd.ReliabilityDisplay.from_predictions(labels, matrix, setting=setting).plot(kind)
        names[setting] = shown.figure_.axes[1].get_xlabel().partition("\n")[0], shown.ax_.get_ylabel()
    mean = "mean " if kind == "diagram" else ""
    assert names == {
        "confidence": (f"{mean}confidence", "accuracy"), "classwise": (f"{mean}score", "frequency of the outcome")
    }  # fmt: skip


def test_classes_are_lines() -> None:
    matrix = RNG.dirichlet(np.ones(4), 500)
    labels = RNG.integers(0, 4, 500)
    shown = cd.ReliabilityDisplay.from_predictions(labels, matrix, setting="classwise", name="net").plot()
    assert len(shown.lines_) == 4
    assert words(shown)[0] == "net · class 0"
    many = cd.ReliabilityDisplay.from_predictions(labels, matrix, by={"row": np.arange(500) % 11})
    with pytest.raises(ValueError, match="at most 10 diagrams, got 11"):
        many.plot()


def test_without_matplotlib() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'matplotlib' else find(name, *rest)\n"
        "import calibdask as cd\n"
        "display = cd.ReliabilityDisplay.from_predictions([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8])\n"
        "try: display.plot()\n"
        "except ImportError as error: print(error)\n"
        "from calibdask.plot import overlaid\n"
        "rows = [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8]\n"
        "curves = {str(h): cd.reliability_curve(*rows, bandwidth=h) for h in (0.1, 0.3)}\n"
        "print(len(overlaid(curves)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "expects matplotlib; install it, or draw with HoloViews" in done.stdout, done.stderr
    # Pages of HoloViews need none.
    assert done.stdout.endswith("\n2\n"), done.stderr
