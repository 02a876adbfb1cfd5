"""Compatibility of summaries for addition: settings, step, classes and dimensions must agree."""

import xarray as xr

from calibdask.safe_text import listed
from calibdask.storage.summary import Summary
from calibdask.storage.summary_cluster_weights import WEIGHT_PERIODS
from calibdask.storage.summary_clusters import GROUPS
from calibdask.storage.summary_lattice import Cuts, differing

# The attribute of a summary, or of a result, that says which population it is of.
POPULATION = "population"


def shared_attributes(part: xr.Dataset) -> dict[str, str]:
    """The attributes that a sum of compatible summaries has from any of them."""
    return {name: part.attrs[name] for name in (POPULATION, GROUPS) if name in part.attrs}


def check_compatible(first: Summary, other: Summary, expected: str) -> None:
    """Raise ValueError for summaries whose numbers do not add up; ``expected`` begins the message."""
    both = (first, other)
    layouts = [part.source.layout for part in both]
    kinds = ["a vector of P(y = 1)" if layout.vector else f"{layout.classes} columns" for layout in layouts]
    compared = [
        ("scores", kinds, ""),
        ("settings", [", ".join(sorted({str(kept.setting) for kept in part.source.histograms})) for part in both], ""),
        ("step", [f"{part.step:.4g}" for part in both], ""),
        ("weights", ["weights" if layout.weighted else "none" for layout in layouts], ""),
        (
            "buckets of clusters",
            [str(layout.buckets or "none") for layout in layouts],
            "; summarize all rows with groups and the same buckets, or leave clusters out by "
            "drop_dims('cluster_bucket')",
        ),
        (
            "units that count once in a period",
            _units(first, other),
            "; summarize the rows of both with groups (--groups)",
        ),
        (
            "periods in which clusters count once",
            _weighted_periods(first, other),
            "; summarize both with the same period (--period)",
        ),
        ("population", [part.dataset.attrs.get(POPULATION, "in the sample") for part in both], ""),
        ("names of classes", [listed(part.classes) for part in both], ""),
        (
            "dimensions of slices",
            [listed(sorted(part.slices)) or "none" for part in both],
            "; sum over those that one of them lacks, or summarize its rows by them (--by at the shell)",
        ),
        (
            "cuts of features",
            _cut_words(first.cuts, other.cuts),
            "; learn them once, and give them to calibdask.summarize by cuts, at the shell by --cuts",
        ),
        ("dimensions of models", [listed(part.batch) or "none" for part in both], ""),
        ("models", [str([part.labels[dim].tolist() for dim in part.batch]) for part in both], ""),
    ]
    for what, (one, two), mend in compared:
        if one != two:
            raise ValueError(f"{expected} with the same {what}, got {one} and {two}{mend}.")


def _units(*both: Summary) -> list[str]:
    """What counts once in a period: of rows without clusters, each row; equal texts where buckets tell clusters."""
    if any(part.source.layout.clustered for part in both):
        return ["", ""]
    return ["clusters" if WEIGHT_PERIODS in part.dataset else "rows" for part in both]


def _weighted_periods(one: Summary, two: Summary) -> list[str]:
    """Names of the slices that are periods of clusters; equal texts where one of the summaries has none."""
    variables = [part.dataset.variables.get(WEIGHT_PERIODS) for part in (one, two)]
    if any(variable is None for variable in variables):
        return ["", ""]
    return [listed(sorted(map(str, variable.dims))) or "none" for variable in variables if variable is not None]


def _cut_words(one: Cuts | None, two: Cuts | None) -> list[str]:
    """Description of the cuts of two summaries; equal texts if the cuts agree."""
    if one is None or two is None:
        return ["none" if cuts is None else f"features {listed(cuts.names)}" for cuts in (one, two)]
    return [*differing(one, two)]
