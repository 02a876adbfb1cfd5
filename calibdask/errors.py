"""The error for work that cannot continue at present."""

__all__ = ["Unavailable"]


class Unavailable(OSError):
    """External circumstances stopped the work, such as a lost cluster or a full disk.

    Repeating the same call later may succeed; finished cells of a study are kept.
    """
