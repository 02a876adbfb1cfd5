"""Base classes of estimators that measure columns of scores and outcomes in a setting."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from calibdask.estimators.checks import check_setting
from calibdask.estimators.estimator import Estimator
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting, SettingChoice


class SettingEstimator(Estimator):
    """An estimator with fields ``setting`` and ``k``."""

    setting: SettingChoice
    k: int | None

    # The setting of a matrix of scores where none is given.
    usual_setting: ClassVar[SettingChoice] = "confidence"

    def measured(self, layout: Layout) -> Setting:
        """The setting that is measured, given or by default."""
        usual = self.setting is None and not layout.vector
        return layout.setting(self.usual_setting if usual else self.setting, self.k)

    @override
    def measured_setting(self, layout: Layout) -> str:
        return str(self.measured(layout))


@dataclass(frozen=True, kw_only=True)
class ColumnEstimator(SettingEstimator):
    """An estimator with a setting."""

    setting: SettingChoice = None
    k: int | None = None

    def __post_init__(self) -> None:
        check_setting(self.setting, self.k)


def gap(layout: Layout, setting: Setting) -> str:
    """The quantity that is measured in a setting, as a phrase."""
    words = {
        "confidence": "gap of confidence and accuracy",
        "top-k": f"gap of the {setting.index} largest scores and how often they hold the label",
        "classwise": "gap of score and frequency of each class",
    }
    binary = "gap of score and frequency"
    return words.get(setting.kind, binary if layout.vector else f"{binary} of class {setting.index}")
