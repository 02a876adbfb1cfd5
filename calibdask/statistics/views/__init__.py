"""Views: the same data with other weights, labels or classes."""
