"""`threshold`: from which confidence on answers may go out unseen, with a guarantee on their errors."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions, Task
from calibdask.engine.sources.source import Source
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.ordered.score_points import histogram_of
from calibdask.inference.choice import check_confidence, check_level
from calibdask.inference.fixed_sequence import Fallback, RiskTest, level_of_each
from calibdask.results.decision_results import PROMISED, Limited, sentence
from calibdask.results.monitoring_results import described
from calibdask.statistics.bins.grid import Grid, GridState
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.settings import Setting

# How many times the rows the planned coverage is for.
_TIMES = (2.0, 5.0, 10.0, math.inf)


def threshold(
    y_true: Any,
    y_prob: Any = None,
    risk: float = 0.05,
    confidence: float = 0.95,
    by: Any = None,
    *,
    setting: str | int | None = None,
    label: Any = None,
    score: Any = None,
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
    """Choose the lowest confidence above which answers may go out unseen, with a guarantee on their errors.

    With s the confidence of a row and error 1 if its prediction is wrong, the threshold t is such that

        P( E[error | s > t] > risk ) <= 1 - confidence

    over the rows that it is chosen from, whatever the model and its calibration.

    Parameters
    ----------
    y_true, y_prob, label, score, skip_missing, task, logits, labels, pos_label, ignore_label
        As for `calibdask.evaluate`; in place of ``y_true`` also a summary of `calibdask.summarize`.
    sample_dim, class_dim, sum_tolerance
        As for `calibdask.evaluate`.
    risk : float, default 0.05
        The largest share of errors among the answers that go out.
    confidence : float, default 0.95
        Probability of the guarantee: that all thresholds of a model, those of all slices together, keep the risk.
    by : array of shape (n,), mapping, or names of columns, optional
        Slices with thresholds of their own, as for `calibdask.evaluate`; of a summary names of its slices, the others
        are added up.
    setting : str or int, optional
        ``"confidence"`` (default; for a vector of scores too), ``"binary"`` or the number of a class (answers are
        claims of that class), ``"classwise"`` (claims of each class, each with a threshold).

    Returns
    -------
    xarray.Dataset
        By slice: ``threshold``, NaN where none qualifies; ``coverage``, the share of the rows above it, then 0;
        ``risk``, the share of errors among them, and ``risk_high``, its upper confidence limit there, at most the risk
        allowed; ``answers`` and ``errors``, these rows and the wrong ones among them; ``pvalue`` of the test of the
        threshold.

        ``planned_coverage`` along ``times``: the coverage to be expected with 2, 5, 10 times the rows, and with any
        number, if errors are as frequent as in these. ``sentence``: all that in words. The attribute ``least_rows`` is
        the number of rows without an error that suffice, 59 for 5 % with confidence 95 %.

    Raises
    ------
    ValueError
        If ``risk`` or ``confidence`` is not between 0 and 1, if a summary has weights, or as `calibdask.evaluate`.

    Notes
    -----
    Thresholds are tested in a fixed order from strict to lax [1]_, with N rows above t, Err errors among them, by

        p(t) = P(Binomial(N, risk) <= Err);

    the lowest threshold whose test rejects is chosen. The order is determined by the scores, before errors are seen:
    about 200 borders of cells of a fine grid, with half a percent of the rows between them, from a tenth of the rows on
    (less of many rows, more where no errors among them would not pass). The first test has half of the level
    1 - confidence, which each that rejects passes on to the next; the other half begins at a third of the rows, where
    the most confident answers are not the best [2]_. Few rows have one beginning with all of it.

    Several slices (and classes) start with equal parts of the level; one whose tests all reject leaves its part to the
    others, for sequences of one test Holm's method [3]_. Slices with too few rows are not tested.

    The guarantee is for rows like these, independent of each other and of the fit of the model; it says nothing of
    later ones that differ. The number of tests does not weaken it, but to choose among results does: not to ask again
    with another risk until one suits.

    One pass; rows, chunks and summaries give the same numbers. Memory: 156 kB for each slice.

    References
    ----------
    .. [1] Angelopoulos, Bates, Candès, Jordan & Lei, Learn then test: calibrating predictive algorithms to achieve risk
       control, 2021.
    .. [2] Wiens & Dmitrienko, The fallback procedure for evaluating a single family of hypotheses, 2005.
    .. [3] Bretz, Maurer, Brannath & Posch, A graphical approach to sequentially rejective multiple test procedures,
       2009.
    .. [4] Geifman & El-Yaniv, Selective classification for deep neural networks, 2017.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(10_000)
    >>> result = cd.threshold(rng.random(10_000) < scores, scores, risk=0.1)
    >>> round(float(result.threshold), 2), round(float(result.coverage), 2), float(result.risk_high) <= 0.1
    (0.83, 0.34, True)
    """
    check_level(risk, "risk")
    check_confidence(confidence)
    options = InputOptions(
        task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance, label, score, skip_missing
    )
    data = Data.of(y_true, y_prob, by, None, options).pooled().read()
    if data.source.layout.weighted:
        raise ValueError(
            "threshold expects rows, or a summary without weights, and multilabel rows without skip_missing: its "
            "guarantee counts rows."
        )
    chosen = data.source.layout.setting("confidence" if setting is None else setting)
    state, grid = _histogram(data.source, chosen)
    promise = _Promise(risk, 1 - confidence, grid, _limited(chosen, vector=data.source.layout.vector))
    models = data.source.layout.batch * math.prod(axis.size for axis in data.by if str(axis.name) in data.batch_names)
    mass = state.mass[..., ::-1, :].reshape(models, -1, grid.size, 2)
    values = [promise.values(of_model) for of_model in mass]
    return _dataset(data, chosen, class_dim, values, promise, data.attributes)


@dataclass(frozen=True)
class _Promise:
    """The risk allowed, the probability of more, the grid of the thresholds, and what is above them."""

    risk: float
    chance: float
    grid: Grid
    what: Limited

    @property
    def test(self) -> RiskTest:
        """The test of a single threshold."""
        return RiskTest(self.risk)

    def values(self, mass: Counts) -> dict[str, npt.NDArray[Any]]:
        """The values of all variables by sequence, from rows (sequences, cells from above, outcome)."""
        borders = self.grid.edges[-2::-1]
        rows, right = np.cumsum(mass.sum(-1), -1), np.cumsum(mass[..., 1], -1)
        errors = rows - right
        tested = [total for total in rows[:, -1].tolist() if total >= self.test.least_rows(self.chance)]
        part = self.chance / max(1, len(tested))
        sequences = [Fallback.of(self.test, of, part) for of in rows]
        pvalues = [
            self.test.pvalues(n[sequence.steps], e[sequence.steps])
            for n, e, sequence in zip(rows, errors, sequences, strict=True)
        ]
        level = level_of_each(sequences, pvalues, self.chance)
        planned = np.array(
            [[self._planned(n, e, times, part) for times in _TIMES] for n, e in zip(rows, errors, strict=True)]
        )
        values: dict[str, npt.NDArray[Any]] = {name: np.full(len(mass), np.nan) for name in _MEASURED}
        values |= {"coverage": np.zeros(len(mass)), **{name: np.zeros(len(mass), np.int64) for name in _COUNTED}}
        for i, (sequence, of_steps) in enumerate(zip(sequences, pvalues, strict=True)):
            rejected, levels = sequence.tested(of_steps, level)
            if not rejected.any():
                continue
            last = int(np.flatnonzero(rejected)[-1])
            place = sequence.steps[last]
            above, wrong = rows[i, place], errors[i, place]
            values["threshold"][i], values["pvalue"][i] = borders[place], of_steps[last]
            values["answers"][i], values["errors"][i] = above, wrong
            values["coverage"][i], values["risk"][i] = above / rows[i, -1], wrong / above
            values["risk_high"][i] = self.test.upper(above, wrong, levels[last])
        values |= {"rows": rows[:, -1], "events": right[:, -1], "frequency": _over(right[:, -1], rows[:, -1])}
        least = self.test.least_rows(part)
        words = [
            sentence({name: of[i] for name, of in values.items()}, self.risk, 1 - self.chance, more, least, self.what)
            for i, more in enumerate([list(zip(_TIMES, of, strict=True)) for of in planned.tolist()])
        ]
        return values | {"planned_coverage": planned, "sentence": np.array(words)}

    def _planned(self, rows: Counts, errors: Counts, times: float, chance: float) -> float:
        """The coverage with so many times the rows, and the errors; NaN if no threshold would qualify."""
        if not rows[-1]:
            return math.nan
        # As good as any number: limits are within a hundredth of a percent of the rates.
        factor = 1e9 / rows[-1] if math.isinf(times) else times
        many = (rows * factor).astype(np.int64)
        sequence = Fallback.of(self.test, many, chance)
        at = sequence.steps
        rejected, _ = sequence.tested(self.test.pvalues(many[at], np.ceil(errors[at] * factor)), chance)
        return float(many[at[rejected]].max() / many[-1]) if rejected.any() else math.nan


_MEASURED, _COUNTED = ("threshold", "risk", "risk_high", "pvalue"), ("answers", "errors")


def _limited(setting: Setting, *, vector: bool) -> Limited:
    if setting.kind != "confidence":
        return "score"
    return "confidence of a score" if vector else "confidence"


def _histogram(source: Source, setting: Setting) -> tuple[GridState, Grid]:
    """The finest histogram of the scores of all rows."""
    histogram = source.finest(setting) if isinstance(source, SummarySource) else histogram_of(setting)
    (state,) = source.answer((histogram,))
    return state, histogram.grid


def _over(sums: Counts, count: Counts) -> Array:
    return np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)


def _dataset(
    data: Input,
    setting: Setting,
    class_dim: str,
    values: Sequence[dict[str, npt.NDArray[Any]]],
    promise: _Promise,
    said: dict[str, Any],
) -> xr.Dataset:
    class_dim = data.class_dim(class_dim)
    axes = (*data.batch, *data.by)
    coordinates: dict[Hashable, Any] = {axis.name: (axis.name, axis.labels) for axis in axes if axis.labels is not None}
    dims: list[Hashable] = [axis.name for axis in axes]
    shape = [axis.size for axis in axes]
    if setting.per_class:
        classes = data.source.layout.classes
        coordinates[class_dim] = (class_dim, np.arange(classes) if data.classes is None else np.asarray(data.classes))
        dims, shape = [*dims, class_dim], [*shape, classes]
    joined = {name: np.concatenate([of[name] for of in values]) for name in values[0]}
    shaped = {name: array.reshape((*shape, *array.shape[1:])) for name, array in joined.items()}
    planned = shaped.pop("planned_coverage")
    attributes: dict[str, Any] = {"rows": data.source.rows, "risk": promise.risk, "confidence": 1 - promise.chance}
    attributes |= {"least_rows": promise.test.least_rows(promise.chance), **said}
    names = {"slices": data.slice_names, "batch": [*(str(axis.name) for axis in data.batch), *data.batch_names]}
    attributes |= {name: of_name for name, of_name in names.items() if of_name}
    result = described(PROMISED, shaped, dims, coordinates, str(setting), class_dim, **attributes)
    planning = described(
        PROMISED, {"planned_coverage": planned}, [*dims, "times"], {"times": np.array(_TIMES)}, str(setting), class_dim
    )
    return result.assign(planned_coverage=planning["planned_coverage"]).assign_attrs(passes=data.source.passes)
