"""Statistics of pairs of rows, and approximations of them."""
