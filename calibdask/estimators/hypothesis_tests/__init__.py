"""Statistical tests of calibration, as estimators with a p-value."""
