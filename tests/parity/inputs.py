"""Fixed scored rows, as the keyword arguments of `calibdask.evaluate`, and the containers that they come in."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

Rows = dict[str, Any]
INPUTS = (
    "binary",
    "binary float32",
    "binary ties",
    "binary weights",
    "binary by",
    "binary models",
    "two columns",
    "matrix",
    "matrix float32",
    "matrix ties",
    "matrix weights",
    "matrix by",
    "matrix by two names",
    "matrix models",
    "matrix models weights by",
)
_ROWS = 500


@cache
def rows(name: str) -> Rows:
    """The rows of that name; models are a leading axis, ties are scores on a coarse grid with its ends."""
    rng = np.random.default_rng(19)
    models = (2,) if "models" in name else ()
    if "matrix" in name:
        scores = rng.dirichlet([0.7, 0.5, 0.4], (*models, _ROWS))
        if "ties" in name:
            scores = rng.multinomial(8, scores) / 8
    else:
        scores = rng.beta(0.6, 0.9, (*models, _ROWS))
        scores = np.round(scores * 20) / 20 if "ties" in name else scores
    sharp = (scores if "matrix" in name else np.stack([1 - scores, scores], -1)) ** 1.4
    reached = np.cumsum(sharp, -1).reshape(-1, *sharp.shape[-2:])[0]
    labels = (rng.random(_ROWS)[:, None] * reached[:, -1:] > reached).sum(-1)
    if "columns" in name:
        scores = np.stack([1 - scores, scores], -1)
    made: Rows = {"y_true": labels, "y_prob": scores.astype(np.float32) if "float32" in name else scores}
    if models and "binary" in name:
        made["y_true"], made["task"] = np.stack([labels, labels[::-1]]), "binary"
    if "weights" in name:
        made["sample_weight"] = np.where(rng.random(_ROWS) < 0.1, 0.0, rng.gamma(2.0, size=_ROWS))
    if "by" in name:
        made["by"] = {"country": rng.choice(["be", "pt", "se"], _ROWS)}
    if "two names" in name:
        made["by"]["day"] = rng.integers(1, 3, _ROWS)
    return made


def _as_dask(given: Rows) -> Rows:
    """Odd chunks, other ones for every array; of classes too."""
    labels, scores = given["y_true"], given["y_prob"]
    leading = (1,) * (labels.ndim - 1)
    columns = (77,) if labels.ndim == scores.ndim else (77, 3)
    made = {
        **given,
        "y_true": da.from_array(labels, chunks=(*leading, 101)),
        "y_prob": da.from_array(scores, chunks=((1,) * (scores.ndim - len(columns)) + columns)),
    }
    if "sample_weight" in given:
        made["sample_weight"] = da.from_array(given["sample_weight"], chunks=133)
    if "by" in given:
        made["by"] = {name: da.from_array(values, chunks=199) for name, values in given["by"].items()}
    return made


def _as_blocks(given: Rows) -> Rows:
    """A list of blocks of different lengths."""
    arrays = [given[name] for name in ("y_true", "y_prob", "sample_weight") if name in given]
    cuts = [0, 1, 90, 91, 333, _ROWS]
    return {"y_true": [tuple(array[a:b] for array in arrays) for a, b in pairwise(cuts)]}


def _as_xarray(given: Rows) -> Rows:
    """Dimensions in another order, and named classes."""
    labels, scores = given["y_true"], given["y_prob"]
    several = scores.shape[-1] != _ROWS
    dims = ["model"] * (scores.ndim - 1 - several) + ["row"] + ["label"] * several
    coords = {"label": [f"class {c}" for c in range(scores.shape[-1])]} if several else {}
    made = {
        "y_true": xr.DataArray(labels, dims=["model", "row"][2 - labels.ndim :]),
        "y_prob": xr.DataArray(scores, dims=dims, coords=coords).transpose(*reversed(dims)),
        **{name: xr.DataArray(given[name], dims="row") for name in ("sample_weight",) if name in given},
    }
    if "by" in given:
        made["by"] = {name: xr.DataArray(values, dims="row") for name, values in given["by"].items()}
    return {**made, "sample_dim": "row", "class_dim": "label"}


def _as_frame(given: Rows) -> Rows:
    """Columns of a data frame."""
    scores = given["y_prob"]
    columns = pd.DataFrame(scores).add_prefix("score_") if scores.ndim == 2 else pd.Series(scores)
    made = {**given, "y_true": pd.Series(given["y_true"]), "y_prob": columns}
    if "by" in given:
        made["by"] = {name: pd.Series(values) for name, values in given["by"].items()}
    return made


CONTAINERS: dict[str, Callable[[Rows], Rows]] = {
    "numpy": dict,
    "dask": _as_dask,
    "blocks": _as_blocks,
    "xarray": _as_xarray,
    "frame": _as_frame,
}


def containers(name: str) -> list[str]:
    """Those that the rows of that name fit in: blocks have no slices, and neither they nor data frames have models."""
    unfit = {"by": {"blocks"}, "models": {"blocks", "frame"}}
    return [word for word in CONTAINERS if not any(word in unfit.get(part, ()) for part in name.split())]
