"""Views replace the weights, labels or classes of the data."""
