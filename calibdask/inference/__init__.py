"""Inference: intervals, bands and adjusted p-values."""
