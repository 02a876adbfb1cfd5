"""Receipts of what was measured: fingerprints of rows, documents that a second party can recompute."""
