"""Sums by segment: conjunctions of values of features."""
