"""`threshold`: the lowest confidence above which predictions can be accepted, with a guarantee on their errors."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.analysis import Analysis, Heading, Outcome, SettingName, population_sentences
from calibdask.analyses.clustered import check_binomial
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.options import InputOptions, Task
from calibdask.data.population import Population
from calibdask.engine.axes import column_name
from calibdask.engine.sources.source import Source
from calibdask.estimators.about import PartInfo
from calibdask.inference.choice import check_confidence, check_level
from calibdask.inference.risk_control import TIMES, RiskControl
from calibdask.results.build import described
from calibdask.results.document import Cell, Document, Section, Sentence, Table, number, text
from calibdask.results.format import counted, joined, percent, plain, slice_text
from calibdask.results.values import Results
from calibdask.statistics.bins.grid import Grid, GridState
from calibdask.statistics.settings import Setting

_VARIABLES: Mapping[str, PartInfo] = {
    "threshold": PartInfo("predictions with a larger score can be accepted", "choice"),
    "coverage": PartInfo("share of the rows above the threshold", "statistic", "higher"),
    "risk": PartInfo("share of errors above the threshold", "statistic", "lower"),
    "risk_high": PartInfo("upper confidence limit of the risk at the threshold", "statistic", "lower"),
    "answers": PartInfo("rows above the threshold", "count"),
    "errors": PartInfo("errors above the threshold", "count"),
    "pvalue": PartInfo("p-value for the null hypothesis that the risk exceeds the limit", "pvalue"),
    "planned_coverage": PartInfo("coverage with this multiple of the rows and unchanged error rates", "statistic"),
    "sentence": PartInfo("the promise in words", "choice"),
}

# What is above a threshold.
Limited = Literal["score", "confidence", "confidence of a score"]

_MORE = {2.0: "twice the", math.inf: "any number of"}
_HEADINGS = ("threshold", "accepted", "share", "errors", "errors at most")
_RECORDED = ("threshold", "coverage", "risk", "risk_high", "answers", "errors", "pvalue", "rows", "sentence")
_JSON = """{"format": 1, "rows": int, "passes": int, "calibdask_version": str, "setting": str,
 "risk": float, "confidence": float, "least_rows": int,
 "thresholds": [{"by": {COLUMN: value}, "threshold": float or null, "coverage": float,
                 "risk": float, "risk_high": float, "answers": int, "errors": int,
                 "pvalue": float, "rows": int, "sentence": str,
                 "planned_coverage": {"2": float, "5": float, "10": float, "inf": float}}]}
