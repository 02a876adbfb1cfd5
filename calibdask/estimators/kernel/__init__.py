"""Estimators from pairs of predictions, with kernels on the simplex."""
