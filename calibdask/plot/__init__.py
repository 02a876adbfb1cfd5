"""Pictures of results: functions from a dataset to a HoloViews object, and saving them as HTML, PNG or SVG."""

from calibdask.plot.curve import reliability_curve
from calibdask.plot.diagram import reliability_diagram
from calibdask.plot.overlaid import overlaid
from calibdask.plot.saving import FORMATS, save

__all__ = ["FORMATS", "overlaid", "reliability_curve", "reliability_diagram", "save"]
