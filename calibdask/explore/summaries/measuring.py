"""Measurements of selections: the fast ones at once, the slow ones later."""

from collections.abc import Sequence

from calibdask.explore.summaries.own_metrics import OwnMetrics
from calibdask.explore.summaries.page_metrics import RowChoice, quick
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.steps import Measurement


class Measuring:
    """Measures selections; what has just been asked for is as it was.

    Parameters
    ----------
    pool : Pool
    own : OwnMetrics
    """

    def __init__(self, pool: Pool, own: OwnMetrics) -> None:
        self._pool, self._own = pool, own
        self._latest: tuple[Sequence[Selection], RowChoice, list[Measurement]] | None = None

    def measured(self, selections: Sequence[Selection], choice: RowChoice) -> list[Measurement]:
        """Fast measurements of each selection."""
        if self._latest is not None and self._latest[:2] == (selections, choice):
            return self._latest[2]
        measurements: list[Measurement] = []
        for selection in selections:
            if not self._pool.rows(selection):
                raise ValueError("There are no rows in this selection.")
            pooled = complete = self._pool.pooled(selection, choice.setting)
            like = measurements[0].result if measurements else None
            result = quick(pooled, choice, banded=banded(selections, choice), like=like)
            reasons: dict[str, str] = {}
            if self._own.estimators:
                complete = self._pool.pooled(selection, choice.setting, complete=True)
                values, reasons = self._own.measured(complete, choice.setting)
                result = result.assign(values.data_vars).assign_coords(values.coords)
            measurements.append(Measurement(pooled, complete, result, reasons))
        self._latest = selections, choice, measurements
        return measurements


def banded(selections: Sequence[Selection], choice: RowChoice) -> bool:
    """Whether bands are fast enough to compute at once; not for all classes of two selections."""
    return len(selections) == 1 or choice.setting != "classwise"
