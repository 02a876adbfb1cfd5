"""Calibrators of rows of scores: softmax of scaled and shifted logarithms, fitted in passes over the rows."""
