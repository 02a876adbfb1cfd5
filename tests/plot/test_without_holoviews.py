"""Plots in a plain installation: what is missing, and how to install it."""

from pathlib import Path
from typing import Any

import pytest

import calibdask as cd
from calibdask import extras, plot
from calibdask.errors import NotInstalled

FOUR = ([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8])


def test_every_plot_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    diagram, curve = cd.reliability_diagram(*FOUR, bins=2), cd.reliability_curve(*FOUR, bandwidth=0.1)
    charts: list[tuple[Any, Any]] = [
        (plot.decision_curve, cd.NetBenefit()),
        (plot.risk_coverage_curve, cd.RiskCoverageCurve()),
        (plot.murphy_curve, cd.MurphyCurve()),
    ]
    calls: list[Any] = [
        lambda: plot.reliability_diagram(diagram),
        lambda: plot.reliability_curve(curve),
        lambda: plot.overlaid({"a": diagram, "b": diagram}),
        lambda: plot.save(None, tmp_path / "page.html"),
        *(lambda draw=draw, metric=metric: draw(cd.evaluate(*FOUR, {"metric": metric})) for draw, metric in charts),
    ]
    for call in calls:
        with pytest.raises(NotInstalled, match=r'pip install "calibdask\[plot\]"'):
            call()
