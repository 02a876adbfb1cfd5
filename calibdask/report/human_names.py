"""Plain names of numbers, one per number on a page."""

from calibdask.analyses.gating.profiles import PROFILES
from calibdask.estimators.expression import parse_metrics
from calibdask.plot.naming import axes_of

_USUAL = {metric: parts[""] for metric, parts in PROFILES["default"].names.items() if "" in parts}
# Numbers without choices as limits write them, by metric and part; and by their title in the literature.
NAMES = {
    ".".join(filter(None, (metric, part))): name
    for profile in ("clinical", "default")
    for metric, parts in PROFILES[profile].names.items()
    for part, name in parts.items()
    if "(" not in metric
}
_OF_TITLES = {
    expression.make().declared.title: _USUAL[str(expression)] for expression in parse_metrics(",".join(_USUAL))
}


def human(title: str) -> str:
    """The name of a number by its title; that title where people have no other one.

    Examples
    --------
    >>> human("Expected calibration error (ECE)"), human("Calibration in the large"), human("Density ECE")
    ('Calibration error (ECE)', 'Observed rate minus mean prediction', 'Density ECE')
    """
    return _OF_TITLES.get(title, title)


def gap_name(kind: str) -> str:
    """Name of calibration in the large, by the kind of setting.

    Examples
    --------
    >>> gap_name("confidence"), gap_name("class")
    ('accuracy minus mean confidence', 'observed rate minus mean prediction')
    """
    across, upward = axes_of(kind)
    rate = upward.split()[0]
    return "observed rate minus mean prediction" if rate == "frequency" else f"{rate} minus mean {across}"