"planned_coverage": with that many times the rows at the same error rate."""


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
    population: Population | None = None,
    groups: Any = None,
) -> xr.Dataset:
    """Choose the lowest confidence above which predictions can be accepted, with a guarantee on their error rate.

    With s the confidence of a row and error 1 if its prediction is wrong, the threshold t is such that

        P( E[error | s > t] > risk ) <= 1 - confidence

    over random samples of rows, for any model, calibrated or not.

    Parameters
    ----------
    y_true, y_prob, label, score, skip_missing, task, logits, labels, pos_label, ignore_label
        As for `calibdask.evaluate`; ``y_true`` may also be a summary of `calibdask.summarize`.
    sample_dim, class_dim, sum_tolerance
        As for `calibdask.evaluate`.
    risk : float, default 0.05
        Maximum share of errors among the accepted predictions.
    confidence : float, default 0.95
        Probability of the guarantee: that all thresholds of a model, over all slices, keep the risk.
    by : array of shape (n,), mapping, or names of columns, optional
        Slices with separate thresholds, as for `calibdask.evaluate`; for a summary, the names of its slices, with the
        others pooled.
    setting : str or int, optional
        ``"confidence"`` (default; for a vector of scores too), ``"binary"`` or the number of a class (answers are
        claims of that class), ``"classwise"`` (claims of each class, each with a threshold).
    population : Population, optional
        Corrects the scores for the sample by ``train_prevalence`` or ``sampling_rate``. A prevalence, which weights
        rows, raises an error: the guarantee counts rows.
    groups : array of shape (n,), or name of a column, optional
        Clusters of dependent rows raise an error: the guarantee holds for independent rows, such as one per cluster.

    Returns
    -------
    xarray.Dataset
        By slice: ``threshold``, NaN if none qualifies; ``coverage``, the share of the rows above it, or 0 if none
        qualifies; ``risk``, the share of errors among them, and ``risk_high``, its upper confidence limit, at most the
        allowed risk; ``answers`` and ``errors``, these rows and the wrong ones among them; ``pvalue`` of the test of
        the threshold.

        ``planned_coverage`` along ``times``: the expected coverage with 2, 5, 10 times the rows, and with any
        number, at the same error rate. ``sentence``: the result in words. The attribute ``least_rows`` is the number of
        error-free rows that suffice, 59 for a risk of 5 % with confidence 95 %.

    Raises
    ------
    ValueError
        If ``risk`` or ``confidence`` is not between 0 and 1; if there are weights or clusters; as `calibdask.evaluate`.

    Notes
    -----
    Thresholds are tested in a fixed order from strict to lax [1]_, with N rows above t, Err errors among them, by

        p(t) = P(Binomial(N, risk) <= Err);

    the lowest threshold whose test rejects is chosen. The order is determined by the scores alone, before errors are
    used: about 200 cell boundaries of a fine grid, half a percent of the rows apart, starting at a tenth of the rows
    (at less with many rows, and at more if even no errors among them would not pass). The first test has half of the
    level 1 - confidence, which each rejecting test passes on to the next; the other half starts at a third of the rows,
    in case the most confident predictions are not the best [2]_. Few rows have a single start.

    Several slices (and classes) start with equal parts of the level; a slice whose tests all reject passes its part on
    to the others; with one test per slice this is Holm's method [3]_. Slices with too few rows are not tested.

    The guarantee is for rows from the same distribution, independent of each other and of the fit of the model; it says
    nothing about later rows that differ. The number of tests does not weaken it, but choosing among results does: do
    not repeat the call with other risks until one suits.

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
    options = InputOptions(
        task, logits, labels, pos_label, ignore_label, sample_dim, class_dim, sum_tolerance, label, score, skip_missing
    )
    options = replace(options, population=population, groups=groups, groups_name="")
    return Threshold(risk, confidence, setting).run(Data.of(y_true, y_prob, by, None, options))


@dataclass(frozen=True)
class Threshold(Analysis):
    """Choose a threshold above which predictions need no review.

    The lowest threshold is chosen for which the true error rate above it is at most the risk, in 95 of 100 data sets by
    default. DATA are scored rows, as for evaluate, or a summary. With slices, the guarantee holds for all thresholds
    simultaneously.

    Parameters
    ----------
    risk : float
        Largest share of errors among the accepted predictions.
    confidence : float
        Probability of the guarantee.
    setting : str or int, optional
        Predicted class (confidence), class 1 (binary), or each class (classwise).
    """

    risk: float
    confidence: float = 0.95
    setting: SettingName | str | int | None = None

    name: ClassVar[str] = "threshold"
    heading: ClassVar[Heading] = "Decide"
    population: ClassVar[bool] = True
    json_head: ClassVar[Sequence[str]] = (*Analysis.json_head, "setting", "risk", "confidence", "least_rows")
    json_shape: ClassVar[str] = _JSON
    statuses: ClassVar[Mapping[Outcome, str]] = {
        "met": "every slice has a threshold",
        "undecided": "in some slice none qualifies",
    }
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        (
            "calibdask threshold rows.parquet --risk 0.05",
            "accept predictions with at most 5 % errors",
        ),
        ("calibdask threshold rows.parquet --risk 0.01 --by country", "by country, adjusted for multiple comparisons"),
        ("calibdask threshold summary.zarr --risk 0.05 --json", "from a summary, for a program"),
    )

    def compute(self, data: Data) -> xr.Dataset:
        """The thresholds, as `calibdask.threshold` returns them."""
        check_level(self.risk, "risk")
        check_confidence(self.confidence)
        if data.options.population is not None:
            data.options.population.check_counts_rows("threshold")
        rows = data.pooled().read(takes_groups=True)
        layout = rows.source.layout
        check_binomial("threshold", layout, has_rows=data.has_rows)
        chosen = layout.setting("confidence" if self.setting is None else self.setting)
        state, grid = _histogram(rows.source, chosen)
        control = RiskControl(self.risk, 1 - self.confidence, grid.edges)
        models = layout.batch * math.prod(axis.size for axis in rows.by if str(axis.name) in rows.batch_names)
        mass = state.mass[..., ::-1, :].reshape(models, -1, grid.size, 2)
        limited = _limited(chosen, vector=layout.vector)
        values = [_with_sentences(control.values(of_model), control, limited) for of_model in mass]
        return _dataset(rows, chosen, data.options.class_dim, values, control, rows.attributes)

    def document(self, result: xr.Dataset) -> Document:
        """A sentence for each slice, and their numbers in a table."""
        slices = list(_slices(result))
        sentences = [_slice_sentence(labels, here) for labels, here in slices]
        dims = [str(dim) for dim in result["threshold"].dims]
        columns = [*((column_name(dim), False) for dim in dims), *((heading, True) for heading in _HEADINGS)]
        rows = [[*map(text, map(slice_text, labels.values())), *_cells(here)] for labels, here in slices]
        table = Table("", columns, rows, name="thresholds")
        qualifies = bool(result["threshold"].notnull().any())
        elements = [*sentences, *([table] if qualifies else []), *population_sentences(result)]
        return Document("Acceptance threshold", "", [Section("thresholds", "", elements)], name=self.name)

    def records(self, result: xr.Dataset) -> dict[str, Any]:
        """A record for each slice."""
        return {"thresholds": [_record(labels, here) for labels, here in _slices(result)]}

    def outcome(self, result: xr.Dataset) -> Outcome:
        """Undecided if some slice has no threshold."""
        return "undecided" if bool(result["threshold"].isnull().any()) else "met"


