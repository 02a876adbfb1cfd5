"""Estimators that smooth over the score: kernel densities, curves, SmoothECE."""
