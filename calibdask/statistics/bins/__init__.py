"""Sums by bin of the score: edges, binnings, mappings, and the fine grid."""
