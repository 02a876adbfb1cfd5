"""Each misuse of arrays is answered by one sentence that says what came, what was expected and how to mend it."""

import re
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.errors import SuspectScoresWarning
from tests.combinations import pairwise
from tests.front.misuse import CASES, Misuse
from tests.front.ways_in import Tensor

_MASK = np.arange(12) == 7


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_misuse(case: Misuse) -> None:
    with pytest.raises(ValueError, match=re.escape(case.message)) as raised:
        cd.evaluate(**case.make(), metrics=cd.ECE())
    assert str(raised.value) == case.message


def test_numbers_as_text_are_warned_of_where_their_order_is_not_theirs() -> None:
    names = np.arange(12).astype(str)
    scores = np.full((24, 12), 1 / 12)
    with pytest.warns(UserWarning, match=r"sorted as text, \['0', '1', '10', '11', '2', \.\.\.\].* give labels=\.\.\."):
        cd.ece(np.tile(names, 2), scores)
    assert cd.ece(np.tile(names, 2), scores, labels=names) >= 0


def test_a_vector_of_probabilities_as_logits_is_warned_of() -> None:
    labels, scores = np.arange(200) % 2, np.linspace(0, 1, 200)
    said = r"All 200 logits lie between 0 and 1; if they are probabilities, omit logits=True \(--logits\)\."
    with pytest.warns(SuspectScoresWarning, match=said):
        cd.ece(labels, scores, logits=True)
    assert cd.ece(labels, scores - 0.5, logits=True) > 0


_LOGITS = 3 * np.random.default_rng(1).normal(size=(40, 3))
_PROBABILITIES = np.exp(_LOGITS) / np.exp(_LOGITS).sum(1, keepdims=True)


def _in_chunks(scores: np.ndarray) -> Any:
    return da.from_array(scores, chunks=(7, 3))


@pytest.mark.parametrize(
    ("container", "models"),
    [(container, ("raw", "mapped")) for container in ("arrays", "stack", "dask", "blocks", "frame")]
    + [("arrays", ("mapped", "raw"))],
)
def test_every_model_is_checked_for_being_logits_or_probabilities(models: tuple[str, str], container: str) -> None:
    """The first model said which it was, and the softmax of probabilities passed for another model's scores."""
    labels = np.arange(40) % 3
    scores = {name: {"raw": _LOGITS, "mapped": _PROBABILITIES}[name] for name in models}
    number = models.index("mapped")
    named = f"number {number} along 'dim_0'" if container == "stack" else "model 'mapped'"
    other = f"number {1 - number} along 'dim_0'" if container == "stack" else "model 'raw'"

    def evaluate(*, logits: bool) -> Any:
        match container:
            case "arrays":
                return cd.compare(labels, scores, metrics=["ece"], logits=logits)
            case "stack":
                return cd.evaluate(labels, np.stack([*scores.values()]), ["ece"], logits=logits)
            case "dask":
                lazy = {name: _in_chunks(values) for name, values in scores.items()}
                return cd.evaluate(da.from_array(labels, chunks=7), lazy, ["ece"], logits=logits)
            case "blocks":
                return cd.evaluate([(labels, scores)], metrics=["ece"], logits=logits)
        frames = {name: pd.DataFrame(values) for name, values in scores.items()}
        return cd.evaluate(pd.Series(labels), frames, ["ece"], logits=logits)

    expected = rf"expects logits, but all 40 rows of {named} lie in \[0, 1\] and sum to 1, .*of all models and omit it"
    with pytest.raises(ValueError, match=expected):
        evaluate(logits=True)
    with pytest.raises(ValueError, match=rf"Expected scores in \[0, 1\] .* the first is row 0 of {other} with score"):
        evaluate(logits=False)


def test_reversed_columns_are_warned_of_with_any_metric_at_the_callers_line() -> None:
    labels, scores = _LOGITS.argmax(1), np.eye(3)[_LOGITS.argmax(1)] * 0.8 + 0.2 / 3
    labels, scores = np.tile(labels, 20), np.tile(scores, (20, 1))
    labels, scores = labels[labels != 1], scores[labels != 1]
    for metrics in (None, "ece"):
        with pytest.warns(SuspectScoresWarning, match=r"columns of scores") as caught:
            cd.evaluate(labels, scores[:, ::-1], metrics)
        assert caught[0].filename == __file__
    with pytest.warns(SuspectScoresWarning, match=r"fewer than of guesses among 3 classes"):
        cd.check(labels, scores[:, ::-1], {"ece": 0.9}, n_boot=20)


@pytest.mark.parametrize("limits", [{"ece": 0.02}, {"ece": (0.0, 0.1)}, "ece=0.02", ["ece=0.02"]], ids=repr)
def test_limits_in_the_place_of_scores(limits: Any) -> None:
    with pytest.raises(ValueError, match=r"second argument is y_prob, the scores, got limits; pass limits by keyword"):
        cd.check("rows.parquet", limits, by="device")


