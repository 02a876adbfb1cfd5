"""Widgets that choose slices of a summary, and the selection as text."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from calibdask.explore.html_widgets import multi_choice, range_slider
from calibdask.explore.summaries.pool import Labels, Pool, Selection
from calibdask.safe_text import visible

# Labels that are offered at a time.
_MOST_OFFERED = 50


class LongChoice:
    """A box of chosen labels, which has few of many options, and one that finds others.

    Parameters
    ----------
    label : str
    options : mapping from str to int
        All labels with their positions from 0.
    """

    def __init__(self, label: str, options: Mapping[str, int], **look: Any) -> None:
        import panel as pn

        self._options, self._texts = options, list(options)
        self.box: Any = multi_choice(
            dict(islice(options.items(), _MOST_OFFERED)),
            label=label,
            placeholder=f"all {len(options):,}",
            option_limit=_MOST_OFFERED,
            search_option_limit=_MOST_OFFERED,
            **look,
        )
        # What links name, and what has to be done before a value is set, see `explore.url_state`.
        vars(self.box).update(all_options=options, offer=self.offer)
        self.find = pn.widgets.TextInput(label=f"{label}: find", placeholder="part of a label", **look)
        self.find.param.watch(lambda event: self._offer_matches(str(event.new)), "value_input")

    def offer(self, positions: Iterable[int]) -> None:
        """Make options of labels, so that they can be chosen."""
        missing = {self._texts[position]: position for position in positions} | dict(self.box.options)
        if len(missing) > len(self.box.options):
            self.box.options = missing

    def _offer_matches(self, text: str) -> None:
        words = text.casefold()
        found = islice((label for label in self._texts if words in label.casefold()), _MOST_OFFERED)
        # Options that go take their values with them.
        chosen = [self._texts[position] for position in self.box.value]
        self.box.options = {label: self._options[label] for label in (*chosen, *found)}


DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([ T].*)?")
_MIDNIGHT = re.compile(r"(?<=^\d{4}-\d{2}-\d{2})[T ]00:00(:00(\.0+)?)?$")
# A list of more labels than these is searched rather than read.
_MOST_OPTIONS = 50
# More labels than these are not all sent to the browser.
_MOST_SENT = 2000
_MOST_LABELS = 4


class SelectionWidgets:
    """The widgets of one selection: models, labels of slices, and periods of those that are ordered.

    Parameters
    ----------
    pool : Pool
    mark : str
        Prefix of their names in the URL.
    model : int
        Index of the model that is chosen by default, if there are so many.
    """

    def __init__(self, pool: Pool, mark: str, model: int = 0) -> None:
        self._pool, self._mark = pool, mark
        self.models = {dim: _model_widget(dim, pool.labels[dim], model) for dim in pool.models}
        self.ranges = {
            dim: range_widget(f"{dim}, range", pool.labels[dim]) for dim in pool.slices if ordered(pool.labels[dim])
        }
        self._long = {
            dim: LongChoice(dim, _options(pool.labels[dim]), width=305)
            for dim in pool.slices
            if len(pool.labels[dim]) > _MOST_SENT
        }
        self.labels = {
            dim: self._long[dim].box if dim in self._long else _label_widget(dim, pool.labels[dim])
            for dim in pool.slices
        }

    @property
    def widgets(self) -> dict[str, Any]:
        """All of them, by their names in the URL."""
        kinds = (("", self.models), ("-range", self.ranges), ("", self.labels))
        return {f"{self._mark}-{dim}{kind}": widget for kind, by_dim in kinds for dim, widget in by_dim.items()}

    @property
    def of_models(self) -> list[Any]:
        """Widgets that choose models, from top to bottom."""
        return [*self.models.values()]

    @property
    def of_slices(self) -> list[Any]:
        """Widgets that choose slices, from top to bottom, grouped by dimension."""
        finds = {dim: choice.find for dim, choice in self._long.items()}
        return [by_dim[dim] for dim in self.labels for by_dim in (self.ranges, self.labels, finds) if dim in by_dim]

    @property
    def listed(self) -> list[Any]:
        """All of them from the top."""
        return [*self.of_models, *self.of_slices]

    def selection(self) -> Selection:
        """The selection; without chosen labels, all labels of the range."""
        slices = []
        for dim in self._pool.slices:
            count = len(self._pool.labels[dim])
            first, last = self.ranges[dim].value if dim in self.ranges else (0, count - 1)
            chosen = [index for index in sorted(self.labels[dim].value or range(count)) if first <= index <= last]
            if len(chosen) < count:
                slices.append((dim, tuple(chosen)))
        return Selection(tuple(slices), tuple((dim, widget.value) for dim, widget in self.models.items()))

    def choose(self, indexers: Mapping[str, int | None]) -> None:
        """Choose one label along some dimensions, or all where it is None; a model along one of models."""
        for dim, index in indexers.items():
            if dim in self.models:
                self.models[dim].value = index
                continue
            if dim in self.ranges:
                self.ranges[dim].value = (0, len(self._pool.labels[dim]) - 1)
            if dim in self._long and index is not None:
                self._long[dim].offer([index])
            self.labels[dim].value = [] if index is None else [index]

    def toggle(self, indexers: Mapping[str, int | None]) -> None:
        """Select one label along some dimensions; deselect it if it is selected already, for the current model."""
        models = [(self.models[dim].value, index) for dim, index in indexers.items() if dim in self.models]
        slices = {dim: index for dim, index in indexers.items() if dim in self.labels}
        wanted = [(self.labels[dim].value, [] if index is None else [index]) for dim, index in slices.items()]
        if slices and all(now == asked for now, asked in (*models, *wanted)):
            self.choose(dict.fromkeys(slices))
        else:
            self.choose(indexers)

    def clear(self) -> None:
        """All slices again, of the model that is chosen."""
        self.choose(dict.fromkeys(self.labels))


def selection_text(pool: Pool, selection: Selection) -> str:
    """A selection as text.

    Examples
    --------
    >>> import calibdask as cd
    >>> pool = Pool(cd.summarize([0, 1, 1], [0.2, 0.4, 0.6], by={"day": [1, 2, 3]}, settings=["binary"]))
    >>> selection_text(pool, Selection()), selection_text(pool, Selection((("day", (0, 1)),)))
    ('all rows', 'day 1, 2')
    >>> selection_text(pool, Selection((("day", (0, 1)),), is_others=True))
    'all rows but day 1, 2'
    """
    models = [f"{dim} {label_text(pool.labels[dim][index])}" for dim, index in selection.models]
    slices = " · ".join(slice_texts(pool, selection))
    if selection.is_others:
        slices = f"all rows but {slices}"
    return " · ".join(filter(None, [*models, slices])) or "all rows"


def slice_texts(pool: Pool, selection: Selection) -> list[str]:
    """Labels of each dimension that is only partly selected."""
    texts = []
    for dim, indices in selection.slices:
        labels = [label_text(pool.labels[dim][index]) for index in indices]
        is_run = len(indices) > 2 and indices[-1] - indices[0] == len(indices) - 1
        if is_run and ordered(pool.labels[dim]):
            texts.append(f"{dim} {labels[0]} to {labels[-1]}")
        elif len(labels) > _MOST_LABELS:
            texts.append(f"{dim} {', '.join(labels[:_MOST_LABELS])} and {len(labels) - _MOST_LABELS} more")
        else:
            texts.append(f"{dim} {', '.join(labels) or 'none'}")
    return texts


def label_text(label: Any) -> str:
    """A label as text, whose signs all show: dates without a time of 0:00.

    Examples
    --------
    >>> import numpy as np
    >>> label_text(np.datetime64("2026-01-01T00:00:00")), label_text(3)
    ('2026-01-01', '3')
    """
    # Labels may be dates, or texts of dates.
    return visible(_MIDNIGHT.sub("", str(label)))


def ordered(labels: Labels) -> bool:
    """Whether labels are dates or numbers in their order, so that a range of them is a period."""
    if len(labels) < 3:
        return False
    if labels.dtype.kind in "MmiufUOT":
        is_date = labels.dtype.kind in "Mmiuf" or all(DATE.fullmatch(str(label)) for label in labels)
        return is_date and bool((labels[:-1] < labels[1:]).all())
    return False


def _options(labels: Labels) -> dict[str, int]:
    """Positions by label; equal texts are numbered."""
    texts = [label_text(label) for label in labels]
    count = Counter(texts)
    return {text if count[text] == 1 else f"{text} ({index})": index for index, text in enumerate(texts)}


def _model_widget(dim: str, labels: Labels, model: int) -> Any:
    import panel as pn

    return pn.widgets.Select(label=dim, options=_options(labels), value=min(model, len(labels) - 1), width=305)


def _label_widget(dim: str, labels: Labels) -> Any:
    return multi_choice(
        _options(labels),
        label=dim,
        placeholder=f"all {len(labels):,}",
        option_limit=_MOST_OPTIONS,
        search_option_limit=_MOST_OPTIONS,
        width=305,
    )


def range_widget(name: str, labels: Labels, value: tuple[int, int] | None = None) -> Any:
    """A slider of two ends along labels in their order, by position; all of them without a value."""
    texts = [label_text(label) for label in labels]
    return range_slider(name, len(labels) - 1, texts=texts, value=value, width=295, bar_color="#0072B2")
