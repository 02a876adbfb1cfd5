"""Mending: maps of scores that are fitted segment by segment, where an audit finds them off."""
