"""The error for work that cannot continue at present, and the warning of scores that belong to other classes."""

__all__ = ["SuspectScoresWarning", "Unavailable"]


class SuspectScoresWarning(UserWarning):
    """One minus the scores, or a permutation of their columns, fits the labels far better than the scores."""


class Unavailable(OSError):
    """External circumstances stopped the work, such as a lost cluster or a full disk.

    Repeating the same call later may succeed; finished cells of a study are kept.
    """
