"""Settings of multi-class estimators: whole score vectors, or a derived model with fewer outcomes."""

from typing import Any, TypeVar

import numpy as np

from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.views.lens import Lens
from calibdask.statistics.views.view import seen_through

__all__ = ["check_setting", "in_setting", "lens_of", "setting_words"]

Answer = TypeVar("Answer")


def in_setting(setting: Lens | str | int, requests: Requests[Answer]) -> Requests[Answer]:
    """The same requests, about the model that the setting derives from the scores."""
    layout = yield from Layout()
    lens = lens_of(setting, layout)
    return (yield from (requests if lens is None else seen_through(lens, requests)))


def lens_of(setting: Lens | str | int, layout: Layout) -> Lens | None:
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


def setting_words(setting: Lens | str | int, layout: Layout) -> str:
    """The setting of a multi-class estimator as text, or a description of its lens."""
    if isinstance(setting, Lens):
        return f"lens: {setting.k} largest" if setting.parts is None else f"lens: {len(setting.parts)} groups"
    return str(layout.setting(setting))


def check_setting(setting: Any) -> None:
    """Raise ValueError for an invalid setting of a multi-class estimator."""
    whole = isinstance(setting, int | np.integer) and not isinstance(setting, bool) and setting >= 0
    if not (isinstance(setting, Lens) or whole or setting in ("multiclass", "confidence", "binary")):
        raise ValueError(
            f"setting expects 'multiclass', 'confidence', 'binary', a class number or a cd.Lens, got {setting!r}."
        )
