"""The second selection: all rows, the complement of the first selection, or chosen slices."""

from typing import Any

from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import SelectionWidgets

_OTHERS, _ALL, _CHOSEN = "all rows but A", "all rows", "chosen"


class ComparisonWidgets:
    """The widgets of the selection that the first one is compared with.

    Parameters
    ----------
    pool : Pool
    """

    def __init__(self, pool: Pool) -> None:
        import panel as pn

        self._pool = pool
        self.chosen = SelectionWidgets(pool, "b", model=1)
        # Models are compared on the same rows.
        default = _CHOSEN if pool.models else _OTHERS
        self.kind = pn.widgets.RadioButtonGroup(
            options=[_OTHERS, _ALL, _CHOSEN], value=default, variant="outline", width=305
        )
        self.slices = pn.Column(*self.chosen.of_slices, visible=default == _CHOSEN, margin=0)
        self.kind.param.watch(lambda event: self.slices.param.update(visible=event.new == _CHOSEN), "value")

    @property
    def widgets(self) -> dict[str, Any]:
        """All of them, by their names in the URL."""
        return {**({"b": self.kind} if self._pool.slices else {}), **self.chosen.widgets}

    @property
    def listed(self) -> list[Any]:
        """All of them from the top."""
        return [*self.chosen.of_models, *([self.kind, self.slices] if self._pool.slices else [])]

    def selection(self, first: Selection) -> Selection:
        """The selection; if the first is all rows, so is its complement."""
        chosen = self.chosen.selection()
        if self.kind.value == _CHOSEN or not self._pool.slices:
            return chosen
        if self.kind.value == _ALL or not first.slices:
            return Selection(models=chosen.models)
        return Selection(first.slices, chosen.models, is_others=True)
