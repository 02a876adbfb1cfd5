"""Logistic regression on terms of one score: points, logits, fits, and whether outcomes are separated."""
