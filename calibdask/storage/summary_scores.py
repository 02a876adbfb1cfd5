"""Sums of proper scores in summaries: exact ones as two words that add up plainly, without a carry."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask.kernels.compiled import FRACTION_BITS
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.score_sums import ScoreSumsState

CLIPPED, WEIGHT, BRIER, LOG = SCORES = ("clipped_rows", "weight_sum", "brier_sum", "log_loss_sum")
# The words of a sum, and what one of each is worth: sums of 2**23 summaries fit, and scores up to 2**51.
WORD, WORD_UNIT = "word", "word_unit"
_LOW_BITS = 40
_HIGH_BITS = FRACTION_BITS - _LOW_BITS

Values = Mapping[str, tuple[Any, tuple[Hashable, ...]]]


def score_variables(state: ScoreSumsState) -> tuple[Values, dict[Hashable, Any]]:
    """Values (batch, groups, ...) and own dimensions of the variables, and the coordinates they need."""
    clipped = {CLIPPED: (state.clipped, ())}
    if state.brier.dtype != np.int64:
        return {**clipped, WEIGHT: (state.weight, ()), BRIER: (state.brier, ()), LOG: (state.log, ())}, {}
    words = {name: (split(sums), (WORD,)) for name, sums in ((BRIER, state.brier), (LOG, state.log))}
    return {**clipped, **words}, {WORD_UNIT: (WORD, limb_units())}


def limb_units() -> Array:
    """Units of the high and low words of a sum."""
    return np.array([2.0**-_HIGH_BITS, 2.0**-FRACTION_BITS])


def score_state(dataset: xr.Dataset, whole: Any) -> ScoreSumsState:
    """The sums of a summary that has them, (1, groups); ``whole`` converts whole numbers to int64.

    Raises
    ------
    ValueError
        If it has lost some of them.
    """
    weighted = WEIGHT in dataset
    axes = dataset["rows"].dims
    own = () if weighted else (WORD,)
    needed = {"rows": (), CLIPPED: (), **({WEIGHT: ()} if weighted else {}), BRIER: own, LOG: own}
    values = {}
    for name, dims in needed.items():
        if name not in dataset or set(dataset[name].dims) != {*axes, *dims} or (dims and dataset.sizes[WORD] != 2):
            raise ValueError(
                f"This summary has lost {name} or a part of it; select from summaries without dropping variables, or "
                "summarize the data again."
            )
        array = dataset[name].transpose(*axes, *dims).values
        values[name] = array.reshape(1, -1, *array.shape[len(axes) :])
    rows, clipped = whole(values["rows"]), whole(values[CLIPPED])
    if weighted:
        return ScoreSumsState(rows, clipped, values[WEIGHT], values[BRIER], values[LOG])
    brier, log = (joined(whole(values[name])) for name in (BRIER, LOG))
    return ScoreSumsState(rows, clipped, exact.from_counts(rows), brier, log)


def carried(dataset: xr.Dataset) -> xr.Dataset:
    """The summary with carried words, since equal sums may be split into different words."""
    words = [name for name, sums in dataset.data_vars.items() if WORD in sums.dims]
    return dataset.assign(
        {name: (dataset[name].dims, split(joined(dataset[name].transpose(..., WORD).values))) for name in words}
    )


def split(sums: Counts) -> Counts:
    """Words (whole, fraction) as (multiples of 2**-12, multiples of 2**-52 below them)."""
    whole, fraction = sums[..., 0], sums[..., 1]
    return np.stack([(whole << _HIGH_BITS) + (fraction >> _LOW_BITS), fraction & ((1 << _LOW_BITS) - 1)], axis=-1)


def joined(words: Counts) -> Counts:
    """The inverse, of sums of such words too."""
    high, low = words[..., 0] + (words[..., 1] >> _LOW_BITS), words[..., 1] & ((1 << _LOW_BITS) - 1)
    return np.stack([high >> _HIGH_BITS, ((high & ((1 << _HIGH_BITS) - 1)) << _LOW_BITS) | low], axis=-1)
