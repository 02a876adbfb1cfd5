"""What people call a number: one name for it on all of a page."""

from calibdask.estimators.expression import parse_metrics
from calibdask.gating.profiles import PROFILES

# Numbers without choices, by the expression of their metric, and by their title in the literature.
NAMES = {metric: parts[""] for metric, parts in PROFILES["default"].names.items() if "" in parts}
_OF_TITLES = {expression.make().declared.title: NAMES[str(expression)] for expression in parse_metrics(",".join(NAMES))}


def human(title: str) -> str:
    """The name of a number by its title; that title where people have no other one.

    Examples
    --------
    >>> human("Expected calibration error (ECE)"), human("Calibration in the large"), human("Density ECE")
    ('Calibration error (ECE)', 'Frequency less mean score', 'Density ECE')
    """
    return _OF_TITLES.get(title, title)
