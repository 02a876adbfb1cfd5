"""Tables of the summaries as Markdown, and what they say about published orderings."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import xarray as xr

from experiments.recalibration.calibrators import ON_PROBABILITIES
from experiments.recalibration.summaries import remaining, win_rates

LOG = "log loss"
# Win rates on log loss that CalArena publishes, by the names of ours.
CALARENA_TABULAR = {"spline": 0.62, "quadratic": 0.62, "beta": 0.62, "isotonic": 0.51, ON_PROBABILITIES: 0.33}
CALARENA_NETWORKS = {"sms": 0.97, "svs": 0.89, "temperature": 0.65}
# Pairs of which the first is ahead, as these win rates have it.
TABULAR = [(first, second) for first in ("spline", "quadratic", "beta") for second in ("isotonic", ON_PROBABILITIES)]
NETWORKS = [("svs", "temperature"), ("sms", "temperature")]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table, and an empty one."""
    return [*(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)), ""]


def by_size(values: xr.DataArray, form: Callable[[float], str], *, best: str | None = None) -> list[str]:
    """A row for each calibrator, a column for each size; the ``"min"`` or ``"max"`` of each column is bold."""
    values = values.transpose("calibrator", "size").dropna("calibrator", how="all")
    chosen = getattr(values, best)("calibrator") if best else None
    rows = []
    for one in values:
        cells = []
        for size in values["size"].values:
            value = float(one.sel(size=size))
            word = "" if np.isnan(value) else form(value)
            is_best = chosen is not None and bool(word) and value == float(chosen.sel(size=size))
            cells.append(f"**{word}**" if is_best else word)
        rows.append([str(one["calibrator"].item()), *cells])
    return table(["", *(f"{size:,}" for size in values["size"].values)], rows)


def percent(value: float) -> str:
    """A share in percent; nothing of NaN."""
    if np.isnan(value):
        return ""
    return f"{100 * value:.0f} %" if value < 9.995 else "over 999 %"


def _millinats(value: float) -> str:
    return f"{1000 * value:.2f}" if abs(value) < 1 else "over 999"


def known_truth(summary: xr.Dataset) -> list[str]:
    """Tables of the study with known truth."""
    log = summary.sel(loss=LOG)
    others = [curve for curve in summary["curve"].values if curve != "calibrated"]
    over = ["density", "curve"]
    left = remaining(log).median(over)
    lines = [
        "## Distributions with known truth",
        "",
        _cells(summary),
        "",
        "### What remains of the miscalibration",
        "",
        "Excess log loss over the true frequencies, as a share of its value without recalibration: median over "
        "uncalibrated distributions of medians over samples. Above 100 % recalibration does harm.",
        "",
        *by_size(left, percent, best="min"),
        "The same of the 90th percentile over samples:",
        "",
        *by_size(remaining(log, "tail").median(over), percent, best="min"),
        "The same of the Brier score:",
        "",
        *by_size(remaining(summary.sel(loss="brier")).median(over), percent, best="min"),
        "### Share of samples in which the log loss becomes worse",
        "",
        "Of distributions that are not calibrated:",
        "",
        *by_size(log["worse"].sel(curve=others).mean(over), percent, best=None),
    ]
    if "calibrated" in summary["curve"]:
        lines += [
            "### The cost of recalibrating calibrated scores",
            "",
            "Excess log loss in thousandths of a nat where scores are calibrated, median over densities and samples:",
            "",
            *by_size(log["excess"].sel(curve="calibrated").median("density"), _millinats),
        ]
    lines += [
        "### Win rates",
        "",
        "Share of samples in which the log loss is smaller, mean over all other calibrators:",
        "",
        *by_size(win_rates(log["wins"]), "{:.2f}".format, best="max"),
        "### Infinite log loss and refused samples",
        "",
        "Share of samples after which one row in a million or more has a score of 0 or 1 and the other outcome. All "
        "other tables clip scores at the precision of their type, as scikit-learn's log_loss does.",
        "",
        *by_size(_not_all_zero(summary["infinite"].mean(over)), percent),
    ]
    refused = summary["refused"].mean(over).max("calibrator").expand_dims(calibrator=["refused"])
    lines += [
        "Share of samples to which a calibrator cannot be fitted, mostly because all outcomes are equal; scores then "
        "remain unchanged, for all calibrators:",
        "",
        *by_size(refused, percent),
    ]
    for group in over:
        other = "curve" if group == "density" else "density"
        lines += [f"### By {group}", ""]
        for size in _some_sizes(summary):
            values = remaining(log).sel(size=size).median(other).dropna(group, how="all")
            rows = [
                [str(name), *(percent(float(v)) for v in values.sel(calibrator=name).values)]
                for name in values["calibrator"].values
            ]
            lines += [f"What remains at {size:,} rows:", "", *table(["", *map(str, values[group].values)], rows)]
    return lines


