"""The page of a summary: slices pooled on the fly, compared, the worst first."""