def _slices(result: xr.Dataset) -> Iterator[tuple[Mapping[str, Any], xr.Dataset]]:
    """Labels by dimension, and the part of the result, of each slice."""
    for at, labels in Results(result).strata([str(dim) for dim in result["threshold"].dims]):
        yield {str(dim): plain(label) for dim, label in labels.items()}, result.isel(at)


def _slice_sentence(labels: Mapping[str, Any], here: xr.Dataset) -> Sentence:
    words = str(here["sentence"].values)
    place = ", ".join(f"{column_name(name)} {slice_text(label)}" for name, label in labels.items())
    return Sentence(f"{place}: {words}" if place else words, name="conclusion")


def _cells(here: xr.Dataset) -> list[Cell]:
    """Threshold, coverage, errors and their upper limit of one slice; dashes where there is no threshold."""
    if math.isnan(float(here["threshold"])):
        return [Cell("–", numeric=True) for _ in _HEADINGS]
    border, coverage, share, high = (float(here[name]) for name in ("threshold", "coverage", "risk", "risk_high"))
    answers = int(here["answers"])
    return [
        number(border, f"{border:.6g}"),
        number(answers, f"{answers:,}"),
        number(coverage, percent(coverage)),
        number(share, percent(share)),
        number(high, percent(high)),
    ]


def _record(labels: Mapping[str, Any], here: xr.Dataset) -> dict[str, Any]:
    planned = zip(here["times"].values.tolist(), here["planned_coverage"].values.tolist(), strict=True)
    numbers = {name: plain(here[name].values) for name in _RECORDED}
    return {
        "by": dict(labels),
        **numbers,
        "planned_coverage": {f"{times:g}": plain(coverage) for times, coverage in planned},
    }


def _limited(setting: Setting, *, vector: bool) -> Limited:
    if setting.kind != "confidence":
        return "score"
    return "confidence of a score" if vector else "confidence"


def _histogram(source: Source, setting: Setting) -> tuple[GridState, Grid]:
    """The finest histogram of the scores of all rows."""
    histogram = source.finest(setting)
    (state,) = source.answer((histogram,))
    return state, histogram.grid


