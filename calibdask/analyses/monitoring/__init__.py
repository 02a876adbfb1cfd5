"""Calibration over time: `watch`, `watch_power` and `attribute`, from summaries by period."""
