"""Plots of results: functions from a dataset to a HoloViews object, and files of these as HTML, PNG or SVG."""

from calibdask.plot.curve import reliability_curve
from calibdask.plot.decisions import calibration_belt, decision_curve, murphy_curve, risk_coverage_curve
from calibdask.plot.diagram import reliability_diagram
from calibdask.plot.export import FORMATS, save
from calibdask.plot.overlay import overlaid

__all__ = [
    "FORMATS",
    "calibration_belt",
    "decision_curve",
    "murphy_curve",
    "overlaid",
    "reliability_curve",
    "reliability_diagram",
    "risk_coverage_curve",
    "save",
]
