"""Proper scores, their decompositions, and the mean and spread of scores."""
