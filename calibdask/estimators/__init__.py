"""Numbers, curves and tests as frozen descriptions; each asks for statistics and computes."""
