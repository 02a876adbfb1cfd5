"""Work that cannot go on for now."""

__all__ = ["Halted"]


class Halted(OSError):
    """Circumstances stopped the work: a cluster has gone, a disk is full.

    The same call, made again later, may succeed; of a study what is done is kept.
    """
