"""What of a prediction over many classes is looked at: whole vectors, or a model over fewer outcomes."""

from typing import Any

import numpy as np

from calibdask.statistics.layout import Layout
from calibdask.statistics.lenses import Lens
from calibdask.statistics.statistic import Asking
from calibdask.statistics.views import seen_through

__all__ = ["check_setting", "lens_of", "looked_at"]


def looked_at(setting: Lens | str | int, asking: Any) -> Asking:
    """The same questions, about the model that the setting looks at."""
    layout = yield Layout()
    lens = lens_of(setting, layout)
    return (yield from (asking if lens is None else seen_through(lens, asking)))


def lens_of(setting: Lens | str | int, layout: Layout) -> Lens | None:
    """The lens that a user's word means; None for whole score vectors.

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
    """Refuse what is no setting of a multi-class estimator."""
    whole = isinstance(setting, int | np.integer) and not isinstance(setting, bool) and setting >= 0
    if not (isinstance(setting, Lens) or whole or setting in ("multiclass", "confidence", "binary")):
        raise ValueError(
            f"setting expects 'multiclass', 'confidence', 'binary', a class number or a cd.Lens, got {setting!r}."
        )
