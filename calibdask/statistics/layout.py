"""Shape and properties of the data, known without a pass."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from calibdask.statistics.request import Plan, Request, Requests
from calibdask.statistics.settings import Setting, resolve

if TYPE_CHECKING:
    from calibdask.statistics.views.view import View


@dataclass(frozen=True)
class Layout(Request["Layout"]):
    """Shape of the data: a request that costs no pass; the source fills it in.

    Attributes
    ----------
    batch : int
        Size of the flattened leading axes (replicates, models).
    groups : int
        Number of slices; 1 without ``by``.
    classes : int
        Number of classes K; 2 for a vector of P(y = 1).
    vector : bool
        Whether the scores are a vector of P(y = 1).
    rows : int or None
        Number of rows, where it is known before the first pass and every row counts (no weights, no slices).
    dtype : str
        Type of the scores in the kernels, ``float32`` or ``float64``.
    weighted : bool
        Whether there are sample weights.
    logits : bool
        Whether the scores are given as logits; blocks hold the scores that follow from them.
    one_hot : bool
        Whether the labels are given as one-hot rows; blocks hold their class numbers.
    half : bool
        Whether the scores are given as float16; kernels take them as float32.
    clustered : bool
        Whether each row has a cluster; only rows of different clusters are independent.
    buckets : int or None
        Number of buckets of clusters, where a summary has it; None where it may be chosen.
    by_cells : bool
        Whether curves of the score are fitted to cells of a fine grid, however few distinct scores there are.
    sum_tolerance : float
        How far the sum of a row of scores may differ from 1; layouts are equal whatever it is.
    most_rows : int or None
        Number of rows where it is known beforehand, with weights, slices and rows that are left out too: for estimates
        of memory; layouts are equal whatever it is.
    """

    batch: int = 1
    groups: int = 1
    classes: int = 2
    vector: bool = True
    rows: int | None = None
    dtype: str = "float64"
    weighted: bool = False
    logits: bool = False
    one_hot: bool = False
    half: bool = False
    clustered: bool = False
    buckets: int | None = None
    by_cells: bool = False
    sum_tolerance: float = field(default=1e-3, compare=False)
    most_rows: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ValueError(f"y_prob expects a column for each of at least 2 classes, got {self.classes} columns.")

    def setting(self, setting: Setting | str | int | None, k: int | None = None) -> Setting:
        """The setting that ``setting`` names for data of this shape; see `calibdask.statistics.settings.resolve`."""
        return resolve(setting, self.classes, self.vector, k)

    @property
    def smallest(self) -> float:
        """Smallest positive score of the given data type, at which the logarithmic score clips."""
        return float(np.finfo("float16" if self.half else self.dtype).smallest_subnormal)

    @property
    def smallest_normal(self) -> float:
        """Smallest number of full precision of the given data type, at which log scores clip."""
        return float(np.finfo("float16" if self.half else self.dtype).smallest_normal)

    def submit(self, plan: Plan) -> None:
        """Ask for the layout of the source."""
        plan.look_up(self)

    def viewed_by(self, view: "View") -> Requests["Layout"]:
        """The layout of the data seen."""
        return view.layout((yield from self))
