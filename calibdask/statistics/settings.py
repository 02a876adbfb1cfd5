"""Settings: which (score, outcome) pairs of a prediction are measured."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

Kind = Literal["binary", "class", "classwise", "confidence", "top-k", "label", "multiclass"]
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}


@dataclass(frozen=True)
class Setting:
    """How predictions of K classes become columns of (score, outcome).

    ==============  =======  =========================  =====================================
    kind            columns  score                      outcome
    ==============  =======  =========================  =====================================
    ``class``       1        p[index]                   label = index (binary: class 1)
    ``classwise``   K        p[c] for each c            label = c
    ``confidence``  1        largest p (lowest class)   label = its class
    ``top-k``       1        sum of the k largest p     label among their classes
    ``label``       1        p[label]                   label = 0
    ``multiclass``  -        the whole vector           the label
    ==============  =======  =========================  =====================================
    """

    kind: Kind
    index: int = 0

    @classmethod
    def parse(cls, text: str) -> "Setting | None":
        """The setting that `str` gave as this text; None if it is the text of none.

        Examples
        --------
        >>> Setting.parse("top-k 3"), Setting.parse("confidence"), Setting.parse("")
        (Setting(kind='top-k', index=3), Setting(kind='confidence', index=0), None)
        """
        word, _, index = text.partition(" ")
        return cls(_KINDS[word], int(index or 0)) if word in _KINDS else None

    @property
    def per_class(self) -> bool:
        """Whether there is a column for each class."""
        return self.kind == "classwise"

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of a number for each column: classes in class-wise settings."""
        return ("class",) if self.per_class else ()

    def by_class(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values by (batch, group, column, ...) with the dimensions `dims` in place of columns."""
        return values if self.per_class else values[:, :, 0]

    def columns(self, classes: int) -> int:
        """Number of (score, outcome) columns."""
        return classes if self.per_class else 1

    def column_range(self, setting: "Setting") -> slice | None:
        """The columns of this setting that make another one; None if there are none."""
        if self == setting:
            return slice(None)
        if self.per_class and setting.kind == "class":
            return slice(setting.index, setting.index + 1)
        return None

    def __str__(self) -> str:
        if self.kind in ("class", "top-k"):
            return f"{self.kind} {self.index}"
        return self.kind


# What estimators of columns take as their setting; see `resolve`.
SettingChoice = Setting | Literal["confidence", "classwise", "binary", "top-k"] | str | int | None


def resolve(setting: "Setting | str | int | None", classes: int, vector: bool, k: int | None = None) -> Setting:
    """The setting with a name, for data of ``classes`` classes.

    Parameters
    ----------
    setting : Setting, str, int or None
        ``"confidence"``, ``"classwise"``, ``"binary"`` (class 1), ``"top-k"``, ``"multiclass"``, the index of a class,
        or None: binary for a vector of scores, confidence for a matrix.
    classes : int
        Number of classes.
    vector : bool
        Whether the scores are a vector of P(y = 1).
    k : int, optional
        How many classes the setting ``"top-k"`` takes.

    Raises
    ------
    ValueError
        If the name is unknown, the class does not exist or k is out of range.

    Examples
    --------
    >>> resolve(None, 10, vector=False)
    Setting(kind='confidence', index=0)
    """
    if isinstance(setting, Setting):
        return resolve(setting.index if setting.kind == "class" else setting.kind, classes, vector, setting.index)
    if setting is None:
        return Setting("class", 1) if vector else Setting("confidence")
    if setting == "binary":
        return Setting("class", 1)
    if isinstance(setting, str):
        if setting == "top-k":
            if not isinstance(k, int | np.integer) or not 1 <= k <= classes:
                if k is None:
                    raise ValueError("setting='top-k' requires k, such as k=2.")
                raise ValueError(f"setting 'top-k' expects k from 1 to the number of classes ({classes}), got k={k}.")
            return Setting("top-k", int(k))
        if setting in ("confidence", "classwise", "multiclass"):
            return Setting(_KINDS[setting])
        raise ValueError(
            "setting expects 'confidence', 'classwise', 'binary', 'top-k', 'multiclass', the index of a class or None, "
            f"got {setting!r}."
        )
    if isinstance(setting, bool) or not isinstance(setting, int | np.integer):
        raise ValueError(f"setting expects the name of a setting or a whole class number, got {setting!r}.")
    if not 0 <= setting < classes:
        raise ValueError(
            f"setting={setting} names a class that does not exist; the scores have classes 0..{classes - 1}."
        )
    return Setting("class", int(setting))
