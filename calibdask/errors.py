"""Errors: of damaged data, missing packages, work that cannot continue; warnings of suspect scores and rows."""


class Damaged(ValueError):
    """Raised if stored data are corrupted, truncated or partly missing."""


class SuspectScoresWarning(UserWarning):
    """Scores that are probably wrong: of another class, decisions, or decimals that bins separate by rounding."""


class ClusteredRowsWarning(UserWarning):
    """Rows that share the value of an identifier are dependent, and ``groups`` does not say so."""


class NotInstalled(ImportError):
    """A package is missing that calibdask can do without; the message says how to install it."""


def with_notes(error: BaseException) -> str:
    """The message of an error, and the notes that were added to it.

    Examples
    --------
    >>> error = ValueError("The cluster cannot start.")
    >>> error.add_note("Its logs are in calibdask.log.")
    >>> with_notes(error)
    'The cluster cannot start. Its logs are in calibdask.log.'
    """
    return " ".join([str(error), *getattr(error, "__notes__", ())])


class Unavailable(OSError):
    """External circumstances stopped the work, such as a lost cluster or a full disk.

    Repeating the same call later may succeed; finished cells of a study are kept.
    """


class RowsRequired(TypeError, ValueError):
    """States such as a summary were given where an analysis reads rows."""
