"""Estimates as results: datasets whose variables say what they are. The one place that writes these attributes."""

import math
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask import __version__
from calibdask.data.input import Input
from calibdask.engine.axes import Axis
from calibdask.engine.row_notes import EXCLUDED_ROWS, NEGATIVE_LABELS
from calibdask.estimators.about import Description, PartInfo
from calibdask.estimators.as_json import as_json
from calibdask.estimators.cluster_totals import CLUSTER_TOTALS
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import Coordinate, Estimate, Part
from calibdask.estimators.slice_totals import TOTALS
from calibdask.estimators.without_interval import bare
from calibdask.inference.cluster_bootstrap import DESIGN_EFFECT
from calibdask.inference.ends import Bounds
from calibdask.results.format import counted, joined
from calibdask.safe_text import visible

# What p-values beside a number say; ends of intervals need no words.
_PVALUES = {
    "pvalue": "probability of a difference as large if there is none",
    "pvalue_holm": "p-value adjusted for multiple comparisons (Holm)",
    "pvalue_bh": "p-value adjusted for the false discovery rate (Benjamini-Hochberg)",
}

# The smallest p-value of a result, the smallest positive number.
LEAST_PVALUE = float(np.finfo(np.float64).smallest_subnormal)
_TOTALS = dict(
    zip(TOTALS, ("number of rows", "number of outcomes", "mean score", "frequency of the outcome"), strict=True)
)
_BOUNDS = ("low", "high")
# What datasets of results have as their attribute ``format``.
FORMAT = "calibdask result 1"
# Their attribute ``panel`` where nobody has named the metrics: tables show one number of each.
DEFAULT_PANEL = "default"
# Their attribute that says which metrics of a panel have no number, and why: a list of sentences.
METRICS_LEFT_OUT = "metrics_left_out"
# What is said of the scores, and of the clusters: a text, and a list of sentences.
SCORE_CAUTIONS, CLUSTER_NOTES = "score_cautions", "cluster_notes"
# The attributes of variables that say what they are; all others are notes on how they came about.
DESCRIBING = frozenset(
    {"metric", "part", "bound", "kind", "direction", "title", "label", "meaning", "definition", "source", "setting"}
    | {"estimator", "estimator_json", "quantity", "own_dims"}
)


def excluded_rows(attributes: Mapping[str, Any]) -> dict[str, int]:
    """The counts of rows that were left out, by `EXCLUDED_ROWS`, where there are any.

    Examples
    --------
    >>> excluded_rows({"rows": 9, "rows_skipped": 1, "missing_labels": 1})
    {'rows_skipped': 1, 'missing_labels': 1}
    """
    return {name: int(attributes[name]) for name in EXCLUDED_ROWS if name in attributes}


def missing_values(attributes: Mapping[str, Any]) -> str:
    """Numbers of rows left out by missing value, as text.

    Examples
    --------
    >>> missing_values({"missing_labels": 20, "missing_scores": 1, "missing_weights": 0})
    ' with missing values (label 20, score 1)'
    >>> missing_values({"rows_skipped": 22, "missing_labels": 20, "missing_scores": 6})
    ' with missing values (label 20, score 6; 4 rows lack both)'
    """
    counts = {role: attributes.get(f"missing_{role}s", 0) for role in ("label", "score", "weight")}
    lacking = [f"{role} {count:,}" for role, count in counts.items() if count]
    several = sum(counts.values()) - attributes.get("rows_skipped", math.inf)
    named = ", ".join(lacking)
    if several > 0:
        named += f"; {counted(several, 'row lacks', 'rows lack')} both" if len(lacking) == 2 else "; some lack several"
    without = attributes.get("missing_slices", 0)
    stay = f"; {without:,} rows without a slice form slices of their own" if without else ""
    stay = "; 1 row without a slice forms a slice of its own" if without == 1 else stay
    return f" with missing values{f' ({named})' if named else ''}{stay}"


