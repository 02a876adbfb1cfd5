"""The explorer: cubes of studies and summaries in the browser."""

from calibdask.explore.application import explore

__all__ = ["explore"]
