"""The xarray accessor ``ds.calib``, registered when calibdask first computes, or by ``import calibdask.accessor``."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr

import calibdask as cd

# Functions are imported when they are called: registering costs no more than importing xarray.
from calibdask.safe_text import listed

if TYPE_CHECKING:
    from calibdask.estimators.metrics import Metrics
    from calibdask.render.table import ResultTable
    from calibdask.results.document import Document

__all__ = ["CalibrationAccessor"]


@xr.register_dataset_accessor("calib")
class CalibrationAccessor:
    """Calibration of the scores in a dataset with respect to its labels.

    It is available as the attribute ``calib`` of every `xarray.Dataset` once any computing function of calibdask has
    been used, so results always have it. ``import calibdask`` alone does not import xarray: to make it available
    earlier, ``import calibdask.accessor``, as with ``hvplot.xarray``.

    All methods take the names of variables:

    labels, scores : str, default "labels" and "scores"
        Class numbers (..., n), or class names from the coordinate of the scores along ``class_dim``; and scores
        (..., n) or (..., n, K). Dimensions other than those of samples and classes are kept.
    pos_label : label, optional
        For scores without a class dimension and labels other than 0 and 1: the class whose probability the scores are.
    by : str, sequence of str, or mapping from name to str, optional
        Variables or coordinates along the samples, also components such as ``"time.month"``: a slice for every value,
        or combination of values. The keys of a mapping name the dimensions of the result.
    sample_weight : str, optional
        Weights (..., n).
    sample_dim : str or sequence of str, optional
        The dimension of samples, or several. None: the dimension of the labels if they have only one, else
        ``"sample"``.
    class_dim : str, default "class"
        The dimension of classes.
    ``**options``
        Further arguments of `calibdask.evaluate`, such as ``task``, ``logits`` and ``ignore_label``.

    For a summary from `calibdask.summarize`, which replaces labels and scores, none of these apply.

    Raises
    ------
    ValueError
        If the dataset lacks one of these, or the data are invalid, as for `calibdask.evaluate`.

    Notes
    -----
    Type checkers do not know registered accessors of xarray. For an editor or a type checker, annotate it once:
    ``calib: CalibrationAccessor = ds.calib``, with ``from calibdask.accessor import CalibrationAccessor``.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import calibdask as cd
    >>> import calibdask.accessor
    >>> scores = np.array([[0.2, 0.4, 0.6, 0.8], [0.1, 0.3, 0.7, 0.9]])
    >>> ds = xr.Dataset({"labels": ("row", [0, 1, 1, 1]), "scores": (("model", "row"), scores)})
    >>> ds = ds.assign_coords(day=("row", ["mon", "mon", "tue", "tue"]), model=["tree", "forest"])
    >>> result = ds.calib.evaluate(cd.ECE(bins=2), by="day")
    >>> dict(result.sizes)
    {'model': 2, 'day': 2}
    >>> result.ece.sel(model="forest").values.round(3)
    array([0.3, 0.2])

    A summary of the rows has the same methods:

    >>> ds.calib.summarize(by="day").sum("day").calib.evaluate(cd.ECE(bins=2)).ece.values.round(3)
    array([0.25, 0.25])
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def evaluate(
        self,
        metrics: "Metrics | None" = None,
        *,
        labels: Hashable = "labels",
        scores: Hashable = "scores",
        pos_label: Any = None,
        by: Any = None,
        sample_weight: Hashable | None = None,
        sample_dim: str | Sequence[str] | None = None,
        class_dim: str = "class",
        **options: Any,
    ) -> xr.Dataset:
        """Metrics, as computed by `calibdask.evaluate`; ``options`` are passed on to it.

        Examples
        --------
        >>> import xarray as xr
        >>> import calibdask as cd
        >>> import calibdask.accessor
        >>> ds = xr.Dataset({"defaulted": ("loan", [0, 1, 1, 1]), "risk": ("loan", [0.2, 0.4, 0.6, 0.8])})
        >>> float(ds.calib.evaluate(cd.ECE(bins=2), labels="defaulted", scores="risk").ece)
        0.25
        """
        arguments = self._arguments(labels, scores, pos_label, by, sample_weight, sample_dim, class_dim)
        return cd.evaluate(**arguments, metrics=metrics, **options)

    def summarize(
        self,
        *,
        labels: Hashable = "labels",
        scores: Hashable = "scores",
        pos_label: Any = None,
        by: Any = None,
        sample_weight: Hashable | None = None,
        sample_dim: str | Sequence[str] | None = None,
        class_dim: str = "class",
        **options: Any,
    ) -> xr.Dataset:
        """A summary that can be added, as computed by `calibdask.summarize`; ``options`` are passed on to it."""
        return cd.summarize(
            **self._arguments(labels, scores, pos_label, by, sample_weight, sample_dim, class_dim), **options
        )

    def reliability_diagram(
        self,
        *,
        labels: Hashable = "labels",
        scores: Hashable = "scores",
        pos_label: Any = None,
        by: Any = None,
        sample_weight: Hashable | None = None,
        sample_dim: str | Sequence[str] | None = None,
        class_dim: str = "class",
        **options: Any,
    ) -> xr.Dataset:
        """Reliability diagram by bin; accepts the options of `calibdask.reliability_diagram`.

        Examples
        --------
        >>> import xarray as xr
        >>> import calibdask.accessor
        >>> ds = xr.Dataset({"labels": ("row", [0, 1, 1, 1]), "scores": ("row", [0.2, 0.4, 0.6, 0.8])})
        >>> ds.calib.reliability_diagram(bins=2).outcome.values
        array([0.5, 1. ])
        """
        arguments = self._arguments(labels, scores, pos_label, by, sample_weight, sample_dim, class_dim)
        return cd.reliability_diagram(**arguments, **options)

    def reliability_curve(
        self,
        *,
        labels: Hashable = "labels",
        scores: Hashable = "scores",
        pos_label: Any = None,
        by: Any = None,
        sample_weight: Hashable | None = None,
        sample_dim: str | Sequence[str] | None = None,
        class_dim: str = "class",
        **options: Any,
    ) -> xr.Dataset:
        """Reliability curve by score; accepts the options of `calibdask.reliability_curve`."""
        arguments = self._arguments(labels, scores, pos_label, by, sample_weight, sample_dim, class_dim)
        return cd.reliability_curve(**arguments, **options)

    def table(self) -> "ResultTable":
        """The numbers of a result with intervals and meanings: one line for each number, or for each slice.

        Of a comparison of models, or of calibrators, the differences as in its `document`.

        Returns
        -------
        calibdask.render.table.ResultTable
            It prints as the table of the command line, and displays as HTML in a notebook; ``to_dataframe()`` converts
            it to a data frame.

        Raises
        ------
        ValueError
            If the dataset is not a result of calibdask.

        Examples
        --------
        >>> import xarray as xr
        >>> import calibdask as cd
        >>> import calibdask.accessor
        >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ECE(bins=2), ci=0.9)
        >>> result.calib.table().to_dataframe()[["value", "low", "high"]].round(3)
                value  low  high
        metric
        ece      0.25  0.0  0.45
        """
        from calibdask.render.table import AnalysisTable, ResultTable

        if "analysis" in self._dataset.attrs:
            from calibdask.analyses.catalogue import analysis_of

            analysis = analysis_of(self._dataset)
            lines = analysis.lines(self._dataset)
            if lines is not None:
                return AnalysisTable(self._dataset, analysis.document(self._dataset), lines)
        if "calibdask_version" not in self._dataset.attrs or "passes" not in self._dataset.attrs:
            raise ValueError(
                "table expects a result of calibdask.evaluate; this dataset is not one. Evaluate it first, for "
                "example by ds.calib.evaluate().calib.table()."
            )
        return ResultTable(self._dataset)

    def to_dataframe(self) -> Any:
        """The numbers of a result as a pandas data frame: a row for each number; with slices a row for each slice.

        With slices the columns are the variables of the result. A comparison has a row for each model, metric and
        slice, with the columns of its CSV.

        Examples
        --------
        >>> import calibdask as cd
        >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], [cd.ECE(n_bins=2), cd.BrierScore()])
        >>> result.calib.to_dataframe()["value"].round(3).to_dict()
        {'ece': 0.25, 'brier_score': 0.15}
        """
        return self.table().to_dataframe()

    def document(self) -> "Document":
        """The document of a result of `calibdask.compare`, `threshold`, `audit` and others: text, HTML, numbers.

        Returns
        -------
        calibdask.results.document.Document
            With ``to_text()``, ``to_markdown()``, ``to_html()``, and ``numbers()``, a flat dictionary.

        Raises
        ------
        ValueError
            If the dataset is not a result of such an analysis.

        Examples
        --------
        >>> import numpy as np
        >>> import calibdask as cd
        >>> import calibdask.accessor
        >>> rng = np.random.default_rng(0)
        >>> scores = rng.random(10_000)
        >>> result = cd.threshold(rng.random(10_000) < scores, scores, risk=0.1)
        >>> round(result.calib.document().numbers()["thresholds/threshold"], 2)
        0.83
        """
        from calibdask.analyses.catalogue import analysis_of

        return analysis_of(self._dataset).document(self._dataset)

    def _arguments(
        self,
        labels: Hashable,
        scores: Hashable,
        pos_label: Any,
        by: Any,
        sample_weight: Hashable | None,
        sample_dim: str | Sequence[str] | None,
        class_dim: str,
    ) -> dict[str, Any]:
        """Arguments for the functions of calibdask."""
        from calibdask.data.data import may_have_rows

        if not may_have_rows(self._dataset):
            if by is not None or sample_weight is not None:
                raise ValueError("A summary already has its weights and slices; by and sample_weight do not apply.")
            return {"y_true": self._dataset}
        y_true, y_prob = self._variable("labels", labels), self._variable("scores", scores)
        if sample_dim is None:
            sample_dim = str(y_true.dims[0]) if y_true.ndim == 1 else "sample"
        return {
            "y_true": y_true,
            "y_prob": y_prob,
            "by": self._slices(by),
            "sample_weight": None if sample_weight is None else self._variable("sample_weight", sample_weight),
            "pos_label": pos_label,
            "sample_dim": sample_dim,
            "class_dim": class_dim,
        }

    def _slices(self, by: Any) -> dict[Hashable, xr.DataArray] | None:
        """Slicing variables by their own names, or by those given in a mapping."""
        if by is None:
            return None
        if isinstance(by, Mapping):
            return {name: self._variable("by", variable) for name, variable in by.items()}
        variables = [self._variable("by", name) for name in ([by] if isinstance(by, str) else by)]
        return {str(values.name): values for values in variables}

    def _variable(self, argument: str, name: Hashable) -> xr.DataArray:
        """A variable or coordinate of the dataset."""
        try:
            return self._dataset[name]
        except KeyError as error:
            names = listed(self._dataset.variables)
            raise ValueError(
                f"{argument} expects the name of a variable of the dataset, {names}; got {name!r}."
            ) from error
