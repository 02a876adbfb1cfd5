"""How much calibrators help: cross-fitting, improvements with intervals, which to take."""