def _with_sentences(
    values: dict[str, npt.NDArray[Any]], control: RiskControl, limited: Limited
) -> dict[str, npt.NDArray[Any]]:
    """The values with a sentence for each threshold in place of the number of rows that it takes."""
    numbers = {name: values[name] for name in ("threshold", "coverage", "answers", "errors", "rows")}
    sentences = []
    for i, (coverages, least) in enumerate(zip(values["planned_coverage"].tolist(), values["least_rows"], strict=True)):
        planned = list(zip(TIMES, coverages, strict=True))
        here = {name: array[i] for name, array in numbers.items()}
        sentences.append(sentence(here, control.risk, 1 - control.chance, planned, int(least), limited))
    kept = {name: array for name, array in values.items() if name != "least_rows"}
    return kept | {"sentence": np.array(sentences)}


def _dataset(
    data: Input,
    setting: Setting,
    class_dim: str,
    values: Sequence[dict[str, npt.NDArray[Any]]],
    control: RiskControl,
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
    attributes: dict[str, Any] = {"rows": data.source.rows, "risk": control.risk, "confidence": 1 - control.chance}
    attributes |= {"least_rows": control.test.least_rows(control.chance), **said}
    names = {"slices": data.slice_names, "batch": [*(str(axis.name) for axis in data.batch), *data.batch_names]}
    attributes |= {name: of_name for name, of_name in names.items() if of_name}
    result = described(_VARIABLES, shaped, dims, coordinates, str(setting), class_dim, **attributes)
    planning = described(
        _VARIABLES,
        {"planned_coverage": planned},
        [*dims, "times"],
        {"times": np.array(TIMES)},
        str(setting),
        class_dim,
    )
    return result.assign(planned_coverage=planning["planned_coverage"]).assign_attrs(passes=data.source.passes)


def sentence(
    numbers: Mapping[str, Any],
    limit: float,
    confidence: float,
    planned: Sequence[tuple[float, float]],
    least: int,
    what: Limited = "score",
) -> str:
    """The guarantee for a slice in words; without a threshold, the reason.

    ``numbers``: threshold, coverage, answers, errors and rows. ``planned``: numbers of times the rows, and the coverage
    with so many. ``least``: rows that suffice without an error. ``what`` is above the threshold; of a score for one of
    two classes the confidence is that in the more probable one.

    Examples
    --------
    >>> sentence({"threshold": math.nan, "rows": 40, "coverage": 0.0}, 0.05, 0.95, [], 59)
    'No threshold qualifies: a risk of at most 5 % with confidence 95 % takes 59 rows without an error; there are 40.'
    """
    promise = f"a risk of at most {percent(limit)} with confidence {percent(confidence)}"
    more = [(times, coverage) for times, coverage in planned if coverage > numbers["coverage"]]
    if not math.isnan(numbers["threshold"]):
        answers = counted(int(numbers["answers"]), "row")
        errors = counted(int(numbers["errors"]), "was", "were")
        border = float(numbers["threshold"])
        either = f" (scores above {border:.6g} or below {1 - border:.6g})" if what == "confidence of a score" else ""
        limited, coverage = what.partition(" ")[0], numbers["coverage"]
        accepted = f"{border:.6g}{either} can be accepted without review, {percent(coverage)} of all"
        accepted = f"Predictions with a {limited} above {accepted}"
        if coverage == 1:
            accepted = f"All predictions can be accepted without review, with no threshold on the {limited}"
        words = f"{accepted}: of {answers} {errors} wrong, which gives {promise}."
        return f"{words} {_more(more)}" if more else words
    rows = int(numbers["rows"])
    if rows < least:
        return f"No threshold qualifies: {promise} takes {counted(least, 'row')} without an error; there are {rows:,}."
    words = f"No threshold qualifies for {promise}."
    if more:
        return f"{words} {_more(more)}"
    return f"{words} At these rates of errors none would with any number of rows."


def _more(planned: Sequence[tuple[float, float]]) -> str:
    """Coverages with more rows; those that bring nothing over fewer ones are left out."""
    kept: list[tuple[float, float]] = []
    for times, coverage in planned:
        if not kept or coverage > kept[-1][1]:
            kept.append((times, coverage))
    texts = [f"{percent(coverage)} with {_MORE.get(times, f'{times:g} times the')} rows" for times, coverage in kept]
    return f"At these rates of errors it would be {joined(texts)}."
