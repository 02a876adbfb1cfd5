"""Where data, summaries and results are stored, and in which formats."""
