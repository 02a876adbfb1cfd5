"""Described segments are told apart: partial effects by loops and least squares, short lists, nothing beside them."""
