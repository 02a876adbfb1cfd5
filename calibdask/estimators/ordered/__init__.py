"""Estimators from ordered scores: isotonic regression and cumulative differences."""
