"""Estimators computed from sums over bins."""
