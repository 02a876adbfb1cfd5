"""Settings of multi-class estimators: whole score vectors, or a derived model with fewer outcomes."""

from abc import abstractmethod
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import Estimate
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.views.lens import Lens
from calibdask.statistics.views.view import view_requests

VectorSetting = Lens | Literal["multiclass", "confidence", "binary"] | str | int


class VectorEstimator(Estimator):
    """An estimator of whole score vectors, with a field ``setting``."""

    setting: VectorSetting

    @override
    def measured_setting(self, layout: Layout) -> str:
        if not isinstance(self.setting, Lens):
            return str(layout.setting(self.setting))
        groups = self.setting.parts
        return f"lens: {self.setting.k} largest" if groups is None else f"lens: {len(groups)} groups"

    @override
    def estimate(self) -> Requests[Estimate]:
        lens = lens_of(self.setting, (yield from Layout()))
        requests = self._estimate()
        return (yield from (requests if lens is None else view_requests(lens, requests)))

    @abstractmethod
    def _estimate(self) -> Requests[Estimate]:
        """The estimate from the model that the setting derives from the scores."""


def lens_of(setting: VectorSetting, layout: Layout) -> Lens | None:
    """The lens of a setting; None for whole score vectors.

    Raises
    ------
    ValueError
        If there is no such class.
    """
    if isinstance(setting, Lens):
        return setting
    if setting == "multiclass":
        return None
    if setting == "confidence":
        return Lens.largest(1)
    index = layout.setting(setting).index
    return Lens.groups([[c for c in range(layout.classes) if c != index], [index]])


def check_setting(setting: Any) -> None:
    """Raise ValueError for an invalid setting of a multi-class estimator."""
    whole = isinstance(setting, int | np.integer) and not isinstance(setting, bool) and setting >= 0
    if not (isinstance(setting, Lens) or whole or setting in ("multiclass", "confidence", "binary")):
        raise ValueError(
            f"setting expects 'multiclass', 'confidence', 'binary', a class number or a cd.Lens, got {setting!r}."
        )
