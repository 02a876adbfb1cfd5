"""What estimators of columns of scores and outcomes have in common."""

from dataclasses import dataclass

from calibdask.estimators.binned import check_setting
from calibdask.estimators.estimator import Estimator
from calibdask.statistics.settings import Setting

__all__ = ["ColumnEstimator"]


@dataclass(frozen=True, kw_only=True)
class ColumnEstimator(Estimator):
    """The choice of a setting, checked."""

    setting: Setting | str | int | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        check_setting(self.setting, self.k)
