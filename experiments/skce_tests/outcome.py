"""The distributions of estimates and the errors of tests, from the cube of `experiments.skce_tests.study`."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

import calibdask as cd
from calibdask.storage.atomic_replace import atomic_replacement, write_text
from calibdask.study.cube import Cube
from experiments.skce_tests.figures import save_all
from experiments.skce_tests.published import ERRORS, LEVEL, MEANS, SETS, UNREACHED
from experiments.skce_tests.truth import true_ece

# Significance levels, as in Figure 2.
LEVELS = np.arange(101) / 100
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_BINS = 40
_SHOWN_LEVELS = (0.01, 0.05, 0.1)
_CALIBRATED = "M1"
_STUDY = "CalibrationTests"
_BAD = 2


def summarized(cube: xr.Dataset) -> xr.Dataset:
    """Means, spread, quantiles and histograms of the estimates, and the errors of tests over the significance level.

    Parameters
    ----------
    cube : xarray.Dataset
        What `calibdask.open_cube` gives. Cells that are not done do not count.

    Returns
    -------
    xarray.Dataset
        By classes and model: ``mean``, ``sd``, ``quantiles``, ``edge`` and ``count`` of histograms, and ``truth`` by
        estimator; ``error`` by test and level: of M1 the share of p-values up to the level, of the others the share
        above it; ``unreached`` the share of p-values of C that are the smallest that there is, since no replicate
        reaches the estimate; ``sets`` and ``pvalues``, how many there are.
    """
    done = cube[["estimate", "pvalue"]].where(cube["status"] == 1).stack(data=("batch", "set"))
    estimates = done["estimate"].transpose("classes", "model", "estimator", "data")
    edges, counts = _histograms(estimates.values)
    axes = ("classes", "model", "estimator")
    known = done["pvalue"].notnull().sum("data")
    level = xr.DataArray(LEVELS, dims="level", coords={"level": LEVELS})
    rejected = (done["pvalue"] <= level).sum("data") / known.where(known > 0)
    summary = xr.Dataset(
        {
            "sets": estimates.notnull().any(("model", "estimator")).sum("data"),
            "mean": estimates.mean("data"),
            "sd": estimates.std("data", ddof=1),
            "quantiles": estimates.quantile(QUANTILES, "data"),
            "edge": ((*axes, "border"), edges),
            "count": ((*axes, "bin"), counts),
            "pvalues": known,
            "error": xr.where(rejected["model"] == _CALIBRATED, rejected, 1 - rejected),
        }
    )
    summary["truth"] = _truth(summary["mean"])
    summary["unreached"] = _unreached(done["pvalue"], known)
    order = ("classes", "model", "estimator", "test", "quantile", "border", "bin", "level")
    return summary.transpose(*order).assign_attrs(study=cube.attrs.get("study", ""))


def _unreached(pvalues: xr.DataArray, known: xr.DataArray) -> xr.DataArray:
    """The share of the smallest p-value among those of consistency resampling, NaN for other tests."""
    resampled = pvalues["test"].str.startswith("C")
    chosen = pvalues.where(resampled)
    # All of them have the same number of replicates. The smallest is 1 over one more than that.
    return (chosen <= chosen.min() * (1 + 1e-9)).sum("data") / known.where(resampled & (known > 0))


def _histograms(estimates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Borders and counts of bins of equal width, of each distribution along the last axis."""
    shape = estimates.shape[:-1]
    edges, counts = np.full((*shape, _BINS + 1), np.nan), np.zeros((*shape, _BINS), np.int32)
    for index in np.ndindex(shape):
        values = estimates[index][np.isfinite(estimates[index])]
        if values.size:
            counts[index], edges[index] = np.histogram(values, _BINS)
    return edges, counts


def _truth(mean: xr.DataArray) -> xr.DataArray:
    """The analytical ECE; for the SKCE 0 of a calibrated model, else the mean of all unbiased quadratic estimates."""
    names, models = mean["estimator"].values.tolist(), mean["model"].values.tolist()
    truth = xr.zeros_like(mean)
    for model in models:
        for classes in mean["classes"].values.tolist():
            at = {"classes": classes, "model": model}
            skce = 0.0 if model == _CALIBRATED else float(mean.sel(**at, estimator="skce_uq"))
            truth.loc[at] = [true_ece(model, classes) if name.startswith("ece") else skce for name in names]
    return truth


def tables(summary: xr.Dataset) -> str:
    """Markdown tables: estimates and errors for each number of classes, and the published numbers beside ours."""
    parts = []
    for classes in summary["classes"].values.tolist():
        one = summary.sel(classes=classes)
        sets = int(one["sets"])
        parts.append(
            f"## {classes} classes: estimates\n\n{sets:,} data sets of each model: mean ± standard error "
            "(standard deviation), true value.\n\n" + _markdown(_estimates(one))
        )
        parts.append(
            f"## {classes} classes: test errors\n\nM1: share of p-values up to the level; M2, M3: share above "
            "it.\n\n" + _markdown(_errors(one))
        )
    compared = list(_published(summary))
    if len(compared) > 1:
        parts.append(
            "## Published\n\nThe difference in units of its standard error; ece and C are compared with the authors' "
            "release 0.2.0, all others with the data of the published figures.\n\n" + _markdown(iter(compared))
        )
    return "\n\n".join(parts) + "\n"


