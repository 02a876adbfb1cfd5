"""The page of a cube: views of it, their numbers, and what is behind a point."""
