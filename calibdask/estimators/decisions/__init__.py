"""Costs of decisions based on scores."""