def unused_rows(attributes: Mapping[str, Any], pending: str = "") -> str:
    """A sentence on the rows that no number or decision rests on; empty where there are none.

    ``pending`` are the rows of pending periods, in words.

    Examples
    --------
    >>> unused_rows({"rows_skipped": 5071, "missing_labels": 5071}, "6,628 rows of 4 pending months")
    '6,628 rows of 4 pending months and 5,071 rows without a label are not used.'
    >>> unused_rows({"rows_skipped": 3, "missing_labels": 2, "missing_scores": 1, "rows_ignored": 1})
    '3 rows with missing values (label 2, score 1) and 1 row with the ignored label are not used.'
    """
    skipped, ignored = attributes.get("rows_skipped", 0), attributes.get("rows_ignored", 0)
    roles = [role for role in ("label", "score", "weight") if attributes.get(f"missing_{role}s")]
    reason = f" without a {roles[0]}" if len(roles) == 1 else missing_values({**attributes, "missing_slices": 0})
    parts = [pending] if pending else []
    parts += [f"{counted(skipped, 'row')}{reason}"] if skipped else []
    parts += [f"{counted(ignored, 'row')} with the ignored label"] if ignored else []
    is_one = len(parts) == 1 and parts[0].startswith("1 row ")
    return f"{joined(parts)} {'is' if is_one else 'are'} not used." if parts else ""


def basis_sentences(dataset: xr.Dataset) -> list[str]:
    """Sentences on what the numbers of all rows rest on: the map of the scores, and the clusters of the rows."""
    mapped = dataset.attrs.get("map")
    said = [f"Scores were calibrated by {visible(str(mapped))}."] if mapped else []
    if "clusters" in dataset.coords and not dataset.coords["clusters"].ndim:
        clusters, worth = (float(dataset.coords[name]) for name in ("clusters", "effective_rows"))
        name = visible(str(dataset.attrs.get("groups", "groups")))
        equal = f", worth about {worth:,.0f} independent rows" if math.isfinite(worth) else ""
        said.append(f"Rows are clustered: {clusters:,.0f} clusters by {name}{equal}.")
    return said


