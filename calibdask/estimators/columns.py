"""What estimators of columns of scores and outcomes have in common."""

from dataclasses import dataclass

from calibdask.estimators.checks import check_setting
from calibdask.estimators.estimator import Estimator
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

__all__ = ["ColumnEstimator", "gap"]


@dataclass(frozen=True, kw_only=True)
class ColumnEstimator(Estimator):
    """The choice of a setting, checked."""

    setting: Setting | str | int | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        check_setting(self.setting, self.k)


def gap(layout: Layout, setting: Setting | str | int | None, k: int | None) -> str:
    """What is measured in a setting, in words."""
    meant = layout.setting(setting, k)
    words = {
        "confidence": "gap of confidence and accuracy",
        "top-k": f"gap of the {meant.index} largest scores and how often they hold the label",
        "classwise": "gap of score and frequency of each class",
    }
    ours = "gap of score and frequency"
    return words.get(meant.kind, ours if layout.vector else f"{ours} of class {meant.index}")
