"""Audits: for whom scores are wrong, over all segments of many columns."""
