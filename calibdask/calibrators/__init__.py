"""Calibrators: maps fitted to scores that improve their calibration."""
