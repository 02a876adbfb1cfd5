"""The widgets beside the page of a cube, and the view that they describe."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import xarray as xr

from calibdask.explore.cubes.aggregates import HOWS, NUMBERED, Step
from calibdask.explore.cubes.suggested_view import suggested
from calibdask.explore.cubes.variables import interval_ends, references_of, titles_of, variables_of
from calibdask.explore.cubes.views import ERRORS, CubeView, Reference, labels_of
from calibdask.explore.html_widgets import html_pane, label_slider, multi_choice, range_slider
from calibdask.markup import Html
from calibdask.study.reading import cell_dims

_X, _LINES, _PANELS, _FIXED = "along the x axis", "a line each", "a panel each", "one label"
_STEPS = ("aggregated first", "aggregated second", "aggregated third")
_ROLES = [_X, _LINES, _PANELS, _FIXED, *_STEPS]
_PLAIN = "nothing"
_BANDS = {"none": None, "middle half": (0.25, 0.75), "middle 90 %": (0.05, 0.95)}
_STORED = "stored interval"
_SCALES = ["auto", "log", "linear"]
# Longer dimensions have a slider: boxes would send all labels to the browser.
_MOST_BOXES = 250


class Controls:
    """Widgets for all dimensions of a cube; those that the variable does not have are hidden.

    Parameters
    ----------
    dataset : xarray.Dataset
    changed : function
        Called after each change, often several times for one.
    """

    def __init__(self, dataset: xr.Dataset, changed: Callable[[], object]) -> None:
        import panel as pn

        self._dataset, self._changed, self._quiet = dataset, changed, False
        names = variables_of(dataset)
        dims = dict.fromkeys(str(dim) for name in names for dim in dataset[name].dims)
        self._titles = titles_of(dataset)
        self.variable = pn.widgets.Select(label="Values of", options=self._options(names), **_WIDE)
        self.against = pn.widgets.Select(label="compared with", options=self._options(names, _PLAIN), **_WIDE)
        self.error = pn.widgets.Select(label="as", options=[*ERRORS], **_WIDE)
        self.choices = {dim: self._choice(dim) for dim in dims}
        self.roles = {dim: self._role_of(dim) for dim in dims}
        self.only = {dim: self._filter(dim) for dim in dims}
        self.at = {dim: self._choice(dim) for dim in dims}
        self.hows = [pn.widgets.Select(options=[*HOWS], **_WIDE) for _ in _STEPS]
        self.numbers = [pn.widgets.FloatInput(value=0.95, step=0.05, **_WIDE) for _ in _STEPS]
        self.band = pn.widgets.Select(label="Band around each line", options=[*_BANDS, _STORED], **_WIDE)
        self.scales = {
            axis: pn.widgets.RadioButtonGroup(label=f"{axis} axis", options=_SCALES, variant="outline", **_WIDE)
            for axis in ("x", "y")
        }
        self.same = pn.widgets.Checkbox(label="same y axis in all panels", value=True)
        cells = cell_dims(dataset)
        # Cells come last: dimensions within them are used more often.
        order = sorted(dims, key=lambda dim: dim in cells)
        self._cards = {dim: pn.Row(self.roles[dim], self.at[dim], self.only[dim], **_WIDE) for dim in order}
        self._suggest()
        self._settle()
        self._watch()

    def _options(self, names: list[str], *first: str) -> dict[str, str]:
        """Names of variables by what they are called."""
        return {**dict(zip(first, first, strict=True)), **{self._titles.get(name, name): name for name in names}}

    def _role_of(self, dim: str) -> Any:
        """Widget for the role of a dimension."""
        import panel as pn

        size = f"{dim} ({self._dataset.sizes[dim]:,})"
        return pn.widgets.Select(label=size, options=_ROLES, styles=_ROLE, **_WIDE)

    def _choice(self, dim: str) -> Any:
        """One label of a dimension."""
        import panel as pn

        labels = {str(label): label for label in labels_of(self._dataset, dim)}
        kind = pn.widgets.Select if len(labels) <= _MOST_BOXES else label_slider
        return kind(label=f"{dim}: label", options=labels, styles={"flex": "1 1 110px", "min-width": "0"}, **_WIDE)

    def _filter(self, dim: str) -> Any:
        """The labels of a dimension that are shown."""
        labels = labels_of(self._dataset, dim)
        if len(labels) <= _MOST_BOXES:
            options = {str(label): label for label in labels}
            look = {"stylesheets": [_CHIPS], "styles": {"flex": "1 1 0", "min-width": "0"}, **_WIDE}
            return multi_choice(options, label=f"{dim}: only these", placeholder=f"all {len(labels)}", **look)
        last = len(labels) - 1
        return range_slider(f"{dim}, positions", last, **_WIDE)

    @property
    def widgets(self) -> dict[str, Any]:
        """All of them by their names in the URL, the ones that others depend on first."""
        return {
            "values": self.variable,
            "against": self.against,
            "as": self.error,
            **{f"its.{dim}": widget for dim, widget in self.choices.items()},
            **{f"role.{dim}": widget for dim, widget in self.roles.items()},
            **{f"only.{dim}": widget for dim, widget in self.only.items()},
            **{f"at.{dim}": widget for dim, widget in self.at.items()},
            **{f"how.{number + 1}": widget for number, widget in enumerate(self.hows)},
            **{f"q.{number + 1}": widget for number, widget in enumerate(self.numbers)},
            "band": self.band,
            **{f"{axis}.scale": widget for axis, widget in self.scales.items()},
            "same": self.same,
        }

    @property
    def side(self) -> list[Any]:
        """The widgets in groups, as they stand on the page."""
        import panel as pn

        choices = pn.Row(*self.choices.values(), styles={"flex-wrap": "wrap"}, **_WIDE)
        compared = pn.Column(self.variable, self.against, self.error, choices, **_WIDE)
        steps = [pn.Row(how, number, **_WIDE) for how, number in zip(self.hows, self.numbers, strict=True)]
        axes = [_heading("Axes"), self.band, *self._scale_rows(), self.same]
        dims = [_heading("Dimensions"), *self._cards.values()]
        # One root instead of thirty: a document is traversed for each root.
        return [pn.Column(compared, *dims, _heading("Aggregation, one after the other"), *steps, *axes, **_WIDE)]

    def _scale_rows(self) -> list[Any]:
        import panel as pn

        return [
            pn.Row(html_pane(axis, width=14, margin=(12, 0, 0, 10)), widget, **_WIDE)
            for axis, widget in self.scales.items()
        ]

    def view(self) -> CubeView:
        """The view that the widgets describe."""
        dims = self._dims
        by_role = {role: tuple(dim for dim in dims if self.roles[dim].value == role) for role in _ROLES}
        steps = tuple(
            Step(how.value, by_role[role], float(number.value or 0))
            for role, how, number in zip(_STEPS, self.hows, self.numbers, strict=True)
            if by_role[role]
        )
        return CubeView(
            self.variable.value,
            x=next(iter(by_role[_X]), ""),
            lines=by_role[_LINES],
            panels=by_role[_PANELS],
            steps=steps,
            at=tuple((dim, self.at[dim].value) for dim in by_role[_FIXED]),
            only=tuple(self._chosen(dim) for dim in dims if dim not in by_role[_FIXED] and self._chosen(dim)[1]),
            reference=self._reference(),
            band=self._band(),
            title=self._titles.get(self.variable.value, ""),
        )

    def _chosen(self, dim: str) -> tuple[str, tuple[Any, ...]]:
        """The labels of a dimension that are shown; none for all."""
        value = self.only[dim].value
        if isinstance(value, list):
            return dim, tuple(value)
        first, last = value
        labels = labels_of(self._dataset, dim)
        return dim, () if last - first + 1 == len(labels) else tuple(labels[first : last + 1])

    def _reference(self) -> Reference | None:
        if self.against.value == _PLAIN:
            return None
        at = tuple((dim, self.choices[dim].value) for dim in self._extra())
        return Reference(self.against.value, at, self.error.value, self._titles.get(self.against.value, ""))

    def _band(self) -> Any:
        if self.band.value != _STORED:
            return _BANDS[self.band.value]
        return None if self._reference() else interval_ends(self._dataset, self.variable.value)

    @property
    def _dims(self) -> list[str]:
        return [str(dim) for dim in self._dataset[self.variable.value].dims]

    def _extra(self) -> list[str]:
        """Dimensions that only the reference has."""
        if self.against.value == _PLAIN:
            return []
        return [str(dim) for dim in self._dataset[self.against.value].dims if dim not in self._dims]

    def _suggest(self) -> None:
        """Take the first view of the variable."""
        view = suggested(self._dataset, self.variable.value)
        self.against.options = self._options(references_of(self._dataset, self.variable.value), _PLAIN)
        self.against.value = view.reference.variable if view.reference else _PLAIN
        only, at = dict(view.only), dict(view.at)
        for number, step in enumerate(view.steps):
            self.hows[number].value, self.numbers[number].value = step.how, step.number
        for dim in self._dims:
            self.roles[dim].value = self._role(view, dim)
            if isinstance(self.only[dim].value, list):
                self.only[dim].value = list(only.get(dim, ()))
            if dim in at:
                self.at[dim].value = at[dim]
        ends = interval_ends(self._dataset, self.variable.value)
        self.band.options = [*_BANDS, *([_STORED] if ends else [])]
        self.band.value = _STORED if view.band else next(iter(_BANDS))

    def _role(self, view: CubeView, dim: str) -> str:
        for role, dims in ((_X, (view.x,)), (_LINES, view.lines), (_PANELS, view.panels)):
            if dim in dims:
                return role
        return next((_STEPS[number] for number, step in enumerate(view.steps) if dim in step.dims), _FIXED)

    def _watch(self) -> None:
        self.variable.param.watch(self._renewed, "value")
        for dim, role in self.roles.items():
            role.param.watch(lambda event, dim=dim: self._moved(dim, event), "value")
        for name, widget in self.widgets.items():
            if name != "values":
                widget.param.watch(self._notify, "value")

    def _renewed(self, _: Any) -> None:
        with self._at_once():
            self._suggest()

    def _moved(self, dim: str, event: Any) -> None:
        """One dimension is along the x axis: the one that was there takes the role of the new one."""
        if self._quiet or event.new != _X:
            return
        with self._at_once():
            for other in self._dims:
                if other != dim and self.roles[other].value == _X:
                    self.roles[other].value = event.old

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Several changes are reported as one."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before
        self._notify()

    def _notify(self, *_: Any) -> None:
        if not self._quiet:
            self._settle()
            self._changed()

    def _settle(self) -> None:
        """Show the widgets that have an effect now."""
        dims, extra = self._dims, self._extra()
        self.error.visible = self.against.value != _PLAIN
        against = self._titles.get(self.against.value, self.against.value)
        for dim, choice in self.choices.items():
            choice.visible, choice.label = dim in extra, f"{against}: {dim}"
        for dim, widget in self.roles.items():
            is_fixed = widget.value == _FIXED
            self.at[dim].visible, self.only[dim].visible = is_fixed, not is_fixed and self._dataset.sizes[dim] > 1
            self._cards[dim].visible = dim in dims
        for role, how, number in zip(_STEPS, self.hows, self.numbers, strict=True):
            aggregated = [dim for dim in dims if self.roles[dim].value == role]
            how.visible, number.visible = bool(aggregated), bool(aggregated) and how.value in NUMBERED
            how.label = f"{role}: over {', '.join(aggregated)}"
            number.label = NUMBERED.get(how.value, "")


# Chosen labels: small and pale, since there may be many.
_CHIPS = """
:host .choices { margin: 0; }
:host .choices__inner { min-height: 30px !important; padding: 2px 4px !important; max-height: 190px; overflow-y: auto; }
:host .choices__list--multiple .choices__item { font-size: 12px; padding: 0 5px; margin: 1px 3px 1px 0; color: #1c3a52;
  background: var(--chip, #dce9f3) !important; border: 0 !important; border-radius: 3px; }
:host .choices__list--multiple .choices__item .choices__button { border: 0; padding: 0 0 0 10px; margin: 0 -2px 0 2px;
  filter: var(--chip-cross, invert(1)); opacity: .6; }
:host .choices__input { margin: 0; padding: 2px; font-size: 13px; background: transparent; }
"""
# Room for all of the words of a role.
_ROLE = {"flex": "0 0 162px", "min-width": "0"}
_WIDE: Mapping[str, Any] = {"sizing_mode": "stretch_width"}


def _heading(text: str) -> Any:
    return html_pane(Html("<b>{}</b>").format(text), margin=(12, 10, 0, 10))
