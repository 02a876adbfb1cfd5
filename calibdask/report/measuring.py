"""What a report is made of: everything about one model, in few passes over its rows or from its summary."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.slices import named
from calibdask.engine.stored import StoredSource
from calibdask.engine.summaries import extra_dims, is_summary, read_summary
from calibdask.estimators.curves import ReliabilityCurve
from calibdask.estimators.density import DensityECE
from calibdask.estimators.diagram import ReliabilityDiagram
from calibdask.estimators.ece import ECE
from calibdask.estimators.estimator import Estimation, Estimator, Meanings
from calibdask.estimators.mean_gap import MeanGap
from calibdask.estimators.panel import default_metrics
from calibdask.estimators.saturation import Saturation
from calibdask.evaluation import evaluate, usual_metrics
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

__all__ = ["CLASSES", "CURVE", "DIAGRAM", "GAP", "SPREAD", "Measured", "measure"]

# What is drawn and told beside the metrics, by the name of its variables.
DIAGRAM, CURVE, GAP, SPREAD = "report_diagram", "report_curve", "report_gap", "report_scores"
CLASSES = "report_classes"
# Rows, times classes and replicates, up to which rows are resampled: some ten seconds for each metric.
_MOST_RESAMPLED = 5e8


@dataclass(frozen=True, eq=False)
class Measured:
    """The results of one model.

    Attributes
    ----------
    result : xarray.Dataset
        What `calibdask.evaluate` gives for all rows.
    slices : mapping from name to xarray.Dataset
        The same by each column of slices.
    classes : int or None
        Number of classes, if it is known.
    setting : Setting or None
        Which scores the pictures show; None: not known.
    source : str
        What was measured, in words: the name of a file.
    weights : str
        Where weights came from; empty: there are none.
    bare : tuple of str
        Metrics that are without an interval since rows would have to be resampled, and are too many.
    notes : tuple of str
        What the library warned of.
    """

    result: xr.Dataset
    slices: Mapping[str, xr.Dataset] = field(default_factory=dict)
    classes: int | None = None
    setting: Setting | None = None
    source: str = ""
    weights: str = ""
    bare: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def measure(
    y_true: Any,
    y_prob: Any = None,
    metrics: Mapping[str, Estimator] | None = None,
    *,
    by: Any = None,
    sample_weight: Any = None,
    setting: str | int | None = None,
    k: int | None = None,
    ci: float = 0.95,
    n_boot: int = 200,
    seed: int = 0,
    ci_method: Any = None,
    source: str = "",
) -> Measured:
    """Measure what a report says about one model.

    Parameters
    ----------
    y_true, y_prob, metrics, sample_weight, ci, n_boot, seed, ci_method
        As for `calibdask.evaluate`. Or a summary that `calibdask.summarize` made, without ``y_prob``.
    by : array of shape (n,), or mapping from name to array, optional
        Slices. Each name is measured by itself, with a pass of its own; combinations are not. Of a summary: names of
        its slices; None: all of them.
    setting, k
        What the pictures show, as for `calibdask.ReliabilityDiagram`.
    source : str
        What was measured, in words.

    Notes
    -----
    Metrics that no histogram of the scores tells have intervals where rows, times classes and replicates, are up to
    5e8: beyond that resampling rows would take minutes, and the intervals would be narrow.

    Examples
    --------
    >>> import numpy as np
    >>> from calibdask.report import measure
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(1000)
    >>> measured = measure(rng.random(1000) < scores, scores, by={"half": np.arange(1000) // 500})
    >>> list(measured.slices), "ece_low" in measured.result
    (['half'], True)
    """
    options = {"ci": ci, "n_boot": n_boot, "seed": seed, "ci_method": ci_method}
    request = _Request(metrics, setting, k, options)
    with _noted() as notes:
        if is_summary(y_true):
            measured = request.of_summary(y_true, by)
        else:
            measured = request.of_rows(y_true, y_prob, named(by), sample_weight)
    weights = "given" if sample_weight is not None and not measured.weights else measured.weights
    return replace(measured, source=source, weights=weights, notes=tuple(dict.fromkeys(notes)))


@dataclass(frozen=True)
class _Request:
    """What is wanted of one model."""

    metrics: Mapping[str, Estimator] | None
    setting: str | int | None
    k: int | None
    options: Mapping[str, Any]

    def of_rows(self, labels: Any, scores: Any, by: Mapping[Any, Any], weights: Any) -> Measured:
        """One pass for all rows, up to three with bins of equal mass, and one for each name of slices."""
        if scores is None:
            raise ValueError("measure expects labels and scores, or a summary of calibdask.summarize, got no scores.")
        labels, scores = (each if hasattr(each, "ndim") else np.asarray(each) for each in (labels, scores))
        vector = scores.ndim == labels.ndim
        classes = 2 if vector else int(scores.shape[-1])
        layout = Layout(classes=classes, vector=vector)
        meant = layout.setting(self.setting, self.k)
        chosen = default_metrics(classes, vector) if self.metrics is None else self.metrics
        bare = self._bare(chosen, layout, scores.shape[0] * classes)
        told = {name: _Told(each) if name in bare else each for name, each in chosen.items()}
        asked = {**told, **self._pictures(layout, meant)}
        given = {"sample_weight": weights, **self.options}
        result = evaluate(labels, scores, asked, **given)
        if extra := [str(dim) for dim in result[GAP].dims if dim != "class"]:
            raise ValueError(f"measure takes the scores of one model, got some along {', '.join(extra)}; select one.")
        with _quiet():
            slices = {
                str(name): evaluate(labels, scores, self._of_slices(chosen), by={name: values}, **given)
                for name, values in by.items()
            }
        return Measured(result, slices, classes, meant, bare=bare)

    def of_summary(self, summary: xr.Dataset, by: Any) -> Measured:
        """From histograms, added up."""
        data = read_summary(summary)
        if extra := extra_dims(summary):
            raise ValueError(
                f"A report of a summary with {', '.join(extra)} expects one place, such as isel({extra[0]}=0)."
            )
        names = [str(axis.name) for axis in data.by]
        wanted = names if by is None else list(dict.fromkeys([by] if isinstance(by, str) else map(str, by)))
        if unknown := [name for name in wanted if name not in names]:
            raise ValueError(
                f"by expects slices of the summary, {', '.join(names) or 'none'}, got {', '.join(unknown)}."
            )
        layout = data.source.layout
        meant = layout.setting(self.setting, self.k)
        assert isinstance(data.source, StoredSource)
        tells = data.source.tells
        if self.setting is None and not tells(meant):
            meant = layout.setting("classwise")
        step = 1 / int(np.unique(summary["cells"])[0])
        chosen = usual_metrics(data.source) if self.metrics is None else self.metrics
        drawn = self._pictures(layout, meant, classwise=tells(Setting("classwise"))) if tells(meant) else {}
        own = self if meant == layout.setting(self.setting, self.k) else replace(self, setting="classwise")
        result = evaluate(_kept(summary, []), metrics=_stepped({**chosen, **drawn}, step), **self.options)
        with _quiet():
            slices = {
                name: evaluate(_kept(summary, [name]), metrics=_stepped(own._of_slices(chosen), step), **self.options)
                for name in wanted
                if tells(meant)
            }
        return Measured(result, slices, layout.classes, meant, weights="in the summary" if layout.weighted else "")

    def _pictures(self, layout: Layout, setting: Setting, *, classwise: bool = True) -> dict[str, Estimator]:
        """What is drawn and told beside the metrics."""
        given: Any = {"setting": setting}
        found: dict[str, Estimator] = {
            DIAGRAM: ReliabilityDiagram(**given),
            CURVE: ReliabilityCurve(**given),
            GAP: MeanGap(**given),
            SPREAD: Saturation(**given),
        }
        if not layout.vector and classwise:
            found[CLASSES] = _Told(ReliabilityDiagram(setting="classwise"))
        return found

    def _of_slices(self, chosen: Mapping[str, Estimator]) -> dict[str, Estimator]:
        """What is measured of each slice: cheap, since histograms tell it; with the bins and widths chosen for all."""
        given: Any = {"setting": self.setting, "k": self.k if isinstance(self.setting, str) else None}
        l1 = [each for each in chosen.values() if type(each) is ECE and each.norm == "l1"]
        l1.sort(key=lambda each: each.binning != "uniform")
        density = [each for each in chosen.values() if type(each) is DensityECE]
        return {
            "ece": replace(next(iter(l1), ECE()), **given),
            "density_ece": replace(next(iter(density), DensityECE()), **given),
            GAP: MeanGap(**given),
            DIAGRAM: ReliabilityDiagram(**given),
        }

    def _bare(self, chosen: Mapping[str, Estimator], layout: Layout, size: Any) -> tuple[str, ...]:
        """The metrics without intervals: rows would be resampled, and cannot be or are too many."""

        def resampled(each: Estimator) -> bool:
            if each.tests or each.knows_ends or each.histograms(layout):
                return True
            # Pairs of rows are many sooner. The size of data whose rows nobody has counted yet is NaN.
            work = size**2 if hasattr(each, "max_pairs") else size
            return bool(each.weighs and work * self.options["n_boot"] <= _MOST_RESAMPLED)

        return tuple(name for name, each in chosen.items() if not resampled(each))


@dataclass(frozen=True, repr=False)
class _Told(Estimator):
    """An estimator whose numbers have no intervals."""

    of: Estimator

    def __repr__(self) -> str:
        return repr(self.of)

    def estimate(self) -> Estimation:
        """Its own."""
        return self.of.estimate()

    def meanings(self, layout: Layout) -> Meanings:
        """Its own."""
        return self.of.meanings(layout)

    @property
    def tests(self) -> bool:
        """Tests have no intervals either."""
        return True


def _kept(summary: xr.Dataset, names: list[str]) -> xr.Dataset:
    """The summary with these slices alone, the others added up."""
    gone = [dim for dim in summary["rows"].dims if dim not in names]
    # Missing weights stay visible as such: nothing is skipped.
    return summary.sum(gone, skipna=False) if gone else summary


def _stepped(chosen: Mapping[str, Estimator], step: float) -> dict[str, Estimator]:
    """The metrics on the grid that the summary has."""
    found: dict[str, Estimator] = {}
    for name, each in chosen.items():
        has_step = any(each_field.name == "step" for each_field in fields(each))  # type: ignore[arg-type]
        found[name] = replace(each, step=step) if has_step else each  # type: ignore[type-var]
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what is warned of single slices: the report says which of them are small."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@contextmanager
def _noted() -> Iterator[list[str]]:
    """What is warned of, kept for the page and passed on."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for each in caught:
        if each.category is UserWarning:
            notes.append(" ".join(str(each.message).split()))
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