def noted_rows(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The labels that count as negative, where there are several, and `excluded_rows`."""
    negative = {NEGATIVE_LABELS: str(attributes[NEGATIVE_LABELS])} if NEGATIVE_LABELS in attributes else {}
    return negative | excluded_rows(attributes)


def variable_name(metric: str, *parts: str) -> str:
    """The name of the variable of a part, or of a bound of it.

    Examples
    --------
    >>> variable_name("ece", ""), variable_name("corp", "score", "low")
    ('ece', 'corp_score_low')
    """
    return "_".join((metric, *filter(None, parts)))


def variable_attributes(
    metric: str, part: str, info: PartInfo, estimator: Estimator | None = None, *, setting: str = "", bound: str = ""
) -> dict[str, Any]:
    """Attributes that describe a variable.

    Examples
    --------
    >>> variable_attributes("mmce", "", PartInfo("a kernel error", "error", "zero"))
    {'part': '', 'metric': 'mmce', 'title': 'mmce', 'kind': 'error', 'direction': 'zero', 'meaning': 'a kernel error'}
    """
    attributes = {"metric": metric, "title": metric}
    if estimator is not None:
        about = estimator.declared
        attributes = {
            "metric": metric,
            "title": about.title or metric,
            "label": estimator.label,
            "definition": about.definition,
            "source": about.source,
            "setting": setting,
            "estimator": repr(estimator),
            "estimator_json": as_json(bare(estimator)),
        }
    attributes |= {"bound": bound, "kind": info.kind or "", "direction": info.direction or ""}
    attributes |= {"meaning": info.meaning, "quantity": info.quantity}
    return {"part": part, **{name: text for name, text in attributes.items() if text}}


def sentences_of(dataset: xr.Dataset, attribute: str) -> list[str]:
    """Read an attribute that is a list of sentences; stores keep a list of one as that sentence.

    Examples
    --------
    >>> sentences_of(xr.Dataset(attrs={"cluster_notes": "few clusters"}), "cluster_notes")
    ['few clusters']
    """
    return [str(sentence) for sentence in np.atleast_1d(dataset.attrs.get(attribute, [])).tolist()]


def beside_metrics(data: Input, chosen: Mapping[str, Estimator]) -> Input:
    """The input, whose slices with the name of a metric, or of a variable of it, have an underscore behind it."""
    variables = {
        variable_name(name, part, bound)
        for name, metric in chosen.items()
        for part in ("", *metric.describe(data.source.layout))
        for bound in ("", "low", "high")
    }
    names = names_beside([axis.name for axis in data.by], variables)
    by = (
        axis if name == axis.name else replace(axis, name=name, column=axis.given_name)
        for axis, name in zip(data.by, names, strict=True)
    )
    return replace(data, by=tuple(by))


def names_beside(names: Sequence[Hashable], variables: Container[Hashable]) -> list[Hashable]:
    """Names of slices, with underscores appended to names of variables.

    Examples
    --------
    >>> names_beside(["ece", "ece_", "day"], {"ece"})
    ['ece__', 'ece_', 'day']
    """
    free: list[Hashable] = []
    for name in names:
        longer = name
        while longer in variables or (longer != name and longer in (*names, *free)):
            longer = f"{longer}_"
        free.append(longer)
    return free


def check_names(chosen: Mapping[str, Estimator], names: Sequence[Hashable], class_dim: str) -> None:
    """Refuse names that the result could not hold apart.

    Raises
    ------
    ValueError
        If there are such.
    """
    for name in (*names, *chosen):
        if name in (*TOTALS, *CLUSTER_TOTALS):
            raise ValueError(
                f"The name {name!r} is taken: results have {', '.join((*TOTALS, *CLUSTER_TOTALS))} of each slice as "
                "coordinates; rename the metric, the name in by or the dimension of the input."
            )
    for name in names:
        if names.count(name) > 1 or name in chosen or name == class_dim:
            raise ValueError(
                f"The name {name!r} is used twice: dimensions of the input, names in by, metrics and the "
                "dimension of the classes must differ; rename one."
            )


@dataclass(frozen=True)
class DatasetBuilder:
    """A dataset in the making."""

    data: Input
    class_dim: str
    variables: dict[str, xr.Variable] = field(default_factory=dict)
    coordinates: dict[Hashable, Any] = field(default_factory=dict)

    def add(
        self,
        metric: str,
        estimator: Estimator,
        estimate: Estimate,
        bounds: Mapping[str, Bounds],
        axes: tuple[Axis, ...],
        description: Description | None = None,
    ) -> None:
        """Add an estimate and what bounds its parts.

        Values have the (flattened) axes in front of their own dimensions. ``description`` of the parts, where that of
        the estimator would not do.

        Raises
        ------
        ValueError
            If two variables would have the same name, or one that of a dimension.
        """
        self._add_labels(axes)
        layout = self.data.source.layout
        infos = estimator.describe(layout) if description is None else description
        setting = estimator.measured_setting(layout)
        for name, part in estimate.items():
            info = infos.get(name, PartInfo()).settled(part.kind)
            self._add(metric, part, variable_attributes(metric, name, info, estimator, setting=setting), axes)
        for name, of_part in bounds.items():
            info = infos.get(name, PartInfo()).settled(estimate[name].kind)
            for bound, part in of_part.items():
                words = {"setting": setting, "bound": bound}
                attributes = variable_attributes(metric, name, _of_bound(bound, info), estimator, **words)
                self._add(metric, part, attributes, axes)

    def _add(self, metric: str, part: Part, attributes: Mapping[str, Any], axes: tuple[Axis, ...]) -> None:
        name = attributes["part"]
        variable = variable_name(metric, name, attributes.get("bound", ""))
        if variable in {axis.name for axis in axes}:
            raise ValueError(
                f"The name {variable!r} is used twice: for a part of a metric, and for a dimension of the input or a "
                "name in by; rename one."
            )
        if variable in self.variables or variable in self.coordinates:
            raise ValueError(
                f"Two variables would be called {variable!r} (one of the metric {metric!r}); rename one of the metrics "
                "in the mapping."
            )
        if isinstance(part, Coordinate):
            self.coordinates[variable] = _coordinate(variable, part.values, {"metric": metric, "part": name})
            return
        own_dims = {"class": self.class_dim, "replicate": "replicate"}
        dims = [own_dims.get(dim, f"{metric}_{dim}") for dim in part.dims]
        # Those of classes, bins or scores; all other dimensions are shared by the variables of the result.
        population = {"population": self.data.population} if self.data.population else {}
        written = {**attributes, **part.notes, **population, **({"own_dims": dims} if dims else {})}
        shape = (*(axis.size for axis in axes), *part.values.shape[2:])
        names = (*(axis.name for axis in axes), *dims)
        values = part.values
        if attributes.get("kind") == "pvalue":
            # The null hypothesis is never impossible: a p-value of 0 has left the range of float64.
            values = np.maximum(values, LEAST_PVALUE)
        self.variables[variable] = xr.Variable(names, np.reshape(values, shape), written, fastpath=True)

    def add_totals(
        self, estimate: Estimate, estimator: Estimator, axes: tuple[Axis, ...], names_of_totals: Sequence[str] = TOTALS
    ) -> None:
        """Add rows, events, mean score and frequency of each slice, or other totals, as coordinates."""
        layout = self.data.source.layout
        infos, setting = estimator.describe(layout), str(layout.setting(None))
        sizes, names = tuple(axis.size for axis in axes), tuple(axis.name for axis in axes)
        for name, part in ((name, estimate[name]) for name in names_of_totals if name in estimate):
            dims = (*names, *(self.class_dim for _ in part.dims))
            values = np.reshape(part.values, (*sizes, *part.values.shape[2:]))
            attributes: dict[str, Any] = {"meaning": infos[name].meaning}
            attributes |= {} if name == "rows" else {"setting": setting}
            self.coordinates[name] = xr.Variable(dims, values, attributes, fastpath=True)

    def _add_labels(self, axes: tuple[Axis, ...]) -> None:
        for axis in axes:
            if axis.labels is not None and axis.name not in self.coordinates:
                self.coordinates[axis.name] = _coordinate(axis.name, axis.labels)

    def dataset(self, passes: int, batch: tuple[Axis, ...] | None = None, **attributes: Any) -> xr.Dataset:
        """The result dataset; give ``batch`` axes if they differ from the input's."""
        coordinates = dict(self.coordinates)
        variables = [*self.variables.values(), *(coordinates[name] for name in TOTALS if name in coordinates)]
        if any(self.class_dim in variable.dims for variable in variables):
            classes, labels = self.data.source.layout.classes, self.data.classes
            coordinates[self.class_dim] = _coordinate(self.class_dim, np.arange(classes) if labels is None else labels)
        axes = self.data.batch if batch is None else batch
        dims = {
            "slices": self.data.slice_names,
            "batch": [*(str(axis.name) for axis in axes), *self.data.batch_names],
        }
        names = {word: of_word for word, of_word in dims.items() if of_word}
        counted = {"rows": self.data.source.rows, "passes": passes, "calibdask_version": __version__}
        written = {**counted, **attributes, **names, "class_dim": self.class_dim, "format": FORMAT}
        return xr.Dataset(self.variables, coordinates, written)


def _coordinate(name: Hashable, values: Any, attributes: Mapping[str, Any] | None = None) -> xr.Variable:
    """The coordinate of a dimension.

    What is plain is not shown to xarray, which would import dask.array, a third of a second, to see whether it is lazy.
    """
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    plain = array.dtype.kind in "biufU" or (array.dtype.kind == "O" and all(isinstance(value, str) for value in array))
    return xr.Variable((name,), array if plain else values, attributes, fastpath=plain)


def _of_bound(bound: str, info: PartInfo) -> PartInfo:
    """Description of a bound: of the kind of its part, except for p-values and design effects."""
    if bound == DESIGN_EFFECT:
        return PartInfo("variance relative to that if rows were independent", "statistic", "none")
    if bound in _PVALUES:
        return PartInfo(_PVALUES[bound], "pvalue", "none")
    return replace(info, meaning="")


def described(
    infos: Mapping[str, PartInfo],
    values: Mapping[str, npt.NDArray[Any]],
    dims: Sequence[Hashable],
    coordinates: Mapping[Hashable, Any],
    setting: str,
    class_dim: str,
    **attributes: Any,
) -> xr.Dataset:
    """The dataset of these values, by name; ends of an interval are called ``<name>_low`` and ``<name>_high``.

    Rows, events, mean score and frequency become coordinates.
    """
    variables, totals = {}, {}
    for name, array in values.items():
        if name in _TOTALS:
            totals[name] = xr.Variable(dims, array, {"meaning": _TOTALS[name]})
            continue
        metric, _, bound = name.rpartition("_")
        if bound not in _BOUNDS or metric not in infos:
            metric, bound = name, ""
        info = infos[metric].settled("number")
        said = variable_attributes(metric, "", info, bound=bound) | {"setting": setting}
        if classes := [dim for dim in dims if dim == class_dim]:
            said["own_dims"] = classes
        # The null hypothesis is never impossible.
        variables[name] = xr.Variable(dims, np.maximum(array, LEAST_PVALUE) if info.kind == "pvalue" else array, said)
    written = {"passes": 0, "calibdask_version": __version__, "setting": setting, "class_dim": class_dim}
    written |= {**attributes, "format": FORMAT}
    return xr.Dataset(variables, {**coordinates, **totals}, written)
