"""Inputs: arrays, data frames and blocks of users, converted to sources."""
