"""`compare_calibrators`: how much each calibrator improves scores, cross-fitted, and which to take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import xarray as xr

from calibdask.analyses.analysis import Analysis, Heading
from calibdask.calibrators.comparing.comparison import NONE, compared_calibrators, named_choices
from calibdask.calibrators.comparing.cross_fitting import CalibratorChoice
from calibdask.data.clusters import MEND_MISSING
from calibdask.data.data import Data
from calibdask.data.options import InputOptions, Task
from calibdask.data.slices import missing_slices
from calibdask.results.document import Cell, Document, Element, Section, Sentence, Table, numeric, text
from calibdask.results.format import figure, percent, plain, pvalue_text

_JSON = """{"format": 1, "rows": int, "passes": int, "calibdask_version": str, "folds": int, "ci": float,
 "seed": int, "best": str, "reason": str, "left_out": str,
 "calibrators": [{"calibrator": str, "log_loss": float, "brier_score": float, "ece": float,
                  "smooth_ece": float, "mean_gap": float, "improvement": float,
                  "improvement_low": float, "improvement_high": float, ...}]}
"""
_COLUMNS = ("log loss", "Brier score", "ECE", "improvement", "low", "high", "adjusted p")


def compare_calibrators(
    y_true: Any,
    y_prob: Any = None,
    calibrators: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    folds: int = 5,
    groups: Any = None,
    ci: float = 0.95,
    seed: int = 0,
    label: Any = None,
    score: Any = None,
    sample_weight: Any = None,
    skip_missing: bool = False,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    sample_dim: str | Sequence[str] = "sample",
    class_dim: str = "class",
    sum_tolerance: float = 1e-3,
) -> xr.Dataset:
    """Compare calibrators by the loss they remove on rows they were not fitted to, and recommend one.

    Parameters
    ----------
    y_true, y_prob, label, score, sample_weight, skip_missing, task, logits, labels, pos_label, ignore_label
        As in `calibdask.evaluate`; scores of one model.
    sample_dim, class_dim, sum_tolerance
        As in `calibdask.evaluate`.
    calibrators : mapping from name to calibrator, or sequence, optional
        List the simplest first: of equally good calibrators the first is chosen. None: for P(y = 1) all maps of one
        score, with step functions bounded and centred so that their log loss is finite; for K classes temperature,
        structured and vector scaling, and Platt and isotonic maps of each class, with more than 20 classes
        `TemperatureScaling` alone.
    folds : int, default 5
        Number of folds. The map that calibrates the rows of a fold is fitted to all others.
    groups : array of shape (n,), or name of a column, optional
        A key, such as the customer: rows with the same value stay in one fold, and are treated as dependent in
        intervals; at most a million values.
    ci : float, default 0.95
        Level of the intervals; p-values below 1 - ci are significant.
    seed : int, default 0
        The fold of a row depends only on the seed and the row number, or the value of the key.

    Returns
    -------
    xarray.Dataset
        Along the dimension ``calibrator``, the first of which is ``"none"``, the scores as they are:

        ``log_loss``, ``brier_score``, ``ece``, ``smooth_ece``, ``mean_gap``
            Metrics of the cross-fitted scores. The log loss is the refinement loss of the calibrator.
        ``improvement``, ``improvement_low``, ``improvement_high``
            Reduction of the log loss by the calibrator (the calibration loss that it finds), with its interval.
        ``improvement_pvalue``, ``improvement_pvalue_adjusted``
            Two-sided p-value of no improvement; and the same adjusted for the number of calibrators by the distribution
            of the largest of their statistics, which are highly correlated (single-step max-T).
        ``brier_improvement``, ``brier_improvement_low``, ``brier_improvement_high``
            The same for the Brier score.
        ``monotone``
            1 if the map fitted to all rows keeps the order of the scores, 0 if not.
        ``rows_needed``
            Number of rows that such an improvement needs to be significant: n (z / t)**2, where t is the improvement
            divided by its error, and z the normal quantile; NaN if there is no improvement.

        Attributes: ``best``, the recommended calibrator, or ``"none"``; ``reason``, the explanation; ``left_out``,
        calibrators that could not be fitted for some fold, and why.

    Raises
    ------
    ValueError
        If the data are invalid, have slices or several models, or are a summary, or a row has no value of ``groups``.

    Notes
    -----
    *Choice.* Calibrators whose improvement is above 0 with an adjusted p-value below 1 - ci help. The first of these
    that is not significantly worse is recommended (by paired differences of the log loss, adjusted by Holm's method)
    than the one with the largest improvement.

    *Intervals* are those of `Refinement`, for the map of each calibrator; the interval of the chosen one is slightly
    too favourable, as after any selection. With ``groups`` the variance is computed between clusters, the values of the
    key, pooled into at most 512. There are no intervals with fewer than 5 rows of the rarer outcome; with fewer than
    300 rows the reason says that they are rough.

    *Cost.* One pass in which all maps of one score are fitted, for all folds and for all rows, and one in which all of
    them are evaluated; maps that need several passes take as many as the longest. Without weights, results on
    processors of one kind do not depend on chunks or workers, to the last bit; fitting solves linear equations, which
    BLAS rounds differently on other processors.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(20_000)
    >>> y_true = rng.random(20_000) < y_prob**2 / (y_prob**2 + (1 - y_prob) ** 2)
    >>> cd.compare_calibrators(y_true, y_prob, [cd.PlattScaling()]).attrs["reason"]
    'PlattScaling lowers the log loss by 0.0494 (0.0459 to 0.0529), from 0.3816 to 0.3322.'
    """
    options = InputOptions(
        task,
        logits,
        labels,
        pos_label,
        ignore_label,
        sample_dim,
        class_dim,
        sum_tolerance,
        label,
        score,
        skip_missing,
        groups=groups,
    )
    choices = None if calibrators is None else named_choices(calibrators)
    data = Data.of(y_true, y_prob, None, sample_weight, options)
    return CompareCalibrators(choices, folds, ci, seed).run(data)


@dataclass(frozen=True)
class CompareCalibrators(Analysis):
    """Compare calibration methods by cross-validation.

    The recommended method is the first that is as good as the best. The map that calibrates the rows of a fold is
    fitted to all other rows. The improvement is the reduction of the log loss on rows that the map was not fitted to.

    Parameters
    ----------
    calibrators : mapping from name to calibrator, optional
        The simplest first. None: the usual ones.
    folds : int, default 5
        Number of folds.
    ci : float, default 0.95
        Confidence level of the intervals.
    seed : int, default 0
        Seed of random numbers.
    """

    calibrators: Mapping[str, CalibratorChoice] | None = field(
        default=None, hash=False, metadata={"shell": False, "recorded": False}
    )
    folds: int = 5
    ci: float = 0.95
    seed: int = 0

    name: ClassVar[str] = "compare-maps"
    heading: ClassVar[Heading] = "Fix"
    json_head: ClassVar[Sequence[str]] = (*Analysis.json_head, "folds", "ci", "seed", "best", "reason", "left_out")
    json_shape: ClassVar[str] = _JSON
    slices: ClassVar[bool] = False
    weights: ClassVar[bool] = True
    clusters: ClassVar[bool] = True
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("calibdask compare-maps holdout.parquet", "compare methods and recommend one"),
        ("calibdask compare-maps holdout.parquet --groups customer", "keep the rows of a customer in one fold"),
        ("calibdask compare-maps holdout.parquet --json", "for a program"),
    )

    def compute(self, data: Data) -> xr.Dataset:
        """Losses and improvements by calibrator, as `calibdask.compare_calibrators` returns them."""
        data = data.rows_for("compare_calibrators", "which it divides into folds")
        rows = data.with_groups_as_slices().read()
        if rows.batch or data.slice_names:
            several = ", ".join(map(str, (*(axis.name for axis in rows.batch), *data.slice_names)))
            raise ValueError(f"compare_calibrators expects the scores of one model, got several along {several}.")
        if missing_slices(rows.by) is not None:
            raise ValueError(f"groups expects a value in every row, got missing ones{MEND_MISSING}")
        return compared_calibrators(rows, self.calibrators, self.folds, self.ci, self.seed)

    def document(self, result: xr.Dataset) -> Document:
        """A line for each calibrator, and which to take."""
        names = map(str, result["calibrator"].values)
        rows = [_cells(name, result.sel(calibrator=name)) for name in names]
        columns = [("calibrator", False), *((heading, True) for heading in _COLUMNS), ("monotone", False)]
        elements: list[Element] = [Table("", columns, rows, name="calibrators")]
        elements.append(Sentence(str(result.attrs["reason"]), lead=True, name="conclusion"))
        if result.attrs["left_out"]:
            elements.append(Sentence(f"Left out: {result.attrs['left_out']}."))
        foot = (
            f"{result.attrs['rows']:,} rows in {result.attrs['folds']} folds, {result.attrs['passes']} passes. "
            "Improvement: reduction of the log loss on rows that the map was not fitted to, with its "
            f"{percent(result.attrs['ci'])} interval."
        )
        elements.append(Sentence(foot, quiet=True))
        return Document("Comparison of calibrators", "", [Section("calibrators", "", elements)], name=self.name)

    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """A record for each calibrator."""
        return {"calibrators": self.lines(result)}

    def lines(self, result: xr.Dataset) -> list[dict[str, Any]]:
        """A line for each calibrator."""
        numbers = [name for name, variable in result.data_vars.items() if variable.dims == ("calibrator",)]
        return [
            {"calibrator": str(name), **{str(number): plain(result[number].values[place]) for number in numbers}}
            for place, name in enumerate(result["calibrator"].values)
        ]


def _cells(name: str, values: xr.Dataset) -> list[Cell]:
    """A line of the table; the scores as they are have no improvement."""
    losses = [float(values[loss]) for loss in ("log_loss", "brier_score", "ece")]
    cells = [text(name), *(numeric(loss, figure(loss)) for loss in losses)]
    if name == NONE:
        return [*cells, *(Cell(numeric=True) for _ in range(4)), Cell()]
    gains = [float(values[f"improvement{end}"]) for end in ("", "_low", "_high")]
    pvalue = float(values["improvement_pvalue_adjusted"])
    cells += [numeric(gain, figure(gain)) for gain in gains]
    shown = pvalue_text(pvalue).removeprefix("p ").removeprefix("= ") if pvalue == pvalue else "–"
    return [*cells, numeric(pvalue, shown), text("yes" if float(values["monotone"]) == 1 else "no")]
