"""Replicates of merged states, drawn without the rows."""
