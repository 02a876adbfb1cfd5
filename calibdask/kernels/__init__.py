"""Compiled inner loops on arrays. Nothing above this layer knows what fast code looks like."""
