"""Calibrators of one score: a curve for each column, and how curves are fitted."""