def real_models(summary: xr.Dataset) -> list[str]:
    """Tables of the study of real models."""
    lines = ["## scikit-learn's models on its data sets", "", _cells(summary), ""]
    for kind, chosen in (("binary", summary["classes"] == 2), ("multi-class", summary["classes"] > 2)):
        here = summary.sel(loss=LOG, kind=kind).isel(data=np.flatnonzero(chosen))
        if not here.sizes["data"]:
            continue
        over = ["data", "model"]
        lines += [
            f"### {kind.capitalize()}: {', '.join(here['data'].values)}",
            "",
            "Median over data sets and models of the change of the log loss, in thousandths of a nat:",
            "",
            *by_size(1000 * here["gain"].median(over), "{:+.1f}".format, best="min"),
            "Share made worse:",
            "",
            *by_size(here["worse"].mean(over), percent),
            "Win rates:",
            "",
            *by_size(win_rates(here["wins"]), "{:.2f}".format, best="max"),
            "Share with an infinite log loss on the test rows:",
            "",
            *by_size(here["infinite"].mean(over), percent),
        ]
        size = int(here["size"].values[-1])
        values = here["gain"].sel(size=size).median("data").dropna("calibrator", how="all")
        rows = [
            [str(name), *(f"{1000 * float(v):+.1f}" for v in values.sel(calibrator=name).values)]
            for name in values["calibrator"].values
        ]
        lines += [f"By model, {size:,} rows:", "", *table(["", *map(str, values["model"].values)], rows)]
    return lines


def claims(truth: xr.Dataset | None, real: xr.Dataset | None) -> list[str]:
    """Published orderings against ours."""
    lines = [
        "# Published orderings",
        "",
        "CalArena (1791 experiments) publishes win rates on log loss. An ordering holds here where the first of the "
        "two has the smaller log loss in more than half of the samples, at every size; in part where it has at half of "
        "the sizes or more.",
        "",
        f"Published for tabular binary models: {_told(CALARENA_TABULAR)}. Published for networks: "
        f"{_told(CALARENA_NETWORKS)}. Platt scaling there is one of probabilities; `platt` here is one of logits.",
        "",
    ]
    for heading, wins, pairs in _parts(truth, real):
        rows = []
        for first, second in pairs:
            if not {first, second} <= {*wins["calibrator"].values}:
                continue
            shares = wins.sel(calibrator=first, other=second).dropna("size")
            ahead = float((shares > 0.5).mean()) if shares.size else np.nan
            verdict = "holds" if ahead == 1 else "in part" if ahead >= 0.5 else "does not hold"
            rows.append([f"{first} ahead of {second}", verdict, *_cells_of(shares, wins["size"].values.tolist())])
        sizes = [f"{size:,}" for size in wins["size"].values]
        lines += [f"## {heading}", "", "Share of samples in which the first is ahead, by number of rows:", ""]
        lines += table(["ordering", "verdict", *sizes], rows)
        rates = win_rates(wins).mean("size").dropna("calibrator").sortby(win_rates(wins).mean("size"), ascending=False)
        lines += ["Win rates, mean over sizes: " + _told({str(v["calibrator"].item()): float(v) for v in rates}), ""]
    return lines


def _parts(
    truth: xr.Dataset | None, real: xr.Dataset | None
) -> Iterator[tuple[str, xr.DataArray, list[tuple[str, str]]]]:
    on_logits = [("platt", ON_PROBABILITIES), ("quadratic", "platt"), ("beta", "platt"), ("spline", "platt")]
    if truth is not None:
        yield "Distributions with known truth", truth["wins"].sel(loss=LOG), [*TABULAR, *on_logits]
    if real is not None:
        wins = real["wins"].sel(loss=LOG)
        yield "scikit-learn's models, two classes", wins.sel(kind="binary"), [*TABULAR, *on_logits]
        yield "scikit-learn's models, more classes", wins.sel(kind="multi-class"), NETWORKS


def _cells_of(shares: xr.DataArray, sizes: Sequence[int]) -> list[str]:
    return [f"{float(shares.sel(size=size)):.2f}" if size in shares["size"].values else "" for size in sizes]


def _told(rates: dict[str, float]) -> str:
    return ", ".join(f"{name} {rate:.2f}" for name, rate in rates.items())


def _cells(summary: xr.Dataset) -> str:
    done, total = summary.attrs["cells_done"], summary.attrs["cells"]
    missing = "" if done == total else f"; **{total - done} are not done and left out**"
    return f"{done} of {total} cells{missing}."


def _not_all_zero(values: xr.DataArray) -> xr.DataArray:
    return values.isel(calibrator=np.flatnonzero((values.fillna(0) > 0).any("size").values))


def _some_sizes(summary: xr.Dataset) -> list[int]:
    sizes: list[int] = summary["size"].values.tolist()
    return sorted({sizes[len(sizes) // 4], sizes[len(sizes) // 2], sizes[-1]})


def best_by_size(summary: xr.Dataset) -> dict[int, str]:
    """The calibrator of known truths, or none, after which the least remains, at each size."""
    left = remaining(summary.sel(loss=LOG)).median(["density", "curve"])
    return {int(size): str(left.sel(size=size).idxmin("calibrator").item()) for size in left["size"].values}
