"""The distributions of estimates and the errors of tests, from the cube of `experiments.skce_tests.study`."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr

import calibdask as cd
from experiments.skce_tests.figures import save_all
from experiments.skce_tests.published import ERRORS, LEVEL, MEANS, SETS
from experiments.skce_tests.truth import true_ece

__all__ = ["LEVELS", "QUANTILES", "summarized", "tables"]

# Significance levels, as in Figure 2.
LEVELS = np.arange(101) / 100
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_BINS = 40
_SHOWN_LEVELS = (0.01, 0.05, 0.1)
_CALIBRATED = "M1"


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
        above it; ``sets`` and ``pvalues``, how many there are.
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
    order = ("classes", "model", "estimator", "test", "quantile", "border", "bin", "level")
    return summary.transpose(*order).assign_attrs(study=cube.attrs.get("study", ""))


def _histograms(estimates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Borders and counts of bins of equal width, of each distribution along the last axis."""
    shape = estimates.shape[:-1]
    edges, counts = np.full((*shape, _BINS + 1), np.nan), np.zeros((*shape, _BINS), np.int32)
    for place in np.ndindex(shape):
        values = estimates[place][np.isfinite(estimates[place])]
        if values.size:
            counts[place], edges[place] = np.histogram(values, _BINS)
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
    if 10 in summary["classes"]:
        parts.append(
            "## Published\n\n10 classes; the difference in units of its standard error.\n\n"
            + _markdown(_published(summary.sel(classes=10)))
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
            mean, sd, truth = (float(at[each]) for each in ("mean", "sd", "truth"))
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


def _published(one: xr.Dataset) -> Iterator[list[str]]:
    yield ["", "model", "published", "here", "difference"]
    for (name, model), value in MEANS.items():
        at = one.sel(estimator=name, model=model)
        yield _compared(f"mean of {name}", model, value, float(at["mean"]), float(at["sd"]), int(one["sets"]))
    for (name, model), value in ERRORS.items():
        at = one.sel(test=name, model=model)
        error = float(at["error"].sel(level=LEVEL, method="nearest"))
        share = (error + value) / 2
        count = int(at["pvalues"])
        yield _compared(f"error of {name} at {LEVEL:g}", model, value, error, np.sqrt(share * (1 - share)), count)


def _compared(what: str, model: str, value: float, here: float, sd: float, count: int) -> list[str]:
    """A published number and ours; both are means over data sets."""
    error = sd * np.sqrt(1 / max(count, 1) + 1 / SETS)
    units = f"{(here - value) / error:+.1f}" if error > 0 else "0" if here == value else "-"
    return [what, model, f"{value:.5f}", f"{here:.5f}", units]


def main() -> None:
    """Write ``summary.nc``, ``tables.md``, ``index.html`` and the PNG files of a cube."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cube", help="the cube of the study")
    parser.add_argument("--out", type=Path, required=True, help="folder, made if it is not there")
    chosen = parser.parse_args()
    cube = cd.open_cube(chosen.cube)
    undone = int((cube["status"] != 1).sum())
    if undone:
        print(f"{undone} of {cube['status'].size} cells are not done and do not count.")
    summary = summarized(cube)
    chosen.out.mkdir(parents=True, exist_ok=True)
    stored = {name: {"dtype": "float32"} for name in ("mean", "sd", "quantiles", "edge", "error", "truth")}
    summary.to_netcdf(chosen.out / "summary.nc", engine="scipy", encoding=stored)
    (chosen.out / "tables.md").write_text(tables(summary), encoding="utf-8")
    save_all(summary, chosen.out)
    print(f"{chosen.out}: {', '.join(sorted(path.name for path in chosen.out.iterdir()))}")


if __name__ == "__main__":
    main()
