"""The base class of estimators that measure columns of scores and outcomes in a setting."""

from dataclasses import dataclass

from typing_extensions import override

from calibdask.estimators.checks import check_setting
from calibdask.estimators.estimator import Estimator
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import SettingChoice

__all__ = ["ColumnEstimator", "gap"]


@dataclass(frozen=True, kw_only=True)
class ColumnEstimator(Estimator):
    """An estimator with a setting."""

    setting: SettingChoice = None
    k: int | None = None

    def __post_init__(self) -> None:
        check_setting(self.setting, self.k)

    @override
    def measured_setting(self, layout: Layout) -> str:
        return str(layout.setting(self.setting, self.k))


def gap(layout: Layout, setting: SettingChoice, k: int | None) -> str:
    """The quantity that is measured in a setting, as a phrase."""
    resolved = layout.setting(setting, k)
    words = {
        "confidence": "gap of confidence and accuracy",
        "top-k": f"gap of the {resolved.index} largest scores and how often they hold the label",
        "classwise": "gap of score and frequency of each class",
    }
    binary = "gap of score and frequency"
    return words.get(resolved.kind, binary if layout.vector else f"{binary} of class {resolved.index}")
