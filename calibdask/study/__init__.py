"""Studies: a grid of cells, computed anywhere, resumed at will, in one cube of results."""
