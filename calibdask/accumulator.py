"""`Accumulator`: metrics of rows that come part by part, as in a training loop, in constant memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.accumulated_state import (
    CHECKSUM,
    LAYOUT,
    LAYOUT_SIZE,
    ROWS,
    as_numbers,
    check_intact,
    check_possible,
    check_shapes,
    checksum,
    described,
    entry_name,
    expected_layout,
    from_numbers,
    histograms_support,
    identity,
    kept_statistics,
    refusal,
    state_arrays,
)
from calibdask.analyses.evaluation import evaluated, interval_choice
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions, Task
from calibdask.engine.dry_run import NotOnePass, no_rows, requests_of_one_pass
from calibdask.engine.row_notes import LABELS, NOTES, RowNotes
from calibdask.engine.sources.accumulated import AccumulatedSource
from calibdask.engine.sources.source import RowSource, apart, merged, states_of
from calibdask.estimators.metrics import Metrics, named_metrics
from calibdask.estimators.smooth.gridded import check_step
from calibdask.inference.methods import Method
from calibdask.safe_text import listed
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.counts import RowCount
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic
from calibdask.storage.summary_clusters import check_buckets

_SETTINGS = ("confidence", "classwise")
# Of scores whose number of columns is not known yet.
_ANY = (Layout(), Layout(classes=3, vector=False))


class Accumulator:
    """Metrics of rows that arrive in batches, equal to `calibdask.evaluate` on all rows, without keeping any rows.

    Parameters
    ----------
    metrics : estimator, sequence, or mapping from name to estimator, optional
        As for `calibdask.evaluate`. None: the default metrics of a summary.
    settings : sequence of str or int, optional
        Settings whose fine histograms are kept as well, as by `calibdask.summarize`, with the sums of proper scores.
        They provide intervals, and metrics that would need several passes, with equal-mass bins on cell boundaries.
        None: confidence and classwise without ``metrics``, otherwise no histograms.
    step : float, default 0.0003
        Largest width of a cell of these histograms.
    classes : int, optional
        Number of columns of the scores, 1 for a vector of P(y = 1). None: taken from the first update.
    weighted : bool, default False
        With ``classes``: whether updates have weights, if a state is requested before the first update.
    task, logits, labels, pos_label, ignore_label, sum_tolerance, skip_missing
        As for `calibdask.evaluate`.
    buckets : int, optional
        Number of buckets of clusters, as of `calibdask.summarize`, for dependent rows: updates have ``groups``, and
        intervals are those of clusters. Memory: 10 MB for each class of ``settings`` with 64 buckets.

    Raises
    ------
    ValueError
        If a metric cannot be computed in one pass, because it compares pairs of rows, reads them several times, or
        depends on their order. The message names the metric and the reason.

    Notes
    -----
    Without weights, metrics computed in one pass equal those of `calibdask.evaluate` on all rows to the last bit, for
    any division into updates, processes and order; with weights up to rounding. Memory: the states of the metrics, a
    few kB; 156 kB for each class of ``settings`` (312 kB with weights).

    *Damage.* States carry a checksum that adds up like everything else, and the identity of the metrics and settings.
    `load_state_dict` rejects a state that was changed, or that no rows can produce.

    *Several processes.* All entries of `state_dict` are arrays of int64, with weights also of float64; added up entry
    by entry over up to 2047 processes, they are the state of all rows. With ``torch.distributed``, and ``classes``
    given so that processes without rows take part::

        state = {name: torch.from_numpy(array) for name, array in accumulator.state_dict().items()}
        for tensor in state.values():
            torch.distributed.all_reduce(tensor)
        accumulator.load_state_dict(state)

    Examples
    --------
    >>> import calibdask as cd
    >>> accumulator = cd.Accumulator([cd.ECE(bins=2), cd.BrierScore()])
    >>> for y_true, y_prob in [([0, 1], [0.2, 0.4]), ([1, 1], [0.6, 0.8])]:
    ...     _ = accumulator.update(y_true, y_prob)
    >>> result = accumulator.result()
    >>> round(float(result.ece), 12), round(float(result.brier_score), 12)
    (0.25, 0.15)
    """

    def __init__(
        self,
        metrics: Metrics | None = None,
        *,
        settings: Sequence[str | int] | str | int | None = None,
        step: float = 0.0003,
        classes: int | None = None,
        weighted: bool = False,
        task: Task | None = None,
        logits: bool = False,
        labels: Any = None,
        pos_label: Any = None,
        ignore_label: Any = None,
        sum_tolerance: float = 1e-3,
        skip_missing: bool = False,
        buckets: int | None = None,
    ) -> None:
        check_step(step)
        self._metrics = None if metrics is None else named_metrics(metrics)
        self._settings = _listed(_SETTINGS if settings is None and metrics is None else settings)
        self._step = step
        self._buckets = buckets
        if buckets is not None:
            check_buckets(buckets)
            if not self._settings:
                raise ValueError(
                    "buckets expects settings such as ['confidence'], whose histograms are kept by bucket."
                )
        self._options = InputOptions(
            task, logits, labels, pos_label, ignore_label, sum_tolerance=sum_tolerance, skip_missing=skip_missing
        )
        self._expected = None if classes is None else self._of_clusters(expected_layout(classes, weighted=weighted))
        self.reset()
        self._check_metrics()

    def reset(self) -> Self:
        """Forget all rows."""
        self._rows = 0
        self._layout: Layout | None = None
        self._states: dict[Statistic[Any], Any] = {}
        self._classes: Any = None
        self._notes = RowNotes()
        return self

    def update(self, y_true: Any, y_prob: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Add rows of any kind that `calibdask.evaluate` accepts; invalid rows raise its errors and add nothing.

        Parameters
        ----------
        y_true : array of shape (n,)
        y_prob : array of shape (n,) or (n, K)
        sample_weight : array of shape (n,), optional
        groups : array of shape (n,), optional
            With ``buckets``: the cluster of each row. A cluster may have rows in several updates.

        Raises
        ------
        ValueError
            If rows are invalid, or differ from earlier rows in classes, precision or the presence of weights.
        """
        if (groups is None) != (self._buckets is None):
            raise ValueError(
                "update expects groups in all updates of an Accumulator with buckets, and in no others, got "
                f"{'none' if groups is None else 'groups without buckets; construct it with buckets=64'}."
            )
        options = replace(self._options, groups=groups)
        data = Data(y_true, y_prob, {}, sample_weight, options=options).read(takes_groups=True)
        if data.batch:
            names = listed(axis.name for axis in data.batch)
            raise ValueError(
                f"An Accumulator expects the scores of one model, got several along {names}; use one Accumulator per "
                "model."
            )
        # How the rows were read makes no difference to the states.
        layout = self._of_clusters(replace(data.source.layout, rows=None, logits=False, one_hot=False))
        states = self._begun(layout)
        assert isinstance(data.source, RowSource)
        classes = self._common(data.classes)
        added, checked = data.source.part(tuple(states))
        self._set(layout, states, added, self._rows + int(checked.rows))
        self._classes = classes
        self._notes = RowNotes.merged([self._notes, data.notes])
        return self

    def merge(self, other: "Accumulator") -> Self:
        """Add the rows of another Accumulator with equal metrics and settings.

        Raises
        ------
        ValueError
            If its metrics, settings or rows do not match.
        """
        own, others = ((one._metrics, one._settings, one._step, one._buckets) for one in (self, other))
        if own != others:
            raise ValueError("merge expects an Accumulator with the same metrics, settings, step and buckets.")
        if other._layout is not None:
            states = self._begun(other._layout)
            classes = self._common(other._classes)
            self._set(other._layout, states, tuple(other._states.values()), self._rows + other._rows)
            self._classes = classes
            self._notes = RowNotes.merged([self._notes, other._notes])
        return self

    def result(
        self, ci: float | None = None, *, ci_method: Method | None = None, n_boot: int = 200, seed: int = 0
    ) -> xr.Dataset:
        """The metrics of all rows so far, as `calibdask.evaluate` returns them; more rows may follow.

        Parameters
        ----------
        ci, ci_method, n_boot, seed
            As for `calibdask.evaluate` with a summary: replicates are drawn from the histograms of ``settings``.

        Raises
        ------
        ValueError
            If there are no rows yet, or intervals are requested without the ``settings`` that they need.
        """
        if ci is not None and not self._settings:
            raise ValueError("Intervals come from histograms; construct the Accumulator with settings=['confidence'].")
        return evaluated(self._as_input(), self._metrics, interval_choice(ci, ci_method, n_boot, seed))

    compute = result  # the name that metrics of torchmetrics have

    def _as_input(self) -> Input:
        """The accumulated states as the input of other analyses."""
        layout = self._layout
        if layout is None or not self._states[RowCount()].rows.any():
            raise ValueError("An Accumulator expects rows of positive weight before its result; call update first.")
        source = AccumulatedSource(self._states, layout, self._rows)
        self._notes.others.check()
        return Input(source, classes=self._classes, stored_notes=self._notes)

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """All states as arrays of int64 and float64; sums of arrays are states of pooled rows.

        With the counts of excluded rows, and the names of labels that count as negative, of which some 20 can be read.

        Raises
        ------
        ValueError
            If there are no rows, and ``classes`` was not given.
        """
        layout = self._layout or self._expected
        if layout is None:
            raise ValueError(
                "The state of an Accumulator without rows expects classes=..., which determines its shapes."
            )
        # One that has no rows yet adds nothing to those of others.
        states = self._states or self._begun(layout)
        counted = np.append(as_numbers(layout), identity(states)) * (self._layout is not None)
        state = {LAYOUT: counted, ROWS: np.array(self._rows), **self._notes.to_arrays(), **state_arrays(states)}
        return {**state, CHECKSUM: checksum(state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Replace all rows by a state, or by a sum of states, of Accumulators with equal metrics and settings.

        Raises
        ------
        ValueError
            If it is the state of another kind of Accumulator, or a sum of incompatible states; if it is damaged, or a
            state that no rows can produce.
        """
        if not isinstance(state, Mapping):
            raise ValueError(
                f"load_state_dict expects one mapping, as state_dict returns it, got {type(state).__name__}; to "
                "combine several states, add up the arrays of each name."
            )
        arrays = {name: np.asarray(array) for name, array in state.items()}
        if missing := [name for name in (LAYOUT, ROWS) if name not in arrays]:
            raise ValueError(f"load_state_dict expects what state_dict returned; it lacks {listed(missing)}.")
        check_shapes(arrays)
        # States of earlier versions have no checksum.
        if CHECKSUM in arrays or arrays[LAYOUT].size > LAYOUT_SIZE:
            check_intact(arrays)
        layout = from_numbers(arrays[LAYOUT][:LAYOUT_SIZE])
        if layout is None:
            if any(np.any(array) for array in arrays.values()):
                raise ValueError("load_state_dict expects the layout of the rows, which is missing in this state.")
            return self.reset()
        layout = self._of_clusters(layout)
        empty = self._empty(layout)
        expected = state_arrays(empty)
        if arrays[LAYOUT].size > LAYOUT_SIZE and arrays[LAYOUT][-1] != arrays[LAYOUT][0] * identity(empty):
            raise ValueError(
                "load_state_dict expects the state of an Accumulator with the same metrics and settings, got the state "
                "of a different one."
            )
        for name in {*expected, *arrays} - {LAYOUT, ROWS, NOTES, LABELS, CHECKSUM}:
            is_like = name in arrays and name in expected and arrays[name].shape == expected[name].shape
            if not is_like or arrays[name].dtype != expected[name].dtype:
                raise ValueError(
                    f"load_state_dict expects the state of an Accumulator with the same metrics and settings; {name} "
                    "differs."
                )
        loaded = tuple(
            part._replace(
                **{
                    field: arrays[entry]
                    for field in part._fields
                    if (entry := entry_name(number, statistic, field)) in arrays
                }
            )
            for number, (statistic, part) in enumerate(empty.items())
        )
        rows = int(arrays[ROWS])
        for statistic, part in zip(empty, loaded, strict=True):
            check_possible(statistic, part, rows)
        notes = RowNotes.from_arrays(arrays, self._options.pos_label)
        self.reset()._notes = notes
        # Merging carries what sums of words have left over.
        self._set(layout, empty, loaded, rows)
        return self

    def __repr__(self) -> str:
        named = "the default metrics" if self._metrics is None else ", ".join(self._metrics)
        return f"<Accumulator of {named}: {self._rows:,} rows>"

    def _of_clusters(self, layout: Layout) -> Layout:
        """The layout of rows with clusters, where there are buckets."""
        return layout if self._buckets is None else replace(layout, clustered=True, buckets=self._buckets)

    def _begun(self, layout: Layout) -> dict[Statistic[Any], Any]:
        """The states so far, or empty states before the first rows."""
        if self._layout is None:
            return self._empty(layout)
        if layout != self._layout:
            raise ValueError(
                "All updates of an Accumulator expect the same classes and precision, and weights in all or none; got "
                f"{described(layout)} after {described(self._layout)}."
            )
        return self._states

    def _empty(self, layout: Layout) -> dict[Statistic[Any], Any]:
        """The states of no rows."""
        expected = self._expected
        if expected is not None and (layout.classes, layout.vector) != (expected.classes, expected.vector):
            raise ValueError(f"This Accumulator expects {described(expected)}, got {described(layout)}.")
        statistics = self._statistics(layout)
        return dict(zip(statistics, states_of(no_rows(layout), statistics), strict=True))

    def _common(self, classes: Any) -> Any:
        """The names of the classes, which rows without such names have too."""
        if self._classes is None or classes is None or list(self._classes) == list(classes):
            return classes if self._classes is None else self._classes
        raise ValueError(
            "All updates of an Accumulator expect the same classes in the same order, got "
            f"{listed(classes)} after {listed(self._classes)}."
        )

    def _set(self, layout: Layout, states: Mapping[Statistic[Any], Any], added: tuple[Any, ...], rows: int) -> None:
        statistics = tuple(states)
        total = merged(statistics, tuple(states.values()), added)
        self._layout, self._rows, self._states = layout, rows, dict(zip(statistics, total, strict=True))

    def _statistics(self, layout: Layout) -> tuple[Statistic[Any], ...]:
        """Kept statistics, in an order that does not depend on the rows."""
        kept = kept_statistics(self._settings, layout, self._step)
        requests: list[Statistic[Any]] = [RowCount(), ColumnSums(layout.setting(None)), *kept]
        for name, metric in (self._metrics or {}).items():
            try:
                requests += requests_of_one_pass(metric, layout)
            except NotOnePass as reason:
                if not histograms_support(metric, self._settings, layout, self._step):
                    may_be = not self._settings and histograms_support(metric, _SETTINGS, layout, self._step)
                    raise NotOnePass(refusal(name, metric, reason, may_be=may_be)) from None
        return apart(tuple(dict.fromkeys(requests)))[0]

    def _check_metrics(self) -> None:
        """Raise NotOnePass for metrics that no rows could be added up for."""
        reasons = []
        layouts = [*map(self._of_clusters, _ANY)] if self._expected is None else [self._expected]
        for layout in layouts:
            try:
                self._statistics(layout)
            except NotOnePass as reason:
                reasons.append(reason)
            except ValueError:
                # For example the number of a class that scores of another shape have.
                if self._expected is not None:
                    raise
        if len(reasons) == len(layouts):
            raise ValueError(str(reasons[0]))


def _listed(settings: Sequence[str | int] | str | int | None) -> tuple[str | int, ...]:
    return (settings,) if isinstance(settings, str | int) else tuple(settings or ())
