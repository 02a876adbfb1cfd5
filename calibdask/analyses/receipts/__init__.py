"""Receipts: fingerprints of rows, and documents that a second party can recompute."""
