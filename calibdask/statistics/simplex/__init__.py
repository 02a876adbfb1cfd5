"""Sums of whole rows by cell of the simplex of score vectors."""
