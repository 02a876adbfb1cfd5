"""Reports for the approval of models: pages that open without a network, and print well."""

from calibdask.report.measuring import Measured, measure
from calibdask.report.writing import write_audit_report, write_cube_report, write_report

__all__ = ["Measured", "measure", "write_audit_report", "write_cube_report", "write_report"]
