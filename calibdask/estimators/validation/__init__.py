"""Estimators for the validation of risk models: regression, ratios, groups, grades."""
