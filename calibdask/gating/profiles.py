"""Profiles: what a profession measures, by its names."""

from collections.abc import Mapping

from calibdask.estimators.estimator import Estimator
from calibdask.estimators.expression import parse_metrics
from calibdask.safe_text import visible

# In the order of the page that the profession files.
PROFILES: Mapping[str, str] = {
    "ml": "ece,smooth-ece,mean-gap,brier-score,log-loss",
    "clinical": "calibration-slope,observed-expected,ici,mean-gap,brier-score",
    "credit": "observed-expected,hosmer-lemeshow,mean-gap,ece",
    "forecast": "brier-decomposition,log-loss-decomposition,corp",
}


def profile_metrics(name: str) -> dict[str, Estimator]:
    """The metrics of a profile, by their names; none for the empty name.

    Raises
    ------
    ValueError
        If there is no such profile.
    """
    if not name:
        return {}
    if name not in PROFILES:
        raise ValueError(f"profile expects one of {', '.join(PROFILES)}, got {visible(name)!r}.")
    return {expression.word: expression.make() for expression in parse_metrics(PROFILES[name])}
