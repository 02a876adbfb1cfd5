"""Summaries as one object: the dataset, the source that answers from it, its slices and classes."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.engine.axes import Axis, slice_dimension
from calibdask.engine.row_notes import RowNotes
from calibdask.engine.sources.summary import StoredClusters, SummarySource
from calibdask.safe_text import listed
from calibdask.statistics.bins.grid import GridHistogram
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.storage.period_labels import are_periods
from calibdask.storage.sparse_files import decoded
from calibdask.storage.summary_cluster_weights import cluster_weighted
from calibdask.storage.summary_clusters import bucket_view, by_bucket, cluster_rows
from calibdask.storage.summary_format import (
    FORMAT,
    MARK,
    class_labels,
    extra_dims,
    is_marked,
    rows_of,
    scalar,
    stored_notes,
    stored_scores,
    stored_states,
    variables_of,
    with_notes,
)
from calibdask.storage.summary_lattice import Cuts, stored_cuts
from calibdask.storage.summary_totals import with_totals


@dataclass(frozen=True, eq=False)
class Summary:
    """A summary by `calibdask.summarize`, in memory or in a file; numbers are read lazily.

    Attributes
    ----------
    dataset : xarray.Dataset
    source : SummarySource
        Answers requests from the histograms.
    axes : tuple of Axis
        All dimensions of the numbers of rows: slices, and models or replicates.
    batch : tuple of str
        The dimensions of models or replicates: summing over them would count rows twice.
    class_labels : array or None
        Names of the classes, if a variable has them.
    url : str
        Location of the summary; empty for one in memory.
    by_period : Summary or None
        The same summary with no slices other than periods, if the store has it: it is read without reading slices.
    period : str or None
        The name of the periods, for a store of periods.

    Examples
    --------
    >>> import calibdask as cd
    >>> y_true, y_prob, day = [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], ["mon", "mon", "tue", "tue"]
    >>> summary = Summary.of(cd.summarize(y_true, y_prob, by={"day": day}, settings=["binary"]))
    >>> summary.slices, summary.rows, summary.pooled().axes
    (('day',), 4, ())
    """

    kind: ClassVar[str] = "a stored summary"
    mend: ClassVar[str] = "evaluate it by calibdask evaluate, or calibdask.evaluate, as it is"

    dataset: xr.Dataset
    source: SummarySource
    axes: tuple[Axis, ...]
    batch: tuple[str, ...]
    class_labels: Any
    url: str = ""
    by_period: "Summary | None" = None
    period: str | None = None

    @classmethod
    def passed_to(cls, caller: str, given: Any) -> "Summary":
        """The summary that was passed to the function ``caller``.

        Raises
        ------
        TypeError
            If it is no summary.
        """
        if not is_summary(given):
            raise TypeError(f"{caller} expects a summary of calibdask.summarize, got {type(given).__name__}.")
        return cls.of(given)

    @classmethod
    def of(cls, given: "Summary | xr.Dataset", url: str = "") -> "Summary":
        """The summary in a dataset; one that is a `Summary` already is returned as it is.

        Raises
        ------
        ValueError
            If the dataset has another format, or lacks variables or coordinates; if it is a sum that has lost slices,
            or of models. Other sums are checked when they are read.
        """
        if isinstance(given, cls):
            return given
        assert isinstance(given, xr.Dataset)
        given = decoded(given, MARK, FORMAT)
        states = stored_states(given)
        axes = tuple(_axis(given, name) for name in given["rows"].dims)
        batch = extra_dims(given)
        layout = Layout(
            groups=math.prod(axis.size for axis in axes),
            classes=int(scalar(given, "classes")),
            vector=bool(scalar(given, "vector")),
            weighted=any(str(name).endswith("_square") for name in given.data_vars),
        )
        clusters = _stored_clusters(given, layout, batch)
        if clusters is not None:
            layout = replace(layout, clustered=True, buckets=clusters.view.count)
        labels = class_labels(given) if any(histogram.setting.per_class for histogram in states) else None
        source = SummarySource(states, layout, rows_of(given), stored_scores(given), clusters)
        return cls(given, source, axes, batch, labels, url)

    @property
    def usual_period(self) -> str:
        """Name of the slices of time: the periods of a store, else ``day``, else the only slices that are dates.

        Examples
        --------
        >>> import calibdask as cd
        >>> by = {"when": ["2026-01", "2026-02"], "country": ["de", "fr"]}
        >>> Summary.of(cd.summarize([0, 1], [0.2, 0.4], by=by)).usual_period
        'when'
        """
        if self.period is not None or "day" in self.slices:
            return self.period or "day"
        dated = [name for name in self.slices if are_periods(self.labels[name])]
        return dated[0] if len(dated) == 1 else "day"

    @property
    def slices(self) -> tuple[str, ...]:
        """Names of the slices."""
        return tuple(str(axis.name) for axis in self.axes if axis.name not in self.batch)

    @property
    def labels(self) -> dict[str, npt.NDArray[Any]]:
        """Labels along all axes, by name; positions where an axis has none."""
        return {str(axis.name): np.arange(axis.size) if axis.labels is None else axis.labels for axis in self.axes}

    @property
    def classes(self) -> npt.NDArray[Any]:
        """Names of the classes; their numbers where they have none."""
        return np.arange(self.source.layout.classes) if self.class_labels is None else np.asarray(self.class_labels)

    @property
    def rows(self) -> int:
        """Number of rows of all slices."""
        return self.source.rows or 0

    @cached_property
    def notes(self) -> RowNotes:
        """The notes on the rows; counts are not known of a selection, or a sum by xarray."""
        return stored_notes(self.dataset).of_rows(self.rows)

    @property
    def step(self) -> float:
        """Width of the cells of the grid."""
        return 1 / int(scalar(self.dataset, "cells"))

    def has_histogram(self, setting: Setting) -> bool:
        """Whether a histogram answers for a setting."""
        return self.source.has_histogram(setting)

    def variables(self, setting: Setting, *, on_support: bool = True) -> list[str]:
        """The variables of all histograms that answer for a setting, also those on a smaller interval of scores."""
        telling = (histogram for histogram in self._telling(setting) if on_support or not histogram.grid.low)
        return [name for histogram in telling for name in variables_of(self.dataset, histogram)]

    @cached_property
    def cuts(self) -> Cuts | None:
        """How features are cut into segments; None without features."""
        return stored_cuts(self.dataset)

    @property
    def histogram_variables(self) -> list[str]:
        """The variables of all histograms."""
        return [name for histogram in self.source.histograms for name in variables_of(self.dataset, histogram)]

    @property
    def cluster_weighted(self) -> "Summary | None":
        """The summary with weights in which each cluster counts once in each period; None without."""
        weighted = cluster_weighted(self.dataset)
        return None if weighted is None else Summary.of(weighted, self.url)

    def pooled(self, by: Sequence[str] = ()) -> "Summary":
        """The summary with only these slices, in this order; all others are pooled.

        Raises
        ------
        ValueError
            If it does not have these slices.
        """
        by = [name if name in self.slices else str(slice_dimension(name)) for name in by]
        if unknown := [name for name in by if name not in self.slices]:
            raise ValueError(
                f"by expects slices of the summary, {listed(self.slices) or 'none'}, got {listed(unknown)}."
            )
        if tuple(by) == self.slices:
            return self
        if self.by_period is not None and {*by} <= {*self.by_period.slices}:
            return self.by_period.pooled(by)
        gone = [axis.name for axis in self.axes if axis.name not in self.batch and str(axis.name) not in by]
        # Missing weights stay visible as such: nothing is skipped.
        summed = self.dataset.sum(gone, skipna=False, keep_attrs=True) if gone else self.dataset
        # What is summed has been checked: it is one summary again, of which slices may be selected.
        if gone:
            summed = with_notes(summed, self.notes.of_other_slices())
        return Summary.of(with_totals(summed.transpose(*self.batch, *dict.fromkeys(by), ...), self.batch), self.url)

    def _telling(self, setting: Setting) -> list[GridHistogram]:
        layout, histograms = self.source.layout, self.source.histograms
        return [kept for kept in histograms if SummarySource({kept: _unread}, layout).has_histogram(setting)]


def _stored_clusters(given: xr.Dataset, layout: Layout, batch: tuple[str, ...]) -> StoredClusters | None:
    """The clusters of a summary; None without."""
    view = bucket_view(given)
    if view is None:
        return None
    own = by_bucket(given, batch)
    source = SummarySource(stored_states(own), view.layout(layout), None, stored_scores(own))
    return StoredClusters(view, source, partial(cluster_rows, given, batch))


def is_summary(given: Any) -> bool:
    """Whether this is a summary, as a dataset or as an object."""
    return isinstance(given, Summary) or (isinstance(given, xr.Dataset) and is_marked(given))


def _axis(dataset: xr.Dataset, name: Hashable) -> Axis:
    return Axis(name, dataset.sizes[name], dataset[name].values if name in dataset.coords else None)


def _unread() -> Any:
    raise AssertionError("A histogram was read although only its setting was requested.")
