"""Stored predictions of any number of models x metrics x bootstrap replicates x slices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import fsspec
import numpy as np

import calibdask as cd

METRICS: dict[str, Any] = {
    "brier": cd.BrierScore(),
    "log-loss": cd.LogLoss(),
    "ece": cd.ECE(),
    "ece-equal-mass": cd.ECE(binning="equal-mass"),
    "ece-classwise": cd.ECE(setting="classwise"),
    "rmsce": cd.ECE(norm="l2", debias=True),
    "density-ece": cd.DensityECE(),
    "smooth-ece": cd.SmoothECE(),
    "ecce": cd.ECCE(),
    "skce": cd.SKCE(estimator="features"),
}
_BINS = 15
_DIAGRAM = tuple(f"diagram_{part}" for part in ("score", "outcome", "count", "weight", "lower", "upper"))


@dataclass(frozen=True, kw_only=True)
class Holdout(cd.Study):
    """Metrics of stored predictions with their replicates, in all slices.

    Parameters
    ----------
    models : tuple of str
        ``NAME=DATA`` for each model, DATA a file or store as ``calibdask evaluate`` reads it.
    metrics : tuple of str
        Some of the names in `METRICS`.
    by : str
        Column or array to slice by; "" for none. All models expect the same values there.
    weight : str
        Column or array of sample weights; "" for none.
    n_boot : int
        Number of replicates.
    level : float
        Confidence level of the intervals.
    """

    models: tuple[str, ...] = ("",)
    metrics: tuple[str, ...] = ("brier", "log-loss", "ece", "ece-equal-mass", "rmsce", "smooth-ece")
    by: str = ""
    weight: str = ""
    n_boot: int = 200
    level: float = 0.95

    outputs: ClassVar = {
        "value": ("metric", "slice"),
        "low": ("metric", "slice"),
        "high": ("metric", "slice"),
        "replicates": ("metric", "slice", "replicate"),
        "rows": ("slice",),
        "paired": (),
        **dict.fromkeys(_DIAGRAM, ("slice", "bin")),
    }
    version: ClassVar = 2
    presets: ClassVar = {"quick": {"n_boot": 20, "metrics": ("brier", "ece")}}

    def problems(self) -> Iterator[str]:
        """Values that cells could not compute."""
        names = [model.partition("=")[0] for model in self.models]
        if len({*names}) < len(names) or len({*self.metrics}) < len(self.metrics):
            yield "models and metrics expect each name once."
        if not self.metrics or self.n_boot < 2:
            yield "metrics expects one name or more, n_boot a number from 2 on."
        if not 0 < self.level < 1:
            yield f"level expects a number between 0 and 1 such as 0.95, got {self.level}."

    def inputs(self) -> dict[str, Any]:
        """Number, bytes and latest date of the files of each model: a cube of other files is another one."""
        return {name: _dated(data) for name, data in self._sources.items()}

    def cells(self) -> dict[str, Any]:
        """A cell for each model."""
        return {"model": tuple(self._sources)}

    def inside(self) -> dict[str, Any]:
        """All metrics, slices and replicates of a model, and the bins of its reliability diagram."""
        axes = {"metric": self.metrics, "slice": self._slices, "replicate": range(self.n_boot)}
        return {**axes, "bin": range(_BINS)}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        """One pass or two over the predictions of a model."""
        rows = self._rows(at["model"])
        by = {"slice": rows.by[self.by]} if self.by else None
        chosen = {name.replace("-", "_"): METRICS[name] for name in self.metrics}
        # The seed is that of the study: models of the same rows in the same order have the same replicates of these.
        options: dict[str, Any] = {"ci": self.level, "n_boot": self.n_boot, "seed": self.seed, "keep_replicates": True}
        asked = {**chosen, "diagram": cd.ReliabilityDiagram(bins=_BINS)}
        result = cd.evaluate(rows.labels, rows.scores, asked, by=by, sample_weight=rows.weights, **options)
        result = self._in_order(result)
        values = {
            kind: np.stack([result[f"{name}{end}"].values for name in chosen])
            for kind, end in (("value", ""), ("low", "_low"), ("high", "_high"), ("replicates", "_replicates"))
        }
        values |= {name: result[name].values for name in _DIAGRAM}
        return {**values, "rows": self._counted(rows), "paired": self._is_paired(rows)}

    def _is_paired(self, rows: Any) -> bool:
        """Whether the labels are those of the first model, row by row."""
        first = np.asarray(self._rows(next(iter(self._sources))).labels)
        return np.array_equal(np.asarray(rows.labels), first)

    def _in_order(self, result: Any) -> Any:
        """All slices of the study; NaN where the model has no rows."""
        if not self.by:
            return result.expand_dims(slice=list(self._slices))
        named = result.assign_coords(slice=result.slice.values.astype(str))
        unknown = set(named.slice.values.tolist()) - set(self._slices)
        if unknown:
            raise ValueError(
                f"{self.by} expects the values {', '.join(self._slices)}, got {', '.join(sorted(unknown))}."
            )
        return named.reindex(slice=list(self._slices))

    def _counted(self, rows: Any) -> np.ndarray:
        """Rows of each slice."""
        if not self.by:
            return np.array([len(rows.labels)])
        names, counts = np.unique(np.asarray(rows.by[self.by]).astype(str), return_counts=True)
        there = dict(zip(names.tolist(), counts.tolist(), strict=True))
        return np.array([there.get(name, 0) for name in self._slices])

    @cached_property
    def _sources(self) -> dict[str, str]:
        pairs = [model.partition("=") for model in self.models]
        if not all(name and equals and data for name, equals, data in pairs):
            raise ValueError(f"models expects NAME=DATA,NAME=DATA, got {','.join(self.models)!r}.")
        for name in self.metrics:
            if name not in METRICS:
                raise ValueError(f"metrics expects some of {', '.join(METRICS)}, got {name!r}.")
        return {name: data for name, _, data in pairs}

    @cached_property
    def _slices(self) -> tuple[str, ...]:
        if not self.by:
            return ("all",)
        rows = self._rows(next(iter(self._sources)))
        return tuple(np.unique(np.asarray(rows.by[self.by])).astype(str).tolist())

    def _rows(self, model: str) -> Any:
        return cd.read_rows(self._sources[model], by=(self.by,) if self.by else (), weight=self.weight or None)


def _dated(url: str) -> list[Any]:
    """Number of files at a URL, their total size in bytes, and their latest date as the store reports it."""
    files, path = fsspec.core.url_to_fs(url)
    listed = files.find(path, detail=True).values() if files.isdir(path) else [files.info(path)]
    dates = [str(file.get("mtime", file.get("LastModified", file.get("ETag", "")))) for file in listed]
    return [len(dates), sum(int(file.get("size") or 0) for file in listed), max(dates, default="")]
