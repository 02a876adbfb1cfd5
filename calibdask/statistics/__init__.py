"""Mergeable summaries of scored rows: frozen descriptions, plain states, one law."""
