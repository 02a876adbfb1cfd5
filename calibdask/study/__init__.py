"""Studies: grids of cells, computed on any cluster, resumed after interruptions, stored in one cube of results."""
