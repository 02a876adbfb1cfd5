"""Widgets that choose slices of a summary, and the selection in words."""

import re
from collections import Counter
from html import escape
from typing import Any

from calibdask.explore.summaries.pools import Labels, Pool, Selection

__all__ = ["SelectionWidgets", "shown_label", "worded"]

_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([ T].*)?")
_MIDNIGHT = re.compile(r"(?<=^\d{4}-\d{2}-\d{2})[T ]00:00(:00(\.0+)?)?$")
# A list of more labels than these is searched rather than read.
_MOST_OPTIONS = 50
_MOST_WORDS = 4


class SelectionWidgets:
    """The widgets of one selection: models, labels of slices, and periods of those that are ordered.

    Parameters
    ----------
    pool : Pool
    mark : str
        What their names begin with in the address.
    model : int
        Which model is chosen at first, if there are so many.
    """

    def __init__(self, pool: Pool, mark: str, model: int = 0) -> None:
        self._pool, self._mark = pool, mark
        self._models = {dim: _model_widget(dim, pool.labels[dim], model) for dim in pool.models}
        self._ranges = {dim: _range_widget(dim, pool.labels[dim]) for dim in pool.slices if _ordered(pool.labels[dim])}
        self._labels = {dim: _label_widget(dim, pool.labels[dim]) for dim in pool.slices}

    @property
    def widgets(self) -> dict[str, Any]:
        """All of them, by their names in the address."""
        kinds = (("", self._models), ("-range", self._ranges), ("", self._labels))
        return {f"{self._mark}-{dim}{kind}": each for kind, some in kinds for dim, each in some.items()}

    @property
    def of_models(self) -> list[Any]:
        """Those that choose models, from above."""
        return [*self._models.values()]

    @property
    def of_slices(self) -> list[Any]:
        """Those that choose slices, from above, those of a dimension together."""
        return [some[dim] for dim in self._labels for some in (self._ranges, self._labels) if dim in some]

    @property
    def listed(self) -> list[Any]:
        """All of them from above."""
        return [*self.of_models, *self.of_slices]

    def selection(self) -> Selection:
        """What is chosen; where no label is, all of the period."""
        found = []
        for dim in self._pool.slices:
            count = len(self._pool.labels[dim])
            first, last = self._ranges[dim].value if dim in self._ranges else (0, count - 1)
            chosen = [place for place in sorted(self._labels[dim].value or range(count)) if first <= place <= last]
            if len(chosen) < count:
                found.append((dim, tuple(chosen)))
        return Selection(tuple(found), tuple((dim, each.value) for dim, each in self._models.items()))

    def choose(self, places: dict[str, int]) -> None:
        """Choose one label along some dimensions."""
        for dim, place in places.items():
            if dim in self._ranges:
                self._ranges[dim].value = (0, len(self._pool.labels[dim]) - 1)
            self._labels[dim].value = [place]


def worded(pool: Pool, selection: Selection) -> str:
    """A selection in words.

    Examples
    --------
    >>> import calibdask as cd
    >>> pool = Pool(cd.summarize([0, 1, 1], [0.2, 0.4, 0.6], by={"day": [1, 2, 3]}, settings=["binary"]))
    >>> worded(pool, Selection()), worded(pool, Selection((("day", (0, 1)),)))
    ('all rows', 'day 1, 2')
    >>> worded(pool, Selection((("day", (0, 1)),), is_others=True))
    'all rows but day 1, 2'
    """
    models = [f"{dim} {shown_label(pool.labels[dim][place])}" for dim, place in selection.models]
    slices = " · ".join(_slice_words(pool, selection))
    if selection.is_others:
        slices = f"all rows but {slices}"
    return " · ".join(filter(None, [*models, slices])) or "all rows"


def _slice_words(pool: Pool, selection: Selection) -> list[str]:
    """The labels of each dimension of which not all are selected."""
    words = []
    for dim, places in selection.slices:
        labels = [shown_label(pool.labels[dim][place]) for place in places]
        together = len(places) > 2 and places[-1] - places[0] == len(places) - 1 and _ordered(pool.labels[dim])
        if together:
            words.append(f"{dim} {labels[0]} to {labels[-1]}")
        elif len(labels) > _MOST_WORDS:
            words.append(f"{dim} {', '.join(labels[:_MOST_WORDS])} and {len(labels) - _MOST_WORDS} more")
        else:
            words.append(f"{dim} {', '.join(labels) or 'none'}")
    return words


def shown_label(label: Any) -> str:
    """A label as it is read: dates without a time of 0:00.

    Examples
    --------
    >>> import numpy as np
    >>> shown_label(np.datetime64("2026-01-01T00:00:00")), shown_label(3)
    ('2026-01-01', '3')
    """
    # Labels may be dates, or texts of dates.
    return _MIDNIGHT.sub("", str(label))


def _ordered(labels: Labels) -> bool:
    """Whether labels are dates or numbers in their order, so that periods mean something."""
    if len(labels) < 3:
        return False
    if labels.dtype.kind in "MmiufUOT":
        dates = labels.dtype.kind in "Mmiuf" or all(_DATE.fullmatch(str(label)) for label in labels)
        return dates and bool((labels[:-1] < labels[1:]).all())
    return False


def _options(labels: Labels) -> dict[str, int]:
    """Positions by label; labels that read alike are told apart."""
    words = [shown_label(label) for label in labels]
    often = Counter(words)
    return {word if often[word] == 1 else f"{word} ({place})": place for place, word in enumerate(words)}


def _model_widget(dim: str, labels: Labels, model: int) -> Any:
    import panel as pn

    return pn.widgets.Select(label=dim, options=_options(labels), value=min(model, len(labels) - 1), width=305)


def _label_widget(dim: str, labels: Labels) -> Any:
    import panel as pn

    return pn.widgets.MultiChoice(
        label=dim,
        # Boxes of this kind take labels for markup.
        options={escape(word): place for word, place in _options(labels).items()},
        placeholder=f"all {len(labels):,}",
        option_limit=_MOST_OPTIONS,
        search_option_limit=_MOST_OPTIONS,
        width=305,
    )


def _range_widget(dim: str, labels: Labels) -> Any:
    import panel as pn
    from bokeh.models import CustomJSTickFormatter

    words = [shown_label(label) for label in labels]
    shown = CustomJSTickFormatter(args={"words": words}, code="return words[Math.round(tick)]")
    last = len(labels) - 1
    return pn.widgets.IntRangeSlider(
        label=f"{dim} from to", start=0, end=last, value=(0, last), format=shown, width=295, bar_color="#0072B2"
    )