def _markdown(lines: Iterator[list[str]]) -> str:
    head, *rest = lines
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rest))


def _estimates(one: xr.Dataset) -> Iterator[list[str]]:
    models = one["model"].values.tolist()
    yield ["estimate", *models]
    for name in one["estimator"].values.tolist():
        line = [name]
        for model in models:
            at = one.sel(model=model, estimator=name)
            mean, sd, truth = (float(at[column]) for column in ("mean", "sd", "truth"))
            line.append(f"{mean:.4g} ± {sd / np.sqrt(int(one['sets'])):.2g} ({sd:.3g}), {truth:.4g}")
        yield line


def _errors(one: xr.Dataset) -> Iterator[list[str]]:
    models = one["model"].values.tolist()
    columns = [(model, level) for model in models for level in _SHOWN_LEVELS]
    yield ["test", "p-values", *(f"{model} at {level:g}" for model, level in columns)]
    for name in one["test"].values.tolist():
        at = one.sel(test=name)
        errors = [float(at["error"].sel(model=model).sel(level=level, method="nearest")) for model, level in columns]
        yield [name, f"{int(at['pvalues'].max()):,}", *(f"{error:.4f}" for error in errors)]


def _published(summary: xr.Dataset) -> Iterator[list[str]]:
    yield ["", "classes", "model", "published", "here", "difference"]
    numbers = summary["classes"].values.tolist()
    for (classes, name, model), value in MEANS.items():
        if classes in numbers:
            at = summary.sel(classes=classes, estimator=name, model=model)
            numbers_here = float(at["mean"]), float(at["sd"]), int(at["sets"])
            yield [f"mean of {name}", f"{classes}", model, *_compared(value, *numbers_here)]
    for what, published in (
        (f"error of {{}} at {LEVEL:g}", ERRORS),
        ("share of {} that no replicate reaches", UNREACHED),
    ):
        for (classes, name, model), value in published.items():
            if classes in numbers:
                at = summary.sel(classes=classes, test=name, model=model)
                shares = at["unreached"] if published is UNREACHED else at["error"].sel(level=LEVEL, method="nearest")
                here = float(shares)
                share = (here + value) / 2
                numbers_here = here, np.sqrt(share * (1 - share)), int(at["pvalues"])
                yield [what.format(name), f"{classes}", model, *_compared(value, *numbers_here)]


def _compared(value: float, here: float, sd: float, count: int) -> list[str]:
    """A published number, ours and their difference; both are means over data sets."""
    error = sd * np.sqrt(1 / max(count, 1) + 1 / SETS)
    units = f"{(here - value) / error:+.1f}" if error > 0 else "0" if here == value else "-"
    return [f"{value:.5g}", f"{here:.5g}", units]


def opened(path: str) -> xr.Dataset:
    """The cube of the study at a path.

    Raises
    ------
    ValueError
        If there is none, or one of another study.
    """
    study = Cube(path).fingerprint.get("study")
    if study != _STUDY:
        raise ValueError(f"{path} is a cube of the study {study}, expected one of {_STUDY}.")
    cube = cd.open_cube(path)
    if not (cube["status"] == 1).any():
        raise ValueError(f"{path} has no cell that is done.")
    return cube


def main(arguments: Sequence[str] | None = None) -> int:
    """Write ``summary.nc``, ``tables.md``, ``index.html`` and the PNG files of a cube.

    Returns 0, or 2 where the cube is none of the study, which a line on stderr tells.
    """
    parser = argparse.ArgumentParser("python -m experiments.skce_tests.outcome", description=__doc__)
    parser.add_argument("cube", help="the cube of the study")
    parser.add_argument("--out", type=Path, required=True, help="folder, made if it is not there")
    chosen = parser.parse_args(arguments)
    try:
        cube = opened(chosen.cube)
        chosen.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return _BAD
    undone = int((cube["status"] != 1).sum())
    if undone:
        print(f"{undone} of {cube['status'].size} cells are not done and do not count.")
    summary = summarized(cube)
    stored = {name: {"dtype": "float32"} for name in ("mean", "sd", "quantiles", "edge", "error", "unreached", "truth")}
    with atomic_replacement(chosen.out / "summary.nc") as part:
        summary.to_netcdf(part, engine="scipy", encoding=stored)
    write_text(chosen.out / "tables.md", tables(summary))
    save_all(summary, chosen.out)
    print(f"{chosen.out}: {', '.join(sorted(path.name for path in chosen.out.iterdir()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
