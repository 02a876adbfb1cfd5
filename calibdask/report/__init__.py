"""Reports: pages for whoever signs off a model, which open without a network and print."""

from calibdask.report.measuring import Measured, measure
from calibdask.report.writing import write_cube_report, write_report

__all__ = ["Measured", "measure", "write_cube_report", "write_report"]
