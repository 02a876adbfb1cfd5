"""Decisions that rest on scores, with promises: how far answers may be automated."""