def test_a_map_of_logits_refuses_probabilities() -> None:
    fitted = cd.TemperatureScaling(logits=True).fit(np.where(np.arange(40) % 3, _LOGITS.argmax(1), 0), _LOGITS)
    with pytest.raises(ValueError, match=r"The map expects logits, .* like probabilities; give it the logits"):
        fitted.predict_proba(_PROBABILITIES)


@pytest.mark.parametrize("metrics", ["ece", ["ece", "brier"], cd.ECE(), {"mine": cd.ECE()}], ids=repr)
def test_metrics_in_the_place_of_scores(metrics: Any) -> None:
    frame = pd.DataFrame({"label": [0, 1], "score": [0.2, 0.7]})
    for data in (frame, "rows.parquet", frame["label"]):
        with pytest.raises(ValueError, match=r"second argument is y_prob, the scores, got metrics; .*metrics=\.\.\."):
            cd.evaluate(data, metrics)


def _in_dask(array: np.ndarray) -> Any:
    return da.ma.masked_array(da.from_array(array, chunks=5), mask=_MASK)


def _in_blocks(array: np.ndarray) -> Any:
    """Blocks that turn out to be masked, of which the array does not tell."""
    return da.from_array(np.arange(12), chunks=5).map_blocks(
        lambda rows: np.ma.masked_array(array[rows], mask=_MASK[rows]), dtype=array.dtype, meta=array[:0]
    )


class Masked(Tensor):
    """An array of another library that converts itself to a masked one."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.ma.masked_array(self.array, mask=_MASK)


@pytest.mark.parametrize(
    ("container", "argument", "skip_missing"),
    pairwise([_in_dask, _in_blocks, Masked], ["y_true", "y_prob", "sample_weight", "by"], [False, True]),
)
def test_masks_are_refused_wherever_they_turn_up(container: Any, argument: str, skip_missing: bool) -> None:
    given = {"y_true": np.arange(12) % 2, "y_prob": np.full(12, 0.5), "sample_weight": np.ones(12), "by": np.ones(12)}
    given[argument] = container(given[argument])
    with pytest.raises(ValueError, match=r"^Masked values are not supported; remove these rows"):
        cd.evaluate(**given, metrics=cd.ECE(), skip_missing=skip_missing)


def test_masks_of_rows_are_refused_and_those_of_nothing_are_none() -> None:
    labels, scores = np.arange(12) % 2, np.tile([0.25, 0.75], (12, 1))
    rows = [np.ma.masked_array(row, mask=row < 0.3) for row in scores]
    objects = np.empty(12, object)
    objects[:] = rows
    for given in (rows, objects):
        with pytest.raises(ValueError, match=r"^Masked values"):
            cd.ece(labels, given)
    unmasked = da.ma.masked_array(da.from_array(scores, chunks=(5, 2)))
    assert cd.ece(labels, unmasked) == cd.ece(labels, [np.ma.masked_array(row) for row in scores]) == 0.25


@pytest.mark.parametrize(("argument", "skip_missing"), [("y_prob", False), ("sample_weight", True), ("by", True)])
def test_series_of_dask_with_other_divisions_are_refused(argument: str, skip_missing: bool) -> None:
    series = {"y_true": np.arange(12) % 2, "y_prob": np.full(12, 0.5), "sample_weight": np.ones(12)}
    series = {name: dd.from_pandas(pd.Series(values), npartitions=3) for name, values in series.items()}
    by = dd.from_pandas(pd.Series(np.ones(12)), npartitions=3)
    moved = dd.from_pandas(pd.Series(np.linspace(0.1, 0.9, 12), np.arange(12) + 1), npartitions=3)
    other = {"by": {"g": moved}} if argument == "by" else {argument: moved, "by": {"g": by}}
    shown = r"with different divisions, \[0, 4, 8, \.\.\.\] and \[1, 5, 9, \.\.\.\]: their rows cannot be matched"
    with pytest.raises(ValueError, match=shown):
        cd.evaluate(**series | other, metrics=cd.ECE(), skip_missing=skip_missing)
    assert cd.evaluate(**series, by={"g": by}, metrics=cd.ECE(), skip_missing=skip_missing).ece == 0


def test_partitions_of_dask_with_another_index_are_refused() -> None:
    frame = pd.DataFrame({"label": np.arange(12) % 2, "score": np.linspace(0.1, 0.9, 12)})
    labels = dd.from_pandas(frame, npartitions=3).label
    scores = dd.from_pandas(frame[::-1], npartitions=3, sort=False).score
    with pytest.raises(ValueError, match="expect the same index in each partition, got different ones"):
        cd.ece(labels, scores)
    # Said to have one order, they are read by position.
    reversed_scores = frame.score.to_numpy()[::-1]
    assert cd.ece(labels.to_dask_array(), scores.to_dask_array()) == cd.ece(frame.label, reversed_scores)
