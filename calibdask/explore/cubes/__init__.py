"""The page of a cube: views, their numbers, and the values at a point."""
