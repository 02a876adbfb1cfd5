"""Results of several models as one, along a dimension of models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.row_notes import EXCLUDED_ROWS
from calibdask.estimators.cluster_totals import CLUSTER_TOTALS
from calibdask.estimators.slice_totals import TOTALS
from calibdask.results.build import CLUSTER_NOTES, DESCRIBING, METRICS_LEFT_OUT, SCORE_CAUTIONS, sentences_of
from calibdask.results.values import Results
from calibdask.safe_text import visible

MODEL = "model"
# A slice that a model does not have.
_ABSENT = {"rows": 0, "events": 0, "clusters": 0}


def joined_models(results: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Results of equal metrics for several models, along a leading dimension ``model``.

    Rows need not be the same: those of each model, and slice, are the coordinate ``rows``. The attribute ``rows`` is
    the number of rows of each model if all have the same, else of all together; ``rows_of`` says which. Slices that a
    model lacks have no rows and no numbers.

    Raises
    ------
    ValueError
        If the models have other classes, or measure something else.

    Examples
    --------
    >>> import calibdask as cd
    >>> results = {"old": cd.evaluate([0, 1], [0.2, 0.9], cd.ECE()), "new": cd.evaluate([0, 1, 1], [0, 1, 1], cd.ECE())}
    >>> joined = joined_models(results)
    >>> joined.ece.round(2).values, joined.rows.values
    (array([0.15, 0.  ]), array([2, 3]))
    """
    _check_compatible(results)
    datasets = list(results.values())
    first = datasets[0]
    of_each = (*TOTALS, *CLUSTER_TOTALS)
    totals = [name for name in of_each if all(name in dataset.coords for dataset in datasets)]
    datasets = [
        dataset.drop_vars([name for name in of_each if name not in totals], errors="ignore") for dataset in datasets
    ]
    joined = xr.concat(
        datasets,
        dim=xr.DataArray(list(results), dims=MODEL, name=MODEL),
        data_vars="all",
        coords=totals,
        compat="equals",
        join="outer",
        combine_attrs=_common_attributes,
        fill_value={**{str(name): float("nan") for name in first.data_vars}, **_ABSENT},
    )
    rows = [int(dataset.attrs["rows"]) for dataset in datasets]
    batch = [MODEL, *Results(first).batch]
    passes = max(int(dataset.attrs["passes"]) for dataset in datasets)
    alike = len(set(rows)) == 1
    written: dict[str, Any] = {"rows": rows[0] if alike else sum(rows), "passes": passes, "batch": batch}
    written["rows_of"] = "each model" if alike else "all models together"
    # Numbers of rows that were left out, as of the rows that are left.
    for name in EXCLUDED_ROWS:
        counts = [int(dataset.attrs.get(name, 0)) for dataset in datasets]
        if any(name in dataset.attrs for dataset in datasets):
            written[name] = counts[0] if alike and len(set(counts)) == 1 else sum(counts)
    return joined.transpose(*batch, ...).assign_attrs(written | _said_of_models(results))


def _common_attributes(attributes: Sequence[Mapping[str, Any]], context: Any = None) -> dict[str, Any]:
    """Those that describe the metric, and the notes that are equal in all models; bandwidths depend on the scores."""
    first, *others = attributes
    return {
        name: value
        for name, value in first.items()
        if name in DESCRIBING or all(name in other and np.array_equal(other[name], value) for other in others)
    }


def _said_of_models(results: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    """Join cautions and notes of the models, each after the names of its models."""
    cautions = [
        f"{visible(name)}: {dataset.attrs[SCORE_CAUTIONS]}"
        for name, dataset in results.items()
        if SCORE_CAUTIONS in dataset.attrs
    ]
    notes = {attribute: _notes(results, attribute) for attribute in (CLUSTER_NOTES, METRICS_LEFT_OUT)}
    said: dict[str, Any] = {SCORE_CAUTIONS: " ".join(cautions), **notes}
    return {name: words for name, words in said.items() if words}


def _notes(results: Mapping[str, xr.Dataset], attribute: str) -> list[str]:
    """Each sentence once, after the names of the models that it is said of."""
    models: dict[str, list[str]] = {}
    for name, dataset in results.items():
        for sentence in sentences_of(dataset, attribute):
            models.setdefault(sentence, []).append(visible(name))
    return [f"{', '.join(names)}: {sentence}" for sentence, names in models.items()]


def _check_compatible(results: Mapping[str, xr.Dataset]) -> None:
    """Raise ValueError for models whose numbers do not belong side by side."""
    (name, first), *others = results.items()
    if MODEL in first.dims:
        raise ValueError(f"{name!r} has a dimension {MODEL!r} already: evaluate such a summary alone.")
    for other, dataset in others:
        for variable in first.data_vars:
            if variable not in dataset.data_vars:
                raise ValueError(
                    f"{name!r} has {visible(variable)}, and {other!r} has not; name metrics that both have."
                )
            settings = [part[variable].attrs.get("setting", "") for part in (first, dataset)]
            if settings[0] != settings[1]:
                raise ValueError(
                    f"Models side by side expect the same setting, got {settings[0]!r} for {variable} of {name!r} and "
                    f"{settings[1]!r} for that of {other!r}: their scores have other shapes. Choose one that both have."
                )
        dim = Results(first).class_dim
        if dim in first.dims and (dim not in dataset.dims or list(first[dim].values) != list(dataset[dim].values)):
            raise ValueError(f"Models side by side expect the same classes; those of {name!r} and {other!r} differ.")
