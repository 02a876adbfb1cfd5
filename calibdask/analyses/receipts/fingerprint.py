"""`fingerprint`: identity of the rows of a data set, in any order, chunking and format."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions, Task
from calibdask.engine.plan import run_requests
from calibdask.results.format import slice_text
from calibdask.safe_text import listed
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.request import Requests
from calibdask.statistics.row_hashes import PARTS, RowHashes, RowHashesState, text_hash

# The last part of rows with clusters.
SLICES_AND_GROUPS = "slices and groups"
_DIGITS = 16


@dataclass(frozen=True)
class Fingerprint:
    """Of the rows of one model.

    Attributes
    ----------
    rows : int
    whole : str
        64 hexadecimal digits: of labels, scores, weights and slices, row by row.
    parts : mapping from name to str
        32 digits each, of ``labels``, ``scores``, ``weights`` and ``slices`` by themselves; with clusters ``slices and
        groups`` in place of the last.
    """

    rows: int
    whole: str
    parts: Mapping[str, str]


def fingerprint(
    y_true: Any,
    y_prob: Any = None,
    *,
    by: Any = None,
    sample_weight: Any = None,
    label: Any = None,
    score: Any = None,
    skip_missing: bool = False,
    task: Task | None = None,
    logits: bool = False,
    labels: Any = None,
    pos_label: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
) -> str:
    """Fingerprint of rows: 64 hexadecimal digits that do not depend on order, chunks, workers or file format.

    Parameters
    ----------
    y_true, y_prob, by, sample_weight, label, score, skip_missing, task, logits, labels, pos_label, ignore_label, groups
        As in `calibdask.evaluate`; ``groups`` are hashed too.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If the input is a summary.
    ValueError
        As in `calibdask.evaluate`; and if there are several models.

    Notes
    -----
    The sum, modulo 2**64 in each of four words, of a hash of every row: the number of its class, its scores and weight
    as float64, and the texts of its slices. Scores are compared as numbers: float32 scores are converted to float64.
    Changing a single number, or adding or removing a row, always changes the fingerprint; two different sets of rows
    have the same fingerprint with a probability of about 2**-128. It detects accidents and careless changes; sums of
    hashes do not protect against somebody who constructs rows to match a given sum.

    One pass, about 50 ns per row on one core.

    Examples
    --------
    >>> import calibdask as cd
    >>> first = cd.fingerprint([0, 1, 1], [0.25, 0.5, 0.75])
    >>> first == cd.fingerprint([1, 0, 1], [0.75, 0.25, 0.5]), first == cd.fingerprint([0, 1, 1], [0.25, 0.5, 0.875])
    (True, False)
    """
    options = InputOptions(
        task,
        logits,
        labels,
        pos_label,
        ignore_label,
        label=label,
        score=score,
        skip_missing=skip_missing,
        groups=groups,
    )
    data = Data.of(y_true, y_prob, by, sample_weight, options).rows_for("fingerprint", "which it hashes")
    return fingerprint_of(data.read(takes_groups=True)).whole


def fingerprint_of(data: Input) -> Fingerprint:
    """Fingerprint of data that have been read.

    Raises
    ------
    ValueError
        If there are several models.
    """
    if data.batch:
        names = listed([str(axis.name) for axis in data.batch])
        raise ValueError(
            f"A fingerprint is computed for the scores of one model, got several along {names}; select one."
        )
    estimates: Any = run_requests({"rows": _requests(RowHashes(_keys(data)))}, data.source).estimates
    state: RowHashesState = estimates["rows"]
    words = [f"{word:0{_DIGITS}x}" for word in state.sums[0].view(np.uint64).tolist()]
    rows = int(state.rows[0])
    last = SLICES_AND_GROUPS if data.source.layout.clustered else PARTS[-1]
    parts = {part: "".join(words[2 * number : 2 * number + 2]) for number, part in enumerate((*PARTS[:-1], last))}
    return Fingerprint(rows, "".join(words[2 * len(PARTS) :]), parts)


def _requests(statistic: RowHashes) -> Requests[RowHashesState]:
    return (yield from statistic)


def _keys(data: Input) -> FrozenArray:
    """A word for each slice: of its labels by the names of their columns, in the order of the names."""
    sizes = [axis.size for axis in data.by]
    keys = []
    for at in np.ndindex(*sizes):
        labels = {str(axis.name): slice_text(axis.labels[i]) for axis, i in zip(data.by, at, strict=True)}
        keys.append(text_hash(json.dumps(labels, sort_keys=True)))
    return FrozenArray(np.array(keys, np.int64))
