"""Work that cannot go on for now."""

__all__ = ["Halted"]


class Halted(OSError):
    """Circumstances stopped the work: a cluster has gone, a disk is full.

    What is done is kept; the same call goes on.
    """
