"""Results: built, read back, formatted, tabulated and ranked."""
